"""Writes folders of tiny models with random weights, and what transformers gives for them in float64.

    pip install torch transformers
    python make.py [NAME ...]

README.md tells what the files have. A config is a file's, which transformers reads: half of them are in the form of transformers 4
and half in that of 5. The tokenizer is another folder's. A seed counts if greedy tokens and lenses do not hang on a rounding, and if the
greedy tokens are not all alike.
"""

import json
import shutil
import sys
from pathlib import Path

import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoTokenizer
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

FOLDER = Path(__file__).parent
TEXTS = ["the cat sat on the naïve mat", "tokens look at other tokens and decide what to keep"]
TOKENS, WRITTEN = 11, 12
SMALL = dict(vocab_size=360, hidden_size=20, intermediate_size=24, max_position_embeddings=64, bos_token_id=2, eos_token_id=1, pad_token_id=0)
GEMMA = SMALL | dict(num_attention_heads=4, num_key_value_heads=2, head_dim=6, query_pre_attn_scalar=11, hidden_activation="gelu_pytorch_tanh")
FULL, SLIDING = "full_attention", "sliding_attention"
YARN = dict(rope_type="yarn", rope_theta=500.0, factor=4.0, original_max_position_embeddings=16, beta_fast=4.0, beta_slow=0.5)

# By name: the folder with the tokenizer, the class, how its weights are stored, its config.json, and heads and places that change.
MODELS = {
    "tiny-gemma3_text": ("tiny-gemma2", "Gemma3ForCausalLM", {}, GEMMA | dict(
        model_type="gemma3_text", num_hidden_layers=3, layer_types=[SLIDING, FULL, SLIDING], sliding_window=4, dtype="float32",
        attn_logit_softcapping=None, final_logit_softcapping=5.0, rms_norm_eps=1e-6, tie_word_embeddings=True,
        rope_parameters={FULL: dict(rope_type="linear", factor=8.0, rope_theta=2000.0), SLIDING: dict(rope_type="default", rope_theta=30.0)},
    ), ("1.3", "0.1=0.5", "2.6")),
    "tiny-gemma3": ("tiny-gemma2", "Gemma3ForConditionalGeneration", {"dtype": torch.bfloat16}, dict(
        model_type="gemma3", torch_dtype="bfloat16", mm_tokens_per_image=1, eos_token_id=[1, 107],
        text_config=GEMMA | dict(
            model_type="gemma3_text", num_hidden_layers=3, sliding_window=3, sliding_window_pattern=2, rope_theta=900.0,
            rope_local_base_freq=50.0, rope_scaling=None, attn_logit_softcapping=7.0, final_logit_softcapping=6.0),
        vision_config=dict(model_type="siglip_vision_model", hidden_size=4, intermediate_size=4, num_hidden_layers=1,
            num_attention_heads=1, image_size=4, patch_size=4),
    ), ("2.0", "1.2=3", "1.4")),
    "tiny-smollm3": ("tiny-llama", "SmolLM3ForCausalLM", {"dtype": torch.bfloat16}, SMALL | dict(
        model_type="smollm3", num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, head_dim=6, no_rope_layers=[1, 0, 1],
        use_sliding_window=True, sliding_window=5, rope_theta=700.0, rope_scaling=None, hidden_act="silu", attention_bias=True,
        tie_word_embeddings=True, torch_dtype="bfloat16",
    ), ("1.1", "2.3=0.25", "1.5")),
    "tiny-olmo2": ("tiny-llama", "Olmo2ForCausalLM", {"max_shard_size": "20KB"}, SMALL | dict(
        model_type="olmo2", num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=6, hidden_act="silu",
        rope_theta=800.0, rope_scaling=dict(rope_type="linear", factor=2.0), rms_norm_eps=1e-5, attention_bias=True, torch_dtype="float32",
    ), ("0.2", "1.0=2", "1.7")),
    "tiny-olmo3": ("tiny-llama", "Olmo3ForCausalLM", {}, SMALL | dict(
        model_type="olmo3", num_hidden_layers=3, num_attention_heads=2, num_key_value_heads=2, hidden_act="silu", sliding_window=5,
        layer_types=[SLIDING, SLIDING, FULL], rope_parameters={FULL: YARN, SLIDING: dict(rope_type="default", rope_theta=500.0)},
        rms_norm_eps=1e-5, attention_bias=False, tie_word_embeddings=False, dtype="float32",
    ), ("2.1", "1.1=0.5", "2.8")),
    "tiny-granite": ("tiny-llama", "GraniteForCausalLM", {}, SMALL | dict(
        model_type="granite", num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=6, hidden_act="silu",
        rope_parameters=dict(rope_type="default", rope_theta=600.0), attention_bias=True, mlp_bias=True, embedding_multiplier=3.0,
        attention_multiplier=0.3, residual_multiplier=0.7, logits_scaling=1.7, tie_word_embeddings=True, dtype="float32",
    ), ("1.2", "0.0=3", "1.3")),
    "tiny-qwen3_moe": ("tiny-llama", "Qwen3MoeForCausalLM", {"dtype": torch.bfloat16, "max_shard_size": "40KB"}, SMALL | dict(
        model_type="qwen3_moe", num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, head_dim=6, hidden_act="silu",
        moe_intermediate_size=9, num_local_experts=5, num_experts_per_tok=2, mlp_only_layers=[1], decoder_sparse_step=1,
        norm_topk_prob=False, attention_bias=True, tie_word_embeddings=False, dtype="bfloat16",
        rope_parameters=dict(rope_type="default", rope_theta=900.0),
    ), ("2.1", "0.3=0.5", "2.4")),
    "tiny-gpt_oss": ("tiny-llama", "GptOssForCausalLM", {"dtype": torch.float16}, SMALL | dict(
        model_type="gpt_oss", num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, head_dim=6, sliding_window=4,
        layer_types=[SLIDING, FULL, SLIDING], num_local_experts=5, num_experts_per_tok=3, swiglu_limit=0.9, tie_word_embeddings=True,
        rope_parameters=YARN | dict(truncate=False), dtype="float16",
    ), ("1.3", "2.1=0.5", "1.6")),
    "tiny-gpt_oss-mxfp4": ("tiny-llama", "GptOssForCausalLM", {"dtype": torch.bfloat16, "mxfp4": True}, SMALL | dict(
        model_type="gpt_oss", hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=1,
        head_dim=6, sliding_window=3, num_local_experts=3, experts_per_token=2, num_experts_per_tok=2, attention_bias=True,
        rope_theta=500.0, rope_scaling=dict(YARN, truncate=False), tie_word_embeddings=False, torch_dtype="bfloat16",
        quantization_config=dict(quant_method="mxfp4", modules_to_not_convert=["model.layers.*.self_attn", "lm_head"]),
    ), ("0.2", "1.1=3", "1.5")),
}

