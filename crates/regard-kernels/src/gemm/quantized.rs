//! Products with quantized weights.
//!
//! A strip of W is decoded to `f32`: [`ROWS`] rows and at most [`STEPS`] · 16 columns. It stays in the nearest cache while all
//! rows of x are multiplied by it:
//!
//! ```text
//! for each block of ≤ TOKENS rows of x:
//!     for each ROWS rows of W:
//!         for each STEPS · 16 columns:
//!             strip ← decode(W)                                  each number is read from memory once
//!             for each tile of R rows of x and N of the strip:
//!                 for each 16 columns t:
//!                     sums[r][n] ← x[r][t] · strip[n][t] + sums[r][n]     16 lanes
//!         out[r][n] ← fold(sums[r][n])                           the 16 lanes, as a tree
//! ```
//!
//! An element of the product is the fold of 16 chains of multiply-adds, in any tile. So its bits depend on no other row or
//! column.

use core::marker::PhantomData;

use super::Store;
use super::formats::{
    Decode, Iq4Nl, Mxfp4, Q2K, Q3K, Q4_0, Q4_1, Q4K, Q5_0, Q5_1, Q5K, Q6K, Q8_0, Quantization,
    decode,
};
use crate::arch::{Kernel, LANES, Panel, Simd, dispatch};
use crate::error::{Error, check_len, check_shape};
use crate::invariant::{Promised as _, broken};
use crate::{Mat, MatMut};

/// A quantized matrix W \[rows, columns\], whose rows are whole blocks.
///
/// ```
/// use regard_kernels::{Mat, MatMut, Quantization, Quantized, Store, quantized_scratch_len};
/// let mut block = [3; 34]; // the scale as f16, then 32 numbers
/// (block[0], block[1]) = (0x00, 0x38); // 0.5
/// let row = Quantized::new(&block, Quantization::Q8_0, 1, 32)?; // 32 times 1.5
/// let mut w = [[0.0; 32]];
/// row.widen(MatMut::from(&mut w))?;
/// assert_eq!(w, [[1.5; 32]]);
/// let (mut y, mut scratch) = ([[1.0]], [0.0; quantized_scratch_len(1)]);
/// row.multiply(Mat::from(&[[2.0; 32]]), MatMut::from(&mut y), Store::Add, &mut scratch)?;
/// assert_eq!(y, [[1.0 + 96.0]]);
/// # Ok::<(), regard_kernels::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Quantized<'a> {
    bytes: &'a [u8],
    format: Quantization,
    rows: usize,
    cols: usize,
}

impl<'a> Quantized<'a> {
    /// The matrix of these blocks, one row after another.
    ///
    /// # Errors
    /// [`Error::Length`] if the number of columns is not a multiple of a block's numbers, or if `blocks` has another number
    /// of bytes than the matrix needs.
    pub fn new(
        bytes: &'a [u8],
        format: Quantization,
        rows: usize,
        cols: usize,
    ) -> Result<Self, Error> {
        let (numbers, size) = format.block();
        let blocks = cols / numbers.max(1); // never divides by 0
        check_len("a quantized row, in whole blocks,", cols, blocks * numbers)?;
        let all = rows.saturating_mul(blocks).saturating_mul(size);
        check_len("the blocks", bytes.len(), all)?;
        Ok(Self { bytes, format, rows, cols })
    }

    /// Writes W to `out` \[rows, columns\].
    ///
    /// # Errors
    /// [`Error::Shape`] if `out` has another shape.
    pub fn widen(self, out: MatMut<'_>) -> Result<(), Error> {
        check_shape("the widened rows", out.shape(), (self.rows, self.cols), "the rows' shape")?;
        dispatch(Widen { w: self, out });
        Ok(())
    }

    /// `out` ← xWᵀ, or `out` ← `out` + xWᵀ: \[m, columns\] · \[rows, columns\]ᵀ = \[m, rows\].
    ///
    /// The products of elements i and i + 16k are added in lane i, in ascending order, and the 16 lanes are folded as a tree.
    /// This order depends on no other row or column. `scratch` may hold any numbers.
    ///
    /// # Errors
    /// [`Error::Shape`] if the shapes do not fit, [`Error::Length`] if `scratch` has fewer elements than
    /// [`quantized_scratch_len`] of the rows of x; `out` is then unchanged.
    pub fn multiply(
        self,
        x: Mat<'_>,
        out: MatMut<'_>,
        store: Store,
        scratch: &mut [f32],
    ) -> Result<(), Error> {
        check_shape("x", x.shape(), (x.rows(), self.cols), "as many columns as W")?;
        check_shape("the product", out.shape(), (x.rows(), self.rows), "rows of x × rows of W")?;
        let len = quantized_scratch_len(x.rows());
        check_len("the scratch memory", scratch.len().min(len), len)?;
        // The memory begins at a cache line.
        let start = scratch.as_ptr().align_offset(LANES * size_of::<f32>()).min(LANES - 1);
        let panels = scratch.get_mut(start..).promised().as_chunks_mut().0;
        let (strip, sums) = panels.split_at_mut_checked(STEPS * ROWS).promised();
        let (strip, sums) = (strip.as_chunks_mut().0, sums.as_chunks_mut().0);
        dispatch(Multiply { w: self, x, add: store == Store::Add, strip, sums, out });
        Ok(())
    }
}

