//! The formats of quantized weights: blocks of integers with scales and offsets, in the layout of ggml (`block_q8_0`,
//! `block_q4_K` and so on).
//!
//! An element is n·s + o. n is an integer of its own; the scale s and the offset o are shared by a part, which is 16
//! neighbours. A block holds 32 elements: its scale as f16, its offset as f16 if it has one, and then the integers, the low 4
//! bits of two of them in each byte. A fifth bit is stored elsewhere. In two formats the 4 bits are the place of n in a table. A
//! super-block holds 256 elements. Its parts have scales and offsets of 4, 6 or 8 bits, which are multiplied by the
//! super-block's f16 numbers d and d_min.
//!
//! A kernel decodes a pair of parts at a time. Either both parts share a scale and an offset, or each has a scale. A group of
//! 256 elements, which is eight blocks or one super-block, has eight pairs, whose 16 factors fill one vector.
//!
//! In the formats with offsets the product n·s is exact in `f32`: s has at most 17 significant bits, and n has at most 5. So an
//! element is rounded once, and has the same bits with or without fused multiply-add.

use core::fmt;

use crate::arch::{LANES, Panel, Simd, f32_from_f16};
use crate::invariant::Promised as _;

/// A format of quantized weights, by the name that GGUF uses.
///
/// ```
/// use regard_kernels::Quantization;
/// assert_eq!(Quantization::Q4_1.block(), (32, 20)); // 32 numbers in 20 bytes
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Quantization {
    /// 8 bits for each number; a scale for each 32 numbers.
    Q8_0,
    /// 4 bits for each number; a scale for each 32 numbers.
    Q4_0,
    /// 4 bits for each number; a scale and an offset for each 32 numbers.
    Q4_1,
    /// 5 bits for each number; a scale for each 32 numbers.
    Q5_0,
    /// 5 bits for each number; a scale and an offset for each 32 numbers.
    Q5_1,
    /// 4 bits for each number, in blocks of 256; a scale and an offset of 6 bits for each 32 numbers.
    Q4K,
    /// 5 bits for each number, in blocks of 256; a scale and an offset of 6 bits for each 32 numbers.
    Q5K,
    /// 6 bits for each number, in blocks of 256; a scale of 8 bits for each 16 numbers.
    Q6K,
    /// 2 bits for each number, in blocks of 256; a scale and an offset of 4 bits for each 16 numbers.
    Q2K,
    /// 3 bits for each number, in blocks of 256; a scale of 6 bits for each 16 numbers.
    Q3K,
    /// 4 bits for each number, which choose one of 16 values that lie closer together near 0; a scale for each 32 numbers.
    Iq4Nl,
    /// A floating-point number of 4 bits; a power of two for each 32 numbers (Open Compute Project 2023, Microscaling Formats).
    Mxfp4,
}

impl Quantization {
    /// All formats.
    pub const ALL: &'static [Self] = &[
        Self::Q8_0,
        Self::Q4_0,
        Self::Q4_1,
        Self::Q5_0,
        Self::Q5_1,
        Self::Q4K,
        Self::Q5K,
        Self::Q6K,
        Self::Q2K,
        Self::Q3K,
        Self::Iq4Nl,
        Self::Mxfp4,
    ];

    /// The numbers in a block, and the bytes that it takes.
    #[must_use]
    pub const fn block(self) -> (usize, usize) {
        let (_, numbers, bytes) = self.facts();
        (numbers, bytes)
    }

    /// The name, the numbers in a block, and the bytes that it takes.
    const fn facts(self) -> (&'static str, usize, usize) {
        match self {
            Self::Q8_0 => ("Q8_0", 32, 34),
            Self::Q4_0 => ("Q4_0", 32, 18),
            Self::Q4_1 => ("Q4_1", 32, 20),
            Self::Q5_0 => ("Q5_0", 32, 22),
            Self::Q5_1 => ("Q5_1", 32, 24),
            Self::Q4K => ("Q4_K", 256, 144),
            Self::Q5K => ("Q5_K", 256, 176),
            Self::Q6K => ("Q6_K", 256, 210),
            Self::Q2K => ("Q2_K", 256, 84),
            Self::Q3K => ("Q3_K", 256, 110),
            Self::Iq4Nl => ("IQ4_NL", 32, 18),
            Self::Mxfp4 => ("MXFP4", 32, 17),
        }
    }
}

impl fmt::Display for Quantization {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.facts().0)
    }
}

