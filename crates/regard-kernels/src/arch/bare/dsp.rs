//! Cortex-M cores with the DSP extension (M4, M7, M33, M55): SXTB16 widens every other byte of a word to 16 bits, SMLAD multiplies
//! two such pairs and adds both products.

use core::arch::{asm, naked_asm};

use crate::arch::int8::{Factor, Fours, GROUP, pairs};
pub(crate) use crate::arch::int8::{
    dsp_query_words as query_words, dsp_value_words as value_words,
};
use crate::invariant::Promised as _;
use crate::{Mat, MatMut};

/// Columns of the values that are multiplied by the weights at a time.
const COLUMNS: usize = 16;

/// `R` queries, ready for dot products with keys: widened to 16 bits.
pub(crate) struct Queries<'a, const R: usize>(&'a [Fours<R>]);

impl<'a, const R: usize> Queries<'a, R> {
    #[inline(always)]
    pub(crate) fn new(rows: [&'a [i8]; R], words: &'a mut [i32]) -> Self {
        let fours = words.as_chunks_mut::<R>().0.as_chunks_mut::<2>().0;
        for (r, row) in (0..R).zip(&rows) {
            let (whole, rest) = row.as_chunks::<4>();
            for ([even, odd], bytes) in fours.iter_mut().zip(whole) {
                (even[r], odd[r]) = widen(word(bytes));
            }
            if let Some([even, odd]) = fours.get_mut(whole.len()) {
                (even[r], odd[r]) = widen(word(rest));
            }
        }
        Self(fours)
    }

    /// Each query's dot products with the keys from `first` on, as many as `scores` has room for.
    #[inline(always)]
    pub(crate) fn dots(&self, k: Mat<'_, i8>, first: usize, scores: &mut [[i32; R]]) {
        let keys = scores.len().min(k.rows().saturating_sub(first));
        let scores = scores.get_mut(..keys).promised();
        let (whole, last) = self.0.split_at_checked(k.cols() / 4).unwrap_or_default();
        // SAFETY: each of these keys has so many whole words.
        unsafe { dots(whole, k.rows_from(first, keys).data().as_ptr(), k.stride(), scores) };
        let (Some(last), false) = (last.first(), k.cols().is_multiple_of(4)) else { return };
        for (j, scores) in scores.iter_mut().enumerate() {
            add_products(scores, last, word_at(k.row(first + j), 4 * whole.len()));
        }
    }
}

/// Values, prepared for the product with the weights.
#[derive(Clone, Copy)]
pub(crate) struct Values<'a> {
    v: Mat<'a, i8>,
    /// Each column's bytes, four keys to a word: ⌈rows⌉₄ / 4 words for each column. Empty if the values are not transposed.
    transposed: &'a [i32],
}

impl<'a> Values<'a> {
    #[inline(always)]
    pub(crate) fn new(v: Mat<'a, i8>, words: &'a mut [i32]) -> Self {
        let height = v.rows().div_ceil(4);
        let words = if words.len() == height.saturating_mul(v.cols()) { words } else { &mut [] };
        if !words.is_empty() {
            for i in 0..height {
                let row = |n| v.row(4 * i + n);
                let (a, b, c, d) = (row(0), row(1), row(2), row(3));
                for col in (0..v.cols()).step_by(4) {
                    let columns = transposed(
                        word_at(a, col),
                        word_at(b, col),
                        word_at(c, col),
                        word_at(d, col),
                    );
                    let mut place = col * height + i;
                    for column in columns {
                        let Some(word) = words.get_mut(place) else { break };
                        *word = column;
                        place += height;
                    }
                }
            }
        }
        Self { v, transposed: words }
    }

