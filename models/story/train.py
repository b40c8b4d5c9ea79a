"""Trains `story` on the grammar's stories, and writes config.json, tokenizer.json and
model.safetensors beside this file.

    OMP_NUM_THREADS=1 python train.py

The committed weights are what this script wrote with Python 3.11, torch 2.15.0, safetensors 0.8.0 and
tokenizers 0.23.3 on one core of an x86-64 with AVX-512, in 6 minutes. The seeds are below. Another
CPU or number of threads sums in another order: its model is as good, but its bits differ.

Three kinds of rows train the model:

- stories, of which a few begin sentences with lower-case letters, and a few have an unknown word;
- a row of random words that comes again and again, from the start to the end of a stretch;
- a few groups of random words, in a random order, each group many times.

In the last two kinds only repetitions are learnt. They are there to teach induction, because nothing
else predicts those words; 1,000 steps are too few for that (see README.md).
"""

import argparse
import json
import math
import random
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

import grammar

HERE = Path(__file__).parent
SEED = 15
CONTEXT = 96
WIDTH, LAYERS, HEADS, HEAD_SIZE, HIDDEN = 64, 3, 4, 32, 160
BASE = 10_000.0  # of the rotary frequencies
STEPS, ROWS, WARM_UP = 1000, 20, 30
RATE, RATE_INNER = 4e-3, 0.02  # of Adam and of Muon
# The share of rows with random words, in the first steps and later.
AT_FIRST, RANDOM_AT_FIRST, RANDOM_LATER = 300, 0.4, 0.2
VOCABULARY = grammar.vocabulary()
IDS = {word: i for i, word in enumerate(VOCABULARY)}
UNKNOWN, STORY = IDS["[UNK]"], IDS["[STORY]"]
IGNORED = -100  # a target that is not learnt


# --- Data ---


def story_row(rng):
    """Ids of a story between two [STORY], and the targets."""
    tokens = grammar.words(grammar.story(rng, CONTEXT - 2))
    if rng.random() < 0.1:
        pairs = zip(["."] + tokens, tokens)
        tokens = [
            token.lower() if before in ".?" and token.lower() in IDS else token
            for before, token in pairs
        ]
    if rng.random() < 0.08:
        word = rng.choice(tokens)
        if word.isalpha():
            tokens = ["[UNK]" if t == word else t for t in tokens]
    ids = [STORY] + [IDS[t] for t in tokens] + [STORY]
    targets = [IGNORED if i == UNKNOWN else i for i in ids[1:]] + [IGNORED]
    return ids, targets


def repeated_row(rng, length):
    """A stretch of random words, again and again."""
    longest = length // 2 - 1
    size = round(math.exp(rng.uniform(math.log(3), math.log(longest))))
    stretch = rng.sample(range(2, len(VOCABULARY)), size)
    ids = ([STORY] + stretch * length)[:length]
    targets = [IGNORED] * (size + 1) + ids[size + 2 :] + [IGNORED]
    return ids, targets


def grouped_row(rng, length):
    """A few groups of random words in a random order. The first word of a group is not learnt."""
    count, size = rng.randint(3, 8), rng.choice([2, 2, 3, 4])
    words = rng.sample(range(2, len(VOCABULARY)), count * size)
    ids, targets, seen = [STORY], [IGNORED], set()
    while len(ids) < length:
        group = rng.randrange(count)
        chosen = words[group * size : (group + 1) * size]
        ids += chosen
        targets += (chosen[1:] if group in seen else [IGNORED] * (size - 1)) + [IGNORED]
        seen.add(group)
    return ids[:length], targets[:length]


