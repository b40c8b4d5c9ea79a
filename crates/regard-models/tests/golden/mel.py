"""Writes mel.json: numbers of log-mel spectrograms that WhisperFeatureExtractor computes of the signal of tests/models/audio.rs.

    pip install torch transformers
    python mel.py

A case has the settings of the extractor that differ from its defaults, the number of samples, and every `step`th number of the
spectrogram [bands, frames].
"""

import json
from pathlib import Path

import numpy as np
from transformers import WhisperFeatureExtractor

STEP = 997


def signal(samples):
    """A tone that rises up to 6 kHz, and steps as noise."""
    i = np.arange(samples, dtype=np.float64)
    tone = np.sin(i * (0.05 + i * 1e-6))
    noise = (i * 7919 + i * i * 13) % 256 / 256 - 0.5
    return (0.4 * tone + 0.1 * noise).astype(np.float32)


cases = []
for samples, settings in [
    (100_000, {}),
    (480_000, {"feature_size": 128}),
    (150, {"chunk_length": 1}),
    (8_000, {"chunk_length": 1, "n_fft": 512, "hop_length": 100, "feature_size": 40, "sampling_rate": 8_000}),
]:
    extractor = WhisperFeatureExtractor(**settings)
    found = extractor._np_extract_fbank_features(np.pad(signal(samples), (0, extractor.n_samples - samples))[None], "cpu")[0]
    read = extractor(signal(samples), sampling_rate=extractor.sampling_rate, return_tensors="np").input_features[0]
    # In the few cells where the sound is 1e8 times as weak as the loudest, torch's sums in f32 are off by more.
    print(settings, found.shape, "torch is off by", np.abs(found - read).max())
    numbers = [round(float(x), 6) for x in found.flatten()[::STEP]]
    cases.append({"settings": settings, "samples": samples, "shape": list(found.shape), "step": STEP, "numbers": numbers})
Path(__file__).with_suffix(".json").write_text(json.dumps(cases, separators=(",", ":")) + "\n")
