use std::sync::Arc;

use regard_kernels::{
    Attention, Mask, Mat, MatMut, Position, Stage, Temperature, attention_scratch_len,
};

use crate::expr::{Cell, Expr, Operand};
use crate::{Error, Matrix, StepKey, reference};

/// A matrix twice: as the kernels compute it, and as the reference does. Each operation is done to both.
#[derive(Clone, Debug)]
pub(crate) struct Pair {
    pub ours: Matrix,
    pub exact: Matrix<f64>,
    /// Where it is shown, once a step shows it.
    pub name: Name,
}

/// What a matrix is called where it is an operand.
#[derive(Clone, Debug, Default)]
pub(crate) struct Name {
    /// The key of the step that shows it, if one does.
    pub key: Option<StepKey>,
    /// "Q".
    pub symbol: String,
    pub rows: Arc<[String]>,
    pub cols: Arc<[String]>,
    /// Where in the step it begins, if it is a part.
    pub first: [usize; 2],
    /// Its rows are the step's columns.
    pub transposed: bool,
}

impl Pair {
    /// Numbers that `f32` holds as they are.
    pub fn single(ours: Matrix) -> Self {
        let exact = ours.map(f64::from);
        Self::new(ours, exact)
    }

    /// Both, under no name.
    pub fn new(ours: Matrix, exact: Matrix<f64>) -> Self {
        Self { ours, exact, name: Name::default() }
    }

    /// Numbers that the kernels see rounded.
    pub fn double(exact: Matrix<f64>) -> Self {
        Self::new(exact.map(|x| x as f32), exact)
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
        Ok(Self::new(ours, reference::matmul(&self.exact, &b.exact)))
    }

    /// A·Bᵀ.
    pub fn times_transposed(&self, b: &Self) -> Result<Self, Error> {
        let mut ours = zeros(self.ours.rows(), b.ours.rows());
        regard_kernels::matmul_transposed(self.ours.view()?, b.ours.view()?, ours.view_mut()?)?;
        Ok(Self::new(ours, reference::matmul_transposed(&self.exact, &b.exact)))
    }

    /// Q·Kᵀ, over √d_k if `scaled`, and −∞ for what comes after `position`, where one is given.
    pub fn scores(
        q: &Self,
        k: &Self,
        scaled: bool,
        causal: Option<Position>,
    ) -> Result<Self, Error> {
        let ((n_q, d_k), n_k) = (q.ours.shape(), k.ours.rows());
        let mask = causal.map_or(Mask::NONE, |p| Mask::NONE.causal(p));
        let mut ours = zeros(n_q, n_k);
        let mut scratch = vec![0.0; attention_scratch_len(n_q, n_k, d_k, 0)];
        let attention = attention(scaled, mask);
        attention.scores(
            Stage::Masked,
            q.ours.view()?,
            k.ours.view()?,
            ours.view_mut()?,
            &mut scratch,
        )?;

        let raw = reference::matmul_transposed(&q.exact, &k.exact);
        let divisor = if scaled { (d_k as f64).sqrt() } else { 1.0 };
        let score = |i, j| {
            if mask.sees(i, j, n_q, n_k) { raw.get(i, j) / divisor } else { f64::NEG_INFINITY }
        };
        Ok(Self::new(ours, Matrix::from_fn(n_q, n_k, score)))
    }

    /// Softmax of each row.
    pub fn softmax(&self, temperature: Temperature) -> Self {
        let mut weights = Self::new(self.ours.clone(), self.exact.clone());
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
        Self::new(
            self.ours.map(|x| if x == f32::NEG_INFINITY { 0.0 } else { x }),
            self.exact.map(|x| if x == f64::NEG_INFINITY { 0.0 } else { x }),
        )
    }

    /// A + B.
    pub fn plus(&self, b: &Self) -> Self {
        self.zip(b, |a, b| a + b, |a, b| a + b)
    }

    /// A − B.
    pub fn minus(&self, b: &Self) -> Self {
        self.zip(b, |a, b| a - b, |a, b| a - b)
    }

    /// Each element with the other's at the same place. A row of the other alone serves all.
    pub fn zip(
        &self,
        b: &Self,
        ours: impl Fn(f32, f32) -> f32,
        exact: impl Fn(f64, f64) -> f64,
    ) -> Self {
        let (rows, cols) = self.ours.shape();
        let row = |i: usize| i.min(b.ours.rows().saturating_sub(1));
        Self::new(
            Matrix::from_fn(rows, cols, |i, j| ours(self.ours.get(i, j), b.ours.get(row(i), j))),
            Matrix::from_fn(rows, cols, |i, j| exact(self.exact.get(i, j), b.exact.get(row(i), j))),
        )
    }

    /// Each element, changed.
    pub fn map(&self, ours: impl FnMut(f32) -> f32, exact: impl FnMut(f64) -> f64) -> Self {
        Self::new(self.ours.map(ours), self.exact.map(exact))
    }

