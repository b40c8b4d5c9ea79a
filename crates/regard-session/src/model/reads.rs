//! The kind of input that a model reads.

use regard_models::Description;

use super::View;

/// The kind of input that a model reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reads {
    /// A text.
    Text,
    /// A text, and the text that the decoder has written so far.
    TextAndDecoder,
    /// An image.
    Image,
    /// A recording, and the text that the decoder has written so far.
    Recording,
}

impl Reads {
    /// What a model of this description reads.
    pub fn of(description: &Description) -> Self {
        if description.embedding.patches.is_some() {
            Self::Image
        } else if description.embedding.frames.is_some() {
            Self::Recording
        } else if description.encoder.is_some() {
            Self::TextAndDecoder
        } else {
            Self::Text
        }
    }

    /// Whether the model has a decoder, which writes a text of its own.
    pub fn decodes(self) -> bool {
        matches!(self, Self::TextAndDecoder | Self::Recording)
    }

    /// Whether the room has this view of such a model. A model that reads an image has no logits of tokens, and a second text or
    /// experts belong to models that read one text.
    pub fn has(self, view: View, has_experts: bool) -> bool {
        match view {
            View::Attention => true,
            View::Lens | View::Attribution => matches!(self, Self::Text | Self::TextAndDecoder),
            View::Patches => self == Self::Text,
            View::Experts => self == Self::Text && has_experts,
        }
    }

    /// Whether it is read from a file.
    pub fn is_file(self) -> bool {
        matches!(self, Self::Image | Self::Recording)
    }
}
