//! What the tensors of each family are called in its files.

use crate::Description;

/// The names of a model's tensors. `{}` stands for the number of the layer; "" for a tensor that the family does not have.
///
/// Weights are called without `.weight` and `.bias`.
#[derive(Clone, Copy)]
pub(super) struct Names {
    /// What the names of a base model leave out: `transformer.` of GPT-2's `transformer.wte`.
    pub(super) prefix: &'static str,
    pub(super) tokens: &'static str,
    pub(super) positions: &'static str,
    pub(super) types: &'static str,
    pub(super) embedding_norm: &'static str,
    pub(super) encoder: LayerNames,
    pub(super) layer: LayerNames,
    /// The final norms of the encoder and of the stack.
    pub(super) encoder_norm: &'static str,
    pub(super) norm: &'static str,
    /// What stands before the head: a linear layer and a norm.
    pub(super) transform: (&'static str, &'static str),
    pub(super) head: &'static str,
    /// Names of the head's bias, of which a file may have one.
    pub(super) head_bias: &'static [&'static str],
    /// The linear layer before the head of a model that classifies, and that head.
    pub(super) classes: (&'static str, &'static str),
    /// Whether that head has a bias.
    pub(super) classes_bias: bool,
    /// Other names of the tokens' matrix, which a file may have beside it or in its place.
    pub(super) copies: &'static [&'static str],
    /// How the rows of files differ from those of [`super::Attention`].
    pub(super) layout: Layout,
}

/// The names of a layer's tensors.
#[derive(Clone, Copy)]
pub(super) struct LayerNames {
    pub(super) norm_1: &'static str,
    pub(super) norm_2: &'static str,
    pub(super) after_1: &'static str,
    pub(super) after_2: &'static str,
    pub(super) cross_norm: &'static str,
    pub(super) attention: AttentionNames,
    pub(super) cross: AttentionNames,
    pub(super) gate: &'static str,
    pub(super) up: &'static str,
    /// The rows of the gate, then those of `up`.
    pub(super) gate_up: &'static str,
    pub(super) down: &'static str,
    pub(super) relative: &'static str,
}

/// The names of an attention's tensors.
#[derive(Clone, Copy)]
pub(super) struct AttentionNames {
    pub(super) q: &'static str,
    pub(super) k: &'static str,
    pub(super) v: &'static str,
    /// The rows of all three.
    pub(super) qkv: &'static str,
    pub(super) out: &'static str,
    pub(super) q_norm: &'static str,
    pub(super) k_norm: &'static str,
}

/// How a family's files order the rows of weights.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Layout {
    /// \[outputs, inputs\]; fused projections are all of q, all of k, all of v.
    Rows,
    /// \[inputs, outputs\] (GPT-2's `Conv1D`).
    Columns,
    /// Fused projections are q, k and v of the first head, then of the second and so on (GPT-NeoX).
    ByHead,
    /// Rows of q and k are permuted so that neighbours turn as pairs (llama.cpp's converter).
    Neighbours,
}

const NO_ATTENTION: AttentionNames =
    AttentionNames { q: "", k: "", v: "", qkv: "", out: "", q_norm: "", k_norm: "" };

const NO_LAYER: LayerNames = LayerNames {
    norm_1: "",
    norm_2: "",
    after_1: "",
    after_2: "",
    cross_norm: "",
    attention: NO_ATTENTION,
    cross: NO_ATTENTION,
    gate: "",
    up: "",
    gate_up: "",
    down: "",
    relative: "",
};

const NOTHING: Names = Names {
    prefix: "",
    tokens: "",
    positions: "",
    types: "",
    embedding_norm: "",
    encoder: NO_LAYER,
    layer: NO_LAYER,
    encoder_norm: "",
    norm: "",
    transform: ("", ""),
    head: "",
    head_bias: &[],
    classes: ("", "score"),
    classes_bias: false,
    copies: &[],
    layout: Layout::Rows,
};

const BERT: Names = Names {
    prefix: "bert.",
    tokens: "bert.embeddings.word_embeddings",
    positions: "bert.embeddings.position_embeddings",
    types: "bert.embeddings.token_type_embeddings",
    embedding_norm: "bert.embeddings.LayerNorm",
    layer: LayerNames {
        norm_1: "bert.encoder.layer.{}.attention.output.LayerNorm",
        norm_2: "bert.encoder.layer.{}.output.LayerNorm",
        attention: AttentionNames {
            q: "bert.encoder.layer.{}.attention.self.query",
            k: "bert.encoder.layer.{}.attention.self.key",
            v: "bert.encoder.layer.{}.attention.self.value",
            out: "bert.encoder.layer.{}.attention.output.dense",
            ..NO_ATTENTION
        },
        up: "bert.encoder.layer.{}.intermediate.dense",
        down: "bert.encoder.layer.{}.output.dense",
        ..NO_LAYER
    },
    transform: ("cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm"),
    head: "cls.predictions.decoder",
    head_bias: &["cls.predictions.decoder.bias", "cls.predictions.bias"],
    classes: ("bert.pooler.dense", "classifier"),
    classes_bias: true,
    ..NOTHING
};

