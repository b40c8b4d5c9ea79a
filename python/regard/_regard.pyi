from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias, final, overload

import numpy as np
from numpy.typing import NDArray

__all__ = ["Attended", "Opened", "attention", "forget_threads"]

class _DLPack(Protocol):
    def __dlpack__(self, *, stream: Any = ...) -> Any: ...

_Array: TypeAlias = NDArray[Any] | _DLPack
_Position: TypeAlias = Literal["top-left", "bottom-right"] | int
_Numbers: TypeAlias = Sequence[float] | NDArray[Any] | _DLPack
_Lengths: TypeAlias = Sequence[int] | NDArray[np.integer[Any]] | _DLPack
_Input: TypeAlias = tuple[list[int], list[int], list[int], NDArray[np.float32] | None]
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

@final
class Opened:
    @staticmethod
    def open(path: Path | None, threads: int | None) -> Opened: ...
    def description(self) -> str: ...
    def places(self) -> list[str]: ...
    def named(self, patterns: list[str]) -> list[str]: ...
    def outputs(self) -> list[tuple[str, list[str], bool]]: ...
    def streams(self) -> list[str]: ...
    def logits(self) -> int: ...
    def parameter(self, name: str) -> NDArray[np.float32] | None: ...
    def has_tokenizer(self) -> bool: ...
    def encode(self, text: str, pair: str | None) -> tuple[list[int], list[int]]: ...
    def encode_as_is(self, text: str) -> list[int]: ...
    def decode(self, ids: list[int]) -> str: ...
    def token(self, id: int) -> str | None: ...
    def id(self, token: str) -> int | None: ...
    def unknown(self, text: str) -> list[str]: ...
    def prompt(self, text: str) -> str: ...
    def image(self, image: NDArray[np.uint8]) -> NDArray[np.float32]: ...
    def run(
        self, inputs: Sequence[_Input], keep: list[str], changes: str, hooks: Sequence[tuple[str, Any]], last: bool
    ) -> tuple[NDArray[np.float32] | None, dict[str, NDArray[np.float32]]]: ...
    def sweep(
        self, given: _Input, changes: str, from_: _Input | None, last: bool, done: Any
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]: ...
    def attribute(self, given: _Input, changes: str, position: int, plus: int, minus: int | None) -> str: ...
    def score(self, given: _Input, changes: str, head: str, query: int, key: int) -> str: ...
    def lens(self, stream: NDArray[np.float32]) -> NDArray[np.float32] | None: ...
    def generate(self, given: _Input, changes: str, tokens: int, temperature: float, seed: int) -> list[int]: ...

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
