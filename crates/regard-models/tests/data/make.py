"""Writes the data of tests/rope.rs and tests/gguf.rs: tiny models with random weights, with the numbers of transformers.

    pip install torch transformers gguf
    python make.py

- rope.safetensors: the weights of a small Llama; rope.json: for each way to scale its rotary frequencies, the config and the name
  of the expected tensors in rope.expected.safetensors (`NAME/attentions` [layers, heads, n, n], `NAME/logits` [n, vocabulary]).
- NAME.gguf: a model as llama.cpp's converter writes it, half of its matrices as Q8_0 and half as F16; NAME.expected.safetensors:
  what transformers gives for the dequantized weights, in float64. Tensor names come from the maps of the package gguf; what
  the converter does to the numbers is written at `converted`.
"""

import json
import math
from pathlib import Path

import gguf
import numpy as np
import torch
from safetensors.torch import save_file
from transformers import (
    Gemma2Config,
    Gemma3TextConfig,
    GraniteConfig,
    Olmo2Config,
    Olmo3Config,
    SmolLM3Config,
    GPTNeoXConfig,
    GptOssConfig,
    LlamaConfig,
    Phi3Config,
    Qwen3Config,
    Qwen3MoeConfig,
    AutoModelForCausalLM,
)

FOLDER = Path(__file__).parent
IDS = torch.tensor([[5, 17, 3, 22, 9, 14, 1, 20, 7, 11, 2, 19]])


def model_of(config, seed):
    """A model in f32 whose numbers are all random: norms and biases too, so that a forgotten one shows."""
    torch.manual_seed(seed)
    config._attn_implementation = config._experts_implementation = "eager"
    model = AutoModelForCausalLM.from_config(config)
    for parameter in model.parameters():
        parameter.data = 0.4 * torch.randn_like(parameter) + (0.5 if parameter.dim() == 1 else 0.0)
    return model


def outputs(model, ids):
    """The attentions and logits in f64. The rotary frequencies stay as transformers computes them, in f32."""
    with torch.no_grad():
        out = model.double().eval()(ids, output_attentions=True)
    return {
        "attentions": torch.cat(out.attentions).float().contiguous(),
        "logits": out.logits[0].float().contiguous(),
    }


SMALL = dict(
    vocab_size=24,
    hidden_size=16,
    intermediate_size=16,
    num_hidden_layers=1,
    num_attention_heads=1,
    num_key_value_heads=1,
    head_dim=16,
    rms_norm_eps=1e-5,
    tie_word_embeddings=True,
)
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 8, "beta_fast": 2.0, "beta_slow": 0.2}
SCALINGS = {
    "linear": {"rope_type": "linear", "factor": 3.0},
    "linear-old": {"type": "linear", "factor": 2.5},
    "dynamic": {"rope_type": "dynamic", "factor": 2.0},
    "dynamic-short": {"rope_type": "dynamic", "factor": 2.0},
    "llama3": {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64,
    },
    "yarn": YARN,
    "yarn-mscale": YARN | {"mscale": 0.7, "mscale_all_dim": 0.4},
    "yarn-one-mscale": YARN | {"mscale": 0.7},
    "yarn-attention": YARN | {"attention_factor": 1.3},
    "yarn-whole": YARN | {"truncate": False},
}
# The number of positions in the configuration. The 12 tokens of the text exceed 8.
POSITIONS = {"dynamic": 8, "dynamic-short": 16}


def rope():
    base = model_of(LlamaConfig(**SMALL), 1)
    weights = {k: v.clone() for k, v in base.state_dict().items() if "rotary" not in k and k != "lm_head.weight"}
    save_file({k: v.half() for k, v in weights.items()}, FOLDER / "rope.safetensors")
    weights = {k: v.half().double() for k, v in weights.items()}
    configs, expected = {}, {}
    for index, (name, scaling) in enumerate(SCALINGS.items()):
        positions = POSITIONS.get(name, 32)
        new = index % 2 == 0  # half in the form of transformers 5
        fields = dict(SMALL, max_position_embeddings=positions)
        if new:
            fields["rope_parameters"] = dict(scaling, rope_theta=300.0)
        else:
            fields |= {"rope_theta": 300.0, "rope_scaling": scaling}
        configs[name] = dict(fields, model_type="llama", architectures=["LlamaForCausalLM"])
        config = LlamaConfig(**SMALL, max_position_embeddings=positions, rope_parameters=dict(scaling, rope_theta=300.0))
        model = model_of(config, 1).double()
        missing = model.load_state_dict(weights | {"lm_head.weight": weights["model.embed_tokens.weight"]}, strict=False)
        assert not missing.unexpected_keys, missing
        expected |= {f"{name}/{k}": v for k, v in outputs(model, IDS).items()}
    (FOLDER / "rope.json").write_text(json.dumps(configs, indent=1) + "\n")
    save_file(expected, FOLDER / "rope.expected.safetensors")


