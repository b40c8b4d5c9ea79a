//! The innermost loop of products of `f32`: a few rows of A times panels of 16 columns of B.
//!
//! Matrix products, the scores and the weighted sums of attention end in this loop. The exceptions are a single row
//! (`gemv.rs`), an attention that fits in registers (`attention/small.rs`) and shapes that the compiler knows (`known.rs`). The
//! names are those of GotoBLAS (Goto & van de Geijn 2008, "Anatomy of high-performance matrix multiplication") and BLIS (Van
//! Zee & van de Geijn 2015): [`gebp`] multiplies a general block of A by panels of B, and the microkernel inside it computes
//! one tile of MR × NR elements.
//!
//! ```text
//! gebp:  for each group of P panels (NR = 16·P columns):     the panels stay in L1
//!            for each tile of R ≤ MR rows of A:
//! microkernel:   sums[R][P] ← 0                              or what is in `out` (Continue)
//!                for t in 0..KC:                             in ascending order
//!                    b[P] ← row t of the panels              P loads of 16 numbers
//!                    for each row r of the tile:
//!                        x ← A[r, t] in every lane           one broadcast
//!                        sums[r][p] ← x · b[p] + sums[r][p]  P fused multiply-adds
//!                out[R][P] ← sums                            or out + sums (Add)
//! ```
//!
//! The sums stay in registers for the whole of KC. A block of 16 lanes is two registers of AVX2, so
//! 6 × 16 sums take 12 of its 16 registers, a row of B takes 2 and an element of A one. AVX-512 has 32
//! registers of a whole block: 12 × 32 sums take 24 of them. A step of the loop loads P blocks of B and R elements of A for R·P
//! multiply-adds, so a large tile loads less for each of them. The R·P chains of multiply-adds are independent, which covers
//! their latency of 4 or 5 cycles on two pipes. Few rows have too few chains: they take more panels at once
//! ([`panels_at_once`]).
//!
//! The callers divide the product into blocks: KC, MC and NC are those of `gemm` and `attention`.
//! Packed panels lie one after the other, KC rows of 16 numbers each, so that B is read from
//! the first to the last byte; a B whose rows are close together is read where it lies.
//!
//! An element of the product is one chain of multiply-adds over t in ascending order on every tier, so
//! its bits depend neither on the size of the tile nor on the rows and columns beside it. A narrow tier
//! has tiles of its own (`bare`), with the same chains.

use crate::arch::{Kernel, LANES, Simd};
use crate::invariant::Promised as _;
use crate::{Mat, MatMut};

/// MR, the most rows of A in a tile, on tiers with 16 registers of 8 lanes. Other tiers have their own
/// [`Shape::rows`](crate::arch::Shape::rows).
pub(crate) const MR: usize = 6;

/// The size of the next groups of `rows`, and how many groups of that size there are. The groups are as few as possible and of
/// as equal sizes as possible: 7 rows are 4 + 3, not 6 + 1. A tile of few rows would wait for its own chains of multiply-adds.
#[inline(always)]
pub(crate) fn next_groups<S: Simd>(rows: usize) -> (usize, usize) {
    let groups = rows.div_ceil(S::SHAPE.rows).max(1);
    let (size, larger) = (rows / groups, rows % groups);
    if larger == 0 { (size, groups) } else { (size + 1, larger) }
}

/// The number of panels that a tile of `rows` rows takes at once, if there are so many. A tile of few rows takes more of them,
/// because the chains of multiply-adds of one panel are too few to keep the multipliers busy.
#[inline(always)]
pub(crate) const fn panels_at_once<S: Simd>(rows: usize) -> usize {
    let mut panels = S::SHAPE.panels;
    while 2 * panels * rows <= S::SHAPE.chains {
        panels *= 2;
    }
    panels
}

/// A row of a panel: 16 columns of B at one step of the sum.
pub(crate) type Panel = [f32; LANES];

