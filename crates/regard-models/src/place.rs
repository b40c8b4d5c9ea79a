//! The places of a forward pass, under the names that TransformerLens gives them.

use core::fmt;
use core::str::FromStr;
use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::{Description, Error, Model, Placement, Stack, Which};

/// An enumeration whose values have names.
macro_rules! named {
    ($(#[$doc:meta])* $name:ident { $($(#[$own:meta])* $value:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum $name { $($(#[$own])* $value,)* }

        impl $name {
            pub(crate) const ALL: &[Self] = &[$(Self::$value,)*];

            pub(crate) const fn name(self) -> &'static str {
                match self { $(Self::$value => $text,)* }
            }
        }
    };
}

named! {
    /// A stack of layers of a model.
    StackName {
        /// The stack of a model that has no other.
        Only = "blocks",
        /// The encoder of a model that has both.
        Encoder = "encoder",
        /// The decoder of a model that has both.
        Decoder = "decoder",
    }
}

named! {
    /// A place before the layers, of a model that has one stack: \[tokens, width\].
    EmbeddingPlace {
        /// The vectors of the tokens or patches.
        Tokens = "hook_embed",
        /// The learned vectors of the positions.
        Positions = "hook_pos_embed",
    }
}

named! {
    /// A place of the residual stream in a layer, or of a sublayer's output: \[tokens, width\].
    StreamPlace {
        /// The stream that enters the layer.
        Pre = "hook_resid_pre",
        /// The output of the attention.
        AttentionOut = "hook_attn_out",
        /// The stream after the attention.
        Mid = "hook_resid_mid",
        /// The output of the attention to the encoder.
        CrossAttentionOut = "hook_cross_attn_out",
        /// The stream after that attention.
        MidCross = "hook_resid_mid_cross",
        /// The stream that the feed-forward layer reads, before its norm.
        FeedForwardIn = "hook_mlp_in",
        /// The output of the feed-forward layer.
        FeedForwardOut = "hook_mlp_out",
        /// The stream after both sums.
        Post = "hook_resid_post",
        /// The stream after the norm of the last sum (BERT).
        NormedPost = "hook_normalized_resid_post",
    }
}

named! {
    /// A place of an attention.
    AttentionPlace {
        /// The stream that each query head reads, before the norm: \[tokens, heads, width\].
        QueryIn = "hook_q_input",
        /// The stream that each key head reads: \[tokens, key/value heads, width\].
        KeyIn = "hook_k_input",
        /// The stream that each value head reads: \[tokens, key/value heads, width\].
        ValueIn = "hook_v_input",
        /// The queries: \[tokens, heads, head size\].
        Query = "hook_q",
        /// The keys: \[tokens, key/value heads, head size\].
        Key = "hook_k",
        /// The values: \[tokens, key/value heads, head size\].
        Value = "hook_v",
        /// The queries after their norm.
        NormedQuery = "hook_q_normed",
        /// The keys after their norm.
        NormedKey = "hook_k_normed",
        /// The queries after the rotary embedding.
        TurnedQuery = "hook_rot_q",
        /// The keys after the rotary embedding.
        TurnedKey = "hook_rot_k",
        /// The scores before the softmax: \[heads, queries, keys\]. Masked ones are −∞.
        Scores = "hook_attn_scores",
        /// The weights after the softmax: \[heads, queries, keys\].
        Pattern = "hook_pattern",
        /// Weights times values: \[tokens, heads, head size\].
        Output = "hook_z",
        /// What each head adds to the attention's output: \[tokens, heads, width\].
        Result = "hook_result",
    }
}

impl AttentionPlace {
    /// The place of the attention's inputs that has this name.
    ///
    /// ```
    /// use regard_models::AttentionPlace;
    /// assert_eq!(AttentionPlace::input("hook_q_input"), Some(AttentionPlace::QueryIn));
    /// assert_eq!(AttentionPlace::input("hook_z"), None);
    /// ```
    pub fn input(name: &str) -> Option<Self> {
        [Self::QueryIn, Self::KeyIn, Self::ValueIn].into_iter().find(|place| place.name() == name)
    }
}

