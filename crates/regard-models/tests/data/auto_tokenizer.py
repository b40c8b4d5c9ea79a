"""Writes auto_tokenizer.json: the ids that transformers' AutoTokenizer gives for the tokenizers of golden models with other settings
beside their tokenizer.json, with another post-processor in it, or with vocab.txt, or vocab.json and merges.txt, in its place; and those of a qwen.tiktoken.

    python auto_tokenizer.py
"""

import json
import tempfile
import unicodedata
from base64 import b64encode
from pathlib import Path

import tiktoken
from transformers import AutoTokenizer
from transformers.convert_slow_tokenizer import bytes_to_unicode

HERE = Path(__file__).resolve().parent
GOLDEN = HERE.parents[3] / "tests" / "golden" / "models"
TEXTS = ["The Cat sat", " the  cat", "Café <new>the [X]cat", "注the<pad2>"]


def added(content, **flags):
    flags = {"lstrip": False, "rstrip": False, "normalized": False, "single_word": False, "special": True} | flags
    return {"content": content} | flags


def config(**settings):
    return {"tokenizer_config.json": settings}


# Settings that any tokenizer has.
OF_ALL = [
    {},
    config(pad_token="<pad2>", extra_special_tokens=["<new>", "[X]"]),
    config(additional_special_tokens=["[X]"], image_token="<new>"),
    config(pad_token={"__type": "AddedToken"} | added("<pad2>", lstrip=True, rstrip=True)),
    config(added_tokens_decoder={"900": added("[X]"), "899": added("<new>", special=False, rstrip=True)}, pad_token="<pad2>"),
    config() | {"added_tokens.json": {"[X]": 901, "<new>": 900}},
    {"special_tokens_map.json": {"pad_token": added("<pad2>", lstrip=True), "additional_special_tokens": ["[X]"]}, "added_tokens.json": {"<new>": 500}},
]
SPACES = [config(add_prefix_space=flag) for flag in (True, False)]
BERT = [
    config(do_lower_case=False),
    config(tokenizer_class="BertTokenizer", do_lower_case=True, strip_accents=False),
    config(tokenizer_class="BertTokenizerFast", tokenize_chinese_chars=False, do_lower_case=False, strip_accents=True),
    config(tokenizer_class="PreTrainedTokenizerFast", do_lower_case=False),
]
LLAMA = [config(tokenizer_class="LlamaTokenizer", **more) for more in ({}, {"legacy": True}, {"legacy": False}, {"add_prefix_space": False})]
OTHERS = [config(tokenizer_class=name, add_prefix_space=True) for name in ("PreTrainedTokenizerFast", "GPT2Tokenizer")]
QWEN = [config(tokenizer_class=name, add_prefix_space=True) for name in ("PreTrainedTokenizerFast", "Qwen2TokenizerFast")]
# What counts in a tokenizer.json, and what the class makes anew.
BARE = {"tokenizer.json": {"post_processor": None}}
BEGINS = {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<|endoftext|>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]}
BEGINS |= {"pair": [*BEGINS["single"], {"Sequence": {"id": "B", "type_id": 1}}]}
BEGINS |= {"special_tokens": {"<|endoftext|>": {"id": "<|endoftext|>", "ids": [0], "tokens": ["<|endoftext|>"]}}}
BEGINS = {"tokenizer.json": {"post_processor": BEGINS}}
FLAGS = [config(add_bos_token=True), config(add_bos_token=True, add_eos_token=True), config(add_bos_token=False)]
PARTS = {"tokenizer.json": {"normalizer": {"type": "Lowercase"}}}
WHISPER = [config(task="transcribe"), config(predict_timestamps=True)]
# A folder without tokenizer.json, as that of OPT is.
VOCABULARY = {"tokenizer.json": None}
OPT = {"config.json": {"model_type": "opt"}}
PLAIN = {"config.json": {"model_type": "llama"}}
CASES = {
    "tiny-bert": [*BERT, BARE, PARTS, VOCABULARY, *[VOCABULARY | case for case in BERT], VOCABULARY | PLAIN],
    "tiny-distilbert": [*BERT, config(tokenizer_class="DistilBertTokenizer", do_lower_case=False), VOCABULARY],
    "tiny-electra": [BARE, VOCABULARY, VOCABULARY | config(tokenizer_class="ElectraTokenizer", do_lower_case=False)],
    "tiny-modernbert": [*BERT, BARE],
    "tiny-gpt2": [
        *SPACES, *OTHERS, config(tokenizer_class="GPT2TokenizerFast", add_prefix_space=True), PARTS,
        *[more | case for more in (BEGINS, VOCABULARY, VOCABULARY | OPT) for case in ({}, *FLAGS)],
        VOCABULARY | OPT | config(tokenizer_class="GPT2Tokenizer", bos_token={"__type": "AddedToken"} | added("</s>", normalized=True), add_bos_token=True),
    ],
    "tiny-gpt_neox": [*SPACES, BARE, *[BEGINS | case for case in ({}, *FLAGS)], VOCABULARY, *[VOCABULARY | case for case in FLAGS]],
    "tiny-roberta": [*SPACES, config(tokenizer_class="RobertaTokenizerFast", add_prefix_space=True), BARE, BARE | SPACES[0], VOCABULARY, VOCABULARY | SPACES[0]],
    "tiny-qwen2": [*SPACES, *QWEN, *[BEGINS | case for case in FLAGS], VOCABULARY, VOCABULARY | FLAGS[0] | PARTS],
    "tiny-qwen3": [*SPACES, *QWEN, VOCABULARY],
    "tiny-granite": OTHERS,
    "tiny-olmo2": OTHERS,
    "tiny-smollm3": OTHERS,
    "tiny-whisper": [config(tokenizer_class="WhisperTokenizer", add_prefix_space=True), BARE, *[BARE | case for case in WHISPER], VOCABULARY],
    "tiny-llama": [*LLAMA, *OTHERS],
    "tiny-mistral": LLAMA,
    "tiny-phi3": LLAMA,
    "tiny-gemma2": SPACES,
    "tiny-t5": [*SPACES, BARE, PARTS],
}


