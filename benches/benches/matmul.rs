//! The matrix product beside the naive loops. An element of the throughput is a multiply-add.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use regard_benches::numbers;
use regard_kernels::{Mat, MatMut, fixed, matmul, naive};

fn run_time_sizes(c: &mut Criterion) {
    let mut group = c.benchmark_group("matmul");
    for n in [8, 16, 64, 128, 256] {
        let (a, b, mut out) = (numbers(n * n, 0.1), numbers(n * n, 0.2), vec![0.0; n * n]);
        let view = |x| Mat::new(x, n, n).expect("n × n");
        group.throughput(Throughput::Elements((n * n * n) as u64));
        group.bench_function(BenchmarkId::new("naive", n), |bench| {
            bench.iter(|| naive::matmul(view(&a), view(&b), MatMut::new(&mut out, n, n).expect("n × n")));
        });
        group.bench_function(BenchmarkId::new("kernel", n), |bench| {
            bench.iter(|| matmul(view(&a), view(&b), MatMut::new(&mut out, n, n).expect("n × n")));
        });
    }
}

fn fixed_size<const N: usize>(c: &mut Criterion) {
    let numbers = numbers(N * N, 0.1);
    let a: [[f32; N]; N] = core::array::from_fn(|i| core::array::from_fn(|j| numbers[i * N + j]));
    let mut group = c.benchmark_group("matmul");
    group.throughput(Throughput::Elements((N * N * N) as u64));
    group.bench_function(BenchmarkId::new("fixed", N), |bench| bench.iter(|| fixed::matmul(&a, &a)));
}

fn fixed_sizes(c: &mut Criterion) {
    fixed_size::<4>(c);
    fixed_size::<8>(c);
    fixed_size::<16>(c);
    fixed_size::<64>(c);
}

criterion_group!(benches, run_time_sizes, fixed_sizes);
criterion_main!(benches);
