use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{Matrix, StepKey};

/// An initial matrix of an example.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Input {
    /// The key of the step that shows it.
    pub key: StepKey,
    pub values: Arc<Matrix<f64>>,
    /// The generator that drew it, such as "PyTorch, seed 42".
    pub drawn: Option<String>,
}

impl Input {
    pub fn given(key: impl Into<StepKey>, values: Matrix<f64>) -> Self {
        Self { key: key.into(), values: Arc::new(values), drawn: None }
    }

    pub fn drawn(key: impl Into<StepKey>, values: Matrix<f64>, generator: &str) -> Self {
        Self { drawn: Some(generator.to_owned()), ..Self::given(key, values) }
    }
}

/// The sizes and the seed of the user's own tokens. [`Inputs::seeded`](crate::Inputs::seeded) tells how they are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sizes {
    /// The features of a token.
    pub d_model: usize,
    /// The features of a query, key or value of one head.
    pub d_k: usize,
    /// The seed.
    pub seed: u32,
}

impl Default for Sizes {
    fn default() -> Self {
        Self { d_model: 8, d_k: 4, seed: 42 }
    }
}

/// A cell that was changed, and its new number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Edit {
    /// The matrix: `x`, `w_q`, `q`, …
    pub matrix: StepKey,
    /// Its row.
    pub row: usize,
    /// Its column.
    pub col: usize,
    /// The number as typed.
    pub value: f64,
}
