use crate::Matrix;

/// What the numbers of a step are: how a view should colour them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Any sign: a diverging map, centred at 0.
    Signed,
    /// Weights of 0 to 1, each row a distribution: a sequential map from 0 to 1.
    Weights,
    /// Rows of different measures: shown as a table, not as colours.
    Table,
}

/// One step of a walkthrough: a matrix on the way, with what a learner needs to read it.
#[derive(Clone, Debug)]
pub struct Step {
    /// The key in JSON, unique within the walkthrough: `x`, `w_q`, `raw_scores`, `head_1.weights` …
    pub key: String,
    /// The name in words, with the symbol: "Queries Q".
    pub name: String,
    /// The formula: "Q = X·W_Q". Empty for what is given.
    pub formula: String,
    /// What it means, in one plain sentence.
    pub meaning: String,
    /// The numbers, as the kernels computed them.
    pub matrix: Matrix,
    /// How to colour them.
    pub kind: Kind,
    /// What the rows are: tokens, dimensions ("d0"), …
    pub row_labels: Vec<String>,
    /// What the columns are.
    pub col_labels: Vec<String>,
    /// The largest distance of an element from the f64 reference (absolute).
    pub max_error: f64,
    /// Where a notebook printed another number: what it printed, and what is right.
    pub correction: Option<String>,
    /// How each cell came to be, for [`Step::explain`].
    pub(crate) origin: Origin,
}

/// How a step's numbers come from earlier ones.
#[derive(Clone, Debug)]
pub(crate) enum Origin {
    /// Typed in.
    Given,
    /// Drawn by a generator, described as in "PyTorch, seed 42".
    Drawn(String),
    /// left · right: element (i, j) = Σₜ left\[i\]\[t\]·right\[t\]\[j\].
    Product { left: Matrix, right: Matrix },
    /// left · rightᵀ: element (i, j) = Σₜ left\[i\]\[t\]·right\[j\]\[t\].
    ProductTransposed { left: Matrix, right: Matrix },
    /// from / divisor, which is spelled as in "√3".
    Scaled { from: Matrix, divisor: String },
    /// −∞ where a token may not be seen, elsewhere as it was.
    Masked,
    /// Softmax of each row of `from` at a temperature; −∞ is hidden.
    Softmax { from: Matrix, temperature: f32 },
    /// The scores stand in for the weights; −∞ is hidden.
    Unweighed { from: Matrix },
    /// Another matrix as it is, named as in "X".
    Copied(&'static str),
    /// Spelled out already: for steps of one number.
    Spelled(String),
    /// What each column holds: a measure, or a column of another matrix.
    Columns(Vec<String>),
}
