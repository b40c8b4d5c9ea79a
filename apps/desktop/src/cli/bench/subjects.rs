//! What is measured: for each operation, its implementations on the same numbers.

use core::hint::black_box;

use anyhow::{Result, ensure};
use regard::{Attention, Heads, Position, Threads};
use regard_kernels::{Mask, Mat, MatMut, Temperature, attention_scratch_len, naive};
use serde_json::{Value, json};

use super::Shape;

/// One implementation.
pub(super) struct Subject<'a> {
    pub(super) name: &'static str,
    pub(super) threads: usize,
    pub(super) call: Box<dyn FnMut() -> Result<()> + 'a>,
}

impl<'a> Subject<'a> {
    fn new(name: &'static str, call: impl FnMut() -> Result<()> + 'a) -> Self {
        Self { name, threads: 1, call: Box::new(call) }
    }
}

/// The implementations of one operation, the naive one first.
pub(super) struct Subjects {
    pub(super) operation: &'static str,
    pub(super) shape: Value,
    /// Floating-point operations of useful work a call.
    pub(super) flops: f64,
    pub(super) implementations: Vec<Subject<'static>>,
}

/// Numbers between −1 and 1 that do not repeat soon (Weyl's sequence): inputs whose values do not matter.
fn numbers(len: usize, seed: f32) -> Vec<f32> {
    (0..len).map(|i| ((i as f64 * 0.618_033_988_75 + f64::from(seed)).fract() * 2.0 - 1.0) as f32).collect()
}

/// The product of the dimensions, if the tensor is no larger than a benchmark has use for.
fn elements(what: &str, dimensions: &[usize]) -> Result<usize> {
    const MOST: usize = 1 << 28;
    let product = dimensions.iter().try_fold(1_usize, |product, n| product.checked_mul(*n)).unwrap_or(usize::MAX);
    ensure!((1..=MOST).contains(&product), "{what} of {dimensions:?} elements: from 1 to {MOST} can be measured");
    Ok(product)
}

pub(super) fn dot(shape: Shape) -> Result<Subjects> {
    let n = elements("a vector", &[shape.dim])?;
    let (a, b) = (numbers(n, 0.1), numbers(n, 0.2));
    let (a2, b2) = (a.clone(), b.clone());
    Ok(Subjects {
        operation: "dot",
        shape: json!({ "dim": n }),
        flops: 2.0 * n as f64,
        implementations: vec![
            Subject::new("naive", move || {
                black_box(naive::dot(black_box(&a), black_box(&b)));
                Ok(())
            }),
            Subject::new("kernel", move || {
                black_box(regard_kernels::dot(black_box(&a2), black_box(&b2))?);
                Ok(())
            }),
        ],
    })
}

pub(super) fn matmul(shape: Shape) -> Result<Subjects> {
    let Shape { queries: m, keys: n, dim: k, .. } = shape;
    let a = numbers(elements("A", &[m, k])?, 0.1);
    let b = numbers(elements("B", &[k, n])?, 0.2);
    let mut out = vec![0.0; elements("the product", &[m, n])?];
    let (a2, b2, mut out2) = (a.clone(), b.clone(), out.clone());
    Ok(Subjects {
        operation: "matmul",
        shape: json!({ "queries": m, "dim": k, "keys": n }),
        flops: 2.0 * (m * n * k) as f64,
        implementations: vec![
            Subject::new("naive", move || {
                naive::matmul(Mat::new(&a, m, k)?, Mat::new(&b, k, n)?, MatMut::new(&mut out, m, n)?);
                black_box(&out);
                Ok(())
            }),
            Subject::new("kernel", move || {
                regard_kernels::matmul(Mat::new(&a2, m, k)?, Mat::new(&b2, k, n)?, MatMut::new(&mut out2, m, n)?)?;
                black_box(&out2);
                Ok(())
            }),
        ],
    })
}

