//! A model, and its forward passes.

use core::iter::once;
use core::slice::from_ref;
use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::Arc;
use std::thread;

use regard::Linear;

use crate::change::Plan;
use crate::forward::{Hook, Memory, Rows, Runner, Streams, normed, product};
use crate::place::{Keep, named};
use crate::weights::{Parameter, TokenEmbedding, Weights};
use crate::{
    Change, Checkpoint, ClassPosition, Description, Error, HeadAddress, Input, OutputHead, Place,
    Tokenizer, Trace, Values, Which,
};

/// A model with its weights and its tokenizer.
///
/// ```
/// use regard_models::{Input, Model};
/// # let models = concat!(env!("CARGO_MANIFEST_DIR"), "/models");
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
    /// All places with their names, in the order of computation.
    places: Vec<(String, Place)>,
    weights: Weights,
    /// The tokenizer, if the files have one, or the reason why it cannot be read.
    tokenizer: Result<Option<Tokenizer>, String>,
    memory: Memory,
}

impl Model {
    /// Opens a folder or a GGUF file, and reads all weights.
    ///
    /// # Errors
    /// An error names the file and the tensor at fault.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::load(&Checkpoint::open(path)?)
    }

    /// Reads all weights of a checkpoint, and its tokenizer. A tokenizer that cannot be read does not close the model, which
    /// still reads ids.
    ///
    /// # Errors
    /// An error names the file and the tensor at fault.
    pub fn load(checkpoint: &Checkpoint) -> Result<Self, Error> {
        let mut description = Description::of(checkpoint)?;
        let tokenizer = || Tokenizer::of(checkpoint, description.vocabulary);
        // Reading the tokenizer takes as long as reading the weights of a small model.
        let (tokenizer, weights) = thread::scope(|scope| {
            let beside = thread::Builder::new().spawn_scoped(scope, tokenizer);
            let weights = Weights::load(checkpoint, &description);
            let tokenizer = match beside {
                Ok(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
                Err(_) => tokenizer(), // where no thread can be started
            };
            (tokenizer, weights)
        });
        let (weights, tokenizer) = (weights?, tokenizer.map_err(|e| e.to_string()));
        description.tied &= matches!(weights.tokens, TokenEmbedding::Tied(_));
        let (places, memory) = (description.named_places(), Memory::default());
        Ok(Self { description, places, weights, tokenizer, memory })
    }

    /// Checks that the weights of a checkpoint make the model of this description: that all of them are there, in a known type
    /// and of the right shape. Their numbers are not read. Returns the tensors that the model does not use.
    ///
    /// # Errors
    /// An error names the file and the tensor at fault.
    ///
    /// ```
    /// use regard_models::{Checkpoint, Description, Model};
    /// # let models = concat!(env!("CARGO_MANIFEST_DIR"), "/models");
    /// let checkpoint = Checkpoint::open(format!("{models}/tiny-gpt2"))?;
    /// let mut description = Description::of(&checkpoint)?;
    /// assert!(Model::check(&checkpoint, &description)?.is_empty());
    /// description.width += 8;
    /// assert!(Model::check(&checkpoint, &description).is_err());
    /// # Ok::<(), regard_models::Error>(())
    /// ```
    pub fn check(checkpoint: &Checkpoint, description: &Description) -> Result<Vec<String>, Error> {
        Weights::check(checkpoint, description)
    }

    /// The parts of the model.
    pub fn description(&self) -> &Description {
        &self.description
    }

    pub(crate) fn places(&self) -> &[(String, Place)] {
        &self.places
    }

    pub(crate) fn weights(&self) -> &Weights {
        &self.weights
    }

    pub(crate) fn memory(&self) -> &Memory {
        &self.memory
    }

    /// The tokenizer, if the files have one that can be read.
    pub fn tokenizer(&self) -> Option<&Tokenizer> {
        self.tokenizer.as_ref().ok()?.as_ref()
    }

    /// The tokenizer, for a text that needs it.
    ///
    /// # Errors
    /// [`Error::Unsupported`] with the reason if there is none: the files have none, or it cannot be read.
    ///
    /// ```
    /// # let models = concat!(env!("CARGO_MANIFEST_DIR"), "/models");
    /// let model = regard_models::Model::open(format!("{models}/tiny-vit"))?;
    /// assert_eq!(model.need_tokenizer().unwrap_err().to_string(), "the model has no tokenizer");
    /// # Ok::<(), regard_models::Error>(())
    /// ```
    pub fn need_tokenizer(&self) -> Result<&Tokenizer, Error> {
        let missing = || Error::Unsupported("the model has no tokenizer".into());
        match &self.tokenizer {
            Ok(tokenizer) => tokenizer.as_ref().ok_or_else(missing),
            Err(fault) => Err(Error::Unsupported(fault.clone())),
        }
    }

    /// A weight or a bias in `f32`, or `None` if the model does not have it: `tokens` \[vocabulary, width\], `positions`
    /// \[positions, width\], `head` \[outputs, width\] and `head.bias`, and of each layer of a stack (`blocks`, `encoder` or
    /// `decoder`) `blocks.3.attn.q`, `attn.k`, `attn.v`, `attn.out`, `mlp.gate`, `mlp.up` and `mlp.down`, each \[outputs, inputs\],
    /// the same with `.bias`, and of `cross_attn`. Experts have `mlp.router`, `mlp.experts.7.gate` and so on. Of norms,
    /// `blocks.3.ln1`, `ln2`, `attn.q_norm`, `attn.k_norm` and `ln_final`, with and without `.bias`.
    ///
    /// # Errors
    /// [`Error::Compute`] if the copy does not fit in memory.
    ///
    /// ```
    /// # let models = concat!(env!("CARGO_MANIFEST_DIR"), "/models");
    /// let model = regard_models::Model::open(format!("{models}/tiny-gpt2"))?;
    /// let queries = model.parameter("blocks.1.attn.q")?.unwrap();
    /// assert_eq!(queries.shape, [32, 32]); // heads · head size, width
    /// assert!(model.parameter("blocks.1.mlp.gate")?.is_none());
    /// # Ok::<(), regard_models::Error>(())
    /// ```
    pub fn parameter(&self, name: &str) -> Result<Option<Values>, Error> {
        let (name, is_bias) = match name.strip_suffix(".bias") {
            Some(name) => (name, true),
            None => (name, false),
        };
        let vector = |data: &[f32]| Values { shape: vec![data.len()], data: data.to_vec() };
        Ok(match self.weights.part(name) {
            Some(Parameter::Norm(norm)) if is_bias => norm.beta().map(vector),
            Some(Parameter::Norm(norm)) => Some(vector(norm.gamma())),
            Some(Parameter::Linear(linear)) if is_bias => linear.bias().map(vector),
            Some(Parameter::Linear(linear)) => {
                let rows: Vec<u32> = (0..linear.outputs() as u32).collect();
                let data = regard::Embedding::tied_to(linear).forward(&rows)?.into_vec();
                Some(Values { shape: vec![linear.outputs(), linear.inputs()], data })
            }
            Some(Parameter::Table(table)) if !is_bias => {
                Some(Values { shape: table.shape().to_vec(), data: table.to_f32() })
            }
            _ => None,
        })
    }

    /// The number of logits of a position: a logit for each token of the vocabulary, or for each class. 0 without a head.
    ///
    /// ```
    /// # let models = concat!(env!("CARGO_MANIFEST_DIR"), "/models");
    /// let model = regard_models::Model::open(format!("{models}/tiny-gpt2"))?;
    /// assert_eq!(model.outputs(), model.description().vocabulary);
    /// # Ok::<(), regard_models::Error>(())
    /// ```
    pub fn outputs(&self) -> usize {
        self.weights.head.as_ref().map_or(0, Linear::outputs)
    }

    /// The bytes of the weights by which a token is multiplied. Writing one token reads as many from memory.
    pub fn product_bytes(&self) -> usize {
        self.weights.product_bytes()
    }

    /// The tensors of the checkpoint that the model does not use. The tensors for reading images are left out if the model
    /// reads text alone.
    pub fn unused(&self) -> &[String] {
        &self.weights.unused
    }

    /// The positions of an input: its tokens; the patches of an image and the class token; or those of a recording.
    pub fn tokens(&self, input: &Input) -> usize {
        let embedding = &self.description.embedding;
        match (embedding.patches, embedding.frames) {
            (Some(patches), _) => patches.tokens(),
            (_, Some(frames)) => frames.positions(),
            (None, None) => input.ids.len(),
        }
    }

    /// A forward pass. Its methods say what is kept and what is changed.
    pub fn pass(&self) -> Pass<'_> {
        Pass {
            model: self,
            keep: Vec::new(),
            changes: Vec::new(),
            hooks: Vec::new(),
            after: None,
            last_only: false,
        }
    }

    /// The logits of the residual stream \[tokens, width\] of any layer: through the final norm and the head (logit lens,
    /// nostalgebraist 2020). `None` if the model has no head.
    ///
    /// # Errors
    /// [`Error::Shape`] if the stream has another width.
    ///
    /// ```
    /// use regard_models::{Input, Model};
    /// # let models = concat!(env!("CARGO_MANIFEST_DIR"), "/models");
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
            return Err(Error::Shape(format!(
                "a stream has {width} numbers for a token, not the shape {shape:?}"
            )));
        }
        let rows = stream.data.len() / width;
        if let (
            OutputHead::Classes {
                position:
                    ClassPosition::Patches | ClassPosition::FirstAndPatches | ClassPosition::FirstTwo,
                ..
            },
            Some(patches),
        ) = (&self.description.head, self.description.embedding.patches)
            && rows != patches.tokens()
        {
            let what =
                format!("the classes are read from {} positions, not {rows}", patches.tokens());
            return Err(Error::Shape(what));
        }
        // A model that classifies reads the last row, or the first one.
        let last = matches!(
            self.description.head,
            OutputHead::Classes { position: ClassPosition::Last { .. }, .. }
        );
        let read = [if last { rows.saturating_sub(1) } else { 0 }];
        match &self.weights.stack.norm {
            Some(norm) => self.head(Rows::new(rows, normed(norm, &stream.data)?), &read),
            None => self.head(Rows::new(rows, stream.data.clone()), &read),
        }
    }

    /// An unchanged run, with which changed runs of the same input begin. The layers before a change are not computed again.
    ///
    /// # Errors
    /// [`Error::Shape`], [`Error::Missing`] or [`Error::Range`] if the input does not fit the model.
    pub fn baseline(&self, input: &Input) -> Result<Baseline, Error> {
        self.baselines(from_ref(input))
    }

    /// The unchanged run of several inputs of equal length together, from which [`Pass::after`] begins.
    ///
    /// # Errors
    /// Those of [`baseline`](Self::baseline), and [`Error::Shape`] if the inputs have different lengths, or if there is none.
    ///
    /// ```
    /// use regard_models::{Ablation, Change, Input, Model};
    /// # let models = concat!(env!("CARGO_MANIFEST_DIR"), "/models");
    /// let model = Model::open(format!("{models}/tiny-gpt2"))?;
    /// let inputs = [[7, 8, 9], [3, 2, 1]].map(Input::tokens);
    /// let unchanged = model.baselines(&inputs)?;
    /// let change = Change::Ablate { head: "1.3".parse()?, to: Ablation::Zero };
    /// let changed = model.pass().change(change.clone()).after(&unchanged).run_batch(&inputs)?;
    /// assert_eq!(changed.logits(), model.pass().change(change).run_batch(&inputs)?.logits());
    /// # Ok::<(), regard_models::Error>(())
    /// ```
    pub fn baselines(&self, inputs: &[Input]) -> Result<Baseline, Error> {
        let Some(first) = inputs.first() else {
            return Err(Error::Shape("a batch is of at least one input".into()));
        };
        let (keep, plans) = (Keep::default(), [Plan::default()]);
        let mut runner = Runner::new(self, &keep, &plans);
        runner.streams = Some(Streams::default());
        let (trace, streams) = runner.run(inputs)?;
        let (input, others) = (first.clone(), inputs[1..].to_vec());
        Ok(Baseline { input, others, trace, streams: streams.unwrap_or_default() })
    }

    /// The rows \[tokens, width\] that an attention adds to the stream, for outputs z \[tokens, heads · head size\] of its heads.
    pub(crate) fn attention_output(&self, of: &HeadAddress, z: &[f32]) -> Result<Vec<f32>, Error> {
        let stack = match of.attention {
            Which::Encoder => self.weights.encoder.as_ref(),
            Which::Only | Which::Decoder | Which::Cross => Some(&self.weights.stack),
        };
        let missing = || Error::Missing(format!("there is no head {of}"));
        let layer = stack.and_then(|stack| stack.layers.get(of.layer)).ok_or_else(missing)?;
        let (attention, after) = match (of.attention, &layer.cross) {
            (Which::Cross, Some((_, cross))) => (cross, None),
            _ => (&layer.attention, layer.after.as_ref()),
        };
        let mut out = product(&attention.out, z)?;
        let scale = self.description.stack.block.output_scale;
        for x in &mut out {
            *x *= scale;
        }
        match after {
            Some((after, _)) => normed(after, &out),
            None => Ok(out),
        }
    }

    /// Whether the model has a head with a logit for each token.
    pub(crate) fn predicts_tokens(&self) -> bool {
        self.weights.head.is_some() && matches!(self.description.head, OutputHead::Tokens { .. })
    }
}

