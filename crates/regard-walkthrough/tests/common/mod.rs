//! What the tests share.

use regard_walkthrough::StepKey;

/// The key of that text.
pub fn named(text: &str) -> StepKey {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}
