"""The bundled models outside of Regard: the script that trains `english`, and the files of `story` in transformers."""

import json
import lzma
import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import regard

for needed in ("torch", "tokenizers", "safetensors"):
    pytest.importorskip(needed, reason=f"NOT CHECKED: {needed} is not installed")

MODELS = Path(os.environ.get("GOLDEN", Path(__file__).parents[2] / "tests" / "golden" / "models")).parents[2] / "models"


def test_a_short_training_lowers_the_loss(tmp_path):
    """A run of a few steps, and Regard opens what it writes."""
    folder = MODELS / "english"
    texts = json.loads((folder / "held-back.json").read_text())
    file = tmp_path / "texts.xz"
    file.write_bytes(lzma.compress("\n\x1e\n".join(texts).encode()))
    made = tmp_path / "made"
    line = [sys.executable, folder / "train.py", file, "--to", made, "--rows", "2", "--steps", "24"]
    said = subprocess.run(line, check=True, capture_output=True, text=True).stdout.splitlines()
    losses = [float(words.rsplit(" ", 1)[1]) for words in said if "loss" in words]
    assert len(losses) == 12
    # A model that knows nothing has ln 4096 = 8.3 nats.
    assert 7.5 < losses[0] < 9 and losses[-1] < losses[0] - 1
    model = regard.Model(made)
    logits = model("Any text has tokens.")
    assert np.isfinite(logits).all() and logits.shape[1] == 4096


@pytest.mark.parametrize("options", [{}, {"trust_remote_code": False}, {"trust_remote_code": True}])
def test_transformers_reads_texts_of_story_as_regard_does(options, monkeypatch, tmp_path):
    """Words, names in lower case, marks, words that it does not know, two spaces, and nothing."""
    transformers = pytest.importorskip("transformers", reason="NOT CHECKED: transformers is not installed")
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path))
    theirs = transformers.AutoTokenizer.from_pretrained(MODELS / "story", **options)
    ours, of_folder = regard.Model("story"), regard.Model(MODELS / "story")
    for text in ("Mia gave Tom the ball.", "Mary and John went to the store. John gave the drink to", "tom gave mia a kite, and", "Mia  saw 3 zebras: why?", ""):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of words that it does not know
            ids = ours.to_tokens(text).tolist()
            assert of_folder.to_tokens(text).tolist() == ids
        assert theirs(text)["input_ids"] == ids, text
        assert theirs.decode(ids) == ours.to_string(ids)
    assert (theirs.bos_token_id, theirs.eos_token_id, theirs.unk_token_id, len(theirs)) == (1, 1, 0, 278)
