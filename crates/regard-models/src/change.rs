//! Changes of a forward pass, which are plain values that a file can hold, and the plan that a run makes of them.

use core::fmt;
use core::slice::from_ref;
use core::str::FromStr;
use std::collections::{BTreeMap, BTreeSet};

use regard::Temperature;
use serde::{Deserialize, Serialize};

use crate::{
    AttentionPlace, Description, Error, Input, LayerPlace, Model, Place, Placement, Stack,
    StackName, StreamPlace, Trace, Values,
};

/// A head: `3.5` is head 5 of layer 3, counted from 0. A model with an encoder and a decoder has `encoder.3.5`, `decoder.3.5`
/// and, for the attention from decoder to encoder, `cross.3.5`.
///
/// ```
/// use regard_models::HeadAddress;
/// let head: HeadAddress = "cross.3.5".parse()?;
/// assert_eq!(head.place(regard_models::AttentionPlace::Output).to_string(), "decoder.3.cross_attn.hook_z");
/// # Ok::<(), regard_models::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct HeadAddress {
    /// Which attention of the layer.
    pub attention: Which,
    /// The layer, from 0.
    pub layer: usize,
    /// The query head, from 0.
    pub head: usize,
}

/// The kind of an attention in a model's layers.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Which {
    /// The attention of a model of one stack.
    #[default]
    Only,
    /// The attention of an encoder.
    Encoder,
    /// The attention of a decoder over its own tokens.
    Decoder,
    /// The attention of a decoder over the encoder's output.
    Cross,
}

impl Which {
    /// The stack whose layers have this attention.
    pub const fn stack(self) -> StackName {
        match self {
            Self::Only => StackName::Only,
            Self::Encoder => StackName::Encoder,
            Self::Decoder | Self::Cross => StackName::Decoder,
        }
    }

    /// What belongs to the queries and to the keys of this attention, of what belongs to the tokens of a model of one stack or of
    /// an encoder, and to those of a decoder.
    ///
    /// ```
    /// assert_eq!(regard_models::Which::Cross.sides(["encoder", "decoder"]), ["decoder", "encoder"]);
    /// ```
    pub fn sides<T: Copy>(self, [first, second]: [T; 2]) -> [T; 2] {
        match self {
            Self::Only | Self::Encoder => [first, first],
            Self::Decoder => [second, second],
            Self::Cross => [second, first],
        }
    }

    /// A place of this attention in a layer.
    ///
    /// ```
    /// use regard_models::{AttentionPlace, Which};
    /// let weights = Which::Only.place(3, AttentionPlace::Pattern); // [heads, queries, keys]
    /// assert_eq!(weights.to_string(), "blocks.3.attn.hook_pattern");
    /// ```
    pub fn place(self, layer: usize, place: AttentionPlace) -> Place {
        let place = match self {
            Self::Cross => LayerPlace::Cross(place),
            Self::Only | Self::Encoder | Self::Decoder => LayerPlace::Attention(place),
        };
        self.stack().place(layer, place)
    }
}

impl HeadAddress {
    /// A place of the head's attention.
    pub fn place(&self, place: AttentionPlace) -> Place {
        self.attention.place(self.layer, place)
    }

    /// The place of the attention's output before the output projection.
    fn z(&self) -> Place {
        self.place(AttentionPlace::Output)
    }

    /// The numbers of queries and of keys of the head, among which a query and a key must be.
    ///
    /// # Errors
    /// The error begins with `what`.
    pub(crate) fn edges_with(
        &self,
        model: &Model,
        input: &Input,
        [query, key]: [usize; 2],
        what: &str,
    ) -> Result<[usize; 2], Error> {
        let [queries, keys] = self.edges(model, input);
        if query < queries && key < keys {
            return Ok([queries, keys]);
        }
        let of_queries = if queries == 1 { "query" } else { "queries" };
        let of_keys = if keys == 1 { "key" } else { "keys" };
        let has = format!("head {self} has {queries} {of_queries} and {keys} {of_keys}");
        Err(Error::Missing(format!("{what}: {has}")))
    }

    /// The numbers of queries and of keys of the head.
    fn edges(&self, model: &Model, input: &Input) -> [usize; 2] {
        self.attention.sides(lengths(input, model))
    }

