"""The keys and values of the tokens so far."""

from __future__ import annotations

from typing import Any

import numpy as np


class KeyValueCache:
    """The keys and values of the tokens so far, to which new tokens attend.

    The memory has room for more tokens than there are, so that appending copies the new ones alone. When it is full it doubles. `keys`
    and `values` are views, which `attention` reads without copying. They have the type of the first arrays: NumPy's, or PyTorch's.

    Parameters
    ----------
    capacity : int
        The number of tokens for which there is room at first.

    Examples
    --------
    >>> import numpy as np, regard
    >>> cache = regard.KeyValueCache()
    >>> for step in range(3):
    ...     x = np.full((2, 1, 4), step, np.float32)  # two heads, one token
    ...     cache.append(x, x)
    ...     out = regard.attention(x, cache.keys, cache.values, causal="bottom-right")
    >>> len(cache), cache.keys.shape
    (3, (2, 3, 4))
    """

    def __init__(self, capacity: int = 64) -> None:
        if capacity < 1:
            raise ValueError(f"capacity is {capacity}, but 1 or more is needed")
        self._capacity = capacity
        self._memory: list[Any] = []
        self._start = self._end = self._forgotten = 0

    def append(self, keys: Any, values: Any) -> None:
        """Append the keys [..., kv_heads, n, d_k] and values [..., kv_heads, n, d_v] of n tokens."""
        given = [_own(name, array) for name, array in (("keys", keys), ("values", values))]
        n = given[0].shape[-2]
        if given[1].shape[:-1] != given[0].shape[:-1]:
            raise ValueError(f"`values` has the shape {list(given[1].shape)}, but all but the last axis of `keys` {list(given[0].shape)} is needed")
        for name, array, held in zip(("keys", "values"), given, self._memory):
            if _without_tokens(array) != _without_tokens(held) or array.dtype != held.dtype or type(array) is not type(held):
                raise ValueError(
                    f"`{name}` is {array.dtype} {list(array.shape)}, but the cache holds {held.dtype} with any number of tokens "
                    f"in {list(held.shape)}"
                )
        if not self._memory or self._end + n > self._capacity:
            self._move(given, n)
        for array, held in zip(given, self._memory):
            held[..., self._end : self._end + n, :] = array
        self._end += n

    def _move(self, given: list[Any], n: int) -> None:
        """To the start of the memory, or to a larger one if it would stay more than three quarters full."""
        held = len(self)
        if 4 * (held + n) > 3 * self._capacity or not self._memory:
            self._capacity = max(self._capacity if not self._memory else 2 * self._capacity, held + n)
        old = [self.keys, self.values] if self._memory else []
        self._memory = [_empty(array, (*array.shape[:-2], self._capacity, array.shape[-1])) for array in given]
        for array, memory in zip(old, self._memory):
            memory[..., :held, :] = array
        self._start, self._end = 0, held

    def _view(self, which: int) -> Any:
        if not self._memory:
            raise ValueError("the cache holds no token yet")
        return self._memory[which][..., self._start : self._end, :]

    @property
    def keys(self) -> Any:
        """[..., kv_heads, len, d_k], in the memory of the cache."""
        return self._view(0)

    @property
    def values(self) -> Any:
        """[..., kv_heads, len, d_v], in the memory of the cache."""
        return self._view(1)

    def __len__(self) -> int:
        return self._end - self._start

    @property
    def position(self) -> int:
        """The position of the next token: the number of all tokens so far, with those that `keep_last` has forgotten."""
        return self._forgotten + len(self)

    def keep_last(self, tokens: int) -> None:
        """Forget all but the last tokens: those that no window of a later query reaches. Positions continue."""
        gone = max(len(self) - tokens, 0)
        self._start += gone
        self._forgotten += gone

    def truncate(self, tokens: int) -> None:
        """Forget all but the first tokens in the cache, to continue the text in another way."""
        self._end = self._start + min(len(self), tokens)

    def __repr__(self) -> str:
        held = ", ".join(f"{array.dtype} {list(array.shape)}" for array in self._memory) or "nothing yet"
        return f"<KeyValueCache of {len(self)} tokens: room for {held}>"


def _own(name: str, array: Any) -> Any:
    """An array of NumPy or of PyTorch."""
    if hasattr(array, "new_empty"):
        return array.detach()
    if not hasattr(array, "__array__") and hasattr(array, "__dlpack__"):
        return np.from_dlpack(array)
    array = np.asarray(array)
    if array.ndim < 2:
        raise ValueError(f"`{name}` has the shape {list(array.shape)}, but [..., tokens, features] is needed")
    return array


def _without_tokens(array: Any) -> tuple[int, ...]:
    return (*array.shape[:-2], array.shape[-1])


def _empty(like: Any, shape: tuple[int, ...]) -> Any:
    return like.new_empty(shape) if hasattr(like, "new_empty") else np.empty(shape, like.dtype)
