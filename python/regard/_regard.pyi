from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias, final, overload

import numpy as np
from numpy.typing import NDArray

from .mask import Mask

__all__ = ["Attended", "Gradients", "Opened", "Prepared", "Unchanged", "__version__", "alibi_slopes", "attention", "attention_backward", "forget_threads", "heads_page", "rotate", "set_num_threads"]

__version__: str

class _DLPack(Protocol):
    def __dlpack__(self, *, stream: Any = ...) -> Any: ...

_Array: TypeAlias = NDArray[Any] | _DLPack
_Position: TypeAlias = Literal["top-left", "bottom-right"] | int
_Numbers: TypeAlias = Sequence[float] | NDArray[Any] | _DLPack
_Lengths: TypeAlias = Sequence[int] | NDArray[np.integer[Any]] | _DLPack
_Words: TypeAlias = str | list[int] | NDArray[np.uint8] | NDArray[np.float32]
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
class Gradients:
    @property
    def q(self) -> NDArray[np.float32]: ...
    @property
    def k(self) -> NDArray[np.float32]: ...
    @property
    def v(self) -> NDArray[np.float32]: ...
    @property
    def scale(self) -> float: ...
    @property
    def attn_mask(self) -> NDArray[np.float32] | None: ...
    @property
    def sinks(self) -> NDArray[np.float32] | None: ...

@final
class Prepared:
    @property
    def tokens(self) -> list[str]: ...
    @property
    def decoder_tokens(self) -> list[str]: ...
    @property
    def unknown(self) -> list[str]: ...
    @property
    def ids(self) -> list[int]: ...
    @property
    def types(self) -> list[int]: ...
    @property
    def decoder_ids(self) -> list[int]: ...
    @property
    def lengths(self) -> tuple[int, int]: ...

@final
class Unchanged:
    def logits(self) -> NDArray[np.float32] | None: ...

@final
class Opened:
    BUNDLED: list[str]
    @staticmethod
    def open(path: Path, threads: int | None) -> Opened: ...
    def description(self) -> str: ...
    def places(self) -> list[str]: ...
    def heads(self) -> list[str]: ...
    def named(self, patterns: list[str]) -> list[str]: ...
    def outputs(self) -> list[tuple[str, list[str], bool]]: ...
    def streams(self) -> list[str]: ...
    def logits(self) -> int: ...
    def parameter(self, name: str) -> NDArray[np.float32] | None: ...
    def has_tokenizer(self) -> bool: ...
    def prepare(self, given: _Words, rate: int, pair: str | None, chat: bool, decoder: str | list[int] | None) -> Prepared: ...
    def source(self, given: _Words, rate: int, beside: Prepared) -> str: ...
    def edges(self, head: str, of: Prepared) -> tuple[int, int]: ...
    def positions_at(self, place: str, of: Prepared) -> int: ...
    def logit_named(self, name: str) -> int: ...
    def measure(self, given: Prepared, plus: int, minus: int | None, position: int | None) -> tuple[int, int, bool]: ...
    def decode(self, ids: list[int]) -> str: ...
    def names(self, ids: list[int]) -> list[str]: ...
    @staticmethod
    def wav(file: bytes) -> tuple[NDArray[np.float32], int]: ...
    def unchanged(self, inputs: Sequence[Prepared]) -> Unchanged: ...
    def run(
        self,
        inputs: Sequence[Prepared],
        keep: list[str],
        changes: str,
        hooks: Sequence[tuple[str, Any]],
        last: bool,
        after: Unchanged | None = None,
    ) -> tuple[NDArray[np.float32] | None, dict[str, NDArray[np.float32]]]: ...
    def cells(self, each: str) -> list[tuple[str, int]]: ...
    def sweep(
        self, given: Prepared, each: str, last: bool, done: Any
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]: ...
    def attribute(self, given: Prepared, changes: str, position: int, plus: int, minus: int | None) -> str: ...
    def score(self, given: Prepared, changes: str, head: str, query: int, key: int) -> str: ...
    def lens(self, stream: NDArray[np.float32]) -> NDArray[np.float32] | None: ...
    def probabilities(self, logits: NDArray[np.float32]) -> NDArray[np.float64] | None: ...
    def generate(self, given: Prepared, changes: str, tokens: int, temperature: float, seed: int) -> list[int]: ...

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
    mask: Mask | None = None,
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
    mask: Mask | None = None,
    past_key: _Array | None = None,
    past_value: _Array | None = None,
    kv_lengths: _Lengths | None = None,
    sinks: _Numbers | None = None,
    alibi_slopes: _Numbers | None = None,
    scores: _Stage | None = None,
    lse: bool = False,
    threads: int | None = None,
) -> NDArray[np.float32] | Attended: ...
def attention_backward(
    q: _Array,
    k: _Array,
    v: _Array,
    out: _Array,
    d_out: _Array,
    *,
    causal: _Position | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    temperature: float = 1.0,
    window: tuple[int | None, int | None] | None = None,
    position: _Position | None = None,
    attn_mask: _Array | None = None,
    mask: Mask | None = None,
    kv_lengths: _Lengths | None = None,
    sinks: _Numbers | None = None,
    alibi_slopes: _Numbers | None = None,
    threads: int | None = None,
) -> Gradients: ...
def alibi_slopes(heads: int) -> NDArray[np.float32]: ...
def forget_threads() -> None: ...
def heads_page(values: NDArray[np.float32], title: str, layers: list[str], tokens: Sequence[Sequence[list[str]]]) -> str: ...
def rotate(x: _Array, positions: NDArray[np.uint64], frequencies: NDArray[np.float64], amplitude: float, interleaved: bool) -> NDArray[np.float32]: ...
def set_num_threads(threads: int) -> None: ...
