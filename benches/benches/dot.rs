//! The dot product beside the naive loop.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use regard_benches::numbers;
use regard_kernels::naive;

fn dot(c: &mut Criterion) {
    let mut group = c.benchmark_group("dot");
    for n in [16, 64, 256, 1024, 4096] {
        let (a, b) = (numbers(n, 0.1), numbers(n, 0.2));
        group.throughput(Throughput::Elements(n as u64));
        group.bench_function(BenchmarkId::new("naive", n), |bench| bench.iter(|| naive::dot(&a, &b)));
        group.bench_function(BenchmarkId::new("kernel", n), |bench| bench.iter(|| regard_kernels::dot(&a, &b)));
    }
}

criterion_group!(benches, dot);
criterion_main!(benches);
