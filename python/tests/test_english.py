"""The script that trains `english`: a run of a few steps lowers the loss, and Regard opens what it writes."""

import json
import lzma
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import regard

for needed in ("torch", "tokenizers", "safetensors"):
    pytest.importorskip(needed)


def test_a_short_training_lowers_the_loss(tmp_path):
    folder = Path(os.environ["GOLDEN"]).parents[2] / "models/english"
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
