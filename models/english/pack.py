"""Packs a trained folder of Hugging Face into english.gguf: `python pack.py FOLDER [--to english.gguf]`.

The matrices are rounded to Q8_0: 32 integers of 8 bits and one scale of 16 bits, 8.5 bits a weight. The norms stay f32. The file holds
the tokenizer too. `--compare` prints what other formats would cost on the held-back texts.

Versions that made the file: Python 3.11, gguf 0.19.0, torch 2.15.0, tokenizers 0.23.3.
"""

import argparse
import json
from pathlib import Path

import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType as Type
from safetensors.torch import load_file
from tokenizers import Tokenizer

from train import Model

HERE = Path(__file__).parent
# The names of the tensors of a layer in a GGUF file, by those of Hugging Face.
NAMES = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def renamed(name):
    """The name of a tensor in a GGUF file."""
    name = name.removeprefix("model.").removesuffix(".weight")
    whole = {"embed_tokens": "token_embd", "norm": "output_norm"}.get(name)
    if whole is None:
        _, layer, part = name.split(".", 2)
        whole = f"blk.{layer}.{NAMES[part]}"
    return f"{whole}.weight"


def interleaved(weight, heads):
    """The rows of queries or keys in the order of GGUF: the two parts of a rotated pair are neighbours, not half a head apart."""
    rows, cols = weight.shape
    return weight.reshape(heads, 2, rows // heads // 2, cols).swapaxes(1, 2).reshape(rows, cols)


def pack(folder, to, kind=Type.Q8_0):
    config = json.loads((folder / "config.json").read_text())
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    heads, size = config["num_attention_heads"], config["head_dim"]
    writer = gguf.GGUFWriter(to, "llama")
    writer.add_name("english")
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_rope_dimension_count(size)
    writer.add_rope_freq_base(config["rope_theta"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_vocab_size(config["vocab_size"])
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    vocabulary = tokenizer["model"]["vocab"]
    tokens = sorted(vocabulary, key=vocabulary.get)
    special = {token["content"] for token in tokenizer["added_tokens"]}
    writer.add_token_list(tokens)
    writer.add_token_types([3 if token in special else 1 for token in tokens])
    writer.add_token_merges([m if isinstance(m, str) else " ".join(m) for m in tokenizer["model"]["merges"]])
    writer.add_bos_token_id(config["bos_token_id"])
    writer.add_eos_token_id(config["eos_token_id"])
    writer.add_add_bos_token(True)
    for name, tensor in sorted(load_file(folder / "model.safetensors").items()):
        weight = tensor.float().numpy()
        if weight.ndim == 1:
            writer.add_tensor(renamed(name), weight)
            continue
        if "q_proj" in name or "k_proj" in name:
            weight = interleaved(weight, heads)
        packed = gguf.quants.quantize(np.ascontiguousarray(weight), kind)
        writer.add_tensor(renamed(name), packed, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@torch.no_grad()
def compare(folder):
    """Prints what each format costs: its bits a weight, the cross-entropy of held-back texts, how far its predictions are from
    those of the trained weights (Kullback-Leibler divergence), and how often both expect the same token."""
    texts = json.loads((HERE / "held-back.json").read_text())[:100]
    rows = [e.ids[:256] for e in Tokenizer.from_file(str(folder / "tokenizer.json")).encode_batch(texts)]
    tensors = load_file(folder / "model.safetensors")
    unchanged = None
    for kind in [None, Type.Q8_0, Type.Q5_1, Type.Q5_0, Type.Q4_1, Type.Q4_0]:
        def rounded(tensor):
            if tensor.ndim == 1 or kind is None:
                return tensor.float()
            packed = gguf.quants.quantize(tensor.float().numpy(), kind)
            return torch.from_numpy(gguf.quants.dequantize(packed, kind))

        model = Model.of({name: rounded(tensor) for name, tensor in tensors.items()})
        loss, right, far, same, count, kept = 0.0, 0, 0.0, 0, 0, []
        for place, row in enumerate(rows):
            ids = torch.tensor([row])
            logs = model(ids)[0, :-1].log_softmax(-1)
            target, best = ids[0, 1:], logs.argmax(-1)
            loss -= logs.gather(1, target[:, None]).sum().item()
            right += (best == target).sum().item()
            count += len(target)
            kept.append(logs.half())
            if unchanged is not None:
                before = unchanged[place].float()
                far += (before.exp() * (before - logs)).sum().item()
                same += (before.argmax(-1) == best).sum().item()
        name = "trained (bf16)" if kind is None else kind.name
        bits = 16.0 if kind is None else 8 * gguf.GGML_QUANT_SIZES[kind][1] / gguf.GGML_QUANT_SIZES[kind][0]
        line = f"{name:15} {bits:4.1f} bits  loss {loss / count:.4f}  right {100 * right / count:.2f} %"
        if unchanged is None:
            unchanged = kept
        else:
            line += f"  divergence {far / count:.5f}  same token {100 * same / count:.2f} %"
        print(line, flush=True)


def main():
    arguments = argparse.ArgumentParser(description="Packs a trained folder into a GGUF file.")
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("--to", type=Path, default=HERE / "english.gguf")
    arguments.add_argument("--compare", action="store_true")
    arguments = arguments.parse_args()
    if arguments.compare:
        compare(arguments.folder)
    else:
        pack(arguments.folder, arguments.to)


if __name__ == "__main__":
    main()
