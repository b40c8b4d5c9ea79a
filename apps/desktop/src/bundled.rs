//! The model that comes with the program.

use anyhow::Result;
use regard_models::Checkpoint;

/// What the model is called on the command line.
pub(crate) const NAME: &str = "story";

/// The model's files.
pub(crate) fn checkpoint() -> Result<Checkpoint> {
    anyhow::bail!("the model {NAME} is not part of this build")
}
