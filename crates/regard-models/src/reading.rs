//! A text that a model has read, and from which it continues.
//!
//! A token of a causal model does not depend on the tokens after it. So a text that begins like an earlier one is read from the
//! first token that differs:
//!
//! ```text
//! p ← the number of tokens at the beginning that both texts have in common
//! the caches of keys and values, the attention weights and the streams are cut to p tokens
//! tokens p, p + 1, … go through the layers, and their results are appended
//! ```
//!
//! Every number has the bits of a run of the whole text, because no product of a token depends on the number of other tokens.
//! The last token is always computed, because its logits are needed.
//!
//! A run with changes continues in the same way, if the changes are the same. It keeps keys and values of its own from the
//! first changed layer on; the layers before it take the stream of the unchanged run. Only the mean of a head over all
//! positions depends on later tokens. A run with that change is computed again from the first changed layer on.

use core::slice::from_ref;

use crate::change::Plan;
use crate::forward::{Caches, Runner, Streams};
use crate::place::Keep;
use crate::{
    AttentionPlace, Baseline, Change, Error, Frequencies, Input, Model, Place, StackName, Trace,
    Values, Which,
};

/// A text that a model has read, with all attention weights and the logits. The model can continue from here.
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
    text: Text,
}

/// A text that a model with changes has read, with the weights of the changed layers and the logits. The model can continue
/// from here.
#[derive(Debug)]
pub struct ChangedReading {
    changes: Vec<Change>,
    logits: Option<Values>,
    text: Text,
}

/// The parts that both kinds of reading have.
#[derive(Debug)]
struct Text {
    input: Input,
    /// \[layers, heads, queries, keys\] of each kind of attention.
    weights: Vec<(Which, Values)>,
    /// The keys and values, if a longer text can continue from here.
    caches: Option<Caches>,
    computed: usize,
}

impl Reading {
    /// The run as a baseline for changed runs. A causal model has the logits of its last position.
    pub fn unchanged(&self) -> &Baseline {
        &self.unchanged
    }

    /// The weights \[layers, heads, queries, keys\] of a kind of attention, if the model has it.
    pub fn weights(&self, which: Which) -> Option<&Values> {
        self.text.weights(which)
    }

    /// The number of tokens that were computed for this text. The others were known from the text before.
    pub fn computed(&self) -> usize {
        self.text.computed
    }
}

impl ChangedReading {
    /// The weights \[layers, heads, queries, keys\] of a kind of attention, if the model has it. The layers are those from the
    /// first changed one on. Earlier layers have the weights of the unchanged run.
    pub fn weights(&self, which: Which) -> Option<&Values> {
        self.text.weights(which)
    }

    /// The logits, for a causal model those of its last position; `None` if the model has no head.
    pub fn logits(&self) -> Option<&Values> {
        self.logits.as_ref()
    }

    /// The number of tokens that were computed for this text. The others were known from the text before.
    pub fn computed(&self) -> usize {
        self.text.computed
    }
}

impl Text {
    fn weights(&self, which: Which) -> Option<&Values> {
        self.weights.iter().find(|(of, _)| *of == which).map(|(_, weights)| weights)
    }

    /// The number of tokens of another input that need not be computed again.
    fn known(&self, new: &Input) -> usize {
        let old = &self.input;
        let room = self.caches.as_ref().map_or(0, Caches::capacity);
        if new.ids.len() > room || !old.types.is_empty() || !new.types.is_empty() {
            return 0;
        }
        let same = old.ids.iter().zip(&new.ids).take_while(|(old, new)| old == new).count();
        same.min(new.ids.len().saturating_sub(1))
    }
}

impl Model {
    /// Reads an input without changes. In a causal model, the beginning that the input shares with `before` is not computed
    /// again. `before` must be a reading of the same model.
    ///
    /// # Errors
    /// As [`Pass::run`](crate::Pass::run).
    pub fn read(&self, input: &Input, before: Option<Reading>) -> Result<Reading, Error> {
        let (mut old, mut text) = (Streams::default(), None);
        match before {
            Some(Reading { unchanged, text }) if text.input == *input => {
                return Ok(Reading { unchanged, text: Text { computed: 0, ..text } });
            }
            Some(before) => (old, text) = (before.unchanged.streams, Some(before.text)),
            None => {}
        }
        let (text, trace, new) = self.read_on(input, Plan::default(), None, text)?;
        let known = self.tokens(input) - text.computed;
        let streams = new.after(old, known * self.description().width);
        let unchanged = Baseline { input: input.clone(), others: Vec::new(), trace, streams };
        Ok(Reading { unchanged, text })
    }

