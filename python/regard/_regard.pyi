from collections.abc import Sequence
from typing import Any, Literal, Protocol, TypeAlias, final, overload

import numpy as np
from numpy.typing import NDArray

__all__ = ["Attended", "attention", "forget_threads"]

class _DLPack(Protocol):
    def __dlpack__(self, *, stream: Any = ...) -> Any: ...

_Array: TypeAlias = NDArray[Any] | _DLPack
_Position: TypeAlias = Literal["top-left", "bottom-right"] | int
_Numbers: TypeAlias = Sequence[float] | NDArray[Any] | _DLPack
_Lengths: TypeAlias = Sequence[int] | NDArray[np.integer[Any]] | _DLPack
_Stage: TypeAlias = Literal["raw", "softcapped", "masked", "weights"]

@final
class Attended:
    @property
    def output(self) -> NDArray[np.float32]: ...
    @property
    def scores(self) -> NDArray[np.float32] | None: ...
    @property
    def log_sum_exp(self) -> NDArray[np.float32] | None: ...
    @property
    def present_key(self) -> Any: ...
    @property
    def present_value(self) -> Any: ...

# Without scores, lse and a past: the output alone.
@overload
def attention(
    q: _Array,
    k: _Array,
    v: _Array,
    *,
    causal: _Position | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    temperature: float = 1.0,
    window: tuple[int | None, int | None] | None = None,
    position: _Position | None = None,
    attn_mask: _Array | None = None,
    past_key: None = None,
    past_value: None = None,
    kv_lengths: _Lengths | None = None,
    sinks: _Numbers | None = None,
    alibi_slopes: _Numbers | None = None,
    scores: None = None,
    lse: Literal[False] = False,
    threads: int | None = None,
) -> NDArray[np.float32]: ...
@overload
def attention(
    q: _Array,
    k: _Array,
    v: _Array,
    *,
    causal: _Position | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    temperature: float = 1.0,
    window: tuple[int | None, int | None] | None = None,
    position: _Position | None = None,
    attn_mask: _Array | None = None,
    past_key: _Array | None = None,
    past_value: _Array | None = None,
    kv_lengths: _Lengths | None = None,
    sinks: _Numbers | None = None,
    alibi_slopes: _Numbers | None = None,
    scores: _Stage | None = None,
    lse: bool = False,
    threads: int | None = None,
) -> NDArray[np.float32] | Attended: ...
def forget_threads() -> None: ...