# The numbers of 4 bits of MXFP4.
FP4 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])


def to_mxfp4(weight):
    """Blocks [experts, outputs, inputs / 32, 16] and scales of a weight [experts, inputs, outputs], and the weight that they are."""
    rows = weight.transpose(1, 2).float().unflatten(-1, (-1, 32))
    scales = (rows.abs().amax(-1) / 6).log2().ceil().int()
    numbers = (rows * torch.pow(2.0, -scales)[..., None]).unsqueeze(-1).sub(FP4).abs().argmin(-1)
    blocks = (numbers[..., 0::2] | numbers[..., 1::2] << 4).to(torch.uint8)
    stored = torch.ldexp(FP4[numbers], scales[..., None]).flatten(-2).transpose(1, 2).contiguous()
    return blocks, (scales + 127).to(torch.uint8), stored


def quantize(folder):
    """Stores the experts of a folder as MXFP4."""
    path = folder / "model.safetensors"
    tensors = load_file(path)
    for name in [name for name in tensors if name.endswith("_proj") and ".experts." in name]:
        blocks, scales, stored = to_mxfp4(tensors.pop(name))
        found = convert_moe_packed_tensors(blocks, scales, dtype=torch.float32)
        assert torch.equal(found, stored), name
        tensors |= {f"{name}_blocks": blocks, f"{name}_scales": scales}
    save_file(tensors, path, {"format": "pt"})


def dequantized(folder):
    """The experts of such a folder in single numbers, by the names that a model has them."""
    tensors = load_file(folder / "model.safetensors")
    names = [name.removesuffix("_blocks") for name in tensors if name.endswith("_blocks")]
    return {
        name: convert_moe_packed_tensors(tensors[f"{name}_blocks"], tensors[f"{name}_scales"], dtype=torch.float32).double()
        for name in names
    }


