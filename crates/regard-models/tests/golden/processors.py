"""Writes processors.json: the numbers that transformers' image processors make of an image (pip install transformers torchvision pillow==11.3)."""

import json
from pathlib import Path

import numpy as np
from PIL import Image
from transformers.models.bit.image_processing_pil_bit import BitImageProcessorPil
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil
from transformers.models.deit.image_processing_pil_deit import DeiTImageProcessorPil
from transformers.models.dinov3_vit.image_processing_dinov3_vit import DINOv3ViTImageProcessor
from transformers.models.siglip.image_processing_pil_siglip import SiglipImageProcessorPil
from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil


def image(height: int, width: int) -> Image.Image:
    """Pixels that the test computes too."""
    i, j, c = np.meshgrid(np.arange(height), np.arange(width), np.arange(3), indexing="ij")
    return Image.fromarray(((i * i * 37 + j * 101 + i * j * 13 + c * 59) % 256).astype(np.uint8))


TWELVE, FIVE = dict(height=12, width=12), dict(height=5, width=4)
cases = []
for kind, settings, size in [
    (CLIPImageProcessorPil, dict(size=12, crop_size=FIVE), (23, 17)),
    (CLIPImageProcessorPil, dict(size=dict(shortest_edge=7), crop_size=5), (9, 31)),
    (BitImageProcessorPil, dict(size=dict(shortest_edge=8), crop_size=FIVE), (31, 9)),
    (DeiTImageProcessorPil, dict(size=TWELVE, crop_size=FIVE), (23, 17)),
    (SiglipImageProcessorPil, dict(size=FIVE), (23, 17)),
    (ViTImageProcessorPil, dict(size=FIVE), (23, 17)),
    # Resizes numbers that are not whole, smaller and larger.
    (DINOv3ViTImageProcessor, dict(size=FIVE), (23, 17)),
    (DINOv3ViTImageProcessor, dict(size=TWELVE), (9, 31)),
]:
    processor = kind(**settings)
    pixels = processor(images=image(*size), return_tensors="pt")["pixel_values"][0].numpy()
    # As they lie on the hub: what the class itself sets is written too, but the sizes as they are given.
    written = processor.to_dict() | settings | {"image_processor_type": kind.__name__.removesuffix("Pil")}
    written = {key: written[key] for key in written if key.startswith(("do_", "image_", "size", "crop", "res"))}
    cases.append({"before": size, "settings": written, "shape": pixels.shape, "pixels": [float(f"{x:.7g}") for x in pixels.ravel().tolist()]})
Path(__file__).with_suffix(".json").write_text(json.dumps(cases, separators=(",", ":")) + "\n")
