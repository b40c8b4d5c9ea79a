//! The first page: `english` reads a sentence, and the words that one of its heads looks back at decide what it expects next.
//!
//! The head finds who gets a thing, and the second time of a phrase.

use std::collections::BTreeSet;

use regard_bundled::ENGLISH;
use regard_figure::{Look, Matrix};
use regard_heads::HeadId;
use regard_models::{Change, HeadAddress, Which};
use serde::{Deserialize, Serialize};

use crate::{Cell, Host, model};

/// The sentences to begin with. In each, the head looks from the last word back at the one that comes next.
const SENTENCES: [&str; 4] = [
    "When Mary and John went to the store, John gave a drink to",
    "Tom put the key in the box and the coin in the bag. Later Anna found the coin in the",
    "Mia saw the yellow bag. Mia found the yellow",
    "Attention is all you",
];
/// The head that carries most of the indirect object, which is also an induction head: see the card of `english`.
pub const HEAD: HeadId = HeadId { layer: 5, head: 3 };
/// The layers of `english`, and the heads of each.
const LAYERS: usize = 6;
const HEADS: usize = 6;
/// The changes of the real head.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RealHead {
    /// The sentence.
    pub text: String,
    /// The temperature of all heads.
    pub temperature: f32,
    /// The positions of the words that the last word does not see, in any head.
    pub hidden: BTreeSet<usize>,
    /// The position of the last word, if a word is hidden from it.
    pub last: usize,
    /// The weight whose arithmetic is open, by query and key.
    pub weight: Option<Cell>,
}

impl Default for RealHead {
    fn default() -> Self {
        Self::of(SENTENCES[0].to_owned())
    }
}

impl RealHead {
    /// A sentence without changes.
    fn of(text: String) -> Self {
        Self { text, temperature: 1.0, hidden: BTreeSet::new(), last: 0, weight: None }
    }

    /// Reads another sentence. The hidden words were those of the one before.
    pub fn read(&mut self, text: String) {
        *self = Self { temperature: self.temperature, ..Self::of(text) };
    }

    /// The sentence of the list that follows this one, or the first.
    pub fn following(&self) -> &'static str {
        let place = SENTENCES.iter().position(|sentence| *sentence == self.text);
        SENTENCES[place.map_or(0, |place| (place + 1) % SENTENCES.len())]
    }

    /// The state of the model room: `english` reads the sentence, and the head is shown.
    pub fn asked(&self) -> model::State {
        let mut state = model::State::of(ENGLISH);
        self.text.clone_into(&mut state.text);
        state.heads.show(HEAD);
        let heads = (0..LAYERS).flat_map(|layer| (0..HEADS).map(move |head| (layer, head)));
        for (layer, head) in heads {
            let head = HeadAddress { attention: Which::Only, layer, head };
            let temperature = self.temperature;
            let divided = (temperature != 1.0).then_some(Change::Temperature { head, temperature });
            let hidden = self.hidden.iter().filter(|key| **key < self.last);
            let cut = hidden.map(|key| Change::Cut { head, query: self.last, key: *key });
            let changes = divided.into_iter().chain(cut);
            state.changes.extend(changes.map(|change| model::Listed { change, on: true }));
        }
        state
    }
}

/// The weights of the head with the changes of a session, to export them.
///
/// # Errors
/// If `english` cannot read the sentence.
pub fn matrix(host: &dyn Host, real: &RealHead, look: Look) -> anyhow::Result<Matrix> {
    model::matrix(host, &real.asked(), look)
}