    /// The stack of the head, if the model has this head.
    pub(crate) fn check<'d>(&self, description: &'d Description) -> Result<&'d Stack, Error> {
        let name = self.attention.stack();
        let Some((_, stack)) = description.stacks().find(|(own, _)| *own == name) else {
            let known = if description.encoder.is_some() {
                "encoder, decoder and cross"
            } else {
                "one stack"
            };
            return Err(Error::Missing(format!("there is no head {self}: the model has {known}")));
        };
        let (layers, heads) = (stack.layers(), stack.block.heads);
        if self.layer >= layers || self.head >= heads {
            let last =
                Self { layer: layers.saturating_sub(1), head: heads.saturating_sub(1), ..*self };
            return Err(Error::Missing(format!(
                "there is no head {self}: there are {layers} layers of {heads} heads, and both count from 0, so the last one is {last}"
            )));
        }
        Ok(stack)
    }
}

impl fmt::Display for HeadAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.attention {
            Which::Only => "",
            Which::Encoder => "encoder.",
            Which::Decoder => "decoder.",
            Which::Cross => "cross.",
        })?;
        write!(f, "{}.{}", self.layer, self.head)
    }
}

impl FromStr for HeadAddress {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let wrong = || {
            Error::Missing(format!(
                "{text:?} is no head: a head is written LAYER.HEAD, such as 3.5"
            ))
        };
        let (attention, rest) = match text.split_once('.').ok_or_else(wrong)? {
            ("encoder", rest) => (Which::Encoder, rest),
            ("decoder", rest) => (Which::Decoder, rest),
            ("cross", rest) => (Which::Cross, rest),
            _ => (Which::Only, text),
        };
        let (layer, head) = rest.split_once('.').ok_or_else(wrong)?;
        let number = |text: &str| text.parse().map_err(|_e| wrong());
        Ok(Self { attention, layer: number(layer)?, head: number(head)? })
    }
}

impl From<HeadAddress> for String {
    fn from(head: HeadAddress) -> Self {
        head.to_string()
    }
}

impl TryFrom<String> for HeadAddress {
    type Error = Error;

    fn try_from(text: String) -> Result<Self, Error> {
        text.parse()
    }
}

/// A change of a forward pass. Everything after the changed place follows from it.
///
/// ```
/// use regard_models::Change;
/// let change: Change = serde_json::from_str(r#"{"ablate": {"head": "0.3", "to": "zero"}}"#)?;
/// assert_eq!(change, Change::Ablate { head: "0.3".parse()?, to: regard_models::Ablation::Zero });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Change {
    /// Replaces a head's output (weights · values, before the output projection) by the same numbers at all positions.
    Ablate {
        /// The head.
        head: HeadAddress,
        /// The new output.
        to: Ablation,
    },
    /// Divides a head's scores by a temperature of its own before softmax. 0 and ∞ are exact limits.
    Temperature {
        /// The head.
        head: HeadAddress,
        /// The temperature, 0 or above. JSON has ∞ as the string `"inf"`.
        #[serde(with = "temperature")]
        temperature: f32,
    },
    /// Hides a key from a query in one head.
    Cut {
        /// The head.
        head: HeadAddress,
        /// The query's position.
        query: usize,
        /// The key's position.
        key: usize,
    },
    /// Replaces a place at a position by its numbers in the run on another input (activation patching).
    Patch {
        /// One of [`Description::places`].
        place: Place,
        /// The position in both inputs.
        position: usize,
        /// The other input, with the same number of tokens.
        from: Input,
    },
    /// Replaces a head's output (weights · values) at a position by that in the run on another input.
    PatchHead {
        /// The head.
        head: HeadAddress,
        /// The position in both inputs, or all of them.
        position: Option<usize>,
        /// The other input, with the same number of tokens.
        from: Input,
    },
    /// Lets a later place read a head's output from the run on another input, while all parts between them stay the same
    /// (direct path patching, Wang et al. 2022). The difference between what the two outputs add to the stream is added to the
    /// place.
    Path {
        /// The head that sends.
        head: HeadAddress,
        /// The place that receives, after the head in the same stack: the stream that heads read (`hook_q_input`, `hook_k_input` or
        /// `hook_v_input`), the one that a feed-forward layer reads (`hook_mlp_in`), or the residual stream.
        place: Place,
        /// The head of `hook_q_input`, or the key/value head of the other two, that receives; all of them if there is none.
        to: Option<usize>,
        /// The other input, with the same number of tokens.
        from: Input,
    },
    /// Adds a vector to a place.
    Add {
        /// One of [`Description::places`].
        place: Place,
        /// The position, or all of them.
        position: Option<usize>,
        /// The vector, with as many numbers as the place has for a token.
        vector: Vec<f32>,
    },
}

