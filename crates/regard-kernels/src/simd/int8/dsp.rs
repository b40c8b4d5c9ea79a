//! Cortex-M cores with the DSP extension (M4, M7): SXTB16 widens every other byte of a word to 16 bits, SMLAD multiplies
//! two such pairs and adds both products.

use core::arch::{asm, naked_asm};

use super::{COLUMNS, Fours, GROUP};
use crate::Mat;

/// Words of memory that [`Queries`] need.
pub(crate) const fn query_words(rows: usize, d_k: usize) -> usize {
    d_k.div_ceil(4).saturating_mul(2 * rows)
}

/// Words of memory that [`Values`] need: a transposed copy, where it pays and is small.
pub(crate) const fn value_words(n_q: usize, n_k: usize, d_v: usize) -> usize {
    if n_q >= 2 * GROUP && n_k <= 256 { n_k.div_ceil(4).saturating_mul(d_v) } else { 0 }
}

/// `R` queries, ready for dot products with keys: widened to 16 bits.
pub(crate) struct Queries<'a, const R: usize>(&'a [Fours<R>]);

impl<'a, const R: usize> Queries<'a, R> {
    #[inline(always)]
    pub(crate) fn new(rows: [&'a [i8]; R], words: &'a mut [i32]) -> Self {
        let fours = words.as_chunks_mut::<R>().0.as_chunks_mut::<2>().0;
        for (r, row) in rows.into_iter().enumerate() {
            let (bytes, rest) = row.as_chunks::<4>();
            let (whole, last) = fours.split_at_mut_checked(bytes.len()).unwrap_or_default();
            for ([even, odd], bytes) in whole.iter_mut().zip(bytes) {
                (even[r], odd[r]) = widen(*bytes);
            }
            if let Some([even, odd]) = last.first_mut() {
                (even[r], odd[r]) = widen(padded(rest));
            }
        }
        Self(fours)
    }

    /// Each query's dot product with `key`.
    #[inline(always)]
    pub(crate) fn dots(&self, key: &[i8], out: &mut [i32; R]) {
        let (bytes, rest) = key.as_chunks::<4>();
        dots::<R, 1>(self.0, bytes, out);
        if let (Some(last), false) = (self.0.get(bytes.len()), rest.is_empty()) {
            add_products(out, last, padded(rest));
        }
    }
}

/// Values, ready to be weighed.
#[derive(Clone, Copy)]
pub(crate) struct Values<'a> {
    v: Mat<'a, i8>,
    /// Each column's bytes, one behind the other, those of four keys a word; or nothing.
    transposed: &'a [[i8; 4]],
}

impl<'a> Values<'a> {
    #[inline(always)]
    pub(crate) fn new(v: Mat<'a, i8>, words: &'a mut [i32]) -> Self {
        let height = v.rows().div_ceil(4);
        if !words.is_empty() {
            for i in 0..height {
                let rows = [0, 1, 2, 3].map(|row| v.row(4 * i + row));
                for (c, word) in words.iter_mut().skip(i).step_by(height).enumerate() {
                    *word = word_of(rows.map(|row| row.get(c).copied().unwrap_or_default()));
                }
            }
        }
        Self { v, transposed: bytes_of(words) }
    }

    /// Σ weight · value over the keys from `first`, a multiple of 4, on, for up to [`COLUMNS`] columns from `col` on.
    #[inline(always)]
    pub(crate) fn weigh<const R: usize>(
        &self,
        weights: &[Fours<R>],
        first: usize,
        col: usize,
        sums: &mut [[i32; COLUMNS]; R],
    ) {
        if R == GROUP && !self.transposed.is_empty() {
            let height = self.v.rows().div_ceil(4);
            let mut column = self.transposed.get(col * height + first / 4..).unwrap_or_default();
            for c in 0..COLUMNS {
                let out = sums.as_flattened_mut().get_mut(c..).unwrap_or_default();
                dots::<R, COLUMNS>(weights, column, out);
                column = column.get(height..).unwrap_or_default();
            }
        } else {
            for (r, sums) in sums.iter_mut().enumerate() {
                for (i, sums) in sums.as_chunks_mut::<4>().0.iter_mut().enumerate() {
                    *sums = self.weigh_four(weights, r, first, col + 4 * i);
                }
            }
        }
    }

