//! The config.json of each family, in the forms that transformers 4 and 5 write.

use std::path::Path;

use regard::alibi_slopes;
use serde_json::{Value, json};

use super::{activation, default, hybrid, plain, unknown, windows};
use crate::families::{Classes, Family, Flag, Positions, Rope, Skips, Slide};
use crate::read::Beside;
use crate::{
    Activation, Biases, Checkpoint, ClassPosition, Cubic, Description, Disentangled, Error, Frames,
    Frequencies, ImageProcessor, LearnedPositions, NormKind, NormSettings, OutputHead, Patches,
    Placement, Problem, QueryGrowth, RelativeBias, RotarySettings, Stack,
};

/// The endings of the names of transformers' classes, and the kinds of their heads. A base model's name has none of these
/// endings.
const HEADS: [(&str, HeadKind); 15] = [
    ("ForImageClassificationWithTeacher", HeadKind::Classes),
    ("ElectraForPreTraining", HeadKind::Other),
    ("ForCausalLM", HeadKind::Tokens),
    ("LMHeadModel", HeadKind::Tokens),
    ("ForMaskedLM", HeadKind::Tokens),
    ("ForPreTraining", HeadKind::Tokens),
    ("ForConditionalGeneration", HeadKind::Tokens),
    ("DoubleHeadsModel", HeadKind::Tokens),
    ("ForSequenceClassification", HeadKind::Classes),
    ("ForImageClassification", HeadKind::Classes),
    ("ForTokenClassification", HeadKind::Other),
    ("ForQuestionAnswering", HeadKind::Other),
    ("ForMultipleChoice", HeadKind::Other),
    ("ForNextSentencePrediction", HeadKind::Other),
    ("ForMaskedImageModeling", HeadKind::Other),
];

/// The kind of output that a head computes.
#[derive(Clone, Copy)]
enum HeadKind {
    Tokens,
    Classes,
    /// Another kind, which is not computed.
    Other,
}

/// The tensors that only a head for tokens has, in any family.
const TENSORS_OF_HEADS: [&str; 9] = [
    "generator_predictions.dense.weight",
    "lm_predictions.lm_head.dense.weight",
    "predictions.dense.weight",
    "decoder.bias",
    "lm_head.weight",
    "embed_out.weight",
    "lm_head.dense.weight",
    "cls.predictions.transform.dense.weight",
    "vocab_transform.weight",
];

/// A config.json.
pub(crate) struct Config<'a> {
    pub(super) path: &'a Path,
    pub(super) row: &'static Family,
    pub(super) values: &'a Value,
    pub(super) checkpoint: &'a Checkpoint,
    /// The content of generation_config.json, if the folder has it.
    generation: Option<Value>,
}

impl<'a> Config<'a> {
    /// The config of a known family.
    ///
    /// # Errors
    /// An error names the family, and lists the known ones.
    pub(super) fn new(
        path: &'a Path,
        values: &'a Value,
        checkpoint: &'a Checkpoint,
    ) -> Result<Self, Error> {
        let family = values.get("model_type").and_then(Value::as_str);
        let family = family.ok_or_else(|| Error::file(path, "model_type is missing"))?;
        let row = Family::of_config(family).ok_or_else(|| {
            if let Some(reason) = hybrid::reason(family, values) {
                return Error::file(
                    path,
                    format!("the family {family:?} is not computed: {reason}"),
                );
            }
            let class = values["architectures"][0].as_str();
            let class = class.map_or_else(String::new, |x| format!("its class is {x}, and "));
            let what = format!("the family {family:?} is not known: {class}");
            unknown(path, checkpoint, &what, &Family::known())
        })?;
        let generation = checkpoint.json(Beside::GENERATION_CONFIG)?;
        Ok(Self { path, row, values, checkpoint, generation })
    }

    pub(super) fn wrong(&self, what: impl Into<String>) -> Error {
        Error::file(self.path, what)
    }