/// A temperature in a file: JSON has no number ∞.
pub(crate) mod temperature {
    use serde::{Deserialize as _, Deserializer, Serializer, de};

    #[derive(serde::Deserialize)]
    #[serde(untagged)]
    enum Form {
        Number(f32),
        Text(String),
    }

    pub(crate) fn serialize<S: Serializer>(value: &f32, serializer: S) -> Result<S::Ok, S::Error> {
        if value.is_finite() {
            serializer.serialize_f32(*value)
        } else {
            serializer.collect_str(value)
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<f32, D::Error> {
        match Form::deserialize(from)? {
            Form::Number(number) => Ok(number),
            Form::Text(text) => text.parse().map_err(de::Error::custom),
        }
    }
}

/// The output that replaces that of an ablated head.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Ablation {
    /// Zeros.
    Zero,
    /// The mean of its output over the positions of the same run.
    Mean,
    /// The mean of its output over the positions of another input.
    MeanOf(Input),
}

/// The changes of a run, prepared for it.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// The changes inside attentions, by attention and layer.
    attentions: BTreeMap<(Which, usize), AttentionChanges>,
    /// The changes of each place, in the order in which they were given.
    places: BTreeMap<Place, Vec<PlaceChange>>,
    /// Whether a run of later tokens gives the same result from cached keys and values as a run of all tokens.
    pub(crate) cacheable: bool,
}

#[derive(Debug, Default)]
pub(crate) struct AttentionChanges {
    pub(crate) temperatures: Vec<(usize, Temperature)>,
    /// Head, query and key.
    pub(crate) cuts: Vec<[usize; 3]>,
}

impl AttentionChanges {
    pub(crate) fn is_empty(&self) -> bool {
        self.temperatures.is_empty() && self.cuts.is_empty()
    }

    /// \[heads, queries, keys\]: whether an edge is not cut. `first` is the position of the first query in the text.
    pub(crate) fn uncut(&self, first: usize, [heads, queries, keys]: [usize; 3]) -> Vec<bool> {
        let mut uncut = vec![true; heads * queries * keys];
        for [head, query, key] in &self.cuts {
            let query = query.checked_sub(first).filter(|query| *query < queries);
            let cell = query.map(|query| (head * queries + query) * keys + key);
            if let Some(uncut) = cell.and_then(|cell| uncut.get_mut(cell)) {
                *uncut = false;
            }
        }
        uncut
    }
}

#[derive(Clone, Debug)]
enum PlaceChange {
    /// A head's part of each row becomes these numbers, or the mean over the rows.
    Head { head: usize, to: Option<Vec<f32>> },
    /// The numbers of a row from `start` on are replaced.
    Replace { position: usize, start: usize, numbers: Vec<f32> },
    /// A vector is added to a row or to all rows: to the whole row, or to the numbers from `start` on.
    Add { position: Option<usize>, start: Option<usize>, vector: Vec<f32> },
}

impl Plan {
    /// The changes, checked against the model and the input. Runs the other inputs that they refer to.
    pub(crate) fn new(changes: &[Change], model: &Model, input: &Input) -> Result<Self, Error> {
        Self::of(changes, input, &Others::run(changes, model, from_ref(input))?)
    }

    /// The changes for each of several inputs. Each other input that they refer to runs once for all of them.
    pub(crate) fn for_each(
        changes: &[Change],
        model: &Model,
        inputs: &[Input],
    ) -> Result<Vec<Self>, Error> {
        let others = Others::run(changes, model, inputs)?;
        inputs.iter().map(|input| Self::of(changes, input, &others)).collect()
    }

