#![forbid(unsafe_code)]
//! The attention of real models: files with a matrix of weights for each layer and head, and measures of these matrices.
//!
//! [`AttentionMaps::open`] reads a file, [`Survey::new`] measures each head and makes its thumbnail, and
//! [`AttentionMaps::part`] computes the matrix of a head, of a mean or of attention rollout. `docs/attention-files.md`
//! describes the files. [`QueriesAndKeys::open`] reads the tensors that attention is computed from.

mod combine;
mod error;
mod figure;
mod maps;
mod measure;
mod numbers;
pub mod packed;
mod pool;
mod queries_and_keys;
mod select;
mod source;
mod survey;
mod token;
mod tokens;
mod values;

use core::ops::ControlFlow;

pub use regard_figure; // its labels, figures and palettes are in signatures
pub use regard_kernels::Error as KernelError;

pub use self::combine::MapPart;
pub use self::error::{DefectiveRows, Error, Warning};
pub use self::figure::{ColorScale, palette};
pub use self::maps::{AttentionMaps, AttentionShape, HeadId};
pub use self::measure::{Measure, Measures};
pub use self::numbers::FileNumbers;
pub use self::queries_and_keys::QueriesAndKeys;
pub use self::source::{Opener, Stream, from_disk};
pub use self::survey::Survey;
pub use self::token::readable;
pub use self::values::masked_scores;

/// A function that any thread calls with the share of the work that is done, from 0 to 1. If it returns `Break`, the
/// work ends with [`Error::Cancelled`].
pub type Progress<'a> = dyn Fn(f32) -> ControlFlow<()> + Sync + 'a;

/// The progress function of work that nobody watches or cancels.
pub fn unattended(_part: f32) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// Reports the share done / all. Fails if the work is cancelled.
fn tell(progress: &Progress<'_>, done: usize, all: usize) -> Result<(), Error> {
    match progress(done as f32 / all.max(1) as f32) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(Error::Cancelled),
    }
}