/// B as panels of 16 columns, `depth` rows each: packed one after the other, or where they lie in a
/// matrix. Every constructor ensures that `depth` elements of each of `cols` columns lie within the
/// data. For [narrow](Simd::NARROW) tiers, the strides tell where an element lies.
#[derive(Clone, Copy)]
pub(crate) struct Panels<'a> {
    pub(in crate::arch) data: &'a [f32],
    pub(in crate::arch) depth: usize,
    /// The number of columns.
    pub(in crate::arch) cols: usize,
    pub(in crate::arch) row_stride: usize,
    /// Elements from one column of a panel to the next: 1, except on [narrow](Simd::NARROW) tiers.
    #[cfg_attr(
        not(any(scalar, feature = "scalar", test)),
        expect(dead_code, reason = "for narrow tiers")
    )]
    pub(in crate::arch) col_stride: usize,
    panel_stride: usize,
    /// The first of the tiles that ask for the panels that follow, and how many these tiles are. See
    /// [`followed`](Self::followed).
    asking: Option<(usize, usize)>,
}

impl<'a> Panels<'a> {
    /// Panels of `depth` rows, one after the other.
    pub(crate) fn packed(panels: &'a [Panel], depth: usize) -> Self {
        let cols = panels.len().checked_div(depth).unwrap_or(usize::MAX / LANES) * LANES;
        Self {
            data: panels.as_flattened(),
            depth,
            cols,
            row_stride: LANES,
            col_stride: 1,
            panel_stride: depth * LANES,
            asking: None,
        }
    }

    /// The columns of `b`, read where they lie. Only [narrow](Simd::NARROW) tiers may read a panel of less than 16 columns.
    pub(crate) fn in_place(b: Mat<'a>) -> Self {
        let (depth, cols) = b.shape();
        Self {
            data: b.data(),
            depth,
            cols,
            row_stride: b.stride(),
            col_stride: 1,
            panel_stride: LANES,
            asking: None,
        }
    }

    /// The rows of `b` as columns, read where they lie, for [narrow](Simd::NARROW) tiers.
    pub(crate) fn transposed(b: Mat<'a>) -> Self {
        let (cols, depth) = b.shape();
        // The product wraps only if there is a single row, and then there is no second panel.
        let panel_stride = b.stride().wrapping_mul(LANES);
        Self {
            data: b.data(),
            depth,
            cols,
            row_stride: 1,
            col_stride: b.stride(),
            panel_stride,
            asking: None,
        }
    }

    /// The panels from number `first` on.
    pub(crate) fn from(self, first: usize) -> Self {
        let data = self.data.get(first * self.panel_stride..).promised_unless(self.depth == 0);
        Self { data, cols: self.cols.saturating_sub(first * LANES), ..self }
    }

    /// The first `count` panels.
    pub(crate) fn first(self, count: usize) -> Self {
        Self { cols: self.cols.min(count.saturating_mul(LANES)), ..self }
    }

    /// Rows `start..start + len` of each panel.
    pub(crate) fn rows(self, start: usize, len: usize) -> Self {
        let data = self.data.get(start * self.row_stride..).promised_unless(self.depth == 0);
        Self { data, depth: len.min(self.depth.saturating_sub(start)), ..self }
    }

    /// These panels, for the tiles from number `first` of `tiles`, which meet the panels behind them next. The tiles share the work
    /// to ask for those, so that they are in a cache by then. Few rows of A would otherwise wait for a large B, which comes from
    /// memory.
    pub(crate) fn followed(self, first: usize, tiles: usize) -> Self {
        Self { asking: Some((first, tiles)), ..self }
    }

    /// Whether all rows of the first `count` panels lie within the data.
    fn has(&self, count: usize) -> bool {
        let last = (count.saturating_sub(1)).saturating_mul(self.panel_stride);
        let last =
            last.saturating_add(self.depth.saturating_sub(1).saturating_mul(self.row_stride));
        self.depth == 0 || last.saturating_add(LANES) <= self.data.len()
    }

