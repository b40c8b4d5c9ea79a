"""Changes of a forward pass: plain values, which pickle and compare. Everything after the changed place follows from them."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Union

import numpy as np

if TYPE_CHECKING:
    from ._model import Model
    from ._regard import Prepared

#: "3.5" or (3, 5): head 5 of layer 3, both from 0. A model with an encoder and a decoder has "encoder.3.5", "decoder.3.5" and
#: "cross.3.5".
Head = Union[str, tuple[int, int]]
#: A text, or its ids, which is read as the text that is changed: with its pair, its chat template and its decoder's text.
Source = Union[str, Sequence[int], np.ndarray]


def head_name(head: Head) -> str:
    """A head as "LAYER.HEAD"."""
    return head if isinstance(head, str) else ".".join(str(i) for i in head)


class Change:
    """A change of a forward pass."""

    def _as_json(self, model: Model, run: Prepared) -> dict[str, Any]:
        """The change of the run on an input, in the form that the compiled part reads."""
        raise NotImplementedError


@dataclass(frozen=True)
class Ablate(Change):
    """Replaces a head's output at all positions by zeros, by its "mean" over the positions, or by its mean over another text.

    >>> import regard
    >>> regard.Ablate("0.2")
    Ablate(head='0.2', to='zero', of=None)
    """

    head: Head
    #: "zero" or "mean"; with `of`, the mean over that text.
    to: str = "zero"
    of: Source | None = None

    def _as_json(self, model: Model, run: Prepared) -> dict[str, Any]:
        if self.to not in ("zero", "mean"):
            raise ValueError(f"a head is replaced by 'zero' or by its 'mean', not by {self.to!r}")
        to = self.to if self.of is None else {"mean_of": model._source(self.of, run)}
        return {"ablate": {"head": model._head(self.head), "to": to}}


@dataclass(frozen=True)
class Temperature(Change):
    """Divides a head's scores by a temperature before softmax. 0 and infinity are exact limits."""

    head: Head
    temperature: float

    def _as_json(self, model: Model, run: Prepared) -> dict[str, Any]:
        value = float(self.temperature)
        if not value >= 0:
            raise ValueError(f"the temperature of head {head_name(self.head)} is {value}, but it is 0 or above")
        return {"temperature": {"head": model._head(self.head), "temperature": "inf" if math.isinf(value) else value}}


@dataclass(frozen=True)
class Cut(Change):
    """Hides a key from a query in one head. Positions count from 0, or from the end if they are negative."""

    head: Head
    query: int
    key: int

    def _as_json(self, model: Model, run: Prepared) -> dict[str, Any]:
        head = model._head(self.head)
        query, key = (position_of(at, n) for at, n in zip((self.query, self.key), model._opened.edges(head, run)))
        return {"cut": {"head": head, "query": query, "key": key}}


@dataclass(frozen=True)
class Patch(Change):
    """Replaces a place at a position by its numbers in the run on another text with as many tokens (activation patching)."""

    place: str
    position: int
    source: Source

    def _as_json(self, model: Model, run: Prepared) -> dict[str, Any]:
        place = model._place(self.place)
        at = position_of(self.position, model._opened.positions_at(place, run))
        return {"patch": {"place": place, "position": at, "from": model._source(self.source, run)}}


@dataclass(frozen=True)
class PatchHead(Change):
    """Replaces a head's output, at a position or at all of them, by that of the run on another text with as many tokens."""

    head: Head
    source: Source
    position: int | None = None

    def _as_json(self, model: Model, run: Prepared) -> dict[str, Any]:
        head = model._head(self.head)
        at = None if self.position is None else position_of(self.position, model._opened.edges(head, run)[0])
        return {"patch_head": {"head": head, "position": at, "from": model._source(self.source, run)}}


@dataclass(frozen=True)
class Path(Change):
    """Lets a later place read a head's output from the run on another text, while all parts between them stay the same.

    The place is the stream that heads read ("blocks.3.attn.hook_q_input", `hook_k_input`, `hook_v_input`), by one of them (`to`)
    or by all, the one that a feed-forward layer reads ("blocks.3.hook_mlp_in"), or the residual stream.
    """

    head: Head
    place: str
    source: Source
    to: int | None = None

    def _as_json(self, model: Model, run: Prepared) -> dict[str, Any]:
        place, source = model._place(self.place), model._source(self.source, run)
        to = None if self.to is None else operator.index(self.to)
        return {"path": {"head": model._head(self.head), "place": place, "to": to, "from": source}}


@dataclass(frozen=True, eq=False)
class Add(Change):
    """Adds a vector to a place, at a position or at all of them (steering)."""

    place: str
    vector: Any
    position: int | None = None

    def _as_json(self, model: Model, run: Prepared) -> dict[str, Any]:
        given = self.vector  # of PyTorch: it may be trained, on another device, or of a type that NumPy lacks
        vector = np.asarray(given.detach().cpu().float() if hasattr(given, "detach") else given, np.float32)
        if vector.ndim != 1 or not np.isfinite(vector).all():
            raise ValueError(f"a vector of finite numbers is added to {self.place}, not an array of the shape {vector.shape}")
        place = model._place(self.place)
        at = None if self.position is None else position_of(self.position, model._opened.positions_at(place, run))
        # A float64 holds every float32 exactly, and JSON writes it so that the same number is read.
        return {"add": {"place": place, "position": at, "vector": vector.astype(float).tolist()}}


def position_of(at: int, tokens: int) -> int:
    """A position from 0, of one that may count from the end."""
    at = operator.index(at)
    position = at + tokens if at < 0 else at
    if not 0 <= position < tokens:
        raise ValueError(f"there is no position {at}: the text has {tokens} tokens")
    return position