named! {
    /// A place of a feed-forward layer or of a mixture of experts.
    FeedForwardPlace {
        /// For each expert its weight, 0 for those that a token does not take: \[tokens, experts\].
        ExpertWeights = "hook_expert_weights",
        /// The experts that a token takes, the one with the largest weight first: \[tokens, experts used\].
        ExpertIndices = "hook_expert_indices",
        /// The hidden features before the activation: \[tokens, hidden\].
        Pre = "hook_pre",
        /// The numbers that a gate is multiplied by: \[tokens, hidden\].
        PreLinear = "hook_pre_linear",
        /// The hidden features: \[tokens, hidden\].
        Post = "hook_post",
    }
}

named! {
    /// A norm of a layer.
    NormName {
        /// The norm before the attention, or after its sum (BERT).
        First = "ln1",
        /// The norm before the feed-forward layer or after its sum; of a decoder over an encoder, before the attention to it.
        Second = "ln2",
        /// The norm before the feed-forward layer of a decoder over an encoder.
        Third = "ln3",
        /// The norm of the attention's output.
        FirstAfter = "ln1_post",
        /// The norm of the feed-forward layer's output.
        SecondAfter = "ln2_post",
    }
}

named! {
    /// A place of a norm.
    NormPlace {
        /// The divisor: \[tokens, 1\].
        Scale = "hook_scale",
        /// The features before the norm's weights: \[tokens, width\].
        Normalized = "hook_normalized",
        /// The features after them: \[tokens, width\].
        Out = "hook_out",
    }
}

/// A place in a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum LayerPlace {
    /// The residual stream, or a sublayer's output.
    Stream(StreamPlace),
    /// The attention over the stack's own tokens.
    Attention(AttentionPlace),
    /// The attention to the encoder's output.
    Cross(AttentionPlace),
    /// The feed-forward layer.
    FeedForward(FeedForwardPlace),
    /// A norm.
    Norm(NormName, NormPlace),
}

impl LayerPlace {
    /// The place of this name, without the layer's.
    fn named(name: &str) -> Option<Self> {
        fn find<T: Copy>(all: &[T], is_it: impl Fn(T) -> bool) -> Option<T> {
            all.iter().copied().find(|value| is_it(*value))
        }
        let Some((part, name)) = name.split_once('.') else {
            return find(StreamPlace::ALL, |place| place.name() == name).map(Self::Stream);
        };
        let attention = || find(AttentionPlace::ALL, |place| place.name() == name);
        match part {
            "attn" => attention().map(Self::Attention),
            "cross_attn" => attention().map(Self::Cross),
            "mlp" => find(FeedForwardPlace::ALL, |x| x.name() == name).map(Self::FeedForward),
            _ => {
                let norm = find(NormName::ALL, |norm| norm.name() == part)?;
                Some(Self::Norm(norm, find(NormPlace::ALL, |place| place.name() == name)?))
            }
        }
    }

    /// All places that a layer of some model has.
    fn all() -> impl Iterator<Item = Self> {
        let stream = StreamPlace::ALL.iter().copied().map(Self::Stream);
        let attention = AttentionPlace::ALL.iter();
        let attention = attention.flat_map(|place| [Self::Attention(*place), Self::Cross(*place)]);
        let feed_forward = FeedForwardPlace::ALL.iter().copied().map(Self::FeedForward);
        let norms = NormName::ALL
            .iter()
            .flat_map(|norm| NormPlace::ALL.iter().map(move |place| Self::Norm(*norm, *place)));
        stream.chain(attention).chain(feed_forward).chain(norms)
    }
}

