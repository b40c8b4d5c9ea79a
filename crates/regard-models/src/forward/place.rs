//! The places of a forward pass, under the names that TransformerLens gives them.

use crate::{Description, Error, Placement, Stack};

/// The stack of `description` whose places begin with this prefix: `blocks` of a model of one stack, else `encoder` or
/// `decoder`.
pub(crate) fn stacks(description: &Description) -> Vec<(&'static str, &Stack)> {
    match &description.encoder {
        Some(encoder) => vec![("encoder", encoder), ("decoder", &description.stack)],
        None => vec![("blocks", &description.stack)],
    }
}

/// The places of a layer, in the order of computation, without the layer's prefix.
fn of_layer(stack: &Stack) -> Vec<&'static str> {
    let block = &stack.block;
    let mut places = vec!["hook_resid_pre"];
    if block.placement != Placement::After {
        places.push("ln1.hook_normalized");
    }
    places.extend(["attn.hook_q", "attn.hook_k", "attn.hook_v"]);
    if block.rotary.is_some() {
        places.extend(["attn.hook_rot_q", "attn.hook_rot_k"]);
    }
    places.extend(["attn.hook_attn_scores", "attn.hook_pattern", "attn.hook_z", "hook_attn_out"]);
    if !block.parallel {
        places.push("hook_resid_mid");
    }
    if block.placement == Placement::After {
        places.push("ln1.hook_normalized");
    }
    if stack.cross {
        places.extend([
            "cross_attn.hook_q",
            "cross_attn.hook_k",
            "cross_attn.hook_v",
            "cross_attn.hook_attn_scores",
            "cross_attn.hook_pattern",
            "cross_attn.hook_z",
            "hook_cross_attn_out",
            "hook_resid_mid_cross",
        ]);
    }
    if block.placement != Placement::After {
        places.push("ln2.hook_normalized");
    }
    places.push("mlp.hook_pre");
    if block.gated {
        places.push("mlp.hook_pre_linear");
    }
    places.extend(["mlp.hook_post", "hook_mlp_out", "hook_resid_post"]);
    if block.placement == Placement::After {
        places.push("hook_normalized_resid_post");
    }
    places
}

/// The place at which the residual stream leaves a layer of this stack.
pub(crate) fn layer_output(stack: &Stack) -> &'static str {
    match stack.block.placement {
        Placement::After => "hook_normalized_resid_post",
        Placement::Before | Placement::Both => "hook_resid_post",
    }
}

/// The place after a stack's final norm.
pub(crate) fn final_norm(prefix: &str) -> &'static str {
    match prefix {
        "encoder" => "encoder_final_ln.hook_normalized",
        "decoder" => "decoder_final_ln.hook_normalized",
        _ => "ln_final.hook_normalized",
    }
}

impl Description {
    /// The names of all places of a forward pass, in the order of computation.
    ///
    /// They are TransformerLens's: `blocks.3.attn.hook_pattern`; a model with an encoder and a decoder has `encoder.3.…`,
    /// `decoder.3.…` and `decoder.3.cross_attn.…`. Shapes:
    /// - `hook_resid_pre`, `hook_attn_out`, `hook_resid_mid`, `hook_mlp_out`, `hook_resid_post` and norms: \[tokens, width\];
    /// - `attn.hook_q`, `hook_k`, `hook_v`, `hook_z`: \[tokens, heads, head size\], of keys and values the key/value heads;
    ///   `hook_rot_q` and `hook_rot_k` are after the norms of queries and keys and the rotary embedding;
    /// - `attn.hook_attn_scores` (before softmax, masked ones are −∞) and `hook_pattern` (after it): \[heads, queries, keys\];
    /// - `mlp.hook_pre` (before the activation), `hook_pre_linear` (what a gate is multiplied by), `hook_post`:
    ///   \[tokens, hidden\].
    pub fn places(&self) -> Vec<String> {
        let mut places = Vec::new();
        if self.encoder.is_none() {
            places.push("hook_embed".to_owned());
            places.extend(self.embedding.positions.map(|_| "hook_pos_embed".to_owned()));
        }
        for (prefix, stack) in stacks(self) {
            let of_layer = of_layer(stack);
            for layer in 0..stack.layers() {
                places.extend(of_layer.iter().map(|place| format!("{prefix}.{layer}.{place}")));
            }
            places.extend(stack.final_norm.map(|_| final_norm(prefix).to_owned()));
        }
        places
    }

    /// The names of the places that patterns name, in alphabetical order. A `*` stands for any characters.
    ///
    /// # Errors
    /// [`Error::Input`] if a pattern names no place.
    pub fn places_named<S: AsRef<str>>(&self, patterns: &[S]) -> Result<Vec<String>, Error> {
        let places = self.places();
        let mut named = Vec::new();
        for pattern in patterns.iter().map(AsRef::as_ref) {
            let before = named.len();
            named.extend(places.iter().filter(|place| matches(pattern, place)).cloned());
            if named.len() == before {
                let example = places.iter().find(|place| place.ends_with("hook_resid_pre"));
                let example = example.map_or("", String::as_str);
                let what = format!(
                    "the model has no place {pattern:?}; its places have names like {example}"
                );
                return Err(Error::Input(what));
            }
        }
        named.sort_unstable();
        named.dedup();
        Ok(named)
    }
}

/// The places to keep, in alphabetical order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Keep(Vec<String>);

impl Keep {
    pub(crate) fn new(patterns: &[String], description: &Description) -> Result<Self, Error> {
        description.places_named(patterns).map(Self)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The first layer of the stack `prefix` of which a place is kept.
    pub(crate) fn first_layer(&self, prefix: &str) -> Option<usize> {
        let layer = |place: &String| {
            place.strip_prefix(prefix)?.strip_prefix('.')?.split('.').next()?.parse().ok()
        };
        self.0.iter().filter_map(layer).min()
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

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn a_star_stands_for_any_characters() {
        assert!(matches("blocks.0.hook_q", "blocks.0.hook_q"));
        assert!(!matches("blocks.0.hook_q", "blocks.0.hook_q_input"));
        assert!(matches("*", "anything") && matches("*hook_q", "blocks.0.attn.hook_q"));
        assert!(matches("blocks.*.attn.*_q", "blocks.11.attn.hook_q"));
        assert!(!matches("blocks.*.mlp.*", "blocks.11.attn.hook_q"));
        assert!(!matches("a*aa", "aa"));
    }
}
