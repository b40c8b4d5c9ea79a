"""Trains a BERT of two layers on commands of a grammar, and writes it beside this script with 400 commands that training did not see:
`texts.txt` has a command a line, and `labels.txt` the class of each. Needs torch, transformers and tokenizers; takes three minutes.

A command names two devices and says of one of them what is to be done. "not" and "instead of" take the other one away, so that the
class depends on the order of the words.
"""
import math
import pathlib
import random

import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import BertConfig, BertForSequenceClassification

HERE = pathlib.Path(__file__).parent
DEVICES = ["lamp", "fan", "heater"]
CLASSES = [f"{device} {way}" for device in DEVICES for way in ["on", "off"]] + ["nothing"]
ROOMS = ["kitchen", "bath", "hall", "cellar", "garden", "attic"]
POLITE = ["please", "now", "well", "hello"]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
WORDS = [*DEVICES, *ROOMS, *POLITE, *"turn switch on off the in not do instead of leave as it is and but".split()]


def command(choose):
    device, other = choose.sample(DEVICES, 2)
    way, against = choose.sample(["on", "off"], 2)
    place = lambda: f"in the {choose.choice(ROOMS)}" if choose.random() < 0.4 else ""
    turn = choose.choice(["turn", "switch"])
    polite = choose.choice(POLITE) if choose.random() < 0.4 else ""
    text, label = choose.choice([
        (f"{turn} {way} the {device} {place()} not the {other}", f"{device} {way}"),
        (f"{turn} {way} the {device} {place()} instead of the {other}", f"{device} {way}"),
        (f"instead of the {other} {place()} {turn} the {device} {way}", f"{device} {way}"),
        (f"do not {turn} {against} the {other} {place()} but {turn} {way} the {device}", f"{device} {way}"),
        (f"leave the {other} {against} and {turn} the {device} {way} {place()}", f"{device} {way}"),
        (f"do not {turn} {way} the {device} {place()} leave it as it is", "nothing"),
        (f"leave the {device} {way} {place()} and the {other} {against}", "nothing"),
    ])
    return " ".join(f"{polite} {text}".split()), CLASSES.index(label)


def main():
    choose = random.Random(4)
    known = dict(command(choose) for _ in range(6000))
    held_back = {}
    while len(held_back) < 400:
        text, label = command(choose)
        if text not in known:
            held_back[text] = label

    vocabulary = {word: i for i, word in enumerate([*SPECIAL, *WORDS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    tokenizer.add_special_tokens(SPECIAL)

    def batch(texts):
        ids = [tokenizer.encode(text).ids for text in texts]
        longest = max(map(len, ids))
        padded = torch.tensor([row + [0] * (longest - len(row)) for row in ids])
        return {"input_ids": padded, "attention_mask": (padded != 0).long()}

    torch.manual_seed(1)
    config = BertConfig(
        vocab_size=len(vocabulary), hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        max_position_embeddings=24, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, pad_token_id=0, initializer_range=0.1,
        id2label=dict(enumerate(CLASSES)), label2id={name: i for i, name in enumerate(CLASSES)},
    )
    model = BertForSequenceClassification(config)
    adam = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)
    texts, steps = list(known), 2000
    for step in range(steps):
        adam.param_groups[0]["lr"] = 3e-3 * min((step + 1) / 100, 0.5 + 0.5 * math.cos(math.pi * step / steps))
        rows = choose.sample(texts, 64)
        loss = model(**batch(rows), labels=torch.tensor([known[text] for text in rows])).loss
        adam.zero_grad()
        loss.backward()
        adam.step()
        if step % 100 == 99:
            print(step + 1, loss.item(), flush=True)
    model = model.eval()
    with torch.no_grad():
        found = model(**batch(list(held_back))).logits.argmax(-1)
    print("right:", (found == torch.tensor(list(held_back.values()))).sum().item(), "of", len(held_back))
    model.save_pretrained(HERE)
    tokenizer.save(str(HERE / "tokenizer.json"))
    (HERE / "texts.txt").write_text("".join(f"{text}\n" for text in held_back))
    (HERE / "labels.txt").write_text("".join(f"{label}\n" for label in held_back.values()))


main()
