//! Subnormal numbers as operands, as results and as intermediate results. Vectors may treat them as zero.

use core::hint::black_box;

use regard_kernels::{
    Attention, Error, Half, Mask, Mat, MatMut, PackedHalf, Pairing, Position, Stage, Store,
    Temperature, add, add_row, int8, internal::f32_from_f16, layer_norm, matmul,
    matmul_packed_half, matmul_transposed, merge_finished, multiply, rms_norm, rotate, silu,
    softmax,
};

use crate::line::LineNumbers::Floats;
use crate::line::WriteLine;
use crate::numbers::{NUMBERS, numbers};

/// Prints the lines of all cases. The compiler may vectorize the loops here too, so inputs are made from bits, or one at a
/// time.
pub(crate) fn run(memory: &mut [f32], line: &mut WriteLine<'_>) -> Result<(), Error> {
    products(memory, line)?;
    rows(memory, line)?;
    parts(memory, line)?;
    masks(memory, line)?;
    narrow_numbers(memory, line)
}

/// The sign and the fraction of [`NUMBERS`] from `start` on, with an exponent field from 0 to 3: every fourth is subnormal.
fn fill_small(row: &mut [f32], start: usize) {
    for (i, (x, number)) in row.iter_mut().zip(&NUMBERS[start..]).enumerate() {
        *x = f32::from_bits((number.to_bits() & 0x807f_ffff) | ((i as u32 & 3) << 23));
    }
}

/// Products, weights and an attention.
#[inline(never)]
fn products(memory: &mut [f32], line: &mut WriteLine<'_>) -> Result<(), Error> {
    const M: usize = 6;
    const K: usize = 9;
    const N: usize = 7;
    let (a, rest) = memory.split_at_mut_checked(M * K).unwrap_or_default();
    let (b, rest) = rest.split_at_mut_checked(K * N).unwrap_or_default();
    let (out, scratch) = rest.split_at_mut_checked(M * N).unwrap_or_default();
    let scaled = |numbers: &mut [f32], from: usize, scale: f32| {
        for (x, number) in numbers.iter_mut().zip(&NUMBERS[from..]) {
            *x = black_box(number * scale);
        }
    };
    for (name, a_scale, b_scale) in
        [("subnormal products", 1e-19, 1e-20), ("subnormal factors", 1e-39, 1e12)]
    {
        scaled(a, 1, a_scale);
        scaled(b, 2, b_scale);
        let a = Mat::new(a, M, K)?;
        matmul(a, Mat::new(b, K, N)?, MatMut::new(out, M, N)?)?;
        line(name, Floats(out));
        matmul_transposed(a, Mat::new(b, N, K)?, MatMut::new(out, M, N)?)?;
        line(name, Floats(out));
    }
    // Rows of 16 columns, of which the first is used: numbers of bfloat16 below 2⁻¹²⁶.
    let mut bits = [0_u16; 16 * K];
    for (t, bits) in bits.iter_mut().step_by(16).enumerate() {
        *bits = 77 + t as u16;
    }
    scaled(a, 1, 1e30);
    let bf16 = PackedHalf::new(&bits, Half::Bf16, K, 1)?;
    let column = out.get_mut(..M).unwrap_or_default();
    matmul_packed_half(Mat::new(a, M, K)?, bf16, MatMut::new(column, M, 1)?, Store::Set)?;
    line("subnormal factors, bfloat16", Floats(column));
    // Weights down to the smallest ones, and the subnormal numbers that occur in computing them.
    let row = out.get_mut(..N * 3).unwrap_or_default();
    for (i, x) in row.iter_mut().enumerate() {
        *x = (i as f32 - 20.0) * 4.37;
    }
    softmax(row, Temperature::ONE);
    line("softmax, small weights", Floats(row));
    scaled(a, 1, 1.0);
    scaled(b, 2, 1e-38);
    let (q, k, v) = (Mat::new(a, M, K)?, numbers(900, N, K)?, Mat::new(b, N, K)?);
    let (out, scratch) = scratch.split_at_mut_checked(M * K).unwrap_or_default();
    Attention::new().scale(30.0).forward(q, k, v, MatMut::new(out, M, K)?, scratch)?;
    line("subnormal values", Floats(out));
    Ok(())
}

