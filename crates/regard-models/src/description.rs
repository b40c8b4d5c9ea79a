use core::f64::consts::TAU;
use core::ops::Range;

use regard::{Activation, Pairing, Rotary, RotaryFrequencies, RotaryScaling};
use serde::{Deserialize, Serialize};

use crate::{AttentionPlace, Input};

/// The parts of a model: all that its forward pass depends on besides the weights.
///
/// Every family is a value of this type, and one forward pass computes all of them.
///
/// ```
/// use regard_models::{Checkpoint, Description, Placement};
/// # let models = concat!(env!("CARGO_MANIFEST_DIR"), "/models");
/// let gemma = Description::of(&Checkpoint::open(format!("{models}/tiny-gemma2"))?)?;
/// assert_eq!(gemma.stack.windows, [Some(5), None, Some(5), None]);
/// assert_eq!(gemma.stack.block.placement, Placement::Both);
/// # Ok::<(), regard_models::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Description {
    /// `model_type` of config.json, or `general.architecture` of a GGUF file.
    pub family: String,
    /// The number of tokens, 0 for a model of images.
    pub vocabulary: usize,
    /// The features of the residual stream, also called `d_model`.
    pub width: usize,
    /// The most tokens of a text, from the files. It is a limit if positions are learned, and otherwise the length of the
    /// training.
    #[serde(default)]
    pub context: Option<usize>,
    /// The layer that turns tokens or patches into the residual stream.
    pub embedding: EmbeddingSettings,
    /// The encoder of a model that has both an encoder and a decoder.
    pub encoder: Option<Stack>,
    /// The decoder of such a model, or the only stack of any other.
    pub stack: Stack,
    /// The output.
    pub head: OutputHead,
    /// Whether the head multiplies by the transposed matrix of token embeddings.
    pub tied: bool,
    /// The tokens with which the decoder of an encoder-decoder begins.
    pub decoder_start: Vec<u32>,
    /// The tokens that end a text.
    pub ends: Vec<u32>,
    /// The tokens that the model does not write.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub suppressed: Vec<u32>,
    /// The tokens with which it does not begin to write.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub suppressed_first: Vec<u32>,
    /// The names of the classes of a model that classifies images or texts, if they are known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
}

impl Description {
    /// Sets the numbers of the tokens that the model does not write to −∞. `first` tells whether it begins to write.
    ///
    /// ```
    /// use regard_models::{Checkpoint, Description};
    /// # let models = concat!(env!("CARGO_MANIFEST_DIR"), "/models");
    /// let mut gpt = Description::of(&Checkpoint::open(format!("{models}/tiny-gpt2"))?)?;
    /// gpt.suppressed_first = vec![1];
    /// let mut logits = [0.5, 2.0];
    /// gpt.suppress(&mut logits, false);
    /// assert_eq!(logits, [0.5, 2.0]);
    /// gpt.suppress(&mut logits, true);
    /// assert_eq!(logits, [0.5, f32::NEG_INFINITY]);
    /// # Ok::<(), regard_models::Error>(())
    /// ```
    pub fn suppress(&self, logits: &mut [f32], first: bool) {
        let of_first = self.suppressed_first.iter().filter(|_| first);
        for id in self.suppressed.iter().chain(of_first) {
            if let Some(logit) = logits.get_mut(*id as usize) {
                *logit = f32::NEG_INFINITY;
            }
        }
    }

    /// Whether the model classifies its input: it has a logit for each class.
    pub fn classifies(&self) -> bool {
        matches!(self.head, OutputHead::Classes { .. })
    }

    /// Whether the head reads the states of all positions, and not those of the last one alone.
    pub(crate) fn reads_all(&self) -> bool {
        matches!(self.head, OutputHead::Classes { .. } | OutputHead::Pooled { .. })
    }

