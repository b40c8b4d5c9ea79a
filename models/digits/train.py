"""Trains `digits` on the handwritten digits that scikit-learn carries, and writes config.json,
preprocessor_config.json, model.safetensors and held-back.bin beside this file.

    OMP_NUM_THREADS=1 python train.py

The committed weights are what this script wrote with the versions and in the time that README.md
names. The seeds are below. Another CPU or number of threads sums in another order: its model is as
good, but its bits differ.
"""

import argparse
import copy
import json
import math
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from transformers import ViTConfig, ViTForImageClassification

HERE = Path(__file__).parent
SEED = 8
STEPS, WARM_UP, ROWS, RATE = 8000, 200, 128, 4e-3
AVERAGE = 0.998  # of the moving average of the weights, which is what is saved
HELD_BACK = 5  # every fifth image, from the first on


def images():
    """The images as bytes \\[n, 8, 8\\], ink 255, and their digits: for training, and held back."""
    digits = load_digits()
    pixels = torch.tensor(digits.images * (255 / 16)).round().to(torch.uint8)
    labels = torch.tensor(digits.target)
    back = torch.arange(len(labels)) % HELD_BACK == 0
    return pixels[~back], labels[~back], pixels[back], labels[back]


def numbers(pixels):
    """The model's input \\[n, 1, 8, 8\\] from bytes, as preprocessor_config.json describes it."""
    return (pixels[:, None].float() / 255 - 0.5) / 0.5


def config():
    return ViTConfig(
        image_size=8,
        patch_size=2,
        num_channels=1,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        hidden_act="gelu",
        layer_norm_eps=1e-5,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        id2label={i: str(i) for i in range(10)},
        label2id={str(i): i for i in range(10)},
    )


def moved(x, generator):
    """The images turned, resized and shifted at random, with ink that is lighter or darker."""
    n = len(x)
    uniform = lambda low, high: low + (high - low) * torch.rand(n, generator=generator)
    angle, shear = uniform(-0.2, 0.2), uniform(-0.15, 0.15)
    wide, high = uniform(0.9, 1.25), uniform(0.9, 1.2)
    cos, sin = angle.cos(), angle.sin()
    rows = [
        torch.stack([cos * wide, (shear - sin) * high, uniform(-0.25, 0.25)], 1),
        torch.stack([sin * wide, cos * high, uniform(-0.2, 0.2)], 1),
    ]
    grid = F.affine_grid(torch.stack(rows, 1), x.shape, align_corners=False)
    ink = F.grid_sample((x + 1) / 2, grid, align_corners=False)
    ink = (ink * uniform(0.9, 1.2)[:, None, None, None]).clamp(0, 1)
    return 2 * ink - 1


@torch.no_grad()
def right(model, x, labels):
    """The number of images whose digit the model recognises."""
    return (model(x).logits.argmax(-1) == labels).sum().item()


def main():
    arguments = argparse.ArgumentParser(description="Trains the model of digits.")
    arguments.add_argument("--steps", type=int, default=STEPS)
    arguments.add_argument("--to", type=Path, default=HERE)
    arguments = arguments.parse_args()
    torch.manual_seed(SEED)
    torch.use_deterministic_algorithms(True)
    generator = torch.Generator().manual_seed(SEED)
    pixels, labels, held_back, expected = images()
    x, held = numbers(pixels), numbers(held_back)
    model = ViTForImageClassification(config())
    average = copy.deepcopy(model).eval()
    print(f"{model.num_parameters()} parameters, {len(x)} images, {len(held)} held back")

    adam = torch.optim.AdamW(model.parameters(), lr=RATE, betas=(0.9, 0.98), weight_decay=0.05)
    start = time.monotonic()
    for step in range(arguments.steps):
        done = step / arguments.steps
        adam.param_groups[0]["lr"] = RATE * min((step + 1) / WARM_UP, 0.5 + 0.5 * math.cos(math.pi * done))
        rows = torch.randint(len(x), (ROWS,), generator=generator)
        logits = model(moved(x[rows], generator)).logits
        loss = F.cross_entropy(logits, labels[rows], label_smoothing=0.05)
        adam.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        adam.step()
        with torch.no_grad():
            for mean, new in zip(average.parameters(), model.parameters()):
                mean.lerp_(new, 1 - min(AVERAGE, step / (step + 10)))
        if (step + 1) % 500 == 0:
            seconds, found = time.monotonic() - start, right(average, held, expected)
            print(f"{step + 1:5} {seconds:5.0f} s  loss {loss:.4f}  right {found} of {len(held)}", flush=True)
    # Weights of 16 bits take half the flash.
    model = average.bfloat16()
    model.save_pretrained(arguments.to)
    print(f"as bf16: right {right(model.float(), held, expected)} of {len(held)}")
    settings = {
        "do_normalize": True,
        "do_rescale": True,
        "do_resize": True,
        "image_mean": [0.5],
        "image_processor_type": "ViTImageProcessor",
        "image_std": [0.5],
        "resample": 2,
        "rescale_factor": 1 / 255,
        "size": {"height": 8, "width": 8},
    }
    (arguments.to / "preprocessor_config.json").write_text(json.dumps(settings, indent=2) + "\n")
    # For each image its digit, and then its pixels, row by row.
    lines = torch.cat([expected[:, None].to(torch.uint8), held_back.flatten(1)], 1)
    (arguments.to / "held-back.bin").write_bytes(lines.numpy().tobytes())


if __name__ == "__main__":
    main()
