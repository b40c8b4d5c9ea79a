#![forbid(unsafe_code)]
//! The attention of real models: files of maps, one for each layer and head, and what can be said of each.
//!
//! [`AttentionMaps::open`] reads a file, [`Survey::new`] measures each head and draws it small, and
//! [`AttentionMaps::part`] has the matrix of a head, a mean or attention rollout. `docs/attention-files.md` describes the files.
//! [`QueriesAndKeys::open`] reads what attention is computed from.

mod combine;
mod error;
mod figure;
mod maps;
mod measure;
mod pool;
mod queries_and_keys;
mod select;
mod source;
mod survey;
mod token;
mod tokens;
mod values;

use core::ops::ControlFlow;

pub use self::combine::{Over, Part};
pub use self::error::{Error, Warning};
pub use self::figure::palette;
pub use self::maps::{AttentionMaps, HeadId, Shape};
pub use self::measure::{Measure, Measures};
pub use self::queries_and_keys::QueriesAndKeys;
pub use self::survey::Survey;
pub use self::token::readable;

/// Is told from time to time what part of the work is done, from 0 to 1, from any thread; and can end it, with
/// [`Error::Cancelled`].
pub type Progress<'a> = dyn Fn(f32) -> ControlFlow<()> + Sync + 'a;

/// No one looks, and no one cancels.
pub fn unattended(_part: f32) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// Tells `progress`, as a step that may fail.
fn tell(progress: &Progress<'_>, done: usize, all: usize) -> Result<(), Error> {
    match progress(done as f32 / all.max(1) as f32) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(Error::Cancelled),
    }
}