const ROBERTA: Names = Names {
    prefix: "roberta.",
    tokens: "roberta.embeddings.word_embeddings",
    positions: "roberta.embeddings.position_embeddings",
    types: "roberta.embeddings.token_type_embeddings",
    embedding_norm: "roberta.embeddings.LayerNorm",
    layer: LayerNames {
        norm_1: "roberta.encoder.layer.{}.attention.output.LayerNorm",
        norm_2: "roberta.encoder.layer.{}.output.LayerNorm",
        attention: AttentionNames {
            q: "roberta.encoder.layer.{}.attention.self.query",
            k: "roberta.encoder.layer.{}.attention.self.key",
            v: "roberta.encoder.layer.{}.attention.self.value",
            out: "roberta.encoder.layer.{}.attention.output.dense",
            ..NO_ATTENTION
        },
        up: "roberta.encoder.layer.{}.intermediate.dense",
        down: "roberta.encoder.layer.{}.output.dense",
        ..NO_LAYER
    },
    transform: ("lm_head.dense", "lm_head.layer_norm"),
    head: "lm_head.decoder",
    head_bias: &["lm_head.decoder.bias", "lm_head.bias"],
    classes: ("classifier.dense", "classifier.out_proj"),
    classes_bias: true,
    ..NOTHING
};

const DISTILBERT: Names = Names {
    prefix: "distilbert.",
    tokens: "distilbert.embeddings.word_embeddings",
    positions: "distilbert.embeddings.position_embeddings",
    embedding_norm: "distilbert.embeddings.LayerNorm",
    layer: LayerNames {
        norm_1: "distilbert.transformer.layer.{}.sa_layer_norm",
        norm_2: "distilbert.transformer.layer.{}.output_layer_norm",
        attention: AttentionNames {
            q: "distilbert.transformer.layer.{}.attention.q_lin",
            k: "distilbert.transformer.layer.{}.attention.k_lin",
            v: "distilbert.transformer.layer.{}.attention.v_lin",
            out: "distilbert.transformer.layer.{}.attention.out_lin",
            ..NO_ATTENTION
        },
        up: "distilbert.transformer.layer.{}.ffn.lin1",
        down: "distilbert.transformer.layer.{}.ffn.lin2",
        ..NO_LAYER
    },
    transform: ("vocab_transform", "vocab_layer_norm"),
    head: "vocab_projector",
    head_bias: &["vocab_projector.bias"],
    classes: ("pre_classifier", "classifier"),
    classes_bias: true,
    ..NOTHING
};

const GPT2: Names = Names {
    prefix: "transformer.",
    tokens: "transformer.wte",
    positions: "transformer.wpe",
    layer: LayerNames {
        norm_1: "transformer.h.{}.ln_1",
        norm_2: "transformer.h.{}.ln_2",
        attention: AttentionNames {
            qkv: "transformer.h.{}.attn.c_attn",
            out: "transformer.h.{}.attn.c_proj",
            ..NO_ATTENTION
        },
        up: "transformer.h.{}.mlp.c_fc",
        down: "transformer.h.{}.mlp.c_proj",
        ..NO_LAYER
    },
    norm: "transformer.ln_f",
    head: "lm_head",
    layout: Layout::Columns,
    ..NOTHING
};

const GPT_NEOX: Names = Names {
    prefix: "gpt_neox.",
    tokens: "gpt_neox.embed_in",
    layer: LayerNames {
        norm_1: "gpt_neox.layers.{}.input_layernorm",
        norm_2: "gpt_neox.layers.{}.post_attention_layernorm",
        attention: AttentionNames {
            qkv: "gpt_neox.layers.{}.attention.query_key_value",
            out: "gpt_neox.layers.{}.attention.dense",
            ..NO_ATTENTION
        },
        up: "gpt_neox.layers.{}.mlp.dense_h_to_4h",
        down: "gpt_neox.layers.{}.mlp.dense_4h_to_h",
        ..NO_LAYER
    },
    norm: "gpt_neox.final_layer_norm",
    head: "embed_out",
    layout: Layout::ByHead,
    ..NOTHING
};

