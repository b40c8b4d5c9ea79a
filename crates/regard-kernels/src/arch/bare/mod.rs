//! Cores without vectors: Cortex-M and RISC-V. A lane is a register, and a block of 16 lanes lies in memory. A tile of a
//! product is computed by the loops of `cortex_m`, `helium` or `generic`, and 8-bit integers by those of `dsp`.

#[cfg(all(fused, target_arch = "arm"))]
mod cortex_m;
#[cfg(dsp)]
pub(super) mod dsp;
#[cfg(not(all(fused, target_arch = "arm")))]
mod generic;
#[cfg(helium)]
mod helium;

use core::ptr;

#[cfg(all(fused, target_arch = "arm", not(helium)))]
use self::cortex_m as core_loops;
#[cfg(not(all(fused, target_arch = "arm")))]
use self::generic as core_loops;
#[cfg(helium)]
use self::helium as core_loops;

use self::core_loops::row_times_panel_bf16;
#[cfg(fused)]
pub(super) use self::core_loops::sqrt;
#[cfg(all(fused, target_arch = "arm"))]
pub(super) use self::core_loops::{exp_to_zero, exp2_to_zero};
#[cfg(helium)]
pub(crate) use self::helium::{all_finite, max_of, scale_plus_zero};

use super::generic::tile::Panels;
use super::widen::f32_from_f16;
use super::{Kernel, LANES, Lanes, Map, Panel, Shape, Simd, Zip, one_by_one, operations};
use crate::invariant::Promised as _;
use crate::{Mat, MatMut};

/// A block of 16 lanes, one at a time.
#[derive(Clone, Copy)]
pub(crate) struct Scalar;

/// One lane.
#[derive(Clone, Copy)]
struct Lane;

/// v·2ⁿ. 2ⁿ is two factors, so that neither leaves the range of normal numbers and only the last product rounds.
#[inline(always)]
fn scale_exp2(v: f32, n: i32) -> f32 {
    let half = n >> 1;
    let power = |n: i32| f32::from_bits(((n + 127) << 23).cast_unsigned());
    v * power(half) * power(n - half)
}

impl Lanes for Lane {
    type V = f32;
    type M = bool;

    #[inline(always)]
    fn splat(self, x: f32) -> f32 {
        x
    }

    operations! {
        add(a, b) -> V { a + b }
        sub(a, b) -> V { a - b }
        mul(a, b) -> V { a * b }
        div(a, b) -> V { a / b }
        mul_add(a, b, c) -> V { core_loops::multiply_add(a, b, c) }
        max(a, b) -> V { if a > b { a } else { b } }
        gt(a, b) -> M { a > b }
        eq(a, b) -> M { a == b }
        scale_exp2(v, n) -> V { scale_exp2(v, n as i32) }
        exponent(v) -> V { f32::from_bits(v.to_bits() << 23) }
    }

    /// The loop is written out, because a compiler that optimises for size does not unroll it.
    #[cfg(fused)]
    #[inline(always)]
    fn polynomial<const N: usize>(self, c: &[f32; N], x: f32, factor: f32, term: f32) -> f32 {
        const { assert!(N <= 6, "a polynomial has at most six coefficients") };
        let c = |i: usize| c.get(i).copied().unwrap_or_default();
        let mut sum = c(0);
        macro_rules! step {
            ($($i:literal)+) => { $(if $i < N { sum = self.mul_add(sum, x, c($i)); })+ };
        }
        step!(1 2 3 4 5);
        self.mul_add(sum, factor, term)
    }

    #[inline(always)]
    fn select(self, mask: bool, yes: f32, no: f32) -> f32 {
        if mask { yes } else { no }
    }
}

/// f of two blocks, lane by lane. There are no indices, which a compiler that optimises for size would check.
#[inline(always)]
fn each(a: [f32; LANES], b: [f32; LANES], f: impl Fn(f32, f32) -> f32) -> [f32; LANES] {
    let mut out = a;
    for (x, y) in out.iter_mut().zip(&b) {
        one_by_one(x);
        *x = f(*x, *y);
    }
    out
}

