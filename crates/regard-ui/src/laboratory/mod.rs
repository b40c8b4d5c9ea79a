//! The second room: attention over any number of tokens, with a knob for each of its inputs.
//!
//! [`LaboratoryState`] holds the choices of the user. An `Engine` computes the results in the background, so that the window never
//! waits. The room shows the last result until the next arrives.

mod benchmark;
mod compute;
mod controls;
mod curves;
mod room;

pub(crate) use self::benchmark::MeasureSpeed;
pub(crate) use self::compute::{Compute, Pictured};
pub(crate) use self::room::LaboratoryRoom;
pub(crate) use regard_session::laboratory::{
    Brush, LaboratoryInputs, LaboratoryMatrix, LaboratoryOutcome, LaboratoryRequest,
    LaboratoryState, Square, TokenFile, TokenSource,
};