    /// A plan for each change alone. Each other input that they refer to runs once for all of them.
    pub(crate) fn each(
        changes: &[Change],
        model: &Model,
        input: &Input,
    ) -> Result<Vec<Self>, Error> {
        let others = Others::run(changes, model, from_ref(input))?;
        changes.chunks(1).map(|change| Self::of(change, input, &others)).collect()
    }

    fn of(changes: &[Change], input: &Input, others: &Others<'_>) -> Result<Self, Error> {
        let mut plan = Self { cacheable: true, ..Self::default() };
        for change in changes {
            plan.add(change, input, others)?;
        }
        Ok(plan)
    }

    fn add(&mut self, change: &Change, input: &Input, others: &Others<'_>) -> Result<(), Error> {
        let model = others.model;
        let description = model.description();
        // In another stack, positions are not counted from the cached tokens.
        let has_one_stack = description.encoder.is_none();
        let refuse = |what: String| Err(Error::Missing(what));
        match change {
            Change::Ablate { head, to } => {
                let size = head.check(description)?.block.head_size;
                let place = head.z();
                let to = match to {
                    Ablation::Zero => Some(vec![0.0; size]),
                    Ablation::Mean => None,
                    Ablation::MeanOf(other) => {
                        let z = others.get(other, place)?;
                        Some(mean(&z.data, z.data.len() / z.shape[0], head.head, size))
                    }
                };
                self.cacheable &= to.is_some();
                self.push(place, PlaceChange::Head { head: head.head, to });
            }
            Change::Temperature { head, temperature } => {
                head.check(description)?;
                let temperature = Temperature::new(*temperature)
                    .map_err(|e| Error::Range(format!("the temperature of head {head}: {e}")))?;
                let changes = self.attentions.entry((head.attention, head.layer)).or_default();
                changes.temperatures.push((head.head, temperature));
            }
            Change::Cut { head, query, key } => {
                let stack = head.check(description)?;
                let what = format!("there is no edge {query},{key} to cut");
                head.edges_with(model, input, [*query, *key], &what)?;
                if stack.hides(head, *query, *key).is_some() {
                    return refuse(format!(
                        "query {query} of head {head} does not see key {key}: there is nothing to cut"
                    ));
                }
                self.cacheable &= has_one_stack;
                let changes = self.attentions.entry((head.attention, head.layer)).or_default();
                changes.cuts.push([head.head, *query, *key]);
            }
            Change::Patch { place, position, from } => {
                changeable(description, *place)?;
                let row = others.row(from, *place, *position, input)?;
                self.cacheable &= has_one_stack;
                let (position, numbers) = (*position, row.to_vec());
                self.push(*place, PlaceChange::Replace { position, start: 0, numbers });
            }
            Change::PatchHead { head, position, from } => {
                let size = head.check(description)?.block.head_size;
                let (place, start) = (head.z(), head.head * size);
                let positions = position.map_or(0..head.edges(model, input)[0], |at| at..at + 1);
                for position in positions {
                    let row = others.row(from, place, position, input)?;
                    let numbers = row[start..start + size].to_vec();
                    self.push(place, PlaceChange::Replace { position, start, numbers });
                }
                self.cacheable &= has_one_stack;
            }
            Change::Path { head, place, to, from } => {
                let count = receivers(model, head, *place, *to)?;
                self.cacheable &= has_one_stack;
                let width = description.width;
                let added = others.difference(head, from, input)?;
                for (position, vector) in added.chunks_exact(width).enumerate() {
                    for to in to.map_or(0..count, |to| to..to + 1) {
                        let (position, start) = (Some(position), Some(to * width));
                        let vector = vector.to_vec();
                        self.push(*place, PlaceChange::Add { position, start, vector });
                    }
                }
            }
            Change::Add { place, position, vector } => {
                changeable(description, *place)?;
                self.cacheable &= has_one_stack || position.is_none();
                let (position, vector) = (*position, vector.clone());
                self.push(*place, PlaceChange::Add { position, start: None, vector });
            }
        }
        Ok(())
    }

    fn push(&mut self, place: Place, change: PlaceChange) {
        self.places.entry(place).or_default().push(change);
    }