impl fmt::Display for LayerPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (part, name) = match self {
            Self::Stream(place) => return f.write_str(place.name()),
            Self::Attention(place) => ("attn", place.name()),
            Self::Cross(place) => ("cross_attn", place.name()),
            Self::FeedForward(place) => ("mlp", place.name()),
            Self::Norm(norm, place) => (norm.name(), place.name()),
        };
        write!(f, "{part}.{name}")
    }
}

impl From<StreamPlace> for LayerPlace {
    fn from(place: StreamPlace) -> Self {
        Self::Stream(place)
    }
}

impl From<AttentionPlace> for LayerPlace {
    fn from(place: AttentionPlace) -> Self {
        Self::Attention(place)
    }
}

impl From<FeedForwardPlace> for LayerPlace {
    fn from(place: FeedForwardPlace) -> Self {
        Self::FeedForward(place)
    }
}

/// A place of a forward pass, whose name is TransformerLens's.
///
/// Text, JSON and Python have the name. [`Description::places`] lists the places of a model.
///
/// ```
/// use regard_models::{AttentionPlace, Place, StackName};
/// let place = StackName::Only.place(3, AttentionPlace::Pattern);
/// assert_eq!(place.to_string(), "blocks.3.attn.hook_pattern");
/// assert_eq!(place, "blocks.3.attn.hook_pattern".parse()?);
/// assert_eq!(place.layer(), Some(3));
/// # Ok::<(), regard_models::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
#[non_exhaustive]
pub enum Place {
    /// Before the layers.
    Embedding(EmbeddingPlace),
    /// In a layer.
    Layer {
        /// The stack of the layer.
        stack: StackName,
        /// The layer, from 0.
        layer: usize,
        /// The place in the layer.
        place: LayerPlace,
    },
    /// In the norm after a stack's last layer.
    FinalNorm(StackName, NormPlace),
}

impl Place {
    /// The layer, if the place is in one.
    pub fn layer(self) -> Option<usize> {
        match self {
            Self::Layer { layer, .. } => Some(layer),
            Self::Embedding(_) | Self::FinalNorm(..) => None,
        }
    }

    /// The place in its layer, if it is in one.
    pub fn in_layer(self) -> Option<LayerPlace> {
        match self {
            Self::Layer { place, .. } => Some(place),
            Self::Embedding(_) | Self::FinalNorm(..) => None,
        }
    }

    /// The layer, if the place is in one of this stack.
    pub(crate) fn layer_of(self, of: StackName) -> Option<usize> {
        match self {
            Self::Layer { stack, layer, .. } if stack == of => Some(layer),
            _ => None,
        }
    }

    /// The place of an attention, if it is one.
    pub(crate) fn of_attention(self) -> Option<AttentionPlace> {
        match self.in_layer() {
            Some(LayerPlace::Attention(place) | LayerPlace::Cross(place)) => Some(place),
            _ => None,
        }
    }

    /// Whether only a pattern that ends with the place's own name matches it: copies of the stream for each head, or before a
    /// norm, and the outputs of single heads take more memory than all other places.
    fn is_on_request(self) -> bool {
        use AttentionPlace::{KeyIn, QueryIn, Result, ValueIn};
        let of_attention = self.of_attention();
        matches!(of_attention, Some(QueryIn | KeyIn | ValueIn | Result))
            || self.in_layer() == Some(StreamPlace::FeedForwardIn.into())
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Embedding(place) => f.write_str(place.name()),
            Self::Layer { stack, layer, place } => write!(f, "{stack}.{layer}.{place}"),
            Self::FinalNorm(stack, place) => write!(f, "{}.{}", stack.final_norm(), place.name()),
        }
    }
}

impl FromStr for Place {
    type Err = Error;

