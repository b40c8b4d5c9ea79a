//! The model that comes with the program.

use regard_models::{Checkpoint, Error};

/// What the model is called on the command line.
pub(crate) const NAME: &str = "story";

/// The model's files, which are part of the program.
pub(crate) fn checkpoint() -> Result<Checkpoint, Error> {
    Checkpoint::from_files(NAME, regard_story::FILES)
}
