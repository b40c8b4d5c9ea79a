//! The inputs of a walkthrough, which can be changed cell by cell.

mod saved;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use self::saved::Saved;
use crate::examples::{self, HeadCounts, Start, seeded};
use crate::input::{Edit, Input, Sizes};
use crate::role::Role;
use crate::{Error, Example, Matrix, Quantity, Section, StepKey};

/// The initial matrices of an example, and the number of heads. Every step follows from them and the
/// [`Settings`](crate::Settings).
///
/// Q, K and V follow from the tokens and the projection matrices. Their cells can also be typed over. Such a cell keeps
/// its number when the projection changes.
///
/// Numbers are kept as typed, in double precision: the kernels use them rounded, the reference unrounded. A file holds the
/// example and the changes, so it is small and reads back exactly.
///
/// ```
/// use regard_walkthrough::{Example, Inputs, Quantity, Settings, Walkthrough};
/// let mut inputs = Inputs::new(Example::TheCatSat);
/// inputs.set(Quantity::X, 1, 0, 2.5)?; // the first feature of "cat"
/// let walk = Walkthrough::compute(&inputs, &Settings::default())?;
/// assert_eq!(walk.step(Quantity::X).map(|x| x.matrix.get(1, 0)), Some(2.5));
///
/// let saved = serde_json::to_string(&inputs).expect("inputs can be saved");
/// assert_eq!(saved, r#"{"example":"the-cat-sat","heads":1,"edits":[{"matrix":"x","row":1,"col":0,"value":2.5}]}"#);
/// assert_eq!(serde_json::from_str::<Inputs>(&saved).expect("and read back"), inputs);
///
/// inputs.reset();
/// assert_eq!(inputs, Inputs::new(Example::TheCatSat));
/// # Ok::<(), regard_walkthrough::Error>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(try_from = "Saved", into = "Saved")]
pub struct Inputs {
    example: Example,
    sizes: Option<Sizes>,
    tokens: Vec<String>,
    heads: usize,
    /// The matrices of the example.
    given: Arc<[Input]>,
    /// The present matrices. Each is shared with `given` and with clones until it changes, so earlier states for undo are
    /// cheap.
    now: Vec<Arc<Matrix<f64>>>,
    /// The cells of Q, K and V that were typed over: by quantity, row and column.
    typed: BTreeMap<(Quantity, usize, usize), f64>,
}

impl PartialEq for Inputs {
    fn eq(&self, other: &Self) -> bool {
        self.example == other.example
            && self.sizes == other.sizes
            && self.tokens == other.tokens
            && self.heads == other.heads
            && self.typed == other.typed
            && self.now.iter().zip(&other.now).all(|(a, b)| is_same(a, b))
    }
}

/// Whether the numbers are equal. Shared ones are not compared.
fn is_same(a: &Arc<Matrix<f64>>, b: &Arc<Matrix<f64>>) -> bool {
    Arc::ptr_eq(a, b) || a == b
}

impl Inputs {
    /// The largest number of heads.
    pub const MOST_HEADS: usize = 8;
    /// The largest number of the user's own tokens.
    pub const MOST_TOKENS: usize = 64;
    /// The largest number of features of the user's own tokens.
    pub const MOST_D_MODEL: usize = 256;
    /// The largest number of features of a query of one head.
    pub const MOST_D_K: usize = 64;
    /// The largest absolute value that a cell of most examples can hold. Some have a smaller limit, because their steps multiply
    /// more numbers: see [`largest`](Self::largest).
    pub const LARGEST: f64 = examples::LARGEST;

    /// The inputs of an example before any change.
    pub fn new(example: Example) -> Self {
        let sizes = (example == Example::Seeded).then(Sizes::default);
        Self::build(example, example.tokens(), sizes, example.entry().heads)
    }