    /// Reads a name. The error of a wrong one has the most similar name.
    fn from_str(name: &str) -> Result<Self, Error> {
        let outside = EmbeddingPlace::ALL.iter().copied().map(Self::Embedding);
        let norms = StackName::ALL.iter().flat_map(|stack| stack.places_of_final_norm());
        let outside: Vec<Self> = outside.chain(norms).collect();
        if let Some(place) = outside.iter().find(|place| place.to_string() == name) {
            return Ok(*place);
        }
        let mut parts = name.splitn(3, '.');
        let stack = parts
            .next()
            .and_then(|part| StackName::ALL.iter().copied().find(|stack| stack.name() == part));
        let layer = parts.next().and_then(|part| part.parse::<usize>().ok());
        let place = parts.next().and_then(LayerPlace::named);
        if let (Some(stack), Some(layer), Some(place)) = (stack, layer, place) {
            return Ok(stack.place(layer, place));
        }
        let (stack, layer) = (stack.unwrap_or(StackName::Only), layer.unwrap_or(0));
        let near = LayerPlace::all().map(|place| stack.place(layer, place));
        Err(Error::place(name, near.chain(outside)))
    }
}

impl From<Place> for String {
    fn from(place: Place) -> Self {
        place.to_string()
    }
}

impl TryFrom<String> for Place {
    type Error = Error;

    fn try_from(name: String) -> Result<Self, Error> {
        name.parse()
    }
}

impl StackName {
    /// A place in a layer of the stack.
    pub fn place(self, layer: usize, place: impl Into<LayerPlace>) -> Place {
        Place::Layer { stack: self, layer, place: place.into() }
    }

    /// The attention of the stack over its own tokens.
    pub const fn own(self) -> Which {
        match self {
            Self::Only => Which::Only,
            Self::Encoder => Which::Encoder,
            Self::Decoder => Which::Decoder,
        }
    }

    /// The name of the norm after the last layer.
    pub(crate) const fn final_norm(self) -> &'static str {
        match self {
            Self::Only => "ln_final",
            Self::Encoder => "encoder_final_ln",
            Self::Decoder => "decoder_final_ln",
        }
    }

    fn places_of_final_norm(self) -> impl Iterator<Item = Place> {
        NormPlace::ALL.iter().map(move |place| Place::FinalNorm(self, *place))
    }
}

impl fmt::Display for StackName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Stack {
    /// The norm before a layer's feed-forward layer. In a layer with a cross-attention, the second norm is the one before that
    /// attention.
    pub(crate) fn norm_2(&self) -> NormName {
        if self.cross { NormName::Third } else { NormName::Second }
    }

    /// The place at which the residual stream leaves a layer.
    ///
    /// ```
    /// use regard_models::{Checkpoint, Description, StreamPlace};
    /// # let models = concat!(env!("CARGO_MANIFEST_DIR"), "/models");
    /// let bert = Description::of(&Checkpoint::open(format!("{models}/tiny-bert"))?)?;
    /// assert_eq!(bert.stack.layer_output(), StreamPlace::NormedPost);
    /// # Ok::<(), regard_models::Error>(())
    /// ```
    pub fn layer_output(&self) -> StreamPlace {
        match self.block.placement {
            Placement::After => StreamPlace::NormedPost,
            Placement::Before | Placement::Both | Placement::Output => StreamPlace::Post,
        }
    }

