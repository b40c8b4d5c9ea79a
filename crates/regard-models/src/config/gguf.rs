//! The metadata of GGUF files, by architecture.

use std::collections::BTreeSet;
use std::path::Path;

use regard::alibi_slopes;
use serde_json::Value;

use super::rope::usual_parameters;
use super::{activation, default, plain, unknown, windows};
use crate::families::{Family, Flag, Positions, Rope, Skips, Slide};
use crate::read::Metadata;
use crate::{
    Activation, Biases, Checkpoint, ClassPosition, Description, Error, Frequencies,
    LearnedPositions, NormKind, NormSettings, OutputHead, Placement, Problem, QueryGrowth,
    RelativeBias, RotaryScaling, RotarySettings, Stack,
};

/// The keys of known architectures, after the architecture's name: those that are read, and others of their files.
const KEYS: &str = "attention.causal attention.clamp_kqv attention.head_count attention.head_count_kv attention.key_length \
    attention.layer_norm_epsilon attention.layer_norm_rms_epsilon attention.max_alibi_bias attention.relative_buckets_count \
    attention.scale attention.sliding_window attention.sliding_window_pattern attention.temperature_scale \
    attention.value_length attn_logit_softcapping block_count classifier.output_labels classifier.pooling_type context_length decoder_block_count decoder_start_token_id \
    embedding_length embedding_scale expert_count expert_feed_forward_length expert_shared_feed_forward_length \
    expert_used_count feed_forward_length final_logit_softcapping hidden_activation logit_scale pooling_type residual_scale \
    rope.dimension_count rope.freq_base rope.freq_base_swa rope.scale_linear rope.scaling.attn_factor rope.scaling.factor \
    rope.scaling.original_context_length rope.scaling.type rope.scaling.yarn_beta_fast rope.scaling.yarn_beta_slow \
    rope.scaling.yarn_log_multiplier tensor_data_layout use_parallel_residual vocab_size";

/// The keys of a file's architecture that no known architecture has.
pub(super) fn unknown_keys<'a>(metadata: &'a Metadata) -> BTreeSet<String> {
    let architecture = metadata.text("general.architecture").unwrap_or_default();
    let of_architecture = |key: &'a str| key.strip_prefix(architecture)?.strip_prefix('.');
    let keys = metadata.keys().filter_map(of_architecture);
    keys.filter(|key| !KEYS.split(' ').any(|known| known == *key)).map(str::to_owned).collect()
}

/// The settings of a GGUF file.
pub(crate) struct Config<'a> {
    path: &'a Path,
    pub(super) row: &'static Family,
    architecture: &'a str,
    metadata: &'a Metadata,
    pub(super) checkpoint: &'a Checkpoint,
}

impl<'a> Config<'a> {
    pub(super) fn new(checkpoint: &'a Checkpoint, metadata: &'a Metadata) -> Result<Self, Error> {
        let path = checkpoint.path();
        let architecture = metadata.text("general.architecture");
        let architecture =
            architecture.ok_or_else(|| Error::file(path, "general.architecture is missing"))?;
        let row = Family::of_gguf(architecture).ok_or_else(|| {
            let what = format!("the architecture {architecture:?} is not known: ");
            unknown(path, checkpoint, &what, &Family::known_gguf())
        })?;
        Ok(Self { path, row, architecture, metadata, checkpoint })
    }

    fn wrong(&self, what: impl Into<String>) -> Error {
        Error::file(self.path, what)
    }

    /// The name of a key of the architecture.
    fn key(&self, name: &str) -> String {
        debug_assert!(KEYS.split(' ').any(|known| known == name), "KEYS lacks {name}");
        format!("{}.{name}", self.architecture)
    }

    pub(super) fn optional(&self, name: &str) -> Option<usize> {
        usize::try_from(u32::try_from(self.metadata.number(&self.key(name))?).ok()?).ok()
    }

    pub(super) fn size(&self, name: &str) -> Result<usize, Error> {
        self.optional(name).ok_or_else(|| self.wrong(format!("{} is missing", self.key(name))))
    }

    fn float(&self, name: &str) -> Option<f64> {
        self.metadata.float(&self.key(name))
    }