    /// The user's own tokens and sizes, with 1 to 8 heads of `d_k` features each, and numbers drawn from `seed`. They are the same
    /// on every machine.
    ///
    /// They are the numbers of PyTorch: after `torch.manual_seed(seed)`, X is `torch.randn(tokens, d_model)`, in
    /// which a word that comes again has the row of its first place; then W_Q, W_K and
    /// W_V are `torch.randn(d_model, heads * d_k) / d_model**0.5`, in this order, so that queries and keys also have variance
    /// 1, and W_O is `torch.randn(heads * d_k, d_model) / d_model**0.5`. [`Inputs::python`] writes these lines. Other sizes or
    /// another number of heads draw other numbers.
    ///
    /// # Errors
    /// [`Error::Size`] if there are no tokens or more than [64](Self::MOST_TOKENS), if `d_model` is not 1 to
    /// [256](Self::MOST_D_MODEL), `d_k` not 1 to [64](Self::MOST_D_K) or `heads` not 1 to [8](Self::MOST_HEADS).
    ///
    /// ```
    /// use regard_walkthrough::{Inputs, Quantity};
    /// let tokens = ["to", "be", "or", "not"].map(str::to_owned).to_vec();
    /// let inputs = Inputs::seeded(tokens, 6, 3, 2, 1)?;
    /// assert_eq!(inputs.matrix(Quantity::WQ).map(|w| w.shape()), Some((6, 6))); // d_model × heads·d_k
    /// # Ok::<(), regard_walkthrough::Error>(())
    /// ```
    pub fn seeded(
        tokens: Vec<String>,
        d_model: usize,
        d_k: usize,
        heads: usize,
        seed: u32,
    ) -> Result<Self, Error> {
        let sizes = [
            ("the number of tokens", tokens.len(), Self::MOST_TOKENS),
            ("d_model", d_model, Self::MOST_D_MODEL),
            ("d_k", d_k, Self::MOST_D_K),
            ("the number of heads", heads, Self::MOST_HEADS),
        ];
        for (what, found, most) in sizes {
            if found == 0 || found > most {
                return Err(Error::Size { what, found, least: 1, most });
            }
        }
        Ok(Self::build(Example::Seeded, tokens, Some(Sizes { d_model, d_k, seed }), heads))
    }

    fn build(example: Example, tokens: Vec<String>, sizes: Option<Sizes>, heads: usize) -> Self {
        let entry = example.entry();
        let mut given = match entry.start {
            Start::Given(inputs) => inputs(),
            Start::Drawn(inputs) => inputs(&tokens, sizes.unwrap_or_default(), heads),
        };
        if heads > 1 && given.iter().all(|input| input.key != Quantity::WO.into()) {
            let w_v = given.iter().find(|input| input.key == Quantity::WV.into());
            let n = w_v.map_or(0, |w_v| w_v.values.cols());
            let identity = Matrix::from_fn(n, n, |i, j| f64::from(u8::from(i == j)));
            given.push(Input::given(Quantity::WO, identity));
        }
        let now = given.iter().map(|input| Arc::clone(&input.values)).collect();
        Self { example, sizes, tokens, heads, given: given.into(), now, typed: BTreeMap::new() }
    }

    /// The example.
    pub fn example(&self) -> Example {
        self.example
    }

    /// The tokens. Empty for `why-scale`, whose tokens have no names.
    pub fn tokens(&self) -> &[String] {
        &self.tokens
    }

    /// The sizes and the seed of the user's own tokens. `None` for the other examples.
    pub fn sizes(&self) -> Option<Sizes> {
        self.sizes
    }

    /// The lines of Python that draw the same numbers for the user's own tokens. `None` for the other examples.
    ///
    /// ```
    /// use regard_walkthrough::{Example, Inputs};
    /// let lines = Inputs::new(Example::Seeded).python().expect("it is drawn");
    /// assert!(lines.starts_with("torch.manual_seed(42)\nX = torch.randn(4, 8)\nW_Q = torch.randn(8, 8) / 8**0.5\n"));
    /// assert_eq!(Inputs::new(Example::TheCatSat).python(), None);
    /// ```
    pub fn python(&self) -> Option<String> {
        self.sizes.map(|sizes| seeded::python(self.tokens(), sizes, self.heads()))
    }

    /// The number of heads.
    pub fn heads(&self) -> usize {
        self.heads
    }

    /// The numbers of heads that the example can be computed with.
    ///
    /// ```
    /// use regard_walkthrough::{Example, Inputs};
    /// assert_eq!(Inputs::new(Example::Foundations).possible_heads(), [1, 2, 3, 6]); // they share six columns
    /// assert_eq!(Inputs::new(Example::Seeded).possible_heads().len(), 8);
    /// assert_eq!(Inputs::new(Example::AttentionScores).possible_heads(), [1]);
    /// ```
    pub fn possible_heads(&self) -> Vec<usize> {
        let columns = |key| self.matrix(key).map_or(1, Matrix::cols);
        let (q, v) = (columns(Quantity::WQ), columns(Quantity::WV));
        let possible = |heads: usize| match self.example.entry().possible_heads {
            HeadCounts::Own => heads == self.example.entry().heads,
            HeadCounts::Sharing => q.is_multiple_of(heads) && v.is_multiple_of(heads),
            HeadCounts::Any => true,
        };
        (1..=Self::MOST_HEADS).filter(|heads| possible(*heads)).collect()
    }