    /// The places of a layer, in the order of computation.
    fn places_of(&self, layer: usize) -> impl Iterator<Item = LayerPlace> {
        use {
            AttentionPlace as OutputHead, FeedForwardPlace as WhyHidden, LayerPlace as At,
            StreamPlace as Stream,
        };
        let (block, cross) = (&self.block, self.cross);
        let (turns, experts) = (self.rotary_of(layer).is_some(), self.experts_of(layer).is_some());
        let (before, after) = (block.placement.has_before(), block.placement == Placement::After);
        let bare = layer == 0 && self.begins_bare;
        let (own, normed) = (block.placement.has_after(), block.qk_norm.is_some());
        let norm = |norm, is_there| {
            NormPlace::ALL.iter().map(move |place| (At::Norm(norm, *place), is_there))
        };
        let inputs = [OutputHead::QueryIn, OutputHead::KeyIn, OutputHead::ValueIn];
        let first = [OutputHead::Query, OutputHead::Key, OutputHead::Value];
        let last =
            [OutputHead::Scores, OutputHead::Pattern, OutputHead::Output, OutputHead::Result];
        let mut places = vec![(Stream::Pre.into(), true)];
        places.extend(inputs.map(|place| (place.into(), true)));
        places.extend(norm(NormName::First, before && !bare));
        places.extend(first.map(|place| (place.into(), true)));
        places.extend(
            [OutputHead::NormedQuery, OutputHead::NormedKey].map(|place| (place.into(), normed)),
        );
        places.extend(
            [OutputHead::TurnedQuery, OutputHead::TurnedKey].map(|place| (place.into(), turns)),
        );
        places.extend(last.map(|place| (place.into(), true)));
        places.extend(norm(NormName::FirstAfter, own));
        places.push((Stream::AttentionOut.into(), true));
        places.push((Stream::Mid.into(), !block.parallel));
        places.extend(norm(if after { NormName::First } else { NormName::Second }, cross));
        places.extend(first.into_iter().chain(last).map(|place| (At::Cross(place), cross)));
        places.extend(
            [Stream::CrossAttentionOut, Stream::MidCross].map(|place| (place.into(), cross)),
        );
        places.push((Stream::FeedForwardIn.into(), true));
        let of_sum = if cross { NormName::Second } else { NormName::First };
        places.extend(norm(if after { of_sum } else { self.norm_2() }, before || after));
        places.extend(
            [WhyHidden::ExpertWeights, WhyHidden::ExpertIndices]
                .map(|place| (place.into(), experts)),
        );
        places.push((WhyHidden::Pre.into(), !experts));
        places.push((WhyHidden::PreLinear.into(), block.gated && !experts));
        places.push((WhyHidden::Post.into(), !experts));
        places.extend(norm(NormName::SecondAfter, own));
        places.extend([Stream::FeedForwardOut, Stream::Post].map(|place| (place.into(), true)));
        places.extend(norm(self.norm_2(), after));
        places.push((Stream::NormedPost.into(), after));
        places.into_iter().filter(|(_, is_there)| *is_there).map(|(place, _)| place)
    }
}

/// Whether a pattern names a place.
fn names(pattern: &str, (name, place): &(String, Place)) -> bool {
    let own = || name.rsplit('.').next().unwrap_or_default();
    matches(pattern, name) && (!place.is_on_request() || pattern.ends_with(own()))
}

impl Description {
    /// The stacks in the order of computation.
    pub(crate) fn stacks(&self) -> impl Iterator<Item = (StackName, &Stack)> {
        let encoder = self.encoder.as_ref().map(|encoder| (StackName::Encoder, encoder));
        encoder.into_iter().chain([self.last_stack()])
    }

    /// The stack that the head reads.
    pub(crate) fn last_stack(&self) -> (StackName, &Stack) {
        let name = if self.encoder.is_some() { StackName::Decoder } else { StackName::Only };
        (name, &self.stack)
    }

