//! Statistics of the samples of one implementation.

use serde::{Deserialize, Serialize};

/// The time of a call.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Timing {
    /// Seconds, the median of all samples.
    pub(crate) median: f64,
    /// The distance between the quartiles, as a share of the median.
    pub(crate) spread: f64,
}

impl Timing {
    /// Computes the statistics from the seconds of each sample, of which there is at least one.
    pub(crate) fn of(mut seconds: Vec<f64>) -> Self {
        seconds.sort_by(f64::total_cmp);
        let at = |share: f64| seconds[((seconds.len() - 1) as f64 * share).round() as usize];
        Self { median: at(0.5), spread: (at(0.75) - at(0.25)) / at(0.5) }
    }
}
