//! The measured operations: the kernels' and the naive loops', at the shapes of the table.

use core::hint::black_box;

use regard_kernels::{
    Attention, Error, Mask, MatMut, Position, Temperature, attention_scratch_len, exp, int8,
    matmul, naive, softmax,
};

use crate::memory::split;
use crate::numbers::{INTEGERS, NUMBERS, SCALES, integers, numbers};

/// (queries and keys, columns).
pub const SHAPES: [(usize, usize); 5] = [(8, 8), (16, 16), (32, 32), (64, 32), (64, 64)];
/// The numbers of keys of a decode step. A key has [`DECODE_COLUMNS`] columns.
pub const DECODE: [usize; 3] = [64, 256, 1024];
/// The linear layers in integers: a name, rows, inputs and outputs. `digits` has width 32, `story` and KWT-1 have 64.
pub const LINEAR: [(&str, usize, usize, usize); 5] = [
    ("linear to 32", 16, 32, 32),
    ("linear to 64", 16, 64, 64),
    ("linear to 256", 16, 64, 256),
    ("linear to 64", 16, 256, 64),
    ("linear to 256", 1, 64, 256),
];
/// Columns of a key and of a value in a decode step.
pub const DECODE_COLUMNS: usize = 32;

/// An operation at a shape, by the kernels or by the naive loops.
pub struct Cost {
    /// The operation's name.
    pub name: &'static str,
    /// Its sizes.
    pub shape: (usize, usize),
    /// `kernel`, `int8`, `naive`, or another way to compute the same.
    pub by: &'static str,
    /// Bytes of the caller's scratch memory.
    pub scratch: usize,
    /// Bytes of the inputs and the output.
    pub tensors: usize,
}

const FLOAT: usize = size_of::<f32>();

/// Calls `measure` for each operation with its description and a function that runs it once, in `memory`. An operation that does
/// not fit there is left out.
///
/// # Errors
/// None with these shapes. Errors of the kernels are passed on.
pub fn run(
    memory: &mut [f32],
    mut measure: impl FnMut(Cost, &mut dyn FnMut()),
) -> Result<(), Error> {
    for shape @ (n, d) in SHAPES {
        let causal = Mask::NONE.causal(Position::TopLeft);
        attention("attention", shape, (n, n, d), Mask::NONE, memory, &mut measure)?;
        attention("causal attention", shape, (n, n, d), causal, memory, &mut measure)?;
        let (a, b) = (numbers(0, n, n)?, numbers(n, n, d)?);
        if let Some((out, _)) = memory.split_at_mut_checked(n * d) {
            let cost = |by| Cost {
                name: "matmul",
                shape,
                by,
                scratch: 0,
                tensors: FLOAT * (n * n + 2 * n * d),
            };
            measure(cost("kernel"), &mut || {
                let _ = black_box(
                    MatMut::new(out, n, d).and_then(|out| matmul(black_box(a), black_box(b), out)),
                );
            });
            measure(cost("naive"), &mut || {
                if let Ok(out) = MatMut::new(out, n, d) {
                    naive::matmul(black_box(a), black_box(b), out);
                }
            });
        }
        if let Some((row, _)) = memory.split_at_mut_checked(n) {
            let source = &NUMBERS[..n];
            let cost = |name, by| Cost { name, shape: (1, n), by, scratch: 0, tensors: FLOAT * n };
            if d != 64 {
                measure(cost("softmax", "kernel"), &mut || {
                    row.copy_from_slice(source);
                    softmax(black_box(row), Temperature::ONE);
                });
                measure(cost("softmax", "naive"), &mut || {
                    row.copy_from_slice(source);
                    naive::softmax(black_box(row));
                });
                measure(cost("exp", "kernel"), &mut || {
                    row.copy_from_slice(source);
                    exp(black_box(row));
                });
            }
        }
    }
    for n in DECODE {
        let shape = (n, DECODE_COLUMNS);
        attention("decode step", shape, (1, n, DECODE_COLUMNS), Mask::NONE, memory, &mut measure)?;
    }
    for (name, rows, inputs, outputs) in LINEAR {
        let out: &mut [i32] = bytemuck::cast_slice_mut(memory);
        let Some(out) = out.get_mut(..rows * outputs) else { continue };
        let (x, weight) = (&INTEGERS[..rows * inputs], &INTEGERS[4..][..outputs * inputs]);
        let (bias, mantissas) = (&[0; 256][..outputs], &[1 << 30; 256][..outputs]);
        let layer = int8::Linear { weight, bias, mantissas, exponent: -8 };
        let tensors = rows * inputs + size_of::<i32>() * rows * outputs;
        let cost = Cost { name, shape: (rows, inputs), by: "int8", scratch: 0, tensors };
        measure(cost, &mut || {
            let _ = black_box(black_box(&layer).forward(black_box(x), out));
            // The next layer takes 8 bits.
            for x in &mut *out {
                *x = int8::narrow(*x).into();
            }
        });
    }
    Ok(())
}

