//! The hashes of a run in a session, against which a replay is checked bit by bit.

use core::fmt::Write as _;

use regard_models::{Checkpoint, Error, Model};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::open::Opened;
use super::run::{Heads, Outcome};

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
    pub(super) fn of(opened: &Opened, model_b: Option<&Opened>, outcome: &Outcome) -> Self {
        let mut asked = Sha256::new();
        // The text of a request contains each of its numbers exactly.
        asked.update(format!("{} {:?}", opened.name, outcome.request));
        Self {
            asked: digits(asked),
            model: opened.hash.clone(),
            second_model: model_b.map(|opened| opened.hash.clone()).unwrap_or_default(),
            result: outcome.hash.clone(),
        }
    }

    /// The difference of a replay from this run, if it repeats the same request and differs.
    pub(super) fn difference(&self, replay: &Self) -> Option<&'static str> {
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

/// The hash of a model's files.
pub(super) fn of_files(checkpoint: &Checkpoint) -> Result<String, Error> {
    let mut hash = Sha256::new();
    checkpoint.for_each_part(&mut |part| hash.update(part))?;
    Ok(digits(hash))
}

/// The hash of a model's tokens in the order of their ids.
pub(super) fn of_tokens(model: &Model) -> String {
    let mut hash = Sha256::new();
    for id in 0..model.description().vocabulary {
        let token = u32::try_from(id).ok().and_then(|id| model.tokenizer()?.token(id));
        hash.update(token.unwrap_or_default());
        hash.update([0]);
    }
    digits(hash)
}

/// The hash of the weights and of the probabilities of runs.
pub(super) fn of_runs<'a>(runs: impl Iterator<Item = (&'a Heads, &'a [f32])>) -> String {
    let mut hash = Sha256::new();
    let mut add = |numbers: &[f32]| {
        let bytes: Vec<u8> = numbers.iter().flat_map(|x| x.to_le_bytes()).collect();
        hash.update(bytes);
    };
    for (heads, next) in runs {
        for heads in heads.iter() {
            heads.maps.shape().ids().for_each(|id| add(&heads.maps.head(id)));
        }
        add(next);
    }
    digits(hash)
}

fn digits(hash: Sha256) -> String {
    hash.finalize().iter().fold(String::new(), |mut digits, byte| {
        let _infallible = write!(digits, "{byte:02x}");
        digits
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replay_of_the_same_request_is_compared() {
        let record = |asked: &str, model: &str, result: &str| Record {
            asked: asked.to_owned(),
            model: model.to_owned(),
            second_model: String::new(),
            result: result.to_owned(),
        };
        let stored = record("a", "m", "r");
        assert_eq!(stored.difference(&stored), None);
        assert_eq!(stored.difference(&record("b", "m", "s")), None);
        assert!(stored.difference(&record("a", "n", "s")).unwrap().starts_with("The files"));
        assert!(stored.difference(&record("a", "m", "s")).unwrap().contains("last bits"));
        let other_b = Record { second_model: "n".to_owned(), ..stored.clone() };
        assert!(stored.difference(&other_b).unwrap().starts_with("The files"));
    }
}
