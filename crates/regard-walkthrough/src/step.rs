use std::sync::Arc;

use crate::bound::distance;
use crate::check::scale;
use crate::expr::{Arithmetic, Expr};
use crate::origin::Origin;
use crate::pair::Name;
use crate::{FormulaPart, Matrix, StepKey, formula_parts, ulp, ulps};

/// The kind of numbers in a step, which decides how a view colours them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// Numbers of any sign: a diverging map, centred at 0.
    Signed,
    /// Weights from 0 to 1, each row a distribution: a sequential map from 0 to 1.
    Weights,
    /// Columns of different measures. They are shown as a table without colours.
    Table,
}

/// The meaning of the rows of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RowRole {
    /// Tokens before they are projected, such as X. They play all roles.
    Tokens,
    /// Queries and results of them: Q, the output.
    Queries,
    /// Keys or values.
    Keys,
    /// Queries in rows and keys in columns: scores and weights.
    Pairs,
    /// Other rows: learned weights, tables.
    Other,
}

/// One step of a walkthrough: a matrix, with the texts that explain it.
#[derive(Clone, Debug)]
pub struct Step {
    /// The key, unique within the walkthrough: `x`, `w_q`, `raw_scores`, `head_1.weights` …
    pub key: StepKey,
    /// The symbol in formulas: "Q".
    pub symbol: String,
    /// The name in words, with the symbol: "Queries Q".
    pub name: String,
    /// The formula: "Q = X·W_Q". Empty for a given matrix.
    pub formula: String,
    /// The meaning, in plain sentences.
    pub meaning: String,
    /// The Rust call that computed it: "matmul(x, w_q, q)". Empty for a given matrix.
    pub code: &'static str,
    /// The numbers, as the kernels computed them.
    pub matrix: Matrix,
    /// The reference in double precision, by plain loops.
    pub exact: Matrix<f64>,
    /// The kind of numbers.
    pub kind: Kind,
    /// The labels of the rows: tokens, dimensions ("d0"), …
    pub row_labels: Vec<String>,
    /// The labels of the columns.
    pub col_labels: Vec<String>,
    /// The meaning of the rows, by which rows of different steps correspond.
    pub rows: RowRole,
    /// The number of the token of the first row. It is not 0 if one row is shown alone.
    pub first_token: usize,
    /// The largest distance of an element from the f64 reference (absolute).
    pub max_error: f64,
    /// The same distance in units of the last place: see [`ulps`].
    pub max_ulp: f64,
    /// A wrong number of a notebook, which it names, and the right one.
    pub correction: Option<String>,
    /// The numbers before any change, if the cells can be typed over.
    pub(crate) given: Option<Arc<Matrix<f64>>>,
    /// The largest distance of each cell from the reference that rounding explains.
    pub(crate) bounds: Matrix<f64>,
    /// The origin of each cell, for [`Step::arithmetic`].
    pub(crate) origin: Origin,
}

impl Step {
    /// The arithmetic of the cell (row, col) as text: "1·2 + 1·1 + 1·1 = 4". `None` outside the matrix.
    ///
    /// Numbers are rounded for reading. A sum of more than 12 terms shows the first four, the sum of the middle ones, and the last.
    pub fn explain(&self, row: usize, col: usize) -> Option<String> {
        self.arithmetic(row, col).map(|a| a.text)
    }

    /// The arithmetic of the cell (row, col) as an expression. `None` outside the matrix.
    pub fn arithmetic(&self, row: usize, col: usize) -> Option<Arithmetic> {
        let (rows, cols) = self.matrix.shape();
        if row >= rows || col >= cols {
            return None;
        }
        Some(self.origin.arithmetic(row, col, self.matrix.get(row, col)))
    }

    /// The expression of the cell (row, col), without the words of [`arithmetic`](Self::arithmetic), which take longer.
    /// `None` outside the matrix, and for a number that was not computed.
    pub fn expr(&self, row: usize, col: usize) -> Option<Expr> {
        let (rows, cols) = self.matrix.shape();
        let is_inside = row < rows && col < cols;
        is_inside.then(|| self.origin.expr(row, col, self.matrix.get(row, col)))?
    }

    /// The shape, and for a product also the shapes of its factors: "\[4, 8\]·\[8, 8\] → \[4, 8\]".
    ///
    /// ```
    /// use regard_walkthrough::{Example, Quantity, Section, Settings, StepKey, Walkthrough};
    /// let walk = Walkthrough::run(Example::TwoHeads, &Settings::default())?;
    /// let shapes = |quantity| walk.step(StepKey::new(Section::Head(1), quantity)).map(|step| step.shapes()).unwrap_or_default();
    /// assert_eq!(shapes(Quantity::RawScores), "[3, 2]·[2, 3] → [3, 3]"); // Q₁·K₁ᵀ
    /// assert_eq!(shapes(Quantity::Weights), "[3, 3]");
    /// # Ok::<(), regard_walkthrough::Error>(())
    /// ```
    pub fn shapes(&self) -> String {
        let shape = |(rows, cols)| format!("[{rows}, {cols}]");
        let own = shape(self.matrix.shape());
        match self.origin.factors() {
            Some([left, right]) => format!("{}·{} → {own}", shape(left), shape(right)),
            None => own,
        }
    }

