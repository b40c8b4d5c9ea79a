"""Writes folders of tiny models of families that make.py's changes do not reach into, and what transformers gives for them in float64.

    pip install torch transformers
    python more.py [NAME ...]

A folder has what those of make.py have, without changed runs and the lens: logits, attentions, hidden states and greedy tokens.
"""

import json
import shutil
import sys
from pathlib import Path

import torch
import transformers
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from make import InF64

FOLDER = Path(__file__).parent
TEXT, OTHER = "the cat sat on the naïve mat", "tokens look at other tokens and decide what to keep"
TOKENS, WRITTEN = 11, 8
IDS = dict(bos_token_id=2, eos_token_id=1, pad_token_id=0)
SMALL = IDS | dict(vocab_size=360, hidden_size=24, intermediate_size=28, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=64)
GPT = IDS | dict(vocab_size=360, n_embd=24, n_layer=2, n_head=4, n_positions=64, n_inner=None)
GROUPED = SMALL | dict(num_key_value_heads=2)
MIXTURE = GROUPED | dict(num_hidden_layers=3, num_local_experts=4, num_experts_per_tok=2, intermediate_size=10)

# The class, its config.json, and the type of the weights, if it is not float32.
MODELS = {
    "tiny-gpt_neo": ("GPTNeoForCausalLM", IDS | dict(
        model_type="gpt_neo", vocab_size=360, hidden_size=24, num_layers=4, num_heads=4, max_position_embeddings=64, window_size=4,
        attention_types=[[["global", "local"], 2]], activation_function="gelu_new", intermediate_size=None)),
    "tiny-opt": ("OPTForCausalLM", IDS | dict(
        model_type="opt", vocab_size=360, hidden_size=24, ffn_dim=28, num_hidden_layers=2, num_attention_heads=4, word_embed_proj_dim=24,
        max_position_embeddings=64, do_layer_norm_before=True, activation_function="relu"), torch.float16),
    "tiny-gemma": ("GemmaForCausalLM", GROUPED | dict(model_type="gemma", head_dim=10, hidden_act="gelu", hidden_activation=None, rope_theta=700.0), torch.bfloat16),
    "tiny-gptj": ("GPTJForCausalLM", GPT | dict(model_type="gptj", rotary_dim=4, activation_function="gelu_new", tie_word_embeddings=False)),
    "tiny-phi": ("PhiForCausalLM", GROUPED | dict(
        hidden_size=32, model_type="phi", partial_rotary_factor=0.5, hidden_act="gelu_new", rope_theta=600.0, qk_layernorm=False), torch.float16),
    "tiny-olmo": ("OlmoForCausalLM", GROUPED | dict(model_type="olmo", hidden_act="silu", clip_qkv=0.8, tie_word_embeddings=True)),
    "tiny-olmoe": ("OlmoeForCausalLM", MIXTURE | dict(
        model_type="olmoe", num_experts=4, hidden_act="silu", norm_topk_prob=False, rope_parameters=dict(rope_type="default", rope_theta=900.0)), torch.bfloat16),
    "tiny-mixtral": ("MixtralForCausalLM", MIXTURE | dict(model_type="mixtral", hidden_act="silu", sliding_window=None, rope_theta=900.0), torch.bfloat16),
    "tiny-stablelm": ("StableLmForCausalLM", GROUPED | dict(
        hidden_size=32, model_type="stablelm", hidden_act="silu", use_qkv_bias=True, partial_rotary_factor=0.5, rope_theta=500.0, use_parallel_residual=False)),
    "tiny-gpt_bigcode": ("GPTBigCodeForCausalLM", GPT | dict(model_type="gpt_bigcode", multi_query=True, activation_function="gelu_pytorch_tanh")),
    "tiny-bloom": ("BloomForCausalLM", IDS | dict(model_type="bloom", vocab_size=360, hidden_size=24, n_layer=2, n_head=6)),
    "tiny-falcon": ("FalconForCausalLM", IDS | dict(
        model_type="falcon", vocab_size=360, hidden_size=24, num_hidden_layers=2, num_attention_heads=4, multi_query=True, parallel_attn=True,
        new_decoder_architecture=False, bias=False, alibi=False, max_position_embeddings=64), torch.bfloat16),
    "tiny-falcon-40b": ("FalconForCausalLM", IDS | dict(
        model_type="falcon", vocab_size=360, hidden_size=24, num_hidden_layers=2, num_attention_heads=4, num_kv_heads=2, multi_query=False,
        parallel_attn=True, new_decoder_architecture=True, bias=False, alibi=False, max_position_embeddings=64)),
    "tiny-mpt": ("MptForCausalLM", IDS | dict(
        model_type="mpt", vocab_size=360, d_model=24, n_layers=2, n_heads=6, max_seq_len=64, no_bias=True)),
    "tiny-starcoder2": ("Starcoder2ForCausalLM", GROUPED | dict(
        model_type="starcoder2", hidden_act="gelu_pytorch_tanh", use_bias=True, sliding_window=4, rope_theta=400.0)),
}


