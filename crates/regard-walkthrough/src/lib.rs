#![forbid(unsafe_code)]
//! Attention, step by step, as data: every intermediate matrix, with its name, its formula, its meaning in one plain
//! sentence, and the distance of its numbers from the same computation in double precision.
//!
//! The numbers are those of the kernels in [`regard_kernels`]. Plain loops compute a reference in `f64` beside them. A window, a
//! terminal or a test decides what to show.
//!
//! ```
//! use regard_walkthrough::{Example, Quantity, Settings, Walkthrough};
//! let walk = Walkthrough::run(Example::ILoveRobotics, &Settings::default())?;
//! let scores = walk.step(Quantity::RawScores).expect("this example has scores");
//! // The query of "love" and the key of "I":
//! assert_eq!(scores.explain(1, 0).as_deref(), Some("1·2 + 1·1 + 1·1 = 4"));
//! # Ok::<(), regard_walkthrough::Error>(())
//! ```
//!
//! The inputs of an example can be changed cell by cell, and all steps follow: see [`Inputs`].

mod attend;
mod bound;
mod broken;
mod check;
mod curve;
mod effective;
mod embed;
mod error;
mod examples;
mod exercise;
mod expr;
mod formula;
mod heads;
mod input;
mod inputs;
mod json;
mod key;
mod layers;
mod matrix;
mod number;
mod origin;
mod pair;
mod project;
pub mod random;
mod reference;
mod role;
mod select;
mod settings;
mod short;
mod step;
mod trace;
mod ulp;
mod walkthrough;

pub use regard::{Error as LayerError, KernelError, Temperature};
pub use serde_json;

pub use self::check::Check;
pub use self::curve::softmax_curve;
pub use self::effective::Effective;
pub use self::error::Error;
pub use self::examples::why_scale::{Statistics, WhyScale, softmax_gradient_norm, why_scale};
pub use self::examples::{Example, Group};
pub use self::exercise::{Answers, Exercise};
pub use self::expr::{Arithmetic, Expr, Operand, StepCell};
pub use self::formula::{FormulaPart, Script, formula_parts};
pub use self::input::{Edit, Sizes};
pub use self::inputs::Inputs;
pub use self::key::{Quantity, Section, StepKey, UnknownKey};
pub use self::matrix::Matrix;
pub use self::select::{Marks, Selection};
pub use self::settings::{Settings, Without};
pub use self::step::{Kind, RowRole, Step};
pub use self::ulp::ulps;
pub use self::walkthrough::Walkthrough;

/// The example of the crate's page.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
