//! Cores with an FPU and no multiply-add of integers (RISC-V with F): products in `f32`, a multiply-add of which is one
//! instruction.
//!
//! A sum of whole numbers that stays within ±2²⁴ is exact in `f32`, so the bits are those of integers:
//!
//! ```text
//! scores:  |q·k| ≤ 2¹⁴ a column                  1024 columns, then the sums become integers
//! outputs: |weight·value| ≤ 2¹⁴·2⁷ a key         8 keys, then the sums become integers
//! ```
//!
//! Queries are widened once a group, and weights where they are computed; keys and values are widened as they are read, for four
//! queries at once. One query alone would have to pay for that alone: its products are in integers.
//!
//! The tiles are written out, because a compiler that is told to save bytes unrolls no loop.

use super::{Values, four_times};
use crate::int8::{Exponent, Factor, excess, halved, largest};
use crate::simd::Simd as _;
use crate::simd::scalar::Scalar;
use crate::{Mat, MatMut};

/// What a tile computes in.
trait Number: Copy + Default {
    /// Columns of queries and keys whose products have an exact sum.
    const EXACT_COLUMNS: usize;
    /// Keys whose weighted values have an exact sum.
    const EXACT_KEYS: usize;

    /// A whole number within ±2²⁴.
    fn of(x: i32) -> Self;
    fn mul(self, b: Self) -> Self;
    fn mul_add(self, b: Self, c: Self) -> Self;
    /// An exact sum as an integer.
    ///
    /// # Safety
    /// It must be a whole number within ±2³¹.
    unsafe fn whole(self) -> i32;
    /// The number in a word of the memory for integers.
    fn word(self) -> i32;
    fn of_word(word: i32) -> Self;
}

impl Number for f32 {
    const EXACT_COLUMNS: usize = 1 << 10;
    const EXACT_KEYS: usize = 8;

    #[inline(always)]
    fn of(x: i32) -> Self {
        x as Self
    }

    #[inline(always)]
    fn mul(self, b: Self) -> Self {
        self * b
    }

    #[inline(always)]
    fn mul_add(self, b: Self, c: Self) -> Self {
        Scalar.mul_add_one(self, b, c)
    }

    #[inline(always)]
    unsafe fn whole(self) -> i32 {
        // SAFETY: the caller answers for the number.
        unsafe { self.to_int_unchecked() }
    }

    #[inline(always)]
    fn word(self) -> i32 {
        self.to_bits().cast_signed()
    }

    #[inline(always)]
    fn of_word(word: i32) -> Self {
        Self::from_bits(word.cast_unsigned())
    }
}

impl Number for i32 {
    const EXACT_COLUMNS: usize = usize::MAX;
    const EXACT_KEYS: usize = usize::MAX;

    #[inline(always)]
    fn of(x: i32) -> Self {
        x
    }

    #[inline(always)]
    fn mul(self, b: Self) -> Self {
        self * b
    }

    #[inline(always)]
    fn mul_add(self, b: Self, c: Self) -> Self {
        self * b + c
    }

    #[inline(always)]
    unsafe fn whole(self) -> i32 {
        self
    }

    #[inline(always)]
    fn word(self) -> i32 {
        self
    }

    #[inline(always)]
    fn of_word(word: i32) -> Self {
        word
    }
}

/// Words of memory that [`Queries`] need.
pub(crate) const fn query_words(rows: usize, d_k: usize) -> usize {
    super::float_query_words(rows, d_k)
}

/// A query's element or a weight, as the tiles of `R` rows read it.
#[inline(always)]
fn word<const R: usize>(x: i32) -> i32 {
    if R == 1 { x } else { f32::of(x).word() }
}

/// What a [`word`] was made of.
///
/// # Safety
/// It must be one, of an integer within ±2²⁴.
#[inline(always)]
unsafe fn whole<const R: usize>(word: i32) -> i32 {
    if R == 1 {
        return word;
    }
    // SAFETY: the caller answers for the word.
    unsafe { f32::of_word(word).whole() }
}

/// `R` queries, ready for dot products with keys: each column's elements beside each other, each a [`word`].
pub(crate) struct Queries<'a, const R: usize>(&'a [[i32; R]]);

