//! The models that come with the program.

use std::path::Path;

use regard_bundled::NAMES;
use regard_models::{Checkpoint, Error};

/// The bundled model of this name, if there is one.
pub(crate) fn checkpoint(name: &Path) -> Option<Result<Checkpoint, Error>> {
    regard_bundled::checkpoint(name.to_str()?)
}

/// Whether a bundled model has this name.
pub(crate) fn is_name(name: &Path) -> bool {
    NAMES.iter().any(|known| name == Path::new(known))
}
