//! A model that runs.

use std::path::Path;

use crate::change::Plan;
use crate::forward::{Caches, Keep, Runner, Streams, normed};
use crate::weights::Weights;
use crate::{Change, Checkpoint, Description, Error, Input, Tokenizer, Trace, Values};

/// A model with its weights: a value that runs.
///
/// ```
/// use regard_models::{Input, Model};
/// # let models = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/models");
/// let model = Model::open(format!("{models}/tiny-qwen3"))?;
/// let trace = model.pass().keep(["blocks.*.attn.hook_pattern"]).run(&Input::tokens([7, 8, 9]))?;
/// let weights = trace.get("blocks.2.attn.hook_pattern").unwrap();
/// assert_eq!(weights.shape, [5, 3, 3]); // 5 heads, 3 queries, 3 keys
/// assert_eq!(weights.data[..3], [1.0, 0.0, 0.0]); // the first token sees itself
/// # Ok::<(), regard_models::Error>(())
/// ```
#[derive(Debug)]
pub struct Model {
    description: Description,
    weights: Weights,
    tokenizer: Option<Tokenizer>,
}

impl Model {
    /// Opens a folder or a GGUF file, and reads all weights.
    ///
    /// # Errors
    /// Names the file and the tensor that are wrong.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::load(&Checkpoint::open(path)?)
    }

    /// Reads all weights of a checkpoint.
    ///
    /// # Errors
    /// Names the file and the tensor that are wrong.
    pub fn load(checkpoint: &Checkpoint) -> Result<Self, Error> {
        let description = Description::of(checkpoint)?;
        let tokenizer = Tokenizer::of(checkpoint, description.vocabulary)?;
        let weights = Weights::load(checkpoint, &description)?;
        Ok(Self { description, weights, tokenizer })
    }

    /// What the model is made of.
    pub fn description(&self) -> &Description {
        &self.description
    }

    pub(crate) fn weights(&self) -> &Weights {
        &self.weights
    }

    /// The tokenizer, if the files have one.
    pub fn tokenizer(&self) -> Option<&Tokenizer> {
        self.tokenizer.as_ref()
    }

    /// The tensors of the checkpoint that the model has no use for.
    pub fn unused(&self) -> &[String] {
        &self.weights.unused
    }

    /// The positions of an input: its tokens, or the patches of an image and the class token.
    pub fn tokens(&self, input: &Input) -> usize {
        self.description.embedding.patches.map_or(input.ids.len(), |patches| patches.tokens())
    }

    /// A forward pass, to say what is kept and what is changed.
    pub fn pass(&self) -> Pass<'_> {
        Pass { model: self, keep: Vec::new(), changes: Vec::new(), after: None }
    }

    /// The logits of the residual stream \[tokens, width\] of any layer: through the final norm and the head (logit lens,
    /// nostalgebraist 2020). `None` if the model has no head.
    ///
    /// # Errors
    /// [`Error::Input`] if the stream has another width.
    ///
    /// ```
    /// use regard_models::{Input, Model};
    /// # let models = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/models");
    /// let model = Model::open(format!("{models}/tiny-gpt2"))?;
    /// let trace = model.pass().keep(["blocks.1.hook_resid_post"]).run(&Input::tokens([7, 8, 9]))?;
    /// let last = trace.get("blocks.1.hook_resid_post").unwrap();
    /// assert_eq!(model.lens(last)?.as_ref(), trace.logits()); // of the last layer, the logits
    /// # Ok::<(), regard_models::Error>(())
    /// ```
    pub fn lens(&self, stream: &Values) -> Result<Option<Values>, Error> {
        let width = self.description.width;
        if stream.shape.last() != Some(&width) || !stream.data.len().is_multiple_of(width) {
            let shape = &stream.shape;
            return Err(Error::Input(format!(
                "a stream has {width} numbers for a token, not the shape {shape:?}"
            )));
        }
        match &self.weights.stack.norm {
            Some(norm) => self.head(&normed(norm, &stream.data)?),
            None => self.head(&stream.data),
        }
    }

    /// An unchanged run that changed runs of the same input begin from: what comes before a change is not computed anew.
    ///
    /// # Errors
    /// [`Error::Input`] if the input does not fit the model.
    pub fn baseline(&self, input: &Input) -> Result<Baseline, Error> {
        let (keep, plan) = (Keep::default(), Plan::default());
        let mut runner = Runner::new(self, &keep, &plan);
        runner.streams = Some(Streams::default());
        let (trace, streams) = runner.run(input)?;
        Ok(Baseline { input: input.clone(), trace, streams: streams.unwrap_or_default() })
    }

    /// The most likely token after those of `input` (after the decoder's, where there is one), `count` times over. Keys and
    /// values are cached, unless a change makes earlier tokens depend on later ones.
    ///
    /// It ends early with a token that ends a text, which is the last one then.
    ///
    /// # Errors
    /// [`Error::Input`] if the input or a change does not fit the model, or if the model has no head that predicts tokens.
    ///
    /// ```
    /// use regard_models::{Input, Model};
    /// # let models = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/models");
    /// let model = Model::open(format!("{models}/tiny-gpt2"))?;
    /// let next = model.generate(&Input::tokens([7, 8, 9]), 4, &[])?;
    /// let after_two = Input::tokens([7, 8, 9, next[0], next[1]]);
    /// assert_eq!(model.generate(&after_two, 2, &[])?, next[2..]);
    /// # Ok::<(), regard_models::Error>(())
    /// ```
    pub fn generate(
        &self,
        input: &Input,
        count: usize,
        changes: &[Change],
    ) -> Result<Vec<u32>, Error> {
        if !self.description.stack.causal || self.weights.head.is_none() {
            return Err(Error::Input("the model has no head that predicts the next token".into()));
        }
        let mut input = input.clone();
        let (keep, plan) = (Keep::default(), Plan::new(changes, self, &input)?);
        let decoding = self.description.encoder.is_some();
        let given = if decoding { input.decoder_ids.len() } else { input.ids.len() };
        let mut caches = if plan.cacheable {
            Some(Caches::new(self, given + count, input.ids.len())?)
        } else {
            None
        };
        let mut written = Vec::new();
        while written.len() < count {
            let mut runner = Runner::new(self, &keep, &plan);
            runner.caches = caches.as_mut();
            runner.last_only = true;
            let (trace, _) = runner.run(&input)?;
            let Some(next) = trace.logits.as_ref().and_then(|logits| largest(logits.last())) else {
                break;
            };
            written.push(next);
            let ids = if decoding { &mut input.decoder_ids } else { &mut input.ids };
            if caches.is_some() {
                ids.clear(); // they are in the cache
            }
            ids.push(next);
            if self.description.ends.contains(&next) {
                break;
            }
        }
        Ok(written)
    }
}

