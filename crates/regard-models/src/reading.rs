//! A text that a model has read, and from which it reads on.
//!
//! A token of a causal model does not depend on the tokens after it. So a text that begins like an earlier one is read from
//! where the two differ:
//!
//! ```text
//! p ← the tokens at the beginning that both texts have in common
//! the caches of keys and values, the attention weights and the streams are cut to p tokens
//! tokens p, p + 1, … go through the layers, and what they give is appended
//! ```
//!
//! Every number is that of a run of the whole text, bit for bit: no product of a token depends on how many others there are. The
//! last token is always computed, because its logits are asked for.

use core::slice::from_ref;

use crate::change::Plan;
use crate::forward::{Caches, Keep, Runner, Streams};
use crate::{Baseline, Error, Input, Model, RopeScaling, Trace, Values, Which};

/// What a model found in a text: all attention weights, the logits, and what it needs to read on.
///
/// ```
/// use regard_models::{Input, Model, Which};
/// # let models = concat!(env!("CARGO_MANIFEST_DIR"), "/models");
/// let model = Model::open(format!("{models}/tiny-gpt2"))?;
/// let text = [7, 8, 9, 3, 4, 5, 6, 2];
/// let first = model.read(&Input::tokens(text), None)?;
/// assert_eq!(first.computed(), 8);
///
/// let more = Input::tokens([&text[..], &[1]].concat());
/// let second = model.read(&more, Some(first))?;
/// assert_eq!(second.computed(), 1);
/// assert_eq!(second.weights(Which::Only).unwrap().shape, [2, 4, 9, 9]); // layers, heads, queries, keys
/// assert_eq!(second.unchanged().logits(), model.pass().last_logits().run(&more)?.logits());
/// # Ok::<(), regard_models::Error>(())
/// ```
#[derive(Debug)]
pub struct Reading {
    unchanged: Baseline,
    /// \[layers, heads, queries, keys\] of each kind of attention.
    weights: Vec<(Which, Values)>,
    /// The keys and values, if a longer text can be read from here.
    caches: Option<Caches>,
    computed: usize,
}

impl Reading {
    /// The run as one that changed runs begin from. A causal model has the logits of its last position.
    pub fn unchanged(&self) -> &Baseline {
        &self.unchanged
    }

    /// The weights \[layers, heads, queries, keys\] of a kind of attention, if the model has it.
    pub fn weights(&self, which: Which) -> Option<&Values> {
        self.weights.iter().find(|(of, _)| *of == which).map(|(_, weights)| weights)
    }

    /// The tokens that were computed for this text. The others were known from the text before.
    pub fn computed(&self) -> usize {
        self.computed
    }

    /// The tokens of another input that need not be computed again.
    fn known(&self, new: &Input) -> usize {
        let old = &self.unchanged.input;
        let room = self.caches.as_ref().map_or(0, Caches::capacity);
        if new.ids.len() > room || !old.types.is_empty() || !new.types.is_empty() {
            return 0;
        }
        let same = old.ids.iter().zip(&new.ids).take_while(|(old, new)| old == new).count();
        same.min(new.ids.len().saturating_sub(1))
    }
}

impl Model {
    /// Reads an input without changes. Of a causal model, what `before` has read of the same beginning is not computed anew.
    /// `before` has to be a reading of the same model.
    ///
    /// # Errors
    /// [`Error::Input`] if the input does not fit the model.
    pub fn read(&self, input: &Input, before: Option<Reading>) -> Result<Reading, Error> {
        let tokens = self.tokens(input);
        let (before, known) = match before {
            Some(before) if before.unchanged.input == *input => {
                return Ok(Reading { computed: 0, ..before });
            }
            Some(before) => {
                let known = before.known(input);
                (Some(before).filter(|_| known > 0), known)
            }
            None => (None, 0),
        };
        let (mut old, mut caches) = (None, None);
        match before {
            Some(Reading { unchanged, weights, caches: kept, .. }) => {
                old = Some((unchanged.streams, weights));
                caches = kept;
            }
            // Room for as many tokens again, so that a text can grow.
            None if self.reads_on() => caches = Some(Caches::new(self, 2 * tokens + 32, 0)?),
            None => {}
        }
        if let Some(caches) = &mut caches {
            caches.truncate(known);
        }

        let (keep, plans) =
            (Keep::new(&["*hook_pattern".to_owned()], self.description())?, [Plan::default()]);
        let mut runner = Runner::new(self, &keep, &plans);
        runner.streams = Some(Streams::default());
        runner.last_only = self.description().stack.causal;
        runner.caches = caches.as_mut();
        let (mut trace, streams) = if known == 0 {
            runner.run(from_ref(input))?
        } else {
            runner.run(&[Input::tokens(&input.ids[known..])])?
        };
        let mut streams = streams.unwrap_or_default();
        let mut weights = self.all_weights(&mut trace);
        if let Some((old_streams, old_weights)) = old {
            streams = streams.after(old_streams, known * self.description().width);
            for ((_, weights), (_, old)) in weights.iter_mut().zip(&old_weights) {
                *weights = appended(old, weights, known);
            }
        }
        let unchanged = Baseline { input: input.clone(), trace, streams };
        Ok(Reading { unchanged, weights, caches, computed: tokens - known })
    }

    /// The weights of each kind of attention, which are taken out of a trace.
    fn all_weights(&self, trace: &mut Trace) -> Vec<(Which, Values)> {
        let attentions = self.description().attentions().into_iter();
        let all = attentions.map(|(which, stack)| {
            let mut all = Values { shape: Vec::new(), data: Vec::new() };
            for layer in 0..stack.layers() {
                if let Some(weights) = trace.kept.remove(&which.weights_of(layer)) {
                    all.shape = [&[stack.layers()], weights.shape.as_slice()].concat();
                    all.data.extend(weights.data);
                }
            }
            (which, all)
        });
        all.collect()
    }

    /// Whether a text can be read on: its tokens do not depend on later ones, nor on its length.
    fn reads_on(&self) -> bool {
        let description = self.description();
        let stack = &description.stack;
        let by_length = stack.block.rotary.as_ref().is_some_and(|rotary| {
            matches!(rotary.scaling, RopeScaling::Dynamic { .. } | RopeScaling::LongRope { .. })
        });
        stack.causal && description.encoder.is_none() && !by_length
    }
}

/// The weights [layers, heads, n, n] of a text of which the first `known` tokens are as in `old` [layers, heads, m, m], and the
/// rows of the others are `new` [layers, heads, n − known, n].
fn appended(old: &Values, new: &Values, known: usize) -> Values {
    let &[layers, heads, rows, n] = new.shape.as_slice() else { return new.clone() };
    let m = old.shape.last().copied().unwrap_or(0);
    let mut data = vec![0.0; layers * heads * n * n];
    for (head, data) in data.chunks_exact_mut((n * n).max(1)).enumerate() {
        for (i, row) in data.chunks_exact_mut(n).take(known).enumerate() {
            row[..known].copy_from_slice(&old.data[(head * m + i) * m..][..known]);
        }
        data[known * n..].copy_from_slice(&new.data[head * rows * n..][..rows * n]);
    }
    Values { shape: vec![layers, heads, n, n], data }
}