fn attention(
    name: &'static str,
    shape: (usize, usize),
    (n_q, n_k, d): (usize, usize, usize),
    mask: Mask<'_>,
    memory: &mut [f32],
    measure: &mut impl FnMut(Cost, &mut dyn FnMut()),
) -> Result<(), Error> {
    let elements = 2 * (n_q + n_k) * d;
    int8_attention(name, shape, (n_q, n_k, d), mask, memory, measure)?;

    let (q, k, v) = (numbers(0, n_q, d)?, numbers(5, n_k, d)?, numbers(9, n_k, d)?);
    let (attention, scratch_len) =
        (Attention::new().mask(mask), attention_scratch_len(n_q, n_k, d, d));
    let cost =
        |by, scratch| Cost { name, shape, by, scratch: FLOAT * scratch, tensors: FLOAT * elements };
    let Some((out, scratch)) = memory.split_at_mut_checked(n_q * d) else { return Ok(()) };
    if let Some(scratch) = scratch.get_mut(..scratch_len) {
        measure(cost("kernel", scratch_len), &mut || {
            let (q, k, v) = black_box((q, k, v));
            let _ =
                black_box(MatMut::new(out, n_q, d).and_then(|out| {
                    black_box(&attention).forward(q, k, v, out, black_box(scratch))
                }));
        });
    }
    if let Some(scores) = scratch.get_mut(..n_k) {
        measure(cost("naive", n_k), &mut || {
            let (q, k, v) = black_box((q, k, v));
            if let Ok(out) = MatMut::new(out, n_q, d) {
                let causal = name.starts_with("causal");
                let seen = |i| if causal { n_k.min(i + 1) } else { n_k };
                naive::attention(q, k, v, out, seen, black_box(scores));
            }
        });
    }
    Ok(())
}

fn int8_attention(
    name: &'static str,
    shape: (usize, usize),
    (n_q, n_k, d): (usize, usize, usize),
    mask: Mask<'_>,
    memory: &mut [f32],
    measure: &mut impl FnMut(Cost, &mut dyn FnMut()),
) -> Result<(), Error> {
    let (q, k, v) = (integers(0, n_q, d)?, integers(5, n_k, d)?, integers(9, n_k, d)?);
    let attention =
        int8::Attention::new(SCALES, int8::default_scale(d), Temperature::ONE)?.mask(mask);
    let scratch_len = int8::attention_scratch_len(n_q, n_k, d, d);
    let (out, scratch) = split(memory, n_q * d);
    if let (Some(out), Some(scratch)) = (out.get_mut(..n_q * d), scratch.get_mut(..scratch_len)) {
        let cost = Cost {
            name,
            shape,
            by: "int8",
            scratch: size_of::<i32>() * scratch_len,
            tensors: 2 * (n_q + n_k) * d,
        };
        measure(cost, &mut || {
            let (q, k, v) = black_box((q, k, v));
            let _ =
                black_box(MatMut::new(out, n_q, d).and_then(|out| {
                    black_box(&attention).forward(q, k, v, out, black_box(scratch))
                }));
        });
    }
    Ok(())
}
