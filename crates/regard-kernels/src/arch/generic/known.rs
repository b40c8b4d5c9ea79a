//! Products of sizes that the compiler knows, of 4, 8 or whole blocks of columns: every stride and every loop's end is
//! part of the code.

use core::mem::MaybeUninit;

use crate::arch::vector::Columns;
use crate::arch::{Kernel, LANES, Simd, dispatch};

/// Calls `$body` with the number of rows as a constant in scope. The compiler knows the number, and keeps one of these.
macro_rules! with_rows {
    (@ $rows:expr, $group:ident => $body:expr; $($r:literal)+) => {
        match $rows {
            $($r => {
                const $group: usize = $r;
                $body
            })+
            _ => {}
        }
    };
    ($rows:expr, $group:ident => $body:expr) => {
        with_rows!(@ $rows, $group => $body; 1 2 3 4 5 6 7 8 9 10 11 12)
    };
}

/// A·B for a multiple of `L` as columns, each element one chain of multiply-adds as in every product.
#[inline(always)]
fn product<S: Simd + Columns<L>, const L: usize, const M: usize, const K: usize, const N: usize>(
    simd: S,
    a: &[[f32; K]; M],
    b: &[[f32; N]; K],
) -> [[f32; N]; M] {
    assert!(N.is_multiple_of(L));
    let mut product = MaybeUninit::<[[f32; N]; M]>::uninit();
    let groups = M.div_ceil(S::SHAPE.rows).max(1);
    let (size, larger) = (M / groups, M % groups);
    let (more, fewer) = a.split_at(larger * (size + 1));
    let rows = product.as_mut_ptr().cast();
    for col in (0..N).step_by(L) {
        // SAFETY: `product` has all of these rows, and the lanes from `col` on.
        unsafe {
            with_rows!(size + 1, R => multiply_rows::<S, L, R, K, N>(simd, more, b, col, rows));
            let rows = rows.add(more.len());
            with_rows!(size, R => multiply_rows::<S, L, R, K, N>(simd, fewer, b, col, rows));
        }
    }
    // SAFETY: the groups make up all rows, the lanes all columns: every element has been written.
    unsafe { product.assume_init() }
}

/// Whole groups of `R` rows of `a`, times the `L` columns of `b` from `col` on, to the first rows of `out`.
///
/// # Safety
/// `out` must have the rows of `a`, and `N` the lanes from `col` on.
#[inline(always)]
unsafe fn multiply_rows<
    S: Simd + Columns<L>,
    const L: usize,
    const R: usize,
    const K: usize,
    const N: usize,
>(
    simd: S,
    a: &[[f32; K]],
    b: &[[f32; N]; K],
    col: usize,
    out: *mut [f32; N],
) {
    for (group, a) in a.as_chunks::<R>().0.iter().enumerate() {
        let mut sums = [Columns::<L>::load_columns(simd, &[0.0; L]); R];
        for (t, b) in b.iter().enumerate() {
            let Some(lanes) = b.get(col..).and_then(|b| b.first_chunk::<L>()) else { continue };
            let lanes = Columns::<L>::load_columns(simd, lanes);
            for (sum, a) in sums.iter_mut().zip(a) {
                *sum = Columns::<L>::mul_add_columns(simd, a[t], lanes, *sum);
            }
        }
        for (r, sum) in sums.into_iter().enumerate() {
            let mut lanes = [0.0; L];
            Columns::<L>::store_columns(simd, sum, &mut lanes);
            // SAFETY: the caller answers for row and columns. Rows of floats lie anywhere.
            unsafe {
                out.add(group * R + r).cast::<f32>().add(col).cast::<[f32; L]>().write(lanes);
            };
        }
    }
}

/// [`product`] by so many lanes as a function of its own.
macro_rules! product_by {
    ($name:ident, $lanes:expr) => {
        /// A·B for a multiple of the lanes as columns.
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