    /// Whether all rows of the first `count` columns lie within the data.
    #[cfg(any(scalar, feature = "scalar", test))]
    pub(in crate::arch) fn has_columns(&self, count: usize) -> bool {
        let last = (count.saturating_sub(1)).saturating_mul(self.col_stride);
        let last =
            last.saturating_add(self.depth.saturating_sub(1).saturating_mul(self.row_stride));
        self.depth == 0 || count == 0 || last < self.data.len()
    }
}

/// What a product does with the sums of a tile.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Epilogue {
    /// The sums replace the elements of `out`.
    Set,
    /// The chains of multiply-adds continue from the elements of `out`.
    Continue,
    /// The sums are added to the elements of `out`. The multiply-adds do not wait for these, and the rounding errors of a long
    /// sum are smaller than those of one chain.
    Add,
}

/// `out`\[r\]\[`col` + c\] ← Σₜ a\[r\]\[t\] · b\[t\]\[c\] for the columns c of `panels` panels, t in ascending order, in
/// tiles of `rows` rows.
///
/// All rows of `a`, a multiple of `rows`, go to the first rows of `out`. Columns of the panels beyond
/// those of `out` are left out. `a` must have a column for each row of `b`; otherwise nothing happens.
///
/// Each element is one chain of multiply-adds, so its bits do not depend on the rows or columns computed beside it.
#[inline(always)]
pub(crate) fn gebp<S: Simd>(
    simd: S,
    a: Mat<'_>,
    b: Panels<'_>,
    out: &mut MatMut<'_>,
    col: usize,
    rows: usize,
    panels: usize,
    epilogue: Epilogue,
) {
    /// Tries tiles of `R` rows, the widest first, of the widths that the tier has for so many rows.
    macro_rules! tiles {
        ($r:literal: $($p:literal)+) => {{
            let mut done = 0;
            $(while const { $p <= panels_at_once::<S>($r) } && panels - done >= $p {
                let (b, col) = (b.from(done), col + done * LANES);
                if let Some(tiles) = Tiles::<$r, $p>::new(a, b, out, col, epilogue) {
                    // SAFETY: `simd` proves that the CPU has the tier's instructions.
                    unsafe { simd.enter(tiles) };
                }
                done += $p;
            })+
        }};
    }
    /// Calls the tiles for the number of rows. The conditions are constants, so only tiles for which the tier has registers are
    /// compiled.
    macro_rules! rows {
        ($($r:literal)+) => {
            match rows {
                1 => tiles!(1: 8 4 2 1),
                2 => tiles!(2: 4 2 1),
                $($r if const { $r <= S::SHAPE.rows } => tiles!($r: 2 1),)+
                _ => debug_assert!(false, "no tiles of {rows} rows"),
            }
        };
    }
    if const { S::NARROW } {
        debug_assert!(epilogue != Epilogue::Continue, "a narrow tier continues no sum");
        simd.multiply_in_place(a, b, out, col, epilogue == Epilogue::Add);
    } else {
        rows!(3 4 5 6 7 8 9 10 11 12);
    }
}

/// [`gebp`], whose conditions hold.
struct Tiles<'t, 'o, const R: usize, const P: usize> {
    a: Mat<'t>,
    b: Panels<'t>,
    out: &'t mut MatMut<'o>,
    col: usize,
    /// A value at run time, so that the loops are compiled once for all epilogues.
    pub(in crate::arch) epilogue: Epilogue,
}

impl<'t, 'o, const R: usize, const P: usize> Tiles<'t, 'o, R, P> {
    /// Checks the conditions that the unsafe code below relies on.
    #[inline(always)]
    fn new(
        a: Mat<'t>,
        b: Panels<'t>,
        out: &'t mut MatMut<'o>,
        col: usize,
        epilogue: Epilogue,
    ) -> Option<Self> {
        let holds =
            a.rows().is_multiple_of(R) && a.cols() >= b.depth && b.has(P) && out.rows() >= a.rows();
        debug_assert!(
            holds,
            "{:?} times {P} panels of {} rows into {:?}",
            a.shape(),
            b.depth,
            out.shape()
        );
        holds.then_some(Self { a, b, out, col, epilogue })
    }
}