    /// The value of a key in the file. If the key has another name and the file has that one, it counts.
    pub(super) fn own(&self, key: &str) -> Option<&'a Value> {
        let names = default(self.row.name, "attribute_map").and_then(Value::as_object);
        let mut others = names.into_iter().flatten().filter(|(_, name)| *name == key);
        others.find_map(|(other, _)| self.values.get(other)).or_else(|| self.values.get(key))
    }

    /// The value of a key, or the family's default if the file lacks the key. `null` counts as no value, and has no default.
    pub(super) fn get(&self, key: &str) -> Option<&'a Value> {
        let value = self.own(key).or_else(|| default(self.row.name, key));
        value.filter(|value| !value.is_null())
    }

    /// The error for a key that is missing, or whose value is not a `what`.
    pub(super) fn not_a(&self, key: &str, what: &str) -> Error {
        match self.own(key) {
            Some(value) => self.wrong(format!("{key} is {value}, which is no {what}")),
            None => self.wrong(format!("{key} is missing")),
        }
    }

    /// A whole number, if the key has a value.
    pub(super) fn optional(&self, key: &str) -> Result<Option<usize>, Error> {
        let Some(value) = self.get(key) else { return Ok(None) };
        // Larger sizes than 2³² are refused, so that products of sizes need not be checked.
        let size = value
            .as_u64()
            .and_then(|x| u32::try_from(x).ok())
            .and_then(|x| usize::try_from(x).ok());
        size.map(Some).ok_or_else(|| self.not_a(key, "size"))
    }

    pub(super) fn size(&self, key: &str) -> Result<usize, Error> {
        self.optional(key)?.ok_or_else(|| self.not_a(key, "size"))
    }

    pub(super) fn number(&self, key: &str) -> Result<f64, Error> {
        self.get(key).and_then(Value::as_f64).ok_or_else(|| self.not_a(key, "number"))
    }

    fn optional_number(&self, key: &str) -> Result<Option<f32>, Error> {
        self.get(key).map(|_| self.number(key).map(|x| x as f32)).transpose()
    }

    pub(super) fn flag(&self, key: &str) -> Result<bool, Error> {
        self.get(key).and_then(Value::as_bool).ok_or_else(|| self.not_a(key, "true or false"))
    }

    /// A flag of a key for which the family has no default.
    pub(super) fn flag_or(&self, key: &str, default: bool) -> Result<bool, Error> {
        if self.get(key).is_some() { self.flag(key) } else { Ok(default) }
    }

    fn text(&self, key: &str) -> Result<&'a str, Error> {
        self.get(key).and_then(Value::as_str).ok_or_else(|| self.not_a(key, "text"))
    }

    fn activation(&self, key: &str) -> Result<Activation, Error> {
        self.activation_named(key, self.text(key)?)
    }

    fn activation_named(&self, key: &str, name: &str) -> Result<Activation, Error> {
        activation(name).ok_or_else(|| {
            let known = "relu, relu2, gelu, gelu_new, gelu_fast, gelu_pytorch_tanh, quick_gelu, silu, swish and tanh";
            self.wrong(format!("{key} is {name:?}, which is not known; known are {known}"))
        })
    }

    /// Whether a model has a property of its family.
    fn told(&self, flag: Flag) -> Result<bool, Error> {
        match flag {
            Flag::No => Ok(false),
            Flag::Yes => Ok(true),
            Flag::Key(key) => self.flag_or(key, false),
        }
    }

    fn norm(&self, kind: NormKind, key: &str) -> Result<NormSettings, Error> {
        Ok(NormSettings { kind, epsilon: self.number(key)? as f32 })
    }

    /// The norm of the family's kind.
    fn own_norm(&self) -> Result<NormSettings, Error> {
        let (kind, key) = self.row.norm;
        if key.is_empty() {
            return Ok(NormSettings { kind, epsilon: 1e-5 }); // PyTorch's
        }
        self.norm(kind, key)
    }

    /// The number of layers. Each layer has tensors, so there are at most as many layers as tensors.
    fn layers(&self, key: &str) -> Result<usize, Error> {
        let (layers, tensors) = (self.size(key)?, self.checkpoint.names().count());
        if layers <= tensors {
            return Ok(layers);
        }
        Err(self.wrong(format!("{key} is {layers}, but there are {tensors} tensors")))
    }

    /// The ids at a key of generation_config.json, or `None` without that file.
    fn generation_ids(&self, key: &str) -> Option<Vec<u32>> {
        self.generation.as_ref().map(|values| ids(values.get(key)))
    }

    /// The tokens that end a text: those of generation_config.json, which include the end of a chat, and those of config.json.
    /// The family's default counts only if neither file has any.
    fn ends(&self) -> Vec<u32> {
        let key = "eos_token_id";
        let generation = self.generation_ids(key);
        let mut ends = match generation {
            Some(_) => ids(self.own(key)),
            None => ids(self.get(key)),
        };
        ends.extend(generation.unwrap_or_default());
        ends.sort_unstable();
        ends.dedup();
        ends
    }

    /// The tokens that are not written: those of config.json count only without generation_config.json.
    fn suppressed(&self, key: &str) -> Vec<u32> {
        self.generation_ids(key).unwrap_or_else(|| ids(self.get(key)))
    }

    /// The words of one token that are not written.
    fn bad_words(&self) -> Vec<u32> {
        let values = self.generation.as_ref().unwrap_or(self.values);
        let words = values["bad_words_ids"].as_array().into_iter().flatten();
        let word = |word: &Value| match ids(Some(word))[..] {
            [id] => Some(id),
            _ => None,
        };
        words.filter_map(word).collect()
    }

    /// The token with which a decoder begins.
    fn decoder_start(&self) -> Option<u32> {
        let key = "decoder_start_token_id";
        let start = self.generation_ids(key).unwrap_or_default();
        start.into_iter().chain(ids(self.get(key))).next()
    }

    /// Whether the checkpoint has one of these tensors.
    fn has(&self, tensors: &[&str]) -> bool {
        tensors.iter().any(|name| self.checkpoint.shape(name).is_some())
    }

    pub(super) fn describe(&self) -> Result<Description, Error> {
        let mut description = (self.row.describe)(self)?;
        description.context = match description.embedding.positions {
            Some(positions) => description.embedding.patches.is_none().then(|| positions.most()),
            None => self.optional("max_position_embeddings")?.or(description.context),
        };
        description.ends = self.ends();
        description.suppressed = self.suppressed("suppress_tokens");
        description.suppressed.extend(self.bad_words());
        description.suppressed_first = self.suppressed("begin_suppress_tokens");
        self.choose_head(&mut description)?;
        if description.stack.causal {
            for (key, causal) in [("is_causal", true), ("use_bidirectional_attention", false)] {
                if self.flag_or(key, causal)? != causal {
                    let what = format!(
                        "{key} is {}: a decoder that sees later tokens is not known",
                        !causal
                    );
                    return Err(self.wrong(what));
                }
            }
        }
        Ok(description)
    }

    /// Sets the head of a description that has the head of a model that predicts tokens. It is the one that `architectures`
    /// names, or if it names no known one, the one whose tensors exist.
    fn choose_head(&self, description: &mut Description) -> Result<(), Error> {
        if let Some(position) = self.of_sentence()? {
            description.head = OutputHead::Pooled { position, norm: None, activation: None };
            description.tied = false;
            return Ok(());
        }
        let named = self.architecture();
        let kind = HEADS.iter().find(|(end, _)| named.ends_with(end)).map(|(_, kind)| *kind);
        let transformed = matches!(description.head, OutputHead::Tokens { transform: Some(_), .. });
        let images = description.embedding.patches.is_some();
        let found = description.tied && !transformed || self.has(&TENSORS_OF_HEADS);
        description.head = match kind {
            Some(HeadKind::Tokens) => return Ok(()),
            Some(HeadKind::Classes) => self.classes(&description.head)?,
            Some(HeadKind::Other) => OutputHead::Other { architecture: named.to_owned() },
            None if images && self.has(&["classifier.weight", "cls_classifier.weight"]) => {
                self.classes(&description.head)?
            }
            None if !images && found => return Ok(()),
            None => self.pooled(description)?,
        };
        description.tied = false;
        if matches!(description.head, OutputHead::Classes { .. }) {
            let labels =
                (0..).map_while(|id: u32| self.get("id2label")?.get(id.to_string())?.as_str());
            description.labels = labels.map(str::to_owned).collect();
        }
        Ok(())
    }

    /// The state that is the vector of a text, if sentence-transformers' settings beside the model tell one.
    fn of_sentence(&self) -> Result<Option<ClassPosition>, Error> {
        let Some(settings) = self.checkpoint.json(Beside::POOLING)? else { return Ok(None) };
        let is = |mode: &str| {
            let (key, short) = (format!("pooling_mode_{mode}"), mode.split('_').next());
            settings[&key] == true || settings["pooling_mode"].as_str() == short
        };
        Ok(if is("mean_tokens") {
            Some(ClassPosition::Mean)
        } else if is("cls_token") {
            Some(ClassPosition::First)
        } else {
            is("lasttoken").then_some(ClassPosition::Last { pad: None })
        })
    }

    /// The vector of a model without a head, if the family has one.
    fn pooled(&self, description: &Description) -> Result<OutputHead, Error> {
        let Some(mut position) = self.row.pooled else { return Ok(OutputHead::None) };
        if let ClassPosition::Token { id } = &mut position {
            // The number 2 stands in the first files, and means the token with the largest id.
            *id = self.ends().first().copied().filter(|id| *id != 2);
        }
        if position == ClassPosition::Probe && !self.flag("vision_use_head")? {
            return Ok(OutputHead::None);
        }
        if self.row.placement == Placement::After {
            // BERT's pooler, which not every base model has.
            let pooler = self.has(&["pooler.dense.weight", "pooler.weight"]);
            let activation = Some(Activation::Tanh);
            let head = OutputHead::Pooled { position, norm: None, activation };
            return Ok(if pooler { head } else { OutputHead::None });
        }
        let bare = description.stack.final_norm.is_none();
        let norm = bare.then(|| self.own_norm()).transpose()?;
        let key = "pooler_act";
        let activation = self.get(key).map(|_| self.activation(key)).transpose()?;
        Ok(OutputHead::Pooled { position, norm, activation })
    }

    /// The first of `architectures`, or nothing.
    fn architecture(&self) -> &'a str {
        self.get("architectures").and_then(|names| names.get(0)?.as_str()).unwrap_or_default()
    }

    /// The head of a model that classifies its input, in the place of the head that predicts tokens.
    fn classes(&self, tokens: &OutputHead) -> Result<OutputHead, Error> {
        let pad = || ids(self.get("pad_token_id")).first().copied();
        let problem = self.problem()?;
        let at = |position| OutputHead::Classes { pooler: None, norm: None, position, problem };
        Ok(match (self.row.classes, tokens) {
            (Classes::First(_), _) if self.has(&["cls_classifier.weight"]) => {
                at(ClassPosition::FirstTwo)
            }
            (Classes::At(position), _) => at(position),
            (Classes::First(pooler), _) => {
                OutputHead::Classes { pooler, norm: None, position: ClassPosition::First, problem }
            }
            (Classes::Pooled, OutputHead::Tokens { transform: Some((pooler, norm)), .. }) => {
                let position = match self.text("classifier_pooling")? {
                    "cls" => ClassPosition::First,
                    "mean" => ClassPosition::Mean,
                    _ => return Err(self.not_a("classifier_pooling", "\"cls\" or \"mean\"")),
                };
                OutputHead::Classes { pooler: Some(*pooler), norm: Some(*norm), position, problem }
            }
            (Classes::Last | Classes::Pooled, _) => at(ClassPosition::Last { pad: pad() }),
            (Classes::Other, _) => {
                OutputHead::Other { architecture: self.architecture().to_owned() }
            }
        })
    }

    /// What the logits of classes say.
    fn problem(&self) -> Result<Problem, Error> {
        let key = "problem_type";
        match self.get(key).map(|_| self.text(key)).transpose()? {
            None | Some("single_label_classification") => Ok(Problem::OneOf),
            Some("multi_label_classification") => Ok(Problem::AnyOf),
            Some("regression") => Ok(Problem::Regression),
            Some(other) => {
                let known =
                    "single_label_classification, multi_label_classification and regression";
                Err(self
                    .wrong(format!("{key} is {other:?}, which is not known; known are {known}")))
            }
        }
    }

    /// A stack of layers with norms before the sublayers, as in GPT-2. Each family changes what differs. `keys` are the keys of
    /// the width, of the numbers of layers and of heads, and of the hidden features.
    fn of_layers(
        &self,
        [width, layers, heads, hidden]: [&str; 4],
        norm: NormSettings,
    ) -> Result<Description, Error> {
        let (width, layers) = (self.size(width)?, self.layers(layers)?);
        let hidden = match self.optional(hidden)? {
            None if hidden.is_empty() => 4 * width,
            None if default(self.row.name, hidden).is_some_and(Value::is_null) => 4 * width,
            _ => self.size(hidden)?,
        };
        Ok(plain(width, layers, self.size(heads)?, hidden, norm))
    }

    /// As [`of_layers`](Self::of_layers), for a model that predicts tokens.
    fn of_tokens(&self, keys: [&str; 4], norm: NormSettings) -> Result<Description, Error> {
        Ok(Description {
            vocabulary: self.size("vocab_size")?,
            tied: self.flag_or("tie_word_embeddings", false)?,
            head: OutputHead::Tokens { transform: None, scale: 1.0, softcap: None },
            ..self.of_layers(keys, norm)?
        })
    }

    /// An encoder whose norms stand after its sums, such as BERT.
    fn encoder(&self, norm: NormSettings) -> Result<Description, Error> {
        if let Some(kind) = self.own("position_embedding_type").filter(|kind| *kind != "absolute") {
            return Err(self
                .wrong(format!("position_embedding_type is {kind}; only \"absolute\" is known")));
        }
        let mut description = self.of_tokens(self.row.sizes, norm)?;
        let activation = self.activation(self.row.activation)?;
        if let Positions::Learned(key, first) = self.row.positions {
            description.embedding.positions = Some(LearnedPositions::new(self.size(key)?, first));
        }
        description.embedding.norm = Some(norm);
        let stack = &mut description.stack;
        stack.causal = false;
        stack.final_norm = None;
        stack.block.placement = self.row.placement;
        stack.block.activation = activation;
        stack.block.gated = self.row.gated;
        let [qkv, out, hidden] = self.row.biases.map(|flag| self.told(flag));
        stack.block.biases = Biases { qkv: qkv?, out: out?, hidden: hidden? };
        let head_size = stack.block.head_size;
        self.turn(stack, head_size)?;
        let transform = Some((activation, norm));
        description.head = OutputHead::Tokens { transform, scale: 1.0, softcap: None };
        Ok(description)
    }

    pub(crate) fn distilbert(&self) -> Result<Description, Error> {
        self.encoder(NormSettings { kind: NormKind::Layer, epsilon: 1e-12 }) // no setting
    }

    pub(crate) fn bert(&self) -> Result<Description, Error> {
        let norm = self.own_norm()?;
        let mut description = self.encoder(norm)?;
        description.embedding.types = self.size("type_vocab_size")?;
        description.stack.causal = self.flag_or("is_decoder", false)?;
        Ok(description)
    }

    /// An encoder whose tables have fewer features than its layers, and whose head is of that size.
    pub(crate) fn electra(&self) -> Result<Description, Error> {
        let mut description = self.bert()?;
        let features = self.size("embedding_size")?;
        if features == 0 {
            return Err(self.wrong("embedding_size is 0"));
        }
        description.embedding.features = Some(features).filter(|size| *size != description.width);
        activate(&mut description.head, Activation::Gelu);
        Ok(description)
    }

    pub(crate) fn albert(&self) -> Result<Description, Error> {
        let mut description = self.electra()?;
        // Its layer of this name is there even if the sizes are equal.
        description.embedding.features = Some(self.size("embedding_size")?);
        activate(&mut description.head, description.stack.block.activation);
        let (inner, groups) = (self.size("inner_group_num")?, self.size("num_hidden_groups")?);
        self.only("inner_group_num", inner == 1)?;
        self.only("num_hidden_groups", (1..=description.stack.layers()).contains(&groups))?;
        description.stack.groups = Some(groups);
        Ok(description)
    }

    pub(crate) fn mpnet(&self) -> Result<Description, Error> {
        let mut description = self.encoder(self.own_norm()?)?;
        if let Some(positions) = &mut description.embedding.positions {
            (positions.first, positions.pad) = (2, Some(1)); // no settings
        }
        activate(&mut description.head, Activation::Gelu);
        let key = "relative_attention_num_buckets";
        let buckets = self.size(key)?;
        self.only(key, buckets == 32)?;
        description.stack.block.relative = Some(RelativeBias { buckets, max_distance: 128 });
        Ok(description)
    }

    /// An encoder with disentangled attention: DeBERTa 2 and 3.
    pub(crate) fn deberta(&self) -> Result<Description, Error> {
        let mut description = self.bert()?;
        let width = self.optional("embedding_size")?.unwrap_or(description.width);
        self.only("embedding_size", width == description.width)?;
        self.only("conv_kernel_size", self.optional("conv_kernel_size")?.unwrap_or(0) == 0)?;
        if !self.flag_or("position_biased_input", true)? {
            description.embedding.positions = None;
            description.context = self.optional("max_position_embeddings")?;
        }
        if let Some(name) = self.get("pooler_hidden_act").filter(|name| *name != "gelu") {
            return Err(self.wrong(format!("pooler_hidden_act is {name}; only \"gelu\" is known")));
        }
        if !self.flag_or("relative_attention", false)? {
            return Ok(description);
        }
        let kinds: Vec<&str> = match self.get("pos_att_type") {
            Some(Value::String(kinds)) => kinds.split('|').map(str::trim).collect(),
            Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        let [to_position, from_position] = ["c2p", "p2c"].map(|kind| kinds.contains(&kind));
        // −1 means none.
        let above_0 = |key: &str| self.get(key).and_then(Value::as_u64).filter(|size| *size > 0);
        let positions = self.size("max_position_embeddings")?;
        let most = match above_0("max_relative_positions") {
            Some(_) => self.size("max_relative_positions")?,
            None => positions,
        };
        let buckets = above_0("position_buckets").map(|_| self.size("position_buckets"));
        let buckets = buckets.transpose()?;
        let span = buckets.unwrap_or(most);
        if span < 2 || buckets.is_some_and(|buckets| most <= buckets / 2 + 1) {
            return Err(self.wrong(format!("{span} ranges of distances do not reach to {most}")));
        }
        let normed = self.get("norm_rel_ebd").and_then(Value::as_str);
        let block = &mut description.stack.block;
        block.disentangled = Some(Disentangled {
            span,
            buckets_to: buckets.map(|_| most),
            to_position,
            from_position,
            shared: self.flag_or("share_att_key", false)?,
            normed: normed.is_some_and(|kinds| kinds.split('|').any(|x| x.trim() == "layer_norm")),
        });
        let parts = 1 + usize::from(to_position) + usize::from(from_position);
        block.scale = ((block.head_size * parts) as f32).sqrt().recip();
        Ok(description)
    }

    pub(crate) fn roberta(&self) -> Result<Description, Error> {
        let mut description = self.bert()?;
        let pad = self.size("pad_token_id")?;
        if let Some(positions) = &mut description.embedding.positions {
            (positions.first, positions.pad) = (pad + 1, u32::try_from(pad).ok());
        }
        activate(&mut description.head, Activation::Gelu);
        Ok(description)
    }

    /// A decoder, as its row tells.
    pub(crate) fn decoder(&self) -> Result<Description, Error> {
        let row = self.row;
        let mut description = self.of_tokens(row.sizes, self.own_norm()?)?;
        let block = &mut description.stack.block;
        let head_size = self.optional("head_dim")?.unwrap_or(block.head_size);
        if row.grouped {
            block.kv_heads = self.optional("num_key_value_heads")?.unwrap_or(block.heads);
            block.head_size = head_size;
            block.scale = (head_size as f32).sqrt().recip();
        }
        if !row.activation.is_empty() {
            block.activation = self.activation(row.activation)?;
        }
        let [qkv, out, hidden] = row.biases.map(|flag| self.told(flag));
        block.biases = Biases { qkv: qkv?, out: out?, hidden: hidden? };
        block.parallel = self.told(row.parallel)?;
        (block.gated, block.qk_norm, block.sinks) = (row.gated, row.qk_norm, row.sinks);
        block.placement = row.placement;
        let layers = description.stack.layers();
        description.stack.causal = !self.told(row.both_ways)?;
        description.stack.experts = self.experts(layers)?;
        let mut turning = self.turning(layers)?;
        description.stack.windows = self.windows(layers, &turning)?;
        if matches!(row.positions, Positions::Rotary(Rope { skips: Skips::Full, .. }))
            && self.get("sliding_window").is_some()
        {
            turning = description.stack.windows.iter().map(Option::is_some).collect();
        }
        match row.positions {
            Positions::Learned(key, first) => {
                let count = self.size(key)? + first;
                description.embedding.positions = Some(LearnedPositions::new(count, first));
            }
            Positions::Sines(_) | Positions::Own => {}
            Positions::Slopes => {
                let heads = description.stack.block.heads;
                if heads as u64 > self.checkpoint.bytes() {
                    let bytes = self.checkpoint.bytes();
                    return Err(self.wrong(format!("{heads} heads are too many for {bytes} bytes")));
                }
                description.stack.block.slopes = alibi_slopes(heads);
            }
            Positions::Rotary(_) => self.turn(&mut description.stack, head_size)?,
        }
        let turns = description.stack.turns.iter_mut().zip(turning);
        turns.filter(|(_, turning)| !turning).for_each(|(turns, _)| *turns = None);
        (row.also)(self, &mut description)?;
        Ok(description)
    }

    pub(crate) fn gpt2(&self, description: &mut Description) -> Result<(), Error> {
        let block = &mut description.stack.block;
        if !self.flag("scale_attn_weights")? {
            block.scale = 1.0;
        }
        block.scale_by_layer = self.flag("scale_attn_by_inverse_layer_idx")?;
        Ok(())
    }

    pub(crate) fn gemma(&self, description: &mut Description) -> Result<(), Error> {
        let block = &mut description.stack.block;
        block.scale = self.number("query_pre_attn_scalar")?.sqrt().recip() as f32;
        // The norm of queries and keys replaces the cap in Gemma 3, whose config still has the key.
        if block.qk_norm.is_none() {
            block.softcap = self.optional_number("attn_logit_softcapping")?;
        }
        let softcap = self.optional_number("final_logit_softcapping")?;
        description.head = OutputHead::Tokens { transform: None, scale: 1.0, softcap };
        description.embedding.scale = (description.width as f32).sqrt();
        Ok(())
    }

    /// Refuses a setting whose effect is not computed.
    fn only(&self, key: &str, is_known: bool) -> Result<(), Error> {
        if is_known {
            return Ok(());
        }
        let value = self.get(key).unwrap_or(&Value::Null);
        Err(self.wrong(format!("{key} is {value}, which is not computed")))
    }

    pub(crate) fn gpt_neo(&self, description: &mut Description) -> Result<(), Error> {
        description.stack.block.scale = 1.0;
        // [[["global", "local"], 12]]: these two kinds of layers in turn, twelve times.
        let key = "attention_types";
        let usual = json!([[["global", "local"], 12]]);
        let types = self.get(key).unwrap_or(&usual).as_array();
        let window = self.size("window_size")?;
        let (mut windows, layers) = (Vec::new(), description.stack.layers());
        for kinds in types.into_iter().flatten() {
            let names = kinds[0].as_array().filter(|names| !names.is_empty());
            let (Some(names), Some(count)) = (names, kinds[1].as_u64()) else {
                return Err(self.not_a(key, "list of kinds and numbers"));
            };
            // No more than one too many.
            let rest = (layers + 1).saturating_sub(windows.len());
            for name in (0..count.min(rest as u64)).flat_map(|_| names).take(rest) {
                windows.push(match name.as_str() {
                    Some("global") => None,
                    Some("local") => Some(window),
                    _ => return Err(self.wrong(format!("{key} has {name}, which is not known"))),
                });
            }
        }
        let found = windows.len();
        if found != layers || window == 0 {
            let what = format!(
                "{key} has {found} entries for {layers} layers, and window_size is {window}"
            );
            return Err(self.wrong(what));
        }
        description.stack.windows = windows;
        Ok(())
    }

    pub(crate) fn opt(&self, description: &Description) -> Result<(), Error> {
        let width = self.optional("word_embed_proj_dim")?.unwrap_or(description.width);
        self.only("word_embed_proj_dim", width == description.width)?;
        self.only("do_layer_norm_before", self.flag("do_layer_norm_before")?)
    }

    pub(crate) fn first_gemma(description: &mut Description) {
        // The first files have the name of the exact function, and mean the other.
        if description.stack.block.activation == Activation::Gelu {
            description.stack.block.activation = Activation::GeluTanh;
        }
        description.embedding.scale = (description.width as f32).sqrt();
    }

    pub(crate) fn gptj(&self, description: &mut Description) -> Result<(), Error> {
        description.context = self.optional("n_positions")?;
        let head_size = description.stack.block.head_size;
        let features = self.optional("rotary_dim")?.unwrap_or(head_size);
        let scaling = Frequencies::Plain;
        let rotary = RotarySettings { features, base: 10_000.0, scaling, interleaved: true };
        description.stack.turn_all(rotary);
        Ok(())
    }

    pub(crate) fn olmo(&self, description: &mut Description) -> Result<(), Error> {
        description.stack.block.clip = self.optional_number("clip_qkv")?;
        Ok(())
    }

    /// The first Qwen's setting of the hidden features counts the gate and the other half together.
    pub(crate) fn first_qwen_gate(description: &mut Description) {
        let block = &mut description.stack.block;
        block.activation = Activation::Silu;
        block.hidden /= 2;
    }

    /// The first Qwen. Of a text that is longer than those of its training, rotary frequencies and queries change.
    pub(crate) fn first_qwen(&self, description: &mut Description) -> Result<(), Error> {
        self.only("no_bias", self.flag("no_bias")?)?;
        let head_size = description.stack.block.head_size;
        self.only("kv_channels", self.size("kv_channels")? == head_size)?;
        Self::first_qwen_gate(description);
        let original = self.size("max_position_embeddings")?;
        self.only("max_position_embeddings", original > 1)?;
        if self.flag("use_logn_attn")? {
            let each = original as f64;
            description.stack.block.growth =
                Some(QueryGrowth { slope: each.ln().recip(), each, whole: false });
        }
        if self.flag("use_dynamic_ntk")? {
            let scaling = Frequencies::Dynamic { factor: 1.0, original, doubles: true };
            description.stack.rotary.iter_mut().for_each(|x| x.scaling.clone_from(&scaling));
        }
        Ok(())
    }

    /// A decoder whose option `qk_layernorm` is not computed.
    pub(crate) fn without_qk_norm(&self, _: &mut Description) -> Result<(), Error> {
        self.only("qk_layernorm", !self.flag("qk_layernorm")?)
    }

    pub(crate) fn gpt_bigcode(&self, description: &mut Description) -> Result<(), Error> {
        self.only("multi_query", self.flag("multi_query")?)?;
        description.stack.block.kv_heads = 1;
        if !self.flag("scale_attn_weights")? {
            description.stack.block.scale = 1.0;
        }
        Ok(())
    }

    pub(crate) fn bloom(&self, description: &mut Description) -> Result<(), Error> {
        let key = "apply_residual_connection_post_layernorm";
        self.only(key, !self.flag(key)?)?;
        description.embedding.norm = description.stack.final_norm;
        description.stack.block.activation = Activation::GeluTanh;
        Ok(())
    }

    pub(crate) fn falcon(&self, description: &mut Description) -> Result<(), Error> {
        self.only("alibi", !self.flag_or("alibi", false)?)?;
        let new = self.flag_or("new_decoder_architecture", false)?;
        let block = &mut description.stack.block;
        block.kv_heads = if new {
            self.optional("num_kv_heads")?.unwrap_or(block.heads)
        } else if self.flag_or("multi_query", false)? {
            1
        } else {
            block.heads
        };
        block.parallel = new || self.flag_or("parallel_attn", false)?;
        Ok(())
    }

    pub(crate) fn mpt(&self, description: &mut Description) -> Result<(), Error> {
        let own = self.get("attn_config").unwrap_or(&Value::Null);
        let number = |key: &str| own[key].as_f64();
        let block = &mut description.stack.block;
        if let Some(scale) = number("softmax_scale") {
            block.scale = scale as f32;
        }
        block.clip = number("clip_qkv").filter(|clip| *clip != 0.0).map(|clip| clip as f32);
        // Transformers computes with 8, whatever the file says.
        if let Some(most) = number("alibi_bias_max").filter(|most| *most != 8.0) {
            return Err(self.wrong(format!("alibi_bias_max is {most}; only 8 is known")));
        }
        description.context = self.optional("max_seq_len")?;
        Ok(())
    }

    pub(crate) fn granite(&self, description: &mut Description) -> Result<(), Error> {
        let multiplier = |key: &str| {
            let x = self.number(key)? as f32;
            // Logits are divided by theirs.
            if x.is_finite() && (x != 0.0 || key != "logits_scaling") {
                return Ok(x);
            }
            Err(self.wrong(format!("{key} is {x}, which is no multiplier")))
        };
        let block = &mut description.stack.block;
        block.scale = multiplier("attention_multiplier")?;
        block.output_scale = multiplier("residual_multiplier")?;
        description.embedding.scale = multiplier("embedding_multiplier")?;
        let scale = multiplier("logits_scaling")?.recip();
        description.head = OutputHead::Tokens { transform: None, scale, softcap: None };
        Ok(())
    }

    /// The factor of the attention's rotary sines and cosines, which this family's files name for short and for long texts.
    pub(crate) fn phimoe(&self, description: &mut Description) -> Result<(), Error> {
        let Positions::Rotary(rope) = &self.row.positions else { return Ok(()) };
        let parameters = self.rope_parameters(rope);
        for rotary in &mut description.stack.rotary {
            let Frequencies::LongRope { attention_factor, .. } = &mut rotary.scaling else {
                continue;
            };
            let [short, long] = ["short_mscale", "long_mscale"].map(|key| parameters.get(key));
            match (short.and_then(Value::as_f64), long) {
                (Some(factor), _) if short == long => *attention_factor = factor,
                _ => return Err(self.wrong("short_mscale and long_mscale are not one number")),
            }
        }
        Ok(())
    }

    pub(crate) fn ministral3(&self, description: &mut Description) -> Result<(), Error> {
        let Positions::Rotary(rope) = &self.row.positions else { return Ok(()) };
        let parameters = self.rope_parameters(rope);
        let number = |key: &str| parameters.get(key).and_then(Value::as_f64);
        let Some(slope) = number("llama_4_scaling_beta") else { return Ok(()) };
        let each = number("original_max_position_embeddings").filter(|each| *each >= 1.0);
        let each = each.ok_or_else(|| {
            self.wrong("llama_4_scaling_beta needs original_max_position_embeddings")
        })?;
        description.stack.block.growth = Some(QueryGrowth { slope, each, whole: true });
        Ok(())
    }

    pub(crate) fn cohere(&self, description: &mut Description) -> Result<(), Error> {
        let key = "use_qk_norm";
        self.only(key, !self.flag_or(key, false)?)?;
        let scale = self.number("logit_scale")? as f32;
        description.head = OutputHead::Tokens { transform: None, scale, softcap: None };
        Ok(())
    }

    /// A number of layers after which something recurs.
    fn step(&self, key: &str, usual: Option<usize>) -> Result<usize, Error> {
        match self.optional(key)?.or(usual) {
            Some(0) => Err(self.wrong(format!("{key} is 0, and nothing recurs after no layer"))),
            step => step.ok_or_else(|| self.not_a(key, "size")),
        }
    }

    /// Whether each layer has positions. In SmolLM 3 some layers have none.
    fn turning(&self, layers: usize) -> Result<Vec<bool>, Error> {
        if !matches!(self.row.positions, Positions::Rotary(Rope { skips: Skips::Listed, .. })) {
            return Ok(vec![true; layers]);
        }
        let key = "no_rope_layers";
        let Some(list) = self.get(key) else {
            let step = self.step("no_rope_layer_interval", None)?;
            return Ok((1..=layers).map(|layer| layer % step != 0).collect());
        };
        // 1 means that a layer has them, and 0 that it has none. Other numbers are refused.
        let turns: Option<Vec<bool>> = list.as_array().and_then(|list| {
            list.iter().map(|x| x.as_u64().map(|x| x != 0).or(x.as_bool())).collect()
        });
        let turns = turns.ok_or_else(|| self.not_a(key, "list of 0 and 1"))?;
        if turns.len() < layers {
            let found = turns.len();
            return Err(self.wrong(format!("{key} has {found} entries for {layers} layers")));
        }
        Ok(turns)
    }

    /// The window of each layer. `layer_types` says which layers slide. In configs of older versions the family decides it.
    fn windows(&self, layers: usize, turning: &[bool]) -> Result<Vec<Option<usize>>, Error> {
        let row = self.row.windows;
        if matches!(row.slide, Slide::None) {
            return Ok(vec![None; layers]);
        }
        let may_slide = row.flag.map_or(Ok(true), |flag| self.flag(flag))?;
        let window = if may_slide { self.optional(row.size)? } else { None };
        // All keys on both sides, of which a token sees half on each and itself.
        let both = row.size != "sliding_window" || self.told(self.row.both_ways)?;
        let window = if both { window.map(|all| all / 2 + 1) } else { window };
        if window == Some(0) {
            return Err(self.wrong("sliding_window is 0, and no token would see itself"));
        }
        let types = self.get("layer_types").filter(|_| row.by_type);
        let slides: Vec<bool> = if let Some(types) = types {
            let types = types.as_array().ok_or_else(|| self.not_a("layer_types", "list"))?;
            let slides = |kind: &Value| match kind.as_str() {
                Some("full_attention" | "attention") => Ok(false),
                Some("sliding_attention") => Ok(true),
                _ => Err(self.wrong(format!("layer_types has {kind}, which is not known"))),
            };
            types.iter().map(slides).collect::<Result<_, _>>()?
        } else {
            // A number of layers, or the first one that slides.
            let number = match row.slide {
                Slide::AllButLast(usual, Some(key)) | Slide::AllButFirst(usual, key) => {
                    self.step(key, Some(usual))?
                }
                Slide::AllButLast(usual, None) => usual,
                Slide::From(key) | Slide::OddBefore(key) => self.optional(key)?.unwrap_or(0),
                Slide::Unturned(key) => usize::from(self.flag_or(key, false)?),
                Slide::None | Slide::All => 1,
            };
            let slides = |layer: usize| match row.slide {
                Slide::None => false,
                Slide::All => window.is_some(),
                Slide::AllButLast(..) => !(layer + 1).is_multiple_of(number),
                Slide::AllButFirst(..) => !layer.is_multiple_of(number),
                Slide::From(_) => window.is_some() && layer >= number,
                Slide::OddBefore(_) => {
                    window.is_some() && layer < number && layer.is_multiple_of(2)
                }
                Slide::Unturned(_) => {
                    number == 1 && window.is_some() && turning.get(layer) == Some(&false)
                }
            };
            (0..layers).map(slides).collect()
        };
        if slides.len() != layers {
            let found = slides.len();
            return Err(self.wrong(format!("layer_types has {found} entries for {layers} layers")));
        }
        if slides.contains(&true) && window.is_none() {
            return Err(self.wrong("layers slide, but there is no sliding_window"));
        }
        Ok(windows(layers, window, |layer| slides.get(layer) == Some(&true)))
    }

    pub(crate) fn modernbert(&self) -> Result<Description, Error> {
        let norm = self.own_norm()?;
        let mut description = self.of_tokens(self.row.sizes, norm)?;
        description.embedding.norm = Some(norm);
        let stack = &mut description.stack;
        (stack.causal, stack.begins_bare) = (false, true);
        let block = &mut stack.block;
        block.activation = self.activation(self.row.activation)?;
        block.gated = true;
        let [qkv, out, hidden] = self.row.biases.map(|flag| self.told(flag));
        block.biases = Biases { qkv: qkv?, out: out?, hidden: hidden? };
        let head_size = block.head_size;
        stack.windows = self.windows(stack.layers(), &[])?;
        self.turn(stack, head_size)?;
        let transform = Some((self.activation("classifier_activation")?, norm));
        description.head = OutputHead::Tokens { transform, scale: 1.0, softcap: None };
        Ok(description)
    }

    pub(crate) fn t5(&self) -> Result<Description, Error> {
        let norm = self.norm(NormKind::Rms, "layer_norm_epsilon")?;
        let mut description =
            self.of_layers(["d_model", "num_layers", "num_heads", "d_ff"], norm)?;
        description.vocabulary = self.size("vocab_size")?;
        // The head has weights of its own only if the file has them. This is T5 1.1, whose outputs are not scaled.
        description.tied = true;
        let tied = self.flag_or("tie_word_embeddings", true)?;
        description.decoder_start = self.decoder_start().or(Some(0)).into_iter().collect();
        let scaled = self.flag_or("scale_decoder_outputs", tied)?;
        let scale = if scaled { (description.width as f32).sqrt().recip() } else { 1.0 };
        description.head = OutputHead::Tokens { transform: None, scale, softcap: None };
        let projection = self.text("feed_forward_proj")?;
        let (gated, name) = match projection.strip_prefix("gated-") {
            // T5 1.1's gated GELU is the tanh form.
            Some("gelu") => (true, "gelu_new"),
            Some(name) => (true, name),
            None => (false, projection),
        };
        // Transformers also writes, and reads, the name that it derives from this one.
        let (key, name) = match self.get("dense_act_fn").and_then(Value::as_str) {
            Some(name) => ("dense_act_fn", name),
            None => ("feed_forward_proj", name),
        };
        let block = &mut description.stack.block;
        block.head_size = self.size("d_kv")?;
        block.scale = 1.0;
        block.gated = self.flag_or("is_gated_act", gated)?;
        block.activation = self.activation_named(key, name)?;
        let buckets = self.size("relative_attention_num_buckets")?;
        let max_distance = self.size("relative_attention_max_distance")?;
        // A quarter of an encoder's buckets and half of a decoder's are for one distance each; the others are for ranges of
        // longer distances.
        if buckets < 4 || max_distance <= buckets / 2 {
            let what = format!(
                "relative_attention_max_distance is {max_distance}, which {buckets} buckets do not reach beyond"
            );
            return Err(self.wrong(what));
        }
        block.relative = Some(RelativeBias { buckets, max_distance });
        block.biases = Biases { qkv: false, out: false, hidden: false };
        // These models have no decoder.
        if matches!(
            self.architecture(),
            "T5EncoderModel" | "MT5EncoderModel" | "T5ForTokenClassification"
        ) {
            description.stack.causal = false;
            description.decoder_start.clear();
            description.head = OutputHead::None;
            description.tied = false;
            return Ok(description);
        }
        let decoder_layers = match self.optional("num_decoder_layers")? {
            Some(_) => self.layers("num_decoder_layers")?,
            None => description.stack.layers(),
        };
        description.encoder = Some(Stack { causal: false, ..description.stack.clone() });
        description.stack.windows = vec![None; decoder_layers];
        description.stack.cross = true;
        Ok(description)
    }

    /// A height and a width at a key.
    fn pair(&self, key: &str) -> Result<[usize; 2], Error> {
        match self.get(key).and_then(Value::as_array).map(Vec::as_slice) {
            Some([height, width]) => {
                let size =
                    |x: &Value| x.as_u64().and_then(|x| u16::try_from(x).ok()).map(usize::from);
                let both = size(height).zip(size(width)).map(Into::into);
                both.ok_or_else(|| self.wrong(format!("{key} has no two sizes")))
            }
            _ => self.size(key).map(|x| [x, x]),
        }
    }

    pub(crate) fn vit(&self) -> Result<Description, Error> {
        let mut description = self.of_layers(self.row.sizes, self.own_norm()?)?;
        let (size, patch) = (self.pair("image_size")?, self.pair("patch_size")?);
        let patches = self.patches(size, patch)?;
        if let Positions::Learned(..) = self.row.positions {
            description.embedding.positions = Some(LearnedPositions::new(patches.tokens(), 0));
        }
        description.embedding.patches = Some(patches);
        description.stack.causal = false;
        description.stack.hidden_after_norm = false;
        let block = &mut description.stack.block;
        block.head_size = self.optional("head_dim")?.unwrap_or(block.head_size);
        block.scale = (block.head_size as f32).sqrt().recip();
        block.activation = self.activation(self.row.activation)?;
        let [qkv, out, hidden] = self.row.biases.map(|flag| self.told(flag));
        block.biases = Biases { qkv: qkv?, out: out?, hidden: hidden? };
        (self.row.also)(self, &mut description)?;
        if let (Some(patches), Some(positions)) =
            (description.embedding.patches, &mut description.embedding.positions)
        {
            positions.count = patches.tokens();
        }
        Ok(description)
    }

    /// The patches of an image of this size.
    fn patches(
        &self,
        [height, width]: [usize; 2],
        [high, wide]: [usize; 2],
    ) -> Result<Patches, Error> {
        let whole = |side: usize, patch: usize| patch > 0 && side > 0 && side.is_multiple_of(patch);
        if !whole(height, high) || !whole(width, wide) {
            let what = format!(
                "images of {height} × {width} pixels are not made of patches of {high} × {wide}"
            );
            return Err(self.wrong(what));
        }
        Ok(Patches::new([self.size("num_channels")?, height, width, high, wide]))
    }

    /// The processor may make images of another size than those of the training. The positions are then those of another grid.
    pub(crate) fn dinov2(&self, cubic: Cubic, description: &mut Description) -> Result<(), Error> {
        let ratio = self.number("mlp_ratio")?;
        let hidden = ratio * description.width as f64;
        if !(1.0..=4e9).contains(&hidden) {
            return Err(self.wrong(format!("mlp_ratio is {ratio}, which is no ratio")));
        }
        let block = &mut description.stack.block;
        block.hidden = hidden as usize;
        if self.flag("use_swiglu_ffn")? {
            block.hidden = ((hidden as usize) * 2 / 3).next_multiple_of(8);
            (block.gated, block.activation) = (true, Activation::Silu);
        }
        let trained = description.embedding.patches.map(|patches| patches.grid());
        self.made_by_processor(description)?;
        if let (Some(patches), Some(grid)) = (&mut description.embedding.patches, trained) {
            patches.registers = self.optional("num_register_tokens")?.unwrap_or(0);
            let square = grid[0] == grid[1];
            patches.resized_from = Some((grid, cubic)).filter(|_| patches.grid() != grid);
            if patches.resized_from.is_some() && !square {
                return Err(self.wrong("positions of patches that form no square are not resized"));
            }
        }
        Ok(())
    }

    /// Sets the size of images to that which the processor beside the model makes.
    fn made_by_processor(&self, description: &mut Description) -> Result<(), Error> {
        let Some(patches) = description.embedding.patches else { return Ok(()) };
        let size = ImageProcessor::size(self.checkpoint)?;
        if let Some(size) = size {
            let patch = [patches.patch_height, patches.patch_width];
            description.embedding.patches = Some(self.patches(size, patch)?);
        }
        Ok(())
    }

    pub(crate) fn dinov3(&self, description: &mut Description) -> Result<(), Error> {
        self.made_by_processor(description)?;
        let biases = ["query_bias", "key_bias", "value_bias"].map(|key| self.flag(key));
        let [query, key, value] = biases;
        let block = &mut description.stack.block;
        block.biases.qkv = query? || key? || value?;
        block.gated = self.flag("use_gated_mlp")?;
        let (features, base) = (block.head_size, self.number("rope_theta")?);
        if !features.is_multiple_of(4) || features == 0 {
            return Err(
                self.wrong(format!("{features} features of a head have no two halves of pairs"))
            );
        }
        let Some(patches) = &mut description.embedding.patches else { return Ok(()) };
        patches.registers = self.optional("num_register_tokens")?.unwrap_or(0);
        let scaling = Frequencies::Grid { before: patches.before(), grid: patches.grid() };
        description.stack.turn_all(RotarySettings { features, base, scaling, interleaved: false });
        Ok(())
    }

    /// The encoder of a model whose keys name both stacks, and the description of its decoder.
    fn of_stacks(&self) -> Result<(Stack, Description), Error> {
        let norm = NormSettings { kind: NormKind::Layer, epsilon: 1e-5 }; // no setting
        let keys = |stack| {
            [
                format!("{stack}_layers"),
                format!("{stack}_attention_heads"),
                format!("{stack}_ffn_dim"),
            ]
        };
        let [layers, heads, hidden] = &keys("encoder");
        let mut encoder = self.of_layers(["d_model", layers, heads, hidden], norm)?.stack;
        let [layers, heads, hidden] = &keys("decoder");
        let mut description = self.of_tokens(["d_model", layers, heads, hidden], norm)?;
        encoder.causal = false;
        description.stack.cross = true;
        for stack in [&mut encoder, &mut description.stack] {
            stack.block.activation = self.activation("activation_function")?;
        }
        Ok((encoder, description))
    }

    /// A translator: BART, mBART, Marian and Pegasus.
    pub(crate) fn bart(&self) -> Result<Description, Error> {
        let (mut encoder, mut description) = self.of_stacks()?;
        for stack in [&mut encoder, &mut description.stack] {
            stack.block.placement = self.row.placement;
            if self.row.placement == Placement::After {
                stack.final_norm = None;
            }
        }
        if let Some(vocabulary) = self.optional("decoder_vocab_size")? {
            self.only("decoder_vocab_size", vocabulary == description.vocabulary)?;
        }
        let shared = "share_encoder_decoder_embeddings";
        self.only(shared, self.flag_or(shared, true)?)?;
        let embedding = &mut description.embedding;
        if self.flag_or("scale_embedding", false)? {
            embedding.scale = (description.width as f32).sqrt();
        }
        embedding.positions = match self.row.positions {
            Positions::Learned(key, first) => {
                embedding.norm = Some(description.stack.block.norm);
                Some(LearnedPositions::new(self.size(key)? + first, first))
            }
            Positions::Sines(key) => {
                Some(LearnedPositions { sines: true, ..LearnedPositions::new(self.size(key)?, 0) })
            }
            _ => None,
        };
        description.decoder_start = self.decoder_start().into_iter().collect();
        description.encoder = Some(encoder);
        Ok(description)
    }

    pub(crate) fn whisper(&self) -> Result<Description, Error> {
        let (encoder, mut description) = self.of_stacks()?;
        let (bands, positions) = (self.size("num_mel_bins")?, self.size("max_source_positions")?);
        if bands == 0 || positions == 0 {
            let what = format!("sound of {bands} mel bands and {positions} positions is none");
            return Err(self.wrong(what));
        }
        let count = self.size("max_target_positions")?;
        let embedding = &mut description.embedding;
        embedding.positions = Some(LearnedPositions::new(count, 0));
        embedding.frames = Some(Frames { bands, count: 2 * positions });
        let start = self.decoder_start();
        let forced = forced(self.generation.as_ref().unwrap_or(self.values));
        description.decoder_start = start.into_iter().chain(forced).collect();
        description.encoder = Some(encoder);
        Ok(description)
    }
}

/// Gives the layer before the head's table its activation, if the head has such a layer.
fn activate(head: &mut OutputHead, by: Activation) {
    if let OutputHead::Tokens { transform: Some((activation, _)), .. } = head {
        *activation = by;
    }
}

/// The tokens that `forced_decoder_ids` puts after the first one: [[1, id], [2, id], …], up to one that the model chooses.
fn forced(settings: &Value) -> Vec<u32> {
    let pairs = settings["forced_decoder_ids"].as_array().into_iter().flatten();
    let token = |(place, pair): (u64, &Value)| match pair[0].as_u64() {
        Some(at) if at == place => u32::try_from(pair[1].as_u64()?).ok(),
        _ => None,
    };
    (1..).zip(pairs).map_while(token).collect()
}

/// The ids in a value: a single one, or a list.
fn ids(value: Option<&Value>) -> Vec<u32> {
    let id = |value: &Value| u32::try_from(value.as_u64()?).ok();
    match value {
        Some(Value::Array(list)) => list.iter().filter_map(id).collect(),
        value => value.and_then(id).into_iter().collect(),
    }
}
