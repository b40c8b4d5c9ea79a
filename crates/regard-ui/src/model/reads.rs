//! The kind of input that a model reads.

use regard_models::Description;

/// The kind of input that a model reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reads {
    /// A text.
    Text,
    /// A text, and the text that the decoder has written so far.
    TextAndDecoder,
    /// An image.
    Image,
}

impl Reads {
    pub(crate) fn of(description: &Description) -> Self {
        if description.embedding.patches.is_some() {
            Self::Image
        } else if description.encoder.is_some() {
            Self::TextAndDecoder
        } else {
            Self::Text
        }
    }
}