def randomized(model, seed):
    """Norm weights and biases are random too, so that a forgotten one shows."""
    torch.manual_seed(seed)
    plus_one = type(model).__name__ == "GemmaForCausalLM"
    for name, parameter in model.named_parameters():
        drawn = torch.randn_like(parameter)
        if parameter.dim() > 1:
            embedding = "embed" in name or "wte" in name or "wpe" in name
            parameter.data = drawn * (0.3 if embedding else 1.6 * parameter.shape[-1] ** -0.5)
        else:
            parameter.data = 0.3 * drawn + (0.0 if plus_one or name.endswith("bias") else 1.0)
    return model


def tried(name, seed):
    """Writes the folder, unless greedy tokens hang on a rounding or are all alike."""
    architecture, config, *kind = MODELS[name]
    folder, config = FOLDER / name, {"architectures": [architecture]} | config
    shutil.rmtree(folder, ignore_errors=True)
    made = AutoConfig.for_model(**json.loads(json.dumps(config)))
    model = randomized(getattr(transformers, architecture)(made), seed)
    model.to(kind[0] if kind else torch.float32).save_pretrained(folder)
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    (folder / "generation_config.json").unlink(missing_ok=True)
    shutil.copy(FOLDER / "tiny-llama/tokenizer.json", folder)
    tokenizer = AutoTokenizer.from_pretrained(FOLDER / "tiny-llama")
    ids, other = (tokenizer(text).input_ids[:TOKENS] for text in (TEXT, OTHER))
    ways = dict(attn_implementation="eager", dtype=torch.float64)
    if getattr(made, "num_experts_per_tok", None):
        ways["experts_implementation"] = "eager"
    model = AutoModelForCausalLM.from_pretrained(folder, **ways).eval()
    with InF64():
        for module in model.modules():  # angles anew, in float64
            for part, rotary in list(module.named_children()):
                if "Rotary" in type(rotary).__name__:
                    setattr(module, part, type(rotary)(model.config))
        run = lambda ids: model(torch.tensor([ids]), output_attentions=True, output_hidden_states=True, use_cache=False)
        with torch.no_grad():
            out = run(ids)
            written, least = [], 1.0
            for _ in range(WRITTEN):
                best = run(ids + written).logits[0, -1].sort(descending=True)
                least = min(least, float(best.values[0] - best.values[1]))
                written.append(int(best.indices[0]))
    if least < 2e-3 or len(set(written)) < 3 or config["eos_token_id"] in written:
        return None
    tensors = dict(logits=out.logits[0], attentions=torch.cat(out.attentions), hidden_states=torch.cat(out.hidden_states))
    tensors = {key: value.to(torch.float32).contiguous() for key, value in tensors.items()}
    tensors |= {key: torch.tensor(value) for key, value in {"input_ids": ids, "input_ids_b": other, "generated": written}.items()}
    save_file(tensors, folder / "expected.safetensors")
    notes = {
        "text": tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False),
        "tokens": tokenizer.convert_ids_to_tokens(ids),
        "generated_text": tokenizer.decode(written, clean_up_tokenization_spaces=False),
        "made_with": f"more.py, transformers {transformers.__version__}, float64 throughout, rounded to float32",
        "seed": seed,
    }
    (folder / "expected.json").write_text(json.dumps(notes, indent=1, ensure_ascii=False) + "\n")
    return tensors


transformers.logging.set_verbosity_error()
for name in sys.argv[1:] or MODELS:
    seed = next(seed for seed in range(1, 100) if tried(name, seed))
    print(name, "seed", seed, {path.name: path.stat().st_size for path in (FOLDER / name).iterdir()})
