//! The rooms of the window.

use serde::{Deserialize, Serialize};

/// A room of the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Room {
    /// A model that reads a sentence and that can be changed, or the attention of one.
    #[serde(alias = "model")]
    Stage,
    /// The worked examples.
    #[default]
    Walkthrough,
    /// Attention of any size, for experiments.
    Laboratory,
}

impl Room {
    /// All rooms, in the order of their tabs.
    pub const ALL: [Self; 3] = [Self::Stage, Self::Walkthrough, Self::Laboratory];

    /// The name on the tab.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stage => "Stage",
            Self::Walkthrough => "Walkthrough",
            Self::Laboratory => "Laboratory",
        }
    }

    /// The purpose, in one sentence.
    pub fn summary(self) -> &'static str {
        match self {
            Self::Stage => {
                "Type a sentence, see what each head looks at and what the model expects, change it, and see what follows."
            }
            Self::Walkthrough => {
                "See attention computed step by step, with every number explained."
            }
            Self::Laboratory => {
                "Change the inputs and masks of attention over up to 4096 tokens, and see the effect."
            }
        }
    }
}