    pub(crate) fn changes(&self, place: Place) -> bool {
        self.places.contains_key(&place)
    }

    /// Whether two runs go through the layers together, which they do if their first changes are in the same layer.
    pub(crate) fn go_together(&self, other: &Self) -> bool {
        StackName::ALL.iter().all(|stack| self.first_layer(*stack) == other.first_layer(*stack))
    }

    /// Whether heads read streams of their own. Each run then has a copy of the stream for each head.
    pub(crate) fn splits_inputs(&self) -> bool {
        let splits = |place: &Place| {
            use AttentionPlace::{KeyIn, QueryIn, ValueIn};
            matches!(place.of_attention(), Some(QueryIn | KeyIn | ValueIn))
        };
        self.places.keys().any(splits)
    }

    /// The changes inside an attention of a layer.
    pub(crate) fn attention(&self, of: (Which, usize)) -> &AttentionChanges {
        const NONE: &AttentionChanges =
            &AttentionChanges { temperatures: Vec::new(), cuts: Vec::new() };
        self.attentions.get(&of).unwrap_or(NONE)
    }

    /// The first layer of a stack in which anything changes, or `None` if nothing does.
    pub(crate) fn first_layer(&self, stack: StackName) -> Option<usize> {
        self.layers(stack).min()
    }

    /// The layers of a stack in which anything changes.
    pub(crate) fn layers(&self, stack: StackName) -> impl Iterator<Item = usize> {
        let attentions = self.attentions.keys().filter(move |(which, _)| which.stack() == stack);
        let places = self.places.keys().filter_map(move |place| place.layer_of(stack));
        attentions.map(|(_, layer)| *layer).chain(places)
    }

    /// Whether anything changes before the layers.
    pub(crate) fn changes_embedding(&self) -> bool {
        self.places.keys().any(|place| matches!(place, Place::Embedding(_)))
    }

    /// Changes the numbers \[positions, …\] of a place, the first of which is the position `first` of the text. Changes of earlier
    /// positions are in what is cached.
    pub(crate) fn apply(
        &self,
        place: Place,
        first: usize,
        shape: &[usize],
        data: &mut [f32],
    ) -> Result<(), Error> {
        let Some(changes) = self.places.get(&place) else { return Ok(()) };
        let rows = shape.first().copied().unwrap_or(0);
        let len = data.len().checked_div(rows).unwrap_or(0);
        for change in changes {
            match change {
                PlaceChange::Head { head, to } => {
                    let size = shape.last().copied().unwrap_or(0);
                    let vector = to.clone().unwrap_or_else(|| mean(data, len, *head, size));
                    for row in data.chunks_exact_mut(len) {
                        row[head * size..(head + 1) * size].copy_from_slice(&vector);
                    }
                }
                PlaceChange::Replace { position, start, numbers } => {
                    let Some(row) = position.checked_sub(first) else { continue };
                    data[row * len + start..][..numbers.len()].copy_from_slice(numbers);
                }
                PlaceChange::Add { position, start, vector } => {
                    let fits = start.is_some() || vector.len() == len;
                    if !fits || position.is_some_and(|position| position >= first + rows) {
                        let (found, at) = (vector.len(), position.unwrap_or(0));
                        return Err(Error::Shape(format!(
                            "{found} numbers at position {at} cannot be added to {place}, which has {} positions of {len}",
                            first + rows
                        )));
                    }
                    let changed = match position {
                        Some(position) => match position.checked_sub(first) {
                            Some(row) => row..row + 1,
                            None => continue,
                        },
                        None => 0..rows,
                    };
                    for row in changed {
                        let row = &mut data[row * len + start.unwrap_or(0)..][..vector.len()];
                        row.iter_mut().zip(vector).for_each(|(x, y)| *x += y);
                    }
                }
            }
        }
        Ok(())
    }
}

/// The mean over positions of a head's part of rows of `len`, in `f64`.
pub(crate) fn mean(data: &[f32], len: usize, head: usize, size: usize) -> Vec<f32> {
    let mut sums = vec![0.0_f64; size];
    let rows = data.chunks_exact(len.max(1));
    let count = rows.len().max(1) as f64;
    for row in rows {
        for (sum, x) in sums.iter_mut().zip(&row[head * size..(head + 1) * size]) {
            *sum += f64::from(*x);
        }
    }
    sums.iter().map(|sum| (sum / count) as f32).collect()
}