    /// The parts of the formula, to draw.
    pub fn formula_parts(&self) -> Vec<FormulaPart<'_>> {
        formula_parts(&self.formula)
    }

    /// Whether the cells can be typed over, by [`Inputs::set`](crate::Inputs::set) with the step's key.
    pub fn is_editable(&self) -> bool {
        self.given.is_some()
    }

    /// The number of the cell (row, col) before any change: that of the example, or that of a projection. `None` outside the
    /// matrix, and if its cells cannot be typed over.
    ///
    /// ```
    /// use regard_walkthrough::{Example, Inputs, Quantity, Settings, Walkthrough};
    /// let mut inputs = Inputs::new(Example::ILoveRobotics);
    /// inputs.set(Quantity::Q, 1, 0, 5.0)?;
    /// let walk = Walkthrough::compute(&inputs, &Settings::default())?;
    /// let q = walk.step(Quantity::Q).expect("there are queries");
    /// assert_eq!((q.matrix.get(1, 0), q.given(1, 0)), (5.0, Some(1.0)));
    /// assert!(q.is_editable() && walk.step(Quantity::Weights).is_some_and(|w| !w.is_editable()));
    /// # Ok::<(), regard_walkthrough::Error>(())
    /// ```
    pub fn given(&self, row: usize, col: usize) -> Option<f64> {
        let given = self.given.as_ref()?;
        (row < given.rows() && col < given.cols()).then(|| given.get(row, col))
    }

    /// The absolute distance of the cell (row, col) from the f64 reference. `None` outside the matrix.
    ///
    /// ```
    /// use regard_walkthrough::{Example, Quantity, Settings, Walkthrough};
    /// let walk = Walkthrough::run(Example::TheCatSat, &Settings::default())?;
    /// let weights = walk.step(Quantity::Weights).expect("there are weights");
    /// assert!(weights.error(0, 0).is_some_and(|e| e < 1e-7) && weights.ulp(0, 0).is_some_and(|u| u < 4.0));
    /// # Ok::<(), regard_walkthrough::Error>(())
    /// ```
    pub fn error(&self, row: usize, col: usize) -> Option<f64> {
        let (x, r) = self.both(row, col)?;
        Some(distance(x.into(), r))
    }

    /// The largest distance of a cell from the f64 reference, divided by the largest number of the matrix.
    ///
    /// ```
    /// use regard_walkthrough::{Example, Quantity, Settings, Walkthrough};
    /// let walk = Walkthrough::run(Example::MathOfAttention, &Settings::default())?;
    /// assert!(walk.step(Quantity::Output).is_some_and(|output| output.relative_error() < 1e-6));
    /// # Ok::<(), regard_walkthrough::Error>(())
    /// ```
    pub fn relative_error(&self) -> f64 {
        self.max_error / scale(&self.exact)
    }

    /// The largest [`error`](Self::error) that rounding in single precision explains, in this step and all earlier ones.
    /// `None` outside the matrix.
    ///
    /// ```
    /// use regard_walkthrough::{Example, Quantity, Settings, Walkthrough};
    /// let walk = Walkthrough::run(Example::MathOfAttention, &Settings::default())?;
    /// let output = walk.step(Quantity::Output).expect("there is an output");
    /// assert!(output.error(0, 0) <= output.bound(0, 0));
    /// # Ok::<(), regard_walkthrough::Error>(())
    /// ```
    pub fn bound(&self, row: usize, col: usize) -> Option<f64> {
        self.both(row, col).map(|_| self.bounds.get(row, col))
    }

    /// The distance in units of the last place: see [`ulps`]. `None` outside the matrix.
    pub fn ulp(&self, row: usize, col: usize) -> Option<f64> {
        let (x, r) = self.both(row, col)?;
        Some(ulps(x, r, ulp::floor(&self.exact, row)))
    }

    pub(crate) fn operand_name(&self) -> Name {
        Name {
            key: Some(self.key),
            symbol: self.symbol.clone(),
            rows: Arc::from(self.row_labels.as_slice()),
            cols: Arc::from(self.col_labels.as_slice()),
            ..Name::default()
        }
    }

    fn both(&self, row: usize, col: usize) -> Option<(f32, f64)> {
        let (rows, cols) = self.matrix.shape();
        (row < rows && col < cols).then(|| (self.matrix.get(row, col), self.exact.get(row, col)))
    }
}
