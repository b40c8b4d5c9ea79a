//! The hashes of a run in a session, against which a replay is checked bit by bit.

use serde::{Deserialize, Serialize};

/// SHA-256 hashes of a run, in hexadecimal digits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Record {
    /// The texts and the changes.
    pub asked: String,
    /// The model's files.
    pub model: String,
    /// The files of model B; empty without one.
    pub second_model: String,
    /// All attention weights and all probabilities of the next token: unchanged, changed, and of run B.
    pub result: String,
}

impl Record {
    /// The difference of a replay from this run, if it repeats the same request and differs.
    pub fn difference(&self, replay: &Self) -> Option<&'static str> {
        if self.asked != replay.asked || self == replay {
            None
        } else if self.model != replay.model || self.second_model != replay.second_model {
            Some(
                "The files of a model are not those that the session was saved with, so its numbers may differ from the session's.",
            )
        } else {
            Some(
                "The model, the texts and the changes are those of the session, but the numbers differ from the session's in their \
                 last bits: it was saved on another kind of processor, or by another version of the program.",
            )
        }
    }
}