    /// The position of an input whose hidden state becomes the logits of [`OutputHead::Classes`] or the vector of
    /// [`OutputHead::Pooled`].
    ///
    /// ```
    /// use regard_models::{Checkpoint, Description, Input};
    /// # let models = concat!(env!("CARGO_MANIFEST_DIR"), "/models");
    /// let vit = Description::of(&Checkpoint::open(format!("{models}/tiny-vit"))?)?;
    /// assert_eq!(vit.class_position(&Input::image([0.0; 3 * 12 * 12])), 0);
    /// # Ok::<(), regard_models::Error>(())
    /// ```
    pub fn class_position(&self, input: &Input) -> usize {
        let read = match self.head {
            OutputHead::Classes { position, .. } | OutputHead::Pooled { position, .. } => {
                match position {
                    ClassPosition::Last { pad } => {
                        input.ids.iter().rposition(|id| Some(*id) != pad)
                    }
                    ClassPosition::Token { id } => {
                        let id = id.or_else(|| input.ids.iter().max().copied());
                        input.ids.iter().position(|other| Some(*other) == id)
                    }
                    _ => None,
                }
            }
            _ => None,
        };
        read.unwrap_or(0)
    }
}

/// The layer that turns tokens or patches into the residual stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct EmbeddingSettings {
    /// The factor of token embeddings: √width in Gemma, a setting in Granite, else 1.
    pub scale: f32,
    /// The features of the tables and of the norm, if a linear layer projects them to the width (ELECTRA, ALBERT).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub features: Option<usize>,
    /// The table of learned vectors of positions, which are added, if the model has one.
    pub positions: Option<LearnedPositions>,
    /// The number of token types (of the first and of the second text), whose vectors are added; 0 if there are none.
    pub types: usize,
    /// A norm after all of these are added.
    pub norm: Option<NormSettings>,
    /// Patches of an image instead of tokens.
    pub patches: Option<Patches>,
    /// The frames of sound that an encoder reads instead of tokens. The other fields are then those of the decoder's tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frames: Option<Frames>,
}

impl EmbeddingSettings {
    /// Whether a token's position depends on the tokens before it.
    pub(crate) fn counts_tokens(&self) -> bool {
        self.positions.is_some_and(|positions| positions.pad.is_some())
    }
}

/// A table of position vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LearnedPositions {
    /// The rows of the table.
    pub count: usize,
    /// The row of the first token: 2 in RoBERTa, else 0.
    pub first: usize,
    /// A token that does not count (RoBERTa's padding). It has the row before the first one, and the other tokens are numbered
    /// without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pad: Option<u32>,
    /// Whether the numbers are sines and cosines, if the file lacks the table (Marian, Pegasus): of position t, sin(t / 10000^(2i/width))
    /// in the first half and the cosines in the second.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub sines: bool,
}

impl LearnedPositions {
    /// A table without padding.
    pub(crate) fn new(count: usize, first: usize) -> Self {
        Self { count, first, pad: None, sines: false }
    }

    /// The most tokens.
    pub(crate) fn most(&self) -> usize {
        self.count.saturating_sub(self.first)
    }

    /// The rows of tokens that follow `before` other tokens.
    pub(crate) fn rows(&self, ids: &[u32], before: usize) -> Vec<usize> {
        let mut next = self.first + before;
        let row = |id: &u32| match self.pad {
            Some(pad) if pad == *id => self.first.saturating_sub(1),
            _ => {
                next += 1;
                next - 1
            }
        };
        ids.iter().map(row).collect()
    }
}

/// An image as patches, row by row, after tokens of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Patches {
    /// Colour channels.
    pub channels: usize,
    /// The image's height in pixels.
    pub height: usize,
    /// The image's width in pixels.
    pub width: usize,
    /// The height of a patch in pixels.
    pub patch_height: usize,
    /// The width of a patch in pixels.
    pub patch_width: usize,
    /// Whether a class token comes first. SigLIP has none.
    #[serde(default = "yes", skip_serializing_if = "Clone::clone")]
    pub class: bool,
    /// Whether a distillation token follows it (DeiT).
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub distilled: bool,
    /// The registers after these: tokens that have no position (Darcet et al. 2024).
    #[serde(default, skip_serializing_if = "is_zero")]
    pub registers: usize,
    /// The rows and columns of the patches that the file's positions are for, and the parameter a of the cubic curve (Keys 1981)
    /// that gives those of this grid (DINOv2).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resized_from: Option<([usize; 2], Cubic)>,
}

