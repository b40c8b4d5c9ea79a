//! This project's implementations of each operation, on the same numbers. The naive one is the first.

use core::hint::black_box;

use anyhow::{Result, bail, ensure};
use regard::{Attention, Position, Threads};
use regard_kernels::{Mask, Mat, MatMut, Temperature, attention_scratch_len, fixed, naive};

use crate::tensors::Tensors;
use crate::{Operation, Shape, Subject, Subjects, aligned_numbers, masks, numbers};

/// The naive loops, the kernels, and for attention the multi-head layer, on one thread and on the shape's threads.
///
/// # Errors
/// If the sizes cannot be measured.
pub fn subjects(operation: Operation, shape: Shape) -> Result<Subjects> {
    shape.check(operation)?;
    let implementations = match operation {
        Operation::Dot => dot(shape),
        Operation::Matmul => matmul(shape)?,
        Operation::Softmax => softmax(shape),
        Operation::Masks => masks::subjects(shape)?,
        Operation::Attention | Operation::All => attention(shape)?,
    };
    Ok(Subjects { operation, shape, implementations })
}

fn dot(shape: Shape) -> Vec<Subject> {
    let [a, b, a2, b2] = [0.1, 0.2, 0.1, 0.2].map(|seed| aligned_numbers(shape.dim, seed));
    let naive = Subject::new("naive", move || {
        black_box(naive::dot(black_box(&a), black_box(&b)));
        Ok(())
    });
    let kernel = Subject::new("kernel", move || {
        black_box(regard_kernels::dot(black_box(&a2), black_box(&b2))?);
        Ok(())
    });
    vec![naive, kernel]
}

fn matmul(shape: Shape) -> Result<Vec<Subject>> {
    let Shape { queries: m, keys: n, dim: k, .. } = shape;
    let (a, b, mut out) = (numbers(m * k, 0.1), numbers(k * n, 0.2), vec![0.0; m * n]);
    let (a2, b2, mut out2) = (a.clone(), b.clone(), out.clone());
    let naive = Subject::new("naive", move || {
        let (a, b) = (Mat::new(black_box(&a), m, k)?, Mat::new(black_box(&b), k, n)?);
        naive::matmul(a, b, MatMut::new(&mut out, m, n)?);
        black_box(&out);
        Ok(())
    });
    let kernel = Subject::new("kernel", move || {
        let (a, b) = (Mat::new(black_box(&a2), m, k)?, Mat::new(black_box(&b2), k, n)?);
        regard_kernels::matmul(a, b, MatMut::new(&mut out2, m, n)?)?;
        black_box(&out2);
        Ok(())
    });
    let mut subjects = vec![naive, kernel];
    if shape.fixed {
        ensure!(m == n && n == k, "--fixed has products of N × N × N, not {m} × {k} × {n}");
        subjects.push(match n {
            4 => fixed_matmul::<4>(),
            8 => fixed_matmul::<8>(),
            16 => fixed_matmul::<16>(),
            32 => fixed_matmul::<32>(),
            64 => fixed_matmul::<64>(),
            _ => bail!("--fixed has products of N × N × N for N = 4, 8, 16, 32 and 64, not {n}"),
        });
    }
    Ok(subjects)
}

fn array<const ROWS: usize, const COLS: usize>(seed: f64) -> [[f32; COLS]; ROWS] {
    let numbers = numbers(ROWS * COLS, seed);
    core::array::from_fn(|i| core::array::from_fn(|j| numbers[i * COLS + j]))
}

fn fixed_matmul<const N: usize>() -> Subject {
    let (a, b) = (array::<N, N>(0.1), array::<N, N>(0.2));
    Subject::new("fixed", move || {
        let out = fixed::matmul(black_box(&a), black_box(&b));
        black_box(&out);
        Ok(())
    })
}