    /// Divides the columns of W_Q, W_K and W_V among another number of heads. With the user's own tokens, it adds or removes
    /// heads. Where the example has no W_O, several heads get the identity as W_O, so the output concatenates the heads'
    /// outputs. Changed cells keep their numbers as long as the cells exist.
    ///
    /// # Errors
    /// [`Error::Heads`] if the example does not allow this number.
    pub fn set_heads(&mut self, heads: usize) -> Result<(), Error> {
        let possible = self.possible_heads();
        if !possible.contains(&heads) {
            let possible = possible.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
            return Err(Error::Heads { example: self.example.name(), heads, possible });
        }
        let (edits, tokens) = (self.edits(), core::mem::take(&mut self.tokens));
        *self = Self::build(self.example, tokens, self.sizes, heads);
        for Edit { matrix, row, col, value } in edits {
            // A change of a cell that no longer exists is dropped.
            let _ = self.set(matrix, row, col, value);
        }
        Ok(())
    }

    /// The keys of the editable matrices, in the order in which they are shown.
    pub fn keys(&self) -> impl Iterator<Item = StepKey> {
        self.given.iter().map(|input| input.key)
    }

    /// The keys of the projections `q`, `k` and `v` that can be typed over. There are none in `gradients`: the gradients of X
    /// and of the projection matrices flow through every cell of Q, K and V.
    pub fn projected_keys(&self) -> impl Iterator<Item = StepKey> {
        let is_editable = |role: &Role| self.projected_shape(*role).is_some();
        Role::ALL.into_iter().filter(is_editable).map(|role| role.quantity().into())
    }

    /// The matrix of a key.
    pub fn matrix(&self, key: impl Into<StepKey>) -> Option<&Matrix<f64>> {
        self.input(key).map(|(_, now)| now)
    }

    /// Changes a cell of a matrix, or types over a cell of Q, K or V. Returns its previous number. `None` stands for the
    /// number of the projection.
    ///
    /// # Errors
    /// [`Error::Unknown`] if the example has no such matrix, [`Error::Cell`] if the matrix has no such cell, [`Error::Value`] if
    /// the value is NaN or outside ±[`largest`](Self::largest).
    ///
    /// ```
    /// use regard_walkthrough::{Example, Inputs, Quantity};
    /// let mut inputs = Inputs::new(Example::ILoveRobotics);
    /// assert_eq!(inputs.set(Quantity::X, 0, 1, 7.0), Ok(Some(0.0)));
    /// assert_eq!(inputs.set(Quantity::V, 0, 1, 7.0), Ok(None)); // typed over X·W_V
    /// let error = inputs.set(Quantity::X, 3, 0, 1.0).unwrap_err();
    /// assert_eq!(error.to_string(), "x has 3 rows and 4 columns: there is no cell (3, 0)");
    /// assert!(inputs.set(Quantity::X, 0, 0, f64::NAN).is_err() && inputs.set(Quantity::WO, 0, 0, 1.0).is_err());
    /// ```
    pub fn set(
        &mut self,
        key: impl Into<StepKey>,
        row: usize,
        col: usize,
        value: f64,
    ) -> Result<Option<f64>, Error> {
        let key = key.into();
        let role = self.role(key);
        let of_projection = role.and_then(|role| self.projected_shape(role));
        let Some((rows, cols)) = of_projection.or_else(|| self.matrix(key).map(Matrix::shape))
        else {
            let known = self.keys().chain(self.projected_keys()).map(String::from);
            return Err(Error::unknown("matrix", &key.to_string(), known));
        };
        let largest = self.largest();
        // NaN is outside every range.
        if !(-largest..=largest).contains(&value) {
            return Err(Error::Value { matrix: key, value, largest });
        }
        if row >= rows || col >= cols {
            return Err(Error::Cell { matrix: key, row, col, rows, cols });
        }
        Ok(match role {
            Some(role) => self.typed.insert((role.quantity(), row, col), value),
            None => self.cell(key, row, col).map(|cell| core::mem::replace(cell, value)),
        })
    }

    /// The largest absolute value that a cell of this example can hold. With it, every step of every setting stays finite in
    /// single precision.
    ///
    /// ```
    /// use regard_walkthrough::{Example, Inputs};
    /// assert_eq!(Inputs::new(Example::TheCatSat).largest(), Inputs::LARGEST);
    /// assert_eq!(Inputs::new(Example::Gradients).largest(), 500.0);
    /// ```
    pub fn largest(&self) -> f64 {
        self.example.entry().largest
    }