    /// All places of a forward pass, in the order of computation.
    ///
    /// Their names are TransformerLens's: `blocks.3.attn.hook_pattern`; a model with an encoder and a decoder has `encoder.3.…`,
    /// `decoder.3.…` and `decoder.3.cross_attn.…`. Shapes:
    /// - `hook_resid_pre`, `hook_attn_out`, `hook_resid_mid`, `hook_mlp_in`, `hook_mlp_out`, `hook_resid_post`: \[tokens, width\];
    /// - of norms, `hook_scale` \[tokens, 1\], by which they divide, `hook_normalized` \[tokens, width\] before their weights and
    ///   `hook_out` after them;
    /// - `attn.hook_q_input`, `hook_k_input`, `hook_v_input`: \[tokens, heads, width\], the stream that each head reads, before the norm;
    /// - `attn.hook_q`, `hook_k`, `hook_v`, `hook_z`: \[tokens, heads, head size\], of keys and values the key/value heads;
    ///   `hook_q_normed` and `hook_k_normed` are after the norms of queries and keys, and `hook_rot_q` and `hook_rot_k` after the
    ///   rotary embedding too;
    /// - `attn.hook_result`: \[tokens, heads, width\], what each head adds to the attention's output;
    /// - `attn.hook_attn_scores` (before softmax, masked ones are −∞) and `hook_pattern` (after it): \[heads, queries, keys\];
    /// - `mlp.hook_pre` (before the activation), `hook_pre_linear` (what a gate is multiplied by), `hook_post`:
    ///   \[tokens, hidden\];
    /// - of a layer with experts instead of these, `mlp.hook_expert_weights` \[tokens, experts\], which is 0 for those that a token
    ///   does not take, and `mlp.hook_expert_indices` \[tokens, experts that a token takes\], the one with the largest weight first.
    ///   Where the weights are changed, a token takes the experts with the largest ones, and the weights count as they are.
    pub fn places(&self) -> Vec<Place> {
        let mut places = Vec::new();
        if self.encoder.is_none() {
            places.push(Place::Embedding(EmbeddingPlace::Tokens));
            places.extend(
                self.embedding.positions.map(|_| Place::Embedding(EmbeddingPlace::Positions)),
            );
        }
        for (name, stack) in self.stacks() {
            for layer in 0..stack.layers() {
                places.extend(stack.places_of(layer).map(|place| name.place(layer, place)));
            }
            places.extend(stack.final_norm.iter().flat_map(|_| name.places_of_final_norm()));
        }
        places
    }

    /// The places with their names.
    pub(crate) fn named_places(&self) -> Vec<(String, Place)> {
        self.places().into_iter().map(|place| (place.to_string(), place)).collect()
    }

    /// The places that match the patterns, in the alphabetical order of their names. A `*` stands for any characters.
    ///
    /// `hook_q_input`, `hook_k_input`, `hook_v_input`, `hook_mlp_in` and `hook_result` are large. Only patterns that end with
    /// their name match them.
    ///
    /// # Errors
    /// [`Error::Place`] if a pattern names no place.
    pub fn places_named<S: AsRef<str>>(&self, patterns: &[S]) -> Result<Vec<Place>, Error> {
        named(patterns, &self.named_places())
    }
}

/// The places of a model that match the patterns, in the alphabetical order of their names.
pub(crate) fn named<S: AsRef<str>>(
    patterns: &[S],
    places: &[(String, Place)],
) -> Result<Vec<Place>, Error> {
    let mut named = Vec::new();
    for pattern in patterns.iter().map(AsRef::as_ref) {
        let before = named.len();
        named.extend(places.iter().filter(|place| names(pattern, place)));
        if named.len() == before {
            return Err(Error::place(pattern, places.iter().map(|(_, place)| *place)));
        }
    }
    named.sort_unstable();
    named.dedup();
    Ok(named.into_iter().map(|(_, place)| *place).collect())
}

/// The places to keep.
#[derive(Clone, Debug, Default)]
pub(crate) struct Keep(BTreeSet<Place>);

impl Keep {
    pub(crate) fn new(patterns: &[String], model: &Model) -> Result<Self, Error> {
        Ok(named(patterns, model.places())?.into_iter().collect())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The layers of a stack of which a place is kept.
    pub(crate) fn layers(&self, stack: StackName) -> impl Iterator<Item = usize> {
        self.0.iter().filter_map(move |place| place.layer_of(stack))
    }

    pub(crate) fn has(&self, place: Place) -> bool {
        self.0.contains(&place)
    }
}

impl FromIterator<Place> for Keep {
    fn from_iter<T: IntoIterator<Item = Place>>(places: T) -> Self {
        Self(places.into_iter().collect())
    }
}

/// Whether a pattern's parts between `*` follow each other in `text`.
pub(crate) fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}
