//! The measurements of `regard bench`, with criterion's statistics. Throughput counts floating-point operations as elements.
//!
//! `cargo bench -p regard-benches -- attention` runs a part of them.

use core::time::Duration;

use clap::Parser as _;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use regard_benches::ours;

/// The arguments of `regard bench`.
const SIZES: [&str; 22] = [
    "dot --dim 256",
    "dot --dim 4096",
    "matmul --fixed --queries 4",
    "matmul --fixed --queries 8",
    "matmul --fixed --queries 16",
    "matmul --fixed --queries 32",
    "matmul --fixed --queries 64",
    "matmul --queries 128 --dim 128 --keys 128",
    "matmul --queries 512 --dim 512 --keys 512",
    "softmax --queries 1 --keys 64",
    "softmax --queries 1 --keys 4096",
    "attention --fixed --queries 4 --dim 8",
    "attention --fixed --queries 16 --dim 16",
    "attention --queries 128 --dim 32 --heads 12",
    "attention --queries 128 --dim 64",
    "attention --queries 128 --dim 64 --causal",
    "attention --queries 512 --dim 64",
    "attention --queries 512 --dim 64 --causal",
    "attention --queries 1024 --dim 128 --heads 2",
    "attention --queries 1024 --dim 128 --heads 2 --causal",
    "attention --queries 500 --dim 80 --heads 2",
    "attention --queries 1 --keys 2048 --dim 64 --heads 9",
];

#[derive(clap::Parser)]
#[command(no_binary_name = true)]
struct Sizes {
    #[command(flatten)]
    args: regard_benches::Args,
}

fn all(c: &mut Criterion) {
    for size in SIZES {
        let Sizes { args } = Sizes::parse_from(size.split(' '));
        for (operation, shape) in args.operations().expect("flags of the operation") {
            let mut group = c.benchmark_group(operation.name());
            group
                .sample_size(20)
                .warm_up_time(Duration::from_millis(300))
                .measurement_time(Duration::from_secs(1));
            group.throughput(Throughput::Elements(shape.flops(operation) as u64));
            let subjects = ours::subjects(operation, shape).expect("a size that can be measured");
            for mut subject in subjects.implementations {
                let id = BenchmarkId::new(
                    format!("{} × {}", subject.name, subject.threads),
                    shape.text(operation),
                );
                group.bench_function(id, |bench| {
                    bench.iter_custom(|calls| subject.time(calls).expect("the shapes fit"));
                });
            }
        }
    }
}

criterion_group!(benches, all);
criterion_main!(benches);