def completed(files, own):
    """The settings with what real files always have: all added tokens of tokenizer.json, and Gemma's token of gaps."""
    files = json.loads(json.dumps(files))
    settings = files.get("tokenizer_config.json", {})
    if "added_tokens_decoder" in settings:
        settings["added_tokens_decoder"] |= {str(token.pop("id")): token for token in own["added_tokens"]}
    if own["normalizer"] == {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}:
        settings["mask_token"] = "<unk>"
        files["tokenizer_config.json"] = settings
    return files


def write(folder, model, files):
    """The folder of a case."""
    files = {name: json.loads((GOLDEN / model / name).read_text()) for name in ("config.json", "tokenizer.json")} | files | {
        "tokenizer.json": own(model, files)
    }
    for name, content in files.items():
        if content is not None:
            (folder / name).write_text(json.dumps(content))
    if files["tokenizer.json"] is None:
        of = json.loads((GOLDEN / model / "tokenizer.json").read_text())["model"]
        if of["type"] == "WordPiece":
            (folder / "vocab.txt").write_text("".join(f"{word}\n" for word in sorted(of["vocab"], key=of["vocab"].get)))
        else:
            (folder / "vocab.json").write_text(json.dumps(of["vocab"]))
            pairs = [pair if isinstance(pair, str) else " ".join(pair) for pair in of["merges"]]
            (folder / "merges.txt").write_text("".join(f"{pair}\n" for pair in ["#version: 0.2", *pairs]))


def own(model, files):
    """The tokenizer.json of a case, if it has one."""
    changed = files.get("tokenizer.json", {})
    return None if changed is None else json.loads((GOLDEN / model / "tokenizer.json").read_text()) | changed


def first_qwen():
    """A qwen.tiktoken of the tokens of tiny-qwen2, and the ids that its repository's class gives: those of tiktoken for a text in NFC."""
    of = json.loads((GOLDEN / "tiny-qwen2" / "tokenizer.json").read_text())
    special = {token["content"] for token in of["added_tokens"]}
    tokens = sorted((token for token in of["model"]["vocab"] if token not in special), key=of["model"]["vocab"].get)
    byte_of = {letter: byte for byte, letter in bytes_to_unicode().items()}
    ranks = {bytes(byte_of[letter] for letter in token): rank for rank, token in enumerate(tokens)}
    extra = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *(f"<|extra_{i}|>" for i in range(205))]
    encoding = tiktoken.Encoding(
        "qwen", pat_str=of["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"], mergeable_ranks=ranks,
        special_tokens={token: len(ranks) + i for i, token in enumerate(extra)})
    texts = TEXTS + ["<|im_start|>user\nHello 12 worlds!<|im_end|>\n\n<|extra_204|>", "it's the  catthe cafe\u0301 漢字"]
    ids = [encoding.encode(unicodedata.normalize("NFC", text), allowed_special="all") for text in texts]
    return {"file": "".join(f"{b64encode(token).decode()} {rank}\n" for token, rank in ranks.items()), "texts": texts, "ids": ids}


def main():
    cases = []
    for model, more in CASES.items():
        for files in OF_ALL + more:
            files = completed(files, json.loads((GOLDEN / model / "tokenizer.json").read_text()))
            with tempfile.TemporaryDirectory() as folder:
                write(Path(folder), model, files)
                try:
                    tokenizer = AutoTokenizer.from_pretrained(folder)
                    ids = [tokenizer(text, add_special_tokens=False).input_ids for text in TEXTS]
                    around = [tokenizer(TEXTS[0]).input_ids, tokenizer(*TEXTS[:2]).input_ids]
                except Exception as error:
                    print(f"{model} {files}: {type(error).__name__}: {error}")
                    continue
                cases.append({"model": model, "files": files, "ids": ids, "around": around})
    text = json.dumps({"texts": TEXTS, "tiktoken": first_qwen(), "cases": cases}, ensure_ascii=False)
    (HERE / "auto_tokenizer.json").write_text(text.replace('{"model"', '\n{"model"') + "\n")


main()
