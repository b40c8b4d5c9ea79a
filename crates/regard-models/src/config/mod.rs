//! Reads the settings of a checkpoint into a [`Description`].

mod experts;
mod gguf;
mod hugging_face;
mod hybrid;
mod rope;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::LazyLock;

use serde_json::{Map, Value};

pub(crate) use self::gguf::Config as GgufConfig;
pub(crate) use self::hugging_face::Config;
use crate::families::Family;
use crate::read::Settings;
use crate::weights;
use crate::{
    Activation, Biases, Block, Checkpoint, Description, EmbeddingSettings, Error, Experts,
    NormSettings, OutputHead, Placement, RotarySettings, Stack,
};

/// The defaults of transformers' config classes for keys that a file may leave out, by key and family. defaults.py writes them.
static DEFAULTS: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(include_str!("defaults.json")).unwrap_or_default());

/// The error for a model that no description fits. It says `what`, and lists the tensors and the settings that no family has,
/// and the known families.
fn unknown(path: &Path, checkpoint: &Checkpoint, what: &str, known: &str) -> Error {
    const SHOWN: usize = 8;
    let list = |of: &str, names: BTreeSet<String>| match names.len() {
        0 => format!("its {of} have names that known families have"),
        count => {
            let list = names.into_iter().take(SHOWN).collect::<Vec<_>>().join(", ");
            let more = count.saturating_sub(SHOWN);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            format!("no known family has its {of} {list}{more}")
        }
    };
    let mut needs = list("tensors", weights::unknown(checkpoint.names()));
    let of_config = |key: &&String| {
        !DEFAULTS["keys"].as_array().is_some_and(|keys| keys.iter().any(|known| known == *key))
    };
    let settings = match checkpoint.settings() {
        Settings::Config(config) => {
            let keys = config.as_object().into_iter().flat_map(Map::keys);
            keys.filter(of_config).cloned().collect()
        }
        Settings::Gguf(metadata) => gguf::unknown_keys(metadata),
    };
    needs = format!("{needs}, and {}", list("settings", settings));
    Error::file(path, format!("{what}{needs}; known are {known}"))
}

/// The family's default for a key that its file lacks.
fn default(family: &str, key: &str) -> Option<&'static Value> {
    DEFAULTS.get(key)?.get(family)
}

impl Description {
    /// The description of a checkpoint's model.
    ///
    /// # Errors
    /// An error names the file: if the family is not known, or if a setting is missing or invalid.
    pub fn of(checkpoint: &Checkpoint) -> Result<Self, Error> {
        let mut description = match checkpoint.settings() {
            Settings::Config(config) => {
                let text = text_of(config);
                let config = text.as_ref().unwrap_or(config);
                let path = checkpoint.path().join("config.json");
                hugging_face::Config::new(&path, config, checkpoint)?.describe()?
            }
            Settings::Gguf(metadata) => gguf::Config::new(checkpoint, metadata)?.describe()?,
        };
        if let Settings::Config(config) = checkpoint.settings()
            && let Some(family) = config.get("model_type").and_then(Value::as_str)
        {
            family.clone_into(&mut description.family);
        }
        let wrong = |what| Error::file(checkpoint.path(), what);
        let embedded = description.embedding.scale;
        let (scale, softcap) = match description.head {
            OutputHead::Tokens { scale, softcap, .. } => (scale, softcap),
            _ => (1.0, None),
        };
        if !(embedded.is_finite() && scale.is_finite()) {
            let what = format!("embeddings have the factor {embedded}, and logits {scale}");
            return Err(wrong(what));
        }
        check_cap("logits", softcap).map_err(wrong)?;
        for stack in description.encoder.iter().chain([&description.stack]) {
            check(stack, description.width).map_err(wrong)?;
        }
        Ok(description)
    }
}

/// The activation of this name in transformers.
fn activation(name: &str) -> Option<Activation> {
    Some(match name {
        "relu" => Activation::Relu,
        "relu2" => Activation::ReluSquared,
        "gelu" | "gelu_python" => Activation::Gelu,
        "gelu_new" | "gelu_fast" | "gelu_accurate" | "gelu_pytorch_tanh" | "gelu_python_tanh" => {
            Activation::GeluTanh
        }
        "quick_gelu" => Activation::QuickGelu,
        "silu" | "swish" => Activation::Silu,
        "tanh" => Activation::Tanh,
        _ => return None,
    })
}