class InF64:
    """Makes transformers compute in float64 what it would compute in float32: softmax, norms, angles."""

    def __enter__(self):
        self.kept = (torch.float, torch.float32, torch.Tensor.float, torch.get_default_dtype())
        torch.float = torch.float32 = torch.float64
        torch.Tensor.float = torch.Tensor.double
        torch.set_default_dtype(torch.float64)

    def __exit__(self, *_):
        torch.float, torch.float32, torch.Tensor.float, default = self.kept
        torch.set_default_dtype(default)


def randomized(model, seed):
    """Norm weights and biases are random too, so that a forgotten one shows."""
    torch.manual_seed(seed)
    plus_one = "Gemma3" in type(model).__name__
    for name, parameter in model.named_parameters():
        drawn = torch.randn_like(parameter)
        if parameter.dim() > 1:
            parameter.data = drawn * (0.3 if "embed" in name else 1.6 * parameter.shape[-1] ** -0.5)
        else:
            parameter.data = 0.3 * drawn + (0.0 if plus_one or name.endswith("bias") else 1.0)
    return model


class Runs:
    def __init__(self, model):
        self.model = model.eval()
        base = model.model
        self.base = getattr(base, "language_model", base)
        self.module = sys.modules[type(self.base).__module__]
        self.eager = self.module.eager_attention_forward
        # Angles and factors anew, in float64.
        self.base.rotary_emb = type(self.base.rotary_emb)(self.base.config)
        if scale := getattr(self.base.embed_tokens, "scalar_embed_scale", None):
            self.base.embed_tokens.embed_scale = torch.tensor(scale)

    def run(self, ids, **change):
        """Logits, attentions, hidden states and the stream before the final norm of one run."""
        hooks, kept = [], {}
        layers = self.base.layers
        if "ablate" in change:
            layer, head = change["ablate"]
            attention = layers[layer].self_attn

            def zero(_, args):
                z = args[0].clone()
                z[..., head * attention.head_dim : (head + 1) * attention.head_dim] = 0
                return (z,)

            hooks.append(attention.o_proj.register_forward_pre_hook(zero))
        if "temper" in change:
            layer, head, temperature = change["temper"]

            def eager(module, query, *args, **kwargs):
                if module.layer_idx == layer:
                    query = query.clone()
                    query[:, head] /= temperature
                return self.eager(module, query, *args, **kwargs)

            self.module.eager_attention_forward = eager
        if "patch" in change:
            layer, position, stream = change["patch"]

            def put(_, args):
                x = args[0].clone()
                x[:, position] = stream
                return (x,) + args[1:]

            hooks.append(layers[layer].register_forward_pre_hook(put))
        for i, block in enumerate(layers):
            router = getattr(block.mlp, "router", getattr(block.mlp, "gate", None))
            if hasattr(router, "top_k"):
                keep = lambda i: lambda _, args, out: kept.update({f"{i}.weights": out[1], f"{i}.indices": out[2]})
                hooks.append(router.register_forward_hook(keep(i)))
        hooks.append(self.base.norm.register_forward_pre_hook(lambda _, args: kept.update(last=args[0])))
        with torch.no_grad():
            out = self.model(torch.tensor([ids]), output_attentions=True, output_hidden_states=True, use_cache=False)
        for hook in hooks:
            hook.remove()
        self.module.eager_attention_forward = self.eager
        return dict(
            logits=out.logits[0],
            attentions=torch.cat(out.attentions),
            hidden_states=torch.cat(out.hidden_states),
            residual_last=kept.pop("last")[0],
            **{f"experts/{name}": value for name, value in kept.items()},
        )

    def lens(self, hidden, residual_last):
        streams = torch.cat([hidden[:-1], residual_last[None]])
        with torch.no_grad():
            logits = self.model.lm_head(self.base.norm(streams))
        config = self.base.config
        logits = logits / getattr(config, "logits_scaling", 1.0)
        cap = getattr(config, "final_logit_softcapping", None)
        if cap and config is self.model.config:  # Gemma3ForConditionalGeneration leaves it out
            logits = cap * torch.tanh(logits / cap)
        return logits.sort(descending=True)

    def generate(self, ids):
        """Greedy tokens, and the least distance by which one leads."""
        written, least = [], 1.0
        for _ in range(WRITTEN):
            best = self.run(ids + written)["logits"][-1].sort(descending=True)
            least = min(least, float(best.values[0] - best.values[1]))
            written.append(int(best.indices[0]))
        return written, least