/// The pairs of parts in a group.
const PAIRS: usize = LANES / 2;

/// The numbers of a pair.
const PAIR: usize = 2 * LANES;

/// The factors of a pair: its scale and its offset, or the scales of its two parts. A format with a single scale for the pair
/// and no offset leaves the second factor undefined.
type Factors = [f32; 2];

/// How a group of `BYTES` bytes is decoded.
pub(crate) trait Decode<const BYTES: usize> {
    /// The factors of the pairs. Most formats have them as f16 at the beginning of each of eight blocks.
    #[inline(always)]
    fn factors<S: Simd>(simd: S, group: &[u8; BYTES]) -> [Factors; PAIRS] {
        of_blocks(simd, group)
    }

    /// The elements of a pair.
    fn pair<S: Simd>(simd: S, group: &[u8; BYTES], pair: usize, factors: &Factors) -> [S::V; 2];
}

/// Decodes a row of blocks. The elements 16t to 16t + 15 go to `out[t]`.
#[inline(always)]
pub(crate) fn decode<S: Simd, F: Decode<BYTES>, const BYTES: usize>(
    simd: S,
    row: &[u8],
    out: &mut [Panel],
) {
    /// Groups that are decoded at a time.
    const MOST: usize = 3;
    /// The bytes of a cache line, and the distance in bytes of a prefetch from the bytes that are being decoded.
    const LINE: usize = 64;
    const AHEAD: usize = 6144;
    // A zip of chunks of both slices would divide by the length of a chunk, and a build for size would check that it is not 0.
    let mut outs = out.chunks_mut(MOST * LANES);
    for row in row.chunks(MOST * BYTES) {
        let Some(out) = outs.next() else { break };
        let (groups, rest) = row.as_chunks();
        let (places, rest_of_places) = out.as_chunks_mut();
        // All factors are computed before the first one is used. The compiler then loads each factor from memory, which is
        // faster than to extract it from a register.
        let mut factors = [[[0.0; 2]; PAIRS]; MOST];
        for (factors, group) in factors.iter_mut().zip(groups) {
            for byte in (0..BYTES).step_by(LINE) {
                simd.prefetch(group.as_ptr().wrapping_add(AHEAD + byte).cast());
            }
            *factors = F::factors(simd, group);
        }
        for ((group, places), factors) in groups.iter().zip(places).zip(&factors) {
            let places: &mut [Panel; LANES] = places; // a loop of known length needs no branches
            decode_pairs::<S, F, BYTES>(simd, group, 0, factors, places);
        }
        let first = PAIRS.saturating_sub(rest_of_places.len() / 2);
        if let (false, Some(group)) = (rest.is_empty(), row.last_chunk()) {
            // This group overlaps the one before, and the pairs that both have are skipped.
            let factors = F::factors(simd, group);
            let factors = factors.get(first..).promised();
            decode_pairs::<S, F, BYTES>(simd, group, first, factors, rest_of_places);
        } else if !rest.is_empty() {
            let mut group = [0; BYTES];
            group.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
            let factors = F::factors(simd, &group);
            decode_pairs::<S, F, BYTES>(simd, &group, 0, &factors, rest_of_places);
        }
    }
}

/// Decodes the pairs of a group from number `first` on, as long as there are factors and places for them.
#[inline(always)]
fn decode_pairs<S: Simd, F: Decode<BYTES>, const BYTES: usize>(
    simd: S,
    group: &[u8; BYTES],
    first: usize,
    factors: &[Factors],
    out: &mut [Panel],
) {
    for (pair, (factors, out)) in factors.iter().zip(out.as_chunks_mut::<2>().0).enumerate() {
        let elements = F::pair(simd, group, first + pair, factors);
        for (elements, out) in elements.into_iter().zip(out) {
            simd.store(elements, out);
        }
    }
}

pub(crate) struct Q8_0;
pub(crate) struct Q4_0;
pub(crate) struct Q4_1;
pub(crate) struct Q5_0;
pub(crate) struct Q5_1;
pub(crate) struct Q4K;
pub(crate) struct Q5K;
pub(crate) struct Q6K;
pub(crate) struct Q2K;
pub(crate) struct Q3K;
pub(crate) struct Iq4Nl;
pub(crate) struct Mxfp4;

/// `N` bytes, of which number `at` is the first.
#[inline(always)]
fn bytes_at<const N: usize>(block: &[u8], at: usize) -> [u8; N] {
    block.get(at..).and_then(|bytes| bytes.first_chunk()).copied().promised_or([0; N])
}

