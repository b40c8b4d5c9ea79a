"""Writes auto_tokenizer.json: the ids that transformers' AutoTokenizer gives for the tokenizers of golden models with other settings
beside their tokenizer.json.

    python auto_tokenizer.py
"""

import json
import shutil
import tempfile
from pathlib import Path

from transformers import AutoTokenizer

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
CASES = {
    "tiny-bert": BERT,
    "tiny-distilbert": [*BERT, config(tokenizer_class="DistilBertTokenizer", do_lower_case=False)],
    "tiny-modernbert": BERT,
    "tiny-gpt2": [*SPACES, *OTHERS, config(tokenizer_class="GPT2TokenizerFast", add_prefix_space=True)],
    "tiny-gpt_neox": SPACES,
    "tiny-roberta": [*SPACES, config(tokenizer_class="RobertaTokenizerFast", add_prefix_space=True)],
    "tiny-qwen2": [*SPACES, *QWEN],
    "tiny-qwen3": [*SPACES, *QWEN],
    "tiny-granite": OTHERS,
    "tiny-olmo2": OTHERS,
    "tiny-smollm3": OTHERS,
    "tiny-whisper": [config(tokenizer_class="WhisperTokenizer", add_prefix_space=True)],
    "tiny-llama": [*LLAMA, *OTHERS],
    "tiny-mistral": LLAMA,
    "tiny-phi3": LLAMA,
    "tiny-gemma2": SPACES,
    "tiny-t5": SPACES,
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


def main():
    cases = []
    for model, own in CASES.items():
        for files in OF_ALL + own:
            files = completed(files, json.loads((GOLDEN / model / "tokenizer.json").read_text()))
            with tempfile.TemporaryDirectory() as folder:
                folder = Path(folder)
                for name in ("config.json", "tokenizer.json"):
                    shutil.copy(GOLDEN / model / name, folder)
                for name, content in files.items():
                    (folder / name).write_text(json.dumps(content))
                try:
                    tokenizer = AutoTokenizer.from_pretrained(folder)
                    ids = [tokenizer(text, add_special_tokens=False).input_ids for text in TEXTS]
                except Exception as error:
                    print(f"{model} {files}: {type(error).__name__}: {error}")
                    continue
                cases.append({"model": model, "files": files, "ids": ids})
    text = json.dumps({"texts": TEXTS, "cases": cases}, ensure_ascii=False)
    (HERE / "auto_tokenizer.json").write_text(text.replace('{"model"', '\n{"model"') + "\n")


main()
