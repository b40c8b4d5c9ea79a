//! Transformers from the files that people have: Hugging Face folders and GGUF files.
//!
//! [`Checkpoint`] lists a model's tensors without reading them, and reads each one in the type that the file stores.
#![forbid(unsafe_code)]

mod blocks;
mod change;
mod config;
mod description;
mod error;
mod forward;
mod model;
mod read;
mod tensor;
mod tokenizer;
mod weights;

pub use self::change::{Ablation, Change, HeadAddress, Which};
pub use self::description::{
    Activation, Block, Description, Embedding, Head, LearnedPositions, Norm, NormKind, Patches,
    Placement, RelativeBias, RopeScaling, Rotary, Stack,
};
pub use self::error::Error;
pub use self::forward::{Input, TRANSFORMERS, Trace, Values};
pub use self::model::{Baseline, Model, Pass};
pub use self::read::Checkpoint;
pub use self::tensor::{Format, Tensor};
pub use self::tokenizer::Tokenizer;