/// Sums and products element by element, norms and rotations, for rows of a whole block of lanes and a few more.
#[inline(never)]
fn rows(memory: &mut [f32], line: &mut WriteLine<'_>) -> Result<(), Error> {
    const ROWS: usize = 2;
    const COLS: usize = 22;
    const ZEROS: [f32; COLS] = [0.0; COLS];
    fn matrix(x: &mut [f32]) -> Result<MatMut<'_>, Error> {
        MatMut::new(x, ROWS, COLS)
    }
    let (rows, rest) = memory.split_at_mut_checked(ROWS * COLS).unwrap_or_default();
    let small = rest.get_mut(..ROWS * COLS).unwrap_or_default();
    fill_small(small, 100);
    let small = &*small;
    let of_row = small.get(..COLS).unwrap_or_default();
    let numbers_of_row = &NUMBERS[200..200 + COLS];
    let angles = numbers(400, ROWS, COLS / 2)?;
    let mut change = |name: &str, by: &dyn Fn(&mut [f32]) -> Result<(), Error>| {
        fill_small(rows, 11);
        by(rows)?;
        line(name, Floats(rows));
        Ok::<(), Error>(())
    };
    change("subnormal residual sum", &|x| add(x, small))?;
    change("subnormal gate", &|x| multiply(x, &NUMBERS[300..300 + ROWS * COLS]))?;
    change("subnormal bias", &|x| add_row(matrix(x)?, of_row))?;
    change("layer norm of subnormal numbers", &|x| {
        layer_norm(matrix(x)?, numbers_of_row, &ZEROS, 1e-30)
    })?;
    change("RMS norm of subnormal numbers", &|x| rms_norm(matrix(x)?, numbers_of_row, 1e-30))?;
    change("SiLU of subnormal numbers", &|x| {
        silu(x);
        Ok(())
    })?;
    for pairing in [Pairing::Interleaved, Pairing::HalfSplit] {
        change("rotary of subnormal numbers", &|x| rotate(matrix(x)?, angles, angles, pairing))?;
    }
    Ok(())
}

/// Subnormal values in two parts of the keys, which are merged before and after the division.
#[inline(never)]
fn parts(memory: &mut [f32], line: &mut WriteLine<'_>) -> Result<(), Error> {
    const N_Q: usize = 3;
    const N_K: usize = 10;
    const D_K: usize = 4;
    const D_V: usize = 21;
    let (v, rest) = memory.split_at_mut_checked(N_K * D_V).unwrap_or_default();
    let (out, rest) = rest.split_at_mut_checked(N_Q * D_V).unwrap_or_default();
    let (other, rest) = rest.split_at_mut_checked(N_Q * D_V).unwrap_or_default();
    fill_small(v, 11);
    let (q, k, v) = (numbers(3, N_Q, D_K)?, numbers(900, N_K, D_K)?, Mat::new(v, N_K, D_V)?);
    let of_keys = |start, end| Attention::new().mask(Mask::NONE.keys(start, end));
    let (first, second) = (of_keys(0, 6), of_keys(6, N_K));

    let (mut state, mut state_of_other) = ([0.0; 2 * N_Q], [0.0; 2 * N_Q]);
    let mut part = first.partial(D_K, MatMut::new(out, N_Q, D_V)?, &mut state)?;
    first.forward_partial(q, k, v, &mut part, rest)?;
    let mut part_of_other =
        second.partial(D_K, MatMut::new(other, N_Q, D_V)?, &mut state_of_other)?;
    second.forward_partial(q, k, v, &mut part_of_other, rest)?;
    part.merge(&part_of_other)?;
    part.finish(None)?;
    line("subnormal values, merged", Floats(out));

    let (mut sum, mut sum_of_other) = ([0.0; N_Q], [0.0; N_Q]);
    let view = MatMut::new(out, N_Q, D_V)?;
    first.forward_with_log_sum_exp(q, k, v, view, &mut sum, rest)?;
    let view = MatMut::new(other, N_Q, D_V)?;
    second.forward_with_log_sum_exp(q, k, v, view, &mut sum_of_other, rest)?;
    let view = MatMut::new(out, N_Q, D_V)?;
    merge_finished(view, &mut sum, Mat::new(other, N_Q, D_V)?, &sum_of_other)?;
    line("subnormal outputs, merged", Floats(out));
    Ok(())
}