/// The number of heads that can receive at a place; 1 if there is one stream for all.
fn receivers(
    model: &Model,
    head: &HeadAddress,
    place: Place,
    to: Option<usize>,
) -> Result<usize, Error> {
    let refuse = |what: String| Err(Error::Missing(what));
    let description = model.description();
    let stack = head.check(description)?;
    changeable(description, place)?;
    if stack.block.placement == Placement::After {
        let what = "a path is a sum of the stream: each layer's sum goes through a norm";
        return Err(Error::Unsupported(what.into()));
    }
    let count = match place.in_layer() {
        Some(LayerPlace::Attention(place)) => stack.block.readers(place),
        Some(LayerPlace::Stream(
            StreamPlace::FeedForwardIn
            | StreamPlace::Pre
            | StreamPlace::Mid
            | StreamPlace::MidCross
            | StreamPlace::Post,
        )) => Some(1),
        _ => None,
    };
    let Some(count) = count else {
        let what = format!("a path ends where the residual stream is read, not at {place}");
        return refuse(what);
    };
    let places = description.places();
    let at = |wanted: Place| places.iter().position(|place| *place == wanted);
    let sent = match head.attention {
        Which::Cross => StreamPlace::CrossAttentionOut,
        Which::Only | Which::Encoder | Which::Decoder => StreamPlace::AttentionOut,
    };
    let (own, layer) = (head.attention.stack(), head.layer);
    let is_after = at(place) > at(own.place(layer, sent)) && place.layer_of(own).is_some();
    // Parallel layers read one stream.
    let is_parallel = stack.block.parallel && place.layer_of(own) == Some(layer);
    if !is_after || is_parallel && place == own.place(layer, StreamPlace::FeedForwardIn) {
        return refuse(format!("{place} is not after head {head}, from which a path would come"));
    }
    if to.is_some_and(|to| to >= count) {
        let to = to.unwrap_or(0);
        return refuse(format!("there is no head {to} at {place}, which has {count}"));
    }
    Ok(count)
}

impl Description {
    /// The number of positions of a place, in a run over `tokens` tokens: those of the only stack or of an encoder, and those of a
    /// decoder (0 without one). A decoder's keys and values of the attention to the encoder have the encoder's positions.
    ///
    /// ```
    /// use regard_models::{Checkpoint, Description};
    /// # let models = concat!(env!("CARGO_MANIFEST_DIR"), "/models");
    /// let t5 = Description::of(&Checkpoint::open(format!("{models}/tiny-t5"))?)?;
    /// assert_eq!(t5.positions_at("encoder.0.hook_resid_pre".parse()?, [9, 4]), 9);
    /// assert_eq!(t5.positions_at("decoder.0.hook_resid_pre".parse()?, [9, 4]), 4);
    /// assert_eq!(t5.positions_at("decoder.0.cross_attn.hook_k".parse()?, [9, 4]), 9);
    /// # Ok::<(), regard_models::Error>(())
    /// ```
    pub fn positions_at(&self, place: Place, [first, second]: [usize; 2]) -> usize {
        use AttentionPlace::{Key, Value};
        match place {
            Place::Layer { place: LayerPlace::Cross(Key | Value), .. } => first,
            Place::Layer { stack: StackName::Decoder, .. }
            | Place::FinalNorm(StackName::Decoder, _) => second,
            _ => first,
        }
    }
}

/// Whether numbers of a place can be changed.
fn changeable(description: &Description, place: Place) -> Result<(), Error> {
    let places = description.places();
    if !places.contains(&place) {
        return Err(Error::place(&place.to_string(), places));
    }
    if matches!(place.of_attention(), Some(AttentionPlace::Scores | AttentionPlace::Pattern)) {
        let what = format!(
            "{place} can be read, but not set: a head's temperature changes it, and a cut edge"
        );
        return Err(Error::Unsupported(what));
    }
    Ok(())
}

