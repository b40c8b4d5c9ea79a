//! Changes that are made one at a time: of each head, of each place, or of each path.

use serde::{Deserialize, Serialize};

use crate::{
    Ablation, AttentionPlace, Change, Error, HeadAddress, Input, Model, StackName, StreamPlace,
    Which,
};

/// The changes of a sweep, each of which is made alone.
///
/// ```
/// use regard_models::{Ablation, Each, Input, Logits, Model, HeadInput};
/// # let models = concat!(env!("CARGO_MANIFEST_DIR"), "/models");
/// let model = Model::open(format!("{models}/tiny-gpt2"))?;
/// let heads = model.changes(&Each::AblatedHead(Ablation::Zero))?;
/// assert_eq!(heads.len(), 2 * 4); // layers × heads
/// let (cell, _) = &heads[5];
/// assert_eq!((cell.layer, cell.column), (1, 1));
///
/// // The streams of another text, of which the second token differs.
/// let (input, other) = (Input::tokens([7, 8, 9]), Input::tokens([7, 6, 9]));
/// let places = model.changes(&Each::PatchedPlace(other.clone()))?;
/// let changes: Vec<_> = places.into_iter().map(|(_, change)| change).collect(); // layers × positions
/// let unchanged = model.baseline(&input)?;
/// let logits = model.sweep(&unchanged, &changes, Logits::Last, &mut |_| Ok(()))?;
/// assert_eq!(Some(logits[0].last()), unchanged.logits().map(|x| x.last())); // the first tokens are the same
/// assert_eq!(Some(logits[1].last()), model.pass().run(&other)?.logits().map(|x| x.last())); // the only other one
///
/// let path = Each::Path { head: "0.1".parse()?, into: HeadInput::Q, from: other };
/// let to: Vec<_> = model.changes(&path)?.iter().map(|(cell, _)| (cell.layer, cell.column)).collect();
/// assert_eq!(to, [(1, 0), (1, 1), (1, 2), (1, 3)]);
/// # Ok::<(), regard_models::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Each {
    /// Each head's output is replaced.
    AblatedHead(Ablation),
    /// Each head's output at all positions is that of the run on another input.
    PatchedHead(Input),
    /// The residual stream that enters each layer at each position is that of the run on another input.
    PatchedPlace(Input),
    /// Each later head of the stack reads a head's output from the run on another input, while all parts between them stay the
    /// same (direct path patching).
    Path {
        /// The head that sends.
        head: HeadAddress,
        /// The side of each later head that receives.
        into: HeadInput,
        /// The other input, with the same number of tokens.
        from: Input,
    },
}

/// An input of a head's attention, which the head computes from the stream that it reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HeadInput {
    /// The queries.
    Q,
    /// The keys.
    K,
    /// The values.
    V,
}

impl HeadInput {
    /// The place of the stream that is read.
    const fn place(self) -> AttentionPlace {
        match self {
            Self::Q => AttentionPlace::QueryIn,
            Self::K => AttentionPlace::KeyIn,
            Self::V => AttentionPlace::ValueIn,
        }
    }
}

/// A cell of a sweep's table of effects, by what its change changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SweepCell {
    /// The attention of a head, or the stack of a place.
    pub attention: Which,
    /// The layer, from 0.
    pub layer: usize,
    /// The head, or the position of a place, from 0.
    pub column: usize,
}

impl From<HeadAddress> for SweepCell {
    fn from(HeadAddress { attention, layer, head }: HeadAddress) -> Self {
        Self { attention, layer, column: head }
    }
}

impl Model {
    /// The changes of a sweep, with what each of them changes, layer by layer: those of an encoder before those of a decoder.
    ///
    /// # Errors
    /// [`Error::Missing`] if the model does not have the head of a path, or no later layer that could receive it.
    pub fn changes(&self, each: &Each) -> Result<Vec<(SweepCell, Change)>, Error> {
        let heads = |change: &dyn Fn(HeadAddress) -> Change| {
            let heads = self.description().heads().into_iter();
            heads.map(|head| (head.into(), change(head))).collect()
        };
        Ok(match each {
            Each::AblatedHead(to) => heads(&|head| Change::Ablate { head, to: to.clone() }),
            Each::PatchedHead(from) => {
                heads(&|head| Change::PatchHead { head, position: None, from: from.clone() })
            }
            Each::PatchedPlace(from) => self.patched_places(from),
            Each::Path { head, into, from } => {
                let paths = self.paths(*head, *into, from)?;
                if paths.is_empty() {
                    let what = "leads to no head, because its layer is the last one";
                    return Err(Error::Missing(format!("the path from head {head} {what}")));
                }
                paths
            }
        })
    }

    fn patched_places(&self, from: &Input) -> Vec<(SweepCell, Change)> {
        let mut patches = Vec::new();
        for (name, stack) in self.description().stacks() {
            let tokens = match name {
                StackName::Only | StackName::Encoder => self.tokens(from),
                StackName::Decoder => from.decoder_ids.len(),
            };
            for layer in 0..stack.layers() {
                let place = name.place(layer, StreamPlace::Pre);
                patches.extend((0..tokens).map(|position| {
                    let cell = SweepCell { attention: name.own(), layer, column: position };
                    (cell, Change::Patch { place, position, from: from.clone() })
                }));
            }
        }
        patches
    }

    fn paths(
        &self,
        head: HeadAddress,
        into: HeadInput,
        from: &Input,
    ) -> Result<Vec<(SweepCell, Change)>, Error> {
        let stack = head.check(self.description())?;
        let read = into.place();
        let heads = stack.block.readers(read).unwrap_or_default();
        // A decoder's attention to the encoder sends to the attention over its own tokens.
        let attention =
            if head.attention == Which::Cross { Which::Decoder } else { head.attention };
        let path = |layer, column| {
            let place = attention.place(layer, read);
            let path = Change::Path { head, place, to: Some(column), from: from.clone() };
            (SweepCell { attention, layer, column }, path)
        };
        let layers = head.layer + 1..stack.layers();
        Ok(layers.flat_map(|layer| (0..heads).map(move |column| path(layer, column))).collect())
    }
}