def converted(arch, name, tensor, config):
    """What llama.cpp's convert_hf_to_gguf.py does to a tensor of this family."""
    if arch in ("gemma2", "gemma3") and name.endswith("norm.weight"):
        return tensor + 1
    if arch in ("smollm3", "granite") and (".q_proj." in name or ".k_proj." in name):
        # Halves of a head become neighbours.
        parts = tensor.reshape(-1, 2, config.head_dim // 2, *tensor.shape[1:])
        return parts.transpose(1, 2).reshape(tensor.shape)
    if arch == "gptneox" and "query_key_value" in name:
        # [heads, 3, head size, …] becomes [3, heads, head size, …]
        heads = config.num_attention_heads
        parts = tensor.reshape(heads, 3, config.hidden_size // heads, -1)
        return parts.transpose(0, 1).reshape(tensor.shape)
    return tensor


def unconverted(arch, name, tensor, config):
    if arch in ("gemma2", "gemma3") and name.endswith("norm.weight"):
        return tensor - 1
    if arch in ("smollm3", "granite") and (".q_proj." in name or ".k_proj." in name):
        parts = tensor.reshape(-1, config.head_dim // 2, 2, *tensor.shape[1:])
        return parts.transpose(1, 2).reshape(tensor.shape)
    if arch == "gptneox" and "query_key_value" in name:
        heads = config.num_attention_heads
        parts = tensor.reshape(3, heads, config.hidden_size // heads, -1)
        return parts.transpose(0, 1).reshape(tensor.shape)
    return tensor


def experts(name, tensor):
    """The tensors that the converter makes of one with all experts: their names, and views of it."""
    if ".experts." not in name and ".sinks" not in name:
        return None
    layer = name.split(".")[2]
    named = lambda part: f"blk.{layer}.ffn_{part}_exps." + ("bias" if "_bias" in name else "weight")
    if ".sinks" in name:
        return {f"blk.{layer}.attn_sinks.weight": tensor}
    halves = tensor.chunk(2, dim=1)
    if "gpt_oss" in name:
        # [experts, inputs, outputs], the outputs of gate and up alternating
        tensor = tensor.transpose(1, 2) if tensor.dim() == 3 else tensor
        halves = tensor[:, ::2], tensor[:, 1::2]
    return dict(zip(map(named, ("gate", "up")), halves)) if "gate_up" in name else {named("down"): tensor}


def write(file, arch, config, seed, scaling=()):
    model = model_of(config, seed)
    writer = gguf.GGUFWriter(FOLDER / f"{file}.gguf", arch)
    head = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    parameters = config.rope_parameters
    if local := parameters.get("sliding_attention"):
        parameters = parameters["full_attention"]
        if local["rope_theta"] != 10_000.0 or arch != "gemma3":
            writer.add_rope_freq_base_swa(local["rope_theta"])
    writer.add_rope_freq_base(parameters["rope_theta"])
    if arch == "gptneox":
        writer.add_rope_dimension_count(int(parameters.get("partial_rotary_factor", 0.25) * head))
        writer.add_parallel_residual(config.use_parallel_residual)
        writer.add_layer_norm_eps(config.layer_norm_eps)
    else:
        writer.add_head_count_kv(config.num_key_value_heads)
        writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    if arch in ("qwen3moe", "gpt-oss"):
        writer.add_expert_count(config.num_local_experts)
        writer.add_expert_used_count(config.num_experts_per_tok)
        writer.add_expert_feed_forward_length(getattr(config, "moe_intermediate_size", config.intermediate_size))
    if arch in ("qwen3", "qwen3moe", "gemma2", "gemma3", "gpt-oss"):
        writer.add_key_length(head)
        writer.add_value_length(head)
    if arch == "gemma2":
        writer.add_attn_logit_softcapping(config.attn_logit_softcapping)
        writer.add_final_logit_softcapping(config.final_logit_softcapping)
        writer.add_sliding_window(config.sliding_window)
    if arch in ("smollm3", "granite"):
        writer.add_rope_dimension_count(head)
    if arch == "gemma3":
        writer.add_sliding_window(config.sliding_window)
        writer.add_final_logit_softcapping(config.final_logit_softcapping)
    if arch == "olmo2" and hasattr(config, "layer_types"):
        writer.add_sliding_window(config.sliding_window)
        writer.add_sliding_window_pattern([kind == "sliding_attention" for kind in config.layer_types])
    if arch == "granite":
        writer.add_attention_scale(config.attention_multiplier)
        writer.add_embedding_scale(config.embedding_multiplier)
        writer.add_residual_scale(config.residual_multiplier)
        writer.add_logit_scale(config.logits_scaling)
    if arch == "gpt-oss":
        writer.add_sliding_window(config.sliding_window)
    if arch == "phi3":
        writer.add_rope_dimension_count(int(head * parameters.get("partial_rotary_factor", 1.0)))
        writer.add_rope_scaling_orig_ctx_len(config.original_max_position_embeddings)
        writer.add_sliding_window(config.sliding_window)
    for add in scaling:
        add(writer)

    names = gguf.get_tensor_name_map({v: k for k, v in gguf.MODEL_ARCH_NAMES.items()}[arch], config.num_hidden_layers)
    state = model.state_dict()
    for index, (name, tensor) in enumerate(state.items()):
        if "rotary" in name or name.endswith("attention.bias") or (name == "lm_head.weight" and config.tie_word_embeddings):
            continue
        if parts := experts(f"{name} of {config.model_type}", tensor):
            for part, view in parts.items():
                numbers = view.float().contiguous().numpy()
                if part.endswith("weight") and "exps" in part:
                    kind = gguf.GGMLQuantizationType.MXFP4 if index % 2 else gguf.GGMLQuantizationType.Q8_0
                    blocks = gguf.quants.quantize(numbers, kind)
                    writer.add_tensor(part, blocks, raw_dtype=kind)
                    numbers = gguf.quants.dequantize(blocks, kind)
                else:
                    writer.add_tensor(part, numbers)
                view.copy_(torch.tensor(np.array(numbers)))
            continue
        numbers = converted(arch, name, tensor, config).float().numpy()
        if tensor.dim() == 1:
            writer.add_tensor(names.get_name(name, try_suffixes=(".weight", ".bias")), numbers)
            stored = numbers
        else:
            kind = gguf.GGMLQuantizationType.Q8_0 if index % 2 else gguf.GGMLQuantizationType.F16
            blocks = gguf.quants.quantize(numbers, kind)
            raw = None if kind == gguf.GGMLQuantizationType.F16 else kind
            writer.add_tensor(names.get_name(name, try_suffixes=(".weight", ".bias")), blocks, raw_dtype=raw)
            stored = gguf.quants.dequantize(blocks, kind)
        tensor.copy_(unconverted(arch, name, torch.tensor(np.array(stored)), config))
    if parameters.get("rope_type") == "longrope":
        for length in ("long", "short"):
            factors = np.array(parameters[f"{length}_factor"], dtype=np.float32)
            writer.add_tensor(f"rope_factors_{length}.weight", factors)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    expected = {f"long/{k}": v for k, v in outputs(model, IDS).items()}
    expected |= {f"short/{k}": v for k, v in outputs(model, IDS[:, :6]).items()}
    save_file(expected, FOLDER / f"{file}.expected.safetensors")


MEDIUM = dict(
    vocab_size=24,
    hidden_size=32,
    intermediate_size=32,
    num_attention_heads=2,
    max_position_embeddings=64,
    pad_token_id=0,
    bos_token_id=0,
    eos_token_id=0,
)


FLAT = dict(MEDIUM, num_attention_heads=4, num_key_value_heads=2, head_dim=8)


def files():
    grouped = dict(MEDIUM, num_key_value_heads=1)
    qwen3 = dict(grouped, num_hidden_layers=1, head_dim=32, rms_norm_eps=1e-6, tie_word_embeddings=True)
    plain = {"rope_type": "default", "rope_theta": 1000.0}
    write("qwen3", "qwen3", Qwen3Config(**qwen3, rope_parameters=plain), 2)
    yarn = {"rope_type": "yarn", "rope_theta": 1000.0, "factor": 4.0, "original_max_position_embeddings": 16}
    scaling = [
        lambda writer: writer.add_rope_scaling_type(gguf.RopeScalingType.YARN),
        lambda writer: writer.add_rope_scaling_factor(4.0),
        lambda writer: writer.add_rope_scaling_orig_ctx_len(16),
    ]
    write("qwen3-yarn", "qwen3", Qwen3Config(**qwen3, rope_parameters=yarn), 3, scaling)
    # llama.cpp scales gemma2's scores by the head size and ignores query_pre_attn_scalar, except for the model of 27 billion.
    gemma2 = Gemma2Config(
        **grouped,
        num_hidden_layers=2,
        head_dim=32,
        query_pre_attn_scalar=32,
        sliding_window=3,
        attn_logit_softcapping=4.0,
        final_logit_softcapping=6.0,
        rope_parameters=plain,
    )
    write("gemma2", "gemma2", gemma2, 4)
    moe = dict(grouped, num_hidden_layers=2, head_dim=16, rms_norm_eps=1e-5, tie_word_embeddings=False, num_local_experts=4, num_experts_per_tok=2)
    qwen3 = Qwen3MoeConfig(**moe, moe_intermediate_size=64, norm_topk_prob=True, mlp_only_layers=[], rope_parameters=plain)
    write("qwen3moe", "qwen3moe", qwen3, 8)
    gpt_oss = GptOssConfig(**moe, sliding_window=3, rope_parameters=yarn | {"truncate": False})
    write("gpt-oss", "gpt-oss", gpt_oss, 9, scaling)
    phi3 = dict(grouped, num_hidden_layers=1, rms_norm_eps=1e-5, sliding_window=5)
    config = Phi3Config(**phi3, original_max_position_embeddings=64, rope_parameters=plain)
    write("phi3", "phi3", config, 5)
    factors = lambda first: [first + 0.3 * i for i in range(8)]
    longrope = {"rope_type": "longrope", "rope_theta": 1000.0, "short_factor": factors(1.0), "long_factor": factors(1.7)}
    longrope["original_max_position_embeddings"] = 8
    config = Phi3Config(**phi3, original_max_position_embeddings=8, rope_parameters=longrope)
    grown = math.sqrt(1 + math.log(64 / 8) / math.log(8))
    scaling = [
        lambda writer: writer.add_rope_scaling_type(gguf.RopeScalingType.LONGROPE),
        lambda writer: writer.add_rope_scaling_attn_factors(grown),
    ]
    write("phi3-longrope", "phi3", config, 6, scaling)
    # llama.cpp's pattern of Gemma 3 has every 6th layer see all tokens. Its local base is in newer files alone.
    linear = [
        lambda writer: writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR),
        lambda writer: writer.add_rope_scaling_factor(8.0),
    ]
    for name, base in (("gemma3", 10_000.0), ("gemma3-swa", 50.0)):
        both = {"full_attention": dict(plain, rope_type="linear", factor=8.0), "sliding_attention": dict(plain, rope_theta=base)}
        gemma3 = Gemma3TextConfig(
            **FLAT, num_hidden_layers=6, query_pre_attn_scalar=8, sliding_window=3, final_logit_softcapping=6.0, rope_parameters=both
        )
        write(name, "gemma3", gemma3, 8, linear)
    llama = dict(FLAT, rope_parameters=plain, rms_norm_eps=1e-5, attention_bias=True)
    write("smollm3", "smollm3", SmolLM3Config(**llama, num_hidden_layers=4), 9)
    write("olmo2", "olmo2", Olmo2Config(**FLAT, num_hidden_layers=1, rope_parameters=plain, tie_word_embeddings=False), 10)
    yarn = dict(yarn, original_max_position_embeddings=8)
    types = ["sliding_attention", "full_attention"]
    olmo3 = dict(FLAT, num_hidden_layers=2, layer_types=types, sliding_window=4, rope_parameters=dict(zip(types, (plain, yarn))))
    scaling[:] = [
        lambda writer: writer.add_rope_scaling_type(gguf.RopeScalingType.YARN),
        lambda writer: writer.add_rope_scaling_factor(4.0),
        lambda writer: writer.add_rope_scaling_orig_ctx_len(8),
    ]
    write("olmo3", "olmo2", Olmo3Config(**olmo3), 11, scaling)
    granite = dict(llama, embedding_multiplier=3.0, attention_multiplier=0.4, residual_multiplier=0.6, logits_scaling=2.5)
    write("granite", "granite", GraniteConfig(**granite, num_hidden_layers=1, mlp_bias=True, tie_word_embeddings=True), 12)
    for name, parallel in (("gptneox", True), ("gptneox-serial", False)):
        neox = GPTNeoXConfig(
            **MEDIUM,
            num_hidden_layers=1,
            use_parallel_residual=parallel,
            hidden_act="gelu",
            rope_parameters=dict(plain, partial_rotary_factor=0.5),
        )
        write(name, "gptneox", neox, 7)


rope()
files()
