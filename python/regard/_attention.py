"""Attention over texts of different lengths that lie one behind the other, and rotary positions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ._regard import attention, rotate


def attention_ragged(
    q: Any,
    k: Any,
    v: Any,
    cu_seqlens: Sequence[int] | np.ndarray,
    cu_seqlens_k: Sequence[int] | np.ndarray | None = None,
    **options: Any,
) -> np.ndarray:
    """Attention of texts of different lengths, which lie one behind the other without padding, as flash-attn's `varlen` has them.

    Each text is computed alone, so it has the bits that it has alone, and nothing is spent on pairs of two texts.

    Parameters
    ----------
    q : array [tokens, heads, d_k]
        The queries of all texts. As of `attention`, but tokens come first.
    k, v : array [tokens, kv_heads, d_k] and [tokens, kv_heads, d_v]
        Keys and values.
    cu_seqlens : sequence of int [texts + 1]
        Where each text begins among the tokens: 0, and after each text the number of tokens so far.
    cu_seqlens_k : sequence of int [texts + 1], optional
        The same of the keys, if there are not as many as queries.
    **options
        Options of `attention` that hold for every text: `causal`, `scale`, `softcap`, `temperature`, `window`, `position`, `sinks`,
        `alibi_slopes`, `threads`.

    Returns
    -------
    numpy.ndarray
        float32 [tokens, heads, d_v].

    Examples
    --------
    >>> import numpy as np, regard
    >>> x = np.array([1, 3, 8, 9], np.float32).reshape(4, 1, 1)  # texts of three tokens and of one
    >>> regard.attention_ragged(x, x, x, [0, 3, 4], scale=0, causal="top-left").ravel().tolist()
    [1.0, 2.0, 4.0, 9.0]
    """
    possible = {"causal", "scale", "softcap", "temperature", "window", "position", "sinks", "alibi_slopes", "threads"}
    if unknown := sorted(options.keys() - possible):
        raise TypeError(f"attention_ragged does not take {', '.join(unknown)}; its options are {', '.join(sorted(possible))}")
    for name, array in (("q", q), ("k", k), ("v", v)):
        if len(array.shape) != 3:
            raise ValueError(f"`{name}` has the shape {list(array.shape)}, but [tokens, heads, features] is needed")
    queries = _bounds("cu_seqlens", cu_seqlens, "q", q.shape[0])
    keys = queries if cu_seqlens_k is None else _bounds("cu_seqlens_k", cu_seqlens_k, "k", k.shape[0])
    if cu_seqlens_k is None:
        _bounds("cu_seqlens", cu_seqlens, "k", k.shape[0])
    if len(keys) != len(queries):
        raise ValueError(f"cu_seqlens has {len(queries) - 1} texts, and cu_seqlens_k {len(keys) - 1}")
    out = np.empty((q.shape[0], q.shape[1], v.shape[2]), np.float32)
    for a, b, c, d in zip(queries, queries[1:], keys, keys[1:]):
        of_text = attention(q[a:b].swapaxes(0, 1), k[c:d].swapaxes(0, 1), v[c:d].swapaxes(0, 1), **options)
        out[a:b] = of_text.swapaxes(0, 1)
    return out


def _bounds(name: str, given: Any, of: str, tokens: int) -> list[int]:
    bounds = np.asarray(given)
    if bounds.ndim != 1 or bounds.dtype.kind not in "iu" or len(bounds) < 2:
        raise TypeError(f"{name} is {given!r}, but whole numbers [texts + 1] are needed")
    found: list[int] = bounds.tolist()
    if found[0] != 0 or found[-1] != tokens or any(b < a for a, b in zip(found, found[1:])):
        raise ValueError(f"{name} goes {found}, but from 0 up to the {tokens} tokens of `{of}` is needed")
    return found


def rotary(
    x: Any,
    positions: int | Sequence[int] | np.ndarray = 0,
    *,
    base: float = 10_000.0,
    features: int | None = None,
    interleaved: bool = False,
    frequencies: Sequence[float] | np.ndarray | None = None,
    amplitude: float = 1.0,
) -> np.ndarray:
    """Rotary position embedding of queries or keys (Su et al. 2021). The angles are computed in float64.

    Parameters
    ----------
    x : array [..., n, d]
        Queries or keys, as `attention` takes them.
    positions : int, or sequence of int [n] or [batch, n]
        The position of the first token, as after a cache of so many tokens, or of each token.
    base : float
        Pair i turns by base^(-2i / features) a position.
    features : int, optional
        How many features of a head are rotated, from the first on. All of them unless given.
    interleaved : bool
        Pairs are (0, 1), (2, 3), … as in GPT-J, and not (0, d/2), (1, d/2 + 1), … as in Llama.
    frequencies : sequence of float [features / 2], optional
        The radians of each pair for a position, instead of those by `base`: `inv_freq` of a model in transformers.
    amplitude : float
        Multiplies sines and cosines (`attention_scaling` of YaRN and LongRoPE).

    Returns
    -------
    numpy.ndarray
        float32, in the shape of `x`.

    Examples
    --------
    >>> import numpy as np, regard
    >>> x = np.array([[1, 0], [1, 0]], np.float32)  # two tokens of one pair
    >>> bool(np.allclose(regard.rotary(x, 5), [[np.cos(5), np.sin(5)], [np.cos(6), np.sin(6)]]))
    True
    """
    shape = tuple(x.shape)
    if len(shape) < 2:
        raise ValueError(f"`x` has the shape {list(shape)}, but [..., tokens, features] is needed")
    places = np.asarray(positions)
    if places.dtype.kind not in "iu" or places.ndim > 2:
        raise TypeError(f"positions is {positions!r}, but a whole number, or whole numbers [n] or [batch, n] are needed")
    if places.ndim == 0:
        places = places + np.arange(shape[-2])
    if places.size and places.min() < 0:
        raise ValueError(f"positions holds {places.min()}, but positions begin at 0")
    if places.ndim == 2:
        places = places.reshape(places.shape[0], *[1] * (len(shape) - 3), places.shape[1])
    try:
        places = np.broadcast_to(places, shape[:-1])
    except ValueError:
        raise ValueError(f"positions has the shape {list(np.shape(positions))}, which is not [n] or [batch, n] of `x` {list(shape)}") from None
    features = shape[-1] if features is None else features
    if frequencies is None:
        if features % 2 or not 0 <= features <= shape[-1]:
            raise ValueError(f"features is {features}, but an even number up to the {shape[-1]} of `x` is needed")
        frequencies = float(base) ** (-np.arange(0, features, 2) / max(features, 1))
    angles = np.asarray(frequencies, np.float64)
    return rotate(x, places.ravel().astype(np.uint64), angles, float(amplitude), interleaved)