/// The two halves of a pair's bytes.
#[inline(always)]
fn halves(bytes: [u8; PAIR]) -> [[u8; LANES]; 2] {
    [bytes_at(&bytes, 0), bytes_at(&bytes, LANES)]
}

/// The f16 number at byte `at`.
#[inline(always)]
fn f16_at(block: &[u8], at: usize) -> f32 {
    f32_from_f16(u16::from_le_bytes(bytes_at(block, at)))
}

/// The four bytes from number `at` on as a little-endian word.
#[inline(always)]
fn word_at(block: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes_at(block, at))
}

/// The two f16 numbers at the beginning of each of eight blocks.
#[inline(always)]
fn of_blocks<S: Simd>(simd: S, group: &[u8]) -> [Factors; PAIRS] {
    let mut bits = [0; LANES];
    for (i, bits) in bits.as_chunks_mut().0.iter_mut().enumerate() {
        let word = word_at(group, group.len() / PAIRS * i);
        *bits = [word as u16, (word >> 16) as u16];
    }
    in_pairs(simd, simd.widen_f16(&bits))
}

#[inline(always)]
fn in_pairs<S: Simd>(simd: S, factors: S::V) -> [Factors; PAIRS] {
    let mut pairs = [[0.0; 2]; PAIRS];
    if let Some(lanes) = pairs.as_flattened_mut().first_chunk_mut() {
        simd.store(factors, lanes);
    }
    pairs
}

/// The factors of the 8 pairs of a super-block. Its scales and minima have 6 bits each, in 12 bytes. The first four scales and
/// the first four minima have their six bits together. The others have 4 bits in the last bytes, and 2 bits above those of the
/// first.
#[inline(always)]
fn of_super_block<S: Simd>(simd: S, block: &[u8]) -> [Factors; PAIRS] {
    let (a, b, c) = (word_at(block, 4), word_at(block, 8), word_at(block, 12));
    let scales = [a & 0x3f3f_3f3f, (c & 0x0f0f_0f0f) | ((a >> 2) & 0x3030_3030)];
    let minima = [b & 0x3f3f_3f3f, ((c >> 4) & 0x0f0f_0f0f) | ((b >> 2) & 0x3030_3030)];
    let mut numbers = [0; LANES];
    let words = scales.iter().zip(&minima).zip(numbers.as_chunks_mut::<8>().0);
    for ((scales, minima), numbers) in words {
        let bytes = scales.to_le_bytes().into_iter().zip(minima.to_le_bytes());
        for (pair, (scale, minimum)) in numbers.as_chunks_mut().0.iter_mut().zip(bytes) {
            *pair = [scale as i8, minimum as i8];
        }
    }
    let mut d = [f16_at(block, 0); LANES];
    for minimum in d.iter_mut().skip(1).step_by(2) {
        *minimum = -f16_at(block, 2);
    }
    in_pairs(simd, simd.mul(simd.widen_i8(&numbers), simd.load(&d)))
}

/// Four bits of each byte: the low ones, or the `high` ones.
#[inline(always)]
fn nibbles<const N: usize>(mut bytes: [u8; N], high: bool) -> [u8; N] {
    for byte in &mut bytes {
        *byte = if high { *byte >> 4 } else { *byte & 15 };
    }
    bytes
}

/// The low four bits of 16 bytes, and then their high four bits.
#[inline(always)]
fn both_nibbles(bytes: [u8; LANES]) -> [u8; PAIR] {
    let mut numbers = [0; PAIR];
    let (low, high) = numbers.split_at_mut(LANES);
    low.copy_from_slice(&nibbles(bytes, false));
    high.copy_from_slice(&nibbles(bytes, true));
    numbers
}

/// Adds the higher bits to each number.
#[inline(always)]
fn with_bits(mut numbers: [u8; PAIR], bits: [u8; PAIR]) -> [u8; PAIR] {
    for (number, bits) in numbers.iter_mut().zip(bits) {
        *number |= bits;
    }
    numbers
}

/// The numbers as signed integers, each reduced by `BY`.
#[inline(always)]
fn less<const BY: u8>(bytes: [u8; LANES]) -> [i8; LANES] {
    let mut numbers = [0; LANES];
    for (number, byte) in numbers.iter_mut().zip(bytes) {
        *number = byte.wrapping_sub(BY) as i8;
    }
    numbers
}

