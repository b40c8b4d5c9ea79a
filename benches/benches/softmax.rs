//! Softmax of one row beside the naive loop. Both start from a copy of the same scores.

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use regard_benches::numbers;
use regard_kernels::{Temperature, naive, softmax};

fn rows(c: &mut Criterion) {
    let mut group = c.benchmark_group("softmax");
    for n in [16, 64, 256, 1024, 4096] {
        let scores = numbers(n, 0.1);
        group.throughput(Throughput::Elements(n as u64));
        group.bench_function(BenchmarkId::new("naive", n), |bench| {
            bench.iter_batched_ref(|| scores.clone(), |x| naive::softmax(x), BatchSize::SmallInput);
        });
        group.bench_function(BenchmarkId::new("kernel", n), |bench| {
            bench.iter_batched_ref(|| scores.clone(), |x| softmax(x, Temperature::ONE), BatchSize::SmallInput);
        });
    }
}

criterion_group!(benches, rows);
criterion_main!(benches);
