"""Trains `story` on the grammar's stories, and writes config.json, tokenizer.json and
model.safetensors beside this file.

    OMP_NUM_THREADS=1 python train.py

This script wrote the committed weights with Python 3.11, torch 2.15.0, safetensors 0.8.0 and
tokenizers 0.23.3 on one core of an x86-64 with AVX-512, in 16 minutes beside other work. The seeds are
below. Another CPU or number of threads sums in another order: its model is as good, but its bits differ.

Three kinds of rows train the model:

- stories, of which a few begin sentences with lower-case letters, and a few have an unknown word;
- a row of random words that comes again and again, from the start to the end of a stretch;
- a few groups of random words, in a random order, each group many times.

In the last two kinds only repetitions are learnt: nothing but induction predicts those words. Half of
these rows take their words from stories, because a previous-token head must also work after the
frequent words: after "gave", a story alone teaches it to attend further back.

The model grows, from easy to hard. First it has only its two lower layers, and rows are short:
where a query sees few keys, attention to the previous token stands out early, and an induction head
in the second layer builds on it within a thousand steps. Then rows become longer. Then all layers
learn whole stories, and a share of random rows keeps what was learnt.
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
SEED = 17
CONTEXT = 96
WIDTH, LAYERS, HEADS, HEAD_SIZE, HIDDEN = 64, 4, 4, 16, 160
BASE = 100.0  # the base of the rotary frequencies: the slowest rotates once in about 400 positions
# Each stage: its first step, the length of its rows, the layers that take part, the share of stories.
STAGES = [(0, 20, 2, 0.3), (700, 40, 2, 0.3), (850, 80, 2, 0.3), (1200, CONTEXT - 1, LAYERS, 0.75)]
STEPS, WARM_UP, TOKENS = 8000, 50, 2560  # TOKENS are those of a step: rows times their length
RATE, RATE_INNER = 2e-3, 0.02  # the learning rates of Adam and of Muon
VOCABULARY = grammar.vocabulary()
IDS = {word: i for i, word in enumerate(VOCABULARY)}
UNKNOWN, STORY = IDS["[UNK]"], IDS["[STORY]"]
IGNORED = -100  # a target that does not count


# --- Data ---


def story_row(rng, length):
    """A story, or a part of a longer one, and the beginning of the next if there is room."""
    ids = []
    while len(ids) <= length:
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
        ids += [STORY] + [IDS[t] for t in tokens]
    # A short row may be any part of the story: its end must also be learnt.
    start = rng.randrange(len(ids) - length) if length < CONTEXT // 2 else 0
    ids = ids[start : start + length + 1]
    return ids[:-1], [IGNORED if i == UNKNOWN else i for i in ids[1:]]


def random_words(rng, count):
    """Different words in a random order: of the whole vocabulary, or of a few stories. The latter
    has "gave", "the" and "to" far more often; after these, too, the pattern is all that counts."""
    if rng.random() < 0.5:
        return rng.sample(range(2, len(VOCABULARY)), count)
    found = set()
    while len(found) < count:
        found.update(IDS[word] for word in grammar.words(grammar.story(rng)))
    return rng.sample(sorted(found), count)


def repeated_row(rng, length):
    """A sequence of random words, repeated."""
    size = round(math.exp(rng.uniform(0, math.log(length // 2 - 1))))
    stretch = random_words(rng, size)
    ids = ([STORY] + stretch * length)[: length + 1]
    return ids[:-1], [IGNORED] * (size + 1) + ids[size + 2 :]


def grouped_row(rng, length):
    """A few groups of random words in a random order. The first word of a group is not learnt."""
    count, size = rng.randint(3, 8), rng.choice([2, 2, 3, 4])
    words = random_words(rng, count * size)
    ids, targets, seen = [STORY], [IGNORED], set()
    while len(ids) < length:
        group = rng.randrange(count)
        chosen = words[group * size : (group + 1) * size]
        ids += chosen
        targets += (chosen[1:] if group in seen else [IGNORED] * (size - 1)) + [IGNORED]
        seen.add(group)
    return ids[:length], targets[:length]


def batch(rng, length, share):
    """Ids and targets [rows, length]; `share` of the rows are stories."""
    rows = TOKENS // length
    stories = round(rows * share)
    kinds = [story_row] * stories + ([repeated_row, grouped_row] * rows)[: rows - stories]
    made = [kind(rng, length) for kind in kinds]
    return torch.tensor([ids for ids, _ in made]), torch.tensor([targets for _, targets in made])


# --- The model: Llama's, with the names that transformers gives its tensors ---


class Model(torch.nn.Module):
    """Llama's block with biases for queries and keys, as Qwen2 has them. The biases let a head
    attend by distance alone. Head 0 of layer 0 begins as a head of previous tokens: its biases are
    queries that lag one position behind the keys. It is trained like every other.

    The upper layers begin with outputs of 0: they change nothing before they learn.
    """

    def __init__(self):
        super().__init__()
        frequencies = BASE ** (-torch.arange(0, HEAD_SIZE, 2) / HEAD_SIZE)

        def random_matrix(outputs, inputs):
            return torch.randn(outputs, inputs) / math.sqrt(inputs)

        tensors = {
            "embed_tokens.weight": torch.randn(len(VOCABULARY), WIDTH) * 0.1,
            "norm.weight": torch.ones(WIDTH),
        }
        for layer in range(LAYERS):
            h = f"layers.{layer}."
            outputs = 0.0 if layer >= STAGES[0][2] else 1 / math.sqrt(2 * LAYERS)
            for part in "qkv":
                a = f"{h}self_attn.{part}_proj."
                tensors[a + "weight"] = random_matrix(HEADS * HEAD_SIZE, WIDTH)
                bias = 0.0 if part == "v" else 0.5
                tensors[a + "bias"] = torch.randn(HEADS * HEAD_SIZE) * bias
            tensors[h + "self_attn.o_proj.weight"] = (
                random_matrix(WIDTH, HEADS * HEAD_SIZE) * outputs
            )
            for part in ("gate", "up"):
                tensors[f"{h}mlp.{part}_proj.weight"] = random_matrix(HIDDEN, WIDTH)
            tensors[h + "mlp.down_proj.weight"] = random_matrix(WIDTH, HIDDEN) * outputs
            tensors[h + "input_layernorm.weight"] = torch.ones(WIDTH)
            tensors[h + "post_attention_layernorm.weight"] = torch.ones(WIDTH)

        # The score of distance Δ begins as a sum of cos(frequency · (Δ − 1)): largest at Δ = 1.
        size, zero = 3 * math.sqrt(2), torch.zeros(HEAD_SIZE // 2)
        lag = torch.cat([frequencies.cos(), -frequencies.sin()])
        first = "layers.0.self_attn."
        for part, bias in ("q", lag), ("k", torch.cat([zero + 1, zero])):
            tensors[f"{first}{part}_proj.bias"][:HEAD_SIZE] = size * bias
            tensors[f"{first}{part}_proj.weight"][:HEAD_SIZE] *= 0.3

        self.names = list(tensors)
        self.tensors = torch.nn.ParameterList(tensors.values())
        angles = torch.arange(CONTEXT)[:, None] * frequencies
        self.cos = torch.cat([angles.cos(), angles.cos()], -1)
        self.sin = torch.cat([-angles.sin(), angles.sin()], -1)

    def named(self):
        return dict(zip(self.names, self.tensors))

    def forward(self, ids, layers=LAYERS, patterns=None):
        """Logits [rows, length, vocabulary] of the model's lower layers. The weights of attention
        are appended to `patterns`."""
        t = self.named()
        rows, length = ids.shape

        def norm(x, name):
            return F.rms_norm(x, (WIDTH,), t[name + ".weight"], 1e-5)

        def linear(x, name):
            return F.linear(x, t[name + "_proj.weight"], t.get(name + "_proj.bias"))

        def heads(x, name):
            return linear(x, name).view(rows, length, HEADS, HEAD_SIZE).transpose(1, 2)

        def rotate(x):
            return x * self.cos[:length] + x.roll(HEAD_SIZE // 2, -1) * self.sin[:length]

        x = t["embed_tokens.weight"][ids]
        for layer in range(layers):
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
            found = [torch.zeros_like(m) if m.grad is None else m.grad for m in group]
            wide = [gradient if gradient.shape == shape else gradient.T for gradient in found]
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


# --- Measures that follow the training; examples/measures.rs has the final ones ---


@torch.no_grad()
def measure(model, prompts):
    """Share of right indirect objects, and the best heads of previous tokens, in the same stories,
    and of induction, in random words told twice."""
    right, previous = 0, 0.0
    for prompt in prompts:
        ids = torch.tensor([[STORY] + [IDS[t] for t in grammar.words(prompt["prompt"])]])
        patterns = []
        right += model(ids, patterns=patterns)[0, -1].argmax().item() == IDS[prompt["answer"]]
        previous += torch.cat(patterns).diagonal(-1, -2, -1).mean(2) / len(prompts)
    rng, length = random.Random(7), 30
    halves = [rng.sample(range(2, len(VOCABULARY)), length) for _ in range(16)]
    patterns = []
    model(torch.tensor([[STORY] + half + half for half in halves]), patterns=patterns)
    weights = torch.stack(patterns)  # [layers, rows, heads, queries, keys]
    induction = weights.diagonal(1 - length, -2, -1)[..., 2:].mean((1, 3))

    def best(scores):
        at = scores.argmax().item()
        return f"{at // HEADS}.{at % HEADS} {scores.max():.2f}"

    return f"right {right / len(prompts):.3f}  previous {best(previous)}  induction {best(induction)}"


# --- Files ---


def tokenizer():
    """A token for each word. Names in lower-case letters are read as names; unknown words become [UNK]."""
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
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": "qwen2",
        "bos_token_id": STORY,
        "eos_token_id": STORY,
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
        "use_sliding_window": False,
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
    rng = random.Random(SEED)
    start, total = time.monotonic(), 0.0
    for step in range(STEPS):
        _, length, layers, share = [stage for stage in STAGES if stage[0] <= step][-1]
        slower = min((step + 1) / WARM_UP, 1 - step / STEPS)
        adam.param_groups[0]["lr"] = RATE * slower
        ids, targets = batch(rng, length, share)
        logits = model(ids, layers)
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=IGNORED)
        model.zero_grad()
        loss.backward()
        adam.step()
        muon.step(RATE_INNER * slower)
        total += loss.item()
        if (step + 1) % 200 == 0:
            seconds = time.monotonic() - start
            measured = measure(model, prompts)
            print(f"{step + 1:5} {seconds:5.0f} s  loss {total / 200:.3f}  {measured}", flush=True)
            total = 0.0
    with torch.no_grad():
        for tensor in model.tensors:
            tensor.copy_(tensor.bfloat16())
    print(f"as bf16: {measure(model, prompts)}")
    save(model, arguments.to)


if __name__ == "__main__":
    main()