    /// Reads the input of an unchanged run with changes. Layers before the first changed one are not computed again. In a
    /// causal model, neither is the beginning that the input shares with `before`, if the changes are the same. `before` must
    /// be a reading of the same model.
    ///
    /// # Errors
    /// As [`Pass::run`](crate::Pass::run).
    ///
    /// ```
    /// use regard_models::{Ablation, Change, Input, Model};
    /// # let models = concat!(env!("CARGO_MANIFEST_DIR"), "/models");
    /// let model = Model::open(format!("{models}/tiny-gpt2"))?;
    /// let changes = [Change::Ablate { head: "1.2".parse()?, to: Ablation::Zero }];
    /// let first = model.baseline(&Input::tokens([7, 8, 9, 3]))?;
    /// let first = model.read_changed(&first, &changes, None)?;
    ///
    /// let more = Input::tokens([7, 8, 9, 3, 4]);
    /// let second = model.read_changed(&model.baseline(&more)?, &changes, Some(first))?;
    /// assert_eq!(second.computed(), 1);
    /// let whole = model.pass().change(changes[0].clone()).last_logits().run(&more)?;
    /// assert_eq!(second.logits(), whole.logits());
    /// # Ok::<(), regard_models::Error>(())
    /// ```
    pub fn read_changed(
        &self,
        unchanged: &Baseline,
        changes: &[Change],
        before: Option<ChangedReading>,
    ) -> Result<ChangedReading, Error> {
        let input = unchanged.input();
        let plan = Plan::new(changes, self, input)?;
        let before = before.filter(|before| plan.cacheable && before.changes == changes);
        let before = before.map(|before| before.text);
        let (text, trace, _) = self.read_on(input, plan, Some(&unchanged.streams), before)?;
        Ok(ChangedReading { changes: changes.to_vec(), logits: trace.logits, text })
    }

    /// Reads an input with changes of the run `from`, or without changes.
    fn read_on(
        &self,
        input: &Input,
        plan: Plan,
        from: Option<&Streams>,
        before: Option<Text>,
    ) -> Result<(Text, Trace, Streams), Error> {
        let tokens = self.tokens(input);
        let known = before.as_ref().map_or(0, |before| before.known(input));
        let (mut caches, mut old_weights) = (None, Vec::new());
        match before.filter(|_| known > 0) {
            Some(before) => (caches, old_weights) = (before.caches, before.weights),
            // There is room for twice as many tokens, so that a text can grow.
            None if self.reads_on() => caches = Some(Caches::new(self, 2 * tokens + 32, 0)?),
            None => {}
        }
        if let Some(caches) = &mut caches {
            caches.truncate(known);
        }

        let keep: Keep = self.changed_weights(&plan).into_iter().collect();
        let plans = [plan];
        let mut runner = Runner::new(self, &keep, &plans);
        runner.from = from;
        runner.streams = from.is_none().then(Streams::default);
        runner.last_only = self.description().stack.causal && !self.description().reads_all();
        runner.caches = caches.as_mut();
        let (mut trace, streams) = if known == 0 {
            runner.run(from_ref(input))?
        } else {
            runner.run(&[Input::tokens(&input.ids[known..])])?
        };
        let mut weights = self.all_weights(&mut trace);
        for ((_, weights), (_, old)) in weights.iter_mut().zip(&old_weights) {
            *weights = appended(old, weights, known);
        }
        let computed = tokens - known;
        let text = Text { input: input.clone(), weights, caches, computed };
        Ok((text, trace, streams.unwrap_or_default()))
    }

    /// The places of the weights of each layer from the first changed one on, or of all layers without changes.
    fn changed_weights(&self, plan: &Plan) -> Vec<Place> {
        let first = match plan.first_layer(StackName::Only) {
            Some(first) if !plan.changes_embedding() => first,
            _ => 0,
        };
        let attentions = self.description().attentions().into_iter();
        let places = attentions.flat_map(|(which, stack)| {
            (first..stack.layers()).map(move |i| which.place(i, AttentionPlace::Pattern))
        });
        places.collect()
    }

    /// The weights of each kind of attention, which are taken out of a trace.
    fn all_weights(&self, trace: &mut Trace) -> Vec<(Which, Values)> {
        let attentions = self.description().attentions().into_iter();
        let all = attentions.map(|(which, stack)| {
            let mut all = Values { shape: Vec::new(), data: Vec::new() };
            let mut layers = 0;
            for layer in 0..stack.layers() {
                if let Some(weights) = trace.take(which.place(layer, AttentionPlace::Pattern)) {
                    layers += 1;
                    all.shape = [&[layers], weights.shape.as_slice()].concat();
                    all.data.extend(weights.data);
                }
            }
            (which, all)
        });
        all.collect()
    }

    /// Whether a longer text can continue from a reading: its tokens depend neither on later ones nor on its length.
    fn reads_on(&self) -> bool {
        let description = self.description();
        let stack = &description.stack;
        let by_length = stack.rotary.iter().any(|rotary| {
            matches!(rotary.scaling, Frequencies::Dynamic { .. } | Frequencies::LongRope { .. })
        });
        let counted = description.embedding.counts_tokens();
        let plain = stack.causal && description.encoder.is_none() && !description.reads_all();
        plain && !by_length && !counted
    }
}

/// The weights [layers, heads, n, n] of a text. For the first `known` tokens they are those of `old` [layers, heads, m, m], and
/// the rows of the others are `new` [layers, heads, n − known, n].
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
