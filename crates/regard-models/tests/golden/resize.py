"""Writes resize.json: images as Pillow resizes them (pip install pillow==11.3 numpy); and nearest.json: the pixels that the filter
"nearest" takes of a row of `before` pixels for one of `after`, for many pairs of sizes."""

import json
from pathlib import Path

import numpy as np
from PIL import Image

FILTERS = {"nearest": 0, "lanczos": 1, "bilinear": 2, "bicubic": 3}


def image(height: int, width: int) -> np.ndarray:
    """Pixels that the test computes too."""
    i, j, c = np.meshgrid(np.arange(height), np.arange(width), np.arange(3), indexing="ij")
    return ((i * i * 37 + j * 101 + i * j * 13 + c * 59) % 256).astype(np.uint8)


cases = []
for name, number in FILTERS.items():
    for before, after in [((5, 7), (12, 12)), ((23, 17), (12, 12)), ((12, 30), (12, 12)), ((40, 64), (3, 4))]:
        resized = Image.fromarray(image(*before)).resize(after[::-1], number)
        cases.append({"resample": number, "before": before, "after": after, "pixels": np.asarray(resized).ravel().tolist()})
Path(__file__).with_suffix(".json").write_text(json.dumps(cases, separators=(",", ":")) + "\n")

# Pillow adds up the places of pixels, which can round to another pixel than each place alone: many of these pairs do.
sums = np.random.RandomState(0)
rows = []
while len(rows) < 30:
    before, after = (int(n) for n in sums.randint(1, 250, 2))
    taken = np.asarray(Image.fromarray(np.arange(before, dtype=np.uint8)[None]).resize((after, 1), 0)).ravel()
    alone = ((np.arange(after) + 0.5) * (before / after)).astype(int)
    if len(rows) % 2 or (taken != alone).any():
        rows.append({"before": before, "after": after, "taken": taken.tolist()})
Path(__file__).with_name("nearest.json").write_text(json.dumps(rows, separators=(",", ":")) + "\n")
