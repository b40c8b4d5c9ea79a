//! Parts of pages that several rooms can show.

mod bars;
mod motion;
mod ribbons;

pub(crate) use self::bars::{Bar, Bars};
pub(crate) use self::motion::{Motion, progress};
pub(crate) use self::ribbons::{Ribbons, arrow};
