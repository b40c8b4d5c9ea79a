"""Writes the data of tests/rope.rs: a tiny model with random weights, with the numbers of transformers.

    pip install torch transformers
    python make.py

rope.safetensors has the weights of a small Llama; rope.json has, for each way to scale its rotary frequencies, the config and the name
of the expected tensors in rope.expected.safetensors (`NAME/attentions` [layers, heads, n, n], `NAME/logits` [n, vocabulary]).
"""

import json
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, LlamaConfig

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


rope()
