//! Attention over any number of tokens, with a knob for each of its inputs.
//!
//! [`LaboratoryState`] holds the choices of the user, and an [`Engine`] computes the results.

mod curves;
mod engine;
mod files;
mod state;
mod tokens;

pub use self::curves::{ByDimMemo, Curves, WITH, WITHOUT, plot, row};
pub use self::engine::{Engine, LaboratoryOutcome};
pub use self::files::{Error, TokenFile, name};
pub use self::state::{
    Brush, LEAST_CAP, LaboratoryInputs, LaboratoryMatrix, LaboratoryRequest, LaboratoryState,
    MOST_DIM, MOST_SINK, MOST_SMOOTH, MOST_TOKENS, Square, TokenSource,
};
