//! Sums and products element by element: residual connections, biases, gates.

use crate::arch::{Kernel, Lanes, Simd, Zip, dispatch};
use crate::error::{Error, check_len};
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
                simd.zip(x, y, &Sum);
            } else {
                simd.zip(x, y, &Multiply);
            }
        }
    }
}

struct Sum;

impl Zip<1> for Sum {
    #[inline(always)]
    fn of<L: Lanes>(&self, lanes: L, x: L::V, [y]: [L::V; 1]) -> L::V {
        lanes.add(x, y)
    }
}

struct Multiply;

impl Zip<1> for Multiply {
    #[inline(always)]
    fn of<L: Lanes>(&self, lanes: L, x: L::V, [y]: [L::V; 1]) -> L::V {
        lanes.mul(x, y)
    }
}