    pub(super) fn describe(&self) -> Result<Description, Error> {
        let row = self.row;
        // A key that the file lacks has the default of transformers' class for the family.
        let usual = |key: &str| default(row.name, key);
        // The converter has added 1 to the norm weights of Gemma and Nemotron.
        let keys = ["attention.layer_norm_epsilon", "attention.layer_norm_rms_epsilon"];
        let (kind, [mut epsilon, other]) = match row.norm.0 {
            NormKind::Layer | NormKind::LayerPlusOne => (NormKind::Layer, keys),
            NormKind::Rms | NormKind::RmsPlusOne => (NormKind::Rms, [keys[1], keys[0]]),
        };
        // The converter goes by the name of the setting: Phi-3.5-MoE, ModernBERT and the first Qwen have the key of the other kind.
        if self.float(epsilon).is_none() && self.float(other).is_some() {
            epsilon = other;
        }
        let number = |name: &str, config: &str| {
            let number = self.float(name).or_else(|| usual(config).and_then(Value::as_f64));
            number.ok_or_else(|| self.wrong(format!("{} is missing", self.key(name))))
        };
        let (width, layers, heads) = (
            self.size("embedding_length")?,
            self.size("block_count")?,
            self.size("attention.head_count")?,
        );
        let tensors = self.checkpoint.names().count();
        if layers > tensors {
            let what =
                format!("{} is {layers}, but there are {tensors} tensors", self.key("block_count"));
            return Err(self.wrong(what));
        }
        let norm = NormSettings { kind, epsilon: number(epsilon, row.norm.1)? as f32 };
        let cap = |name: &str| {
            let cap = self.float(name).or_else(|| usual(name).and_then(Value::as_f64));
            cap.map(|cap| cap as f32).filter(|_| row.caps)
        };
        let mut description = plain(width, layers, heads, self.size("feed_forward_length")?, norm);
        let block = &mut description.stack.block;
        block.head_size = self.optional("attention.key_length").unwrap_or(block.head_size);
        block.scale = (block.head_size as f32).sqrt().recip();
        block.kv_heads = self.optional("attention.head_count_kv").unwrap_or(heads);
        let parallel = self.metadata.flag(&self.key("use_parallel_residual"));
        block.parallel = parallel.unwrap_or(!matches!(row.parallel, Flag::No));
        (block.qk_norm, block.sinks, block.gated) = (row.qk_norm, row.sinks, row.gated);
        block.softcap = cap("attn_logit_softcapping");
        block.clip = self.float("attention.clamp_kqv").map(|clip| clip as f32);
        let name = usual(row.activation).and_then(Value::as_str);
        block.activation = name.and_then(activation).unwrap_or(block.activation);
        block.placement = row.placement;
        if let Some(name) = self.metadata.text(&self.key("hidden_activation")) {
            block.activation = activation(name).ok_or_else(|| {
                self.wrong(format!("hidden_activation is {name:?}, which is not known"))
            })?;
        }
        let head_size = block.head_size;
        // One of every `pattern` layers sees all tokens: the last one, or the first.
        let rest = usize::from(!matches!(row.windows.slide, Slide::AllButFirst(..)));
        let pattern = match row.windows.slide {
            Slide::AllButLast(pattern, _) | Slide::AllButFirst(pattern, _) => Some(pattern),
            Slide::All if row.windows.flag.is_none() => Some(usize::MAX),
            _ => None,
        };
        if let Some(pattern) = pattern {
            let usual = usual("sliding_window").filter(|_| row.windows.usual);
            let usual = usual.and_then(Value::as_u64).and_then(|x| usize::try_from(x).ok());
            // 0 means no window.
            let window = self.optional("attention.sliding_window").or(usual);
            let window = window.filter(|window| *window > 0);
            let both = row.windows.size != "sliding_window";
            let window = if both { window.map(|all| all / 2 + 1) } else { window };
            let name = "attention.sliding_window_pattern";
            let pattern = self.optional(name).unwrap_or(pattern);
            let slides = match self.metadata.flags(&self.key(name)) {
                Some(flags) if flags.len() != layers => {
                    let (name, found) = (self.key(name), flags.len());
                    let what = format!("{name} has {found} entries for {layers} layers");
                    return Err(self.wrong(what));
                }
                Some(flags) => flags.to_vec(),
                // 0 means that all layers slide.
                None => {
                    let slides = |layer| pattern == 0 || (layer + rest) % pattern != 0;
                    (0..layers).map(slides).collect()
                }
            };
            description.stack.windows = windows(layers, window, |layer| slides[layer]);
        }
        match &row.positions {
            Positions::Rotary(rope) => self.turn(rope, &mut description.stack, head_size)?,
            Positions::Slopes => description.stack.block.slopes = self.slopes(heads)?,
            _ => {}
        }
        let norm_of_queries = "blk.0.attn_q_norm.weight";
        if row.qk_norm.is_none() && self.checkpoint.shape(norm_of_queries).is_some() {
            let what = format!("is a norm of queries, which {} does not have", row.name);
            return Err(Error::tensor(self.path, norm_of_queries, what));
        }
        let hidden = description.stack.block.hidden;
        description.stack.experts = self.experts(layers, hidden)?;
        let count = self.size("context_length")?;
        let positions = LearnedPositions::new(count, 0);
        description.context = Some(count);
        description.embedding.positions =
            matches!(row.positions, Positions::Learned(..)).then_some(positions);
        let tokens = self.checkpoint.shape("token_embd.weight").and_then(<[usize]>::first);
        description.vocabulary =
            *tokens.ok_or_else(|| Error::tensor(self.path, "token_embd.weight", "is missing"))?;
        let softcap = cap("final_logit_softcapping");
        description.head = OutputHead::Tokens { transform: None, scale: 1.0, softcap };
        description.tied = self.checkpoint.shape("output.weight").is_none();
        if row.placement == Placement::After {
            description.embedding.norm = description.stack.final_norm.take();
        }
        let types = self.checkpoint.shape("token_types.weight");
        description.embedding.types = types.and_then(<[usize]>::first).copied().unwrap_or(0);
        description.stack.causal = self.metadata.flag(&self.key("attention.causal")) != Some(false);
        if !description.stack.causal {
            description.tied = false;
            description.head = self.encoded(norm);
            let key = self.key("classifier.output_labels");
            description.labels = self.metadata.texts(&key).unwrap_or_default().to_vec();
        }
        self.architecture.clone_into(&mut description.family);
        let end = |end| self.metadata.number(&format!("tokenizer.ggml.{end}_token_id"));
        let ends = ["eos", "eot", "eom"].into_iter().filter_map(end);
        description.ends = ends.filter_map(|id| u32::try_from(id).ok()).collect();
        (row.also_gguf)(self, &mut description);
        Ok(description)
    }

