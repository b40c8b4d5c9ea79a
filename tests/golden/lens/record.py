"""Records what TransformerLens finds in python/tests/exploratory_analysis.py, for english: record.py [MODEL]

    pip install transformer-lens gguf
    python tests/golden/lens/record.py

MODEL is a folder of Hugging Face; with it, nothing is written, and the results and the times of both are compared.
"""

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
import transformers
from transformer_lens.model_bridge import TransformerBridge

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
STUDY = (ROOT / "python/tests/exploratory_analysis.py").read_text(encoding="utf-8")
OURS, THEIRS = "from regard.lens import utils", "import transformer_lens.utilities as utils"


def english(folder):
    """The bundled model as a folder of Hugging Face, in float32."""
    source = {"pretrained_model_name_or_path": ROOT / "models/english", "gguf_file": "english.gguf"}
    of_file = transformers.AutoModelForCausalLM.from_pretrained(**source, dtype=torch.float32)
    del of_file.config.quantization_config
    model = transformers.LlamaForCausalLM(of_file.config)
    model.load_state_dict(of_file.state_dict())
    model.save_pretrained(folder)
    transformers.AutoTokenizer.from_pretrained(**source).save_pretrained(folder)


def their_model(folder):
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    lens = TransformerBridge.boot_transformers(str(folder), hf_model=model, tokenizer=tokenizer, device="cpu", dtype=torch.float32)
    lens.enable_compatibility_mode()
    return lens


def run(study, model):
    scope = {"model": model}
    start = time.perf_counter()
    exec(compile(study, "exploratory_analysis.py", "exec"), scope)
    return scope["results"], time.perf_counter() - start


def main():
    assert STUDY.count(OURS) == 1
    with tempfile.TemporaryDirectory() as temporary:
        folder = sys.argv[1] if sys.argv[1:] else temporary
        if not sys.argv[1:]:
            english(folder)
        theirs, their_time = run(STUDY.replace(OURS, THEIRS), their_model(folder))
        arrays = {name: np.asarray(value) for name, value in theirs.items()}
        if not sys.argv[1:]:
            # The numbers of float32; what follows from a weight alone is not needed whole.
            np.savez_compressed(HERE / "english.npz", **arrays)
            print(f"{sum(array.nbytes for array in arrays.values())} bytes in {len(arrays)} arrays")
        try:
            from regard.lens import HookedTransformer
        except ImportError:
            return
        ours, our_time = run(STUDY, HookedTransformer.from_pretrained(folder))
        for name, expected in arrays.items():
            found = np.asarray(ours[name])
            if expected.dtype.kind == "f":
                error = np.abs(found - expected).max() / max(1, np.abs(expected).max())
                print(f"{name:24} {str(found.shape):16} {error:.1e}{'' if error < 1e-4 else '  TOO MUCH'}")
            else:
                print(f"{name:24} {'the same' if np.array_equal(found, expected) else 'ANOTHER'}")
        print(f"TransformerLens {their_time:.1f} s, Regard {our_time:.1f} s: {their_time / our_time:.1f} times")


if __name__ == "__main__":
    main()
