//! Products with narrow weights: bit by bit those of the same weights in `f32`, or within the bound of an `f64` reference.

use proptest::prelude::*;
use regard_kernels::{
    Half, Mat, MatMut, Packed, PackedHalf, Quantization, Quantized, f32_from_f16, matmul_packed,
    matmul_packed_add, matmul_packed_half, packed_len,
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
        // Exponents near that of 1, so that no number is infinite.
        let bits: Vec<u16> = (0..len)
            .map(|i| {
                let fraction = (i as f64 * 0.7548 + seed).fract() * 65536.0;
                let top = if bf16 { 0x3f80 } else { 0x3c00 };
                (fraction as u16 & if bf16 { 0x807f } else { 0x83ff }) | top
            })
            .collect();
        let widen = |bits: &u16| if bf16 { f32::from_bits(u32::from(*bits) << 16) } else { f32_from_f16(*bits) };
        let wide: Vec<f32> = bits.iter().map(widen).collect();
        let x = numbers(rows * depth, seed);
        let x = Mat::new(&x, rows, depth).unwrap();
        let mut expected = numbers(rows * cols, seed + 0.5);
        let mut found = expected.clone();
        let packed = Packed::new(&wide, depth, cols).unwrap();
        let multiply = if add { matmul_packed_add } else { matmul_packed };
        multiply(x, packed, MatMut::new(&mut expected, rows, cols).unwrap()).unwrap();
        let half = PackedHalf::new(&bits, kind, depth, cols).unwrap();
        matmul_packed_half(x, half, MatMut::new(&mut found, rows, cols).unwrap(), add).unwrap();
        let bits = |x: &[f32]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        prop_assert_eq!(bits(&found), bits(&expected));
    }

    /// The product of n terms, each of three roundings, errs by at most γ(n + 3) of the sum of magnitudes, where
    /// γ(n) = n·u/(1 − n·u) and u = 2⁻²⁴ (Higham 2002, section 3.1). A number with an offset is two terms, so n is twice the
    /// columns.
    ///
    /// The scales are powers of two, so that W in `f32` is exact; without the offsets, it is the first of the two terms.
    #[test]
    fn products_with_quantized_rows_are_those_of_f64(
        (tokens, rows, blocks) in (0_usize..6, 0_usize..10, 0_usize..20),
        format in prop::sample::select(&Quantization::ALL),
        seed in 0.0..1.0_f64,
    ) {
        let (block, size) = format.block();
        let cols = if block == 32 { blocks } else { blocks / 8 } * block;
        let random = numbers(rows * cols / block * size, seed);
        let mut bytes: Vec<u8> = random.iter().map(|x| (x * 127.0) as i8 as u8).collect();
        let (scale, offset) = match format {
            Quantization::Q8_0 | Quantization::Q4_0 | Quantization::Q5_0 => (0, None),
            Quantization::Q6K => (208, None),
            _ => (0, Some(2)),
        };
        let mut without = bytes.clone();
        for (i, block) in bytes.chunks_exact_mut(size).enumerate() {
            block[scale..scale + 2].copy_from_slice(&[0, ((12 + i % 6) << 2) as u8]);
            if let Some(at) = offset {
                block[at..at + 2].copy_from_slice(&[0, ((14 + i % 5) << 2) as u8]);
            }
        }
        for (block, old) in without.chunks_exact_mut(size).zip(bytes.chunks_exact(size)) {
            block.copy_from_slice(old);
            if let Some(at) = offset {
                block[at..at + 2].copy_from_slice(&[0, 0]);
            }
        }
        let widened = |bytes: &[u8]| {
            let mut wide = vec![0.0; rows * cols];
            let w = Quantized::new(bytes, format, rows, cols).unwrap();
            w.widen(MatMut::new(&mut wide, rows, cols).unwrap()).unwrap();
            wide
        };
        let (wide, scaled) = (widened(&bytes), widened(&without));
        let x = numbers(tokens * cols, seed + 0.9);
        let mut y = vec![0.0; tokens * rows];
        let w = Quantized::new(&bytes, format, rows, cols).unwrap();
        w.multiply(Mat::new(&x, tokens, cols).unwrap(), MatMut::new(&mut y, tokens, rows).unwrap()).unwrap();
        let unit = f64::from(f32::EPSILON) / 2.0;
        let gamma = (2 * cols + 3) as f64 * unit / (1.0 - (2 * cols + 3) as f64 * unit);
        for (i, found) in y.iter().enumerate() {
            let (token, r) = (i / rows, i % rows);
            let (mut sum, mut magnitudes) = (0.0, 0.0);
            for c in 0..cols {
                let [w, scaled, x] = [wide[r * cols + c], scaled[r * cols + c], x[token * cols + c]].map(f64::from);
                sum += w * x;
                magnitudes += (scaled.abs() + (w - scaled).abs()) * x.abs();
            }
            prop_assert!((f64::from(*found) - sum).abs() <= gamma * magnitudes, "element {i}");
        }
    }
}