/// The number of the largest logit, the first of equal ones.
fn largest(logits: &[f32]) -> Option<u32> {
    let best = (0..logits.len()).reduce(|best, i| if logits[i] > logits[best] { i } else { best });
    u32::try_from(best?).ok()
}

/// An unchanged run, from which changed runs of the same input begin.
#[derive(Clone, Debug)]
pub struct Baseline {
    input: Input,
    trace: Trace,
    streams: Streams,
}

impl Baseline {
    /// The input.
    pub fn input(&self) -> &Input {
        &self.input
    }

    /// The logits of the unchanged run.
    pub fn logits(&self) -> Option<&Values> {
        self.trace.logits()
    }
}

/// A forward pass before it runs: [`Model::pass`].
#[derive(Clone, Debug)]
pub struct Pass<'m> {
    model: &'m Model,
    keep: Vec<String>,
    changes: Vec<Change>,
    after: Option<&'m Baseline>,
}

impl<'m> Pass<'m> {
    /// Keeps the places that these patterns name, besides those that are kept already. `*` stands for any characters;
    /// [`Description::places`] lists the names.
    #[must_use]
    pub fn keep<S: Into<String>>(mut self, patterns: impl IntoIterator<Item = S>) -> Self {
        self.keep.extend(patterns.into_iter().map(Into::into));
        self
    }

    /// Makes a change, besides those that are made already.
    ///
    /// ```
    /// use regard_models::{Ablation, Change, Input, Model};
    /// # let models = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/models");
    /// let model = Model::open(format!("{models}/tiny-gpt2"))?;
    /// let (head, input) = ("1.3".parse()?, Input::tokens([7, 8, 9]));
    /// let pass = model.pass().keep(["blocks.1.attn.hook_z"]).change(Change::Ablate { head, to: Ablation::Zero });
    /// let z = &pass.run(&input)?.get("blocks.1.attn.hook_z").unwrap().clone(); // [tokens, heads, head size]
    /// assert_eq!(z.data[3 * 8..4 * 8], [0.0; 8]);
    /// # Ok::<(), regard_models::Error>(())
    /// ```
    #[must_use]
    pub fn change(mut self, change: Change) -> Self {
        self.changes.push(change);
        self
    }

    /// Begins where the first change is, with the stream of an unchanged run of the same input. The result is the same.
    ///
    /// ```
    /// use regard_models::{Ablation, Change, Input, Model};
    /// # let models = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/models");
    /// let model = Model::open(format!("{models}/tiny-gpt2"))?;
    /// let input = Input::tokens([7, 8, 9]);
    /// let unchanged = model.baseline(&input)?;
    /// for head in ["1.0", "1.1", "1.2", "1.3"] {
    ///     let pass = model.pass().change(Change::Ablate { head: head.parse()?, to: Ablation::Zero });
    ///     assert_eq!(pass.clone().after(&unchanged).run(&input)?.logits(), pass.run(&input)?.logits());
    /// }
    /// # Ok::<(), regard_models::Error>(())
    /// ```
    #[must_use]
    pub fn after(mut self, unchanged: &'m Baseline) -> Self {
        self.after = Some(unchanged);
        self
    }

    /// Runs the model.
    ///
    /// # Errors
    /// [`Error::Input`] if the input, a place or a change does not fit the model, or if the unchanged run is one of another
    /// input.
    pub fn run(&self, input: &Input) -> Result<Trace, Error> {
        let keep = Keep::new(&self.keep, &self.model.description)?;
        let plan = Plan::new(&self.changes, self.model, input)?;
        let mut runner = Runner::new(self.model, &keep, &plan);
        if let Some(after) = self.after {
            if after.input != *input {
                return Err(Error::Input("the unchanged run is one of another input".into()));
            }
            runner.from = Some(&after.streams);
        }
        Ok(runner.run(input)?.0)
    }
}
