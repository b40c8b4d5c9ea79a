//! Sums and products element by element: residual connections, biases, gates.

use crate::arch::{Kernel, LANES, Simd, dispatch};
use crate::error::{Error, check_len};
use crate::invariant::Promised as _;
use crate::{Mat, MatMut};

/// x ← x + y, element by element: a residual connection.
///
/// # Errors
/// [`Error::Length`] if the lengths differ; `x` is then unchanged.
///
/// ```
/// let mut x = [1.0, 2.0, 3.0];
/// regard_kernels::add(&mut x, &[10.0, 20.0, 30.0])?;
/// assert_eq!(x, [11.0, 22.0, 33.0]);
/// # Ok::<(), regard_kernels::Error>(())
/// ```
pub fn add(x: &mut [f32], y: &[f32]) -> Result<(), Error> {
    check_len("y", y.len(), x.len())?;
    dispatch(Combine { x: MatMut::of_row(x), y: Mat::of_row(y), sum: true });
    Ok(())
}

/// x ← x · y, element by element: a gate.
///
/// # Errors
/// [`Error::Length`] if the lengths differ; `x` is then unchanged.
///
/// ```
/// let mut x = [1.0, 2.0, 3.0];
/// regard_kernels::multiply(&mut x, &[10.0, 0.0, -1.0])?;
/// assert_eq!(x, [10.0, 0.0, -3.0]);
/// # Ok::<(), regard_kernels::Error>(())
/// ```
pub fn multiply(x: &mut [f32], y: &[f32]) -> Result<(), Error> {
    check_len("y", y.len(), x.len())?;
    dispatch(Combine { x: MatMut::of_row(x), y: Mat::of_row(y), sum: false });
    Ok(())
}

/// Adds `row` \[d\] to each row of `x` \[n, d\]: a bias.
///
/// # Errors
/// [`Error::Length`] if `row` has another length than the rows; `x` is then unchanged.
///
/// ```
/// use regard_kernels::{MatMut, add_row};
/// let mut x = [[1.0, 2.0], [3.0, 4.0]];
/// add_row(MatMut::from(&mut x), &[10.0, 20.0])?;
/// assert_eq!(x, [[11.0, 22.0], [13.0, 24.0]]);
/// # Ok::<(), regard_kernels::Error>(())
/// ```
pub fn add_row(x: MatMut<'_>, row: &[f32]) -> Result<(), Error> {
    check_len("the row", row.len(), x.cols())?;
    dispatch(Combine { y: Mat::strided(row, x.rows(), x.cols(), 0)?, x, sum: true });
    Ok(())
}

/// x ← x + y or x · y, row by row.
struct Combine<'a> {
    x: MatMut<'a>,
    y: Mat<'a>,
    sum: bool,
}

impl Kernel for Combine<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, simd: S) {
        for i in 0..self.x.filled_rows() {
            let (x, y) = (self.x.row_mut(i), [self.y.row(i)]);
            if self.sum {
                zip(simd, x, y, &Sum);
            } else {
                zip(simd, x, y, &Multiply);
            }
        }
    }
}

struct Sum;

impl Zip<1> for Sum {
    #[inline(always)]
    fn of<S: Simd>(&self, simd: S, x: S::V, [y]: [S::V; 1]) -> S::V {
        simd.add(x, y)
    }
}

struct Multiply;

impl Zip<1> for Multiply {
    #[inline(always)]
    fn of<S: Simd>(&self, simd: S, x: S::V, [y]: [S::V; 1]) -> S::V {
        simd.mul(x, y)
    }
}

/// A function of a number and of `N` others at the same place.
pub(crate) trait Zip<const N: usize> {
    fn of<S: Simd>(&self, simd: S, x: S::V, others: [S::V; N]) -> S::V;
}

/// x ← f(x, others) for all elements. The others are as long as x.
#[inline(always)]
pub(crate) fn zip<S: Simd, const N: usize>(
    simd: S,
    x: &mut [f32],
    others: [&[f32]; N],
    f: &impl Zip<N>,
) {
    let (blocks, rest) = x.as_chunks_mut::<LANES>();
    let mut start = 0;
    for block in blocks {
        let mut lanes = [simd.splat(0.0); N];
        for (lanes, other) in lanes.iter_mut().zip(others) {
            *lanes = at(simd, other, start);
        }
        simd.store(f.of(simd, simd.load(block), lanes), block);
        start += LANES;
    }
    if !rest.is_empty() {
        let mut lanes = [simd.splat(0.0); N];
        for (lanes, other) in lanes.iter_mut().zip(others) {
            *lanes = simd.load_or(other.get(start..).promised(), 0.0);
        }
        simd.store_first(f.of(simd, simd.load_or(rest, 0.0), lanes), rest);
    }
}

/// The 16 elements from `start` on, which exist.
#[inline(always)]
fn at<S: Simd>(simd: S, x: &[f32], start: usize) -> S::V {
    simd.load(x.get(start..).and_then(|x| x.first_chunk()).promised_or(&[0.0; LANES]))
}