const LLAMA: Names = Names {
    prefix: "model.",
    tokens: "model.embed_tokens",
    layer: LayerNames {
        norm_1: "model.layers.{}.input_layernorm",
        norm_2: "model.layers.{}.post_attention_layernorm",
        attention: AttentionNames {
            q: "model.layers.{}.self_attn.q_proj",
            k: "model.layers.{}.self_attn.k_proj",
            v: "model.layers.{}.self_attn.v_proj",
            qkv: "model.layers.{}.self_attn.qkv_proj",
            out: "model.layers.{}.self_attn.o_proj",
            q_norm: "model.layers.{}.self_attn.q_norm",
            k_norm: "model.layers.{}.self_attn.k_norm",
        },
        gate: "model.layers.{}.mlp.gate_proj",
        up: "model.layers.{}.mlp.up_proj",
        gate_up: "model.layers.{}.mlp.gate_up_proj",
        down: "model.layers.{}.mlp.down_proj",
        ..NO_LAYER
    },
    norm: "model.norm",
    head: "lm_head",
    ..NOTHING
};

const GEMMA2: Names = Names {
    layer: LayerNames {
        after_1: "model.layers.{}.post_attention_layernorm",
        norm_2: "model.layers.{}.pre_feedforward_layernorm",
        after_2: "model.layers.{}.post_feedforward_layernorm",
        ..LLAMA.layer
    },
    ..LLAMA
};

const T5: Names = Names {
    tokens: "shared",
    copies: &["encoder.embed_tokens", "decoder.embed_tokens"],
    encoder: LayerNames {
        norm_1: "encoder.block.{}.layer.0.layer_norm",
        norm_2: "encoder.block.{}.layer.1.layer_norm",
        attention: AttentionNames {
            q: "encoder.block.{}.layer.0.SelfAttention.q",
            k: "encoder.block.{}.layer.0.SelfAttention.k",
            v: "encoder.block.{}.layer.0.SelfAttention.v",
            out: "encoder.block.{}.layer.0.SelfAttention.o",
            ..NO_ATTENTION
        },
        gate: "encoder.block.{}.layer.1.DenseReluDense.wi_0",
        up: "encoder.block.{}.layer.1.DenseReluDense.wi",
        down: "encoder.block.{}.layer.1.DenseReluDense.wo",
        relative: "encoder.block.0.layer.0.SelfAttention.relative_attention_bias",
        ..NO_LAYER
    },
    encoder_norm: "encoder.final_layer_norm",
    layer: LayerNames {
        norm_1: "decoder.block.{}.layer.0.layer_norm",
        cross_norm: "decoder.block.{}.layer.1.layer_norm",
        norm_2: "decoder.block.{}.layer.2.layer_norm",
        attention: AttentionNames {
            q: "decoder.block.{}.layer.0.SelfAttention.q",
            k: "decoder.block.{}.layer.0.SelfAttention.k",
            v: "decoder.block.{}.layer.0.SelfAttention.v",
            out: "decoder.block.{}.layer.0.SelfAttention.o",
            ..NO_ATTENTION
        },
        cross: AttentionNames {
            q: "decoder.block.{}.layer.1.EncDecAttention.q",
            k: "decoder.block.{}.layer.1.EncDecAttention.k",
            v: "decoder.block.{}.layer.1.EncDecAttention.v",
            out: "decoder.block.{}.layer.1.EncDecAttention.o",
            ..NO_ATTENTION
        },
        gate: "decoder.block.{}.layer.2.DenseReluDense.wi_0",
        up: "decoder.block.{}.layer.2.DenseReluDense.wi",
        down: "decoder.block.{}.layer.2.DenseReluDense.wo",
        relative: "decoder.block.0.layer.0.SelfAttention.relative_attention_bias",
        ..NO_LAYER
    },
    norm: "decoder.final_layer_norm",
    head: "lm_head",
    ..NOTHING
};

/// T5 with a gated feed-forward layer: `wi_1` is multiplied by the activation of `wi_0`.
const T5_GATED: Names = Names {
    encoder: LayerNames { up: "encoder.block.{}.layer.1.DenseReluDense.wi_1", ..T5.encoder },
    layer: LayerNames { up: "decoder.block.{}.layer.2.DenseReluDense.wi_1", ..T5.layer },
    ..T5
};