/// The cubic curve between the positions of another grid of patches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cubic {
    /// a = −¾, through four neighbours.
    Sharp,
    /// a = −½, as wide as the larger distance of neighbours.
    Smooth,
}

fn yes() -> bool {
    true
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// A log-mel spectrogram, which two convolutions over time read (Radford et al. 2022, Whisper).
///
/// Each convolution spans three frames, and GELU follows it. The second one moves by two frames, and the encoder has a position
/// for each of its outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Frames {
    /// The number of mel bands.
    pub bands: usize,
    /// The number of frames, which is even.
    pub count: usize,
}

/// Layers of the same kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Stack {
    /// For each layer, the most keys that a query sees, itself included; `None` means without limit. There are as many layers
    /// as entries. In a stack that is not causal, a query sees as many keys on its other side.
    pub windows: Vec<Option<usize>>,
    /// The rotary position embeddings of the layers: none, one, or several (Gemma 3's local and global layers have different
    /// ones).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rotary: Vec<RotarySettings>,
    /// For each layer, the index of its entry in `rotary`. Queries and keys of a layer without an index, or with `None`, are
    /// not rotated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub turns: Vec<Option<usize>>,
    /// Whether a query sees no key to the right of its position.
    pub causal: bool,
    /// Whether each layer also attends to the encoder's output.
    pub cross: bool,
    /// Whether the first layer's attention reads the stream without a norm before it (ModernBERT).
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub begins_bare: bool,
    /// A norm after the last layer.
    pub final_norm: Option<NormSettings>,
    /// Whether the last of transformers' `hidden_states` comes after that norm.
    pub hidden_after_norm: bool,
    /// The computation of each layer.
    pub block: Block,
    /// The number of layers with weights of their own, if it is smaller: as many layers in a row as fit have the same weights
    /// (ALBERT).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub groups: Option<usize>,
    /// The experts that stand in the place of the feed-forward layer in some layers or in all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub experts: Option<Experts>,
}

/// Feed-forward layers of which each token takes a few: a mixture of experts (Shazeer et al. 2017).
///
/// A linear layer, the router, gives each expert a logit. A token takes the experts with the largest ones. The sum of their
/// outputs, each times a weight, is the output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Experts {
    /// For each layer, whether it has experts; the others have one feed-forward layer for all tokens.
    pub layers: Vec<bool>,
    /// The experts of a layer.
    pub count: usize,
    /// The experts that a token takes.
    pub used: usize,
    /// The hidden features of an expert.
    pub hidden: usize,
    /// Whether the weights of the experts that a token takes sum to 1: they are the softmax of these experts' logits. Without it
    /// they are those experts' shares of the softmax of all logits.
    pub normalized: bool,
    /// The gate of the experts, where it is not that of the block.
    pub gate: Option<ClampedGate>,
    /// How far the logit of an expert may lie below that of the first one, as a share of the larger of their magnitudes, so that
    /// the expert counts in its softmax. The second expert is the first one of the others (SparseMixer, Liu et al. 2024).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub near: Option<f64>,
    /// The hidden features of a feed-forward layer that all tokens take as well. Its output is multiplied by the sigmoid of a
    /// linear layer (Qwen 2's mixtures).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared: Option<usize>,
}

/// A gate that keeps its inputs small (gpt-oss): the hidden features are g · σ(`slope` · g) · (u + 1) for g of the gate, at most
/// `limit`, and u of the second projection, between −`limit` and `limit`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ClampedGate {
    /// The factor in the sigmoid.
    pub slope: f32,
    /// The largest value.
    pub limit: f32,
}