/// (n − `BY`)·s for the numbers n of both parts. Each part has its own scale s.
#[inline(always)]
fn scaled<S: Simd, const BY: u8>(simd: S, numbers: [u8; PAIR], scales: &Factors) -> [S::V; 2] {
    let [first, second] = halves(numbers);
    [
        simd.mul(simd.widen_i8(&less::<BY>(first)), simd.splat(scales[0])),
        simd.mul(simd.widen_i8(&less::<BY>(second)), simd.splat(scales[1])),
    ]
}

/// n·s + o for the numbers n of both parts.
#[inline(always)]
fn shifted<S: Simd>(simd: S, numbers: [u8; PAIR], [scale, offset]: &Factors) -> [S::V; 2] {
    let (scale, offset) = (simd.splat(*scale), simd.splat(*offset));
    let [first, second] = halves(numbers);
    [
        simd.mul_add(simd.widen_i8(&less::<0>(first)), scale, offset),
        simd.mul_add(simd.widen_i8(&less::<0>(second)), scale, offset),
    ]
}

/// The elements of the 16 consecutive numbers from `first` on.
#[inline(always)]
fn values<S: Simd>(simd: S, first: i8, scale: f32, offset: Option<f32>) -> S::V {
    let mut numbers = [0.0; LANES];
    for (number, n) in numbers.iter_mut().zip(first..) {
        *number = f32::from(n);
    }
    let (numbers, scale) = (simd.load(&numbers), simd.splat(scale));
    match offset {
        Some(offset) => simd.mul_add(numbers, scale, simd.splat(offset)),
        None => simd.mul(numbers, scale),
    }
}

/// The elements of a block of 4-bit numbers. Each byte has one number of each part.
#[inline(always)]
fn of_nibbles<S: Simd>(simd: S, bytes: [u8; LANES], values: S::V) -> [S::V; 2] {
    [simd.pick(values, &bytes, false), simd.pick(values, &bytes, true)]
}

/// The elements of a pair of 5-bit numbers.
#[inline(always)]
fn of_five_bits<S: Simd>(simd: S, numbers: [u8; PAIR], values: [S::V; 2]) -> [S::V; 2] {
    let [first, second] = halves(numbers);
    [simd.pick_of_two(values, &first), simd.pick_of_two(values, &second)]
}

impl Decode<272> for Q8_0 {
    #[inline(always)]
    fn pair<S: Simd>(simd: S, group: &[u8; 272], pair: usize, [scale, _]: &Factors) -> [S::V; 2] {
        scaled::<S, 0>(simd, bytes_at(group, pair * 34 + 2), &[*scale; 2])
    }
}

impl Decode<144> for Q4_0 {
    #[inline(always)]
    fn pair<S: Simd>(simd: S, group: &[u8; 144], pair: usize, [scale, _]: &Factors) -> [S::V; 2] {
        let bytes = bytes_at(group, pair * 18 + 2);
        if S::SHAPE.picks {
            return of_nibbles(simd, bytes, values(simd, -8, *scale, None));
        }
        scaled::<S, 8>(simd, both_nibbles(bytes), &[*scale; 2])
    }
}

impl Decode<160> for Q4_1 {
    #[inline(always)]
    fn pair<S: Simd>(simd: S, group: &[u8; 160], pair: usize, factors: &Factors) -> [S::V; 2] {
        let (bytes, [scale, offset]) = (bytes_at(group, pair * 20 + 4), factors);
        if S::SHAPE.picks {
            return of_nibbles(simd, bytes, values(simd, 0, *scale, Some(*offset)));
        }
        shifted(simd, both_nibbles(bytes), factors)
    }
}

impl Decode<176> for Q5_0 {
    #[inline(always)]
    fn pair<S: Simd>(simd: S, group: &[u8; 176], pair: usize, [scale, _]: &Factors) -> [S::V; 2] {
        let fifth = simd.fifth_bits(word_at(group, pair * 22 + 2));
        let numbers = with_bits(both_nibbles(bytes_at(group, pair * 22 + 6)), fifth);
        if S::SHAPE.picks {
            let values = [values(simd, -16, *scale, None), values(simd, 0, *scale, None)];
            return of_five_bits(simd, numbers, values);
        }
        scaled::<S, 16>(simd, numbers, &[*scale; 2])
    }
}

