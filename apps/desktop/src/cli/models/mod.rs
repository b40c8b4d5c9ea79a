//! The options that the commands of models share: the model, its input and its changes.

pub(crate) mod changes;
pub(crate) mod input;
pub(super) mod numbers;
pub(crate) mod open;
mod progress;
pub(crate) mod run;

use anyhow::anyhow;
use regard_heads::readable;
use regard_models::{Checkpoint, Error};

pub(crate) use self::progress::{working, working_on};
pub(crate) use self::run::Run;

/// The error for a model that ends with its last layer, such as one that embeds sentences.
pub(crate) const NO_LOGITS: &str = "the model's files have no layer that predicts a token or a class, so there are no logits; \
    regard trace writes its attention and its hidden states";

/// An error of a model's run. If logits are NaN, it names the tensor at fault, if there is one.
pub(crate) fn explained(error: Error, checkpoint: &Checkpoint) -> anyhow::Error {
    let fault = match error {
        Error::Nan { .. } => checkpoint.not_finite().ok().flatten(),
        _ => None,
    };
    match fault {
        Some(fault) => anyhow!("{error}: {fault}"),
        None => error.into(),
    }
}

/// Tokens in a readable form, such as `␣cat`.
pub(crate) fn shown(tokens: &[String]) -> Vec<String> {
    readable(tokens.to_vec()).into_iter().map(|label| label.text).collect()
}