/// An unchanged run, with which changed runs of the same input begin.
#[derive(Clone, Debug)]
pub struct Baseline {
    pub(crate) input: Input,
    /// The inputs that ran together with it.
    pub(crate) others: Vec<Input>,
    pub(crate) trace: Trace,
    pub(crate) streams: Streams,
}

impl Baseline {
    /// The input; of several, the first.
    pub fn input(&self) -> &Input {
        &self.input
    }

    /// The logits of the unchanged run.
    pub fn logits(&self) -> Option<&Values> {
        self.trace.logits()
    }

    /// The vector \[features\] of the whole input, as [`Trace::pooled`] has it.
    pub fn pooled(&self) -> Option<&Values> {
        self.trace.pooled()
    }
}

/// A forward pass before it runs: [`Model::pass`].
#[derive(Clone, Debug)]
pub struct Pass<'m> {
    pub(crate) model: &'m Model,
    pub(crate) keep: Vec<String>,
    pub(crate) changes: Vec<Change>,
    pub(crate) hooks: Vec<(String, Hook<'m>)>,
    pub(crate) after: Option<&'m Baseline>,
    pub(crate) last_only: bool,
}

impl<'m> Pass<'m> {
    /// Keeps the places that match these patterns, in addition to those that are kept already. `*` stands for any characters;
    /// [`Description::places`] lists the names.
    #[must_use]
    pub fn keep<S: Into<String>>(mut self, patterns: impl IntoIterator<Item = S>) -> Self {
        self.keep.extend(patterns.into_iter().map(Into::into));
        self
    }

