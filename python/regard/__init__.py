"""Attention, number by number.

- `Model` opens a model in this process: its numbers, its places to read and to change, and sweeps over its heads.
- `study` sweeps many prompts, on one machine or on many.
- `attention` computes scaled dot-product attention on the CPU, with every option of the contract; `mask` has masks as values,
  `KeyValueCache` the keys and values so far, `attention_ragged` texts without padding, `attention_backward` the gradients.
- `show` draws the attention of a model in a notebook, in a page or in the window.
- `lens` has TransformerLens's calls.
- `trace` runs a model once and returns transformers' arrays.
- `program` is where the program `regard` is.
"""

import os

from . import mask
from ._attention import attention_ragged, rotary
from ._cache import Cache
from ._changes import Ablate, Add, Change, Cut, Patch, PatchHead, Path, Temperature
from ._key_value import KeyValueCache
from ._model import Config, HookPoint, Model
from ._program import program
from ._regard import Attended, Gradients, __version__, alibi_slopes, attention, attention_backward, forget_threads, set_num_threads
from ._show import show
from ._sweep import Study, Sweep, study
from ._trace import trace

__all__ = [
    "Ablate",
    "Add",
    "Attended",
    "Cache",
    "Change",
    "Config",
    "Cut",
    "Gradients",
    "HookPoint",
    "KeyValueCache",
    "Model",
    "Patch",
    "PatchHead",
    "Path",
    "Study",
    "Sweep",
    "Temperature",
    "__version__",
    "alibi_slopes",
    "attention",
    "attention_backward",
    "attention_ragged",
    "mask",
    "program",
    "rotary",
    "set_num_threads",
    "show",
    "study",
    "trace",
]

# The threads of a pool do not survive a fork. The child starts threads of its own.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=forget_threads)
del os, forget_threads