    /// The output of an encoder, whose head for tokens the converter leaves out: its classes, or a vector.
    fn encoded(&self, norm: NormSettings) -> OutputHead {
        let has = |tensor: &str| self.checkpoint.shape(tensor).is_some();
        let position = |key: &str| match self.optional(key)? {
            1 => Some(ClassPosition::Mean),
            2 => Some(ClassPosition::First),
            3 => Some(ClassPosition::Last { pad: None }),
            _ => None,
        };
        if has("cls.output.weight") && has("cls.weight") {
            // The file does not tell the activation. DistilBERT is the one without types.
            let pooler = match (has("cls.norm.weight"), has("token_types.weight")) {
                (true, _) => Activation::Gelu,
                (_, true) => Activation::Tanh,
                _ => Activation::Relu,
            };
            let norm = Some(norm).filter(|_| has("cls.norm.weight"));
            let position = position("classifier.pooling_type").unwrap_or(ClassPosition::First);
            return OutputHead::Classes {
                pooler: Some(pooler),
                norm,
                position,
                problem: Problem::OneOf,
            };
        }
        if has("cls.output.weight") || has("cls.weight") {
            // The converter leaves out BERT's pooler, without which its classes are others.
            return OutputHead::Other { architecture: "a BERT without its pooler".into() };
        }
        let Some(position) = position("pooling_type") else { return OutputHead::None };
        OutputHead::Pooled { position, norm: None, activation: None }
    }

