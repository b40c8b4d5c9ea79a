//! The third room: a model that reads a text during typing, and that can be changed; or a file of attention, a model that does not
//! run.
//!
//! [`ModelState`] holds the choices of the user. A thread opens the model, and another runs it: first unchanged, then with the
//! changes, then over the second text. The heads of a run and of a file are shown alike ([`heads`](crate::heads)). A file
//! has no views that need a run.

mod attribution;
mod cached;
mod center;
mod changes;
mod chart;
mod compare;
mod exchange;
mod experts;
mod lens;
mod list;
mod next;
mod note;
mod open;
mod opener;
mod overlay;
mod pad;
mod patch;
mod patches;
mod room;
mod run;
mod sentence;
mod strip;
mod sweep;
mod unfold;
mod weighted;
mod write;

pub use self::room::ModelRoom;
pub use regard_session::model::{
    Drawing, Listed, ModelState, Outcome, PatchedPart, Record, Request, Version, View, Written,
};
use regard_session::model::{Loaded, Reads, Unchanged};
pub(crate) use regard_session::model::{Next, Predicts, percent};

pub(crate) use self::attribution::Attribute;
pub(crate) use self::experts::Route;
pub(crate) use self::lens::Predict;
pub(crate) use self::note::change;
pub(crate) use self::open::Open;
pub(crate) use self::patches::PatchEach;
pub(crate) use self::run::Run;
pub(crate) use self::sweep::Sweep;
pub(crate) use self::unfold::Unfold;
pub(crate) use self::weighted::Weigh;
