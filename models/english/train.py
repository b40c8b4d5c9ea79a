"""Trains `english` on the texts that texts.py has written: `python train.py TEXTS.xz... --to FOLDER`.

It writes config.json, tokenizer.json and model.safetensors, as Hugging Face has them; pack.py makes english.gguf of them. There is one
exercise (grammar.py) for every five texts. One row in 24 has tokens in a random order that are told again and again: this makes
induction heads. `--rows 8 --steps 60 --most 2000` is a run of minutes on two cores; its loss falls, and it learns little.
"""

import argparse
import json
import lzma
import math
import random
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

import grammar

SEED = 20261128
VOCABULARY, CONTEXT = 4096, 256
WIDTH, LAYERS, HEADS, HIDDEN, BASE = 192, 6, 6, 512, 10_000.0
STEPS, ROWS, WARM_UP = 6088, 512, 200
RATE, DECAY = 4e-3, 0.2
END = "<|endoftext|>"  # it begins every text
SEPARATOR = "\n\x1e\n"  # between the texts of a file
IGNORED = -100  # a target that does not count


# --- Data ---


def texts_of(files):
    """The texts for training. The first two-hundredth part is held back."""
    texts = []
    for file in files:
        texts += lzma.decompress(file.read_bytes()).decode().split(SEPARATOR)
    return texts[len(texts) // 200 + 1 :]


def tokenizer_of(texts):
    """A byte-level BPE: any text has tokens."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(
        texts,
        trainers.BpeTrainer(
            vocab_size=VOCABULARY, special_tokens=[END], initial_alphabet=alphabet, show_progress=False
        ),
    )
    made.post_processor = processors.TemplateProcessing(
        single=f"{END} $A", pair=f"{END} $A {END} $B", special_tokens=[(END, 0)]
    )
    return made


def batch(stream, rows, generator):
    """Ids and targets [rows, CONTEXT]. The first rows are tokens as frequent as in texts, in a random order, told again and again
    with a period of 12 to 109; their first period is not learnt."""

    def random(below, *shape):
        return torch.randint(below, shape, generator=generator)

    offsets = torch.arange(CONTEXT + 1)
    ids = stream[random(len(stream) - CONTEXT - 1, rows, 1) + offsets]
    repeated = max(1, rows // 24)
    period = 12 + random(98, repeated, 1)
    ids[:repeated] = stream[random(len(stream), repeated, 110)].gather(1, offsets % period)
    targets = ids[:, 1:].clone()
    targets[:repeated][offsets[1:].expand(repeated, CONTEXT) < period] = IGNORED
    return ids[:, :-1], targets


# --- The model: Llama, with the names that transformers gives its tensors ---


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        inner = 0.02 / math.sqrt(2 * LAYERS)
        tensors = {"embed_tokens": torch.randn(VOCABULARY, WIDTH) * 0.02, "norm": torch.ones(WIDTH)}
        for layer in range(LAYERS):
            h = f"layers.{layer}."
            for name in "qkv":
                tensors[f"{h}self_attn.{name}_proj"] = torch.randn(WIDTH, WIDTH) * 0.02
            tensors[h + "self_attn.o_proj"] = torch.randn(WIDTH, WIDTH) * inner
            for name in ("gate", "up"):
                tensors[f"{h}mlp.{name}_proj"] = torch.randn(HIDDEN, WIDTH) * 0.02
            tensors[h + "mlp.down_proj"] = torch.randn(WIDTH, HIDDEN) * inner
            tensors[h + "input_layernorm"] = torch.ones(WIDTH)
            tensors[h + "post_attention_layernorm"] = torch.ones(WIDTH)
        self.names = list(tensors)
        self.tensors = torch.nn.ParameterList(tensors.values())
        size = WIDTH // HEADS
        angles = torch.arange(CONTEXT)[:, None] * BASE ** (-torch.arange(0, size, 2) / size)
        angles = torch.cat([angles, angles], -1)
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def named(self):
        return dict(zip(self.names, self.tensors))

    @classmethod
    def of(cls, tensors):
        """The model with the tensors of a file."""
        model = cls()
        with torch.no_grad():
            for name, tensor in model.named().items():
                tensor.copy_(tensors[f"model.{name}.weight"])
        return model

    def forward(self, ids):
        """Logits [rows, length, VOCABULARY]."""
        t = self.named()
        rows, length = ids.shape
        cos, sin = self.cos[:length], self.sin[:length]

        def norm(x, name):
            return F.rms_norm(x, (WIDTH,), t[name], 1e-5)

        def heads(x, name):
            return F.linear(x, t[name]).view(rows, length, HEADS, -1).transpose(1, 2)

        def rotated(x):
            a, b = x.chunk(2, -1)
            return x * cos.to(x.dtype) + torch.cat([-b, a], -1) * sin.to(x.dtype)

        x = t["embed_tokens"][ids]
        for layer in range(LAYERS):
            h = f"layers.{layer}."
            normed = norm(x, h + "input_layernorm")
            q, k, v = (heads(normed, f"{h}self_attn.{name}_proj") for name in "qkv")
            z = F.scaled_dot_product_attention(rotated(q), rotated(k), v, is_causal=True)
            x = x + F.linear(z.transpose(1, 2).reshape(rows, length, WIDTH), t[h + "self_attn.o_proj"])
            normed = norm(x, h + "post_attention_layernorm")
            gate, up = (F.linear(normed, t[f"{h}mlp.{name}_proj"]) for name in ("gate", "up"))
            x = x + F.linear(F.silu(gate) * up, t[h + "mlp.down_proj"])
        return F.linear(norm(x, "norm"), t["embed_tokens"])


def save(model, tokenizer, folder):
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": VOCABULARY,
        "hidden_size": WIDTH,
        "intermediate_size": HIDDEN,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": HEADS,
        "head_dim": WIDTH // HEADS,
        "max_position_embeddings": CONTEXT,
        "rms_norm_eps": 1e-5,
        "rope_theta": BASE,
        "hidden_act": "silu",
        "tie_word_embeddings": True,
        "attention_bias": False,
        "mlp_bias": False,
        "bos_token_id": 0,
        "eos_token_id": 0,
        "dtype": "bfloat16",
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    tokenizer.save(str(folder / "tokenizer.json"))
    tensors = {f"model.{name}.weight": t.detach().bfloat16().cpu() for name, t in model.named().items()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def main():
    arguments = argparse.ArgumentParser(description="Trains the model that reads English.")
    arguments.add_argument("texts", type=Path, nargs="+", help="files that texts.py has written")
    arguments.add_argument("--to", type=Path, required=True)
    arguments.add_argument("--steps", type=int, default=STEPS)
    arguments.add_argument("--rows", type=int, default=ROWS, help="the rows of 256 tokens of a step")
    arguments.add_argument("--most", type=int, help="the most texts")
    arguments = arguments.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    rng = random.Random(SEED)
    texts = texts_of(arguments.texts)[: arguments.most]
    exercises = [grammar.exercise(rng) for _ in range(len(texts) // 5)]
    tokenizer = tokenizer_of(texts[:60_000] + exercises[:6_000])
    every = texts + exercises
    rng.shuffle(every)
    ids = [np.array(e.ids, dtype=np.int64) for e in tokenizer.encode_batch(every)]
    stream = torch.from_numpy(np.concatenate(ids))
    print(f"{len(texts)} texts, {len(exercises)} exercises, {len(stream) / 1e6:.2f} M tokens", flush=True)

    torch.manual_seed(SEED)
    torch.set_float32_matmul_precision("high")
    generator = torch.Generator().manual_seed(SEED)
    model = Model().to(device)
    run = torch.compile(model) if device == "cuda" else model
    print(f"{sum(t.numel() for t in model.tensors)} parameters", flush=True)
    matrices = [t for t in model.tensors if t.dim() == 2]
    norms = [t for t in model.tensors if t.dim() == 1]
    groups = [{"params": matrices, "weight_decay": DECAY}, {"params": norms, "weight_decay": 0.0}]
    adam = torch.optim.AdamW(groups, lr=RATE, betas=(0.9, 0.95))
    warm_up, every_steps = min(WARM_UP, arguments.steps // 10 + 1), max(1, arguments.steps // 12)
    total = 0.0
    for step in range(arguments.steps):
        done = step / arguments.steps
        rate = RATE * min(1, (step + 1) / warm_up) * (1 if done < 0.3 else (1 - done) / 0.7)
        for group in adam.param_groups:
            group["lr"] = rate
        inputs, targets = (x.to(device) for x in batch(stream, arguments.rows, generator))
        with torch.autocast(device, dtype=torch.bfloat16, enabled=device == "cuda"):
            logits = run(inputs)
        loss = F.cross_entropy(logits.float().flatten(0, 1), targets.flatten(), ignore_index=IGNORED)
        adam.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        adam.step()
        total += loss.item()
        if (step + 1) % every_steps == 0:
            print(f"{step + 1:5}  loss {total / every_steps:.3f}", flush=True)
            total = 0.0
    save(model, tokenizer, arguments.to)


if __name__ == "__main__":
    main()