impl Decode<192> for Q5_1 {
    #[inline(always)]
    fn pair<S: Simd>(simd: S, group: &[u8; 192], pair: usize, factors: &Factors) -> [S::V; 2] {
        let fifth = simd.fifth_bits(word_at(group, pair * 24 + 4));
        five_bits_shifted(
            simd,
            with_bits(both_nibbles(bytes_at(group, pair * 24 + 8)), fifth),
            factors,
        )
    }
}

/// The elements of a pair of 5-bit numbers with an offset.
#[inline(always)]
fn five_bits_shifted<S: Simd>(simd: S, numbers: [u8; PAIR], factors: &Factors) -> [S::V; 2] {
    if S::SHAPE.picks {
        let [scale, offset] = factors;
        let values =
            [values(simd, 0, *scale, Some(*offset)), values(simd, 16, *scale, Some(*offset))];
        return of_five_bits(simd, numbers, values);
    }
    shifted(simd, numbers, factors)
}

/// The first byte of a pair's low bits within those of a super-block, and whether they are the high halves. 32 bytes hold two
/// pairs, one in their low and one in their high halves.
#[inline(always)]
fn low_bits(pair: usize) -> (usize, bool) {
    (pair / 2 * PAIR, pair % 2 == 1)
}

impl Decode<144> for Q4K {
    #[inline(always)]
    fn factors<S: Simd>(simd: S, block: &[u8; 144]) -> [Factors; PAIRS] {
        of_super_block(simd, block)
    }

    #[inline(always)]
    fn pair<S: Simd>(simd: S, block: &[u8; 144], pair: usize, factors: &Factors) -> [S::V; 2] {
        let (at, high) = low_bits(pair);
        let bytes = bytes_at(block, 16 + at);
        if S::SHAPE.picks {
            let ([first, second], [scale, offset]) = (halves(bytes), factors);
            let values = values(simd, 0, *scale, Some(*offset));
            return [simd.pick(values, &first, high), simd.pick(values, &second, high)];
        }
        shifted(simd, nibbles(bytes, high), factors)
    }
}

impl Decode<176> for Q5K {
    #[inline(always)]
    fn factors<S: Simd>(simd: S, block: &[u8; 176]) -> [Factors; PAIRS] {
        of_super_block(simd, block)
    }

    /// The fifth bits of a pair are the same bit of each of 32 bytes.
    #[inline(always)]
    fn pair<S: Simd>(simd: S, block: &[u8; 176], pair: usize, factors: &Factors) -> [S::V; 2] {
        let (at, high) = low_bits(pair);
        let fifth = bits_of::<1, PAIR>(bytes_at(block, 16), pair).map(|bit| bit << 4);
        let numbers = with_bits(nibbles(bytes_at(block, 48 + at), high), fifth);
        five_bits_shifted(simd, numbers, factors)
    }
}

impl Decode<210> for Q6K {
    #[inline(always)]
    fn factors<S: Simd>(simd: S, block: &[u8; 210]) -> [Factors; PAIRS] {
        let scales = simd.widen_i8(&less::<0>(bytes_at(block, 192)));
        in_pairs(simd, simd.mul(scales, simd.splat(f16_at(block, 208))))
    }

    /// The four pairs of half a super-block have their low bits in the low and high halves of 64 bytes, and two more bits each
    /// in 32 bytes.
    #[inline(always)]
    fn pair<S: Simd>(simd: S, block: &[u8; 210], pair: usize, scales: &Factors) -> [S::V; 2] {
        let (half, pair) = (pair / 4, pair % 4);
        let numbers = nibbles(bytes_at(block, half * 64 + pair % 2 * PAIR), pair >= 2);
        let bits = bits_of::<3, PAIR>(bytes_at(block, 128 + half * PAIR), 2 * pair);
        let bits = bits.map(|bits| bits << 4);
        scaled::<S, 32>(simd, with_bits(numbers, bits), scales)
    }
}

/// As many bits of each byte as `MASK` has, from bit `first` on.
#[inline(always)]
fn bits_of<const MASK: u8, const N: usize>(mut bytes: [u8; N], first: usize) -> [u8; N] {
    for byte in &mut bytes {
        *byte = (*byte >> first) & MASK;
    }
    bytes
}

/// The four pairs of half a super-block have their bits in the same 32 bytes, 2 bits each. Each part has 4 bits of a scale, and
/// above them 4 bits of an offset.
impl Decode<84> for Q2K {
    #[inline(always)]
    fn factors<S: Simd>(simd: S, block: &[u8; 84]) -> [Factors; PAIRS] {
        let scales = simd.widen_i8(&less::<0>(nibbles(bytes_at(block, 0), false)));
        in_pairs(simd, simd.mul(scales, simd.splat(f16_at(block, 80))))
    }

