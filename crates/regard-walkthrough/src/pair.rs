use std::sync::Arc;

use regard_kernels::{
    Attention, Mask, Mat, MatMut, Position, Stage, Temperature, attention_scratch_len,
};

use crate::bound::{self, Known, distance};
use crate::expr::{Expr, Operand, StepCell};
use crate::{Error, Matrix, StepKey, reference};

/// A matrix as the kernels compute it, as the reference computes it, and a bound on their distance. Each operation applies to all
/// three.
#[derive(Clone, Debug)]
pub(crate) struct Pair {
    pub ours: Matrix,
    pub exact: Matrix<f64>,
    /// The largest distance of each element of `ours` from that of `exact` that rounding explains.
    pub bound: Matrix<f64>,
    /// Its name, once a step shows it.
    pub name: Name,
}

/// The name of a matrix as an operand.
#[derive(Clone, Debug, Default)]
pub(crate) struct Name {
    /// The key of the step that shows it, if one does.
    pub key: Option<StepKey>,
    /// The symbol, such as "Q".
    pub symbol: String,
    pub rows: Arc<[String]>,
    pub cols: Arc<[String]>,
    /// The first cell within the step, if the operand is a part.
    pub first: [usize; 2],
    /// Whether its rows are the step's columns.
    pub transposed: bool,
}

impl Pair {
    /// Numbers that `f32` represents exactly.
    pub fn single(ours: &Matrix) -> Self {
        Self::double(ours.map(f64::from))
    }

    /// A pair from all three, without a name.
    pub fn new(ours: Matrix, exact: Matrix<f64>, bound: Matrix<f64>) -> Self {
        Self { ours, exact, bound, name: Name::default() }
    }

    /// A pair of given numbers. The kernels use them rounded to single precision.
    pub fn double(exact: Matrix<f64>) -> Self {
        let bound = exact.map(bound::of_given);
        Self::new(exact.map(|x| x as f32), exact, bound)
    }

    /// The same numbers under the name of a matrix that no step shows.
    pub fn named(self, symbol: &str, rows: &[String], cols: &[String]) -> Self {
        let (symbol, rows, cols) = (symbol.to_owned(), rows.into(), cols.into());
        Self { name: Name { symbol, rows, cols, ..Name::default() }, ..self }
    }

