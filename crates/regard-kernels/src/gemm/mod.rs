//! Matrix products. All products of 32-bit numbers share one nest of loops, [`multiply`], around the tiles of
//! `arch::generic::tile`. They differ in where the numbers of B come from, which is a [`Source`].
//!
//! ```text
//! for each block of NC panels of 16 columns:
//!     for each block of KC steps of the sum:             in ascending order
//!         B[KC, NC] as panels                            read where it lies, or packed
//!         for each block of MC rows of A:
//!             for each few panels:                           as many as stay in the nearest cache
//!                 for each groups of rows of one size:
//!                     gebp: their tiles                  set, continued or added
//! ```
//!
//! `packed` makes the loop over MC rows of A the outermost one: the rows stay in a cache while all of B is read, where it lies.
//!
//! | module | B |
//! |---|---|
//! | `rows` | a matrix by rows, or its transpose: read where it lies if its rows are close together, else packed on the stack |
//! | `packed` | panels of 32-bit numbers, packed once by the caller |
//! | `half` | panels of 16-bit numbers. Its loop is its own, because that is faster |
//! | `quantized` | blocks of integers, decoded strip by strip. An element is a fold of 16 chains, so its tile is its own |
//! | `formats` | how the blocks of each format of GGUF are decoded |
//!
//! Five products do not use [`multiply`]:
//! - `half` and `quantized`, for the reasons in the table.
//! - `arch/generic/known.rs`, for arrays whose shape the compiler knows: a product of 4 × 4 takes 6 ns there, and 140 ns in the
//!   nest.
//! - The scores and the outputs of an attention call [`gebp`] directly. Between their blocks the softmax runs, and they leave
//!   out the keys that a mask hides.
//! - On a core without vectors `gebp` is the whole nest (`arch/bare`). It reads B where it lies, and takes all columns at once.

mod formats;
mod half;
mod packed;
mod quantized;
mod rows;

use core::ops::Range;

pub use self::formats::Quantization;
pub use self::half::{Half, PackedHalf, matmul_packed_half};
pub use self::packed::{
    PANEL_COLUMNS, Packed, matmul_packed, pack_panel, pack_row, packed_column, packed_len,
};
pub use self::quantized::{Quantized, quantized_scratch_len};
pub(crate) use self::rows::matmul_known;
pub use self::rows::{matmul, matmul_transposed};

use crate::arch::{Epilogue, LANES, Panels, Simd, gebp, next_groups, panels_at_once};
use crate::error::{Error, check_shape};
use crate::{Mat, MatMut};

/// What a product does with the numbers of its output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Store {
    /// The product replaces them.
    Set,
    /// The product is added to them.
    Add,
}

/// The place from which a product reads B.
trait Source {
    /// Rows `steps` of `count` panels, beginning with panel number `first`.
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
struct BlockSizes {
    /// MC, in rows of A.
    rows: usize,
    /// KC, in steps of the sum.
    steps: usize,
    /// NC, in panels of 16 columns.
    panels: usize,
}

/// Writes A·B to `out`, from column 16·`panels.start` on. The first KC steps use the first epilogue, and the other steps the
/// second.
#[inline(always)]
fn multiply<S: Simd, B: Source>(
    simd: S,
    a: Mat<'_>,
    mut b: B,
    panels: Range<usize>,
    out: &mut MatMut<'_>,
    blocks: &BlockSizes,
    [first_steps, next_steps]: [Epilogue; 2],
) {
    let (rows, depth) = a.shape();
    for first in panels.clone().step_by(blocks.panels) {
        let (count, col) = (blocks.panels.min(panels.end - first), first * LANES);
        // The loop runs at least once, so that a product over 0 columns is written as zeros.
        for t in (0..depth.max(1)).step_by(blocks.steps) {
            let steps = t..depth.min(t + blocks.steps);
            let b = b.panels(simd, steps.clone(), first, count);
            let epilogue = if t == 0 { first_steps } else { next_steps };
            for start in (0..rows).step_by(blocks.rows) {
                let a = a.block(start, blocks.rows, t, steps.len());
                let tiles = a.rows().div_ceil(S::SHAPE.rows);
                // A narrow tier reads the columns of B with one stride, which leads from panel to panel only if B is not packed.
                let at_once = if S::NARROW {
                    1
                } else {
                    panels_at_once::<S>(next_groups::<S>(a.rows()).0.max(1))
                };
                let at_once = at_once.max(1); // `step_by` panics for 0
                for panel in (0..count).step_by(at_once) {
                    let panels = at_once.min(count - panel);
                    let (b, col) = (b.from(panel).first(panels), col + panel * LANES);
                    let (mut row, mut tile) = (0, 0);
                    while row < a.rows() {
                        let (size, groups) = next_groups::<S>(a.rows() - row);
                        let (b, a) = (b.followed(tile, tiles), a.rows_from(row, size * groups));
                        let out = &mut out.rows_from(start + row);
                        gebp(simd, a, b, out, col, size, panels, epilogue);
                        (row, tile) = (row + size * groups, tile + groups);
                    }
                }
            }
        }
    }
}

/// Steps of the sum in a block: KC rows of a packed panel stay in a first-level cache.
const KC: usize = 384;

/// The steps of each part of a sum over `depth` steps. The parts have as equal lengths as possible.
const fn sum_steps(depth: usize) -> usize {
    let parts = depth.div_ceil(KC);
    let parts = if parts == 0 { 1 } else { parts };
    let steps = depth.div_ceil(parts);
    if steps == 0 { 1 } else { steps }
}

/// Checks the shapes of A·B and `out`. `b` is B's shape, and `why` says where the shape of `out` comes from.
fn check_product(a: Mat<'_>, b: (usize, usize), out: &MatMut<'_>) -> Result<(), Error> {
    check_shape("B", b, (a.cols(), b.1), "a row for each column of A")?;
    check_shape("the product", out.shape(), (a.rows(), b.1), "rows of A × columns of B")
}