    /// The same in a layer's result, which comes as a list, beside the reference.
    pub fn of_layer(ours: &[f32], exact: Matrix<f64>) -> Self {
        let cols = exact.cols();
        Self::new(
            Matrix::from_fn(exact.rows(), cols, |i, j| {
                ours.get(i * cols + j).copied().unwrap_or(f32::NAN)
            }),
            exact,
        )
    }

    /// `rows` rows from `row` on.
    pub fn rows(&self, row: usize, rows: usize) -> Self {
        let (ours, exact) = (self.ours.rows_from(row, rows), self.exact.rows_from(row, rows));
        Self { ours, exact, name: self.name.part([row, 0]) }
    }

    /// All rows of some matrices of one width.
    pub fn stacked(parts: &[Self]) -> Self {
        Self::new(
            Matrix::stacked(&parts.iter().map(|p| &p.ours).collect::<Vec<_>>()),
            Matrix::stacked(&parts.iter().map(|p| &p.exact).collect::<Vec<_>>()),
        )
    }

    /// Some matrices of as many rows, one beside the other.
    pub fn side_by_side(parts: &[Self]) -> Self {
        let transposed: Vec<Self> = parts.iter().map(Self::transposed).collect();
        Self { name: Name::default(), ..Self::stacked(&transposed).transposed() }
    }

    /// The rows in another order: row `i` is row `order[i]`.
    pub fn reordered(&self, order: &[usize]) -> Self {
        let cols = self.ours.cols();
        Self::new(
            Matrix::from_fn(order.len(), cols, |i, j| self.ours.get(order[i], j)),
            Matrix::from_fn(order.len(), cols, |i, j| self.exact.get(order[i], j)),
        )
    }

    /// `cols` columns from `col` on.
    pub fn columns(&self, col: usize, cols: usize) -> Self {
        Self {
            ours: Matrix::from_fn(self.ours.rows(), cols, |i, j| self.ours.get(i, col + j)),
            exact: Matrix::from_fn(self.exact.rows(), cols, |i, j| self.exact.get(i, col + j)),
            name: self.name.part([0, col]),
        }
    }

    /// Aᵀ.
    pub fn transposed(&self) -> Self {
        let (rows, cols) = self.ours.shape();
        Self {
            ours: Matrix::from_fn(cols, rows, |i, j| self.ours.get(j, i)),
            exact: Matrix::from_fn(cols, rows, |i, j| self.exact.get(j, i)),
            name: Name { transposed: !self.name.transposed, ..self.name.clone() },
        }
    }

    /// Element (i, j), to calculate with.
    pub fn cell(&self, i: usize, j: usize) -> Expr {
        Expr::Cell(self.name.operand(i, j, self.ours.get(i, j)))
    }
}

impl Name {
    fn part(&self, [row, col]: [usize; 2]) -> Self {
        let [row, col] = if self.transposed { [col, row] } else { [row, col] };
        Self { first: [self.first[0] + row, self.first[1] + col], ..self.clone() }
    }

    fn operand(&self, i: usize, j: usize, value: f32) -> Operand {
        let [i, j] = if self.transposed { [j, i] } else { [i, j] };
        let (row, col) = (self.first[0] + i, self.first[1] + j);
        let label =
            |labels: &[String], i: usize| labels.get(i).cloned().unwrap_or_else(|| i.to_string());
        let label =
            format!("{}[{}, {}]", self.symbol, label(&self.rows, row), label(&self.cols, col));
        let cell = self.key.map(|step| Cell { step, row, col });
        Operand { label, value, cell }
    }
}

/// The attention that a head computes.
pub(crate) fn attention(scaled: bool, mask: Mask<'_>) -> Attention<'_> {
    let attention = Attention::new().mask(mask);
    if scaled { attention } else { attention.scale(1.0) }
}

/// softmax(QKᵀ/√d_k)·V in one call of the fused kernel.
pub(crate) fn fused(
    attention: &Attention<'_>,
    q: &Matrix,
    k: &Matrix,
    v: &Matrix,
) -> Result<Matrix, Error> {
    let mut out = zeros(q.rows(), v.cols());
    let mut scratch = vec![0.0; attention_scratch_len(q.rows(), k.rows(), q.cols(), v.cols())];
    attention.forward(q.view()?, k.view()?, v.view()?, out.view_mut()?, &mut scratch)?;
    Ok(out)
}

pub(crate) fn zeros(rows: usize, cols: usize) -> Matrix {
    Matrix::from_fn(rows, cols, |_, _| 0.0)
}

impl Matrix {
    /// As the kernels take it.
    pub(crate) fn view(&self) -> Result<Mat<'_>, Error> {
        Ok(Mat::new(self.as_slice(), self.rows(), self.cols())?)
    }

    pub(crate) fn view_mut(&mut self) -> Result<MatMut<'_>, Error> {
        let (rows, cols) = self.shape();
        Ok(MatMut::new(self.as_mut_slice(), rows, cols)?)
    }
}