    /// The operands of bounds.
    pub fn known(&self) -> Known<'_> {
        Known { exact: &self.exact, bound: &self.bound }
    }

    /// The largest distance between the two.
    pub fn max_error(&self) -> f64 {
        let distance = |(a, b): (&f32, &f64)| distance(f64::from(*a), *b);
        let worse = |a: f64, b: f64| if b > a || b.is_nan() { b } else { a };
        self.ours.as_slice().iter().zip(self.exact.as_slice()).map(distance).fold(0.0, worse)
    }

    /// A·B.
    pub fn times(&self, b: &Self) -> Result<Self, Error> {
        let mut ours = zeros(self.ours.rows(), b.ours.cols());
        regard_kernels::matmul(self.ours.view()?, b.ours.view()?, ours.view_mut()?)?;
        let bound = bound::product(self.known(), b.known());
        Ok(Self::new(ours, reference::matmul(&self.exact, &b.exact), bound))
    }

    /// A·Bᵀ.
    pub fn times_transposed(&self, b: &Self) -> Result<Self, Error> {
        let mut ours = zeros(self.ours.rows(), b.ours.rows());
        regard_kernels::matmul_transposed(self.ours.view()?, b.ours.view()?, ours.view_mut()?)?;
        let bound = bound::product(self.known(), b.transposed().known());
        Ok(Self::new(ours, reference::matmul_transposed(&self.exact, &b.exact), bound))
    }

    /// A·B / √d, computed as A·B times 1/√d or as A/√d times B.
    pub fn times_over_root(&self, b: &Self, d: usize) -> Result<Self, Error> {
        let product = self.times(b)?;
        let root = (d as f64).sqrt();
        Ok(Self {
            ours: product.ours.map(|x| x / root as f32),
            exact: product.exact.map(|x| x / root),
            bound: self.bound_over_root(b, &product.exact, root),
            name: Name::default(),
        })
    }

    /// The bound of A·B / √d: 1/√d has two roundings, and each factor or each sum has two more.
    fn bound_over_root(&self, b: &Self, product: &Matrix<f64>, root: f64) -> Matrix<f64> {
        let error = bound::product(self.known(), b.known());
        let magnitude = bound::magnitude(self.known(), b.known());
        Matrix::from_fn(product.rows(), product.cols(), |i, j| {
            let (sum, error) = (product.get(i, j).abs(), error.get(i, j));
            (error + bound::gamma(4) * (sum + error) + bound::U * magnitude.get(i, j)) / root
        })
    }

    /// Q·Kᵀ, divided by √d_k if `scaled`. If a position is given, scores of later keys are −∞.
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
        let (q_view, k_view) = (q.ours.view()?, k.ours.view()?);
        attention(scaled, mask).scores(
            Stage::Masked,
            q_view,
            k_view,
            ours.view_mut()?,
            &mut scratch,
        )?;

        let raw = reference::matmul_transposed(&q.exact, &k.exact);
        let (divisor, k) = (if scaled { (d_k as f64).sqrt() } else { 1.0 }, k.transposed());
        let bound = if scaled {
            q.bound_over_root(&k, &raw, divisor)
        } else {
            bound::product(q.known(), k.known())
        };
        let seen =
            |i, j, then: f64, otherwise| if mask.sees(i, j, n_q, n_k) { then } else { otherwise };
        let exact = |i, j| seen(i, j, raw.get(i, j) / divisor, f64::NEG_INFINITY);
        let bound = |i, j| seen(i, j, bound.get(i, j), 0.0);
        let [exact, bound] = [Matrix::from_fn(n_q, n_k, exact), Matrix::from_fn(n_q, n_k, bound)];
        Ok(Self::new(ours, exact, bound))
    }

    /// Softmax of each row.
    pub fn softmax(&self, temperature: Temperature) -> Self {
        let mut weights = Self { name: Name::default(), ..self.clone() };
        let t = effective(temperature);
        for i in 0..self.ours.rows() {
            regard_kernels::softmax(weights.ours.row_mut(i), temperature);
            reference::softmax(weights.exact.row_mut(i), t);
            let bound =
                bound::softmax(self.exact.row(i), self.bound.row(i), weights.exact.row(i), t);
            weights.bound.row_mut(i).copy_from_slice(&bound);
        }
        weights
    }

    /// The scores as weights, without softmax. Hidden scores count as 0.
    pub fn hidden_as_zero(&self) -> Self {
        Self::new(
            self.ours.map(|x| if x == f32::NEG_INFINITY { 0.0 } else { x }),
            self.exact.map(|x| if x == f64::NEG_INFINITY { 0.0 } else { x }),
            self.bound.clone(),
        )
    }

    /// weights·V as the fused attention computes it, which divides the sum of products at the end.
    pub fn blended(&self, v: &Self) -> Result<Self, Error> {
        let bound = bound::sums(self.known(), v.known(), 3);
        Ok(Self { bound, ..self.times(v)? })
    }

    /// A + B.
    pub fn plus(&self, b: &Self) -> Self {
        self.zip(b, |a, b| a + b, |a, b| a + b)
    }

    /// A − B.
    pub fn minus(&self, b: &Self) -> Self {
        self.zip(b, |a, b| a - b, |a, b| a - b)
    }

    /// Adds or subtracts element by element.
    fn zip(
        &self,
        b: &Self,
        ours: impl Fn(f32, f32) -> f32,
        exact: impl Fn(f64, f64) -> f64,
    ) -> Self {
        let (rows, cols) = self.ours.shape();
        let exact =
            Matrix::from_fn(rows, cols, |i, j| exact(self.exact.get(i, j), b.exact.get(i, j)));
        let bound =
            |i, j| bound::rounded(exact.get(i, j), self.bound.get(i, j) + b.bound.get(i, j));
        let bound = Matrix::from_fn(rows, cols, bound);
        let ours = Matrix::from_fn(rows, cols, |i, j| ours(self.ours.get(i, j), b.ours.get(i, j)));
        Self::new(ours, exact, bound)
    }

    /// A·W + b. The linear layer returns its result `ours` as a list.
    pub fn affine(&self, w: &Self, b: &Self, ours: Vec<f32>) -> Self {
        let product = reference::matmul(&self.exact, &w.exact);
        let exact = Matrix::from_fn(product.rows(), product.cols(), |i, j| {
            product.get(i, j) + b.exact.get(0, j)
        });
        Self::of_layer(ours, exact, bound::affine(self.known(), w.known(), b.known()))
    }

    /// The result of a layer, which is a list, and its reference.
    pub fn of_layer(ours: Vec<f32>, exact: Matrix<f64>, bound: Matrix<f64>) -> Self {
        let (rows, cols) = exact.shape();
        Self::new(Matrix::from_vec(rows, cols, ours), exact, bound)
    }

    /// `rows` rows, starting at `row`.
    pub fn rows(&self, row: usize, rows: usize) -> Self {
        Self {
            ours: self.ours.rows_from(row, rows),
            exact: self.exact.rows_from(row, rows),
            bound: self.bound.rows_from(row, rows),
            name: self.name.part([row, 0]),
        }
    }

    /// All rows of some matrices of one width, stacked.
    pub fn stacked(parts: &[Self]) -> Self {
        Self::new(
            Matrix::stacked(&parts.iter().map(|p| &p.ours).collect::<Vec<_>>()),
            Matrix::stacked(&parts.iter().map(|p| &p.exact).collect::<Vec<_>>()),
            Matrix::stacked(&parts.iter().map(|p| &p.bound).collect::<Vec<_>>()),
        )
    }

    /// Some matrices of equal height, side by side.
    pub fn side_by_side(parts: &[Self]) -> Self {
        let transposed: Vec<Self> = parts.iter().map(Self::transposed).collect();
        Self { name: Name::default(), ..Self::stacked(&transposed).transposed() }
    }

    /// The rows in another order: the new row `i` is the old row `order[i]`.
    pub fn reordered(&self, order: &[usize]) -> Self {
        let row = |i: &usize| self.rows(*i, 1);
        Self::stacked(&order.iter().map(row).collect::<Vec<_>>())
    }

    /// `cols` columns, starting at `col`.
    pub fn columns(&self, col: usize, cols: usize) -> Self {
        Self {
            ours: self.ours.columns_from(col, cols),
            exact: self.exact.columns_from(col, cols),
            bound: self.bound.columns_from(col, cols),
            name: self.name.part([0, col]),
        }
    }

    /// Aᵀ.
    pub fn transposed(&self) -> Self {
        Self {
            ours: self.ours.transposed(),
            exact: self.exact.transposed(),
            bound: self.bound.transposed(),
            name: Name { transposed: !self.name.transposed, ..self.name.clone() },
        }
    }

    /// Element (i, j) as an expression.
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
        let cell = self.key.map(|step| StepCell { step, row, col });
        Operand { label, value, cell }
    }
}

/// The temperature that the kernels compute with. They count a subnormal one as 0.
pub(crate) fn effective(temperature: Temperature) -> f64 {
    if temperature.is_zero() { 0.0 } else { f64::from(temperature.get()) }
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
    pub(crate) fn view(&self) -> Result<Mat<'_>, Error> {
        Ok(Mat::new(self.as_slice(), self.rows(), self.cols())?)
    }

    pub(crate) fn view_mut(&mut self) -> Result<MatMut<'_>, Error> {
        let (rows, cols) = self.shape();
        Ok(MatMut::new(self.as_mut_slice(), rows, cols)?)
    }
}