const VIT: Names = Names {
    prefix: "vit.",
    tokens: "vit.embeddings.patch_embeddings.projection",
    positions: "vit.embeddings.position_embeddings",
    types: "vit.embeddings.cls_token",
    layer: LayerNames {
        norm_1: "vit.encoder.layer.{}.layernorm_before",
        norm_2: "vit.encoder.layer.{}.layernorm_after",
        attention: AttentionNames {
            q: "vit.encoder.layer.{}.attention.attention.query",
            k: "vit.encoder.layer.{}.attention.attention.key",
            v: "vit.encoder.layer.{}.attention.attention.value",
            out: "vit.encoder.layer.{}.attention.output.dense",
            ..NO_ATTENTION
        },
        up: "vit.encoder.layer.{}.intermediate.dense",
        down: "vit.encoder.layer.{}.output.dense",
        ..NO_LAYER
    },
    norm: "vit.layernorm",
    classes: ("", "classifier"),
    classes_bias: true,
    ..NOTHING
};

/// ViT as transformers 5 calls its parts, where their names are written as they are in memory.
const VIT_5: Names = Names {
    layer: LayerNames {
        norm_1: "vit.layers.{}.layernorm_before",
        norm_2: "vit.layers.{}.layernorm_after",
        attention: AttentionNames {
            q: "vit.layers.{}.attention.q_proj",
            k: "vit.layers.{}.attention.k_proj",
            v: "vit.layers.{}.attention.v_proj",
            out: "vit.layers.{}.attention.o_proj",
            ..NO_ATTENTION
        },
        up: "vit.layers.{}.mlp.fc1",
        down: "vit.layers.{}.mlp.fc2",
        ..NO_LAYER
    },
    ..VIT
};

const GGUF: Names = Names {
    tokens: "token_embd",
    positions: "position_embd",
    layer: LayerNames {
        norm_1: "blk.{}.attn_norm",
        norm_2: "blk.{}.ffn_norm",
        after_1: "blk.{}.post_attention_norm",
        after_2: "blk.{}.post_ffw_norm",
        attention: AttentionNames {
            q: "blk.{}.attn_q",
            k: "blk.{}.attn_k",
            v: "blk.{}.attn_v",
            qkv: "blk.{}.attn_qkv",
            out: "blk.{}.attn_output",
            q_norm: "blk.{}.attn_q_norm",
            k_norm: "blk.{}.attn_k_norm",
        },
        gate: "blk.{}.ffn_gate",
        up: "blk.{}.ffn_up",
        down: "blk.{}.ffn_down",
        ..NO_LAYER
    },
    norm: "output_norm",
    head: "output",
    ..NOTHING
};

/// The names of the encoder as the only stack.
const fn encoder_alone(names: &Names) -> Names {
    Names {
        layer: names.encoder,
        norm: names.encoder_norm,
        encoder: NO_LAYER,
        encoder_norm: "",
        ..*names
    }
}

/// The names in a folder of Hugging Face, or `None` if the family is not known.
pub(super) fn hugging_face(description: &Description, has: impl Fn(&str) -> bool) -> Option<Names> {
    let gated = description.stack.block.gated;
    Some(match description.family.as_str() {
        "t5" if description.encoder.is_none() => encoder_alone(if gated { &T5_GATED } else { &T5 }),
        "t5" if gated => T5_GATED,
        "t5" => T5,
        "bert" => BERT,
        "roberta" => ROBERTA,
        "distilbert" => DISTILBERT,
        "gpt2" => GPT2,
        "gpt_neox" if has("lm_head.weight") => Names { head: "lm_head", ..GPT_NEOX },
        "gpt_neox" => GPT_NEOX,
        "gemma2" => GEMMA2,
        "llama" | "mistral" | "qwen2" | "qwen3" | "phi3" => LLAMA,
        "vit" if ["vit.", ""].iter().any(|vit| has(&format!("{vit}layers.0.mlp.fc1.weight"))) => {
            VIT_5
        }
        "vit" => VIT,
        _ => return None,
    })
}

/// The names in a GGUF file of this architecture, or `None` if it is not known.
pub(super) fn gguf(architecture: &str) -> Option<Names> {
    Some(match architecture {
        "llama" => Names { layout: Layout::Neighbours, ..GGUF },
        // The rows of the gate and those of `up` are one tensor.
        "phi3" => Names { layer: LayerNames { gate_up: "blk.{}.ffn_up", ..GGUF.layer }, ..GGUF },
        "qwen2" | "qwen3" | "gemma2" | "gpt2" | "gptneox" => GGUF,
        _ => return None,
    })
}
