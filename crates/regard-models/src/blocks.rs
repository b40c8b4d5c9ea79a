//! GGUF's blocks of quantized numbers, expanded to whole numbers with scales and minima (the layouts of ggml's
//! `block_q8_0`, `block_q4_K` and so on).
//!
//! A block begins with its scale d, and its minimum where it has one, as f16. Then come the whole numbers q: 4 bits of two of
//! them in a byte, and a fifth bit or two more elsewhere. The numbers are d·q, or d·q plus the minimum. A super-block of 256
//! numbers has scales and minima of 6 or 8 bits for each 16 or 32 of them, which d and d_min multiply.

use core::ops::Range;

use anamnesis::GgufType;
use regard::QuantizedRows;
use regard_kernels::{QUANTIZED, f32_from_f16};

/// A matrix in whole blocks.
#[derive(Clone, Debug)]
pub(crate) struct Blocks {
    pub(crate) kind: GgufType,
    pub(crate) bytes: Vec<u8>,
    pub(crate) row_bytes: usize,
}

impl QuantizedRows for Blocks {
    fn expand(
        &self,
        rows: Range<usize>,
        numbers: &mut [i8],
        scales: &mut [f32],
        minima: &mut [f32],
    ) {
        let bytes = &self.bytes[rows.start * self.row_bytes..rows.end * self.row_bytes];
        match self.kind {
            GgufType::Q8_0 => each::<34, 32, 2, 0>(bytes, numbers, scales, minima, q8_0),
            GgufType::Q4_0 => each::<18, 32, 2, 0>(bytes, numbers, scales, minima, q4_0),
            GgufType::Q4_1 => each::<20, 32, 2, 2>(bytes, numbers, scales, minima, q4_1),
            GgufType::Q5_0 => each::<22, 32, 2, 0>(bytes, numbers, scales, minima, q5_0),
            GgufType::Q5_1 => each::<24, 32, 2, 2>(bytes, numbers, scales, minima, q5_1),
            GgufType::Q4_K => each::<144, 256, 16, 16>(bytes, numbers, scales, minima, q4_k),
            GgufType::Q5_K => each::<176, 256, 16, 16>(bytes, numbers, scales, minima, q5_k),
            GgufType::Q6_K => each::<210, 256, 16, 0>(bytes, numbers, scales, minima, q6_k),
            _ => debug_assert!(false, "{} is none of the formats that are read", self.kind),
        }
    }

    fn has_minima(&self) -> bool {
        use GgufType::{Q4_1, Q4_K, Q5_1, Q5_K};
        matches!(self.kind, Q4_1 | Q5_1 | Q4_K | Q5_K)
    }

    fn bytes(&self) -> usize {
        self.bytes.len()
    }
}

/// Calls `expand` for each block of `BYTES` bytes and `NUMBERS` numbers, with places for its scales and minima.
#[inline(always)]
fn each<const BYTES: usize, const NUMBERS: usize, const SCALES: usize, const MINIMA: usize>(
    bytes: &[u8],
    numbers: &mut [i8],
    scales: &mut [f32],
    minima: &mut [f32],
    expand: impl Fn(&[u8; BYTES], &mut [i8; NUMBERS], &mut [f32; SCALES], &mut [f32; MINIMA]),
) {
    const { assert!(SCALES * QUANTIZED == NUMBERS, "a scale for each 16 numbers") };
    let mut minima = minima.chunks_exact_mut(MINIMA.max(1));
    let blocks = bytes.as_chunks().0.iter().zip(numbers.as_chunks_mut().0);
    for ((bytes, numbers), scales) in blocks.zip(scales.as_chunks_mut().0) {
        let mut none = [0.0; MINIMA];
        let of_block = minima.next().and_then(|minima| minima.try_into().ok());
        expand(bytes, numbers, scales, of_block.unwrap_or(&mut none));
    }
}

