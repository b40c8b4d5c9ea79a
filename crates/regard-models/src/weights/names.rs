//! The names of each family's tensors in its files.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::Value;

use crate::Description;
use crate::families::Family;

/// The entries of names.json. An entry with `like` has the names of that one, but for its own. `t5 gated` is T5 with a gated
/// feed-forward layer, in which `wi_1` is multiplied by the activation of `wi_0`; `vit 5` is ViT as transformers 5 writes it, with
/// the names of the parts in memory.
static ENTRIES: LazyLock<BTreeMap<String, Value>> = LazyLock::new(|| {
    let entries: BTreeMap<String, Value> =
        serde_json::from_str(include_str!("names.json")).unwrap_or_default();
    entries.iter().map(|(name, own)| (name.clone(), whole(own, &entries))).collect()
});

/// An entry with the names of the one that it is like.
fn whole(own: &Value, entries: &BTreeMap<String, Value>) -> Value {
    match own["like"].as_str().and_then(|like| entries.get(like)) {
        Some(like) => {
            let mut all = whole(like, entries);
            replace(&mut all, own);
            all
        }
        None => own.clone(),
    }
}

/// Replaces the names that `own` has, too.
fn replace(names: &mut Value, own: &Value) {
    match (names, own) {
        (Value::Object(names), Value::Object(own)) => {
            for (key, own) in own {
                replace(names.entry(key).or_insert(Value::Null), own);
            }
        }
        (names, own) => names.clone_from(own),
    }
}

/// The names of an entry.
fn entry(name: &str) -> Option<Names> {
    serde_json::from_value(ENTRIES.get(name)?.clone()).ok()
}

/// The names of a model's tensors; "" for a tensor that the family does not have.
///
/// Weights are called without `.weight` and `.bias`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Names {
    /// The entry of a model whose feed-forward layers are gated, if it is another one.
    gated: Option<String>,
    /// A tensor, and the entry of a file that has it.
    with: Option<(String, String)>,
    /// The start that the names of a base model lack: `transformer.` in GPT-2's `transformer.wte`. The names of the embeddings,
    /// of layers and of final norms follow it.
    pub(super) prefix: String,
    pub(super) tokens: String,
    pub(super) positions: String,
    pub(super) types: String,
    pub(super) embedding_norm: String,
    /// The tokens before the patches of an image, after the class token: the distillation token and the registers.
    pub(super) distillation: String,
    pub(super) registers: String,
    /// The token in the place of hidden patches, which training alone reads.
    pub(super) mask: String,
    /// The positions of the encoder's tokens and the norm after them, if they are not those of the decoder's.
    pub(super) encoder_positions: String,
    pub(super) encoder_embedding_norm: String,
    /// From the features of these tables to the width.
    pub(super) projection: String,
    /// The table of the bias by distance, if it is not in the first layer.
    pub(super) relative: String,
    /// The rows of distances, and their norm.
    pub(super) distances: (String, String),
    /// The two convolutions over frames of sound, and the encoder's positions.
    pub(super) frames: [String; 3],
    pub(super) encoder: LayerNames,
    pub(super) layer: LayerNames,
    /// The final norms of the encoder and of the stack.
    pub(super) encoder_norm: String,
    pub(super) norm: String,
    /// The linear layer and the norm before the head.
    pub(super) transform: (String, String),
    pub(super) head: String,
    /// The names of the head's bias. A file may have one of them.
    pub(super) head_bias: Vec<String>,
    /// The linear layer before the head of a model that classifies, and that head.
    pub(super) classes: (String, String),
    /// Whether that head has a bias.
    pub(super) classes_bias: bool,
    /// The heads of the class token and of the distillation token.
    pub(super) two_classes: [String; 2],
    /// The linear layer and the norm of a vector of the whole input.
    pub(super) pooled: String,
    pub(super) pooled_norm: String,
    /// The learned query of the attention to all patches; the weight and the bias of its queries, keys and values; its output;
    /// the norm and both layers after it.
    pub(super) probe: [String; 7],
    /// Other names of the tokens' matrix. A file may have them in addition to it or instead of it.
    pub(super) copies: Vec<String>,
    /// The order of the rows in files, if it is not that of [`super::AttentionWeights`].
    pub(super) layout: Layout,
}

/// The names of a layer's tensors.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct LayerNames {
    /// The start of all other names. `{}` stands for the index of the layer.
    pub(super) start: String,
    pub(super) norm_1: String,
    pub(super) norm_2: String,
    pub(super) after_1: String,
    pub(super) after_2: String,
    pub(super) cross_norm: String,
    pub(super) attention: AttentionNames,
    pub(super) cross: AttentionNames,
    pub(super) gate: String,
    pub(super) up: String,
    /// The rows of the gate, followed by those of `up`.
    pub(super) gate_up: String,
    pub(super) down: String,
    /// The factors of the features of both sublayers' outputs.
    pub(super) scales: [String; 2],
    pub(super) experts: ExpertNames,
    pub(super) relative: String,
}