impl Stack {
    /// The number of layers.
    pub fn layers(&self) -> usize {
        self.windows.len()
    }

    /// The rotary position embedding of a layer, if it has one.
    ///
    /// ```
    /// use regard_models::{Checkpoint, Description};
    /// # let models = concat!(env!("CARGO_MANIFEST_DIR"), "/models");
    /// let phi = Description::of(&Checkpoint::open(format!("{models}/tiny-phi3"))?)?;
    /// assert_eq!(phi.stack.rotary_of(0).unwrap().base, 10000.0);
    /// # Ok::<(), regard_models::Error>(())
    /// ```
    pub fn rotary_of(&self, layer: usize) -> Option<&RotarySettings> {
        self.rotary.get((*self.turns.get(layer)?)?)
    }

    /// The experts of a layer, if it has any.
    ///
    /// ```
    /// use regard_models::{Checkpoint, Description};
    /// # let models = concat!(env!("CARGO_MANIFEST_DIR"), "/models");
    /// let qwen = Description::of(&Checkpoint::open(format!("{models}/tiny-qwen3_moe"))?)?;
    /// let experts = |layer| qwen.stack.experts_of(layer).map(|experts| (experts.used, experts.count));
    /// assert_eq!((experts(0), experts(1)), (Some((2, 5)), None));
    /// # Ok::<(), regard_models::Error>(())
    /// ```
    pub fn experts_of(&self, layer: usize) -> Option<&Experts> {
        self.experts.as_ref().filter(|experts| experts.layers.get(layer) == Some(&true))
    }

    /// Gives all layers the same rotary position embedding.
    pub(crate) fn turn_all(&mut self, rotary: RotarySettings) {
        self.turns = vec![Some(0); self.layers()];
        self.rotary = vec![rotary];
    }
}

/// One layer: an attention and a feed-forward layer, each added to the residual stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Block {
    /// Query heads.
    pub heads: usize,
    /// Key/value heads: query head h reads key/value head h / (heads / kv_heads).
    pub kv_heads: usize,
    /// The features of a head.
    pub head_size: usize,
    /// The hidden features of the feed-forward layer.
    pub hidden: usize,
    /// The kind of all norms of the layer.
    pub norm: NormSettings,
    /// The places of the norms.
    pub placement: Placement,
    /// Whether the feed-forward layer reads the same input as the attention, and both outputs are added at once (GPT-NeoX).
    pub parallel: bool,
    /// The norm of queries and keys, of the layer's kind, if they have one.
    pub qk_norm: Option<QkNorm>,
    /// The factor of the dot products of queries and keys.
    pub scale: f32,
    /// Whether layer l divides its scale by l + 1 (an option of GPT-2).
    pub scale_by_layer: bool,
    /// The soft cap c of the scores: c · tanh(score / c).
    pub softcap: Option<f32>,
    /// The factor of the outputs of the attention and of the feed-forward layer: Granite's residual multiplier, else 1.
    pub output_scale: f32,
    /// A learned bias by the distance of query and key (T5).
    pub relative: Option<RelativeBias>,
    /// The part that positions have in the scores (DeBERTa).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disentangled: Option<Disentangled>,
    /// For each head, the slope of ALiBi: each step from a query back to a key lowers the score by it (Press et al. 2022). Empty
    /// without ALiBi.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slopes: Vec<f32>,
    /// The growth of queries with their positions (Ministral 3).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub growth: Option<QueryGrowth>,
    /// The largest magnitude of queries, keys and values, beyond which they are clipped (OLMo).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clip: Option<f32>,
    /// Whether each head has a learned score that takes part in the softmax and gives no value (gpt-oss): its weights sum to less
    /// than 1.
    #[serde(default)]
    pub sinks: bool,
    /// The activation of the feed-forward layer.
    pub activation: Activation,
    /// Whether the hidden features are multiplied by a second projection of the input.
    pub gated: bool,
    /// Which linear layers have a bias, if the file has one.
    pub biases: Biases,
}