/// Subnormal scores, biases and slopes.
#[inline(never)]
fn masks(memory: &mut [f32], line: &mut WriteLine<'_>) -> Result<(), Error> {
    const N_Q: usize = 3;
    const N_K: usize = 21;
    static SEEN: [bool; N_Q * N_K] = {
        let mut seen = [true; N_Q * N_K];
        seen[5] = false;
        seen
    };
    let (q, rest) = memory.split_at_mut_checked(N_Q).unwrap_or_default();
    let (bias, rest) = rest.split_at_mut_checked(N_Q * N_K).unwrap_or_default();
    let (out, scratch) = rest.split_at_mut_checked(N_Q * N_K).unwrap_or_default();
    fill_small(q, 500);
    fill_small(bias, 600);
    let (q, bias, k) = (Mat::new(q, N_Q, 1)?, Mat::new(bias, N_Q, N_K)?, numbers(900, N_K, 1)?);
    let slope = f32::from_bits(12_345);
    for (name, mask) in [
        ("subnormal scores, boolean mask", Mask::NONE.allowed(Mat::new(&SEEN, N_Q, N_K)?)),
        ("subnormal scores, additive mask", Mask::NONE.bias(bias)),
        ("subnormal scores, ALiBi", Mask::NONE.alibi(Position::TopLeft, slope)),
    ] {
        let view = MatMut::new(out, N_Q, N_K)?;
        Attention::new().mask(mask).scores(Stage::Masked, q, k, view, scratch)?;
        line(name, Floats(out));
    }
    Ok(())
}

/// Integers with a subnormal unit, and subnormal binary16 numbers, in one row and in several rows.
#[inline(never)]
fn narrow_numbers(memory: &mut [f32], line: &mut WriteLine<'_>) -> Result<(), Error> {
    const M: usize = 3;
    const K: usize = 5;
    const N: usize = 16;
    let mut row = [0.0; 21];
    let mut integers = [0; 21];
    for (x, i) in integers.iter_mut().zip(-10..) {
        *x = i;
    }
    int8::dequantize(black_box(&integers), f32::from_bits(12_345), &mut row)?;
    line("int8, a subnormal scale", Floats(&row));
    let mut bits = [0; K * N];
    for (x, i) in bits.iter_mut().zip(0..) {
        *x = 1 + 12 * i;
    }
    let numbers_of_bits = memory.get_mut(..bits.len()).unwrap_or_default();
    for (x, bits) in numbers_of_bits.iter_mut().zip(black_box(&bits)) {
        *x = f32_from_f16(*bits);
    }
    line("subnormal numbers of binary16", Floats(numbers_of_bits));
    let b = PackedHalf::new(&bits, Half::F16, K, N)?;
    for rows in [1, M] {
        let out = memory.get_mut(..rows * N).unwrap_or_default();
        matmul_packed_half(numbers(31, rows, K)?, b, MatMut::new(out, rows, N)?, Store::Set)?;
        line("subnormal factors, binary16", Floats(out));
    }
    Ok(())
}
