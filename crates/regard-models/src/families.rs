//! The known families: a row for each.
//!
//! A row says what a family's config.json means beside the numbers in it. Most decoders differ in these settings alone, and
//! [`Config::decoder`] reads them all. A family costs its row, the names of its tensors (`weights/names.json`), the defaults of
//! its class (`config/defaults.py`) and its golden model. What no setting says is the row's function `also`.

use crate::config::{Config, GgufConfig};
use crate::{
    Activation, ClassPosition, Cubic, Description, Error, NormKind, OutputHead, Patches, Placement,
    QkNorm,
};

/// A family.
pub(crate) struct Family {
    /// `model_type` of config.json.
    pub(crate) name: &'static str,
    /// The family of `text_config`, if config.json describes a model that also reads images. The part for text alone is computed.
    pub(crate) text: Option<&'static str>,
    /// The values of `general.architecture` in its GGUF files, and the entry of their names, if they are read.
    pub(crate) gguf: Option<(&'static [&'static str], &'static str)>,
    /// The entry of its tensors' names.
    pub(crate) names: &'static str,
    /// The function that reads config.json: [`Config::decoder`] but for a few.
    pub(crate) describe: fn(&Config<'_>) -> Result<Description, Error>,
    /// The keys of the width, of the numbers of layers and of heads, and of the hidden features. If the class has `None` as the
    /// default of the last one, or no such key (""), it is four times the width.
    pub(crate) sizes: [&'static str; 4],
    /// Whether key/value heads may be fewer than query heads, and heads may have another size than their share of the width.
    pub(crate) grouped: bool,
    /// The kind of the norms, and the key of their ε; "" if it is no setting.
    pub(crate) norm: (NormKind, &'static str),
    pub(crate) placement: Placement,
    /// Whether the feed-forward layer reads the same input as the attention.
    pub(crate) parallel: Flag,
    /// The key of the activation; "" if it is no setting. It is then GELU, unless the row's function sets it.
    pub(crate) activation: &'static str,
    /// Whether the hidden features are multiplied by a second projection.
    pub(crate) gated: bool,
    /// Which layers have a bias: queries, keys and values; the attention's output; the feed-forward layer.
    pub(crate) biases: [Flag; 3],
    pub(crate) qk_norm: Option<QkNorm>,
    pub(crate) sinks: bool,
    pub(crate) positions: Positions,
    pub(crate) windows: Windows,
    pub(crate) experts: ExpertKind,
    /// The layer before the head of a model that classifies texts or images, and the position that it reads.
    pub(crate) classes: Classes,
    /// The position that a model without a head reads for a vector of the whole input.
    pub(crate) pooled: Option<ClassPosition>,
    /// The flag with which a token sees those after it too.
    pub(crate) both_ways: Flag,
    /// Whether GGUF files have the soft caps of scores and logits.
    pub(crate) caps: bool,
    /// The part of the description that no setting above tells.
    pub(crate) also: fn(&Config<'_>, &mut Description) -> Result<(), Error>,
    /// The same of a GGUF file.
    pub(crate) also_gguf: fn(&GgufConfig<'_>, &mut Description),
}

/// A property of a family that a key may tell.
#[derive(Clone, Copy)]
pub(crate) enum Flag {
    No,
    Yes,
    Key(&'static str),
}

/// The positions of tokens.
#[derive(Clone, Copy)]
pub(crate) enum Positions {
    /// A table of vectors: the key of the number of positions, and the row of the first one.
    Learned(&'static str, usize),
    Rotary(Rope),
    /// A table of sines and cosines: the key of the number of positions.
    Sines(&'static str),
    /// Those of ALiBi, which lower the scores of earlier keys.
    Slopes,
    /// Those that the row's function sets.
    Own,
}

/// The rotary positions.
#[derive(Clone, Copy)]
pub(crate) struct Rope {
    /// The key of the base in transformers 4, and its default. A second one belongs to the layers that slide; its key is "" if
    /// there is none.
    pub(crate) bases: &'static [(&'static str, f64)],
    /// The key of the share of a head that turns in transformers 4, and its default. Without one, whole heads turn.
    pub(crate) share: Option<(&'static str, f64)>,
    /// The only `rope_type` besides `default`, which has other names in older files.
    pub(crate) only: Option<(&'static str, &'static [&'static str])>,
    /// Whether `rope_scaling` counts for layers that slide, too.
    pub(crate) scales_all: bool,
    /// The layers without positions.
    pub(crate) skips: Skips,
    /// Whether neighbouring features are a pair.
    pub(crate) interleaved: bool,
    /// `rope_parameters` of the class, as JSON.
    pub(crate) usual: &'static str,
}

/// The layers that have no positions.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Skips {
    None,
    /// Those that `no_rope_layers` or `no_rope_layer_interval` tells.
    Listed,
    /// Those that see all tokens, if others slide.
    Full,
}

/// The layers whose queries see the keys of a window alone.
#[derive(Clone, Copy)]
pub(crate) struct Windows {
    /// The key of the window. Of another key than `sliding_window`, half of it stands on each side.
    pub(crate) size: &'static str,
    /// The key of a flag, without which no layer slides.
    pub(crate) flag: Option<&'static str>,
    /// Whether `layer_types` tells which layers slide.
    pub(crate) by_type: bool,
    /// The layers that slide if it does not.
    pub(crate) slide: Slide,
    /// Whether a file of GGUF without a window has that of the class.
    pub(crate) usual: bool,
}

#[derive(Clone, Copy)]
pub(crate) enum Slide {
    None,
    All,
    /// All but the last of every few layers, whose number the key tells too.
    AllButLast(usize, Option<&'static str>),
    /// All but the first of them.
    AllButFirst(usize, &'static str),
    /// Those from the layer of this key on.
    From(&'static str),
    /// The first, third and so on of those before the layer of this key.
    OddBefore(&'static str),
    /// Those without positions, if the flag of this key is set.
    Unturned(&'static str),
}

/// The kind of a family's experts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExpertKind {
    None,
    /// Those of Qwen's mixtures: some layers may have none.
    Sparse,
    /// All layers have them, with the hidden features of the whole model's setting (Mixtral).
    All,
    /// As these, but the weights compare an expert with those whose logits are near its own (Phi-3.5-MoE).
    Near,
    /// Those of gpt-oss, whose gate is clamped.
    Clamped,
}

/// How a model classifies.
#[derive(Clone, Copy)]
pub(crate) enum Classes {
    /// From the first position, after a linear layer and this activation if there is one.
    First(Option<Activation>),
    /// From these positions.
    At(ClassPosition),
    /// From the last position that is no padding.
    Last,
    /// Of an encoder with a head of its own (ModernBERT).
    Pooled,
    /// They are not computed.
    Other,
}

const SIZES: [&str; 4] =
    ["hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size"];

const NO_WINDOWS: Windows = Windows {
    size: "sliding_window",
    flag: None,
    by_type: false,
    slide: Slide::None,
    usual: false,
};

const BY_TYPE: Windows = Windows { by_type: true, usual: true, ..NO_WINDOWS };

const ROPE: Rope = Rope {
    bases: &[("rope_theta", 10_000.0)],
    share: None,
    only: None,
    scales_all: false,
    skips: Skips::None,
    interleaved: false,
    usual: "{}",
};

/// A decoder such as Llama.
const DECODER: Family = Family {
    name: "",
    text: None,
    gguf: None,
    names: "llama",
    describe: |config| config.decoder(),
    sizes: SIZES,
    grouped: true,
    norm: (NormKind::Rms, "rms_norm_eps"),
    placement: Placement::Before,
    parallel: Flag::No,
    activation: "hidden_act",
    gated: true,
    biases: [ATTENTION_BIAS, ATTENTION_BIAS, Flag::No],
    qk_norm: None,
    sinks: false,
    positions: Positions::Rotary(ROPE),
    windows: NO_WINDOWS,
    experts: ExpertKind::None,
    classes: Classes::Last,
    pooled: None,
    caps: false,
    both_ways: Flag::No,
    also: |_, _| Ok(()),
    also_gguf: |_, _| (),
};

const ATTENTION_BIAS: Flag = Flag::Key("attention_bias");
const BY_FLAGS: [Flag; 3] = [ATTENTION_BIAS, ATTENTION_BIAS, Flag::Key("mlp_bias")];

/// A decoder such as Gemma 2.
const GEMMA: Family = Family {
    names: "gemma2",
    norm: (NormKind::RmsPlusOne, "rms_norm_eps"),
    placement: Placement::Both,
    activation: "hidden_activation",
    caps: true,
    also: |config, description| config.gemma(description),
    also_gguf: |_, description| GgufConfig::gemma(description),
    ..DECODER
};

/// A decoder with layer norms and biases, such as GPT-2.
const GPT: Family = Family {
    grouped: false,
    norm: (NormKind::Layer, "layer_norm_eps"),
    gated: false,
    biases: [Flag::Yes, Flag::Yes, Flag::Yes],
    ..DECODER
};

/// An encoder such as BERT.
const ENCODER: Family = Family {
    names: "bert",
    describe: |config| config.bert(),
    placement: Placement::After,
    positions: Positions::Learned("max_position_embeddings", 0),
    classes: Classes::First(Some(Activation::Tanh)),
    pooled: Some(ClassPosition::First),
    ..GPT
};

const ROBERTA: Family = Family { names: "roberta", describe: |config| config.roberta(), ..ENCODER };

/// A translator such as BART: an encoder and a decoder with norms after their sublayers.
const BART: Family = Family {
    names: "bart",
    describe: |config| config.bart(),
    placement: Placement::After,
    activation: "activation_function",
    positions: Positions::Learned("max_position_embeddings", 2),
    classes: Classes::Other,
    ..GPT
};

/// The families, in the order in which texts list them.
pub(crate) static FAMILIES: &[Family] = &[
    Family { name: "bert", gguf: Some((&["bert"], "gguf bert")), ..ENCODER },
    Family { name: "roberta", ..ROBERTA },
    Family { name: "xlm-roberta", ..ROBERTA },
    Family { name: "camembert", ..ROBERTA },
    Family {
        name: "electra",
        names: "electra",
        describe: |config| config.electra(),
        classes: Classes::First(Some(Activation::Gelu)),
        ..ENCODER
    },
    Family { name: "albert", names: "albert", describe: |config| config.albert(), ..ENCODER },
    Family { name: "mpnet", names: "mpnet", describe: |config| config.mpnet(), ..ENCODER },
    Family {
        name: "nomic_bert",
        gguf: Some((&["nomic-bert"], "gguf bert")),
        names: "nomic_bert",
        gated: true,
        biases: [Flag::No; 3],
        positions: Positions::Rotary(Rope { bases: &[("rotary_emb_base", 1_000.0)], ..ROPE }),
        classes: Classes::Other,
        ..ENCODER
    },
    Family {
        name: "eurobert",
        gguf: Some((&["eurobert"], "gguf")),
        names: "eurobert",
        biases: BY_FLAGS,
        both_ways: Flag::Yes,
        classes: Classes::Other,
        ..DECODER
    },
    Family {
        name: "deberta-v2",
        names: "deberta-v2",
        describe: |config| config.deberta(),
        classes: Classes::First(Some(Activation::Gelu)),
        ..ENCODER
    },
    Family {
        name: "distilbert",
        names: "distilbert",
        describe: |config| config.distilbert(),
        sizes: ["dim", "n_layers", "n_heads", "hidden_dim"],
        activation: "activation",
        classes: Classes::First(Some(Activation::Relu)),
        ..ENCODER
    },
    Family {
        name: "gpt2",
        gguf: Some((&["gpt2"], "gguf")),
        names: "gpt2",
        sizes: ["n_embd", "n_layer", "n_head", "n_inner"],
        norm: (NormKind::Layer, "layer_norm_epsilon"),
        activation: "activation_function",
        positions: Positions::Learned("n_positions", 0),
        also: |config, description| config.gpt2(description),
        ..GPT
    },
    Family {
        name: "gpt_neox",
        gguf: Some((&["gptneox"], "gguf")),
        names: "gpt_neox",
        parallel: Flag::Key("use_parallel_residual"),
        biases: [ATTENTION_BIAS, ATTENTION_BIAS, Flag::Yes],
        positions: Positions::Rotary(Rope {
            bases: &[("rotary_emb_base", 10_000.0)],
            share: Some(("rotary_pct", 0.25)),
            ..ROPE
        }),
        ..GPT
    },
    Family {
        name: "llama",
        gguf: Some((&["llama"], "gguf neighbours")),
        biases: BY_FLAGS,
        ..DECODER
    },
    Family {
        name: "mistral",
        biases: [Flag::No; 3],
        windows: Windows { slide: Slide::All, ..NO_WINDOWS },
        ..DECODER
    },
    Family {
        name: "qwen",
        gguf: Some((&["qwen"], "gguf")),
        names: "qwen",
        grouped: false,
        norm: (NormKind::Rms, "layer_norm_epsilon"),
        activation: "", // SiLU
        biases: [Flag::Yes, Flag::No, Flag::No],
        positions: Positions::Rotary(Rope { bases: &[("rotary_emb_base", 10_000.0)], ..ROPE }),
        also: |config, description| config.first_qwen(description),
        also_gguf: |_, description| Config::first_qwen_gate(description),
        ..DECODER
    },
    Family {
        name: "qwen2",
        gguf: Some((&["qwen2"], "gguf")),
        biases: [Flag::Yes, Flag::No, Flag::No],
        windows: QWEN_WINDOWS,
        ..DECODER
    },
    Family {
        name: "qwen3",
        gguf: Some((&["qwen3"], "gguf")),
        qk_norm: Some(QkNorm::Head),
        windows: QWEN_WINDOWS,
        ..DECODER
    },
    Family {
        name: "qwen3_moe",
        gguf: Some((&["qwen3moe"], "gguf")),
        qk_norm: Some(QkNorm::Head),
        windows: Windows { flag: Some("use_sliding_window"), slide: Slide::All, ..NO_WINDOWS },
        experts: ExpertKind::Sparse,
        ..DECODER
    },
    Family {
        name: "gpt_oss",
        gguf: Some((&["gpt-oss"], "gguf gpt-oss")),
        names: "gpt_oss",
        biases: [ATTENTION_BIAS, ATTENTION_BIAS, Flag::Yes],
        sinks: true,
        positions: Positions::Rotary(Rope {
            bases: &[("rope_theta", 150_000.0)],
            usual: r#"{"rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0, "truncate": false,
                "original_max_position_embeddings": 4096}"#,
            ..ROPE
        }),
        windows: Windows { slide: Slide::AllButLast(2, None), ..BY_TYPE },
        experts: ExpertKind::Clamped,
        ..DECODER
    },
    Family {
        name: "smollm3",
        gguf: Some((&["smollm3"], "gguf neighbours")),
        biases: BY_FLAGS,
        positions: Positions::Rotary(Rope {
            bases: &[("rope_theta", 2_000_000.0)],
            skips: Skips::Listed,
            ..ROPE
        }),
        windows: Windows { slide: Slide::Unturned("use_sliding_window"), ..BY_TYPE },
        ..DECODER
    },
    Family {
        name: "granite",
        gguf: Some((&["granite"], "gguf neighbours")),
        biases: BY_FLAGS,
        also: |config, description| config.granite(description),
        also_gguf: |config, description| config.granite(description),
        ..DECODER
    },
    Family {
        name: "olmo2",
        names: "gemma2",
        placement: Placement::Output,
        qk_norm: Some(QkNorm::Heads),
        ..DECODER
    },
    Family {
        name: "olmo3",
        gguf: Some((&["olmo2"], "gguf")), // of OLMo 2 as well
        names: "gemma2",
        placement: Placement::Output,
        qk_norm: Some(QkNorm::Heads),
        // Transformers reads the sliding layers' base from rope_parameters alone.
        positions: Positions::Rotary(Rope {
            bases: &[("rope_theta", 500_000.0), ("", 500_000.0)],
            ..ROPE
        }),
        windows: Windows { slide: Slide::AllButLast(4, None), usual: false, ..BY_TYPE },
        ..DECODER
    },
    Family {
        name: "gemma2",
        gguf: Some((&["gemma2"], "gguf")),
        windows: Windows { slide: Slide::AllButLast(2, None), ..BY_TYPE },
        ..GEMMA
    },
    Family { name: "gemma3", text: Some("gemma3_text"), ..GEMMA3 },
    GEMMA3,
    Family {
        name: "phi3",
        gguf: Some((&["phi3"], "gguf phi3")),
        biases: [Flag::No; 3],
        positions: Positions::Rotary(Rope {
            share: Some(("partial_rotary_factor", 1.0)),
            only: Some(("longrope", &["su", "yarn"])),
            ..ROPE
        }),
        windows: Windows { slide: Slide::All, usual: true, ..NO_WINDOWS },
        ..DECODER
    },
    Family {
        name: "gpt_neo",
        names: "gpt_neo",
        sizes: ["hidden_size", "num_layers", "num_heads", "intermediate_size"],
        norm: (NormKind::Layer, "layer_norm_epsilon"),
        activation: "activation_function",
        biases: [Flag::No, Flag::Yes, Flag::Yes],
        positions: Positions::Learned("max_position_embeddings", 0),
        also: |config, description| config.gpt_neo(description),
        ..GPT
    },
    Family {
        name: "gptj",
        names: "gptj",
        sizes: ["n_embd", "n_layer", "n_head", "n_inner"],
        norm: (NormKind::Layer, "layer_norm_epsilon"),
        parallel: Flag::Yes,
        activation: "activation_function",
        biases: [Flag::No, Flag::No, Flag::Yes],
        positions: Positions::Own,
        also: |config, description| config.gptj(description),
        ..GPT
    },
    Family {
        name: "gpt_bigcode",
        gguf: Some((&["starcoder"], "gguf")),
        names: "gpt_bigcode",
        sizes: ["n_embd", "n_layer", "n_head", "n_inner"],
        norm: (NormKind::Layer, "layer_norm_epsilon"),
        activation: "activation_function",
        positions: Positions::Learned("n_positions", 0),
        also: |config, description| config.gpt_bigcode(description),
        ..GPT
    },
    Family {
        name: "opt",
        names: "opt",
        sizes: ["hidden_size", "num_hidden_layers", "num_attention_heads", "ffn_dim"],
        norm: (NormKind::Layer, ""),
        activation: "activation_function",
        biases: [Flag::Key("enable_bias"); 3],
        positions: Positions::Learned("max_position_embeddings", 2),
        also: |config, description| config.opt(description),
        ..GPT
    },
    Family {
        name: "bloom",
        gguf: Some((&["bloom"], "gguf")),
        names: "bloom",
        sizes: ["hidden_size", "n_layer", "n_head", ""],
        norm: (NormKind::Layer, "layer_norm_epsilon"),
        activation: "",
        positions: Positions::Slopes,
        also: |config, description| config.bloom(description),
        also_gguf: |_, description| GgufConfig::bloom(description),
        ..GPT
    },
    Family {
        name: "falcon",
        gguf: Some((&["falcon"], "gguf falcon")),
        names: "falcon",
        sizes: ["hidden_size", "num_hidden_layers", "num_attention_heads", "ffn_hidden_size"],
        norm: (NormKind::Layer, "layer_norm_epsilon"),
        activation: "activation",
        parallel: Flag::Yes, // in GGUF files
        biases: [Flag::Key("bias"); 3],
        also: |config, description| config.falcon(description),
        ..GPT
    },
    Family {
        name: "mpt",
        gguf: Some((&["mpt"], "gguf")),
        names: "mpt",
        sizes: ["d_model", "n_layers", "n_heads", ""],
        norm: (NormKind::Layer, "layer_norm_epsilon"),
        activation: "",
        biases: [Flag::No; 3],
        positions: Positions::Slopes,
        also: |config, description| config.mpt(description),
        ..GPT
    },
    Family {
        name: "phi",
        gguf: Some((&["phi2"], "gguf")),
        names: "phi",
        grouped: true,
        parallel: Flag::Yes,
        positions: Positions::Rotary(HALF_OF_ROPE),
        also: |config, description| config.without_qk_norm(description),
        ..GPT
    },
    Family {
        name: "stablelm",
        gguf: Some((&["stablelm"], "gguf")),
        norm: (NormKind::Layer, "layer_norm_eps"),
        parallel: Flag::Key("use_parallel_residual"),
        biases: [Flag::Key("use_qkv_bias"), Flag::No, Flag::No],
        positions: Positions::Rotary(Rope { share: Some(("partial_rotary_factor", 0.25)), ..ROPE }),
        also: |config, description| config.without_qk_norm(description),
        ..DECODER
    },
    Family {
        name: "starcoder2",
        gguf: Some((&["starcoder2"], "gguf")),
        names: "starcoder2",
        grouped: true,
        norm: (NormKind::Layer, "norm_epsilon"),
        biases: [Flag::Key("use_bias"); 3],
        windows: Windows { slide: Slide::All, ..NO_WINDOWS },
        ..GPT
    },
    Family {
        name: "mixtral",
        names: "mixtral",
        biases: [Flag::No; 3],
        positions: Positions::Rotary(Rope { bases: &[("rope_theta", 1_000_000.0)], ..ROPE }),
        windows: Windows { slide: Slide::All, ..NO_WINDOWS },
        experts: ExpertKind::All,
        ..DECODER
    },
    Family {
        name: "olmo",
        gguf: Some((&["olmo"], "gguf olmo")),
        names: "olmo",
        norm: (NormKind::Layer, ""),
        also: |config, description| config.olmo(description),
        ..DECODER
    },
    Family {
        name: "olmoe",
        gguf: Some((&["olmoe"], "gguf")),
        qk_norm: Some(QkNorm::Heads),
        experts: ExpertKind::All,
        also: |config, description| config.olmo(description),
        also_gguf: |_, description| GgufConfig::shares_of_all(description),
        ..DECODER
    },
    Family {
        name: "gemma",
        gguf: Some((&["gemma"], "gguf")),
        norm: (NormKind::RmsPlusOne, "rms_norm_eps"),
        also: |_, description| {
            Config::first_gemma(description);
            Ok(())
        },
        also_gguf: |_, description| Config::first_gemma(description),
        ..DECODER
    },
    Family {
        name: "qwen2_moe",
        gguf: Some((&["qwen2moe"], "gguf")),
        biases: [Flag::Key("qkv_bias"), Flag::No, Flag::No],
        windows: Windows { slide: Slide::OddBefore("max_window_layers"), ..QWEN_WINDOWS },
        experts: ExpertKind::Sparse,
        also_gguf: |_, description| GgufConfig::shares_of_all(description),
        ..DECODER
    },
    Family {
        name: "phimoe",
        gguf: Some((&["phimoe"], "gguf")),
        names: "phimoe",
        norm: (NormKind::Layer, "rms_norm_eps"),
        positions: Positions::Rotary(Rope { bases: &[("rope_theta", 1_000_000.0)], ..ROPE }),
        windows: Windows { slide: Slide::All, ..NO_WINDOWS },
        experts: ExpertKind::Near,
        also: |config, description| config.phimoe(description),
        ..DECODER
    },
    Family {
        name: "ministral",
        biases: [Flag::No; 3],
        windows: Windows { slide: Slide::All, ..BY_TYPE },
        ..DECODER
    },
    Family {
        name: "ministral3",
        gguf: Some((&["mistral3"], "gguf neighbours")),
        biases: [Flag::No; 3],
        positions: Positions::Rotary(Rope {
            bases: &[("rope_theta", 1_000_000.0)],
            usual: r#"{"rope_type": "yarn", "factor": 16.0, "original_max_position_embeddings": 16384, "beta_fast": 32.0,
                "beta_slow": 1.0, "mscale_all_dim": 1.0, "mscale": 1.0, "llama_4_scaling_beta": 0.1}"#,
            ..ROPE
        }),
        windows: Windows { slide: Slide::All, ..NO_WINDOWS },
        also: |config, description| config.ministral3(description),
        also_gguf: |config, description| config.ministral3(description),
        ..DECODER
    },
    Family {
        name: "arcee",
        gguf: Some((&["arcee"], "gguf neighbours")),
        gated: false,
        biases: BY_FLAGS,
        ..DECODER
    },
    Family {
        name: "nemotron",
        gguf: Some((&["nemotron"], "gguf")),
        norm: (NormKind::LayerPlusOne, "norm_eps"),
        gated: false,
        biases: BY_FLAGS,
        positions: Positions::Rotary(HALF_OF_ROPE),
        ..DECODER
    },
    Family {
        name: "helium",
        biases: [ATTENTION_BIAS, Flag::No, Flag::Key("mlp_bias")],
        positions: Positions::Rotary(Rope {
            bases: &[("rope_theta", 100_000.0)],
            interleaved: true,
            ..ROPE
        }),
        ..DECODER
    },
    Family {
        name: "exaone4",
        gguf: Some((&["exaone4"], "gguf")),
        names: "gemma2",
        placement: Placement::Output,
        biases: [Flag::No; 3],
        qk_norm: Some(QkNorm::Head),
        positions: Positions::Rotary(Rope { skips: Skips::Full, ..ROPE }),
        windows: EVERY_FOURTH_FULL,
        ..DECODER
    },
    GLM,
    Family {
        name: "glm4",
        gguf: Some((&["glm4"], "gguf phi3")),
        names: "glm4",
        placement: Placement::Both,
        ..GLM
    },
    Family {
        name: "cohere",
        gguf: Some((&["command-r"], "gguf")),
        positions: Positions::Rotary(Rope {
            bases: &[("rope_theta", 500_000.0)],
            interleaved: true,
            ..ROPE
        }),
        ..COHERE
    },
    Family {
        name: "cohere2",
        gguf: Some((&["cohere2"], "gguf")),
        positions: Positions::Rotary(Rope { interleaved: true, skips: Skips::Full, ..ROPE }),
        windows: EVERY_FOURTH_FULL,
        ..COHERE
    },
    Family {
        name: "t5",
        gguf: Some((&["t5", "t5encoder"], "gguf t5")),
        names: "t5",
        describe: |config| config.t5(),
        positions: Positions::Own,
        also_gguf: |config, description| config.t5(description),
        classes: Classes::Other,
        ..DECODER
    },
    Family {
        name: "mt5",
        names: "t5",
        describe: |config| {
            let mut description = config.t5()?;
            if let OutputHead::Tokens { scale, .. } = &mut description.head {
                *scale = 1.0; // it has the embeddings of its head, as T5 1.0, and no factor, as T5 1.1
            }
            Ok(description)
        },
        classes: Classes::Other,
        ..DECODER
    },
    Family { name: "bart", ..BART },
    Family { name: "mbart", placement: Placement::Before, ..BART },
    Family {
        name: "marian",
        names: "marian",
        positions: Positions::Sines("max_position_embeddings"),
        ..BART
    },
    Family {
        name: "pegasus",
        names: "marian",
        placement: Placement::Before,
        positions: Positions::Sines("max_position_embeddings"),
        ..BART
    },
    VIT,
    Family {
        name: "deit",
        names: "deit",
        also: |_, description| {
            description.embedding.patches =
                description.embedding.patches.map(|patches| Patches { distilled: true, ..patches });
            Ok(())
        },
        ..VIT
    },
    Family {
        name: "dinov2",
        also: |config, description| config.dinov2(Cubic::Sharp, description),
        ..DINO
    },
    Family {
        name: "dinov2_with_registers",
        names: "dinov2_with_registers",
        also: |config, description| config.dinov2(Cubic::Smooth, description),
        ..DINO
    },
    Family {
        name: "dinov3_vit",
        names: "dinov3_vit",
        sizes: SIZES,
        biases: [Flag::Yes, Flag::Key("proj_bias"), Flag::Key("mlp_bias")],
        positions: Positions::Own,
        also: |config, description| config.dinov3(description),
        ..DINO
    },
    Family {
        name: "clip_vision_model",
        names: "clip vision",
        biases: [Flag::Yes; 3],
        classes: Classes::At(ClassPosition::Patches),
        also: |_, description| {
            // The norm after the last layer is for the class token alone.
            description.embedding.norm = description.stack.final_norm.take();
            Ok(())
        },
        ..VIT
    },
    CLIP_TEXTS,
    Family {
        name: "siglip_vision_model",
        names: "siglip vision",
        biases: [Flag::Yes; 3],
        classes: Classes::At(ClassPosition::Patches),
        pooled: Some(ClassPosition::Probe),
        also: |_, description| {
            description.embedding.patches =
                description.embedding.patches.map(|patches| Patches { class: false, ..patches });
            Ok(())
        },
        ..VIT
    },
    Family {
        name: "siglip_text_model",
        names: "siglip text",
        both_ways: Flag::Yes,
        pooled: Some(ClassPosition::Last { pad: None }),
        ..CLIP_TEXTS
    },
    Family { name: "whisper", names: "whisper", describe: |config| config.whisper(), ..GPT },
    Family {
        name: "modernbert",
        gguf: Some((&["modern-bert"], "gguf phi3")),
        names: "modernbert",
        describe: |config| config.modernbert(),
        norm: (NormKind::Layer, "norm_eps"),
        activation: "hidden_activation",
        biases: BY_FLAGS,
        positions: Positions::Rotary(Rope {
            bases: &[("global_rope_theta", 160_000.0), ("local_rope_theta", 10_000.0)],
            scales_all: true,
            ..ROPE
        }),
        windows: Windows {
            size: "local_attention",
            slide: Slide::AllButFirst(3, "global_attn_every_n_layers"),
            ..BY_TYPE
        },
        also_gguf: |_, description| GgufConfig::modernbert(description),
        classes: Classes::Pooled,
        ..DECODER
    },
];

/// An encoder of images such as ViT.
const VIT: Family = Family {
    name: "vit",
    names: "vit",
    describe: |config| config.vit(),
    biases: [Flag::Key("qkv_bias"), Flag::Yes, Flag::Yes],
    positions: Positions::Learned("", 0),
    classes: Classes::First(None),
    pooled: Some(ClassPosition::First),
    ..GPT
};

const DINO: Family = Family {
    names: "dinov2",
    sizes: ["hidden_size", "num_hidden_layers", "num_attention_heads", ""],
    classes: Classes::At(ClassPosition::FirstAndPatches),
    ..VIT
};

/// The texts of a model that compares them with images.
const CLIP_TEXTS: Family = Family {
    name: "clip_text_model",
    names: "clip text",
    positions: Positions::Learned("max_position_embeddings", 0),
    classes: Classes::Other,
    pooled: Some(ClassPosition::Token { id: None }),
    also: |_, description| {
        description.tied = false; // some files have the key, and no head
        description.stack.hidden_after_norm = false;
        Ok(())
    },
    ..GPT
};

const QWEN_WINDOWS: Windows = Windows {
    flag: Some("use_sliding_window"),
    slide: Slide::From("max_window_layers"),
    usual: false,
    ..BY_TYPE
};

const HALF_OF_ROPE: Rope = Rope { share: Some(("partial_rotary_factor", 0.5)), ..ROPE };

const EVERY_FOURTH_FULL: Windows = Windows {
    slide: Slide::AllButLast(4, Some("sliding_window_pattern")),
    usual: false,
    ..BY_TYPE
};

const GLM: Family = Family {
    name: "glm",
    gguf: Some((&["chatglm"], "gguf phi3")),
    biases: [ATTENTION_BIAS, Flag::No, Flag::No],
    positions: Positions::Rotary(Rope { interleaved: true, ..HALF_OF_ROPE }),
    ..DECODER
};

/// A decoder such as Command R.
const COHERE: Family = Family {
    norm: (NormKind::Layer, "layer_norm_eps"),
    parallel: Flag::Yes,
    also: |config, description| config.cohere(description),
    also_gguf: |config, description| config.cohere(description),
    ..DECODER
};

const GEMMA3: Family = Family {
    name: "gemma3_text",
    gguf: Some((&["gemma3"], "gguf")),
    qk_norm: Some(QkNorm::Head),
    positions: Positions::Rotary(Rope {
        bases: &[("rope_theta", 1_000_000.0), ("rope_local_base_freq", 10_000.0)],
        ..ROPE
    }),
    windows: Windows {
        slide: Slide::AllButLast(6, Some("sliding_window_pattern")),
        usual: false,
        ..BY_TYPE
    },
    both_ways: Flag::Key("use_bidirectional_attention"),
    ..GEMMA
};

impl Family {
    /// The family of a config.json.
    pub(crate) fn of_config(name: &str) -> Option<&'static Self> {
        FAMILIES.iter().find(|family| family.name == name)
    }

    /// The family of a GGUF file's architecture.
    pub(crate) fn of_gguf(architecture: &str) -> Option<&'static Self> {
        let has_it = |family: &&Self| family.gguf_names().any(|name| name == architecture);
        FAMILIES.iter().find(has_it)
    }

    fn gguf_names(&self) -> impl Iterator<Item = &'static str> {
        let names = self.gguf.filter(|_| self.text.is_none()).map_or(&[][..], |(names, _)| names);
        names.iter().copied()
    }

    /// The names of the families that files in a folder have, in words.
    pub(crate) fn known() -> String {
        in_words(FAMILIES.iter().map(|family| family.name).chain(crate::towers::FAMILIES))
    }

    /// The names of the architectures that GGUF files have, in words.
    pub(crate) fn known_gguf() -> String {
        in_words(FAMILIES.iter().flat_map(Self::gguf_names))
    }
}

/// "one, two and three"
fn in_words<'n>(names: impl Iterator<Item = &'n str>) -> String {
    let names: Vec<&str> = names.collect();
    match names.as_slice() {
        [names @ .., last] if !names.is_empty() => format!("{} and {last}", names.join(", ")),
        names => names.concat(),
    }
}
