//! Parts of pages that several rooms can show.

mod motion;

pub(crate) use self::motion::{Motion, progress};