impl<const R: usize, const P: usize> Kernel for Tiles<'_, '_, R, P> {
    type Output = ();

    /// The microkernel of all tiers that have vectors.
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { a, b, out, col, epilogue } = self;
        let whole = col + P * LANES <= out.cols();
        let (a_stride, b_stride) = (a.stride(), b.row_stride);
        let (first_asking, asking) = b.asking.unwrap_or((usize::MAX, usize::MAX));
        // The steps between two requests for panels. Few tiles make many requests, which are spread, because few lines can be on
        // their way at a time. A tier whose rounds have one step makes none.
        let at_once = match S::SHAPE.unrolled {
            1 => b.depth.max(1),
            steps if asking < 4 => steps,
            steps => 4 * steps,
        };
        for (tile, row) in (0..a.rows()).step_by(R).enumerate() {
            let mut sums = if epilogue == Epilogue::Continue {
                load::<S, R, P>(simd, out, row, col, whole)
            } else {
                [[simd.splat(0.0); P]; R]
            };
            if epilogue == Epilogue::Add {
                // The elements are needed after the sums, and may not be in the cache by then.
                let start = out.data_mut().as_ptr().wrapping_add(row * out.stride() + col);
                for r in 0..R {
                    simd.prefetch(start.wrapping_add(r * out.stride()));
                }
            }
            let first = a.data().as_ptr().wrapping_add(row * a_stride);
            let mut a_rows: RowPointers = [first; _];
            for (i, a_row) in a_rows.iter_mut().enumerate() {
                *a_row = first.wrapping_add(i * ROWS_OF_POINTER * a_stride);
            }
            let following = b.data.as_ptr().wrapping_add(P * b.panel_stride);
            // Tile i of n asks for rows i, i + n, i + 2n … of the panels that follow.
            let mut asked = first_asking.saturating_add(tile);
            for start in (0..b.depth).step_by(at_once) {
                let end = b.depth.min(start + at_once);
                while asked < end {
                    for p in 0..P {
                        simd.prefetch_later(
                            following.wrapping_add(p * b.panel_stride + asked * b_stride),
                        );
                    }
                    asked += asking;
                }
                let mut t = start;
                while t < end {
                    // SAFETY: `a` has the rows from `row` on; t + N ≤ end ≤ depth ≤ a.cols(), and `b.has(P)`.
                    unsafe {
                        if const { S::SHAPE.unrolled == FOUR } && t + FOUR <= end {
                            add_steps::<S, R, P, FOUR>(
                                simd,
                                &mut sums,
                                &mut a_rows,
                                a_stride,
                                b,
                                t,
                            );
                            t += FOUR;
                        } else {
                            add_steps::<S, R, P, 1>(simd, &mut sums, &mut a_rows, a_stride, b, t);
                            t += 1;
                        }
                    }
                }
            }
            store::<S, R, P>(simd, sums, out, row, col, whole, epilogue == Epilogue::Add);
        }
    }
}

/// The most rows of a tile on any tier.
const MOST_ROWS: usize = 12;
/// The rows of A that share a pointer. An instruction of x86 adds one or two strides to a pointer by itself, so 4 pointers reach 12
/// rows. With an addition for each row, the processor would decode more instructions than it can in the time of the multiply-adds.
const ROWS_OF_POINTER: usize = 3;
/// Pointer i is at a step of row 3i of a tile.
type RowPointers = [*const f32; MOST_ROWS.div_ceil(ROWS_OF_POINTER)];
/// The steps of a round of the loop on a tier with more than one, which share the additions to the pointers.
const FOUR: usize = 4;