    /// Restores a cell to its number before any typing.
    pub fn restore(&mut self, key: impl Into<StepKey>, row: usize, col: usize) {
        let key = key.into();
        if let Some(role) = self.role(key) {
            self.typed.remove(&(role.quantity(), row, col));
        } else if let Some(given) = self.given(key, row, col)
            && let Some(cell) = self.cell(key, row, col)
        {
            *cell = given;
        }
    }

    /// Restores all numbers to those of the example or of the seed. The number of heads stays.
    pub fn reset(&mut self) {
        self.typed.clear();
        self.now = self.given.iter().map(|input| Arc::clone(&input.values)).collect();
    }

    /// The number of the example in a cell. `None` if there is no such cell, and for Q, K and V, for
    /// which see [`Step::given`](crate::Step::given).
    pub fn given(&self, key: impl Into<StepKey>, row: usize, col: usize) -> Option<f64> {
        let given = &self.input(key)?.0.values;
        (row < given.rows() && col < given.cols()).then(|| given.get(row, col))
    }

    /// Whether a cell differs from the example, or was typed over.
    pub fn is_edited(&self, key: impl Into<StepKey>, row: usize, col: usize) -> bool {
        let key = key.into();
        let is_typed = |role: Role| self.typed.contains_key(&(role.quantity(), row, col));
        let differs = |given| self.matrix(key).is_some_and(|now| now.get(row, col) != given);
        self.role(key).is_some_and(is_typed) || self.given(key, row, col).is_some_and(differs)
    }

    /// Whether any number differs from the example, or was typed over.
    pub fn is_changed(&self) -> bool {
        !self.typed.is_empty()
            || self.given.iter().zip(&self.now).any(|(given, now)| !is_same(&given.values, now))
    }

    /// The cells that differ from the example, and those of Q, K and V that were typed over.
    pub fn edits(&self) -> Vec<Edit> {
        let mut edits = Vec::new();
        let both = self.given.iter().zip(&self.now);
        for (given, now) in both.filter(|(given, now)| !is_same(&given.values, now)) {
            let cells = given.values.as_slice().iter().zip(now.as_slice()).enumerate();
            for (i, (_, value)) in cells.filter(|(_, (before, now))| before != now) {
                let (row, col) = (i / now.cols(), i % now.cols());
                edits.push(Edit { matrix: given.key, row, col, value: *value });
            }
        }
        let typed = self.typed.iter().map(|((quantity, row, col), value)| Edit {
            matrix: (*quantity).into(),
            row: *row,
            col: *col,
            value: *value,
        });
        edits.extend(typed);
        edits
    }

    /// The matrix of the example, and the present one.
    pub(crate) fn input(&self, key: impl Into<StepKey>) -> Option<(&Input, &Matrix<f64>)> {
        let i = self.position(key.into())?;
        Some((self.given.get(i)?, self.now.get(i)?.as_ref()))
    }

    /// Whether any cell of Q, K or V was typed over.
    pub(crate) fn has_typed_projections(&self) -> bool {
        !self.typed.is_empty()
    }

    /// The cells of Q, K or V that were typed over.
    pub(crate) fn typed(&self, role: Role) -> impl Iterator<Item = ([usize; 2], f64)> {
        let its = self.typed.iter().filter(move |((quantity, ..), _)| *quantity == role.quantity());
        its.map(|((_, row, col), value)| ([*row, *col], *value))
    }

    /// The role that a key stands for, if the tokens are projected to it and its cells can be typed over.
    fn role(&self, key: StepKey) -> Option<Role> {
        let is_main = key.section == Section::Main;
        Role::of(key.quantity).filter(|role| is_main && self.projected_shape(*role).is_some())
    }

    /// The shape of Q, K or V, if the tokens are projected to it and its cells can be typed over.
    pub(crate) fn projected_shape(&self, role: Role) -> Option<(usize, usize)> {
        let is_editable = self.example.entry().projections_are_editable;
        let cols = self.matrix(role.weights()).filter(|_| is_editable)?.cols();
        // In cross-attention, keys and values belong to another text.
        let memory = self.matrix(Quantity::Memory).filter(|_| role != Role::Query);
        Some((memory.map_or(self.tokens.len(), Matrix::rows), cols))
    }

    fn position(&self, key: StepKey) -> Option<usize> {
        self.given.iter().position(|input| input.key == key)
    }

    fn cell(&mut self, key: StepKey, row: usize, col: usize) -> Option<&mut f64> {
        let i = self.position(key)?;
        let matrix = Arc::make_mut(self.now.get_mut(i)?);
        (row < matrix.rows() && col < matrix.cols()).then(|| &mut matrix.row_mut(row)[col])
    }
}

impl From<Example> for Inputs {
    fn from(example: Example) -> Self {
        Self::new(example)
    }
}