/// The f16 at this byte.
#[inline(always)]
fn f16_at(bytes: &[u8], at: usize) -> f32 {
    f32_from_f16(u16::from_le_bytes([bytes[at], bytes[at + 1]]))
}

/// The two numbers of each byte: the low halves, then the high ones.
#[inline(always)]
fn nibbles(bytes: &[u8], numbers: &mut [i8]) {
    let (low, high) = numbers.split_at_mut(bytes.len());
    for ((low, high), byte) in low.iter_mut().zip(high).zip(bytes) {
        *low = (byte & 15) as i8;
        *high = (byte >> 4) as i8;
    }
}

#[inline(always)]
fn q8_0(b: &[u8; 34], q: &mut [i8; 32], s: &mut [f32; 2], _: &mut [f32; 0]) {
    *s = [f16_at(b, 0); 2];
    for (q, b) in q.iter_mut().zip(&b[2..]) {
        *q = *b as i8;
    }
}

#[inline(always)]
fn q4_0(b: &[u8; 18], q: &mut [i8; 32], s: &mut [f32; 2], _: &mut [f32; 0]) {
    *s = [f16_at(b, 0); 2];
    nibbles(&b[2..], q);
    for q in q {
        *q -= 8;
    }
}

#[inline(always)]
fn q4_1(b: &[u8; 20], q: &mut [i8; 32], s: &mut [f32; 2], m: &mut [f32; 2]) {
    (*s, *m) = ([f16_at(b, 0); 2], [-f16_at(b, 2); 2]);
    nibbles(&b[4..], q);
}

/// Adds the fifth bits of 32 numbers.
#[inline(always)]
fn fifth_bits(bits: &[u8], q: &mut [i8; 32]) {
    for (i, q) in q.iter_mut().enumerate() {
        *q |= (((bits[i / 8] >> (i % 8)) & 1) << 4) as i8;
    }
}

#[inline(always)]
fn q5_0(b: &[u8; 22], q: &mut [i8; 32], s: &mut [f32; 2], _: &mut [f32; 0]) {
    *s = [f16_at(b, 0); 2];
    nibbles(&b[6..], q);
    fifth_bits(&b[2..6], q);
    for q in q {
        *q -= 16;
    }
}

#[inline(always)]
fn q5_1(b: &[u8; 24], q: &mut [i8; 32], s: &mut [f32; 2], m: &mut [f32; 2]) {
    (*s, *m) = ([f16_at(b, 0); 2], [-f16_at(b, 2); 2]);
    nibbles(&b[8..], q);
    fifth_bits(&b[4..8], q);
}

/// The scales and minima of the 8 parts of a super-block, 6 bits each in 12 bytes: the first four scales and minima have their
/// bits together, the last four have 4 bits in the last bytes and 2 above those of the first.
#[inline(always)]
fn of_parts(b: &[u8], s: &mut [f32; 16], m: &mut [f32; 16]) {
    let (d, d_min, bits) = (f16_at(b, 0), f16_at(b, 2), &b[4..16]);
    for part in 0..8 {
        let (scale, minimum) = if part < 4 {
            (bits[part] & 63, bits[part + 4] & 63)
        } else {
            (
                (bits[part + 4] & 15) | ((bits[part - 4] >> 6) << 4),
                (bits[part + 4] >> 4) | ((bits[part] >> 6) << 4),
            )
        };
        for i in [2 * part, 2 * part + 1] {
            (s[i], m[i]) = (d * f32::from(scale), d_min * f32::from(minimum));
        }
    }
}

#[inline(always)]
fn q4_k(b: &[u8; 144], q: &mut [i8; 256], s: &mut [f32; 16], m: &mut [f32; 16]) {
    of_parts(b, s, m);
    for (bytes, q) in b[16..].chunks_exact(32).zip(q.chunks_exact_mut(64)) {
        nibbles(bytes, q);
    }
}