    /// Computes the logits of the last position only: [1, vocabulary].
    #[must_use]
    pub fn last_logits(mut self) -> Self {
        self.last_only = true;
        self
    }

    /// Makes a change, in addition to the earlier ones.
    ///
    /// ```
    /// use regard_models::{Ablation, Change, Input, Model};
    /// # let models = concat!(env!("CARGO_MANIFEST_DIR"), "/models");
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

    /// Calls a function at the places that match a pattern, after the changes there. It gets the place, the shape
    /// of its numbers, and the numbers, which it may change. With several inputs, these are a first dimension. If the function
    /// changes the attention's scores or weights, the attention continues with the new ones.
    ///
    /// ```
    /// use regard_models::{Input, Model};
    /// # let models = concat!(env!("CARGO_MANIFEST_DIR"), "/models");
    /// let model = Model::open(format!("{models}/tiny-gpt2"))?;
    /// let input = Input::tokens([7, 8, 9]);
    /// let pass = model.pass().keep(["blocks.1.attn.hook_z"]).hook("blocks.1.attn.hook_pattern", |_, shape, weights| {
    ///     assert_eq!(shape, [4, 3, 3]); // heads, queries, keys
    ///     weights.fill(0.0);
    ///     Ok(())
    /// });
    /// let trace = pass.run(&input)?;
    /// assert!(trace.get("blocks.1.attn.hook_z").unwrap().data.iter().all(|z| *z == 0.0));
    /// # Ok::<(), regard_models::Error>(())
    /// ```
    #[must_use]
    pub fn hook(
        mut self,
        pattern: impl Into<String>,
        call: impl Fn(Place, &[usize], &mut Vec<f32>) -> Result<(), Error> + Send + Sync + 'm,
    ) -> Self {
        self.hooks.push((pattern.into(), Hook(Arc::new(call))));
        self
    }