    /// Writes to `out`, for each row, Σ weight · value over the keys from `first` on, times the row's factor. `first` is a
    /// multiple of 4.
    #[inline(always)]
    pub(crate) fn weigh<const R: usize>(
        &self,
        weights: &[[i32; R]],
        first: usize,
        factors: &[Factor; R],
        mut out: MatMut<'_, i8>,
    ) {
        let weights = pairs(weights);
        let columns = self.v.cols();
        if R == GROUP && !self.transposed.is_empty() {
            let height = self.v.rows().div_ceil(4);
            let skipped = (first / 4).min(height);
            let weights = weights.get(..height - skipped).unwrap_or(weights);
            let mut sums = [[0; R]; COLUMNS];
            for col in (0..columns).step_by(COLUMNS) {
                let words = self.transposed.as_ptr().wrapping_add(col * height + skipped);
                let sums = sums.get_mut(..COLUMNS.min(columns - col)).promised();
                // SAFETY: each of these columns has `height` words, of which the first `skipped` are left out.
                unsafe { dots(weights, words.cast(), 4 * height, sums) };
                for (r, &factor) in (0..R).zip(factors) {
                    let out = out.row_mut(r).get_mut(col..).promised();
                    for (out, sums) in out.iter_mut().zip(&*sums) {
                        *out = factor.times(sums[r]);
                    }
                }
            }
        } else {
            for (r, &factor) in (0..R).zip(factors) {
                for (i, out) in out.row_mut(r).chunks_mut(4).enumerate() {
                    let sums = self.weigh_four(weights, r, first, 4 * i);
                    for (out, sum) in out.iter_mut().zip(sums) {
                        *out = factor.times(sum);
                    }
                }
            }
        }
    }

    /// The sums of row `r` over four columns, of which `col` is the first.
    #[inline(always)]
    fn weigh_four<const R: usize>(
        &self,
        weights: &[Fours<R>],
        r: usize,
        first: usize,
        col: usize,
    ) -> [i32; 4] {
        let mut sums = [0; 4];
        let keys = if col + 4 <= self.v.cols() { self.v.rows().saturating_sub(first) } else { 0 };
        let (whole, rest) = weights.split_at_checked(keys / 4).unwrap_or((weights, &[]));
        let stride = self.v.stride();
        let mut row = self.v.rows_from(first, keys).data().as_ptr().wrapping_add(col);
        for weights in whole {
            let mut next = || {
                // SAFETY: this key exists, and it has four columns from `col` on.
                let word = unsafe { load(row) };
                row = row.wrapping_add(stride);
                word
            };
            sums = with_values(sums, weights, r, [next(), next(), next(), next()]);
        }
        for (i, weights) in rest.iter().enumerate() {
            let row = |n| word_at(self.v.row(first + 4 * (whole.len() + i) + n), col);
            sums = with_values(sums, weights, r, [row(0), row(1), row(2), row(3)]);
        }
        sums
    }
}

/// Adds the products of the weights of row `r` with four columns of four keys. The code is written out, because a compiler that
/// optimises for size does not unroll so short a loop.
#[inline(always)]
fn with_values<const R: usize>(
    [mut first, mut second, mut third, mut fourth]: [i32; 4],
    [even, odd]: &Fours<R>,
    r: usize,
    [a, b, c, d]: [i32; 4],
) -> [i32; 4] {
    let mut add = |weights, upper, lower| {
        let (left, right) = (lower_halves(upper, lower), upper_halves(upper, lower));
        first = smlad(weights, bytes_0_and_2(left), first);
        second = smlad(weights, bytes_1_and_3(left), second);
        third = smlad(weights, bytes_0_and_2(right), third);
        fourth = smlad(weights, bytes_1_and_3(right), fourth);
    };
    add(even[r], a, c);
    add(odd[r], b, d);
    [first, second, third, fourth]
}

/// Transposes four rows of four bytes.
#[inline(always)]
fn transposed(a: i32, b: i32, c: i32, d: i32) -> [i32; 4] {
    const EVEN: i32 = 0x00ff_00ff;
    let evens = |upper: i32, lower: i32| (upper & EVEN) | ((lower & EVEN) << 8);
    let odds = |upper: i32, lower: i32| ((upper >> 8) & EVEN) | (lower & !EVEN);
    let (e, f, g, h) = (evens(a, b), odds(a, b), evens(c, d), odds(c, d));
    [lower_halves(e, g), lower_halves(f, h), upper_halves(e, g), upper_halves(f, h)]
}

/// PKHBT: the lower halves of both numbers, that of `b` above that of `a`.
#[inline(always)]
fn lower_halves(a: i32, b: i32) -> i32 {
    (a & 0xffff) | (b << 16)
}

/// PKHTB: the upper halves of both numbers, that of `b` above that of `a`.
#[inline(always)]
fn upper_halves(a: i32, b: i32) -> i32 {
    (a as u32 >> 16) as i32 | (b & !0xffff)
}