def batches(rng):
    """Batches of rows of like lengths, without an end: ids and targets [rows, length]."""
    step = 0
    while True:
        share = RANDOM_AT_FIRST if step < AT_FIRST else RANDOM_LATER
        stories = round(ROWS * (1 - share))
        pool = sorted((story_row(rng) for _ in range(16 * stories)), key=lambda row: len(row[0]))
        groups = [pool[i : i + stories] for i in range(0, len(pool), stories)]
        rng.shuffle(groups)
        for rows in groups:
            length = max(len(ids) for ids, _ in rows)
            kinds = [repeated_row, grouped_row] * ROWS
            rows = rows + [kind(rng, length) for kind in kinds[: ROWS - stories]]
            ids = [ids + [STORY] * (length - len(ids)) for ids, _ in rows]
            targets = [targets + [IGNORED] * (length - len(targets)) for _, targets in rows]
            yield torch.tensor(ids), torch.tensor(targets)
            step += 1


# --- The model: Llama's, with the names that transformers gives its tensors ---


class Model(torch.nn.Module):
    """Two things are prepared, so that minutes of training are enough. Every head begins with an
    output that resembles the token which it attends to. And head 0 of layer 0 begins as a head of
    previous tokens: all embeddings share a direction, of which it makes queries that lag one
    position behind the keys. It is held fixed for the first AT_FIRST steps and trained afterwards.
    """

    def __init__(self):
        super().__init__()
        frequencies = BASE ** (-torch.arange(0, HEAD_SIZE, 2) / HEAD_SIZE)
        shared = torch.randn(WIDTH)
        tensors = {
            "embed_tokens.weight": (torch.randn(len(VOCABULARY), WIDTH) + shared) * 0.12,
            "norm.weight": torch.ones(WIDTH),
        }

        def random_matrix(outputs, inputs):
            return torch.randn(outputs, inputs) / math.sqrt(inputs)

        for layer in range(LAYERS):
            h = f"layers.{layer}."
            q, k, v = (random_matrix(HEADS * HEAD_SIZE, WIDTH) for _ in range(3))
            if layer == 0:
                direction, angles = shared / shared.norm(), frequencies[:8, None]
                q[:HEAD_SIZE], k[:HEAD_SIZE] = 0.0, 0.0
                q[:8] = 1.5 * angles.cos() * direction
                q[HEAD_SIZE // 2 :][:8] = -1.5 * angles.sin() * direction
                k[:8] = 1.5 * direction
            tensors[h + "self_attn.q_proj.weight"] = q
            tensors[h + "self_attn.k_proj.weight"] = k
            tensors[h + "self_attn.v_proj.weight"] = v
            tensors[h + "self_attn.o_proj.weight"] = 0.15 * v.T.contiguous()
            for part in ("gate", "up"):
                tensors[f"{h}mlp.{part}_proj.weight"] = random_matrix(HIDDEN, WIDTH)
            down = random_matrix(WIDTH, HIDDEN) / math.sqrt(2 * LAYERS)
            tensors[h + "mlp.down_proj.weight"] = down
            tensors[h + "input_layernorm.weight"] = torch.ones(WIDTH)
            tensors[h + "post_attention_layernorm.weight"] = torch.ones(WIDTH)
        self.names = list(tensors)
        self.tensors = torch.nn.ParameterList(tensors.values())
        angles = torch.arange(CONTEXT)[:, None] * frequencies
        self.cos = torch.cat([angles.cos(), angles.cos()], -1)
        self.sin = torch.cat([-angles.sin(), angles.sin()], -1)

        self.prepared = {
            name: tensor[:HEAD_SIZE].clone()
            for name, tensor in tensors.items()
            if name in ("layers.0.self_attn.q_proj.weight", "layers.0.self_attn.k_proj.weight")
        }

    @torch.no_grad()
    def keep_prepared(self):
        """Undoes what a step has changed in the prepared head."""
        for name, tensor in self.prepared.items():
            self.named()[name][:HEAD_SIZE] = tensor

    def named(self):
        return dict(zip(self.names, self.tensors))

    def forward(self, ids, patterns=None):
        """Logits [rows, length, vocabulary]; the weights of attention are appended to `patterns`."""
        t = self.named()
        rows, length = ids.shape

        def norm(x, name):
            return F.rms_norm(x, (WIDTH,), t[name + ".weight"], 1e-5)

        def linear(x, name):
            return F.linear(x, t[name + "_proj.weight"])

        def heads(x, name):
            return linear(x, name).view(rows, length, HEADS, HEAD_SIZE).transpose(1, 2)

        def rotate(x):
            return x * self.cos[:length] + x.roll(HEAD_SIZE // 2, -1) * self.sin[:length]

        x = t["embed_tokens.weight"][ids]
        for layer in range(LAYERS):
            h = f"layers.{layer}."
            normed = norm(x, h + "input_layernorm")
            q, k, v = (heads(normed, f"{h}self_attn.{part}") for part in "qkv")
            q, k = rotate(q), rotate(k)
            if patterns is not None:
                scores = q @ k.transpose(-1, -2) / math.sqrt(HEAD_SIZE)
                later = torch.ones(length, length, dtype=torch.bool).triu(1)
                patterns.append(scores.masked_fill(later, -math.inf).softmax(-1))
            z = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + linear(z.transpose(1, 2).reshape(rows, length, -1), h + "self_attn.o")
            normed = norm(x, h + "post_attention_layernorm")
            gate, up = linear(normed, h + "mlp.gate"), linear(normed, h + "mlp.up")
            x = x + linear(F.silu(gate) * up, h + "mlp.down")
        return norm(x, "norm") @ t["embed_tokens.weight"].T


class Muon:
    """The optimizer of Jordan et al. 2024 for the matrices inside the layers: each update is the
    orthogonal matrix nearest to the gradient's moving average. It needs fewer steps than Adam.
    Unlike torch.optim.Muon it computes in f32, and all matrices of a shape at once.
    """

    def __init__(self, matrices):
        self.groups = {}
        for matrix in matrices:
            self.groups.setdefault(tuple(sorted(matrix.shape)), []).append(matrix)
        self.averages = {
            shape: torch.zeros(len(group), *shape) for shape, group in self.groups.items()
        }

    @torch.no_grad()
    def step(self, rate):
        for shape, group in self.groups.items():
            wide = [matrix.grad if matrix.shape == shape else matrix.grad.T for matrix in group]
            gradients, average = torch.stack(wide), self.averages[shape]
            average.mul_(0.95).add_(gradients)
            x = gradients + 0.95 * average
            x /= x.norm(dim=(1, 2), keepdim=True) + 1e-7
            for _ in range(5):  # Newton-Schulz: all singular values approach 1
                square = x @ x.mT
                x = 3.4445 * x + (-4.775 * square + 2.0315 * square @ square) @ x
            for matrix, update in zip(group, x):
                update = update if matrix.shape == shape else update.T
                scale = max(1, matrix.shape[0] / matrix.shape[1]) ** 0.5
                matrix.mul_(1 - 0.01 * rate).sub_(update, alpha=rate * scale)


# --- Measures, to follow the training; tests/tests/story.rs measures what counts ---


@torch.no_grad()
def measure(model, prompts):
    """Share of right indirect objects, and the best heads of previous tokens and of induction."""
    right = 0
    for prompt in prompts:
        ids = torch.tensor([[STORY] + [IDS[t] for t in grammar.words(prompt["prompt"])]])
        right += model(ids)[0, -1].argmax().item() == IDS[prompt["answer"]]
    rng, length = random.Random(7), 30
    halves = [rng.sample(range(2, len(VOCABULARY)), length) for _ in range(16)]
    patterns = []
    model(torch.tensor([[STORY] + half + half for half in halves]), patterns)
    weights = torch.stack(patterns)  # [layers, rows, heads, queries, keys]
    previous = weights.diagonal(-1, -2, -1).mean((1, 3))
    induction = weights.diagonal(1 - length, -2, -1)[..., 2:].mean((1, 3))

    def best(scores):
        at = scores.argmax().item()
        return f"{at // HEADS}.{at % HEADS} {scores.max():.2f}"

    return f"right {right / len(prompts):.3f}  previous {best(previous)}  induction {best(induction)}"


# --- Files ---


def tokenizer():
    """A token a word. Names in lower-case letters are read as names; other words become [UNK]."""
    made = Tokenizer(models.WordLevel(IDS, unk_token="[UNK]"))
    names = sorted(name for group in grammar.NAMES for name in group)
    made.normalizer = normalizers.Sequence(
        [normalizers.Replace(Regex(rf"\b{name.lower()}\b"), name) for name in names]
    )
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.post_processor = processors.TemplateProcessing(
        single="[STORY] $A", special_tokens=[("[STORY]", STORY)]
    )
    made.decoder = decoders.WordPiece(prefix="##", cleanup=True)
    made.add_special_tokens(["[UNK]", "[STORY]"])
    text = grammar.story(random.Random(1))
    assert made.encode(text).ids == [STORY] + [IDS[t] for t in grammar.words(text)]
    assert made.decode(made.encode(text).ids) == text
    return made


def save(model, folder):
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "attention_bias": False,
        "mlp_bias": False,
        "bos_token_id": STORY,
        "eos_token_id": STORY,
        "head_dim": HEAD_SIZE,
        "hidden_act": "silu",
        "hidden_size": WIDTH,
        "intermediate_size": HIDDEN,
        "max_position_embeddings": CONTEXT,
        "num_attention_heads": HEADS,
        "num_hidden_layers": LAYERS,
        "num_key_value_heads": HEADS,
        "rms_norm_eps": 1e-5,
        "rope_theta": BASE,
        "tie_word_embeddings": True,
        "dtype": "bfloat16",
        "vocab_size": len(VOCABULARY),
    }
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    tokenizer().save(str(folder / "tokenizer.json"))
    tensors = {
        f"model.{name}": tensor.detach().bfloat16().contiguous() for name, tensor in model.named().items()
    }
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def main():
    global STEPS
    arguments = argparse.ArgumentParser(description="Trains the story model.")
    arguments.add_argument("--steps", type=int, default=STEPS)
    arguments.add_argument("--to", type=Path, default=HERE)
    arguments = arguments.parse_args()
    STEPS = arguments.steps
    lines = (HERE / "held-back.jsonl").read_text().splitlines()
    prompts = [json.loads(line) for line in lines]

    torch.manual_seed(SEED)
    torch.use_deterministic_algorithms(True)
    model = Model()
    print(f"{sum(t.numel() for t in model.tensors)} parameters, {len(VOCABULARY)} words")
    named = model.named()
    others = [t for name, t in named.items() if t.dim() == 1 or "layers." not in name]
    muon = Muon([t for name, t in named.items() if t.dim() == 2 and "layers." in name])
    adam = torch.optim.AdamW(others, lr=RATE, betas=(0.9, 0.98), weight_decay=0.0)
    rows = batches(random.Random(SEED))
    start, total = time.monotonic(), 0.0
    for step in range(STEPS):
        done = step / STEPS
        share = min((step + 1) / WARM_UP, 0.5 * (1 + math.cos(math.pi * done)))
        adam.param_groups[0]["lr"] = RATE * share
        ids, targets = next(rows)
        loss = F.cross_entropy(model(ids).flatten(0, 1), targets.flatten(), ignore_index=IGNORED)
        model.zero_grad()
        loss.backward()
        adam.step()
        muon.step(RATE_INNER * share)
        if step < AT_FIRST:
            model.keep_prepared()
        total += loss.item()
        if (step + 1) % 100 == 0 or step + 1 == STEPS:
            seconds = time.monotonic() - start
            measured = measure(model, prompts[:: 1 if step + 1 == STEPS else 4])
            print(f"{step + 1:5} {seconds:5.0f} s  loss {total / 100:.3f}  {measured}", flush=True)
            total = 0.0
    with torch.no_grad():
        for tensor in model.tensors:
            tensor.copy_(tensor.bfloat16())
    print(f"as bf16: {measure(model, prompts)}")
    save(model, arguments.to)


if __name__ == "__main__":
    main()