    /// Begins at the first change, with the stream of an unchanged run of the same input. The result is the same.
    ///
    /// ```
    /// use regard_models::{Ablation, Change, Input, Model};
    /// # let models = concat!(env!("CARGO_MANIFEST_DIR"), "/models");
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
    /// [`Error::Place`] for a place, and [`Error::Missing`] for a head, a position or a token that the model or the input does
    /// not have; [`Error::Shape`] if the input or a change does not fit the model, or if the unchanged run has another input;
    /// [`Error::Range`] for more tokens than the model has positions, or an invalid temperature; [`Error::Unsupported`] for a
    /// part that a model of this family does not have.
    pub fn run(&self, input: &Input) -> Result<Trace, Error> {
        let plans = [Plan::new(&self.changes, self.model, input)?];
        self.run_together(from_ref(input), &plans)
    }

    /// Runs the model on several inputs of equal length together, which is faster than one after another: weights are read
    /// once for all of them. The kept places and the logits have the inputs as a first dimension.
    ///
    /// # Errors
    /// The errors of [`run`](Self::run); and [`Error::Shape`] if the inputs have different lengths, or if there is none.
    ///
    /// ```
    /// use regard_models::{Input, Model};
    /// # let models = concat!(env!("CARGO_MANIFEST_DIR"), "/models");
    /// let model = Model::open(format!("{models}/tiny-gpt2"))?;
    /// let inputs = [[7, 8, 9], [3, 2, 1]].map(Input::tokens);
    /// let together = model.pass().run_batch(&inputs)?;
    /// let logits = together.logits().unwrap(); // [inputs, tokens, vocabulary]
    /// let second = model.pass().run(&inputs[1])?;
    /// let second = second.logits().unwrap();
    /// assert_eq!(logits.data[second.data.len()..], second.data);
    /// # Ok::<(), regard_models::Error>(())
    /// ```
    pub fn run_batch(&self, inputs: &[Input]) -> Result<Trace, Error> {
        if inputs.is_empty() {
            return Err(Error::Shape("a batch is of at least one input".into()));
        }
        self.run_together(inputs, &Plan::for_each(&self.changes, self.model, inputs)?)
    }

    fn run_together(&self, inputs: &[Input], plans: &[Plan]) -> Result<Trace, Error> {
        let keep = Keep::new(&self.keep, self.model)?;
        let mut hooks: BTreeMap<Place, Vec<&Hook<'_>>> = BTreeMap::new();
        for (pattern, hook) in &self.hooks {
            for place in named(from_ref(pattern), &self.model.places)? {
                hooks.entry(place).or_default().push(hook);
            }
        }
        let mut runner = Runner::new(self.model, &keep, plans);
        runner.hooks = hooks;
        runner.last_only = self.last_only && !self.model.description.reads_all();
        if let Some(after) = self.after {
            if !once(&after.input).chain(&after.others).eq(inputs) {
                return Err(Error::Shape("the unchanged run is one of another input".into()));
            }
            runner.from = Some(&after.streams);
        }
        Ok(runner.run(inputs)?.0)
    }
}