    #[inline(always)]
    fn pair<S: Simd>(simd: S, block: &[u8; 84], pair: usize, scales: &Factors) -> [S::V; 2] {
        let numbers = bits_of::<3, PAIR>(bytes_at(block, 16 + pair / 4 * PAIR), 2 * (pair % 4));
        let offsets: [u8; 2] = nibbles(bytes_at(block, 2 * pair), true);
        let minimum = -f16_at(block, 82);
        let [first, second] = halves(numbers);
        let part = |numbers, scale, offset| {
            let offset = simd.splat(minimum * f32::from(offset));
            simd.mul_add(simd.widen_i8(&less::<0>(numbers)), simd.splat(scale), offset)
        };
        [part(first, scales[0], offsets[0]), part(second, scales[1], offsets[1])]
    }
}

/// The low two bits are as those of [`Q2K`]; the third ones of a pair are one bit of each of 32 bytes. Of the 16 scales of 6 bits
/// the low four are nibbles of 8 bytes, and the others two bits each of 4 bytes.
impl Decode<110> for Q3K {
    #[inline(always)]
    fn factors<S: Simd>(simd: S, block: &[u8; 110]) -> [Factors; PAIRS] {
        let (low, high) = (bytes_at::<8>(block, 96), bytes_at::<4>(block, 104));
        let mut scales = [0; LANES];
        let of_nibbles = scales.as_chunks_mut::<8>().0.iter_mut().zip([false, true]);
        of_nibbles.for_each(|(scales, is_high)| *scales = nibbles(low, is_high));
        for (i, scales) in scales.as_chunks_mut::<4>().0.iter_mut().enumerate() {
            for (scale, bits) in scales.iter_mut().zip(bits_of::<3, 4>(high, 2 * i)) {
                *scale |= bits << 4;
            }
        }
        let scales = simd.widen_i8(&less::<32>(scales));
        in_pairs(simd, simd.mul(scales, simd.splat(f16_at(block, 108))))
    }

    #[inline(always)]
    fn pair<S: Simd>(simd: S, block: &[u8; 110], pair: usize, scales: &Factors) -> [S::V; 2] {
        let numbers = bits_of::<3, PAIR>(bytes_at(block, 32 + pair / 4 * PAIR), 2 * (pair % 4));
        let third = bits_of::<1, PAIR>(bytes_at(block, 0), pair).map(|bit| bit << 2);
        scaled::<S, 4>(simd, with_bits(numbers, third), scales)
    }
}

/// The elements of a block whose 4 bits choose among 16 values.
#[inline(always)]
fn of_table<S: Simd>(simd: S, bytes: [u8; LANES], table: &[i8; LANES], scale: f32) -> [S::V; 2] {
    of_nibbles(simd, bytes, simd.mul(simd.widen_i8(table), simd.splat(scale)))
}

impl Decode<144> for Iq4Nl {
    #[inline(always)]
    fn pair<S: Simd>(simd: S, group: &[u8; 144], pair: usize, [scale, _]: &Factors) -> [S::V; 2] {
        const TABLE: [i8; LANES] =
            [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];
        of_table(simd, bytes_at(group, pair * 18 + 2), &TABLE, *scale)
    }
}

/// A block's first byte e is the exponent of its scale 2^(e − 128), half of what the format says: the table has twice the numbers
/// of 4 bits, which are whole. The scales of 0 and 1 are subnormal.
impl Decode<136> for Mxfp4 {
    #[inline(always)]
    fn factors<S: Simd>(_: S, group: &[u8; 136]) -> [Factors; PAIRS] {
        let mut factors = [[0.0; 2]; PAIRS];
        for (factors, block) in factors.iter_mut().zip(group.as_chunks::<17>().0) {
            let bits = match block[0] {
                exponent @ 0..2 => 0x0020_0000 << exponent,
                exponent => u32::from(exponent - 1) << 23,
            };
            *factors = [f32::from_bits(bits); 2];
        }
        factors
    }

    #[inline(always)]
    fn pair<S: Simd>(simd: S, group: &[u8; 136], pair: usize, [scale, _]: &Factors) -> [S::V; 2] {
        const TABLE: [i8; LANES] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];
        of_table(simd, bytes_at(group, pair * 17 + 1), &TABLE, *scale)
    }
}