/// A factor of queries that grows with their positions, so that a long text does not level out the weights.
///
/// It is 1 + `slope` · ln(n) at position t, where n is 1 + t / `each` without its fraction, or the larger one of 1 and
/// (t + 1) / `each`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct QueryGrowth {
    /// The factor of the logarithm.
    pub slope: f64,
    /// The positions that share a factor, or those that have the factor 1.
    pub each: f64,
    /// Whether n is a whole number (Ministral 3), and not a fraction (the first Qwen).
    #[serde(default = "yes")]
    pub whole: bool,
}

impl QueryGrowth {
    /// The factor at a position.
    pub(crate) fn at(self, position: usize) -> f32 {
        let n = if self.whole {
            1.0 + (position as f64 / self.each).floor()
        } else {
            ((position + 1) as f64 / self.each).max(1.0)
        };
        (1.0 + self.slope * n.ln()) as f32
    }
}

/// Which linear layers of a block have a bias. If the file has a bias that the model does not use, it is not read, as in
/// transformers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Biases {
    /// Queries, keys and values.
    pub qkv: bool,
    /// The attention's output.
    pub out: bool,
    /// The feed-forward layer.
    pub hidden: bool,
}

impl Block {
    /// The factor of the dot products of a layer's own queries and keys.
    pub(crate) fn scale_in(&self, layer: usize) -> f32 {
        if self.scale_by_layer { self.scale / (layer + 1) as f32 } else { self.scale }
    }

    /// The heads that have streams of their own at a place of an attention's inputs.
    pub(crate) fn readers(&self, place: AttentionPlace) -> Option<usize> {
        match place {
            AttentionPlace::QueryIn => Some(self.heads),
            AttentionPlace::KeyIn | AttentionPlace::ValueIn => Some(self.kv_heads),
            _ => None,
        }
    }
}

/// A norm of each token's features, without its weight.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct NormSettings {
    /// The kind of norm.
    pub kind: NormKind,
    /// The number that is added to the variance.
    pub epsilon: f32,
}

/// A kind of norm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum NormKind {
    /// Layer norm, with a weight and a bias.
    Layer,
    /// RMS norm, with a weight.
    Rms,
    /// RMS norm whose weight is 1 plus the stored one (Gemma).
    RmsPlusOne,
    /// Layer norm whose weight is 1 plus the stored one (Nemotron).
    LayerPlusOne,
}

/// The places of a layer's norms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Placement {
    /// Before each sublayer (GPT-2, Llama).
    Before,
    /// After each sum (BERT).
    After,
    /// Before each sublayer, and on its output before that is added (Gemma 2).
    Both,
    /// On each sublayer's output alone, before that is added (OLMo 2).
    Output,
}

impl Placement {
    /// Whether the sublayers' outputs go through norms before they are added.
    pub(crate) fn has_after(self) -> bool {
        matches!(self, Self::Both | Self::Output)
    }

    /// Whether a norm stands before each sublayer.
    pub(crate) fn has_before(self) -> bool {
        matches!(self, Self::Before | Self::Both)
    }
}

/// The features of queries and keys that a norm takes together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum QkNorm {
    /// The features of a head (Qwen 3, Gemma 3).
    Head,
    /// The features of all heads (OLMo 2).
    Heads,
}

/// A bias of the scores for each head and each range of distances between query and key (Raffel et al. 2020, T5). The table of
/// layer 0 serves all layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RelativeBias {
    /// The rows of the table.
    pub buckets: usize,
    /// The distance from which on all distances share the last bucket.
    pub max_distance: usize,
}

/// Scores with the products of a query and of a key with vectors of their distance (He et al. 2021, DeBERTa).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Disentangled {
    /// The number of ranges of distances on each side; the table has twice as many rows.
    pub span: usize,
    /// The distance at which the last range begins, if ranges widen with the distance. Otherwise each distance has its own.
    pub buckets_to: Option<usize>,
    /// Whether queries are multiplied by the keys of distances.
    pub to_position: bool,
    /// Whether keys are multiplied by the queries of distances.
    pub from_position: bool,
    /// Whether distances go through the layers of queries and keys, and not through layers of their own.
    pub shared: bool,
    /// Whether a norm comes before these layers.
    pub normed: bool,
}