/// The kernel works in place on the output of the previous call, because its time does not depend on the values. The naive
/// loop's exp is faster at 0, so each call gets the original scores.
fn softmax(shape: Shape) -> Vec<Subject> {
    let Shape { queries: rows, keys: cols, .. } = shape;
    let scores = numbers(rows * cols, 0.1);
    let (mut weights, mut weights2) = (scores.clone(), aligned_numbers(rows * cols, 0.1));
    let naive = Subject::new("naive", move || {
        weights.copy_from_slice(&scores);
        weights.chunks_exact_mut(cols).for_each(naive::softmax);
        black_box(&weights);
        Ok(())
    });
    let kernel = Subject::new("kernel", move || {
        let rows = MatMut::new(black_box(&mut weights2), rows, cols)?;
        regard_kernels::softmax_rows(rows, Temperature::ONE);
        Ok(())
    });
    vec![naive, kernel]
}

fn attention(shape: Shape) -> Result<Vec<Subject>> {
    let tensors = Tensors::new(shape);
    let mut subjects = vec![naive_attention(tensors.clone()), attention_kernel(tensors.clone())];
    if shape.fixed {
        let Shape { batch, heads, queries, keys, dim, causal, .. } = shape;
        subjects.push(match (batch * heads, queries, keys, dim) {
            (1, 4, 4, 8) => fixed_attention::<4, 8, { attention_scratch_len(4, 4, 8, 8) }>(causal),
            (1, 16, 16, 16) => {
                fixed_attention::<16, 16, { attention_scratch_len(16, 16, 16, 16) }>(causal)
            }
            _ => bail!(
                "--fixed has attention of one head with 4 queries and keys × 8 or 16 × 16, not {}",
                shape.text(Operation::Attention)
            ),
        });
        return Ok(subjects);
    }
    let threads = Threads::new(shape.threads)?;
    if threads.count() > 1 {
        subjects.push(multi_head(tensors.clone(), Threads::ONE));
    }
    subjects.push(multi_head(tensors, threads));
    Ok(subjects)
}

fn naive_attention(tensors: Tensors) -> Subject {
    let Shape { queries, keys, causal, .. } = tensors.shape();
    let (mut out, mut scores) = (vec![0.0; tensors.out_len()], vec![0.0; keys]);
    Subject::new("naive", move || {
        for head in black_box(&tensors).heads(&mut out) {
            let (q, k, v, out) = head?;
            let seen =
                |i: usize| if causal { (keys + i + 1).saturating_sub(queries) } else { keys };
            naive::attention(q, k, v, out, seen, &mut scores);
        }
        black_box(&out);
        Ok(())
    })
}

fn mask(causal: bool) -> Mask<'static> {
    if causal { Mask::NONE.causal(Position::BottomRight) } else { Mask::NONE }
}

fn attention_kernel(tensors: Tensors) -> Subject {
    let Shape { queries, keys, dim, causal, .. } = tensors.shape();
    let mut scratch = vec![0.0; attention_scratch_len(queries, keys, dim, dim)];
    let mut out = vec![0.0; tensors.out_len()];
    let attention = regard_kernels::Attention::new().mask(mask(causal));
    Subject::new("kernel", move || {
        for head in black_box(&tensors).heads(&mut out) {
            let (q, k, v, out) = head?;
            attention.forward(q, k, v, out, &mut scratch)?;
        }
        black_box(&out);
        Ok(())
    })
}

fn fixed_attention<const N: usize, const D: usize, const SCRATCH: usize>(causal: bool) -> Subject {
    let [q, k, v] = [0.1, 0.2, 0.3].map(array::<N, D>);
    let (mut out, mut scratch) = ([[0.0; D]; N], [0.0; SCRATCH]);
    let attention = regard_kernels::Attention::new().mask(mask(causal));
    Subject::new("fixed", move || {
        let [q, k, v] = [&q, &k, &v].map(black_box);
        fixed::attention(&attention, q, k, v, &mut out, &mut scratch)?;
        black_box(&out);
        Ok(())
    })
}

fn multi_head(tensors: Tensors, threads: Threads) -> Subject {
    let count = threads.count();
    let mask = if tensors.shape().causal { regard::Mask::CAUSAL } else { regard::Mask::NONE };
    let attention = Attention::new().mask(mask);
    let call = move || {
        let [q, k, v] = black_box(&tensors).views()?;
        black_box(threads.install(|| attention.forward(q, k, v))?);
        Ok(())
    };
    Subject::new("multi-head", call).threads(count)
}
