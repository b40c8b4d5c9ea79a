"""Writes transformer-lens.md: which of the models in TransformerLens's own table open, by family.

    pip download transformer-lens --no-deps && unzip transformer_lens-*.whl
    python transformer_lens.py transformer_lens/supported_models.py VERSION

The families are those that models.md lists, which the code writes. A model's family is told by its name, because its config.json is
on the hub: each pattern stands for the `model_type` there.
"""

import re
import sys
from pathlib import Path

FOLDER = Path(__file__).parent
# The first pattern that a name has. A family that models.md does not list does not open; the other names have a reason.
FAMILIES = {
    r"^NeelNanda/|^ArthurConmy/|^Baidicoot/": "files of TransformerLens alone, without a config.json",
    "santacoder": "a class of its own, in the repository of the model",
    "hubert|wav2vec2": "sound as it is, which convolutions read",
    "^Qwen/Qwen-": "qwen",
    "Apertus": "apertus",
    "OLMoE": "olmoe",
    "OLMo-2": "olmo2",
    "(?i)olmo-3": "olmo3",
    "OLMo": "olmo",
    "bloom": "bloom",
    "mGPT|gpt2": "gpt2",
    "gpt-j": "gptj",
    "gpt-neo-|TinyStories": "gpt_neo",
    "gpt-neox|pythia|stablelm": "gpt_neox",
    "/opt-": "opt",
    "/bert-": "bert",
    "/t5-": "t5",
    "gemma-2-": "gemma2",
    "gemma-3-1b|gemma-3-270m|text-it": "gemma3_text",
    "gemma-3-|medgemma": "gemma3",
    "/gemma-": "gemma",
    "(?i)phi-[34]": "phi3",
    "/phi-": "phi",
    "Mixtral": "mixtral",
    "mistralai": "mistral",
    "gpt-oss": "gpt_oss",
    "Qwen3": "qwen3",
    "Qwen|QwQ": "qwen2",
    "(?i)llama|Yi-": "llama",
}
REASONS = {
    "apertus": "its activation has learned parameters (xIELU)",
}

source, version = Path(sys.argv[1]).read_text(), sys.argv[2]
table = source[source.index("OFFICIAL_MODEL_NAMES") :]
names = re.findall(r'^ +"([^"]+)"', table[: table.index("\n]")], re.M)
known = re.search(r"^Families: (.*)\.$", (FOLDER / "models.md").read_text(), re.M)[1]
known = set(re.split(", | and ", known))
opened, refused = {}, {}
for name in names:
    family = next(family for pattern, family in FAMILIES.items() if re.search(pattern, name))
    (opened if family in known else refused).setdefault(REASONS.get(family, family), []).append(name)
count = sum(map(len, opened.values()))


def rows(table):
    return "".join(f"| {key} | {len(names)} | {', '.join(names)} |\n" for key, names in sorted(table.items()))


(FOLDER / "transformer-lens.md").write_text(f"""# TransformerLens's models

`docs/transformer_lens.py` writes this page.

{count} of the {len(names)} models in the table of TransformerLens {version} (`OFFICIAL_MODEL_NAMES`) are of a family that opens, under the names
of places that TransformerLens has. Weights that a repository has as `pytorch_model.bin` alone are written anew first:
`AutoModelForCausalLM.from_pretrained("NAME").save_pretrained("FOLDER")`.

| family | | models |
|---|---|---|
{rows(opened)}
{len(names) - count} do not open:

| reason | | models |
|---|---|---|
{rows(refused)}""")
print(count, len(names))