/// Rotary position embedding: feature i of a head is paired with feature i + features / 2, or with its neighbour.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RotarySettings {
    /// The number of rotated features, the first ones of a head. The others stay the same.
    pub features: usize,
    /// The base θ: pair i is rotated by t · θ^(−2i/features) at position t.
    pub base: f64,
    /// The frequencies, which may be changed so that the model reads longer texts than those of the training.
    pub scaling: Frequencies,
    /// Whether features 2i and 2i + 1 are a pair (GPT-J).
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub interleaved: bool,
}

/// The frequencies of the rotation of the pairs of features.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Frequencies {
    /// The frequencies of the base.
    #[serde(rename = "none")]
    Plain,
    /// A divisor for each frequency: one list up to the original context, another for longer texts (Phi-3's LongRoPE).
    LongRope {
        /// Divisors up to `original` tokens.
        short: Vec<f64>,
        /// Divisors of longer texts.
        long: Vec<f64>,
        /// The positions of the training.
        original: usize,
        /// The factor of sines and cosines.
        attention_factor: f64,
    },
    /// The base grows with the length of the text (dynamic NTK).
    Dynamic {
        /// The factor by which it grows.
        factor: f64,
        /// The number of positions up to which it stays the same.
        original: usize,
        /// Whether it stays the same up to the double of that, and of this, and so on (the first Qwen).
        #[serde(default)]
        doubles: bool,
    },
    /// The file has a tensor with a divisor for each frequency (`rope_freqs.weight` of GGUF).
    Stored,
    /// Patches turn by their place in the image, and the `before` tokens before them do not (DINOv3). The first half of the
    /// pairs turns by the row and the second half by the column: pair i of m in such a half by 2π · c · θ^(−i/m), for a patch's
    /// centre c between −1 and 1.
    Grid {
        /// The tokens before the patches.
        before: usize,
        /// The rows and the columns of patches.
        grid: [usize; 2],
    },
    /// Frequencies that are changed in the same way for all texts.
    #[serde(untagged)]
    Scaled(RotaryScaling),
}

/// The output of a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum OutputHead {
    /// The model has no head and ends with the last hidden states: a base model.
    None,
    /// A logit for each token of the vocabulary.
    Tokens {
        /// A linear layer, this activation and a layer norm come first (BERT's masked language modelling).
        transform: Option<(Activation, NormSettings)>,
        /// The factor of the hidden states (T5 with tied embeddings: width^−½; Granite: one over its scaling of logits).
        scale: f32,
        /// The soft cap c of the logits: c · tanh(logit / c).
        softcap: Option<f32>,
    },
    /// A logit for each class, from the hidden state of one [position](Description::class_position).
    Classes {
        /// A linear layer and this activation come first (BERT's pooler).
        pooler: Option<Activation>,
        /// A norm after these (ModernBERT).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        norm: Option<NormSettings>,
        /// The position that is read.
        position: ClassPosition,
        /// What the logits say of the classes.
        #[serde(default)]
        problem: Problem,
    },
    /// A vector of the whole input, by which texts and images are compared (CLIP), or from which others compute on. The model has
    /// no logits.
    Pooled {
        /// The position that is read.
        position: ClassPosition,
        /// A norm of it (CLIP's images).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        norm: Option<NormSettings>,
        /// The activation after a linear layer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        activation: Option<Activation>,
    },
    /// A head that is not computed, such as one that classifies each token. The model has no logits.
    Other {
        /// The name of transformers' class with this head.
        architecture: String,
    },
}

impl OutputHead {
    /// Why there are no logits, if the head is one that is not computed.
    pub(crate) fn refusal(&self) -> Option<String> {
        match self {
            Self::Other { architecture } => {
                Some(format!("the head of {architecture} is not computed"))
            }
            _ => None,
        }
    }
}

