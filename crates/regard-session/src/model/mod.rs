//! A model that reads a text and that can be changed, or a file of attention, a model that does not run.
//!
//! [`ModelState`] holds the choices of the user. The model runs first unchanged, then with the changes, then over the second text.

mod drawing;
mod input;
mod next;
mod open;
mod reads;
mod record;
mod request;
mod run;
mod state;
mod weighted;

pub use self::drawing::{Drawing, blank, size_for};
pub use self::input::Pixels;
pub use self::next::{Next, Predicts, percent};
pub use self::open::{Loaded, digits, not_opened, short};
pub use self::reads::Reads;
pub use self::record::Record;
pub use self::request::Request;
pub use self::run::{Changed, Difference, Outcome, Pair, Second, Unchanged, grid, matrix};
pub use self::state::{Listed, ModelState, PatchedPart, Version, View, Written};
pub use self::weighted::weighted;
