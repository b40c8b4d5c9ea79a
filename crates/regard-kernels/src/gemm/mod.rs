//! Matrix products. Those of 32-bit numbers share one nest of loops, [`multiply`], around the tiles of `arch::generic::tile`; they
//! differ in where B comes from, which is a [`Source`].
//!
//! ```text
//! for each block of NC panels of 16 columns:
//!     for each block of KC steps of the sum:             in ascending order
//!         B[KC, NC] as panels                            read where it lies, or packed
//!         for each block of MC rows of A:
//!             gebp: the tiles of MC × NC elements        set, continued or added
//! ```
//!
//! `packed` takes MC rows of A at a time, outermost: they stay in a cache while all of B passes, which is read where it lies.
//!
//! | module | B |
//! |---|---|
//! | `rows` | a matrix by rows, or its transpose: read where it lies if its rows are close together, else packed on the stack |
//! | `packed` | panels of 32-bit numbers, laid out once |
//! | `half` | panels of 16-bit numbers, in a loop of their own that is faster |
//! | `quantized` | blocks of integers, decoded strip by strip. An element is a fold of 16 chains, so the tile is another one |
//! | `formats` | how the blocks of each format of GGUF are decoded |
//!
//! What is no source, and why:
//! - `half` and `quantized`: the table says it.
//! - `arch/generic/known.rs`, arrays whose shape the compiler knows: a product of 4 × 4 takes 6 ns there, and 140 in the nest.
//! - The scores and outputs of an attention call [`gebp`] themselves. Between their blocks the softmax runs, and what a mask hides is
//!   left out.
//! - On a core without vectors, `gebp` is the whole nest (`arch/bare`): it reads B where it lies, and all columns at once.

mod formats;
mod half;
mod packed;
mod quantized;
mod rows;

use core::ops::Range;

pub use self::formats::Quantization;
pub use self::half::{Half, PackedHalf, matmul_packed_half};
pub use self::packed::{Packed, matmul_packed, matmul_packed_add, packed_len};
pub use self::quantized::{Quantized, quantized_scratch_len};
pub(crate) use self::rows::matmul_known;
pub use self::rows::{matmul, matmul_transposed};

use crate::arch::{Epilogue, LANES, Panels, Simd, gebp, next_groups, panels_at_once};
use crate::error::{Error, check_shape};
use crate::{Mat, MatMut};

/// What a product does with the numbers of its output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Store {
    /// They become those of the product.
    Set,
    /// Those of the product are added to them.
    Add,
}

/// Where a product finds B.
trait Source {
    /// Rows `steps` of `count` panels, of which the first is number `first`.
    fn panels<S: Simd>(
        &mut self,
        simd: S,
        steps: Range<usize>,
        first: usize,
        count: usize,
    ) -> Panels<'_>;
}

/// Panels that lie in memory.
impl Source for Panels<'_> {
    #[inline(always)]
    fn panels<S: Simd>(
        &mut self,
        _: S,
        steps: Range<usize>,
        first: usize,
        count: usize,
    ) -> Panels<'_> {
        self.rows(steps.start, steps.len()).from(first).first(count)
    }
}

/// The sizes of the blocks, each at least 1.
struct Blocks {
    /// MC, in rows of A.
    rows: usize,
    /// KC, in steps of the sum.
    steps: usize,
    /// NC, in panels of 16 columns.
    panels: usize,
}

/// Writes A·B to the columns of `out` from the `panels`' first one on, by an epilogue for the first KC steps and one for the others.
#[inline(always)]
fn multiply<S: Simd, B: Source>(
    simd: S,
    a: Mat<'_>,
    mut b: B,
    panels: Range<usize>,
    out: &mut MatMut<'_>,
    blocks: &Blocks,
    [first_steps, next_steps]: [Epilogue; 2],
) {
    let (rows, depth) = a.shape();
    for first in panels.clone().step_by(blocks.panels) {
        let (count, col) = (blocks.panels.min(panels.end - first), first * LANES);
        // At least once, so that a product over no column at all is written as zeros.
        for t in (0..depth.max(1)).step_by(blocks.steps) {
            let steps = t..depth.min(t + blocks.steps);
            let b = b.panels(simd, steps.clone(), first, count);
            let epilogue = if t == 0 { first_steps } else { next_steps };
            for row in (0..rows).step_by(blocks.rows) {
                let a = a.block(row, blocks.rows, t, steps.len());
                let out = &mut out.rows_from(row);
                gebp_rows(simd, a, b, count, out, col, epilogue);
            }
        }
    }
}

/// Steps of the sum at a time: as many rows of a packed panel stay in a first-level cache.
const KC: usize = 384;

/// The steps of each part of a sum over `depth`: parts of as equal lengths as possible.
const fn sum_steps(depth: usize) -> usize {
    let parts = depth.div_ceil(KC);
    let parts = if parts == 0 { 1 } else { parts };
    let steps = depth.div_ceil(parts);
    if steps == 0 { 1 } else { steps }
}

/// [`gebp`] for any number of rows, in as few groups as possible, by so many panels that they stay in the nearest cache.
#[inline(always)]
fn gebp_rows<S: Simd>(
    simd: S,
    a: Mat<'_>,
    b: Panels<'_>,
    panels: usize,
    out: &mut MatMut<'_>,
    col: usize,
    epilogue: Epilogue,
) {
    // A narrow tier reads the columns of B by one stride, which leads from panel to panel only where B is not packed.
    let at_once = if S::SHAPE.in_place {
        1
    } else {
        panels_at_once::<S>(next_groups::<S>(a.rows()).0.max(1))
    };
    let at_once = at_once.max(1); // or `step_by` could panic
    for first in (0..panels).step_by(at_once) {
        let panels = at_once.min(panels - first);
        let (b, col) = (b.from(first).first(panels), col + first * LANES);
        let mut row = 0;
        while row < a.rows() {
            let (size, count) = next_groups::<S>(a.rows() - row);
            let (a, out) = (a.rows_from(row, size * count), &mut out.rows_from(row));
            gebp(simd, a, b, out, col, size, panels, epilogue);
            row += size * count;
        }
    }
}

/// Checks the shapes of A·B into `out`, where `b` is B's shape and `why` says what the product's is.
fn check_product(a: Mat<'_>, b: (usize, usize), out: &MatMut<'_>) -> Result<(), Error> {
    check_shape("B", b, (a.cols(), b.1), "a row for each column of A")?;
    check_shape("the product", out.shape(), (a.rows(), b.1), "rows of A × columns of B")
}
