"""Attention you can trust, and see.

- `attention` computes scaled dot-product attention on the CPU, with every option of the contract.
- `show` opens the attention of a model, as `model(..., output_attentions=True)` returns it, in the window or the notebook.
- `trace` runs a model and returns the arrays on the way, under TransformerLens's names.
- `program` is where the program `regard` is, which comes with the package.
"""

import os

from ._program import program
from ._regard import Attended, attention, forget_threads
from ._show import show
from ._trace import trace

__all__ = ["Attended", "attention", "program", "show", "trace"]

# The threads of a pool do not survive a fork: the child starts its own.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=forget_threads)
del os, forget_threads
