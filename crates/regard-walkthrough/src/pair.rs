use regard_kernels::{Attention, Mask, Mat, MatMut, Position, Stage, Temperature, attention_scratch_len};

use crate::{Error, Matrix, reference};

/// A matrix twice: as the kernels compute it, and as the reference does. Each operation is done to both.
#[derive(Clone, Debug)]
pub(crate) struct Pair {
    pub ours: Matrix,
    pub exact: Matrix<f64>,
}

impl Pair {
    /// Numbers that `f32` holds as they are.
    pub fn single(ours: Matrix) -> Self {
        let exact = ours.map(f64::from);
        Self { ours, exact }
    }

    /// Numbers that the kernels see rounded.
    pub fn double(exact: Matrix<f64>) -> Self {
        let ours = exact.map(|x| x as f32);
        Self { ours, exact }
    }

    /// The largest distance between the two.
    pub fn max_error(&self) -> f64 {
        let distance = |(a, b): (&f32, &f64)| {
            let a = f64::from(*a);
            // Two hidden scores are equal, though −∞ − (−∞) is NaN.
            if a == *b { 0.0 } else { (a - b).abs() }
        };
        let worse = |a: f64, b: f64| if b > a || b.is_nan() { b } else { a };
        self.ours.as_slice().iter().zip(self.exact.as_slice()).map(distance).fold(0.0, worse)
    }

    /// A·B.
    pub fn times(&self, b: &Self) -> Result<Self, Error> {
        let mut ours = zeros(self.ours.rows(), b.ours.cols());
        regard_kernels::matmul(self.ours.view()?, b.ours.view()?, ours.view_mut()?)?;
        Ok(Self { ours, exact: reference::matmul(&self.exact, &b.exact) })
    }

    /// A·Bᵀ.
    pub fn times_transposed(&self, b: &Self) -> Result<Self, Error> {
        let mut ours = zeros(self.ours.rows(), b.ours.rows());
        regard_kernels::matmul_transposed(self.ours.view()?, b.ours.view()?, ours.view_mut()?)?;
        Ok(Self { ours, exact: reference::matmul_transposed(&self.exact, &b.exact) })
    }

    /// Q·Kᵀ, over √d_k if `scaled`, and −∞ for what comes after `position`, where one is given.
    pub fn scores(q: &Self, k: &Self, scaled: bool, causal: Option<Position>) -> Result<Self, Error> {
        let ((n_q, d_k), n_k) = (q.ours.shape(), k.ours.rows());
        let mask = causal.map_or(Mask::NONE, |p| Mask::NONE.causal(p));
        let mut ours = zeros(n_q, n_k);
        let mut scratch = vec![0.0; attention_scratch_len(n_q, n_k, d_k, 0)];
        let attention = attention(scaled, mask);
        attention.scores(Stage::Masked, q.ours.view()?, k.ours.view()?, ours.view_mut()?, &mut scratch)?;

        let raw = reference::matmul_transposed(&q.exact, &k.exact);
        let divisor = if scaled { (d_k as f64).sqrt() } else { 1.0 };
        let score = |i, j| if mask.sees(i, j, n_q, n_k) { raw.get(i, j) / divisor } else { f64::NEG_INFINITY };
        Ok(Self { ours, exact: Matrix::from_fn(n_q, n_k, score) })
    }

    /// Softmax of each row.
    pub fn softmax(&self, temperature: Temperature) -> Self {
        let mut weights = self.clone();
        let t = temperature.get();
        // The kernels have no reciprocal of a subnormal number, and say that they take it for 0.
        let t = if t < f32::MIN_POSITIVE { 0.0 } else { f64::from(t) };
        for i in 0..self.ours.rows() {
            regard_kernels::softmax(weights.ours.row_mut(i), temperature);
            reference::softmax(weights.exact.row_mut(i), t);
        }
        weights
    }

    /// The scores as weights, without softmax: what is hidden counts nothing.
    pub fn hidden_as_zero(&self) -> Self {
        Self {
            ours: self.ours.map(|x| if x == f32::NEG_INFINITY { 0.0 } else { x }),
            exact: self.exact.map(|x| if x == f64::NEG_INFINITY { 0.0 } else { x }),
        }
    }

    /// `rows` rows from `row` on.
    pub fn rows(&self, row: usize, rows: usize) -> Self {
        Self { ours: self.ours.rows_from(row, rows), exact: self.exact.rows_from(row, rows) }
    }

    /// All rows of some matrices of one width.
    pub fn stacked(parts: &[Self]) -> Self {
        Self {
            ours: Matrix::stacked(&parts.iter().map(|p| &p.ours).collect::<Vec<_>>()),
            exact: Matrix::stacked(&parts.iter().map(|p| &p.exact).collect::<Vec<_>>()),
        }
    }

    /// `cols` columns from `col` on.
    pub fn columns(&self, col: usize, cols: usize) -> Self {
        Self {
            ours: Matrix::from_fn(self.ours.rows(), cols, |i, j| self.ours.get(i, col + j)),
            exact: Matrix::from_fn(self.exact.rows(), cols, |i, j| self.exact.get(i, col + j)),
        }
    }
}

/// The attention that a head computes.
pub(crate) fn attention(scaled: bool, mask: Mask<'_>) -> Attention<'_> {
    let attention = Attention::new().mask(mask);
    if scaled { attention } else { attention.scale(1.0) }
}

/// softmax(QKᵀ/√d_k)·V in one call of the fused kernel.
pub(crate) fn fused(attention: &Attention<'_>, q: &Matrix, k: &Matrix, v: &Matrix) -> Result<Matrix, Error> {
    let mut out = zeros(q.rows(), v.cols());
    let mut scratch = vec![0.0; attention_scratch_len(q.rows(), k.rows(), q.cols(), v.cols())];
    attention.forward(q.view()?, k.view()?, v.view()?, out.view_mut()?, &mut scratch)?;
    Ok(out)
}

fn zeros(rows: usize, cols: usize) -> Matrix {
    Matrix::from_fn(rows, cols, |_, _| 0.0)
}

impl Matrix {
    /// As the kernels take it.
    pub(crate) fn view(&self) -> Result<Mat<'_>, Error> {
        Ok(Mat::new(self.as_slice(), self.rows(), self.cols())?)
    }

    fn view_mut(&mut self) -> Result<MatMut<'_>, Error> {
        let (rows, cols) = self.shape();
        Ok(MatMut::new(self.as_mut_slice(), rows, cols)?)
    }
}