/// What the logits of classes say: `problem_type` of a config.json.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Problem {
    /// Which one of the classes holds (`single_label_classification`).
    #[default]
    OneOf,
    /// Whether each class holds, apart from the others (`multi_label_classification`).
    AnyOf,
    /// The logits are the predicted numbers (`regression`).
    Regression,
}

/// The position whose hidden state becomes the logits of classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ClassPosition {
    /// The first: BERT's `[CLS]`, or an image's class token.
    First,
    /// No single position: the mean of all hidden states is read (an option of ModernBERT).
    Mean,
    /// The mean of the patches (CLIP, SigLIP).
    Patches,
    /// The class token, followed by the mean of the patches (DINOv2).
    FirstAndPatches,
    /// The class token, followed by the distillation token (DeiT). The logits are the mean of those of both.
    FirstTwo,
    /// A learned query attends to all positions with the heads of the layers, and a feed-forward layer follows (SigLIP's images).
    Probe,
    /// The first position of this token, or of the token with the largest id (CLIP's texts).
    Token {
        /// The token.
        id: Option<u32>,
    },
    /// The last position that is not padding, in a decoder.
    Last {
        /// The padding token, if the config has one. In a text of padding alone the first position is read.
        pad: Option<u32>,
    },
}

impl RotarySettings {
    /// Whether the tokens that texts of two lengths have in common are rotated by the same angles in both.
    pub(crate) fn turns_alike(&self, [one, other]: [usize; 2]) -> bool {
        match &self.scaling {
            Frequencies::LongRope { original, .. } => (one > *original) == (other > *original),
            Frequencies::Dynamic { original, .. } => one.max(*original) == other.max(*original),
            _ => true,
        }
    }

    /// The features that are paired.
    pub(crate) fn pairing(&self) -> Pairing {
        if self.interleaved { Pairing::Interleaved } else { Pairing::HalfSplit }
    }

    /// The sines and cosines of these positions, the last of the text. `stored` are the divisors of [`Frequencies::Stored`].
    pub(crate) fn between(
        &self,
        positions: Range<usize>,
        stored: Option<&[f32]>,
    ) -> Result<Rotary, regard::Error> {
        let Frequencies::Grid { before, grid } = self.scaling else {
            let frequencies = self.frequencies(positions.end, stored)?;
            return Rotary::between(&frequencies, positions, self.pairing());
        };
        let half = self.features / 4;
        let angle = |position: usize, pair: usize| {
            let Some(patch) = position.checked_sub(before) else { return 0.0 };
            let (axis, i) = (pair / half, pair % half);
            let place = [patch / grid[1], patch % grid[1]][axis];
            let centre = 2.0 * (place as f64 + 0.5) / grid[axis] as f64 - 1.0;
            TAU * centre * self.base.powf(-(i as f64) / half as f64)
        };
        Rotary::of_angles(self.features, positions, angle, self.pairing())
    }

    /// The frequency of each pair in a text of `tokens`. `stored` are the divisors of [`Frequencies::Stored`].
    pub(crate) fn frequencies(
        &self,
        tokens: usize,
        stored: Option<&[f32]>,
    ) -> Result<RotaryFrequencies, regard::Error> {
        let divided = |divisors: &mut dyn Iterator<Item = f64>| {
            let plain = RotaryFrequencies::new(self.features, self.base)?;
            let divided: Vec<f64> = plain.frequencies().zip(divisors).map(|(f, d)| f / d).collect();
            RotaryFrequencies::custom(&divided)
        };
        match &self.scaling {
            Frequencies::Plain | Frequencies::Grid { .. } => {
                RotaryFrequencies::new(self.features, self.base)
            }
            Frequencies::Scaled(scaling) => {
                RotaryFrequencies::scaled(self.features, self.base, *scaling)
            }
            Frequencies::LongRope { short, long, original, attention_factor } => {
                let divisors = if tokens > *original { long } else { short };
                divided(&mut divisors.iter().copied())?.with_amplitude(*attention_factor)
            }
            Frequencies::Dynamic { factor, original, doubles } => {
                let features = self.features as f64;
                let mut length = tokens.max(*original) as f64 / *original as f64;
                if *doubles {
                    length = 2.0 * length.log2().ceil().exp2() - 1.0;
                }
                let grown = (factor * length - (factor - 1.0)).powf(features / (features - 2.0));
                RotaryFrequencies::new(self.features, self.base * grown)
            }
            Frequencies::Stored => {
                divided(&mut stored.unwrap_or_default().iter().map(|divisor| f64::from(*divisor)))
            }
        }
    }
}

