//! The places of a forward pass, under the names that TransformerLens gives them.

use core::fmt;

use crate::{Description, Error, Model, Placement, Stack};

/// A stack of layers of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum StackName {
    /// The stack of a model that has no other.
    Only,
    Encoder,
    Decoder,
}

impl StackName {
    pub(crate) const ALL: [Self; 3] = [Self::Only, Self::Encoder, Self::Decoder];

    /// The start of the names of its places.
    const fn prefix(self) -> &'static str {
        match self {
            Self::Only => "blocks",
            Self::Encoder => "encoder",
            Self::Decoder => "decoder",
        }
    }

    pub(crate) fn place(self, layer: usize, place: &str) -> String {
        format!("{self}.{layer}.{place}")
    }

    pub(crate) fn layer_of(self, place: &str) -> Option<usize> {
        place.strip_prefix(self.prefix())?.strip_prefix('.')?.split('.').next()?.parse().ok()
    }

    /// The stack of a place. Embeddings belong to the only one, or to the encoder.
    pub(crate) fn of_place(place: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|name| place.starts_with(name.prefix()))
    }

    pub(crate) const fn final_norm(self) -> &'static str {
        match self {
            Self::Only => "ln_final",
            Self::Encoder => "encoder_final_ln",
            Self::Decoder => "decoder_final_ln",
        }
    }

    pub(crate) fn after_final_norm(self) -> String {
        format!("{}.hook_out", self.final_norm())
    }
}

impl fmt::Display for StackName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.prefix())
    }
}

/// The places of a norm: its divisor \[tokens, 1\], and the stream before and after the norm's weights.
pub(crate) const OF_NORM: [&str; 3] = ["hook_scale", "hook_normalized", "hook_out"];

/// The name of the norm before a layer's feed-forward layer. In a layer with a cross-attention, `ln2` is the norm before that
/// attention.
pub(crate) fn norm_2(stack: &Stack) -> &'static str {
    if stack.cross { "ln3" } else { "ln2" }
}

/// The places of a layer, in the order of computation, without the layer's prefix. `ln1` alone stands for the places of this norm.
fn of_layer(stack: &Stack, layer: usize) -> impl Iterator<Item = String> {
    let (block, cross) = (&stack.block, stack.cross);
    let (turns, experts) = (stack.rotary_of(layer).is_some(), stack.experts_of(layer).is_some());
    let (before, after) = (block.placement.has_before(), block.placement == Placement::After);
    let bare = layer == 0 && stack.begins_bare;
    let (own, normed) = (block.placement.has_after(), block.qk_norm.is_some());
    let places = [
        ("hook_resid_pre", true),
        ("attn.hook_q_input", true),
        ("attn.hook_k_input", true),
        ("attn.hook_v_input", true),
        ("ln1", before && !bare),
        ("attn.hook_q", true),
        ("attn.hook_k", true),
        ("attn.hook_v", true),
        ("attn.hook_q_normed", normed),
        ("attn.hook_k_normed", normed),
        ("attn.hook_rot_q", turns),
        ("attn.hook_rot_k", turns),
        ("attn.hook_attn_scores", true),
        ("attn.hook_pattern", true),
        ("attn.hook_z", true),
        ("attn.hook_result", true),
        ("ln1_post", own),
        ("hook_attn_out", true),
        ("hook_resid_mid", !block.parallel),
        ("ln2", cross),
        ("cross_attn.hook_q", cross),
        ("cross_attn.hook_k", cross),
        ("cross_attn.hook_v", cross),
        ("cross_attn.hook_attn_scores", cross),
        ("cross_attn.hook_pattern", cross),
        ("cross_attn.hook_z", cross),
        ("cross_attn.hook_result", cross),
        ("hook_cross_attn_out", cross),
        ("hook_resid_mid_cross", cross),
        ("hook_mlp_in", true),
        (if after { "ln1" } else { norm_2(stack) }, before || after),
        ("mlp.hook_expert_weights", experts),
        ("mlp.hook_expert_indices", experts),
        ("mlp.hook_pre", !experts),
        ("mlp.hook_pre_linear", block.gated && !experts),
        ("mlp.hook_post", !experts),
        ("ln2_post", own),
        ("hook_mlp_out", true),
        ("hook_resid_post", true),
        ("ln2", after),
        ("hook_normalized_resid_post", after),
    ];
    places.into_iter().filter(|(_, is_there)| *is_there).flat_map(|(place, _)| {
        if place.contains("hook_") { vec![place.to_owned()] } else { of_norm(place) }
    })
}

