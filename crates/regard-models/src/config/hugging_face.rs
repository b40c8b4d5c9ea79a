//! The config.json of each family, in the forms that transformers 4 and 5 write.

use std::path::Path;

use serde_json::Value;

use super::windows;
use crate::{
    Activation, Block, Checkpoint, Description, Embedding, Error, Head, LearnedPositions, Norm,
    NormKind, Patches, Placement, RelativeBias, Stack,
};

/// The families that are known, as config.json calls them.
const KNOWN: &str = "bert, roberta, distilbert, gpt2, gpt_neox, llama, mistral, qwen2, qwen3, gemma2, phi3, t5 and vit";

/// A config.json.
#[derive(Clone, Copy)]
pub(super) struct Config<'a> {
    pub(super) path: &'a Path,
    pub(super) values: &'a Value,
    pub(super) checkpoint: &'a Checkpoint,
}

impl Config<'_> {
    pub(super) fn wrong(&self, what: impl Into<String>) -> Error {
        Error::file(self.path, what)
    }

    fn get(&self, key: &str) -> Option<&Value> {
        self.values.get(key).filter(|x| !x.is_null())
    }

    /// A whole number, if the key is there.
    fn optional(&self, key: &str) -> Result<Option<usize>, Error> {
        let Some(value) = self.get(key) else { return Ok(None) };
        // Sizes above 2³² are no sizes: their products need not be checked any more.
        let size = value
            .as_u64()
            .and_then(|x| u32::try_from(x).ok())
            .and_then(|x| usize::try_from(x).ok());
        size.map(Some).ok_or_else(|| self.wrong(format!("{key} is {value}, which is no size")))
    }

    fn size(&self, key: &str) -> Result<usize, Error> {
        self.optional(key)?.ok_or_else(|| self.wrong(format!("{key} is missing")))
    }

    pub(super) fn size_or(&self, key: &str, default: usize) -> Result<usize, Error> {
        Ok(self.optional(key)?.unwrap_or(default))
    }

    fn number(&self, key: &str, default: f64) -> f64 {
        self.get(key).and_then(Value::as_f64).unwrap_or(default)
    }

    fn flag(&self, key: &str, default: bool) -> bool {
        self.get(key).and_then(Value::as_bool).unwrap_or(default)
    }

    fn text(&self, key: &str) -> Option<&str> {
        self.get(key)?.as_str()
    }

    fn activation(&self, key: &str, default: Activation) -> Result<Activation, Error> {
        let Some(name) = self.text(key) else { return Ok(default) };
        Activation::named(name).ok_or_else(|| {
            self.wrong(format!(
                "{key} is {name:?}, which is not known; known are {}",
                Activation::KNOWN
            ))
        })
    }

    fn norm(&self, kind: NormKind, key: &str, default: f64) -> Norm {
        Norm { kind, epsilon: self.number(key, default) as f32 }
    }

    /// The number of layers: each has tensors, so that there are no more layers than tensors.
    fn layers(&self, key: &str) -> Result<usize, Error> {
        let (layers, tensors) = (self.size(key)?, self.checkpoint.names().count());
        if layers <= tensors {
            return Ok(layers);
        }
        Err(self.wrong(format!("{key} is {layers}, but there are {tensors} tensors")))
    }

    /// The ids at a key: one, or a list.
    fn ids(&self, key: &str) -> Vec<u32> {
        let id = |value: &Value| u32::try_from(value.as_u64()?).ok();
        match self.get(key) {
            Some(Value::Array(list)) => list.iter().filter_map(id).collect(),
            Some(value) => id(value).into_iter().collect(),
            None => Vec::new(),
        }
    }

    /// The tokens that end a text: those of generation_config.json, where a chat's end stands too, and of config.json.
    fn ends(&self) -> Result<Vec<u32>, Error> {
        let mut ends = self.ids("eos_token_id");
        if let Some(values) = self.checkpoint.json("generation_config.json")? {
            ends.extend(Config { values: &values, ..*self }.ids("eos_token_id"));
        }
        ends.sort_unstable();
        ends.dedup();
        Ok(ends)
    }

    /// Whether the checkpoint has one of these tensors, or its architecture says that it has a head of this kind: then a
    /// tensor that is missing is an error, and not a model without a head.
    fn has_head(&self, architectures: &[&str], tensors: &[&str]) -> bool {
        let named = self.get("architectures").and_then(Value::as_array);
        let said = named.into_iter().flatten().filter_map(Value::as_str);
        said.into_iter().any(|name| architectures.iter().any(|part| name.contains(part)))
            || tensors.iter().any(|name| self.checkpoint.shape(name).is_some())
    }

    pub(super) fn describe(&self) -> Result<Description, Error> {
        let family = self.text("model_type").ok_or_else(|| self.wrong("model_type is missing"))?;
        let mut description = match family {
            "bert" | "roberta" | "distilbert" => self.bert(family)?,
            "gpt2" => self.decoder(self.gpt2()?),
            "gpt_neox" => self.decoder(self.gpt_neox()?),
            "llama" | "mistral" | "qwen2" | "qwen3" | "gemma2" | "phi3" => {
                self.decoder(self.llama(family)?)
            }
            "t5" => self.t5()?,
            "vit" => self.vit()?,
            _ => {
                let what = format!("the family {family:?} is not known; known are {KNOWN}");
                return Err(self.wrong(what));
            }
        };
        description.family = family.to_owned();
        description.ends = self.ends()?;
        if description.head == Head::Classes {
            let labels =
                (0..).map_while(|id: u32| self.get("id2label")?.get(id.to_string())?.as_str());
            description.labels = labels.map(str::to_owned).collect();
        }
        Ok(description)
    }

    /// A decoder, which classifies texts if its architecture says so: a matrix of its own takes the place of the tokens' head.
    fn decoder(&self, mut description: Description) -> Description {
        // Heads for each token have the same tensor: only the name tells them apart.
        if self.has_head(&["ForSequenceClassification"], &[]) {
            description.head = Head::Classes;
            description.tied = false;
        }
        description
    }

    fn bert(&self, family: &str) -> Result<Description, Error> {
        let distil = family == "distilbert";
        let key =
            |bert: &'static str, distilbert: &'static str| if distil { distilbert } else { bert };
        if let Some(kind) = self.text("position_embedding_type").filter(|kind| *kind != "absolute")
        {
            return Err(self.wrong(format!(
                "position_embedding_type is {kind:?}; only \"absolute\" is known"
            )));
        }
        let norm = self.norm(NormKind::Layer, "layer_norm_eps", 1e-12);
        let width = self.size(key("hidden_size", "dim"))?;
        let layers = self.layers(key("num_hidden_layers", "n_layers"))?;
        let heads = self.size(key("num_attention_heads", "n_heads"))?;
        let hidden = self.size(key("intermediate_size", "hidden_dim"))?;
        let mut description = plain(width, layers, heads, hidden, norm);
        let activation = self.activation(key("hidden_act", "activation"), Activation::Gelu)?;
        description.vocabulary = self.size("vocab_size")?;
        description.tied = self.flag("tie_word_embeddings", true);
        let first = if family == "roberta" { self.size_or("pad_token_id", 1)? + 1 } else { 0 };
        let embedding = &mut description.embedding;
        embedding.positions =
            Some(LearnedPositions { count: self.size("max_position_embeddings")?, first });
        embedding.types = if distil { 0 } else { self.size_or("type_vocab_size", 2)? };
        embedding.norm = Some(norm);
        let stack = &mut description.stack;
        stack.causal = self.flag("is_decoder", false);
        stack.final_norm = None;
        stack.block.placement = Placement::After;
        stack.block.activation = activation;
        let heads = ["cls.predictions.bias", "lm_head.dense.weight", "vocab_transform.weight"];
        if self.has_head(&["MaskedLM", "LMHeadModel", "ForPreTraining"], &heads) {
            let transform =
                Some((if family == "roberta" { Activation::Gelu } else { activation }, norm));
            description.head = Head::Tokens { transform, scale: 1.0, softcap: None };
        }
        Ok(description)
    }

    fn gpt2(&self) -> Result<Description, Error> {
        let norm = self.norm(NormKind::Layer, "layer_norm_epsilon", 1e-5);
        let width = self.size("n_embd")?;
        let hidden = self.size_or("n_inner", 4 * width)?;
        let mut description =
            plain(width, self.layers("n_layer")?, self.size("n_head")?, hidden, norm);
        description.vocabulary = self.size("vocab_size")?;
        description.tied = self.flag("tie_word_embeddings", true);
        description.embedding.positions =
            Some(LearnedPositions { count: self.size_or("n_positions", 1024)?, first: 0 });
        let block = &mut description.stack.block;
        block.activation = self.activation("activation_function", Activation::GeluTanh)?;
        if !self.flag("scale_attn_weights", true) {
            block.scale = 1.0;
        }
        block.scale_by_layer = self.flag("scale_attn_by_inverse_layer_idx", false);
        description.head = Head::Tokens { transform: None, scale: 1.0, softcap: None };
        Ok(description)
    }

    fn gpt_neox(&self) -> Result<Description, Error> {
        let norm = self.norm(NormKind::Layer, "layer_norm_eps", 1e-5);
        let width = self.size("hidden_size")?;
        let (layers, heads) =
            (self.layers("num_hidden_layers")?, self.size("num_attention_heads")?);
        let mut description = plain(width, layers, heads, self.size("intermediate_size")?, norm);
        description.vocabulary = self.size("vocab_size")?;
        description.tied = self.flag("tie_word_embeddings", false);
        let block = &mut description.stack.block;
        block.activation = self.activation("hidden_act", Activation::Gelu)?;
        block.parallel = self.flag("use_parallel_residual", true);
        block.rotary = Some(self.rotary(block.head_size, 0.25)?);
        if description.tied || self.has_head(&["ForCausalLM"], &["embed_out.weight"]) {
            description.head = Head::Tokens { transform: None, scale: 1.0, softcap: None };
        }
        Ok(description)
    }

    fn llama(&self, family: &str) -> Result<Description, Error> {
        let gemma = family == "gemma2";
        let kind = if gemma { NormKind::RmsPlusOne } else { NormKind::Rms };
        let norm = self.norm(kind, "rms_norm_eps", 1e-6);
        let width = self.size("hidden_size")?;
        let (layers, heads) =
            (self.layers("num_hidden_layers")?, self.size("num_attention_heads")?);
        let mut description = plain(width, layers, heads, self.size("intermediate_size")?, norm);
        description.vocabulary = self.size("vocab_size")?;
        description.tied = self.flag("tie_word_embeddings", gemma);
        let block = &mut description.stack.block;
        block.kv_heads = self.size_or("num_key_value_heads", heads)?;
        block.head_size = self.size_or("head_dim", block.head_size)?;
        block.scale = (block.head_size as f32).sqrt().recip();
        let key = if gemma { "hidden_activation" } else { "hidden_act" };
        let usual = if gemma { Activation::GeluTanh } else { Activation::Silu };
        block.activation = self.activation(key, usual)?;
        block.gated = true;
        block.qk_norm = family == "qwen3";
        block.rotary = Some(self.rotary(block.head_size, 1.0)?);
        let cap = |key| self.get(key).and_then(Value::as_f64).map(|x| x as f32);
        let softcap = cap("final_logit_softcapping");
        block.softcap = cap("attn_logit_softcapping");
        if gemma {
            let scalar = self.number("query_pre_attn_scalar", 256.0);
            block.scale = scalar.sqrt().recip() as f32;
            block.placement = Placement::Both;
            description.embedding.scale = (width as f32).sqrt();
        }
        description.stack.windows = self.windows(family, layers)?;
        if description.tied || self.has_head(&["ForCausalLM"], &["lm_head.weight"]) {
            description.head = Head::Tokens { transform: None, scale: 1.0, softcap };
        }
        Ok(description)
    }

    /// The window of each layer. `layer_types` says which layers slide; configs that older versions wrote leave it to the
    /// family.
    fn windows(&self, family: &str, layers: usize) -> Result<Vec<Option<usize>>, Error> {
        let may_slide = match family {
            "mistral" | "phi3" | "gemma2" => true,
            "qwen2" | "qwen3" => self.flag("use_sliding_window", false),
            _ => false,
        };
        let window = self.optional("sliding_window")?.filter(|_| may_slide);
        if let Some(types) = self.get("layer_types").and_then(Value::as_array) {
            if types.len() != layers {
                let found = types.len();
                return Err(
                    self.wrong(format!("layer_types has {found} entries for {layers} layers"))
                );
            }
            let unknown = types
                .iter()
                .find(|x| !matches!(x.as_str(), Some("full_attention" | "sliding_attention")));
            if let Some(unknown) = unknown {
                return Err(self.wrong(format!("layer_types has {unknown}, which is not known")));
            }
            return Ok(windows(layers, window, |layer| {
                types.get(layer).is_some_and(|x| x == "sliding_attention")
            }));
        }
        let first =
            if family.starts_with("qwen") { self.size_or("max_window_layers", 28)? } else { 0 };
        Ok(windows(layers, window, |layer| {
            layer >= first && (family != "gemma2" || layer % 2 == 0)
        }))
    }

    fn t5(&self) -> Result<Description, Error> {
        let norm = self.norm(NormKind::Rms, "layer_norm_epsilon", 1e-6);
        let width = self.size("d_model")?;
        let layers = self.layers("num_layers")?;
        let mut description =
            plain(width, layers, self.size("num_heads")?, self.size("d_ff")?, norm);
        description.vocabulary = self.size("vocab_size")?;
        description.tied = self.flag("tie_word_embeddings", true);
        description.decoder_start = self.ids("decoder_start_token_id").first().copied().or(Some(0));
        let scaled = self.flag("scale_decoder_outputs", description.tied);
        let scale = if scaled { (width as f32).sqrt().recip() } else { 1.0 };
        description.head = Head::Tokens { transform: None, scale, softcap: None };
        let projection = self.text("feed_forward_proj").unwrap_or("relu");
        let (gated, name) = match projection.strip_prefix("gated-") {
            // T5 1.1's gated GELU is the tanh form.
            Some("gelu") => (true, "gelu_new"),
            Some(name) => (true, name),
            None => (false, projection),
        };
        let block = &mut description.stack.block;
        block.head_size = self.size("d_kv")?;
        block.scale = 1.0;
        block.gated = gated;
        block.activation = Activation::named(name).ok_or_else(|| {
            self.wrong(format!("feed_forward_proj is {projection:?}, which is not known"))
        })?;
        block.relative = Some(RelativeBias {
            buckets: self.size_or("relative_attention_num_buckets", 32)?,
            max_distance: self.size_or("relative_attention_max_distance", 128)?,
        });
        if self.has_head(&["EncoderModel"], &[]) {
            description.stack.causal = false;
            description.decoder_start = None;
            description.head = Head::None;
            return Ok(description);
        }
        let decoder_layers = match self.optional("num_decoder_layers")? {
            Some(_) => self.layers("num_decoder_layers")?,
            None => layers,
        };
        description.encoder = Some(Stack { causal: false, ..description.stack.clone() });
        description.stack.windows = vec![None; decoder_layers];
        description.stack.cross = true;
        Ok(description)
    }

    fn vit(&self) -> Result<Description, Error> {
        let norm = self.norm(NormKind::Layer, "layer_norm_eps", 1e-12);
        let width = self.size("hidden_size")?;
        let (layers, heads) =
            (self.layers("num_hidden_layers")?, self.size("num_attention_heads")?);
        let mut description = plain(width, layers, heads, self.size("intermediate_size")?, norm);
        let pair = |key: &str, default: usize| -> Result<(usize, usize), Error> {
            match self.get(key).and_then(Value::as_array).map(Vec::as_slice) {
                Some([height, width]) => {
                    let size =
                        |x: &Value| x.as_u64().and_then(|x| u16::try_from(x).ok()).map(usize::from);
                    size(height)
                        .zip(size(width))
                        .ok_or_else(|| self.wrong(format!("{key} has no two sizes")))
                }
                _ => self.size_or(key, default).map(|x| (x, x)),
            }
        };
        let ((height, image_width), (side, other)) =
            (pair("image_size", 224)?, pair("patch_size", 16)?);
        if side == 0
            || side != other
            || !height.is_multiple_of(side)
            || !image_width.is_multiple_of(side)
        {
            let what = format!(
                "images of {height} × {image_width} pixels are not made of patches of {side} × {other}"
            );
            return Err(self.wrong(what));
        }
        let channels = self.size_or("num_channels", 3)?;
        let patches = Patches { channels, height, width: image_width, side };
        description.embedding.positions =
            Some(LearnedPositions { count: patches.tokens(), first: 0 });
        description.embedding.patches = Some(patches);
        description.stack.causal = false;
        description.stack.hidden_after_norm = false;
        description.stack.block.activation = self.activation("hidden_act", Activation::Gelu)?;
        if self.has_head(&["ForImageClassification"], &["classifier.weight"]) {
            description.head = Head::Classes;
        }
        Ok(description)
    }
}

/// A stack of layers with norms before them, as GPT-2 has it: each family changes what is different.
fn plain(width: usize, layers: usize, heads: usize, hidden: usize, norm: Norm) -> Description {
    let head_size = width.checked_div(heads).unwrap_or(0);
    let block = Block {
        heads,
        kv_heads: heads,
        head_size,
        hidden,
        norm,
        placement: Placement::Before,
        parallel: false,
        qk_norm: false,
        scale: (head_size as f32).sqrt().recip(),
        scale_by_layer: false,
        softcap: None,
        rotary: None,
        relative: None,
        activation: Activation::Gelu,
        gated: false,
    };
    let stack = Stack {
        windows: vec![None; layers],
        causal: true,
        cross: false,
        final_norm: Some(norm),
        hidden_after_norm: true,
        block,
    };
    let embedding = Embedding { scale: 1.0, positions: None, types: 0, norm: None, patches: None };
    Description {
        family: String::new(),
        vocabulary: 0,
        width,
        embedding,
        encoder: None,
        stack,
        head: Head::None,
        tied: false,
        decoder_start: None,
        ends: Vec::new(),
        labels: Vec::new(),
    }
}