    pub(crate) fn t5(&self, description: &mut Description) {
        let Description { width, stack, .. } = description;
        let block = &mut stack.block;
        (block.scale, block.biases) = (1.0, Biases { qkv: false, out: false, hidden: false });
        block.gated = self.checkpoint.shape("enc.blk.0.ffn_gate.weight").is_some();
        block.activation = if block.gated { Activation::GeluTanh } else { Activation::Relu };
        let buckets = self.optional("attention.relative_buckets_count");
        let buckets = buckets.filter(|buckets| (4..256).contains(buckets)).unwrap_or(32);
        block.relative = Some(RelativeBias { buckets, max_distance: 128 }); // no setting
        if self.architecture == "t5encoder" {
            stack.causal = false;
            (description.tied, description.head) = (false, self.encoded(stack.block.norm));
            return;
        }
        description.encoder = Some(Stack { causal: false, ..stack.clone() });
        let layers = self.optional("decoder_block_count").unwrap_or_else(|| stack.layers());
        stack.windows = vec![None; layers.min(self.checkpoint.names().count())];
        stack.cross = true;
        let start = self.optional("decoder_start_token_id").unwrap_or(0);
        description.decoder_start = u32::try_from(start).ok().into_iter().collect();
        // T5 1.0 has no other head than its embeddings.
        let scale = if description.tied { (*width as f32).sqrt().recip() } else { 1.0 };
        description.head = OutputHead::Tokens { transform: None, scale, softcap: None };
    }

    pub(crate) fn modernbert(description: &mut Description) {
        description.embedding.norm = description.stack.final_norm;
        (description.stack.begins_bare, description.stack.block.gated) = (true, true);
    }

    /// The slopes of ALiBi.
    fn slopes(&self, heads: usize) -> Result<Vec<f32>, Error> {
        let name = "attention.max_alibi_bias";
        if let Some(most) = self.float(name).filter(|most| *most != 8.0) {
            return Err(self.wrong(format!("{} is {most}; only 8 is known", self.key(name))));
        }
        if heads as u64 > self.checkpoint.bytes() {
            let bytes = self.checkpoint.bytes();
            return Err(self.wrong(format!("{heads} heads are too many for {bytes} bytes")));
        }
        Ok(alibi_slopes(heads))
    }

    pub(crate) fn bloom(description: &mut Description) {
        description.embedding.norm = description.stack.final_norm;
        description.stack.block.activation = Activation::GeluTanh;
    }

    pub(crate) fn cohere(&self, description: &mut Description) {
        let scale = self.float("logit_scale").unwrap_or(1.0) as f32;
        description.head = OutputHead::Tokens { transform: None, scale, softcap: None };
    }

    pub(crate) fn ministral3(&self, description: &mut Description) {
        let each = self.float("rope.scaling.original_context_length");
        let both = self.float("attention.temperature_scale").zip(each.filter(|each| *each >= 1.0));
        description.stack.block.growth =
            both.map(|(slope, each)| QueryGrowth { slope, each, whole: true });
    }

    /// The weights of a token's experts are shares of all, which do not add up to 1.
    pub(crate) fn shares_of_all(description: &mut Description) {
        if let Some(experts) = &mut description.stack.experts {
            experts.normalized = false;
        }
    }

    pub(crate) fn gemma(description: &mut Description) {
        let (width, layers) = (description.width, description.stack.layers());
        description.embedding.scale = (width as f32).sqrt();
        // Models of 27 billion parameters scale by the width's share of a head.
        let block = &mut description.stack.block;
        if layers == if block.qk_norm.is_none() { 46 } else { 62 } {
            let even = width.checked_div(block.heads).unwrap_or(0);
            block.scale = (even as f32).sqrt().recip();
        }
    }

    pub(crate) fn granite(&self, description: &mut Description) {
        // 0 means that the file leaves the factor to the model.
        let factor = |name: &str| self.float(name).filter(|factor| *factor != 0.0);
        let block = &mut description.stack.block;
        block.scale = factor("attention.scale").map_or(block.scale, |scale| scale as f32);
        block.output_scale = factor("residual_scale").unwrap_or(1.0) as f32;
        description.embedding.scale = factor("embedding_scale").unwrap_or(1.0) as f32;
        let scale = self.float("logit_scale").unwrap_or(1.0).recip() as f32;
        description.head = OutputHead::Tokens { transform: None, scale, softcap: None };
    }

