//! Normalization of rows: layer norm and RMS norm.

use crate::MatMut;
use crate::arch::{Kernel, LANES, Lanes, Simd, Zip, dispatch, sqrt};
use crate::error::{Error, check_len};

/// Layer normalization (Ba, Kiros and Hinton 2016) of each row of `x` \[n, d\], in place:
/// y = (x − mean)/√(variance + ε) · γ + β, with γ and β \[d\].
///
/// The variance is Σ(x − mean)²/d, computed in a second pass over the row. The rounding error of the mean, which Σ(x − mean)
/// shows, is subtracted from mean and variance (Chan, Golub and LeVeque 1983), so numbers far from 0 lose no accuracy. A row's
/// bits depend on no other row.
///
/// A row in which all numbers are equal gives β, or NaN if ε = 0. Squares that overflow (|x| > 10¹⁹) give β.
///
/// # Errors
/// [`Error::Length`] if γ or β has another length than the rows; `x` is then unchanged.
///
/// ```
/// use regard_kernels::{MatMut, layer_norm};
/// let mut x = [[1.0, 3.0], [101.0, 103.0]];
/// layer_norm(MatMut::from(&mut x), &[1.0, 2.0], &[0.5, 0.0], 0.0)?;
/// assert_eq!(x, [[-0.5, 2.0], [-0.5, 2.0]]);
/// # Ok::<(), regard_kernels::Error>(())
/// ```
pub fn layer_norm(x: MatMut<'_>, gamma: &[f32], beta: &[f32], epsilon: f32) -> Result<(), Error> {
    check_len("gamma", gamma.len(), x.cols())?;
    check_len("beta", beta.len(), x.cols())?;
    dispatch(Normalize { x, gamma, beta: Some(beta), epsilon });
    Ok(())
}

/// Root-mean-square normalization (Zhang and Sennrich 2019) of each row of `x` \[n, d\], in place:
/// y = x/√(Σx²/d + ε) · γ, with γ \[d\].
///
/// A row's bits depend on no other row. A row of zeros stays zero, or is NaN if ε = 0.
///
/// # Errors
/// [`Error::Length`] if γ has another length than the rows; `x` is then unchanged.
///
/// ```
/// use regard_kernels::{MatMut, rms_norm};
/// let mut x = [[7.0, 1.0]];
/// rms_norm(MatMut::from(&mut x), &[1.0, 5.0], 0.0)?;
/// assert_eq!(x, [[1.4, 1.0]]);
/// # Ok::<(), regard_kernels::Error>(())
/// ```
pub fn rms_norm(x: MatMut<'_>, gamma: &[f32], epsilon: f32) -> Result<(), Error> {
    check_len("gamma", gamma.len(), x.cols())?;
    dispatch(Normalize { x, gamma, beta: None, epsilon });
    Ok(())
}

struct Normalize<'a> {
    x: MatMut<'a>,
    gamma: &'a [f32],
    /// β of a layer norm; `None` for an RMS norm.
    beta: Option<&'a [f32]>,
    epsilon: f32,
}

impl Kernel for Normalize<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, simd: S) {
        for i in 0..self.x.filled_rows() {
            let row = self.x.row_mut(i);
            let count = row.len() as f32;
            if let Some(beta) = self.beta {
                let mean = sums(simd, row, 0.0).0 / count;
                let (rest, squares) = sums(simd, row, mean);
                let rest = rest / count;
                let factor = 1.0 / sqrt(squares / count - rest * rest + self.epsilon);
                simd.zip(row, [self.gamma, beta], &Standard { mean, rest, factor });
            } else {
                let squares = sums(simd, row, 0.0).1;
                let factor = 1.0 / sqrt(squares / count + self.epsilon);
                simd.zip(row, [self.gamma], &Scaled(factor));
            }
        }
    }
}

/// Σ(x − mean) and Σ(x − mean)²: element i goes to lane i mod 16, and the lanes are folded as a tree.
#[inline(always)]
fn sums<S: Simd>(simd: S, row: &[f32], mean: f32) -> (f32, f32) {
    let mean_lanes = simd.splat(mean);
    let (mut sum, mut squares) = (simd.splat(0.0), simd.splat(0.0));
    let (blocks, rest) = row.as_chunks::<LANES>();
    for block in blocks {
        let distance = simd.sub(simd.load(block), mean_lanes);
        sum = simd.add(sum, distance);
        squares = simd.mul_add(distance, distance, squares);
    }
    if !rest.is_empty() {
        let distance = simd.sub(simd.load_or(rest, mean), mean_lanes);
        sum = simd.add(sum, distance);
        squares = simd.mul_add(distance, distance, squares);
    }
    (simd.reduce_add(sum), simd.reduce_add(squares))
}

/// (x − mean − rest)·factor·γ + β.
struct Standard {
    mean: f32,
    /// The rounding error of the mean.
    rest: f32,
    factor: f32,
}

impl Zip<2> for Standard {
    #[inline(always)]
    fn of<L: Lanes>(&self, lanes: L, x: L::V, [gamma, beta]: [L::V; 2]) -> L::V {
        let distance = lanes.sub(lanes.sub(x, lanes.splat(self.mean)), lanes.splat(self.rest));
        lanes.mul_add(lanes.mul(distance, lanes.splat(self.factor)), gamma, beta)
    }
}

/// x·factor·γ.
struct Scaled(f32);

impl Zip<1> for Scaled {
    #[inline(always)]
    fn of<L: Lanes>(&self, lanes: L, x: L::V, [gamma]: [L::V; 1]) -> L::V {
        lanes.mul(lanes.mul(x, lanes.splat(self.0)), gamma)
    }
}
