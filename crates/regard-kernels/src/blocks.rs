//! The formats of quantized weights: blocks of whole numbers with scales and offsets, as ggml lays them out (`block_q8_0`,
//! `block_q4_K` and so on).
//!
//! An element is n·s + o, with its own whole number n, and a scale s and an offset o that 16 neighbours, a part, share. A block
//! holds 32 numbers: its scale as f16, its offset as f16 if it has one, and then the whole numbers, 4 bits of two of them in a
//! byte, and a fifth bit elsewhere. A super-block holds 256 numbers, whose parts have scales and offsets of 6 or 8 bits, which
//! the super-block's f16 numbers d and d_min multiply.
//!
//! A kernel decodes a group of 16 parts at a time: eight blocks or one super-block. The scales of a group fill one vector.

use crate::simd::{LANES, Simd, f32_from_f16};

/// A format of quantized weights, by the name that GGUF uses.
///
/// ```
/// use regard_kernels::Quantization;
/// assert_eq!(Quantization::Q4_1.block(), (32, 20)); // 32 numbers in 20 bytes
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Quantization {
    /// 8 bits a number, a scale for each 32.
    Q8_0,
    /// 4 bits a number, a scale for each 32.
    Q4_0,
    /// 4 bits a number, a scale and an offset for each 32.
    Q4_1,
    /// 5 bits a number, a scale for each 32.
    Q5_0,
    /// 5 bits a number, a scale and an offset for each 32.
    Q5_1,
    /// 4 bits a number, a scale and an offset of 6 bits for each 32, in blocks of 256.
    Q4K,
    /// 5 bits a number, a scale and an offset of 6 bits for each 32, in blocks of 256.
    Q5K,
    /// 6 bits a number, a scale of 8 bits for each 16, in blocks of 256.
    Q6K,
}

impl Quantization {
    /// All formats.
    pub const ALL: [Self; 8] = [
        Self::Q8_0,
        Self::Q4_0,
        Self::Q4_1,
        Self::Q5_0,
        Self::Q5_1,
        Self::Q4K,
        Self::Q5K,
        Self::Q6K,
    ];

    /// The numbers of a block, and its bytes.
    #[must_use]
    pub const fn block(self) -> (usize, usize) {
        match self {
            Self::Q8_0 => (32, 34),
            Self::Q4_0 => (32, 18),
            Self::Q4_1 => (32, 20),
            Self::Q5_0 => (32, 22),
            Self::Q5_1 => (32, 24),
            Self::Q4K => (256, 144),
            Self::Q5K => (256, 176),
            Self::Q6K => (256, 210),
        }
    }
}

/// How a block of `BYTES` bytes is decoded: `PARTS` times 16 numbers.
pub(crate) trait Block<const BYTES: usize, const PARTS: usize> {
    /// Whether offsets other than 0 occur.
    const OFFSETS: bool;

    /// The scales of the parts of a group of 16 parts or fewer, and their offsets.
    fn scales<S: Simd>(simd: S, group: &[[u8; BYTES]]) -> [[f32; LANES]; 2];

    /// The whole numbers of a part.
    fn part(block: &[u8; BYTES], part: usize) -> [i8; LANES];
}

pub(crate) struct Q8_0;
pub(crate) struct Q4_0;
pub(crate) struct Q4_1;
pub(crate) struct Q5_0;
pub(crate) struct Q5_1;
pub(crate) struct Q4K;
pub(crate) struct Q5K;
pub(crate) struct Q6K;

/// The 16 bytes from number `at` on.
#[inline(always)]
fn bytes_at(block: &[u8], at: usize) -> [u8; LANES] {
    block.get(at..).and_then(|bytes| bytes.first_chunk()).copied().unwrap_or_default()
}

/// The same bytes as whole numbers.
#[inline(always)]
fn signed(bytes: [u8; LANES]) -> [i8; LANES] {
    let mut numbers = [0; LANES];
    for (number, byte) in numbers.iter_mut().zip(bytes) {
        *number = byte as i8;
    }
    numbers
}

/// The f16 at this byte, by its bits.
#[inline(always)]
fn f16_at(block: &[u8], at: usize) -> u16 {
    block.get(at..).and_then(|bytes| bytes.first_chunk()).copied().map_or(0, u16::from_le_bytes)
}

/// The four bytes from number `at` on, the first the lowest.
#[inline(always)]
fn word_at(block: &[u8], at: usize) -> u32 {
    block.get(at..).and_then(|bytes| bytes.first_chunk()).copied().map_or(0, u32::from_le_bytes)
}