/// A comparison of two blocks, lane by lane.
#[inline(always)]
fn compare(a: [f32; LANES], b: [f32; LANES], f: impl Fn(f32, f32) -> bool) -> [bool; LANES] {
    let mut out = [false; LANES];
    for ((x, a), b) in out.iter_mut().zip(a).zip(b) {
        one_by_one(x);
        *x = f(a, b);
    }
    out
}

/// Halves the lanes four times: i with i+8, then i+4, i+2, i+1.
#[inline(always)]
fn fold(mut x: [f32; LANES], f: impl Fn(f32, f32) -> f32) -> f32 {
    for half in [8, 4, 2, 1] {
        let (low, high) = x.split_at_mut_checked(half).promised();
        for (a, b) in low.iter_mut().zip(high) {
            one_by_one(a);
            *a = f(*a, *b);
        }
    }
    let [sum, ..] = x;
    sum
}

impl Lanes for Scalar {
    type V = [f32; LANES];
    type M = [bool; LANES];

    #[inline(always)]
    fn splat(self, x: f32) -> Self::V {
        [x; LANES]
    }

    operations! {
        add(a, b) -> V { each(a, b, |a, b| Lane.add(a, b)) }
        sub(a, b) -> V { each(a, b, |a, b| Lane.sub(a, b)) }
        mul(a, b) -> V { each(a, b, |a, b| Lane.mul(a, b)) }
        div(a, b) -> V { each(a, b, |a, b| Lane.div(a, b)) }
        max(a, b) -> V { each(a, b, |a, b| Lane.max(a, b)) }
        gt(a, b) -> M { compare(a, b, |a, b| a > b) }
        eq(a, b) -> M { compare(a, b, |a, b| a == b) }
        scale_exp2(v, n) -> V { each(v, n, |v, n| Lane.scale_exp2(v, n)) }
        exponent(v) -> V { v.map(|v| Lane.exponent(v)) }
    }

    #[inline(always)]
    fn mul_add(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        let mut out = c;
        for ((x, a), b) in out.iter_mut().zip(a).zip(b) {
            *x = Lane.mul_add(a, b, *x);
        }
        out
    }

    #[inline(always)]
    fn select(self, mask: Self::M, yes: Self::V, no: Self::V) -> Self::V {
        let mut out = no;
        for ((x, yes), mask) in out.iter_mut().zip(yes).zip(mask) {
            *x = Lane.select(mask, yes, *x);
        }
        out
    }
}

impl Simd for Scalar {
    const NARROW: bool = true;
    const SHAPE: Shape = Shape {
        // Helium's tiles have four rows. Without an FPU each query is a block of its own: computing scores that nobody needs
        // costs more than reading the keys again.
        queries: if cfg!(helium) {
            4
        } else if cfg!(fused) {
            MR
        } else {
            1
        },
        ..Shape::SIXTEEN_REGISTERS
    };

    #[inline(always)]
    fn row_times_panel<const BF16: bool>(
        self,
        x: &[f32],
        panel: &[[u16; LANES]],
    ) -> Option<Self::V> {
        Some(if BF16 {
            row_times_panel_bf16(x, panel)
        } else {
            row_times_panel(x, panel, f32_from_f16)
        })
    }

    #[cfg_attr(scalar, inline(always))] // the tiles are a function of their own
    #[cfg_attr(not(scalar), inline(never))]
    unsafe fn enter<K: Kernel>(self, kernel: K) -> K::Output {
        kernel.run(self)
    }

    #[inline(always)]
    fn load(self, x: &[f32; LANES]) -> Self::V {
        *x
    }

    #[inline(always)]
    fn store(self, v: Self::V, out: &mut [f32; LANES]) {
        *out = v;
    }

