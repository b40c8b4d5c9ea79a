//! What is asked of a model's runs: what each change does to a logit (sweep, each, measure), what each part adds to it
//! (attribution), and how a score comes about (score).

mod attribution;
mod each;
mod measure;
mod score;
mod sweep;

pub use self::attribution::{Attribution, LayerAttribution};
pub use self::each::{Each, HeadInput, SweepCell};
pub use self::measure::MeasuredLogit;
pub use self::score::{Rounded, Score, WhyHidden};
pub use self::sweep::Logits;