/// The f16 at this byte of each block, in the two lanes of the block's parts.
#[inline(always)]
fn of_each<S: Simd, const BYTES: usize>(
    simd: S,
    blocks: &[[u8; BYTES]],
    at: usize,
) -> [f32; LANES] {
    let mut bits = [0; LANES];
    match blocks.first_chunk::<{ LANES / 2 }>() {
        Some(blocks) => copy_each(blocks, at, &mut bits), // a loop of known length needs no branches
        None => copy_each(blocks, at, &mut bits),
    }
    let mut wide = [0.0; LANES];
    simd.store(simd.widen_f16(&bits), &mut wide);
    wide
}

/// Writes the bits at this byte of each block to two lanes.
#[inline(always)]
fn copy_each<const BYTES: usize>(blocks: &[[u8; BYTES]], at: usize, bits: &mut [u16; LANES]) {
    for (bits, block) in bits.as_chunks_mut().0.iter_mut().zip(blocks) {
        *bits = [f16_at(block, at); 2];
    }
}

/// d·n for the whole numbers of 16 parts.
#[inline(always)]
fn times<S: Simd>(simd: S, d: f32, n: &[i8; LANES]) -> [f32; LANES] {
    let mut products = [0.0; LANES];
    simd.store(simd.mul(simd.widen_i8(n), simd.splat(d)), &mut products);
    products
}

/// The four bits of 16 bytes: the low ones, or the `high` ones.
#[inline(always)]
fn nibbles(bytes: [u8; LANES], high: bool) -> [i8; LANES] {
    let mut numbers = [0; LANES];
    for (number, byte) in numbers.iter_mut().zip(bytes) {
        *number = if high { byte >> 4 } else { byte & 15 } as i8;
    }
    numbers
}

/// The 4-bit numbers of a part of a block whose bytes begin at number `at`: the low halves are the first part.
#[inline(always)]
fn of_block(block: &[u8], at: usize, part: usize) -> [i8; LANES] {
    nibbles(bytes_at(block, at), part == 1)
}

/// [`of_block`] with fifth bits, which are the four bytes before the others.
#[inline(always)]
fn with_fifth_bits(block: &[u8], at: usize, part: usize) -> [i8; LANES] {
    let mut numbers = of_block(block, at, part);
    let bytes = f16_at(block, at - 4 + 2 * part).to_le_bytes();
    for (numbers, byte) in numbers.as_chunks_mut::<8>().0.iter_mut().zip(bytes) {
        // The byte in each of 8 bytes, of which byte i keeps bit i. Adding 127 carries any bit into the highest one.
        let bits = (u64::from(byte) * 0x0101_0101_0101_0101) & 0x8040_2010_0804_0201;
        let bits = ((bits + 0x7f7f_7f7f_7f7f_7f7f) >> 3) & 0x1010_1010_1010_1010;
        for (number, bit) in numbers.iter_mut().zip(bits.to_le_bytes()) {
            *number |= bit as i8;
        }
    }
    numbers
}

/// The scales and offsets of the 8 pairs of parts of a super-block, of 6 bits each in 12 bytes: the first four scales and
/// minima have their bits together. The last four have 4 bits in the last bytes, and 2 above those of the first.
#[inline(always)]
fn of_pairs<S: Simd, const BYTES: usize>(simd: S, group: &[[u8; BYTES]]) -> [[f32; LANES]; 2] {
    let Some(block) = group.first() else { return [[0.0; LANES]; 2] };
    let (a, b, c) = (word_at(block, 4), word_at(block, 8), word_at(block, 12));
    let scales = [a & 0x3f3f_3f3f, (c & 0x0f0f_0f0f) | ((a >> 2) & 0x3030_3030)];
    let minima = [b & 0x3f3f_3f3f, ((c >> 4) & 0x0f0f_0f0f) | ((b >> 2) & 0x3030_3030)];
    let twice = |words: [u32; 2]| {
        let mut numbers = [0; LANES];
        for (words, numbers) in words.iter().zip(numbers.as_chunks_mut::<8>().0) {
            for (byte, pair) in words.to_le_bytes().iter().zip(numbers.as_chunks_mut().0) {
                *pair = [*byte as i8; 2];
            }
        }
        numbers
    };
    let (d, d_min) = (f32_from_f16(f16_at(block, 0)), f32_from_f16(f16_at(block, 2)));
    [times(simd, d, &twice(scales)), times(simd, -d_min, &twice(minima))]
}

/// The 4-bit numbers of a part of a super-block whose bytes begin at number `at`: 32 bytes hold the low and high halves of
/// four parts.
#[inline(always)]
fn of_super_block(block: &[u8], at: usize, part: usize) -> [i8; LANES] {
    let bytes = bytes_at(block, at + part / 4 * 32 + part % 2 * LANES);
    nibbles(bytes, part % 4 >= 2)
}

impl Block<34, 2> for Q8_0 {
    const OFFSETS: bool = false;

