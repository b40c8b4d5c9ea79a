//! What a walkthrough is computed from, to be changed cell by cell.

mod projected;
mod saved;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use self::saved::Saved;
use crate::examples::seeded;
use crate::{Error, Example, Matrix};

/// A matrix that is given, before anyone changed it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Input {
    /// The key of the step that shows it.
    pub key: &'static str,
    pub values: Arc<Matrix<f64>>,
    /// The generator, where it was drawn, such as "PyTorch, seed 42".
    pub drawn: Option<String>,
}

impl Input {
    pub fn given(key: &'static str, values: Matrix<f64>) -> Self {
        Self { key, values: Arc::new(values), drawn: None }
    }

    pub fn drawn(key: &'static str, values: Matrix<f64>, generator: &str) -> Self {
        Self { key, values: Arc::new(values), drawn: Some(generator.to_owned()) }
    }
}

/// The sizes of an example of one's own, and the seed of its numbers. How they are drawn is on [`Inputs::seeded`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sizes {
    /// The numbers of a token.
    pub d_model: usize,
    /// The numbers of a query, key or value of one head.
    pub d_k: usize,
    /// The seed.
    pub seed: u32,
}

impl Default for Sizes {
    fn default() -> Self {
        Self { d_model: 8, d_k: 4, seed: 42 }
    }
}

/// A cell that was changed, and to what.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Edit {
    /// The key of the matrix: `x`, `w_q`, `q`, …
    pub matrix: String,
    /// Its row.
    pub row: usize,
    /// Its column.
    pub col: usize,
    /// The number as typed.
    pub value: f64,
}

/// The matrices that an example begins with, and the number of heads. Every step follows from them and the
/// [`Settings`](crate::Settings).
///
/// Q, K and V follow from X and the weights; cells of them can be typed over all the same, and hold what was typed whatever
/// they are projected from.
///
/// Numbers are kept as typed, in double precision: the kernels see them rounded, the reference as they are. Saved are the
/// example and what was changed, so a file is small and comes back exactly.
///
/// ```
/// use regard_walkthrough::{Example, Inputs, Settings, Walkthrough};
/// let mut inputs = Inputs::new(Example::TheCatSat);
/// inputs.set("x", 1, 0, 2.5)?; // "cat" begins with 2.5
/// let walk = Walkthrough::compute(&inputs, &Settings::default())?;
/// assert_eq!(walk.step("x").map(|x| x.matrix.get(1, 0)), Some(2.5));
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
    tokens: Vec<String>,
    sizes: Option<Sizes>,
    heads: usize,
    /// Follows from all of the above.
    given: Arc<[Input]>,
    /// Shared with `given` and with clones until one of them changes: keeping what was, to undo to it, costs little.
    values: Vec<Arc<Matrix<f64>>>,
    /// The cells of Q, K and V that were typed over: by key, row and column.
    typed: BTreeMap<(&'static str, usize, usize), f64>,
}

impl PartialEq for Inputs {
    fn eq(&self, other: &Self) -> bool {
        let of = |inputs: &Self| (inputs.example, inputs.sizes, inputs.heads);
        of(self) == of(other)
            && self.tokens == other.tokens
            && self.typed == other.typed
            && self.values.iter().zip(&other.values).all(|(a, b)| is_same(a, b))
    }
}

/// Whether the numbers are the same. Shared ones are not looked at.
fn is_same(a: &Arc<Matrix<f64>>, b: &Arc<Matrix<f64>>) -> bool {
    Arc::ptr_eq(a, b) || a == b
}

impl Inputs {
    /// The most heads.
    pub const MOST_HEADS: usize = 8;
    /// The most tokens of one's own.
    pub const MOST_TOKENS: usize = 64;
    /// The most numbers of a token of one's own.
    pub const MOST_D_MODEL: usize = 256;
    /// The most numbers of a query of one head.
    pub const MOST_D_K: usize = 64;
    /// The largest number a cell can hold, and the smallest without its sign: all products and sums on the way stay finite.
    pub const LARGEST: f64 = 1e6;

    /// What an example begins with.
    pub fn new(example: Example) -> Self {
        let sizes = (example == Example::Seeded).then(Sizes::default);
        Self::build(example, example.tokens(), sizes, example.heads())
    }

