//! What the tensors of each family are called in its files.

use crate::Description;

/// The names of a model's tensors; "" for a tensor that the family does not have.
///
/// Weights are called without `.weight` and `.bias`.
#[derive(Clone, Copy, Default)]
pub(super) struct Names {
    /// What the names of a base model leave out: `transformer.` of GPT-2's `transformer.wte`. The names of the embeddings, of
    /// layers and of final norms come after it.
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
    /// How the rows of files differ from those of [`super::AttentionWeights`].
    pub(super) layout: Layout,
}

/// The names of a layer's tensors.
#[derive(Clone, Copy, Default)]
pub(super) struct LayerNames {
    /// What all the others begin with. `{}` stands for the number of the layer.
    pub(super) start: &'static str,
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
#[derive(Clone, Copy, Default)]
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

impl AttentionNames {
    /// Queries, keys, values and output, each in a tensor of its own.
    fn of([q, k, v, out]: [&'static str; 4]) -> Self {
        Self { q, k, v, out, ..Self::default() }
    }
}

/// How a family's files order the rows of weights.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Layout {
    /// \[outputs, inputs\]; fused projections are all of q, all of k, all of v.
    #[default]
    Rows,
    /// \[inputs, outputs\] (GPT-2's `Conv1D`).
    Columns,
    /// Fused projections are q, k and v of the first head, then of the second and so on (GPT-NeoX).
    ByHead,
    /// Rows of q and k are permuted so that neighbours turn as pairs (llama.cpp's converter).
    Neighbours,
}

fn bert() -> Names {
    let [q, k, v] = ["attention.self.query", "attention.self.key", "attention.self.value"];
    Names {
        prefix: "bert.",
        tokens: "embeddings.word_embeddings",
        positions: "embeddings.position_embeddings",
        types: "embeddings.token_type_embeddings",
        embedding_norm: "embeddings.LayerNorm",
        layer: LayerNames {
            start: "encoder.layer.{}.",
            norm_1: "attention.output.LayerNorm",
            norm_2: "output.LayerNorm",
            attention: AttentionNames::of([q, k, v, "attention.output.dense"]),
            up: "intermediate.dense",
            down: "output.dense",
            ..LayerNames::default()
        },
        transform: ("cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm"),
        head: "cls.predictions.decoder",
        head_bias: &["cls.predictions.decoder.bias", "cls.predictions.bias"],
        classes: ("bert.pooler.dense", "classifier"),
        classes_bias: true,
        ..Names::default()
    }
}

fn roberta() -> Names {
    Names {
        prefix: "roberta.",
        transform: ("lm_head.dense", "lm_head.layer_norm"),
        head: "lm_head.decoder",
        head_bias: &["lm_head.decoder.bias", "lm_head.bias"],
        classes: ("classifier.dense", "classifier.out_proj"),
        ..bert()
    }
}

fn distilbert() -> Names {
    let [q, k, v] = ["attention.q_lin", "attention.k_lin", "attention.v_lin"];
    Names {
        prefix: "distilbert.",
        layer: LayerNames {
            start: "transformer.layer.{}.",
            norm_1: "sa_layer_norm",
            norm_2: "output_layer_norm",
            attention: AttentionNames::of([q, k, v, "attention.out_lin"]),
            up: "ffn.lin1",
            down: "ffn.lin2",
            ..LayerNames::default()
        },
        transform: ("vocab_transform", "vocab_layer_norm"),
        head: "vocab_projector",
        head_bias: &["vocab_projector.bias"],
        classes: ("pre_classifier", "classifier"),
        ..bert()
    }
}

fn gpt2() -> Names {
    let (qkv, out) = ("attn.c_attn", "attn.c_proj");
    Names {
        prefix: "transformer.",
        tokens: "wte",
        positions: "wpe",
        layer: LayerNames {
            start: "h.{}.",
            norm_1: "ln_1",
            norm_2: "ln_2",
            attention: AttentionNames { qkv, out, ..AttentionNames::default() },
            up: "mlp.c_fc",
            down: "mlp.c_proj",
            ..LayerNames::default()
        },
        norm: "ln_f",
        head: "lm_head",
        classes: ("", "score"),
        layout: Layout::Columns,
        ..Names::default()
    }
}

fn gpt_neox() -> Names {
    let (qkv, out) = ("attention.query_key_value", "attention.dense");
    Names {
        prefix: "gpt_neox.",
        tokens: "embed_in",
        layer: LayerNames {
            start: "layers.{}.",
            norm_1: "input_layernorm",
            norm_2: "post_attention_layernorm",
            attention: AttentionNames { qkv, out, ..AttentionNames::default() },
            up: "mlp.dense_h_to_4h",
            down: "mlp.dense_4h_to_h",
            ..LayerNames::default()
        },
        norm: "final_layer_norm",
        head: "embed_out",
        classes: ("", "score"),
        layout: Layout::ByHead,
        ..Names::default()
    }
}

fn llama() -> Names {
    Names {
        prefix: "model.",
        tokens: "embed_tokens",
        layer: LayerNames {
            start: "layers.{}.",
            norm_1: "input_layernorm",
            norm_2: "post_attention_layernorm",
            attention: AttentionNames {
                q: "self_attn.q_proj",
                k: "self_attn.k_proj",
                v: "self_attn.v_proj",
                qkv: "self_attn.qkv_proj",
                out: "self_attn.o_proj",
                q_norm: "self_attn.q_norm",
                k_norm: "self_attn.k_norm",
            },
            gate: "mlp.gate_proj",
            up: "mlp.up_proj",
            gate_up: "mlp.gate_up_proj",
            down: "mlp.down_proj",
            ..LayerNames::default()
        },
        norm: "norm",
        head: "lm_head",
        classes: ("", "score"),
        ..Names::default()
    }
}

fn gemma2() -> Names {
    let mut names = llama();
    names.layer.after_1 = "post_attention_layernorm";
    names.layer.norm_2 = "pre_feedforward_layernorm";
    names.layer.after_2 = "post_feedforward_layernorm";
    names
}

/// Where the feed-forward layer is gated, `wi_1` is multiplied by the activation of `wi_0`.
fn t5(gated: bool) -> Names {
    let [q, k, v] = ["0.SelfAttention.q", "0.SelfAttention.k", "0.SelfAttention.v"];
    let [cross_q, cross_k] = ["1.EncDecAttention.q", "1.EncDecAttention.k"];
    let [cross_v, cross_out] = ["1.EncDecAttention.v", "1.EncDecAttention.o"];
    let encoder = LayerNames {
        start: "encoder.block.{}.layer.",
        norm_1: "0.layer_norm",
        norm_2: "1.layer_norm",
        attention: AttentionNames::of([q, k, v, "0.SelfAttention.o"]),
        gate: "1.DenseReluDense.wi_0",
        up: if gated { "1.DenseReluDense.wi_1" } else { "1.DenseReluDense.wi" },
        down: "1.DenseReluDense.wo",
        relative: "0.SelfAttention.relative_attention_bias",
        ..LayerNames::default()
    };
    Names {
        tokens: "shared",
        copies: &["encoder.embed_tokens", "decoder.embed_tokens"],
        encoder,
        encoder_norm: "encoder.final_layer_norm",
        layer: LayerNames {
            start: "decoder.block.{}.layer.",
            cross_norm: "1.layer_norm",
            cross: AttentionNames::of([cross_q, cross_k, cross_v, cross_out]),
            norm_2: "2.layer_norm",
            gate: "2.DenseReluDense.wi_0",
            up: if gated { "2.DenseReluDense.wi_1" } else { "2.DenseReluDense.wi" },
            down: "2.DenseReluDense.wo",
            ..encoder
        },
        norm: "decoder.final_layer_norm",
        head: "lm_head",
        ..Names::default()
    }
}

/// Transformers 5 calls the parts of a layer so where their names are written as they are in memory.
fn vit(transformers_5: bool) -> Names {
    let layer = if transformers_5 {
        let [q, k, v] = ["attention.q_proj", "attention.k_proj", "attention.v_proj"];
        LayerNames {
            start: "layers.{}.",
            attention: AttentionNames::of([q, k, v, "attention.o_proj"]),
            up: "mlp.fc1",
            down: "mlp.fc2",
            ..LayerNames::default()
        }
    } else {
        let [q, k] = ["attention.attention.query", "attention.attention.key"];
        let [v, out] = ["attention.attention.value", "attention.output.dense"];
        LayerNames {
            start: "encoder.layer.{}.",
            attention: AttentionNames::of([q, k, v, out]),
            up: "intermediate.dense",
            down: "output.dense",
            ..LayerNames::default()
        }
    };
    Names {
        prefix: "vit.",
        tokens: "embeddings.patch_embeddings.projection",
        positions: "embeddings.position_embeddings",
        types: "embeddings.cls_token",
        layer: LayerNames { norm_1: "layernorm_before", norm_2: "layernorm_after", ..layer },
        norm: "layernorm",
        classes: ("", "classifier"),
        classes_bias: true,
        ..Names::default()
    }
}

/// The names in a folder of Hugging Face, or `None` if the family is not known.
pub(super) fn hugging_face(description: &Description, has: impl Fn(&str) -> bool) -> Option<Names> {
    Some(match description.family.as_str() {
        "t5" => {
            let names = t5(description.stack.block.gated);
            if description.encoder.is_some() {
                return Some(names);
            }
            // The encoder is the only stack.
            Names { layer: names.encoder, norm: names.encoder_norm, ..names }
        }
        "bert" => bert(),
        "roberta" => roberta(),
        "distilbert" => distilbert(),
        "gpt2" => gpt2(),
        "gpt_neox" if has("lm_head.weight") => Names { head: "lm_head", ..gpt_neox() },
        "gpt_neox" => gpt_neox(),
        "gemma2" => gemma2(),
        "llama" | "mistral" | "qwen2" | "qwen3" | "phi3" => llama(),
        "vit" => vit(["vit.", ""].iter().any(|vit| has(&format!("{vit}layers.0.mlp.fc1.weight")))),
        _ => return None,
    })
}

/// The names in a GGUF file of this architecture, or `None` if it is not known.
pub(super) fn gguf(architecture: &str) -> Option<Names> {
    let (gate_up, layout) = match architecture {
        "llama" => ("", Layout::Neighbours),
        // The rows of the gate and those of `up` are one tensor.
        "phi3" => ("ffn_up", Layout::Rows),
        "qwen2" | "qwen3" | "gemma2" | "gpt2" | "gptneox" => ("", Layout::Rows),
        _ => return None,
    };
    Some(Names {
        tokens: "token_embd",
        positions: "position_embd",
        layer: LayerNames {
            start: "blk.{}.",
            norm_1: "attn_norm",
            norm_2: "ffn_norm",
            after_1: "post_attention_norm",
            after_2: "post_ffw_norm",
            attention: AttentionNames {
                q: "attn_q",
                k: "attn_k",
                v: "attn_v",
                qkv: "attn_qkv",
                out: "attn_output",
                q_norm: "attn_q_norm",
                k_norm: "attn_k_norm",
            },
            gate: "ffn_gate",
            up: "ffn_up",
            gate_up,
            down: "ffn_down",
            ..LayerNames::default()
        },
        norm: "output_norm",
        head: "output",
        layout,
        ..Names::default()
    })
}