/// The elements of scratch memory that [`Quantized::multiply`] needs for `rows` rows of x.
#[must_use]
pub const fn quantized_scratch_len(rows: usize) -> usize {
    let rows = if rows < TOKENS { rows } else { TOKENS };
    (STEPS + rows) * ROWS * LANES + LANES
}

/// Rows of W in a strip; the most columns of a strip, in blocks of 16; and the rows of x that are multiplied by it. A strip
/// takes 24 KiB, and the sums take as much.
const ROWS: usize = 8;
const STEPS: usize = 48;
const TOKENS: usize = 48;

/// The distance of a prefetch from the numbers of x that are being multiplied.
const AHEAD: usize = 8 * LANES;

impl Quantized<'_> {
    /// Row `r`, or an empty slice if W has no such row.
    fn row(&self, r: usize) -> &[u8] {
        let size = self.bytes.len() / self.rows.max(1);
        self.bytes.get(r * size..(r + 1) * size).promised()
    }
}

/// Decodes blocks of a format. Each format has a function of its own, because a branch in the innermost loop would take as long
/// as the decoding.
#[inline(always)]
fn decode_blocks<S: Simd>(simd: S, format: Quantization, blocks: &[u8], out: &mut [Panel]) {
    struct DecodeBlocks<'a, F, const BYTES: usize>(&'a [u8], &'a mut [Panel], PhantomData<F>);
    impl<F: Decode<BYTES>, const BYTES: usize> Kernel for DecodeBlocks<'_, F, BYTES> {
        type Output = ();

        #[inline(always)]
        fn run<S: Simd>(self, simd: S) {
            decode::<S, F, BYTES>(simd, self.0, self.1);
        }
    }
    macro_rules! formats {
        ($($format:ident: $bytes:literal),+) => {
            match format {
                $(Quantization::$format => {
                    simd.call(DecodeBlocks::<$format, $bytes>(blocks, out, PhantomData));
                })+
            }
        };
    }
    formats!(
        Q8_0: 272, Q4_0: 144, Q4_1: 160, Q5_0: 176, Q5_1: 192, Q4K: 144, Q5K: 176, Q6K: 210, Q2K: 84, Q3K: 110,
        Iq4Nl: 144, Mxfp4: 136
    );
}

struct Widen<'a> {
    w: Quantized<'a>,
    out: MatMut<'a>,
}

impl Kernel for Widen<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, simd: S) {
        for r in 0..self.out.filled_rows() {
            let out = self.out.row_mut(r).as_chunks_mut().0;
            decode_blocks(simd, self.w.format, self.w.row(r), out);
        }
    }
}

struct Multiply<'a> {
    w: Quantized<'a>,
    x: Mat<'a>,
    add: bool,
    strip: &'a mut [[Panel; STEPS]],
    /// The sums of each row of x.
    sums: &'a mut [[Panel; ROWS]],
    out: MatMut<'a>,
}

impl Kernel for Multiply<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { w, x, add, strip, sums, mut out } = self;
        let (numbers, size) = w.format.block();
        let parts = w.cols / LANES;
        for first in (0..x.rows()).step_by(TOKENS) {
            let x = x.rows_from(first, TOKENS);
            let sums = sums.get_mut(..x.rows()).promised();
            for row in (0..w.rows).step_by(ROWS) {
                let rows = row..w.rows.min(row + ROWS);
                // The loop runs at least once, so that a product over 0 columns is written as zeros.
                for start in (0..parts.max(1)).step_by(STEPS) {
                    let steps = start..parts.min(start + STEPS);
                    for (strip, r) in strip.iter_mut().zip(rows.clone()) {
                        let bytes = |step: usize| step * LANES / numbers.max(1) * size;
                        let blocks = w.row(r).get(bytes(steps.start)..bytes(steps.end));
                        let strip = strip.get_mut(..steps.len()).promised();
                        decode_blocks(simd, w.format, blocks.promised(), strip);
                    }
                    let x = x.block(0, x.rows(), start * LANES, steps.len() * LANES);
                    add_tiles(simd, x, strip, steps.len(), sums, start == 0);
                }
                for (r, sums) in sums.iter().enumerate() {
                    let out = out.row_mut(first + r).get_mut(rows.clone()).promised();
                    fold(simd, sums, out, add);
                }
            }
        }
    }
}

