"""Trains `command` on the grammar's texts, and writes config.json, tokenizer.json and
model.safetensors beside this file, as transformers saves any model.

    OMP_NUM_THREADS=1 python train.py

The committed weights are what this script wrote with the versions and in the time that README.md
names. The seeds are below. Another CPU or number of threads sums in another order: its model is as
good, but its bits differ.
"""

import argparse
import json
import random
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import LlamaConfig, LlamaForSequenceClassification, PreTrainedTokenizerFast

import grammar

HERE = Path(__file__).parent
SEED = 17
CONTEXT = 32
STEPS, WARM_UP, ROWS, RATE = 800, 50, 256, 4e-3
UNKNOWN = 0.03  # the share of words that the tokenizer does not know


def tokenizer():
    """A token a word or mark, in lower-case letters, after [HOUSE]; other words become [UNK]."""
    ids = {word: i for i, word in enumerate(grammar.vocabulary())}
    made = Tokenizer(models.WordLevel(ids, unk_token="[UNK]"))
    made.normalizer = normalizers.Lowercase()
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.post_processor = processors.TemplateProcessing(
        single="[HOUSE] $A", special_tokens=[("[HOUSE]", ids["[HOUSE]"])]
    )
    return PreTrainedTokenizerFast(tokenizer_object=made, unk_token="[UNK]", pad_token="[PAD]")


def config(vocabulary):
    return LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=CONTEXT,
        rms_norm_eps=1e-5,
        rope_theta=100.0,
        pad_token_id=0,
        bos_token_id=2,
        eos_token_id=None,
        id2label=dict(enumerate(grammar.LABELS)),
        label2id={label: i for i, label in enumerate(grammar.LABELS)},
    )


def batch(rng, words):
    """Texts of the grammar as ids \\[rows, tokens\\], padded on the right, and their labels."""
    rows, labels = [], []
    for _ in range(ROWS):
        said, label = grammar.text(rng)
        known = [words.get(word, 1) for word in grammar.words(said)]
        rows.append([2] + [1 if rng.random() < UNKNOWN else i for i in known])
        labels.append(grammar.LABELS.index(label))
    longest = max(map(len, rows))
    return torch.tensor([row + [0] * (longest - len(row)) for row in rows]), torch.tensor(labels)


@torch.no_grad()
def right(model, tokenizer, texts):
    """The share of texts whose label is the model's."""
    ids = tokenizer([line["text"] for line in texts], padding=True, return_tensors="pt").input_ids
    labels = torch.tensor([grammar.LABELS.index(line["label"]) for line in texts])
    return (model(ids).logits.argmax(-1) == labels).float().mean().item()


@torch.no_grad()
def expected(model, tokenizer):
    """What transformers gives for a few texts, in f64: the tests compare it."""
    texts = ["turn on the lamp, not the radio", "turn on the radio, not the lamp", "Könntest du… stop the MUSIC?", ""]
    rows = [tokenizer(text).input_ids for text in texts]
    logits = [model.double()(torch.tensor([ids])).logits[0].tolist() for ids in rows]
    return [{"text": text, "ids": ids, "logits": row} for text, ids, row in zip(texts, rows, logits)]


def bag_of_words(texts, words, steps=1000):
    """What a model that does not see the order of words gets right: the sum of a vector a word."""
    rng = random.Random(SEED)
    table = torch.nn.EmbeddingBag(len(words), len(grammar.LABELS), mode="sum", padding_idx=0)
    adam = torch.optim.Adam(table.parameters(), lr=0.05)
    for _ in range(steps):
        ids, labels = batch(rng, words)
        loss = F.cross_entropy(table(ids), labels)
        adam.zero_grad()
        loss.backward()
        adam.step()
    ids = [torch.tensor([2] + [words.get(word, 1) for word in grammar.words(line["text"])]) for line in texts]
    found = [table(i[None]).argmax().item() for i in ids]
    return sum(grammar.LABELS[i] == line["label"] for i, line in zip(found, texts)) / len(texts)


def main():
    arguments = argparse.ArgumentParser(description="Trains the command model.")
    arguments.add_argument("--steps", type=int, default=STEPS)
    arguments.add_argument("--to", type=Path, default=HERE)
    arguments.add_argument("--bag", action="store_true", help="measures a bag of words, and trains nothing else")
    arguments = arguments.parse_args()
    texts = [json.loads(line) for line in (HERE / "held-back.jsonl").read_text().splitlines()]
    torch.manual_seed(SEED)
    torch.use_deterministic_algorithms(True)
    tokens = tokenizer()
    words = tokens.get_vocab()
    if arguments.bag:
        print(f"a bag of words: {bag_of_words(texts, words):.3f} right")
        return
    model = LlamaForSequenceClassification(config(len(words)))
    print(f"{model.num_parameters()} parameters, {len(words)} words")

    adam = torch.optim.AdamW(model.parameters(), lr=RATE, betas=(0.9, 0.98), weight_decay=0.05)
    rng, start, total = random.Random(SEED), time.monotonic(), 0.0
    for step in range(arguments.steps):
        adam.param_groups[0]["lr"] = RATE * min((step + 1) / WARM_UP, 1 - step / arguments.steps)
        ids, labels = batch(rng, words)
        loss = model(ids, labels=labels).loss
        model.zero_grad()
        loss.backward()
        adam.step()
        total += loss.item()
        if (step + 1) % 200 == 0:
            seconds = time.monotonic() - start
            print(f"{step + 1:5} {seconds:5.0f} s  loss {total / 200:.4f}  right {right(model, tokens, texts):.3f}", flush=True)
            total = 0.0
    # Weights of 16 bits take half the flash.
    model = model.bfloat16().eval()
    model.save_pretrained(arguments.to)
    tokens.save_pretrained(arguments.to)
    print(f"as bf16: right {right(model.float(), tokens, texts):.3f}")
    lines = ",\n".join(json.dumps(line) for line in expected(model, tokens))
    (arguments.to / "expected.json").write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