pub(super) fn softmax(shape: Shape) -> Result<Subjects> {
    let Shape { queries: rows, keys: cols, .. } = shape;
    // Each call starts from the same scores, so both copy them first.
    let scores = numbers(elements("the scores", &[rows, cols])?, 0.1);
    let mut weights = scores.clone();
    let (scores2, mut weights2) = (scores.clone(), scores.clone());
    Ok(Subjects {
        operation: "softmax",
        shape: json!({ "queries": rows, "keys": cols }),
        // Compare, subtract, exponentiate, add, divide.
        flops: 5.0 * (rows * cols) as f64,
        implementations: vec![
            Subject::new("naive", move || {
                weights.copy_from_slice(&scores);
                weights.chunks_exact_mut(cols).for_each(naive::softmax);
                black_box(&weights);
                Ok(())
            }),
            Subject::new("kernel", move || {
                weights2.copy_from_slice(&scores2);
                for row in weights2.chunks_exact_mut(cols) {
                    regard_kernels::softmax(row, Temperature::ONE);
                }
                black_box(&weights2);
                Ok(())
            }),
        ],
    })
}

pub(super) fn attention(shape: Shape, threads: usize) -> Result<Subjects> {
    let Shape { batch, heads, queries, keys, dim, causal } = shape;
    let (q_head, k_head) = (elements("a head of queries", &[queries, dim])?, elements("a head of keys", &[keys, dim])?);
    let q = numbers(elements("the queries", &[batch, heads, queries, dim])?, 0.1);
    let k = numbers(elements("the keys", &[batch, heads, keys, dim])?, 0.2);
    let v = numbers(k.len(), 0.3);
    // The naive loop knows top-left alone, which is the same for as many queries as keys.
    ensure!(!causal || queries == keys, "--causal needs as many queries as keys, not {queries} and {keys}");

    let tensors = (q.clone(), k.clone(), v.clone());
    let naive_loops = move || {
        let (q, k, v) = &tensors;
        let (mut out, mut scores) = (vec![0.0; q.len()], vec![0.0; keys]);
        for head in 0..batch * heads {
            naive::attention(
                Mat::new(&q[head * q_head..], queries, dim)?,
                Mat::new(&k[head * k_head..], keys, dim)?,
                Mat::new(&v[head * k_head..], keys, dim)?,
                MatMut::new(&mut out[head * q_head..], queries, dim)?,
                causal,
                &mut scores,
            );
        }
        black_box(&out);
        Ok(())
    };

    let tensors = (q.clone(), k.clone(), v.clone());
    let mut scratch = vec![0.0; attention_scratch_len(queries, keys, dim)];
    let mut out = vec![0.0; q.len()];
    let mask = if causal { Mask::NONE.causal(Position::TopLeft) } else { Mask::NONE };
    let kernels = move || {
        let (q, k, v) = &tensors;
        for head in 0..batch * heads {
            regard_kernels::Attention::new().mask(mask).forward(
                Mat::new(&q[head * q_head..], queries, dim)?,
                Mat::new(&k[head * k_head..], keys, dim)?,
                Mat::new(&v[head * k_head..], keys, dim)?,
                MatMut::new(&mut out[head * q_head..], queries, dim)?,
                &mut scratch,
            )?;
        }
        black_box(&out);
        Ok(())
    };

    let multi_head = |threads: Threads| {
        let tensors = (q.clone(), k.clone(), v.clone());
        let mut attention = Attention::new().threads(threads.clone());
        if causal {
            attention = attention.causal(Position::TopLeft);
        }
        let call = move || {
            let q = Heads::new("q", &tensors.0, [batch, heads, queries, dim])?;
            let k = Heads::new("k", &tensors.1, [batch, heads, keys, dim])?;
            let v = Heads::new("v", &tensors.2, [batch, heads, keys, dim])?;
            black_box(attention.forward(q, k, v)?);
            Ok(())
        };
        Subject { threads: threads.count(), ..Subject::new("multi-head", call) }
    };
    let mut implementations = vec![Subject::new("naive", naive_loops), Subject::new("kernel", kernels)];
    let threads = Threads::new(threads)?;
    if threads.count() > 1 {
        implementations.push(multi_head(Threads::ONE));
    }
    implementations.push(multi_head(threads));

    Ok(Subjects {
        operation: "attention",
        shape: json!({ "batch": batch, "heads": heads, "queries": queries, "keys": keys, "dim": dim, "causal": causal }),
        flops: 4.0 * (batch * heads * queries * keys * dim) as f64 / if causal { 2.0 } else { 1.0 },
        implementations,
    })
}
