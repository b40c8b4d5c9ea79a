//! Products whose sizes the compiler knows, with 4, 8 or a multiple of 16 columns. Every stride and the end of every loop is a
//! constant of the code.

use crate::arch::{Kernel, LANES, Simd, Tier, dispatch};
use crate::invariant::broken;

/// Calls `$body` with the number of rows, a constant expression, as a constant in scope. The compiler knows the number, so it
/// compiles only one of the cases.
macro_rules! with_rows {
    (@ $rows:expr, $group:ident => $body:expr; $($r:literal)+) => {
        $(if const { $rows == $r } {
            const $group: usize = $r;
            $body
        })+
    };
    ($rows:expr, $group:ident => $body:expr) => {
        with_rows!(@ $rows, $group => $body; 1 2 3 4 5 6 7 8 9 10 11 12)
    };
}

/// The number of rows of the smaller groups, and the number of groups that have one more.
const fn groups<S: Simd>(rows: usize) -> (usize, usize) {
    let groups = rows.div_ceil(S::SHAPE.rows);
    let groups = if groups == 0 { 1 } else { groups };
    (rows / groups, rows % groups)
}

/// The number of rows of the larger groups, or 0 if there are none.
const fn larger_size<S: Simd>(rows: usize) -> usize {
    let (size, larger) = groups::<S>(rows);
    if larger == 0 { 0 } else { size + 1 }
}

/// A·B, where the number of columns is a multiple of `L`. Each element is one chain of multiply-adds, as in every product.
#[inline(always)]
fn product<S: Simd, const L: usize, const M: usize, const K: usize, const N: usize>(
    simd: S,
    a: &[[f32; K]; M],
    b: &[[f32; N]; K],
) -> [[f32; N]; M] {
    let mut product = [[0.0; N]; M];
    let (size, larger) = const { groups::<S>(M) };
    let (more, fewer) = a.split_at(larger * (size + 1));
    let (out, rest) = product.split_at_mut(more.len());
    for col in (0..N).step_by(L) {
        with_rows!(larger_size::<S>(M), R => multiply_rows::<S, L, R, K, N>(simd, more, b, col, out));
        with_rows!(groups::<S>(M).0, R => multiply_rows::<S, L, R, K, N>(simd, fewer, b, col, rest));
    }
    product
}

/// Multiplies whole groups of `R` rows of `a` by the `L` columns of `b` from `col` on, into the rows of `out`.
#[inline(always)]
fn multiply_rows<S: Simd, const L: usize, const R: usize, const K: usize, const N: usize>(
    simd: S,
    a: &[[f32; K]],
    b: &[[f32; N]; K],
    col: usize,
    out: &mut [[f32; N]],
) {
    for (a, out) in a.as_chunks::<R>().0.iter().zip(out.as_chunks_mut::<R>().0) {
        let mut sums = [simd.splat(0.0); R];
        for (t, b) in b.iter().enumerate() {
            let Some(lanes) = b.get(col..).and_then(|b| b.first_chunk::<L>()) else {
                broken();
                continue;
            };
            let lanes = simd.load_or(lanes, 0.0);
            for (sum, a) in sums.iter_mut().zip(a) {
                *sum = simd.mul_add(simd.splat(a[t]), lanes, *sum);
            }
        }
        for (sum, out) in sums.into_iter().zip(out) {
            let Some(out) = out.get_mut(col..).and_then(|out| out.first_chunk_mut::<L>()) else {
                broken();
                continue;
            };
            simd.store_first(sum, out);
        }
    }
}

/// Defines [`product`] for a number of lanes as a function of its own.
macro_rules! product_by {
    ($name:ident, $lanes:expr) => {
        /// A·B, where the number of columns is a multiple of the lanes.
        #[inline]
        pub(crate) fn $name<const M: usize, const K: usize, const N: usize>(
            a: &[[f32; K]; M],
            b: &[[f32; N]; K],
        ) -> [[f32; N]; M] {
            struct Known<'a, const M: usize, const K: usize, const N: usize> {
                a: &'a [[f32; K]; M],
                b: &'a [[f32; N]; K],
            }
            impl<const M: usize, const K: usize, const N: usize> Kernel for Known<'_, M, K, N> {
                type Output = [[f32; N]; M];

                // AVX-512 would mask blocks of less than 16 numbers, and numbers that are written under a mask cannot stay in
                // registers.
                #[inline(always)]
                fn tier(&self) -> Tier {
                    match Tier::active() {
                        Tier::Avx512 if $lanes < LANES => Tier::Avx2,
                        tier => tier,
                    }
                }

                #[inline(always)]
                fn run<S: Simd>(self, simd: S) -> [[f32; N]; M] {
                    product::<S, { $lanes }, M, K, N>(simd, self.a, self.b)
                }
            }
            dispatch(Known { a, b })
        }
    };
}

product_by!(matmul_by_16, LANES);
product_by!(matmul_by_8, LANES / 2);
product_by!(matmul_by_4, LANES / 4);