impl<'a, const R: usize> Queries<'a, R> {
    #[inline(always)]
    pub(crate) fn new(rows: [&'a [i8]; R], words: &'a mut [i32]) -> Self {
        let count = rows.first().map_or(0, |row| row.len());
        let columns = words.as_chunks_mut::<R>().0.get_mut(..count).unwrap_or_default();
        for (r, row) in (0..R).zip(&rows) {
            let widen = |(column, x): (&mut [i32; R], &i8)| column[r] = word::<R>(i32::from(*x));
            let (pairs, last) = columns.as_chunks_mut::<2>();
            let (row, rest) = row.as_chunks::<2>();
            for ([a, b], [x, y]) in pairs.iter_mut().zip(row) {
                widen((a, x));
                widen((b, y));
            }
            last.iter_mut().zip(rest).for_each(widen);
        }
        Self(columns)
    }

    /// Each query's dot products with the keys from `first` on, a multiple of four; the scores of keys after the last one are any
    /// numbers.
    #[inline(always)]
    pub(crate) fn dots(&self, k: Mat<'_, i8>, first: usize, scores: &mut [[i32; R]]) {
        let keys = k.rows_from(first, scores.len());
        if keys.rows() == 0 || keys.cols() != self.0.len() {
            return;
        }
        let scores = scores.as_chunks_mut().0;
        // SAFETY: the keys have as many columns as the queries, which are words of 8-bit integers.
        unsafe {
            if R == 1 {
                dots::<i32, R>(self.0, keys, scores);
            } else {
                dots::<f32, R>(self.0, keys, scores);
            }
        }
    }
}

impl Values<'_> {
    /// Into `out`, each row's Σ weight · value over the keys from `first` on, times its factor.
    #[inline(always)]
    pub(crate) fn weigh<const R: usize>(
        &self,
        weights: &[[i32; R]],
        first: usize,
        factors: &[Factor; R],
        mut out: MatMut<'_, i8>,
    ) {
        let keys = self.0.rows_from(first, weights.len());
        let (weights, columns) = (weights.get(..keys.rows()).unwrap_or_default(), keys.cols());
        let mut rows = out.rows_mut::<R>(0);
        if columns < 4 {
            // SAFETY: the weights are those of `weigh`.
            return unsafe { weigh_few(weights, keys, factors, &mut rows) };
        }
        let mut sums = [[0; R]; 4];
        for col in (0..columns).step_by(4) {
            // The last four columns may be partly those before them.
            let col = col.min(columns - 4);
            let values = keys.data().as_ptr().wrapping_add(col);
            // SAFETY: there are as many keys as weights, each with four columns from `col` on; the weights are those of `weigh`.
            unsafe {
                if R == 1 {
                    sums_of_tile::<i32, R>(weights, values, keys.stride(), &mut sums);
                } else {
                    sums_of_tile::<f32, R>(weights, values, keys.stride(), &mut sums);
                }
            }
            for ((r, row), factor) in (0..R).zip(&mut rows).zip(factors) {
                if let Some(out) = row.get_mut(col..).and_then(|row| row.first_chunk_mut::<4>()) {
                    four_times!(C, out[C] = factor.times(sums[C][r]));
                }
            }
        }
    }
}

/// [`Values::weigh`] for less than four columns.
///
/// # Safety
/// The weights must be those of [`weigh`].
#[cold]
#[inline(never)]
unsafe fn weigh_few<const R: usize>(
    weights: &[[i32; R]],
    keys: Mat<'_, i8>,
    factors: &[Factor; R],
    rows: &mut [&mut [i8]; R],
) {
    for ((r, row), factor) in (0..R).zip(rows).zip(factors) {
        for (col, out) in row.iter_mut().enumerate() {
            let mut sum = 0;
            for (i, weights) in weights.iter().enumerate() {
                let value = keys.row(i).get(col).copied().unwrap_or_default();
                // SAFETY: the caller answers for the weights.
                sum += unsafe { whole::<R>(weights[r]) } * i32::from(value);
            }
            *out = factor.times(sum);
        }
    }
}

/// Sums of four columns and up to four rows.
type Sums<N> = [[N; 4]; 4];

/// The products of `a` with `b`, added to `sums` or, if they are the `FIRST`, in their place.
#[inline(always)]
fn add_products<N: Number, const R: usize, const FIRST: bool>(
    sums: &mut Sums<N>,
    a: &[i32; R],
    b: [i8; 4],
) {
    four_times!(C, {
        let b = N::of(i32::from(b[C]));
        four_times!(
            A,
            if A < R {
                let a = N::of_word(a[A]);
                sums[C][A] = if FIRST { a.mul(b) } else { a.mul_add(b, sums[C][A]) };
            }
        );
    });
}

/// The dot products of `R` queries, at most four, with `keys`, of which there is one at least.
///
/// # Safety
/// The keys must have as many columns as there are of `queries`, and these must be words of 8-bit integers, as `N` reads them.
#[inline(always)]
unsafe fn dots<N: Number, const R: usize>(
    queries: &[[i32; R]],
    keys: Mat<'_, i8>,
    scores: &mut [[[i32; R]; 4]],
) {
    let (first, rest) = queries.split_at_checked(N::EXACT_COLUMNS).unwrap_or((queries, &[]));
    let (start, stride) = (keys.data().as_ptr(), keys.stride());
    let last = start.wrapping_add((keys.rows() - 1) * stride);
    // SAFETY: the caller answers for the columns.
    unsafe { dots_of_tiles::<N, R>(first, start, last, stride, scores) };
    for (i, part) in rest.chunks(N::EXACT_COLUMNS).enumerate() {
        let col = (i + 1) * N::EXACT_COLUMNS;
        for (i, scores) in scores.iter_mut().enumerate() {
            let (mut sums, key) = ([[[0; R]; 4]], start.wrapping_add(4 * i * stride).min(last));
            let (key, last) = (key.wrapping_add(col), last.wrapping_add(col));
            // SAFETY: as above.
            unsafe { dots_of_tiles::<N, R>(part, key, last, stride, &mut sums) };
            for (score, sum) in
                scores.as_flattened_mut().iter_mut().zip(sums.as_flattened().as_flattened())
            {
                *score += sum;
            }
        }
    }
}