/// The dot products of `R` rows of 16-bit numbers with each of `out.len()` rows of bytes, `stride` apart.
///
/// # Safety
/// Each of the rows must have 4 · `fours.len()` bytes.
#[inline(always)]
unsafe fn dots<const R: usize>(
    fours: &[Fours<R>],
    bytes: *const i8,
    stride: usize,
    out: &mut [[i32; R]],
) {
    let row = |n: usize| bytes.wrapping_add(n * stride);
    // SAFETY: the caller guarantees that the bytes exist.
    let word = |row: *const i8, i| unsafe { load(row.add(4 * i)) };
    if fours.is_empty() {
        out.fill([0; R]);
    } else if R == GROUP && !out.is_empty() {
        let (len, out) = (4 * fours.len(), out.as_mut_ptr_range());
        // SAFETY: `R` is 4, and neither `fours` nor `out` is empty. The caller guarantees that the bytes exist.
        unsafe {
            dots_of_four(
                fours.as_ptr().cast(),
                bytes,
                out.start.cast(),
                out.end.cast(),
                len,
                stride,
            );
        }
    } else {
        // Four rows of bytes at a time, and then those that are left.
        let (whole, rest) = out.as_chunks_mut::<4>();
        for (i, rest) in rest.iter_mut().enumerate() {
            let row = row(4 * whole.len() + i);
            *rest = [0; R];
            for (i, fours) in fours.iter().enumerate() {
                add_products(rest, fours, word(row, i));
            }
        }
        if R == 1 && !whole.is_empty() {
            let (len, whole) = (4 * fours.len(), whole.as_mut_ptr_range());
            // SAFETY: `R` is 1, and neither `fours` nor `whole` is empty. The caller guarantees that the bytes exist.
            unsafe {
                dots_of_one(
                    fours.as_ptr().cast(),
                    bytes,
                    whole.start.cast(),
                    whole.end.cast(),
                    len,
                    stride,
                );
            }
        }
    }
}

/// The body of a naked function. Its assembler knows only the target's name, and in ARMv8-M the name does not tell whether the
/// core has the extension.
#[cfg(not(dsp_by_cpu))]
macro_rules! assembly {
    ($($body:tt)*) => { naked_asm!($($body)*) };
}
#[cfg(dsp_by_cpu)]
macro_rules! assembly {
    ($($body:tt)*) => { naked_asm!(".cpu cortex-m33", $($body)*) };
}

/// [`dots`] of one row: 21 instructions for 16 multiply-adds.
///
/// # Safety
/// `len` is 4 for each element of `fours`. There is at least one element in `fours`, and from `out` to `end` a multiple of four, at
/// least four. All rows of bytes must have `len`.
#[unsafe(naked)]
unsafe extern "C" fn dots_of_one(
    fours: *const Fours<1>,
    bytes: *const i8,
    out: *mut [i32; 4],
    end: *const [i32; 4],
    len: usize,
    stride: usize,
) {
    // A round takes two words of each of four rows. If the number of words is odd, the first round begins at its second word.
    assembly!(
        "push {{r0, r2-r11, lr}}",
        // On the stack: fours, out, end, 9 registers, len, stride.
        "ldr r10, [sp, #52]",
        "add r11, r10, r10",
        "add r12, r11, r10",
        "2:",
        "ldr r2, [sp, #48]",
        "add r3, r1, r2",
        "mov r4, #0",
        "mov r5, #0",
        "mov r6, #0",
        "mov r7, #0",
        "tst r2, #4",
        "bne 4f",
        ".macro regard_word sum",
        "sxtb16 r2, lr",
        "smlad \\sum, r8, r2, \\sum",
        "sxtb16 lr, lr, ror #8",
        "smlad \\sum, r9, lr, \\sum",
        ".endm",
        ".macro regard_dots_of_one",
        "ldrd r8, r9, [r0], #8",
        "ldr lr, [r1, r10]",
        "regard_word r5",
        "ldr lr, [r1, r11]",
        "regard_word r6",
        "ldr lr, [r1, r12]",
        "regard_word r7",
        "ldr lr, [r1], #4",
        "regard_word r4",
        ".endm",
        "3:",
        "regard_dots_of_one",
        "4:",
        "regard_dots_of_one",
        ".purgem regard_dots_of_one",
        ".purgem regard_word",
        "cmp r1, r3",
        "bne 3b",
        "ldrd r0, r2, [sp]",
        "stmia r2!, {{r4-r7}}",
        "str r2, [sp, #4]",
        "ldr r4, [sp, #48]",
        "ldr r3, [sp, #8]",
        "sub r1, r1, r4",
        "add r1, r1, r10, lsl #2",
        "cmp r2, r3",
        "bne 2b",
        "add sp, #12",
        "pop {{r4-r11, pc}}",
    )
}