    /// The sums of row `r` and the four columns from `col` on.
    #[inline(always)]
    fn weigh_four<const R: usize>(&self, weights: &[Fours<R>], r: usize, first: usize, col: usize) -> [i32; 4] {
        let mut sums = [0; 4];
        let keys = if col + 4 <= self.v.cols() { self.v.rows().saturating_sub(first) } else { 0 };
        let (whole, rest) = weights.split_at_checked(keys / 4).unwrap_or((weights, &[]));
        let mut row = self.v.rows_from(first, keys).data().as_ptr().wrapping_add(col);
        for weights in whole {
            let mut next = || {
                // SAFETY: of the keys from `first` on there is this one, and it has four columns from `col` on.
                let bytes = unsafe { row.cast::<[i8; 4]>().read() };
                row = row.wrapping_add(self.v.stride());
                bytes
            };
            add_values(&mut sums, weights, r, [next(), next(), next(), next()]);
        }
        for (i, weights) in rest.iter().enumerate() {
            let first = first + 4 * (whole.len() + i);
            let bytes = [0, 1, 2, 3].map(|key| padded(self.v.row(first + key).get(col..).unwrap_or_default()));
            add_values(&mut sums, weights, r, bytes);
        }
        sums
    }
}

/// Adds four columns of four keys, weighed for row `r`.
#[inline(always)]
fn add_values<const R: usize>(sums: &mut [i32; 4], [even, odd]: &Fours<R>, r: usize, [a, b, c, d]: [[i8; 4]; 4]) {
    for (weights, low, high) in [(even[r], word_of(a), word_of(c)), (odd[r], word_of(b), word_of(d))] {
        let left = (low & 0xffff) | (high << 16); // PKHBT
        let right = (low as u32 >> 16) as i32 | (high & !0xffff); // PKHTB
        for ([even, odd], both) in sums.as_chunks_mut::<2>().0.iter_mut().zip([left, right]) {
            *even = smlad(weights, bytes_0_and_2(both), *even);
            *odd = smlad(weights, bytes_1_and_3(both), *odd);
        }
    }
}

/// The dot products of `R` rows with one row of bytes, as far as both go: to `out`, `STEP` apart.
#[inline(always)]
fn dots<const R: usize, const STEP: usize>(fours: &[Fours<R>], bytes: &[[i8; 4]], out: &mut [i32]) {
    let len = fours.len().min(bytes.len());
    if R == GROUP && len > 0 && out.len() > 3 * STEP {
        // SAFETY: `R` is 4, both slices have `len` elements, and `out` has those up to 3 · STEP.
        unsafe {
            dots_of_four::<STEP>(fours.as_ptr().cast(), bytes.as_ptr(), bytes.as_ptr().add(len), out.as_mut_ptr())
        };
    } else {
        let mut dots = [0; R];
        for (rows, bytes) in fours.iter().zip(bytes) {
            add_products(&mut dots, rows, *bytes);
        }
        for (out, dot) in out.iter_mut().step_by(STEP).zip(dots) {
            *out = dot;
        }
    }
}

