//! The fourth room: a model that reads a text while it is typed, and that is changed while it reads.
//!
//! [`State`] holds the choices of the user. A thread opens the model, another runs it: first unchanged, then with the changes.
//! The views of a run are those of the heads room.

mod changes;
mod latest;
mod lens;
mod next;
mod note;
mod open;
mod room;
mod run;
mod state;
mod strip;
mod sweep;
mod unfold;

pub use self::next::Next;
pub(crate) use self::next::percent;
pub use self::open::{STORY, story};
pub use self::room::ModelRoom;
pub use self::run::{Outcome, Request, matrix};
pub use self::state::{Listed, State, Version};