#[inline(always)]
fn q5_k(b: &[u8; 176], q: &mut [i8; 256], s: &mut [f32; 16], m: &mut [f32; 16]) {
    of_parts(b, s, m);
    for (bytes, q) in b[48..].chunks_exact(32).zip(q.chunks_exact_mut(64)) {
        nibbles(bytes, q);
    }
    for (part, q) in q.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        for (q, bits) in q.iter_mut().zip(&b[16..48]) {
            *q |= (((bits >> part) & 1) << 4) as i8;
        }
    }
}

#[inline(always)]
fn q6_k(b: &[u8; 210], q: &mut [i8; 256], s: &mut [f32; 16], _: &mut [f32; 0]) {
    let d = f16_at(b, 208);
    for (s, scale) in s.iter_mut().zip(&b[192..208]) {
        *s = d * f32::from(*scale as i8);
    }
    let halves = b[..128].chunks_exact(64).zip(b[128..192].chunks_exact(32));
    for ((low, high), q) in halves.zip(q.chunks_exact_mut(128)) {
        nibbles(low, q);
        for (part, q) in q.chunks_exact_mut(32).enumerate() {
            for (q, high) in q.iter_mut().zip(high) {
                *q = (*q | (((high >> (2 * part)) & 3) << 4) as i8) - 32;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use anamnesis::{AnamnesisError, F32Out, dequantize_gguf_blocks};
    use proptest::prelude::*;

    use super::*;

    const KINDS: [GgufType; 8] = [
        GgufType::Q8_0,
        GgufType::Q4_0,
        GgufType::Q4_1,
        GgufType::Q5_0,
        GgufType::Q5_1,
        GgufType::Q4_K,
        GgufType::Q5_K,
        GgufType::Q6_K,
    ];

    proptest! {
        /// n·s − m is what another reader of GGUF makes of any bytes. Both round a product and a sum, in another order: each
        /// rounds by at most 2⁻²⁴ of n·s and of m.
        #[test]
        fn blocks_expand_to_their_numbers(bytes in prop::collection::vec(any::<u8>(), 2 * 210)) {
            for kind in KINDS {
                let (block, row_bytes) = (kind.block_size(), kind.type_size().unwrap());
                let mut bytes = bytes[..2 * row_bytes].to_vec();
                for block in bytes.chunks_exact_mut(row_bytes) {
                    // Finite scales and minima.
                    for at in [1, 3, 209] {
                        if let Some(byte) = block.get_mut(at) {
                            *byte &= 0xbb;
                        }
                    }
                }
                let blocks = Blocks { kind, bytes: bytes.clone(), row_bytes };
                let mut numbers = vec![0; 2 * block];
                let mut scales = vec![0.0; 2 * block / QUANTIZED];
                let mut minima = vec![0.0; if blocks.has_minima() { scales.len() } else { 0 }];
                blocks.expand(0..2, &mut numbers, &mut scales, &mut minima);
                let mut expected = Vec::new();
                dequantize_gguf_blocks::<F32Out, _>(&bytes, kind, 2 * block, |numbers| {
                    expected.extend(numbers.as_chunks().0.iter().map(|x| f32::from_le_bytes(*x)));
                    Ok::<(), AnamnesisError>(())
                })
                .unwrap();
                for (i, expected) in expected.into_iter().enumerate() {
                    let scaled = f64::from(numbers[i]) * f64::from(scales[i / QUANTIZED]);
                    let minimum = f64::from(minima.get(i / QUANTIZED).copied().unwrap_or(0.0));
                    let error = (scaled - minimum - f64::from(expected)).abs();
                    // Four roundings: of the scale, the minimum, their product and the difference.
                    let bound = 4.0 * f64::from(f32::EPSILON) * (scaled.abs() + minimum.abs());
                    prop_assert!(error <= bound, "{kind}: number {i} is {scaled} − {minimum}, not {expected}");
                }
            }
        }
    }
}