    /// Gives each layer of a stack its rotary embedding. The windows of the stack are known.
    fn turn(&self, rope: &Rope, stack: &mut Stack, head_size: usize) -> Result<(), Error> {
        let rotary = self.rotary(rope, head_size)?;
        stack.turn_all(rotary.clone());
        // The file does not say which layers have no positions.
        let skipped = |layer: usize| match rope.skips {
            Skips::None => false,
            Skips::Listed => layer % 4 == 3,
            Skips::Full => {
                stack.windows[layer].is_none() && stack.windows.iter().any(Option::is_some)
            }
        };
        let turns = (0..).zip(&mut stack.turns);
        turns.filter(|(layer, _)| skipped(*layer)).for_each(|(_, turns)| *turns = None);
        if let [_, (key, usual)] = rope.bases {
            // Layers with a sliding window are not scaled.
            let usual = if key.is_empty() { rotary.base } else { *usual };
            let base = self.base("rope.freq_base_swa", usual)?;
            stack.rotary.push(RotarySettings { base, scaling: Frequencies::Plain, ..rotary });
            let sliding = stack.turns.iter_mut().zip(&stack.windows);
            let sliding = sliding.filter(|(_, window)| window.is_some());
            sliding.for_each(|(turns, _)| *turns = Some(1));
        }
        Ok(())
    }

    /// A rotary base.
    fn base(&self, name: &str, usual: f64) -> Result<f64, Error> {
        let base = self.float(name).unwrap_or(usual);
        if base > 0.0 && base.is_finite() {
            return Ok(base);
        }
        Err(self.wrong(format!("{} is {base}", self.key(name))))
    }

    fn rotary(&self, rope: &Rope, head_size: usize) -> Result<RotarySettings, Error> {
        let features = self.optional("rope.dimension_count").unwrap_or(head_size);
        let permuted = self.row.gguf.is_some_and(|(_, names)| names == "gguf neighbours");
        if permuted && features != head_size {
            // The rows of these families are permuted for whole heads.
            let what =
                format!("{} is {features}, not {head_size}", self.key("rope.dimension_count"));
            return Err(self.wrong(what));
        }
        let base = self.base("rope.freq_base", 10_000.0)?;
        // The name in older files; 0 means none.
        let factor = self.float("rope.scaling.factor").or_else(|| self.float("rope.scale_linear"));
        let factor = factor.filter(|factor| *factor != 0.0).unwrap_or(1.0);
        let positions = self.optional("context_length").unwrap_or(0);
        let original = self.optional("rope.scaling.original_context_length").unwrap_or(positions);
        let amplitude = self.float("rope.scaling.attn_factor").unwrap_or(1.0);
        let grown = |by: f64| 1.0 + 0.1 * by * factor.max(1.0).ln();
        let log = self.float("rope.scaling.yarn_log_multiplier").unwrap_or(0.0);
        let scaling = match self.metadata.text(&self.key("rope.scaling.type")).unwrap_or("linear") {
            _ if self.checkpoint.shape("rope_freqs.weight").is_some() => Frequencies::Stored,
            _ if self.checkpoint.shape("rope_factors_short.weight").is_some() => {
                Frequencies::LongRope {
                    short: self.divisors("rope_factors_short.weight", features)?,
                    long: self.divisors("rope_factors_long.weight", features)?,
                    original,
                    attention_factor: amplitude,
                }
            }
            "linear" if factor != 1.0 => Frequencies::Scaled(RotaryScaling::Linear { factor }),
            "none" | "linear" => Frequencies::Plain,
            "yarn" => Frequencies::Scaled(RotaryScaling::Yarn {
                factor,
                original_positions: original as f64,
                beta_fast: self.float("rope.scaling.yarn_beta_fast").unwrap_or(32.0),
                beta_slow: self.float("rope.scaling.yarn_beta_slow").unwrap_or(1.0),
                amplitude: Some(amplitude * grown(1.0) / grown(log)),
                // llama.cpp rounds for gpt-oss too, which was trained without it.
                whole_pairs: usual_parameters(rope).get("truncate") != Some(&false.into()),
            }),
            other => {
                let known = "none, linear and yarn, and longrope with its tensors rope_factors_short and rope_factors_long";
                let what =
                    format!("{} is {other:?}; known are {known}", self.key("rope.scaling.type"));
                return Err(self.wrong(what));
            }
        };
        Ok(RotarySettings { features, base, scaling, interleaved: rope.interleaved })
    }

    /// A divisor for each rotary frequency, from a tensor.
    fn divisors(&self, name: &str, features: usize) -> Result<Vec<f64>, Error> {
        let tensor = self.checkpoint.read(name)?;
        if tensor.shape() != [features / 2] {
            let what = format!(
                "has the shape {:?}, but the model needs {:?}",
                tensor.shape(),
                [features / 2]
            );
            return Err(Error::tensor(self.path, name, what));
        }
        Ok(tensor.to_f32().into_iter().map(f64::from).collect())
    }
}