/// [`dots`] of four rows: 13 instructions for 16 multiply-adds. The compiler needs more, because of the registers that it
/// chooses.
///
/// # Safety
/// `len` is 4 for each element of `fours`. There is at least one element in `fours`, and one from `out` to `end`. All rows of
/// bytes must have `len`.
#[unsafe(naked)]
unsafe extern "C" fn dots_of_four(
    fours: *const Fours<4>,
    bytes: *const i8,
    out: *mut [i32; 4],
    end: *const [i32; 4],
    len: usize,
    stride: usize,
) {
    // A round takes four elements. The first round begins in the middle, so that the others are whole. Bytes may lie at any
    // address, so they are loaded one word at a time; the words that LDM loads are aligned as i32.
    assembly!(
        "push {{r0, r3-r11, lr}}",
        "sub sp, #4",
        // On the stack: which element comes first, fours, end, 9 registers, len, stride − len.
        "ldrd r4, r5, [sp, #48]",
        "subs r5, r5, r4",
        "str r5, [sp, #52]",
        "rsb r4, r4, #0",
        "ubfx r4, r4, #2, #2",
        "str r4, [sp]",
        "2:",
        "ldr r3, [sp, #48]",
        "add r3, r1, r3",
        "mov r4, #0",
        "mov r5, #0",
        "mov r6, #0",
        "mov r7, #0",
        "ldr r12, [sp]",
        "tbb [pc, r12]",
        "3:",
        ".byte (4f - 3b) / 2, (5f - 3b) / 2, (6f - 3b) / 2, (7f - 3b) / 2",
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
        "4:",
        "regard_dots_of_four",
        "5:",
        "regard_dots_of_four",
        "6:",
        "regard_dots_of_four",
        "7:",
        "regard_dots_of_four",
        ".purgem regard_dots_of_four",
        "cmp r1, r3",
        "bne 4b",
        "stmia r2!, {{r4-r7}}",
        "ldrd r0, r3, [sp, #4]",
        "ldr r4, [sp, #52]",
        "add r1, r1, r4",
        "cmp r2, r3",
        "bne 2b",
        "add sp, #12",
        "pop {{r4-r11, pc}}",
    )
}

#[inline(always)]
fn add_products<const R: usize>(sums: &mut [i32; R], [evens, odds]: &Fours<R>, bytes: i32) {
    let (even, odd) = widen(bytes);
    for ((sum, evens), odds) in sums.iter_mut().zip(evens).zip(odds) {
        *sum = smlad(*odds, odd, smlad(*evens, even, *sum));
    }
}

/// # Safety
/// There must be four bytes from `bytes` on.
#[inline(always)]
unsafe fn load(bytes: *const i8) -> i32 {
    // SAFETY: the caller guarantees that the bytes exist, and the core loads words that are not aligned.
    i32::from_le_bytes(unsafe { bytes.cast::<[u8; 4]>().read() })
}

/// The four bytes from `i` on. A byte that does not exist is 0.
#[inline(always)]
fn word_at(bytes: &[i8], i: usize) -> i32 {
    word(bytes.get(i..).unwrap_or_default())
}

/// The first four bytes. A byte that does not exist is 0.
#[inline(always)]
fn word(bytes: &[i8]) -> i32 {
    if let Some(whole) = bytes.first_chunk() {
        i32::from_le_bytes(whole.map(|b: i8| b as u8))
    } else {
        short_word(bytes)
    }
}

/// A function of its own, so that `word` loads four bytes at once.
#[cold]
#[inline(never)]
fn short_word(bytes: &[i8]) -> i32 {
    bytes.iter().take(3).rev().fold(0, |word, byte| (word << 8) | i32::from(*byte as u8))
}

/// The even bytes and the odd bytes, each widened to 16 bits, two in a word.
#[inline(always)]
fn widen(word: i32) -> (i32, i32) {
    (bytes_0_and_2(word), bytes_1_and_3(word))
}

/// a.low · b.low + a.high · b.high + sum, of 16-bit halves.
#[inline(always)]
fn smlad(a: i32, b: i32, mut sum: i32) -> i32 {
    // SAFETY: SMLAD works on registers alone. It sets a flag only if the sum overflows, and no sum here does.
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
    unsafe {
        asm!("sxtb16 {}, {}", lateout(reg) out, in(reg) word, options(pure, nomem, nostack, preserves_flags));
    }
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
