//! Attention: the naive loops, the fused kernel on one thread, and all heads in parallel. An element of the throughput is
//! a multiply-add; a causal mask owes half of them.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use regard::{Attention, Heads, Position};
use regard_benches::numbers;
use regard_kernels::{Mask, Mat, MatMut, attention_scratch_len, naive};

const HEADS: usize = 8;

fn attention(c: &mut Criterion) {
    for causal in [false, true] {
        let mut group = c.benchmark_group(if causal { "attention, causal" } else { "attention" });
        group.sample_size(20);
        for (n, d) in [(16, 16), (128, 32), (512, 64)] {
            one_size(&mut group, n, d, causal);
        }
    }
}

type Group<'a> = criterion::BenchmarkGroup<'a, criterion::measurement::WallTime>;

fn one_size(group: &mut Group<'_>, n: usize, d: usize, causal: bool) {
    let [q, k, v] = [0.1, 0.2, 0.3].map(|seed| numbers(HEADS * n * d, seed));
    let multiply_adds = HEADS * 2 * n * n * d / if causal { 2 } else { 1 };
    group.throughput(Throughput::Elements(multiply_adds as u64));
    let size = format!("{HEADS} × {n} × {d}");

    // A function, because a closure's result cannot borrow from its argument.
    fn head(x: &[f32], h: usize, n: usize, d: usize) -> Mat<'_> {
        Mat::new(&x[h * n * d..], n, d).expect("n × d")
    }
    let heads = |h: usize| (head(&q, h, n, d), head(&k, h, n, d), head(&v, h, n, d));
    let (mut out, mut scores) = (vec![0.0; n * d], vec![0.0; n]);
    group.bench_function(BenchmarkId::new("naive", &size), |bench| {
        bench.iter(|| {
            for h in 0..HEADS {
                let out = MatMut::new(&mut out, n, d).expect("n × d");
                let (q, k, v) = heads(h);
                naive::attention(q, k, v, out, causal, &mut scores);
            }
        });
    });

    let mask = if causal { Mask::NONE.causal(Position::TopLeft) } else { Mask::NONE };
    let kernel = regard_kernels::Attention::new().mask(mask);
    let mut scratch = vec![0.0; attention_scratch_len(n, n, d)];
    group.bench_function(BenchmarkId::new("kernel", &size), |bench| {
        bench.iter(|| {
            for h in 0..HEADS {
                let out = MatMut::new(&mut out, n, d).expect("n × d");
                let (q, k, v) = heads(h);
                kernel.forward(q, k, v, out, &mut scratch).expect("the shapes fit");
            }
        });
    });

    let mut layer = Attention::new();
    if causal {
        layer = layer.causal(Position::TopLeft);
    }
    group.bench_function(BenchmarkId::new("multi-head", &size), |bench| {
        bench.iter(|| {
            let [q, k, v] = [&q, &k, &v].map(|x| Heads::new("x", x, [1, HEADS, n, d]).expect("the shape fits"));
            layer.forward(q, k, v).expect("the shapes fit")
        });
    });
}

criterion_group!(benches, attention);
criterion_main!(benches);