    #[inline(always)]
    fn scales<S: Simd>(simd: S, group: &[[u8; 34]]) -> [[f32; LANES]; 2] {
        [of_each(simd, group, 0), [0.0; LANES]]
    }

    #[inline(always)]
    fn part(block: &[u8; 34], part: usize) -> [i8; LANES] {
        signed(bytes_at(block, 2 + part * LANES))
    }
}

impl Block<18, 2> for Q4_0 {
    const OFFSETS: bool = false;

    #[inline(always)]
    fn scales<S: Simd>(simd: S, group: &[[u8; 18]]) -> [[f32; LANES]; 2] {
        [of_each(simd, group, 0), [0.0; LANES]]
    }

    #[inline(always)]
    fn part(block: &[u8; 18], part: usize) -> [i8; LANES] {
        less::<8>(of_block(block, 2, part))
    }
}

impl Block<20, 2> for Q4_1 {
    const OFFSETS: bool = true;

    #[inline(always)]
    fn scales<S: Simd>(simd: S, group: &[[u8; 20]]) -> [[f32; LANES]; 2] {
        [of_each(simd, group, 0), of_each(simd, group, 2)]
    }

    #[inline(always)]
    fn part(block: &[u8; 20], part: usize) -> [i8; LANES] {
        of_block(block, 4, part)
    }
}

impl Block<22, 2> for Q5_0 {
    const OFFSETS: bool = false;

    #[inline(always)]
    fn scales<S: Simd>(simd: S, group: &[[u8; 22]]) -> [[f32; LANES]; 2] {
        [of_each(simd, group, 0), [0.0; LANES]]
    }

    #[inline(always)]
    fn part(block: &[u8; 22], part: usize) -> [i8; LANES] {
        less::<16>(with_fifth_bits(block, 6, part))
    }
}

impl Block<24, 2> for Q5_1 {
    const OFFSETS: bool = true;

    #[inline(always)]
    fn scales<S: Simd>(simd: S, group: &[[u8; 24]]) -> [[f32; LANES]; 2] {
        [of_each(simd, group, 0), of_each(simd, group, 2)]
    }

    #[inline(always)]
    fn part(block: &[u8; 24], part: usize) -> [i8; LANES] {
        with_fifth_bits(block, 8, part)
    }
}

impl Block<144, 16> for Q4K {
    const OFFSETS: bool = true;

    #[inline(always)]
    fn scales<S: Simd>(simd: S, group: &[[u8; 144]]) -> [[f32; LANES]; 2] {
        of_pairs(simd, group)
    }

    #[inline(always)]
    fn part(block: &[u8; 144], part: usize) -> [i8; LANES] {
        of_super_block(block, 16, part)
    }
}

impl Block<176, 16> for Q5K {
    const OFFSETS: bool = true;

    #[inline(always)]
    fn scales<S: Simd>(simd: S, group: &[[u8; 176]]) -> [[f32; LANES]; 2] {
        of_pairs(simd, group)
    }

    /// The fifth bits of a pair of parts are one bit of each of 32 bytes.
    #[inline(always)]
    fn part(block: &[u8; 176], part: usize) -> [i8; LANES] {
        let mut numbers = of_super_block(block, 48, part);
        for (number, bits) in numbers.iter_mut().zip(bytes_at(block, 16 + part % 2 * LANES)) {
            *number |= (((bits >> (part / 2)) & 1) << 4) as i8;
        }
        numbers
    }
}

impl Block<210, 16> for Q6K {
    const OFFSETS: bool = false;

    #[inline(always)]
    fn scales<S: Simd>(simd: S, group: &[[u8; 210]]) -> [[f32; LANES]; 2] {
        let Some(block) = group.first() else { return [[0.0; LANES]; 2] };
        let scales = signed(bytes_at(block, 192));
        [times(simd, f32_from_f16(f16_at(block, 208)), &scales), [0.0; LANES]]
    }

    /// The 128 numbers of half a super-block have their low bits in 64 bytes, as low and high halves, and two more bits of
    /// each of four pairs of parts in 32 bytes.
    #[inline(always)]
    fn part(block: &[u8; 210], part: usize) -> [i8; LANES] {
        let (half, part) = (part / 8, part % 8);
        let mut numbers = nibbles(bytes_at(block, half * 64 + part % 4 * LANES), part >= 4);
        let bits = bytes_at(block, 128 + half * 32 + part % 2 * LANES);
        for (number, bits) in numbers.iter_mut().zip(bits) {
            *number |= (((bits >> (part / 2 * 2)) & 3) << 4) as i8;
        }
        less::<32>(numbers)
    }
}

/// Numbers that are stored as so much more than they are.
#[inline(always)]
fn less<const BY: i8>(mut numbers: [i8; LANES]) -> [i8; LANES] {
    for number in &mut numbers {
        *number -= BY;
    }
    numbers
}