/// [`dots`] of four rows: 13 instructions for 16 multiply-adds, which the compiler's choice of registers does not reach.
///
/// # Safety
/// From `bytes` to `end` there must be at least one element, and as many from `fours` on; `out` must have one at 3 · `STEP`.
#[unsafe(naked)]
unsafe extern "C" fn dots_of_four<const STEP: usize>(
    fours: *const Fours<4>,
    bytes: *const [i8; 4],
    end: *const [i8; 4],
    out: *mut i32,
) {
    // Two elements a turn, and one before the first where their number is odd. A load of one word may be unaligned, as
    // bytes are; the words that LDM loads are aligned as i32.
    naked_asm!(
        "push {{r4-r11, lr}}",
        "mov r4, #0",
        "mov r5, #0",
        "mov r6, #0",
        "mov r7, #0",
        "sub r12, r2, r1",
        "tst r12, #4",
        "bne 3f",
        ".macro regard_dots_of_four",
        "ldr r12, [r1], #4",
        "ldmia r0!, {{r8-r11}}",
        "sxtb16 lr, r12",
        "smlad r4, r8, lr, r4",
        "smlad r5, r9, lr, r5",
        "smlad r6, r10, lr, r6",
        "smlad r7, r11, lr, r7",
        "ldmia r0!, {{r8-r11}}",
        "sxtb16 lr, r12, ror #8",
        "smlad r4, r8, lr, r4",
        "smlad r5, r9, lr, r5",
        "smlad r6, r10, lr, r6",
        "smlad r7, r11, lr, r7",
        ".endm",
        "2:",
        "regard_dots_of_four",
        "3:",
        "regard_dots_of_four",
        ".purgem regard_dots_of_four",
        "cmp r1, r2",
        "bne 2b",
        "str r4, [r3]",
        "str r5, [r3, #{step}]",
        "str r6, [r3, #2 * {step}]",
        "str r7, [r3, #3 * {step}]",
        "pop {{r4-r11, pc}}",
        step = const STEP * size_of::<i32>(),
    )
}

#[inline(always)]
fn add_products<const R: usize>(dots: &mut [i32; R], rows: &Fours<R>, bytes: [i8; 4]) {
    let (even, odd) = widen(bytes);
    for (row, half) in rows.iter().zip([even, odd]) {
        for (dot, row) in dots.iter_mut().zip(row) {
            *dot = smlad(*row, half, *dot);
        }
    }
}

/// Up to four bytes, and 0 for those that are not there.
#[inline(always)]
fn padded(bytes: &[i8]) -> [i8; 4] {
    if let Some(whole) = bytes.first_chunk() {
        return *whole;
    }
    let byte = |i| bytes.get(i).copied().unwrap_or_default();
    [byte(0), byte(1), byte(2), 0]
}

#[inline(always)]
fn word_of(bytes: [i8; 4]) -> i32 {
    i32::from_le_bytes(bytes.map(|b| b as u8))
}

#[inline(always)]
fn bytes_of(words: &[i32]) -> &[[i8; 4]] {
    // SAFETY: four bytes for each word of the same memory; bytes need no alignment, and all are valid.
    unsafe { core::slice::from_raw_parts(words.as_ptr().cast(), words.len()) }
}

/// The even bytes and the odd ones, two in a word.
#[inline(always)]
fn widen(bytes: [i8; 4]) -> (i32, i32) {
    let word = word_of(bytes);
    (bytes_0_and_2(word), bytes_1_and_3(word))
}

/// a.low · b.low + a.high · b.high + sum, of 16-bit halves.
#[inline(always)]
fn smlad(a: i32, b: i32, mut sum: i32) -> i32 {
    // SAFETY: SMLAD works on registers alone; it would only touch a flag if the sum overflowed, which no sum here does.
    unsafe {
        asm!("smlad {sum}, {a}, {b}, {sum}", sum = inlateout(reg) sum, a = in(reg) a, b = in(reg) b,
            options(pure, nomem, nostack, preserves_flags));
    }
    sum
}

/// Bytes 0 and 2, each widened to 16 bits with its sign.
#[inline(always)]
fn bytes_0_and_2(word: i32) -> i32 {
    let out;
    // SAFETY: SXTB16 works on registers alone and touches no flag.
    unsafe { asm!("sxtb16 {}, {}", lateout(reg) out, in(reg) word, options(pure, nomem, nostack, preserves_flags)) };
    out
}

/// Bytes 1 and 3, each widened to 16 bits with its sign.
#[inline(always)]
fn bytes_1_and_3(word: i32) -> i32 {
    let out;
    // SAFETY: as above.
    unsafe {
        asm!("sxtb16 {}, {}, ror #8", lateout(reg) out, in(reg) word, options(pure, nomem, nostack, preserves_flags));
    }
    out
}