def tried(name, seed):
    """The tensors of a folder, unless the seed does not count."""
    tokens_of, architecture, stored, config, (ablated, tempered, patched) = MODELS[name]
    folder, config = FOLDER / name, {"architectures": [architecture]} | config
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    stored = dict(stored)
    made = {key: value for key, value in config.items() if key != "quantization_config"}
    made = AutoConfig.for_model(**json.loads(json.dumps(made)))
    model = randomized(getattr(transformers, architecture)(made), seed)
    mxfp4 = stored.pop("mxfp4", False)
    model.to(stored.pop("dtype", torch.float32)).save_pretrained(folder, **stored)
    if mxfp4:
        quantize(folder)
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    (folder / "generation_config.json").unlink(missing_ok=True)
    shutil.copy(FOLDER / tokens_of / "tokenizer.json", folder)
    tokenizer = AutoTokenizer.from_pretrained(FOLDER / tokens_of)
    ids, other = (tokenizer(text).input_ids[:TOKENS] for text in TEXTS)
    ways = dict(attn_implementation="eager", dtype=torch.float64)
    if getattr(made, "num_experts_per_tok", None):
        ways["experts_implementation"] = "eager"
    if mxfp4:
        made = AutoConfig.for_model(**{key: value for key, value in config.items() if key != "quantization_config"})
        tensors = load_file(folder / "model.safetensors") | dequantized(folder)
        tensors = {key: value for key, value in tensors.items() if not key.endswith(("_blocks", "_scales"))}
        model = getattr(transformers, architecture).from_pretrained(None, config=made, state_dict=tensors, **ways)
    else:
        model = getattr(transformers, architecture).from_pretrained(folder, **ways)
    with InF64():
        runs = Runs(model)
        plain = runs.run(ids)
        written, least = runs.generate(ids)
        lens = runs.lens(plain["hidden_states"], plain["residual_last"])
        numbers = lambda text: [int(x) for x in text.split(".")]
        layer, head = numbers(ablated)
        tensors = plain | {f"ablated/{ablated}/logits": runs.run(ids, ablate=(layer, head))["logits"]}
        head, temperature = tempered.split("=")
        change = runs.run(ids, temper=(*numbers(head), float(temperature)))
        tensors[f"tempered/{tempered}/logits"] = change["logits"]
        layer, position = numbers(patched)
        stream = runs.run(other)["hidden_states"][layer][position]
        tensors[f"patched/{patched}/logits"] = runs.run(ids, patch=(layer, position, stream))["logits"]
        apart = (lens.values[..., :5] - lens.values[..., 1:6]).min()
        ends = config.get("eos_token_id")
        if least < 2e-3 or apart < 1e-4 or len(set(written)) < 4 or set(written) & set(ends if isinstance(ends, list) else [ends]):
            return None
    tensors |= {"lens_logits": lens.values[..., :5]}
    whole = {key: value.tolist() for key, value in tensors.items() if key.endswith("indices")}
    tensors = {key: value.to(torch.float32).contiguous() for key, value in tensors.items()}
    whole |= {"input_ids": ids, "input_ids_b": other, "generated": written, "lens": lens.indices[..., :5].tolist()}
    tensors |= {key: torch.tensor(value) for key, value in whole.items()}
    save_file(tensors, folder / "expected.safetensors")
    notes = {
        "text": tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False),
        "tokens": tokenizer.convert_ids_to_tokens(ids),
        "generated_text": tokenizer.decode(written, clean_up_tokenization_spaces=False),
        "made_with": f"make.py, transformers {transformers.__version__}, float64 throughout, rounded to float32",
        "seed": seed,
    }
    assert tokenizer(notes["text"]).input_ids == ids, notes
    (folder / "expected.json").write_text(json.dumps(notes, indent=1, ensure_ascii=False) + "\n")
    return tensors


if __name__ == "__main__":
    transformers.logging.set_verbosity_error()
    for name in sys.argv[1:] or MODELS:
        seed = next(seed for seed in range(1, 100) if tried(name, seed))
        sizes = {path.name: path.stat().st_size for path in (FOLDER / name).iterdir()}
        print(name, "seed", seed, sizes)