/// The names of the tensors of a mixture of experts. `{}.` stands for the number of an expert; without it, a tensor has all
/// experts along its first dimension.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ExpertNames {
    pub(super) router: String,
    pub(super) gate: String,
    pub(super) up: String,
    /// The outputs of the gate and those of `up`.
    pub(super) gate_up: String,
    pub(super) down: String,
    /// The gate, `up` and `down` of the layer that all tokens take, and the layer whose sigmoid is its weight.
    pub(super) shared: [String; 4],
    /// Whether those outputs alternate, and weights in single numbers are \[inputs, outputs\].
    pub(super) alternate: bool,
}

/// The names of an attention's tensors.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct AttentionNames {
    pub(super) q: String,
    pub(super) k: String,
    pub(super) v: String,
    /// The rows of all three.
    pub(super) qkv: String,
    pub(super) out: String,
    pub(super) q_norm: String,
    pub(super) k_norm: String,
    pub(super) sinks: String,
    /// The keys and the queries of distances.
    pub(super) of_positions: [String; 2],
}

/// The order of rows of weights in a family's files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Layout {
    /// \[outputs, inputs\]; fused projections are all of q, all of k, all of v.
    #[default]
    Rows,
    /// \[inputs, outputs\] (GPT-2's `Conv1D`).
    Columns,
    /// Fused projections are q, k and v of the first head, then of the second and so on (GPT-NeoX). Heads that share keys and
    /// values have their queries before these (Falcon).
    ByHead,
    /// The rows of q and k are permuted so that neighbours are rotated as pairs (llama.cpp's converter).
    Neighbours,
}

/// The names that the parts of all families have in files, without `.weight` and `.bias`.
static KNOWN: LazyLock<BTreeSet<String>> = LazyLock::new(|| {
    fn add(value: &Value, start: &str, known: &mut BTreeSet<String>) {
        match value {
            Value::String(name) => drop(known.insert(general(&format!("{start}{name}")))),
            Value::Array(list) => list.iter().for_each(|value| add(value, start, known)),
            Value::Object(parts) => {
                let own = parts.get("start").and_then(Value::as_str).unwrap_or_default();
                let start = format!("{start}{own}");
                let names = parts
                    .iter()
                    .filter(|(key, _)| !["like", "gated", "with"].contains(&key.as_str()));
                names.for_each(|(_, value)| add(value, &start, known));
            }
            _ => {}
        }
    }
    let mut known = BTreeSet::new();
    for family in ENTRIES.values() {
        // A base model's names lack the prefix, and those of a head have none.
        for start in ["", family["prefix"].as_str().unwrap_or_default()] {
            add(family, start, &mut known);
        }
    }
    known
});

/// A name with `{}` for each number in it. Some names have numbers of their own, such as T5's `layer.1.DenseReluDense`.
fn general(name: &str) -> String {
    let part = |part| if str::parse::<usize>(part).is_ok() { "{}" } else { part };
    name.split('.').map(part).collect::<Vec<_>>().join(".")
}

/// The names of tensors that no family has, with `{}` for each number in them.
pub(crate) fn unknown<'n>(names: impl Iterator<Item = &'n str>) -> BTreeSet<String> {
    let is_known = |name: &String| {
        let stem = name.strip_suffix(".weight").or_else(|| name.strip_suffix(".bias"));
        KNOWN.contains(stem.unwrap_or(name))
    };
    names.map(general).filter(|name| !is_known(name)).collect()
}

/// The names in a folder of Hugging Face.
pub(super) fn hugging_face(description: &Description, has: impl Fn(&str) -> bool) -> Option<Names> {
    let names = entry(Family::of_config(&description.family)?.names)?;
    let mut names = fitting(names, description, &has)?;
    // The names for the text part of a model that also reads images, as transformers writes them and as it has them in memory.
    let text = ["language_model.model.", "model.language_model."].into_iter();
    let mut text = text.filter(|start| has(&format!("{start}{}.weight", names.tokens)));
    if let Some(start) = text.next() {
        start.clone_into(&mut names.prefix);
    }
    if has("language_model.lm_head.weight") {
        "language_model.lm_head".clone_into(&mut names.head);
    }
    Some(names)
}

/// These names or those of the entry that fits a file better.
fn fitting(names: Names, description: &Description, has: impl Fn(&str) -> bool) -> Option<Names> {
    let has_it = |(tensor, _): &&(String, String)| {
        ["", names.prefix.as_str()].iter().any(|start| has(&format!("{start}{tensor}.weight")))
    };
    let gated = names.gated.as_ref().filter(|_| description.stack.block.gated);
    let mut names = match names.with.as_ref().filter(has_it).map(|(_, other)| other).or(gated) {
        Some(other) => entry(other)?,
        None => names,
    };
    // The encoder is the only stack.
    if description.encoder.is_none() && !names.encoder.start.is_empty() {
        names.layer.clone_from(&names.encoder);
        names.norm.clone_from(&names.encoder_norm);
    }
    Some(names)
}

/// Whether a tensor belongs to the part of a model that reads images, if only the text part is computed.
pub(super) fn of_images(name: &str) -> bool {
    let parts = ["vision_tower.", "multi_modal_projector."];
    parts.iter().any(|part| name.strip_prefix("model.").unwrap_or(name).starts_with(part))
}

/// The names in a GGUF file.
pub(super) fn gguf(description: &Description, has: impl Fn(&str) -> bool) -> Option<Names> {
    fitting(entry(Family::of_gguf(&description.family)?.gguf?.1)?, description, has)
}