/// The dot products of `R` queries, at most four, with the keys from `key` to `last`, four at a time.
///
/// # Safety
/// The keys must have as many columns as there are of `queries`, and these must be words of 8-bit integers, as `N` reads them.
#[inline(never)]
unsafe fn dots_of_tiles<N: Number, const R: usize>(
    queries: &[[i32; R]],
    mut key: *const i8,
    last: *const i8,
    stride: usize,
    scores: &mut [[[i32; R]; 4]],
) {
    let (fours, rest) = queries.as_chunks::<4>();
    // In place of a key that does not exist the last is read again.
    let after = |key: *const i8| if key == last { key } else { key.wrapping_add(stride) };
    for scores in scores {
        let mut a = key;
        let mut b = after(a);
        let mut c = after(b);
        let mut d = after(c);
        key = after(d);
        // Said one by one: of a loop over the four pointers, none would stay in a register.
        macro_rules! step_by {
            ($columns:literal) => {
                a = a.wrapping_add($columns);
                b = b.wrapping_add($columns);
                c = c.wrapping_add($columns);
                d = d.wrapping_add($columns);
            };
        }
        let mut sums = Sums::<N>::default();
        for four in fours {
            four_times!(T, {
                // SAFETY: the caller answers for the columns.
                let keys = unsafe { [*a.add(T), *b.add(T), *c.add(T), *d.add(T)] };
                add_products::<N, R, false>(&mut sums, &four[T], keys);
            });
            step_by!(4);
        }
        for column in rest {
            // SAFETY: as above.
            add_products::<N, R, false>(&mut sums, column, unsafe { [*a, *b, *c, *d] });
            step_by!(1);
        }
        four_times!(
            C,
            four_times!(
                A,
                if A < R {
                    // SAFETY: a sum of at most `EXACT_COLUMNS` products of 8-bit integers.
                    scores[C][A] = unsafe { sums[C][A].whole() };
                }
            )
        );
    }
}

/// Σ weight · value of `R` rows, at most four, and four columns.
///
/// # Safety
/// From `value` on there must be four elements for each of the weights, `stride` apart. The weights must be words of integers from 0
/// to 2¹⁴, as `N` reads them.
#[inline(never)]
unsafe fn sums_of_tile<N: Number, const R: usize>(
    weights: &[[i32; R]],
    value: *const i8,
    stride: usize,
    out: &mut [[i32; R]; 4],
) {
    let mut value = value;
    let mut next = || {
        // SAFETY: the caller answers for the elements.
        let values = unsafe { [*value, *value.add(1), *value.add(2), *value.add(3)] };
        value = value.wrapping_add(stride);
        values
    };
    let mut totals = Sums::<i32>::default();
    for part in weights.chunks(N::EXACT_KEYS) {
        let [first, rest @ ..] = part else { continue };
        let mut sums = Sums::<N>::default();
        add_products::<N, R, true>(&mut sums, first, next());
        for weights in rest {
            add_products::<N, R, false>(&mut sums, weights, next());
        }
        four_times!(
            C,
            four_times!(
                A,
                if A < R {
                    // SAFETY: a sum of at most `EXACT_KEYS` products of weights with 8-bit integers.
                    totals[C][A] += unsafe { sums[C][A].whole() };
                }
            )
        );
    }
    four_times!(
        C,
        four_times!(
            A,
            if A < R {
                out[C][A] = totals[C][A];
            }
        )
    );
}

/// Turns the scores numbered `r` into weights, each a [`word`], and returns their total.
#[inline(always)]
pub(crate) fn weigh<const R: usize>(exponent: &Exponent, scores: &mut [[i32; R]], r: usize) -> u32 {
    let r = r.min(R - 1); // tells the compiler that it is one of them
    let max = largest(scores, r);
    let mut total = 0;
    let mut turn = |score: &mut [i32; R]| {
        let weight = exponent.weight(max.wrapping_sub(score[r]).cast_unsigned());
        total += weight;
        score[r] = word::<R>(weight.cast_signed());
    };
    let fours = scores.as_chunks_mut::<4>().0;
    for four in &mut *fours {
        four_times!(I, turn(&mut four[I]));
    }
    let excess = excess(total);
    if excess == 0 {
        return total;
    }
    total = 0;
    for scores in fours.as_flattened_mut() {
        // SAFETY: the loop above has written these words.
        let weight = halved(unsafe { whole::<R>(scores[r]) }.cast_unsigned(), excess);
        total += weight;
        scores[r] = word::<R>(weight.cast_signed());
    }
    total
}