fn of_norm(norm: &str) -> Vec<String> {
    OF_NORM.map(|place| format!("{norm}.{place}")).to_vec()
}

/// Whether a pattern names a place. Copies of the stream for each head, or before a norm, and the outputs of single heads take
/// more memory than all other places. Only a pattern that ends with their name matches them.
fn names(pattern: &str, place: &str) -> bool {
    const ON_REQUEST: [&str; 5] =
        ["hook_q_input", "hook_k_input", "hook_v_input", "hook_mlp_in", "hook_result"];
    let mut rare = ON_REQUEST.into_iter();
    matches(pattern, place)
        && rare.find(|own| place.ends_with(own)).is_none_or(|own| pattern.ends_with(own))
}

/// The place at which the residual stream leaves a layer of this stack.
pub(crate) fn layer_output(stack: &Stack) -> &'static str {
    match stack.block.placement {
        Placement::After => "hook_normalized_resid_post",
        Placement::Before | Placement::Both | Placement::Output => "hook_resid_post",
    }
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

    /// The names of all places of a forward pass, in the order of computation.
    ///
    /// They are TransformerLens's: `blocks.3.attn.hook_pattern`; a model with an encoder and a decoder has `encoder.3.…`,
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
    pub fn places(&self) -> Vec<String> {
        let mut places = Vec::new();
        if self.encoder.is_none() {
            places.push("hook_embed".to_owned());
            places.extend(self.embedding.positions.map(|_| "hook_pos_embed".to_owned()));
        }
        for (name, stack) in self.stacks() {
            for layer in 0..stack.layers() {
                places.extend(of_layer(stack, layer).map(|place| name.place(layer, &place)));
            }
            places.extend(stack.final_norm.iter().flat_map(|_| of_norm(name.final_norm())));
        }
        places
    }

    /// The names of the places that match the patterns, in alphabetical order. A `*` stands for any characters.
    ///
    /// `hook_q_input`, `hook_k_input`, `hook_v_input`, `hook_mlp_in` and `hook_result` are large. Only patterns that end with
    /// their name match them.
    ///
    /// # Errors
    /// [`Error::Place`] if a pattern names no place.
    pub fn places_named<S: AsRef<str>>(&self, patterns: &[S]) -> Result<Vec<String>, Error> {
        named(patterns, &self.places())
    }
}

/// The names of a model's places that match the patterns, in alphabetical order.
pub(crate) fn named<S: AsRef<str>>(
    patterns: &[S],
    places: &[String],
) -> Result<Vec<String>, Error> {
    let mut named = Vec::new();
    for pattern in patterns.iter().map(AsRef::as_ref) {
        let before = named.len();
        named.extend(places.iter().filter(|place| names(pattern, place)).cloned());
        if named.len() == before {
            return Err(Error::place(pattern, places));
        }
    }
    named.sort_unstable();
    named.dedup();
    Ok(named)
}

/// The places to keep, in alphabetical order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Keep(Vec<String>);

impl Keep {
    pub(crate) fn new(patterns: &[String], model: &Model) -> Result<Self, Error> {
        named(patterns, model.places()).map(Self)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The layers of a stack of which a place is kept.
    pub(crate) fn layers(&self, stack: StackName) -> impl Iterator<Item = usize> {
        self.0.iter().filter_map(move |place| stack.layer_of(place))
    }

    pub(crate) fn has(&self, place: &str) -> bool {
        self.0.binary_search_by(|kept| kept.as_str().cmp(place)).is_ok()
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