/// The config of the text part of a model that also reads images (Gemma 3). Only the text part is computed. The settings of the
/// head and of the end of a text come from the whole config.
fn text_of(config: &Value) -> Option<Value> {
    let family = Family::of_config(config.get("model_type")?.as_str()?)?.text?;
    let mut text = config.get("text_config").filter(|x| x.is_object()).cloned();
    let text = text.get_or_insert_with(|| Value::Object(Map::new()));
    text["model_type"] = family.into();
    // The model of text and images does not cap its logits.
    text["final_logit_softcapping"] = Value::Null;
    text["tie_word_embeddings"] =
        config.get("tie_word_embeddings").cloned().unwrap_or(Value::Bool(true));
    for key in ["architectures", "eos_token_id", "id2label", "pad_token_id"] {
        if let Some(value) = config.get(key) {
            text[key] = value.clone();
        }
    }
    Some(text.take())
}

/// Whether the numbers of a stack fit each other.
fn check(stack: &Stack, width: usize) -> Result<(), String> {
    let block = &stack.block;
    let (heads, kv_heads) = (block.heads, block.kv_heads);
    if let Some(Experts { count, used, hidden, .. }) = stack.experts {
        if used == 0 || used > count {
            return Err(format!("a token cannot take {used} of {count} experts"));
        }
        if hidden == 0 {
            return Err("the hidden features of an expert are 0".into());
        }
    }
    if width == 0 || block.head_size == 0 || block.hidden == 0 {
        return Err("a size of the model is 0".into());
    }
    if heads == 0 || kv_heads == 0 || !heads.is_multiple_of(kv_heads) {
        return Err(format!("{heads} query heads cannot share {kv_heads} key/value heads evenly"));
    }
    let fits = |rotary: &&RotarySettings| {
        rotary.features <= block.head_size && rotary.features.is_multiple_of(2)
    };
    if let Some(rotary) = stack.rotary.iter().find(|rotary| !fits(rotary)) {
        let (found, most) = (rotary.features, block.head_size);
        return Err(format!("{found} features of a head cannot turn in pairs: a head has {most}"));
    }
    for number in [block.scale, block.norm.epsilon, block.output_scale] {
        if !number.is_finite() {
            return Err(format!("a setting of the attention or of a norm is {number}"));
        }
    }
    if let Some(clip) = block.clip.filter(|clip| !clip.is_finite() || *clip <= 0.0) {
        return Err(format!("queries, keys and values are clipped at {clip}"));
    }
    check_cap("scores", block.softcap)
}

/// Whether the numbers that a soft cap divides stay numbers.
fn check_cap(of: &str, cap: Option<f32>) -> Result<(), String> {
    match cap.filter(|cap| !cap.is_finite() || *cap < f32::MIN_POSITIVE) {
        Some(cap) => Err(format!("the soft cap of the {of} is {cap}, and not a number above 0")),
        None => Ok(()),
    }
}

/// A stack of layers with norms before the sublayers, as in GPT-2, without tokens or patches.
fn plain(
    width: usize,
    layers: usize,
    heads: usize,
    hidden: usize,
    norm: NormSettings,
) -> Description {
    let head_size = width.checked_div(heads).unwrap_or(0);
    let block = Block {
        heads,
        kv_heads: heads,
        head_size,
        hidden,
        norm,
        placement: Placement::Before,
        parallel: false,
        qk_norm: None,
        scale: (head_size as f32).sqrt().recip(),
        scale_by_layer: false,
        softcap: None,
        output_scale: 1.0,
        relative: None,
        disentangled: None,
        slopes: Vec::new(),
        growth: None,
        clip: None,
        sinks: false,
        activation: Activation::Gelu,
        gated: false,
        biases: Biases { qkv: true, out: true, hidden: true },
    };
    let stack = Stack {
        windows: vec![None; layers],
        rotary: Vec::new(),
        turns: Vec::new(),
        causal: true,
        cross: false,
        begins_bare: false,
        final_norm: Some(norm),
        hidden_after_norm: true,
        block,
        groups: None,
        experts: None,
    };
    let embedding = EmbeddingSettings {
        scale: 1.0,
        features: None,
        positions: None,
        types: 0,
        norm: None,
        patches: None,
        frames: None,
    };
    Description {
        family: String::new(),
        vocabulary: 0,
        width,
        context: None,
        embedding,
        encoder: None,
        stack,
        head: OutputHead::None,
        tied: false,
        decoder_start: Vec::new(),
        ends: Vec::new(),
        suppressed: Vec::new(),
        suppressed_first: Vec::new(),
        labels: Vec::new(),
    }
}

/// The `windows` of a stack: `window` in the layers that slide.
fn windows(
    layers: usize,
    window: Option<usize>,
    slides: impl Fn(usize) -> bool,
) -> Vec<Option<usize>> {
    (0..layers).map(|layer| window.filter(|_| slides(layer))).collect()
}