/// Adds steps `t` to `t` + `N` − 1 to the sums of a tile. `a_rows` are at step t, and then at the step after these.
///
/// # Safety
/// Each of the tile's rows of A has these steps, and `b` has them and `P` panels.
#[inline(always)]
unsafe fn add_steps<S: Simd, const R: usize, const P: usize, const N: usize>(
    simd: S,
    sums: &mut [[S::V; P]; R],
    a_rows: &mut RowPointers,
    a_stride: usize,
    b: Panels<'_>,
    t: usize,
) {
    for step in 0..N {
        let mut lanes = [simd.splat(0.0); P];
        for (p, lanes) in lanes.iter_mut().enumerate() {
            let start = p * b.panel_stride + (t + step) * b.row_stride;
            // SAFETY: the caller guarantees the step and the panel, of 16 elements.
            *lanes = simd.load(unsafe { &*b.data.as_ptr().add(start).cast::<Panel>() });
        }
        for (r, sums) in sums.iter_mut().enumerate() {
            // SAFETY: the caller guarantees the row and its steps.
            let x =
                unsafe { *a_rows[r / ROWS_OF_POINTER].add(r % ROWS_OF_POINTER * a_stride + step) };
            let x = simd.splat(x);
            for (sum, lanes) in sums.iter_mut().zip(lanes) {
                *sum = simd.mul_add(x, lanes, *sum);
            }
        }
    }
    for a_row in a_rows {
        *a_row = a_row.wrapping_add(N);
    }
}

/// Loads `R` rows from `row` on, which exist, and `P` · 16 columns from `col` on. `whole` tells whether all of these columns
/// exist.
#[inline(always)]
fn load<S: Simd, const R: usize, const P: usize>(
    simd: S,
    m: &mut MatMut<'_>,
    row: usize,
    col: usize,
    whole: bool,
) -> [[S::V; P]; R] {
    let mut rows = [[simd.splat(0.0); P]; R];
    if whole {
        let start = m.data_mut().as_mut_ptr().wrapping_add(row * m.stride() + col);
        for (r, row) in rows.iter_mut().enumerate() {
            for (p, lanes) in row.iter_mut().enumerate() {
                // SAFETY: the matrix has the rows and the columns, and a view holds all of its rows.
                *lanes =
                    simd.load(unsafe { &*start.add(r * m.stride() + p * LANES).cast::<Panel>() });
            }
        }
    } else {
        for (r, lanes) in rows.iter_mut().enumerate() {
            for (p, lanes) in lanes.iter_mut().enumerate() {
                *lanes = simd.load_or(m.row_mut(row + r).get(col + p * LANES..).promised(), 0.0);
            }
        }
    }
    rows
}

/// Writes the sums to the elements that [`load`] reads, or adds them to these elements.
#[inline(always)]
fn store<S: Simd, const R: usize, const P: usize>(
    simd: S,
    sums: [[S::V; P]; R],
    m: &mut MatMut<'_>,
    row: usize,
    col: usize,
    whole: bool,
    add: bool,
) {
    if whole {
        let stride = m.stride();
        let start = m.data_mut().as_mut_ptr().wrapping_add(row * stride + col);
        for (r, sums) in sums.into_iter().enumerate() {
            for (p, sum) in sums.into_iter().enumerate() {
                // SAFETY: as in `load`; the matrix is borrowed mutably.
                let lanes = unsafe { &mut *start.add(r * stride + p * LANES).cast::<Panel>() };
                simd.store(if add { simd.add(simd.load(lanes), sum) } else { sum }, lanes);
            }
        }
    } else {
        for (r, sums) in sums.into_iter().enumerate() {
            for (p, sum) in sums.into_iter().enumerate() {
                let lanes = m.row_mut(row + r).get_mut(col + p * LANES..).promised();
                simd.store_first(
                    if add { simd.add(simd.load_or(lanes, 0.0), sum) } else { sum },
                    lanes,
                );
            }
        }
    }
}
