"""Attention, number by number.

- `Model` opens a model in this process: its numbers, its places to read and to change, and sweeps over its heads.
- `study` sweeps many prompts, on one machine or on many.
- `attention` computes scaled dot-product attention on the CPU, with every option of the contract.
- `show` opens the attention of a model in the window or the notebook.
- `trace` runs a model once and returns transformers' arrays.
- `program` is where the program `regard` is, which comes with the package.
"""

import os

from ._cache import Cache
from ._changes import Ablate, Add, Change, Cut, Patch, PatchHead, Path, Temperature
from ._model import Config, HookPoint, Model
from ._program import program
from ._regard import Attended, attention, forget_threads
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
    "HookPoint",
    "Model",
    "Patch",
    "PatchHead",
    "Path",
    "Study",
    "Sweep",
    "Temperature",
    "attention",
    "program",
    "show",
    "study",
    "trace",
]

# The threads of a pool do not survive a fork. The child starts threads of its own.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=forget_threads)
del os, forget_threads