    #[inline(always)]
    fn transpose(
        self,
        rows: [&[f32; LANES / 2]; LANES / 2],
        panel: &mut [Panel; LANES / 2],
        second: bool,
    ) {
        for (l, row) in rows.iter().enumerate() {
            for (panel, x) in panel.iter_mut().zip(*row) {
                let (low, high) = panel.split_at_mut(LANES / 2);
                if let Some(lane) = (if second { high } else { low }).get_mut(l) {
                    *lane = *x;
                }
            }
        }
    }

    #[inline(always)]
    fn reduce_add(self, v: Self::V) -> f32 {
        fold(v, |a, b| a + b)
    }

    #[inline(always)]
    fn reduce_max(self, v: Self::V) -> f32 {
        fold(v, |a, b| Lane.max(a, b))
    }

    #[inline(always)]
    fn sum(self, row: &[f32]) -> f32 {
        if let [a, b, c, d, e, f, g, h] = row {
            // Lanes 8 to 15 are 0.
            return ((a + e) + (c + g)) + ((b + f) + (d + h));
        }
        core_loops::sum(row)
    }

    #[inline(always)]
    fn map(self, row: &mut [f32], f: &impl Map) {
        f.each(Lane, row);
    }

    #[inline(always)]
    fn zip<const N: usize>(self, x: &mut [f32], others: [&[f32]; N], f: &impl Zip<N>) {
        f.each(Lane, x, others);
    }

    #[inline(always)]
    fn multiply_in_place(
        self,
        a: Mat<'_>,
        b: Panels<'_>,
        out: &mut MatMut<'_>,
        col: usize,
        add: bool,
    ) {
        gebp(&mut Gebp { a: &a, b: &b, out, col, add });
    }
}

/// Rows and columns of a tile: its sums, a row of B and an element of A take 29 of 32 registers.
const MR: usize = 6;
const NR: usize = 4;
type Sums = [[f32; NR]; MR];
use core_loops::Memory;

/// A product of any number of rows and columns.
struct Gebp<'t, 'o> {
    a: &'t Mat<'t>,
    b: &'t Panels<'t>,
    out: &'t mut MatMut<'o>,
    /// The column of `out` that receives column 0 of the product.
    col: usize,
    /// Whether the sums are added to what is there.
    add: bool,
}

/// A function of its own, compiled once for all numbers of rows.
#[inline(never)]
fn gebp(p: &mut Gebp<'_, '_>) {
    let cols = p.b.cols.min(p.out.cols().saturating_sub(p.col));
    // The unsafe code below relies on this: A has a column for each row of B, `out` has a row for each row of A, and the
    // columns of B lie within its data.
    let holds = p.a.cols() >= p.b.depth && p.out.rows() >= p.a.rows() && p.b.has_columns(cols);
    debug_assert!(
        holds,
        "{:?} times {} rows of {cols} columns into {:?}",
        p.a.shape(),
        p.b.depth,
        p.out.shape()
    );
    if !holds {
        return;
    }
    #[cfg(helium)]
    p.by_vectors(cols);
    #[cfg(not(helium))]
    p.by_scalars(cols);
}

impl Gebp<'_, '_> {
    /// Computes all rows and the first `cols` columns, tile by tile.
    #[cfg(not(helium))]
    #[inline(always)]
    fn by_scalars(&mut self, cols: usize) {
        let (mut memory, mut col) = (core_loops::MEMORY, 0);
        while col < cols {
            let mut row = 0;
            while row < self.a.rows() {
                // For four or more rows, a whole tile takes less time than single rows, even if some of its rows are not
                // needed.
                let left = self.a.rows() - row;
                let rows = if left < 4 { 1 } else { left.min(MR) };
                self.tile(&mut memory, row, rows, col, NR.min(cols - col));
                row += rows;
            }
            col += NR;
        }
    }