impl Patches {
    /// Patches of these sizes after a class token: `[channels, height, width, patch height, patch width]`.
    pub(crate) fn new([channels, height, width, patch_height, patch_width]: [usize; 5]) -> Self {
        let (class, distilled, registers, resized_from) = (true, false, 0, None);
        Self {
            channels,
            height,
            width,
            patch_height,
            patch_width,
            class,
            distilled,
            registers,
            resized_from,
        }
    }

    /// The number of tokens: those before the patches, and the patches.
    pub fn tokens(&self) -> usize {
        let [rows, columns] = self.grid();
        self.before() + rows * columns
    }

    /// The number of tokens before the patches.
    pub fn before(&self) -> usize {
        usize::from(self.class) + usize::from(self.distilled) + self.registers
    }

    /// The name of a token, such as `patch 0,1`.
    pub fn name(&self, token: usize) -> String {
        let [_, columns] = self.grid();
        let special = [(self.class, "[CLS]"), (self.distilled, "[DIST]")];
        let mut special = special.into_iter().filter(|(is_there, _)| *is_there);
        match (special.nth(token), token.checked_sub(self.before())) {
            (Some((_, name)), _) => name.to_owned(),
            (None, None) => format!("register {}", self.registers + token - self.before()),
            (None, Some(patch)) => format!("patch {},{}", patch / columns, patch % columns),
        }
    }

    /// The names of all tokens.
    ///
    /// ```
    /// use regard_models::{Checkpoint, Description};
    /// # let models = concat!(env!("CARGO_MANIFEST_DIR"), "/models");
    /// let vit = Description::of(&Checkpoint::open(format!("{models}/tiny-vit"))?)?;
    /// assert_eq!(vit.embedding.patches.unwrap().names()[..3], ["[CLS]", "patch 0,0", "patch 0,1"]);
    /// # Ok::<(), regard_models::Error>(())
    /// ```
    pub fn names(&self) -> Vec<String> {
        (0..self.tokens()).map(|token| self.name(token)).collect()
    }

    /// The numbers of rows and of columns of patches.
    pub fn grid(&self) -> [usize; 2] {
        [self.height / self.patch_height, self.width / self.patch_width]
    }

    /// The patches \[patches, channels · patch height · patch width\] of an image \[channels, height, width\].
    pub(crate) fn cut(&self, pixels: &[f32]) -> Vec<f32> {
        let Self { channels, height, width, patch_height: high, patch_width: wide, .. } = *self;
        let [rows, columns] = self.grid();
        let mut patches = Vec::with_capacity(pixels.len());
        for (top, left) in (0..rows).flat_map(|i| (0..columns).map(move |j| (i * high, j * wide))) {
            for (channel, row) in
                (0..channels).flat_map(|channel| (top..top + high).map(move |row| (channel, row)))
            {
                patches
                    .extend_from_slice(&pixels[(channel * height + row) * width + left..][..wide]);
            }
        }
        patches
    }

    /// The number of elements of a patch.
    pub(crate) fn numbers(&self) -> usize {
        self.channels * self.patch_height * self.patch_width
    }
}

impl Frames {
    /// The number of positions of the encoder.
    pub fn positions(&self) -> usize {
        self.count / 2
    }
}