/// The other inputs of the changes, each with the places of its unchanged run that the changes need.
struct Others<'c> {
    model: &'c Model,
    runs: Vec<(&'c Input, Trace)>,
}

impl<'c> Others<'c> {
    /// Runs each of the other inputs once. `inputs` are the inputs that are changed.
    fn run(changes: &'c [Change], model: &'c Model, inputs: &'c [Input]) -> Result<Self, Error> {
        let known = model.description().places();
        let mut wanted: Vec<(&Input, BTreeSet<Place>)> = Vec::new();
        for change in changes {
            let (from, place) = match change {
                Change::Ablate { head, to: Ablation::MeanOf(from) }
                | Change::PatchHead { head, from, .. }
                | Change::Path { head, from, .. } => (from, head.z()),
                Change::Patch { place, from, .. } => (from, *place),
                _ => continue,
            };
            if !known.contains(&place) {
                continue; // the change is refused when it is planned
            }
            let own = if matches!(change, Change::Path { .. }) { inputs } else { &[] };
            for from in own.iter().chain([from]) {
                match wanted.iter_mut().find(|(input, _)| *input == from) {
                    Some((_, places)) => _ = places.insert(place),
                    None => wanted.push((from, BTreeSet::from([place]))),
                }
            }
        }
        let run = |(input, places)| Ok((input, model.pass().keep(places).run(input)?));
        let runs = wanted.into_iter().map(run).collect::<Result<_, Error>>()?;
        Ok(Self { model, runs })
    }

    fn get(&self, input: &Input, place: Place) -> Result<&Values, Error> {
        let trace = self.runs.iter().find(|(other, _)| *other == input).map(|(_, trace)| trace);
        let values = trace.and_then(|trace| trace.at(place));
        values.ok_or_else(|| Error::place(&place.to_string(), self.model.description().places()))
    }

    /// A place in the run of an input that has as many tokens as `input`.
    fn alike(&self, from: &Input, place: Place, input: &Input) -> Result<&Values, Error> {
        let (found, expected) = (lengths(from, self.model), lengths(input, self.model));
        if found != expected {
            let counts = |[first, second]: [usize; 2]| match second {
                0 => first.to_string(),
                second => format!("{first} and {second}"),
            };
            return Err(Error::Shape(format!(
                "the text that patches come from has {} tokens, but the text has {}: a patch needs as many tokens",
                counts(found),
                counts(expected)
            )));
        }
        self.get(from, place)
    }

    /// The row of a place at a position in the run of an input that has as many tokens as `input`.
    fn row(
        &self,
        from: &Input,
        place: Place,
        position: usize,
        input: &Input,
    ) -> Result<&[f32], Error> {
        let values = self.alike(from, place, input)?;
        let (rows, len) = (values.shape[0], values.data.len() / values.shape[0].max(1));
        if position >= rows {
            return Err(Error::Missing(format!(
                "there is no position {position} to patch: {place} has {rows}"
            )));
        }
        Ok(&values.data[position * len..(position + 1) * len])
    }

    /// The difference between what the head adds to the stream \[tokens, width\] in the run on `from` and in that on `input`.
    fn difference(
        &self,
        head: &HeadAddress,
        from: &Input,
        input: &Input,
    ) -> Result<Vec<f32>, Error> {
        let size = head.check(self.model.description())?.block.head_size;
        let place = head.z();
        let (other, own) = (self.alike(from, place, input)?, self.get(input, place)?);
        let len = own.data.len() / own.shape[0].max(1);
        let mut changed = own.data.clone();
        for (row, other) in changed.chunks_exact_mut(len).zip(other.data.chunks_exact(len)) {
            let features = head.head * size..(head.head + 1) * size;
            row[features.clone()].copy_from_slice(&other[features]);
        }
        let output = |z: &[f32]| self.model.attention_output(head, z);
        let (mut added, own) = (output(&changed)?, output(&own.data)?);
        added.iter_mut().zip(own).for_each(|(x, y)| *x -= y);
        Ok(added)
    }
}

/// The numbers of tokens of both stacks.
fn lengths(input: &Input, model: &Model) -> [usize; 2] {
    [model.tokens(input), input.decoder_ids.len()]
}