    /// Computes 1 row or 4 to 6 rows from `row` on, and `cols` columns, at most [`NR`], from `col` on. The rows and columns of
    /// the tile that do not exist repeat the last one. `memory` holds the tile's sums.
    #[inline(always)]
    fn tile(&mut self, memory: &mut Memory, row: usize, rows: usize, col: usize, cols: usize) {
        let Self { a, b, ref mut out, add, .. } = *self;
        let stride = out.stride();
        let start = out.data_mut().as_mut_ptr().wrapping_add(row * stride + self.col + col);
        let sums = core_loops::clear(memory);
        // The addresses are written out one by one, so that no compiler makes a loop of them.
        let next = |pointer: *const f32, step: usize, exists: bool| {
            pointer.wrapping_add(if exists { step } else { 0 })
        };
        let a0 = a.data().as_ptr().wrapping_add(row.wrapping_mul(a.stride())); // a matrix without columns may have any stride
        let a1 = if rows == 1 { ptr::null() } else { a0.wrapping_add(a.stride()) };
        let a2 = a1.wrapping_add(a.stride());
        let a3 = a2.wrapping_add(a.stride());
        let a4 = next(a3, a.stride(), rows > 4);
        let rows_of_a = [a0, a1, a2, a3, a4, next(a4, a.stride(), rows > 5)];
        let b0 = b.data.as_ptr().wrapping_add(col.wrapping_mul(b.col_stride));
        let b1 = next(b0, b.col_stride, cols > 1);
        let b2 = next(b1, b.col_stride, cols > 2);
        let columns = [b0, b1, b2, next(b2, b.col_stride, cols > 3)];
        // SAFETY: `gebp` has checked that the rows of A have `depth` elements and that the columns of B lie within its data. A
        // view holds all of its rows.
        unsafe {
            if b.col_stride == 1 && cols == NR {
                core_loops::by_rows(sums, rows_of_a, columns[0], b.row_stride, b.depth);
            } else {
                core_loops::by_columns(sums, rows_of_a, columns, b.row_stride, b.depth);
            }
        }
        let mut out = start;
        for sums in sums.get(..rows).unwrap_or_default() {
            if cols == NR && !add {
                let [s0, s1, s2, s3] = *sums;
                // SAFETY: as above. The numbers are written one by one, because a copy of the row would become a call of
                // memmove.
                unsafe {
                    out.write(s0);
                    out.add(1).write(s1);
                    out.add(2).write(s2);
                    out.add(3).write(s3);
                }
            } else {
                for (c, sum) in sums.iter().enumerate().take(cols) {
                    // SAFETY: as above.
                    let out = unsafe { &mut *out.add(c) };
                    let mut old = *out;
                    one_by_one(&mut old);
                    *out = if add { old + *sum } else { *sum };
                }
            }
            out = out.wrapping_add(stride);
        }
    }
}

/// [`Simd::row_times_panel`] of numbers that `widen` widens, four columns at a time, so that their sums fit in registers.
#[inline(always)]
pub(super) fn row_times_panel(
    x: &[f32],
    panel: &[[u16; LANES]],
    widen: impl Fn(u16) -> f32,
) -> [f32; LANES] {
    let mut all = [0.0; LANES];
    for (first, sums) in (0..LANES).step_by(NR).zip(all.as_chunks_mut::<NR>().0) {
        let [mut s0, mut s1, mut s2, mut s3] = [0.0; NR];
        for (x, bits) in x.iter().zip(panel) {
            let Some([b0, b1, b2, b3]) = bits.get(first..).and_then(|bits| bits.first_chunk())
            else {
                continue; // never taken: each `first` has four columns after it
            };
            s0 = core_loops::multiply_add(*x, widen(*b0), s0);
            s1 = core_loops::multiply_add(*x, widen(*b1), s1);
            s2 = core_loops::multiply_add(*x, widen(*b2), s2);
            s3 = core_loops::multiply_add(*x, widen(*b3), s3);
        }
        *sums = [s0, s1, s2, s3];
    }
    all
}
