"""Which keys a query may see, as values for `attention(..., mask=...)`. `&` and `|` join them; no matrix is made.

>>> import regard
>>> text = regard.mask.causal() & regard.mask.document([0, 0, 0, 1, 1])  # two texts in one row
>>> prefix = regard.mask.causal() | regard.mask.prefix([2])              # every token sees the first two

A position is one of `attention`: "top-left", "bottom-right" or the key at which the first query stands. Where there are as many queries as
keys and no key lengths, it is clear without being given.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import numpy as np

Position: TypeAlias = Literal["top-left", "bottom-right"] | int

__all__ = ["Mask", "causal", "document", "prefix", "window"]


class Mask:
    """Which keys a query may see. The functions of this module make one, and `&` and `|` join two."""

    __slots__ = ("parts",)

    def __init__(self, word: str, *parts: Any) -> None:
        self.parts = (word, *parts)

    def __and__(self, other: Mask) -> Mask:
        return Mask("all", self, other) if isinstance(other, Mask) else NotImplemented

    def __or__(self, other: Mask) -> Mask:
        return Mask("any", self, other) if isinstance(other, Mask) else NotImplemented

    def __repr__(self) -> str:
        word, *parts = self.parts
        if word in ("all", "any"):
            return f"({parts[0]!r} {'&' if word == 'all' else '|'} {parts[1]!r})"
        return f"regard.mask.{word}({', '.join(map(repr, parts))})"


def causal(position: Position | None = None) -> Mask:
    """Keys up to the query's position."""
    return Mask("causal", position)


def window(left: int | None, right: int | None, position: Position | None = None) -> Mask:
    """So many keys before the query's position and after it. None or -1 is no limit."""
    return Mask("window", (left, right), position)


def prefix(lengths: int | Sequence[int] | np.ndarray) -> Mask:
    """The first keys, for every query. `lengths` is their number, for the whole batch or [batch]."""
    return Mask("prefix", np.atleast_1d(_whole("lengths", lengths, 1)).tolist())


def document(ids: Sequence[int] | Sequence[Sequence[int]] | np.ndarray, position: Position | None = None) -> Mask:
    """Keys of the same document as the key at the query's position. `ids` are the documents' numbers, [n_k] or [batch, n_k]."""
    return Mask("document", np.atleast_2d(_whole("ids", ids, 2)).tolist(), position)


def _whole(name: str, numbers: Any, most: int) -> np.ndarray:
    array = np.asarray(numbers)
    if array.dtype.kind not in "iu" and array.size:
        raise TypeError(f"{name} holds {array.dtype}, but whole numbers are needed")
    if array.ndim > most:
        raise ValueError(f"{name} has the shape {list(array.shape)}, but at most {most} dimensions are possible")
    return array.astype(np.int64)
