//! Products with 16-bit and quantized weights. They have the bits of the same weights in `f32`, or are within the bound of an
//! `f64` reference.

use crate::common::{assert_close, bits, dot, gamma};
use proptest::prelude::*;
use regard_kernels::{
    Half, Mat, MatMut, Packed, PackedHalf, Quantization, Quantized, Store, internal::f32_from_f16,
    matmul_packed, matmul_packed_half, packed_len, quantized_scratch_len,
};

/// Numbers between −1 and 1.
fn numbers(len: usize, seed: f64) -> Vec<f32> {
    (0..len).map(|i| ((i as f64 * 0.618_034 + seed).fract() * 2.0 - 1.0) as f32).collect()
}

#[test]
fn every_f16_is_widened_exactly() {
    for bits in 0..=u16::MAX {
        let (sign, exponent) =
            (if bits >> 15 == 0 { 1.0 } else { -1.0 }, i32::from((bits >> 10) & 31));
        let fraction = f64::from(bits & 1023);
        let expected = match (exponent, fraction > 0.0) {
            (31, true) => f64::NAN,
            (31, false) => sign * f64::INFINITY,
            (0, _) => sign * fraction * 2_f64.powi(-24),
            _ => sign * (1024.0 + fraction) * 2_f64.powi(exponent - 25),
        };
        let found = f64::from(f32_from_f16(bits));
        assert!(
            found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan(),
            "{bits:#x}"
        );
    }
}

proptest! {
    #[test]
    fn half_weights_give_the_bits_of_f32_weights(
        (rows, depth, cols) in (0_usize..7, 0_usize..900, 0_usize..80),
        bf16 in any::<bool>(),
        add in any::<bool>(),
        seed in 0.0..1.0_f64,
    ) {
        let len = packed_len(depth, cols);
        let kind = if bf16 { Half::Bf16 } else { Half::F16 };
        // The exponents are near that of 1, so that no number is infinite.
        let stored: Vec<u16> = (0..len)
            .map(|i| {
                let fraction = (i as f64 * 0.7548 + seed).fract() * 65536.0;
                let top = if bf16 { 0x3f80 } else { 0x3c00 };
                (fraction as u16 & if bf16 { 0x807f } else { 0x83ff }) | top
            })
            .collect();
        let widen = |bits: &u16| if bf16 { f32::from_bits(u32::from(*bits) << 16) } else { f32_from_f16(*bits) };
        let wide: Vec<f32> = stored.iter().map(widen).collect();
        let x = numbers(rows * depth, seed);
        let x = Mat::new(&x, rows, depth).unwrap();
        let mut expected = numbers(rows * cols, seed + 0.5);
        let mut found = expected.clone();
        let packed = Packed::new(&wide, depth, cols).unwrap();
        let store = if add { Store::Add } else { Store::Set };
        matmul_packed(x, packed, MatMut::new(&mut expected, rows, cols).unwrap(), store).unwrap();
        let half = PackedHalf::new(&stored, kind, depth, cols).unwrap();
        matmul_packed_half(x, half, MatMut::new(&mut found, rows, cols).unwrap(), store).unwrap();
        prop_assert_eq!(bits(&found), bits(&expected));
    }

    /// The reference multiplies W in `f32`. The bound holds for any order of the sum, with or without fused multiply-add.
    #[test]
    fn products_with_quantized_rows_are_those_of_f64(
        (tokens, rows, blocks) in (0_usize..9, 0_usize..20, 0_usize..60),
        format in prop::sample::select(Quantization::ALL),
        add in any::<bool>(),
        seed in 0.0..1.0_f64,
    ) {
        let cols = columns(format, blocks);
        let bytes = blocks_of(format, rows, cols, seed);
        let w = Quantized::new(&bytes, format, rows, cols).unwrap();
        let mut wide = vec![0.0; rows * cols];
        w.widen(MatMut::new(&mut wide, rows, cols).unwrap()).unwrap();
        let x = numbers(tokens * cols, seed + 0.9);
        let x_view = Mat::new(&x, tokens, cols).unwrap();
        let y = product(w, x_view, rows, false);
        for (i, found) in y.iter().enumerate() {
            let (token, r) = (i / rows, i % rows);
            let (sum, magnitudes) = dot(&wide[r * cols..][..cols], &x[token * cols..][..cols]);
            assert_close(*found, sum, gamma(cols + 1) * magnitudes, format_args!("element {i}"));
        }
        if add {
            let expected: Vec<f32> = y.iter().map(|y| 1.0 + y).collect();
            prop_assert_eq!(bits(&product(w, x_view, rows, true)), bits(&expected));
        }
    }
}

/// The number of columns of so many blocks of 32, rounded up to whole blocks of the format.
fn columns(format: Quantization, blocks: usize) -> usize {
    let (block, _) = format.block();
    blocks * 32 / block * block
}

/// Blocks of random numbers, whose scales and offsets are near 1.
fn blocks_of(format: Quantization, rows: usize, cols: usize, seed: f64) -> Vec<u8> {
    let (block, size) = format.block();
    let random = numbers(rows * cols / block * size, seed);
    let mut bytes: Vec<u8> = random.iter().map(|x| (x * 127.0) as i8 as u8).collect();
    let places: &[usize] = match format {
        Quantization::Q8_0 | Quantization::Q4_0 | Quantization::Q5_0 | Quantization::Iq4Nl => &[0],
        Quantization::Q6K => &[208],
        Quantization::Q2K => &[80, 82],
        Quantization::Q3K => &[108],
        Quantization::Mxfp4 => &[],
        _ => &[0, 2],
    };
    for (i, block) in bytes.chunks_exact_mut(size).enumerate() {
        for at in places {
            block[at + 1] = ((12 + (i + at) % 6) << 2) as u8 | block[at + 1] & 0x83;
        }
        if format == Quantization::Mxfp4 {
            block[0] = 125 + (i % 6) as u8;
        }
    }
    bytes
}

/// xWᵀ, or 1 + xWᵀ.
fn product(w: Quantized<'_>, x: Mat<'_>, rows: usize, add: bool) -> Vec<f32> {
    let tokens = x.rows();
    let mut y = vec![1.0; tokens * rows];
    let mut scratch = vec![f32::NAN; quantized_scratch_len(tokens)];
    let out = MatMut::new(&mut y, tokens, rows).unwrap();
    w.multiply(x, out, if add { Store::Add } else { Store::Set }, &mut scratch).unwrap();
    y
}

#[test]
fn a_row_times_quantized_rows_is_the_same_among_any_number_of_rows() {
    const MANY: usize = 101; // more rows than are multiplied by a strip of W at a time
    const ROWS: usize = 11;
    for &format in Quantization::ALL {
        for cols in [columns(format, 8), columns(format, 18), columns(format, 48)] {
            let bytes = blocks_of(format, ROWS, cols, 0.3);
            let w = Quantized::new(&bytes, format, ROWS, cols).unwrap();
            let x = numbers(MANY * cols, 0.7);
            let x = Mat::new(&x, MANY, cols).unwrap();
            let all = product(w, x, ROWS, false);
            for few in 1..=10 {
                for first in [0, MANY / 2, MANY - few] {
                    let found = product(w, x.rows_from(first, few), ROWS, false);
                    let expected = &all[first * ROWS..(first + few) * ROWS];
                    assert!(found == expected, "{format:?}, {few} rows from {first} on, {cols}");
                }
            }
        }
    }
}
