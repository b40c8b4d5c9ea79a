//! Rotary position embedding.

use crate::arch::{Kernel, LANES, Simd, dispatch, one_by_one};
use crate::error::{Error, check_shape};
use crate::invariant::broken;
use crate::{Mat, MatMut};

/// The two elements of a query or key that rotary position embedding rotates together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pairing {
    /// Neighbours, 2i and 2i + 1: as in the paper (Su et al. 2021), GPT-J, and Llama's own code.
    Interleaved,
    /// i and i + d/2: as in GPT-NeoX, and Llama's weights in the Hugging Face format.
    HalfSplit,
}

/// Rotates each row of `x` \[n, d\] by its position, in place: rotary position embedding (Su et al. 2021, equation 34).
///
/// Pair i of row t, (a, b), becomes (a·cos − b·sin, b·cos + a·sin), with the elements \[t, i\] of `cos` and `sin` \[n, d/2\].
/// The result is rounded the same way on every tier, with or without fused multiply-add.
///
/// # Errors
/// [`Error::Shape`] if d is odd, or if `cos` or `sin` has another shape; `x` is then unchanged.
///
/// ```
/// use regard_kernels::{Mat, MatMut, Pairing, rotate};
/// let (cos, sin) = ([[0.0, 1.0]], [[1.0, 0.0]]); // a quarter turn of the first pair, none of the second
/// let mut x = [[1.0, 2.0, 3.0, 4.0]];
/// rotate(MatMut::from(&mut x), Mat::from(&cos), Mat::from(&sin), Pairing::Interleaved)?;
/// assert_eq!(x, [[-2.0, 1.0, 3.0, 4.0]]);
/// # Ok::<(), regard_kernels::Error>(())
/// ```
pub fn rotate(x: MatMut<'_>, cos: Mat<'_>, sin: Mat<'_>, pairing: Pairing) -> Result<(), Error> {
    let (rows, cols) = x.shape();
    check_shape("x", x.shape(), (rows, cols / 2 * 2), "pairs of columns")?;
    check_shape("cos", cos.shape(), (rows, cols / 2), "an angle a pair of columns of x")?;
    check_shape("sin", sin.shape(), (rows, cols / 2), "an angle a pair of columns of x")?;
    dispatch(Rotate { x, cos, sin, pairing });
    Ok(())
}

struct Rotate<'a> {
    x: MatMut<'a>,
    cos: Mat<'a>,
    sin: Mat<'a>,
    pairing: Pairing,
}

impl Kernel for Rotate<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, simd: S) {
        for t in 0..self.x.filled_rows() {
            let (x, cos, sin) = (self.x.row_mut(t), self.cos.row(t), self.sin.row(t));
            match self.pairing {
                // The loop is plain: the compiler finds the shuffles of each tier for pairs.
                Pairing::Interleaved => {
                    for (([a, b], cos), sin) in x.as_chunks_mut().0.iter_mut().zip(cos).zip(sin) {
                        one_by_one(a);
                        (*a, *b) = (*a * cos - *b * sin, *b * cos + *a * sin);
                    }
                }
                Pairing::HalfSplit => {
                    let Some((a, b)) = x.split_at_mut_checked(cos.len()) else { return broken() };
                    let ((a, a_rest), (b, b_rest)) =
                        (a.as_chunks_mut::<LANES>(), b.as_chunks_mut::<LANES>());
                    let ((cos, cos_rest), (sin, sin_rest)) =
                        (cos.as_chunks::<LANES>(), sin.as_chunks::<LANES>());
                    let angles = cos.iter().zip(sin);
                    for ((a, b), (cos, sin)) in a.iter_mut().zip(b).zip(angles) {
                        turn(simd, a, b, cos, sin);
                    }
                    turn(simd, a_rest, b_rest, cos_rest, sin_rest);
                }
            }
        }
    }
}

/// Rotates up to 16 pairs.
#[inline(always)]
fn turn<S: Simd>(simd: S, a: &mut [f32], b: &mut [f32], cos: &[f32], sin: &[f32]) {
    let (cos, sin) = (simd.load_or(cos, 0.0), simd.load_or(sin, 0.0));
    let (from_a, from_b) = (simd.load_or(a, 0.0), simd.load_or(b, 0.0));
    simd.store_first(simd.sub(simd.mul(from_a, cos), simd.mul(from_b, sin)), a);
    simd.store_first(simd.add(simd.mul(from_b, cos), simd.mul(from_a, sin)), b);
}
