//! Lays B out in panels for the innermost loop: transposed, or copied.

use crate::Mat;
use crate::arch::{Kernel, LANES, Panel, Simd};
use crate::invariant::{Promised as _, broken};

/// The side of the squares that are transposed.
pub(super) const SIDE: usize = LANES / 2;

/// Reads 8 elements of each of 8 rows, which lie `stride` elements apart in `data`, from element
/// `start` on.
///
/// If `prefetch`, it also asks for the cache lines of the rows that the next panel reads. A hardware prefetcher does not
/// foresee eight rows at a time.
///
/// # Safety
/// `data` holds these elements: `start + 7 · stride + 8` is at most its length.
#[inline(always)]
pub(super) unsafe fn square<'a, S: Simd>(
    simd: S,
    data: &'a [f32],
    start: usize,
    stride: usize,
    prefetch: bool,
) -> [&'a [f32; SIDE]; SIDE] {
    let start = data.as_ptr().wrapping_add(start);
    let next_panel = start.wrapping_add(LANES * stride);
    let mut square: [&'a [f32; SIDE]; SIDE] = [&[0.0; SIDE]; SIDE];
    for (l, square) in square.iter_mut().enumerate() {
        if prefetch {
            simd.prefetch(next_panel.wrapping_add(l * stride));
        }
        // SAFETY: the caller guarantees that the elements exist. `'a` is the lifetime of `data`.
        *square = unsafe { &*start.add(l * stride).cast() };
    }
    square
}

/// Elements `t` · 8 to `t` · 8 + 7 of up to 8 rows, with zeros for rows that do not exist.
#[inline(always)]
fn padded_square(rows: Mat<'_>, t: usize) -> [&[f32; SIDE]; SIDE] {
    let mut square = [&[0.0; SIDE]; SIDE];
    for (l, square) in square.iter_mut().enumerate().take(rows.rows()) {
        let part = rows.row(l).get(t * SIDE..).and_then(|row| row.first_chunk());
        *square = part.promised_or(square);
    }
    square
}

/// Transposes `b` into panels of `b.cols()` rows for every 16 rows of it: element (t, l) of panel p becomes
/// b\[16·p + l\]\[t\], and 0 where `b` has no such row.
#[inline(always)]
pub(crate) fn pack_transposed<S: Simd>(simd: S, b: Mat<'_>, panels: &mut [Panel]) {
    simd.call(Transpose { b, panels });
}

/// [`pack_transposed`], inlined into its caller.
#[inline(always)]
pub(crate) fn pack_transposed_here<S: Simd>(simd: S, b: Mat<'_>, panels: &mut [Panel]) {
    Transpose { b, panels }.run(simd);
}

struct Transpose<'a> {
    b: Mat<'a>,
    panels: &'a mut [Panel],
}

impl Kernel for Transpose<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { b, mut panels } = self;
        let depth = b.cols();
        for p in 0..b.rows().div_ceil(LANES) {
            let panel = panels.split_off_mut(..depth).promised();
            let rows = b.rows_from(p * LANES, LANES);
            let done = if rows.rows() == LANES { simd.transpose_rows(rows, panel) } else { 0 };
            if done < depth {
                transpose_by_squares(simd, rows, panel, done);
            }
        }
    }
}

/// Writes column t of up to 16 `rows` to row t of the panel, from column `done` on. The lanes of rows that do not exist are 0.
#[inline(always)]
fn transpose_by_squares<S: Simd>(simd: S, rows: Mat<'_>, panel: &mut [Panel], done: usize) {
    let depth = panel.len();
    let rows = rows.block(0, rows.rows(), done, depth - done);
    let panel = panel.get_mut(done..).promised();
    for second in [false, true] {
        let lane = SIDE * usize::from(second);
        let rows = rows.rows_from(lane, SIDE);
        for (t, lanes) in panel.as_chunks_mut::<SIDE>().0.iter_mut().enumerate() {
            let square = if rows.rows() == SIDE {
                let (data, stride) = (rows.data(), rows.stride());
                // SAFETY: there are 8 rows, and as many columns as the panel has rows, of which these are the t-th 8; the
                // data of a view holds all of its rows.
                unsafe { square(simd, data, t * SIDE, stride, t.is_multiple_of(2)) }
            } else {
                padded_square(rows, t)
            };
            simd.transpose(square, lanes, second);
        }
        let whole = panel.len() / SIDE * SIDE;
        for (t, lanes) in panel.iter_mut().enumerate().skip(whole) {
            for (l, lane) in lanes.iter_mut().skip(lane).take(SIDE).enumerate() {
                *lane = rows.row(l).get(t).copied().unwrap_or(0.0);
            }
        }
    }
}

/// Copies the columns of `b` from `col` on into panels of `depth` rows. Columns past the last one are 0.
#[inline(always)]
pub(crate) fn pack_columns<S: Simd>(
    simd: S,
    b: Mat<'_>,
    col: usize,
    panels: &mut [Panel],
    depth: usize,
) {
    simd.call(CopyColumns { b, col, panels, depth });
}

struct CopyColumns<'a> {
    b: Mat<'a>,
    col: usize,
    panels: &'a mut [Panel],
    depth: usize,
}

impl Kernel for CopyColumns<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { b, col, panels, depth } = self;
        for t in 0..b.rows().min(depth) {
            let row = b.row(t).get(col..).promised();
            // This row of panel p is at p · depth + t.
            let (whole, rest) = row.as_chunks();
            let mut place = t;
            for chunk in whole {
                let Some(lanes) = panels.get_mut(place) else { return broken() };
                simd.store(simd.load(chunk), lanes);
                place += depth;
            }
            if let (false, Some(lanes)) = (rest.is_empty(), panels.get_mut(place)) {
                simd.store(simd.load_or(rest, 0.0), lanes);
            }
        }
    }
}