    /// Tokens and sizes of one's own, of 1 to 8 heads of `d_k` numbers each, and numbers that are drawn from `seed`, the same
    /// on every machine.
    ///
    /// They are those of PyTorch: after `torch.manual_seed(seed)`, X is `torch.randn(tokens, d_model)`; then W_Q, W_K and W_V are
    /// `torch.randn(d_model, heads * d_k) / d_model**0.5`, in this order, so that queries and keys have variance 1 too, and W_O
    /// is `torch.randn(heads * d_k, d_model) / d_model**0.5`. [`Inputs::python`] writes these lines. With other sizes or
    /// another number of heads, other numbers are drawn.
    ///
    /// # Errors
    /// [`Error::Size`] if there are no tokens or more than [64](Self::MOST_TOKENS), if `d_model` is not 1 to
    /// [256](Self::MOST_D_MODEL), `d_k` not 1 to [64](Self::MOST_D_K) or `heads` not 1 to [8](Self::MOST_HEADS).
    ///
    /// ```
    /// use regard_walkthrough::Inputs;
    /// let tokens = ["to", "be", "or", "not"].map(str::to_owned).to_vec();
    /// let inputs = Inputs::seeded(tokens, 6, 3, 2, 1)?;
    /// assert_eq!(inputs.matrix("w_q").map(|w| w.shape()), Some((6, 6))); // d_model × heads·d_k
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
        let given: Arc<[Input]> = example.given(tokens.len(), sizes, heads).into();
        let values = given.iter().map(|i| Arc::clone(&i.values)).collect();
        Self { example, tokens, sizes, heads, given, values, typed: BTreeMap::new() }
    }

    /// The example.
    pub fn example(&self) -> Example {
        self.example
    }

    /// The tokens. Those of `why-scale` have no names, and there are none.
    pub fn tokens(&self) -> &[String] {
        &self.tokens
    }

    /// The sizes and the seed, if the tokens are one's own.
    pub fn sizes(&self) -> Option<Sizes> {
        self.sizes
    }

    /// The lines of Python that draw the same numbers, if the tokens are one's own.
    ///
    /// ```
    /// use regard_walkthrough::{Example, Inputs};
    /// let lines = Inputs::new(Example::Seeded).python().expect("it is drawn");
    /// assert!(lines.starts_with("torch.manual_seed(42)\nX = torch.randn(4, 8)\nW_Q = torch.randn(8, 8) / 8**0.5\n"));
    /// assert_eq!(Inputs::new(Example::TheCatSat).python(), None);
    /// ```
    pub fn python(&self) -> Option<String> {
        self.sizes.map(|sizes| seeded::python(self.tokens.len(), sizes, self.heads))
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
        let (q, v) = (columns("w_q"), columns("w_v"));
        let possible = |heads: usize| match self.example {
            Example::Seeded => true,
            Example::Positions | Example::Gradients => heads == 1,
            _ => q.is_multiple_of(heads) && v.is_multiple_of(heads),
        };
        (1..=Self::MOST_HEADS).filter(|heads| possible(*heads)).collect()
    }

    /// Shares out the columns of W_Q, W_K and W_V among another number of heads; with one's own tokens, adds or takes away
    /// heads. Where the example has no W_O, several heads get the identity, so that the output is what they found. Changed cells
    /// stay, as far as there are such cells.
    ///
    /// # Errors
    /// [`Error::Heads`] if the example cannot have so many.
    pub fn set_heads(&mut self, heads: usize) -> Result<(), Error> {
        let possible = self.possible_heads();
        if !possible.contains(&heads) {
            let possible = possible.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
            return Err(Error::Heads { example: self.example.name(), heads, possible });
        }
        let edits = self.edits();
        *self = Self::build(self.example, core::mem::take(&mut self.tokens), self.sizes, heads);
        for Edit { matrix, row, col, value } in edits {
            // Where there is no such cell any more, there is nothing to change.
            let _ = self.set(&matrix, row, col, value);
        }
        Ok(())
    }

    /// The keys of the matrices, in the order in which they are shown. A step with such a key can be typed over.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.given.iter().map(|i| i.key)
    }

    /// A matrix by its key.
    pub fn matrix(&self, key: &str) -> Option<&Matrix<f64>> {
        self.values.get(self.position(key)?).map(AsRef::as_ref)
    }

    /// Changes a cell of a matrix, or types over one of Q, K and V. Returns what was there before; `None` is what the
    /// projection gives.
    ///
    /// # Errors
    /// [`Error::Unknown`] if there is no such matrix, [`Error::Cell`] if it has no such cell, [`Error::Value`] if the number is
    /// none or beyond ±10⁶.
    ///
    /// ```
    /// use regard_walkthrough::{Example, Inputs};
    /// let mut inputs = Inputs::new(Example::ILoveRobotics);
    /// assert_eq!(inputs.set("x", 0, 1, 7.0), Ok(Some(0.0)));
    /// assert_eq!(inputs.set("v", 0, 1, 7.0), Ok(None)); // of X·W_V, one number is another
    /// let error = inputs.set("x", 3, 0, 1.0).unwrap_err();
    /// assert_eq!(error.to_string(), "x has 3 rows and 4 columns: there is no cell (3, 0)");
    /// assert!(inputs.set("x", 0, 0, f64::NAN).is_err() && inputs.set("w_o", 0, 0, 1.0).is_err());
    /// ```
    pub fn set(
        &mut self,
        key: &str,
        row: usize,
        col: usize,
        value: f64,
    ) -> Result<Option<f64>, Error> {
        let role = self.role(key);
        let shape = role
            .map_or_else(|| self.matrix(key).map(Matrix::shape), |role| self.projected_shape(role));
        let Some((rows, cols)) = shape else {
            let known = self.given.iter().map(|i| i.key).chain(self.projected_keys());
            return Err(Error::unknown("matrix", key, known));
        };
        // NaN is not in the range.
        if !(-Self::LARGEST..=Self::LARGEST).contains(&value) {
            return Err(Error::Value { matrix: key.to_owned(), value });
        }
        if row >= rows || col >= cols {
            return Err(Error::Cell { matrix: key.to_owned(), row, col, rows, cols });
        }
        Ok(match role {
            Some(role) => self.typed.insert((role.key(), row, col), value),
            None => self.cell(key, row, col).map(|cell| core::mem::replace(cell, value)),
        })
    }

    /// Takes back what was typed into a cell, if anything was.
    pub fn restore(&mut self, key: &str, row: usize, col: usize) {
        if let Some(role) = self.role(key) {
            self.typed.remove(&(role.key(), row, col));
        } else if let Some(given) = self.given(key, row, col)
            && let Some(cell) = self.cell(key, row, col)
        {
            *cell = given;
        }
    }

    /// All numbers as the example has them, or as the seed gave them, and Q, K and V as they are projected. The number of heads
    /// stays.
    pub fn reset(&mut self) {
        self.typed.clear();
        self.values = self.given.iter().map(|i| Arc::clone(&i.values)).collect();
    }

    /// One number as the example has it. `None` if there is no such cell; of Q, K and V, [`Step::given`](crate::Step::given)
    /// knows.
    pub fn given(&self, key: &str, row: usize, col: usize) -> Option<f64> {
        let given = &self.given.get(self.position(key)?)?.values;
        (row < given.rows() && col < given.cols()).then(|| given.get(row, col))
    }

    /// Whether a cell differs from what the example has, or was typed over.
    pub fn is_edited(&self, key: &str, row: usize, col: usize) -> bool {
        let typed =
            self.role(key).is_some_and(|role| self.typed.contains_key(&(role.key(), row, col)));
        typed
            || self
                .given(key, row, col)
                .is_some_and(|given| self.matrix(key).is_some_and(|m| m.get(row, col) != given))
    }

    /// Whether a number differs from what the example has, or was typed over.
    pub fn is_changed(&self) -> bool {
        !self.typed.is_empty()
            || self.given.iter().zip(&self.values).any(|(given, now)| !is_same(&given.values, now))
    }

    /// The cells that differ from what the example has, and those of Q, K and V that were typed over.
    pub fn edits(&self) -> Vec<Edit> {
        let mut edits = Vec::new();
        for (given, now) in
            self.given.iter().zip(&self.values).filter(|(given, now)| !is_same(&given.values, now))
        {
            let cells = given.values.as_slice().iter().zip(now.as_slice()).enumerate();
            for (i, (_, value)) in cells.filter(|(_, (before, now))| before != now) {
                let (row, col) = (i / now.cols(), i % now.cols());
                edits.push(Edit { matrix: given.key.to_owned(), row, col, value: *value });
            }
        }
        let typed = self
            .typed
            .iter()
            .map(|((key, row, col), value)| ((*key).to_owned(), *row, *col, *value));
        edits.extend(typed.map(|(matrix, row, col, value)| Edit { matrix, row, col, value }));
        edits
    }

    pub(crate) fn input(&self, key: &str) -> Option<(&Input, &Matrix<f64>)> {
        let i = self.position(key)?;
        Some((self.given.get(i)?, self.values.get(i)?.as_ref()))
    }

    fn position(&self, key: &str) -> Option<usize> {
        self.given.iter().position(|i| i.key == key)
    }

    fn cell(&mut self, key: &str, row: usize, col: usize) -> Option<&mut f64> {
        let i = self.position(key)?;
        let matrix = Arc::make_mut(self.values.get_mut(i)?);
        (row < matrix.rows() && col < matrix.cols()).then(|| &mut matrix.row_mut(row)[col])
    }
}

impl From<Example> for Inputs {
    fn from(example: Example) -> Self {
        Self::new(example)
    }
}
