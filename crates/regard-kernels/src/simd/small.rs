//! Products of 4 and 8 columns, of sizes that the compiler knows: too few columns for a whole block of lanes.

use super::{Kernel, LANES, Simd, dispatch};

macro_rules! small_product {
    ($name:ident, $lanes:expr, $load:ident, $store:ident, $mul_add:ident) => {
        /// A·B into `out`, each element one chain of multiply-adds as in every product.
        #[inline]
        pub(crate) fn $name<const M: usize, const K: usize>(
            a: &[[f32; K]; M],
            b: &[[f32; $lanes]; K],
            out: &mut [[f32; $lanes]; M],
        ) {
            struct Product<'a, const M: usize, const K: usize> {
                a: &'a [[f32; K]; M],
                b: &'a [[f32; $lanes]; K],
                out: &'a mut [[f32; $lanes]; M],
            }
            impl<const M: usize, const K: usize> Kernel for Product<'_, M, K> {
                type Output = ();

                #[inline(always)]
                fn run<S: Simd>(self, simd: S) {
                    for (a, out) in self.a.iter().zip(self.out) {
                        let mut sum = simd.$load(&[0.0; $lanes]);
                        for (a, b) in a.iter().zip(self.b) {
                            sum = simd.$mul_add(*a, simd.$load(b), sum);
                        }
                        simd.$store(sum, out);
                    }
                }
            }
            dispatch(Product { a, b, out });
        }
    };
}

small_product!(multiply_by_8, LANES / 2, load_half, store_half, mul_add_half);
small_product!(multiply_by_4, LANES / 4, load_quarter, store_quarter, mul_add_quarter);
