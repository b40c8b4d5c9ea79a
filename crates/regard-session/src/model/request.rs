//! The request of a run.

use std::collections::BTreeSet;
use std::path::PathBuf;

use regard_models::{Change, Description, Which};
use serde::{Deserialize, Serialize};

use super::open::short;
use super::{Drawing, ModelState};

/// The inputs and the changes of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// The text.
    pub text: String,
    /// Its tokens, if they are not those that the tokenizer makes of it.
    pub ids: Option<Vec<u32>>,
    /// The positions of the hidden words. No head sees them from the last word, which says what comes next, or, in a model that reads
    /// in both directions, from any other word.
    pub hidden: BTreeSet<usize>,
    /// The temperature of all heads that have none of their own.
    pub sharpness: f32,
    /// The other changes.
    pub changes: Vec<Change>,
    /// The second text, if there is one. Run B reads it without changes.
    pub second: Option<String>,
    /// The model of run B, if it is not that of run A. Without a second text, it reads the first one.
    pub second_model: Option<String>,
    /// The text that the decoder of a model with an encoder and a decoder has written.
    pub decoder: String,
    /// Its tokens, if they are not those that the tokenizer makes of it.
    pub decoder_ids: Option<Vec<u32>>,
    /// The file of the image or of the recording, for a model that reads one.
    pub image: Option<PathBuf>,
    /// The images that are drawn: the first, if there is no other image, and the second, which run B reads.
    pub drawings: [Option<Drawing>; 2],
}

impl Request {
    /// The request of the user's choices. It includes model B once that is open.
    pub fn of(state: &ModelState, model_b: Option<&str>) -> Self {
        Self {
            text: state.text.clone(),
            ids: state.ids().map(<[u32]>::to_vec),
            hidden: state.hidden.clone(),
            sharpness: state.sharpness,
            changes: state.active(),
            second: state.second.clone(),
            second_model: model_b.map(str::to_owned),
            decoder: state.decoder.clone(),
            decoder_ids: state.decoder_ids().map(<[u32]>::to_vec),
            image: state.image.clone(),
            drawings: [&state.drawing, &state.second_drawing].map(Option::clone),
        }
    }

    /// All changes of a run over this many tokens, head by head: the sharpness, the hidden words, then the listed ones. Words are
    /// hidden in the attention of the tokens to each other, and the decoder of a model with an encoder still sees them.
    pub fn all_changes(&self, model: &Description, tokens: usize) -> Vec<Change> {
        let heads = model.heads();
        let is_own = |head| {
            let of = |c: &Change| matches!(c, Change::Temperature { head: of, .. } if *of == head);
            self.changes.iter().any(of)
        };
        let temperature = self.sharpness;
        let softened = heads.iter().filter(|head| temperature != 1.0 && !is_own(**head));
        let softened = softened.map(|head| Change::Temperature { head: *head, temperature });
        let reads = heads.iter().filter(|h| matches!(h.attention, Which::Only | Which::Encoder));
        let is_causal = model.encoder.is_none() && model.stack.causal;
        let first = if is_causal { tokens.saturating_sub(1) } else { 0 };
        let cuts = reads.flat_map(|head| {
            let keys = self.hidden.iter().copied();
            let edges = keys.flat_map(move |key| (first..tokens).map(move |query| (query, key)));
            let sees = |(query, key): &(usize, usize)| {
                *key < tokens && query != key && model.hides(head, *query, *key).is_none()
            };
            edges.filter(sees).map(|(query, key)| Change::Cut { head: *head, query, key })
        });
        softened.chain(cuts).chain(self.changes.iter().cloned()).collect()
    }

    /// Whether run B reads something else than run A.
    pub fn has_second(&self) -> bool {
        self.second.is_some() || self.drawings[1].is_some()
    }

    /// The names of the runs A and B, if there is a run B besides the unchanged one.
    pub fn names(&self, model: &str) -> [String; 2] {
        match (&self.second_model, &self.second) {
            (Some(other), None) => [short(model), short(other)],
            (Some(other), Some(_)) => {
                [format!("{}, first text", short(model)), format!("{}, second text", short(other))]
            }
            _ if self.drawings[1].is_some() => ["first image", "second image"].map(str::to_owned),
            _ => ["first text", "second text"].map(str::to_owned),
        }
    }
}