/// Folds the sums of a row of x. Writes those that have a place in `out`, or adds them to it.
#[inline(always)]
fn fold<S: Simd>(simd: S, sums: &[Panel; ROWS], out: &mut [f32], add: bool) {
    for (sums, out) in sums.as_chunks().0.iter().zip(out.chunks_mut(4)) {
        let [a, b, c, d]: &[Panel; 4] = sums;
        let folded = simd.reduce_add_each([simd.load(a), simd.load(b), simd.load(c), simd.load(d)]);
        for (out, sum) in out.iter_mut().zip(folded) {
            *out = if add { *out + sum } else { sum };
        }
    }
}

/// Multiplies the rows of x by a strip, in tiles that fit in the registers. The sums start from zero if `begins`.
///
/// Each chain of multiply-adds waits for its last one. Meanwhile the tile's other chains are computed.
#[inline(always)]
fn add_tiles<S: Simd>(
    simd: S,
    x: Mat<'_>,
    strip: &[[Panel; STEPS]],
    steps: usize,
    sums: &mut [[Panel; ROWS]],
    begins: bool,
) {
    /// Computes tiles of this many rows of x and rows of the strip.
    macro_rules! tile {
        ($x:expr, $sums:expr, $size:expr, $(($r:literal, $n:literal))+) => {
            match $size {
                $($r => simd.call(Tile::<$r, $n> { x: $x, strip, steps, sums: $sums, begins }),)+
                size => debug_assert!(false, "no tiles of {size} rows"),
            }
        };
    }
    let most = if S::SHAPE.panels > 1 { 6 } else { 3 };
    let mut row = 0;
    while row < sums.len() {
        // The tiles are as few and as equal in size as possible.
        let rows = sums.len() - row;
        let size = rows.div_ceil(rows.div_ceil(most).max(1)); // never divides by 0
        let (x, sums) = (x.rows_from(row, size), sums.get_mut(row..).promised());
        if const { S::SHAPE.panels > 1 } {
            tile!(x, sums, size, (1, 8)(2, 4)(3, 4)(4, 4)(5, 4)(6, 4));
        } else {
            tile!(x, sums, size, (1, 4)(2, 2)(3, 2));
        }
        row += size;
    }
}

/// `R` rows of x by all rows of the strip, `N` at a time.
struct Tile<'a, const R: usize, const N: usize> {
    x: Mat<'a>,
    strip: &'a [[Panel; STEPS]],
    steps: usize,
    sums: &'a mut [[Panel; ROWS]],
    begins: bool,
}

impl<const R: usize, const N: usize> Kernel for Tile<'_, R, N> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Some(places) = self.sums.first_chunk_mut::<R>() else { return broken() };
        // The slices have equal lengths, so that the loop needs no checks.
        let steps = self.steps;
        let mut rows = [[].as_slice(); R];
        for (r, row) in rows.iter_mut().enumerate() {
            let Some(part) = self.x.row(r).as_chunks::<LANES>().0.get(..steps) else {
                return broken();
            };
            *row = part;
        }
        for (group, strip) in self.strip.as_chunks::<N>().0.iter().enumerate() {
            let mut columns = [[].as_slice(); N];
            for (column, strip) in columns.iter_mut().zip(strip) {
                *column = strip.get(..steps).promised();
            }
            let mut sums = [[simd.splat(0.0); R]; N];
            if !self.begins {
                for (n, sums) in sums.iter_mut().enumerate() {
                    for (sum, place) in sums.iter_mut().zip(&*places) {
                        let Some(place) = place.get(group * N + n) else { return broken() };
                        *sum = simd.load(place);
                    }
                }
            }
            for t in 0..steps {
                let mut x = [simd.splat(0.0); R];
                for (x, row) in x.iter_mut().zip(&rows) {
                    let Some(lanes) = row.get(t) else { return broken() };
                    // A hardware prefetcher does not foresee several streams from the second-level cache.
                    simd.prefetch(lanes.as_ptr().wrapping_add(AHEAD));
                    *x = simd.load(lanes);
                }
                for (column, sums) in columns.iter().zip(&mut sums) {
                    let Some(w) = column.get(t) else { return broken() };
                    let w = simd.load(w);
                    for (sum, x) in sums.iter_mut().zip(x) {
                        *sum = simd.mul_add(x, w, *sum);
                    }
                }
            }
            for (n, sums) in sums.into_iter().enumerate() {
                for (sum, place) in sums.into_iter().zip(&mut *places) {
                    let Some(place) = place.get_mut(group * N + n) else { return broken() };
                    simd.store(sum, place);
                }
            }
        }
    }
}
