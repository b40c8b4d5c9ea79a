//! The models that come with the program.

use std::path::Path;

use regard_models::{Checkpoint, Error};
pub(crate) use regard_ui::model::BUNDLED as NAMES;

/// The bundled model of this name, if there is one.
pub(crate) fn checkpoint(name: &Path) -> Option<Result<Checkpoint, Error>> {
    regard_ui::model::bundled(name.to_str()?)
}

/// Whether a bundled model has this name.
pub(crate) fn is_name(name: &Path) -> bool {
    NAMES.iter().any(|known| name == Path::new(known))
}
