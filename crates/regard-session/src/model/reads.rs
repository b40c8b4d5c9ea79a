//! The kind of input that a model reads.

use regard_models::{Description, OutputHead};

use super::View;

impl View {
    /// The reason why a model has no such view, if it has none.
    pub fn lacks(self, description: &Description) -> Option<&'static str> {
        let reads = Reads::of(description);
        let is_text = matches!(reads, Reads::Text | Reads::TextAndDecoder);
        let has_logits =
            matches!(description.head, OutputHead::Tokens { .. } | OutputHead::Classes { .. });
        let (lacks, reason) = match self {
            Self::Attention => return None,
            Self::Lens | Self::Attribution if !is_text => {
                (true, "It needs a model that reads a text.")
            }
            Self::Lens | Self::Attribution => (
                !has_logits,
                "It needs a model that predicts: this one ends with its hidden states.",
            ),
            Self::Patches => (
                reads != Reads::Text || !description.stack.causal || !has_logits,
                "It needs a model that reads a text and predicts the next token.",
            ),
            Self::Experts => (
                description.stack.experts.is_none(),
                "It needs a mixture of experts, such as qwen3_moe or gpt_oss: this model has none.",
            ),
        };
        lacks.then_some(reason)
    }
}

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

    /// Whether it is read from a file.
    pub fn is_file(self) -> bool {
        matches!(self, Self::Image | Self::Recording)
    }
}
