"""TransformerLens's calls on a `Model`: `from regard.lens import HookedTransformer`.

A notebook that is written for TransformerLens runs with the import changed. Arrays always have a batch axis. They are tensors if PyTorch
is imported, which share the memory of the run, and NumPy arrays otherwise. There are no gradients.

`HookedTransformer.from_pretrained` processes the weights as TransformerLens does: norms are folded into the layers after them, what is
written into the stream is centred (of a model with layer norms), the biases of values become one of the layer, and the unembedding is
centred. The model itself stays as its file has it: the arrays of a run and the weights are turned into that form when they are read, and
back when a hook has written into them. `TransformerBridge.boot_transformers` leaves them as they are, until `enable_compatibility_mode`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np

from ._cache import nearest
from ._lens_cache import NO_GRADIENTS, ActivationCache, FactoredMatrix, HookPoint, get_act_name, given, place_of, taken, utils
from ._lens_tokenizer import Tokenizer
from ._lens_weights import Processed
from ._model import _WEIGHTS, Model

__all__ = ["ActivationCache", "FactoredMatrix", "HookPoint", "HookedTransformer", "TransformerBridge", "get_act_name", "utils"]

#: The names that TransformerLens accepts for a model, besides those of its files.
_NAMES = {"gpt2-small": "gpt2", "gpt2-xl": "openai-community/gpt2-xl", "gpt2-medium": "openai-community/gpt2-medium"}
#: The families whose texts TransformerLens begins without a token of its own.
_WITHOUT_BOS = {"qwen2", "qwen3", "phi", "mpt", "gpt_neox", "glm", "exaone"}
#: Places that TransformerLens has only if a flag asks for them.
_FLAGGED = {"hook_result": "attn_result", "hook_q_input": "split_qkv_input", "hook_k_input": "split_qkv_input",
            "hook_v_input": "split_qkv_input", "hook_mlp_in": "hook_mlp_in"}


class _Part:
    """A part of a model, such as `model.blocks[0].attn`: its weights, its places and its parts."""

    def __init__(self, model: HookedTransformer, path: str) -> None:
        self._model, self._path = model, path

    def __getattr__(self, name: str) -> Any:
        full, model = f"{self._path}.{name}", self._model
        if name in _WEIGHTS and self._path.startswith("blocks."):
            return given(model._weight(name, int(self._path.split(".")[1])))
        if full in model.hook_dict:
            return model.hook_dict[full]
        if any(place.startswith(f"{full}.") for place in model.hook_dict):
            return _Part(model, full)
        raise AttributeError(f"there is no {full}")


class _Stop(Exception):
    """Ends a run before a layer, or after functions that have changed nothing."""


class HookedTransformer(Processed):
    """A model with TransformerLens's calls. `plain` is the `Model` that it runs.

    >>> from regard.lens import HookedTransformer
    >>> model = HookedTransformer.from_pretrained("english")
    >>> logits, cache = model.run_with_cache("When Mary and John went to the store, John gave a drink to")
    >>> model.to_string([logits[0, -1].argmax()]), tuple(cache["pattern", 5].shape)
    (' Mary', (1, 6, 15, 15))
    """

    def __init__(self, plain: Model, **processing: Any) -> None:
        super().__init__(plain)
        self._flags: set[str] = set()
        block = plain._description["stack"]["block"]
        self.hook_dict = {name: HookPoint(name) for name in plain._places if not name.endswith(".hook_out")}
        begins = [int(i) for i in plain.to_tokens("")] if plain._opened.has_tokenizer() else []
        self.tokenizer = Tokenizer(plain, begins)
        self.cfg = SimpleNamespace(**vars(plain.cfg), device="cpu", dtype="float32", attn_only=False, gated_mlp=block["gated"],
                                   normalization_type="LN" if self._is_layer_norm else "RMS", tokenizer_prepends_bos=bool(begins),
                                   default_prepend_bos=plain.cfg.original_architecture not in _WITHOUT_BOS,
                                   use_attn_result=False, use_split_qkv_input=False, use_hook_mlp_in=False)
        self.blocks = [_Part(self, f"blocks.{at}") for at in range(self.cfg.n_layers)]
        self._known = SimpleNamespace(key=None)
        self.enable_compatibility_mode(**processing)

    @classmethod
    def from_pretrained(cls, model_name: str, fold_ln: bool = True, center_writing_weights: bool = True, center_unembed: bool = True,
                        refactor_factored_attn_matrices: bool = False, fold_value_biases: bool = True, device: Any = None, dtype: Any = None,
                        default_prepend_bos: bool | None = None, threads: int | None = None, download: bool = False) -> HookedTransformer:
        """Opens a model: what `regard.Model` opens, or TransformerLens's name. `refactor_factored_attn_matrices` changes no product of
        two matrices, and is left out. `device` and `dtype` are the CPU and float32."""
        try:
            plain = Model(model_name, threads=threads, download=download)
        except FileNotFoundError:
            if model_name not in _NAMES:
                raise
            plain = Model(_NAMES[model_name], threads=threads, download=download)
        model = cls(plain, fold_ln=fold_ln, center_writing_weights=center_writing_weights, center_unembed=center_unembed, fold_value_biases=fold_value_biases)
        if default_prepend_bos is not None:
            model.cfg.default_prepend_bos = default_prepend_bos
        return model

    @classmethod
    def boot_transformers(cls, model_name: str, **options: Any) -> HookedTransformer:
        """Opens a model whose weights and arrays are as in its file."""
        return cls.from_pretrained(model_name, False, False, False, False, False, **options)

    @classmethod
    def from_pretrained_no_processing(cls, model_name: str, **options: Any) -> HookedTransformer:
        """The name of `boot_transformers` in older notebooks."""
        return cls.boot_transformers(model_name, **options)

    # Tokens

    def to_tokens(self, input: Any, prepend_bos: bool | None = None, padding_side: str = "right", **_: Any) -> Any:
        """The ids of a text or of several: [batch, n]. Shorter texts are padded at the right."""
        prepend = self.cfg.default_prepend_bos if prepend_bos is None else prepend_bos
        rows = [self.tokenizer.ids(text, prepend) for text in ([input] if isinstance(input, str) else input)]
        if padding_side != "right" and len({len(row) for row in rows}) > 1:
            raise NotImplementedError("texts are padded at the right only")
        longest = max(len(row) for row in rows)
        return given(np.array([row + [self.tokenizer.pad_token_id] * (longest - len(row)) for row in rows], np.int64).reshape(len(rows), longest))

    def to_str_tokens(self, input: Any, prepend_bos: bool | None = None, padding_side: str = "right") -> Any:
        """The tokens of a text or of ids as texts; of a list, a list of them."""
        if isinstance(input, (list, tuple)):
            return [self.to_str_tokens(one, prepend_bos) for one in input]
        ids = taken(self.to_tokens(input, prepend_bos) if isinstance(input, str) else input)
        return [self.tokenizer.decode([int(i)]) for i in ids.ravel()]

    def to_string(self, tokens: Any) -> Any:
        """The text of ids; of a batch, the texts."""
        tokens = np.array([int(i) for i in tokens]) if isinstance(tokens, (list, tuple)) and not isinstance(tokens[0], (list, tuple)) else taken(tokens)
        return [self.tokenizer.decode(row) for row in tokens] if tokens.ndim == 2 else self.tokenizer.decode(tokens.ravel())

    def to_single_token(self, string: str) -> int:
        """The id of a text that is one token."""
        ids = self.tokenizer.ids(string, False)
        if len(ids) != 1:
            raise ValueError(f"{string!r} is no single token: it is {self.to_str_tokens(np.array(ids))}")
        return ids[0]

    def to_single_str_token(self, int_token: int) -> str:
        """The text of a token."""
        return self.tokenizer.decode([int_token])

    def get_token_position(self, single_token: Any, input: Any, mode: str = "first", prepend_bos: bool | None = None) -> int:
        """Where a token stands in a text: the first time, or the last."""
        ids = taken(self.to_tokens(input, prepend_bos) if isinstance(input, str) else input).ravel()
        found = np.flatnonzero(ids == (self.to_single_token(single_token) if isinstance(single_token, str) else int(single_token)))
        if not len(found):
            raise ValueError(f"the token {single_token!r} does not occur in the text")
        return int(found[0 if mode == "first" else -1])

    # Runs

    def __call__(self, input: Any, return_type: str | None = "logits", **options: Any) -> Any:
        return self._run(input, {}, return_type=return_type, **options)[0]

    forward = __call__

    def run_with_cache(self, input: Any, return_cache_object: bool = True, remove_batch_dim: bool = False, names_filter: Any = None,
                       fwd_hooks: Any = (), **options: Any) -> tuple[Any, Any]:
        """What `return_type` asks for, and the places of the run: all, a name, a list of names, or those for which a function is true."""
        if options.pop("incl_bwd", False):
            raise NotImplementedError(NO_GRADIENTS)
        on = {place for place, flag in _FLAGGED.items() if flag in self._flags}
        usual = [name for name in self.hook_dict if (last := name.rsplit(".", 1)[-1]) not in _FLAGGED or last in on]
        names = usual if names_filter is None else [n for n in self.hook_dict if names_filter(n)] if callable(names_filter) else [names_filter] if isinstance(names_filter, str) else list(names_filter)
        out, kept = self._run(input, dict.fromkeys(self._point(name).name for name in names), fwd_hooks, **options)
        cache = ActivationCache(kept, self)
        cache = cache.remove_batch_dim() if remove_batch_dim else cache
        return out, cache if return_cache_object else dict(cache.items())

    def run_with_hooks(self, input: Any, fwd_hooks: Any = (), bwd_hooks: Any = (), return_type: str | None = "logits", reset_hooks_end: bool = True,
                       clear_contexts: bool = False, **options: Any) -> Any:
        """What `return_type` asks for, of a run in which `function(array, hook=point)` is called at places, and may change them."""
        with self.hooks(fwd_hooks, bwd_hooks, reset_hooks_end, clear_contexts):
            return self._run(input, {}, return_type=return_type, **options)[0]

    def _point(self, name: str) -> HookPoint:
        try:
            return self.hook_dict[place_of(name)]
        except KeyError:
            raise nearest(name, self.hook_dict, "the model has no place") from None

    def add_hook(self, name: Any, hook: Any, dir: str = "fwd", is_permanent: bool = False) -> None:
        """Calls a function at a place, or at those for which `name` is true, in later runs."""
        for point in [point for place, point in self.hook_dict.items() if name(place)] if callable(name) else [self._point(name)]:
            point.add_hook(hook, dir, is_permanent)

    def add_perma_hook(self, name: Any, hook: Any, dir: str = "fwd") -> None:
        """As `add_hook`, and `reset_hooks` leaves it."""
        self.add_hook(name, hook, dir, True)

    def reset_hooks(self, clear_contexts: bool = True, direction: str = "both", including_permanent: bool = False, level: Any = None) -> None:
        """Removes all functions."""
        for point in self.hook_dict.values():
            point.remove_hooks(including_permanent=including_permanent)
            point.ctx = {} if clear_contexts else point.ctx

    @contextmanager
    def hooks(self, fwd_hooks: Any = (), bwd_hooks: Any = (), reset_hooks_end: bool = True, clear_contexts: bool = False) -> Iterator[HookedTransformer]:
        """Calls functions at places in the runs of the block."""
        if len(bwd_hooks):
            raise NotImplementedError(NO_GRADIENTS)
        before = {point: list(point.fwd_hooks) for point in self.hook_dict.values()}
        try:
            for name, hook in fwd_hooks:
                self.add_hook(name, hook)
            yield self
        finally:
            for point, hooks in before.items():
                point.fwd_hooks = hooks if reset_hooks_end else point.fwd_hooks
                point.ctx = {} if clear_contexts else point.ctx

    def _run(self, input: Any, keep: dict[str, Any], fwd_hooks: Any = (), *, return_type: str | None = "logits", prepend_bos: bool | None = None,
             stop_at_layer: int | None = None, loss_per_token: bool = False, **unknown: Any) -> tuple[Any, dict[str, np.ndarray]]:
        if names := {name for name, value in unknown.items() if value is not None}:
            raise TypeError(f"there is no option {sorted(names)[0]!r}")
        is_text = isinstance(input, str) or (isinstance(input, (list, tuple)) and isinstance(input[0], str))
        ids = taken(self.to_tokens(input, prepend_bos) if is_text else input)
        ids = ids.reshape(-1, ids.shape[-1])
        kept: dict[str, np.ndarray] = {}
        with self.hooks(fwd_hooks) if fwd_hooks else nullcontext():
            hooked = [point for point in self.hook_dict.values() if point.fwd_hooks]
            changes = SimpleNamespace(left=len(hooked), any=False, ends=False)
            called = [(point.name, self._caller(point, len(ids) > 1, changes)) for point in hooked]
        places, stop = list(keep), None
        if stop_at_layer is not None:
            at = range(self.cfg.n_layers)[stop_at_layer] if stop_at_layer < 0 else stop_at_layer
            stop = f"blocks.{at}.hook_resid_pre" if at < self.cfg.n_layers else f"blocks.{self.cfg.n_layers - 1}.hook_resid_post"
            order = list(self.hook_dict)
            ended = order.index(stop)
            places, kept_before = [], [name for name in keep if order.index(name) < ended] + [stop]
            called = [one for one in called if order.index(one[0]) <= ended] + [(name, self._keeper(kept, stop)) for name in kept_before]
        known = self._of_tokens(ids)
        layered = all(name.startswith("blocks.") for name in (*places, *(name for name, _ in called)))
        if called and layered:
            # From the second hooked run of these tokens on, layers before the first hook are not computed again.
            if known is self._known and known.unchanged is None:
                known.unchanged = self.plain._opened.unchanged(known.inputs)
            self._known = known
        after: Any = known.unchanged if called and layered else None
        changes.ends = after is not None and not keep and stop is None
        logits: Any = None
        try:
            logits, arrays = self.plain._opened.run(known.inputs, places, "[]", called, return_type is None or stop is not None, *(() if after is None else (after,)))
            kept = {name: array if len(ids) > 1 else array[None] for name, array in arrays.items()}
            logits = self._centred(logits, len(ids))
        except _Stop:
            kept = {name: array if len(ids) > 1 else array[None] for name, array in kept.items()}
            if stop is None:
                known.logits = self._centred(after.logits(), len(ids)) if known.logits is None else known.logits
                logits = known.logits.copy()
        kept = {name: self._seen(name, array) for name, array in kept.items()}
        if stop is not None:
            out = kept[stop]
            return given(out), {name: array for name, array in kept.items() if name in keep and name != stop}
        return self._answer(logits, ids, return_type, loss_per_token), kept

    def _of_tokens(self, ids: np.ndarray) -> Any:
        """What is known of these tokens: their inputs, and from the second hooked run of them on, the unchanged run and its logits."""
        key = ids.shape, ids.tobytes(), self._centres_logits
        if self._known.key == key:
            return self._known
        inputs = [self.plain._prepared([int(i) for i in row]) for row in self._checked(ids)]
        return SimpleNamespace(key=key, inputs=inputs, unchanged=None, logits=None)

    def _centred(self, logits: Any, batch: int) -> Any:
        """Logits with a batch axis, as the processed unembedding gives them. They are changed in place."""
        if logits is None:
            return None
        logits = logits if batch > 1 else logits[None]
        if self._centres_logits:
            logits -= logits.mean(-1, keepdims=True)
        return logits

    def _checked(self, ids: np.ndarray) -> np.ndarray:
        if ids.dtype.kind not in "iu" or not ids.size or ids.min() < 0 or ids.max() >= self.cfg.d_vocab:
            raise ValueError(f"tokens are whole numbers from 0 to {self.cfg.d_vocab - 1}, [batch, n], not {ids.dtype} of the shape {ids.shape}")
        return ids

    def _caller(self, point: HookPoint, is_batch: bool, changes: SimpleNamespace) -> Any:
        """The functions of a place, for the compiled part. If those of all places have changed nothing, the run ends: its logits are known."""
        hooks = [hook for hook, _ in point.fwd_hooks]

        def call(array: np.ndarray, name: str) -> Any:
            array = array if is_batch else array[None]
            now = self._seen(name, array)
            before = now.copy()
            for hook in hooks:
                result = hook(given(now), hook=point)
                now = now if result is None else np.broadcast_to(taken(result), array.shape)
            is_same = np.array_equal(now, before)
            changes.any, changes.left = changes.any or not is_same, changes.left - 1
            if changes.ends and not changes.any and not changes.left:
                raise _Stop
            if now is array or is_same:
                return None
            now = self._seen(name, now, -1)
            return now if is_batch else now[0]

        return call

    @staticmethod
    def _keeper(kept: dict[str, np.ndarray], stop: str) -> Any:
        def call(array: np.ndarray, name: str) -> None:
            kept[name] = array.copy()
            if name == stop:
                raise _Stop

        return call

    def _answer(self, logits: Any, ids: np.ndarray, return_type: str | None, per_token: bool) -> Any:
        if return_type not in (None, "logits", "loss", "both"):
            raise ValueError(f"return_type is 'logits', 'loss', 'both' or None, not {return_type!r}")
        if return_type in (None, "logits"):
            return None if return_type is None else given(logits)
        loss = self.loss_fn(logits, ids, per_token)
        return (given(logits), loss) if return_type == "both" else loss

    def loss_fn(self, logits: Any, tokens: Any, per_token: bool = False) -> Any:
        """The cross-entropy of the next tokens, in nats: the mean, or [batch, n - 1]."""
        logits, tokens = taken(logits)[:, :-1].astype(np.float64), taken(tokens)
        most = logits.max(-1)
        total = np.log(np.exp(logits - most[..., None]).sum(-1)) + most
        loss = (total - np.take_along_axis(logits, tokens[:, 1:, None], -1)[..., 0]).astype(np.float32)
        return given(loss if per_token else np.asarray(loss.mean()))

    def generate(self, input: Any, max_new_tokens: int = 10, do_sample: bool = True, temperature: float = 1.0, prepend_bos: bool | None = None,
                 return_type: str = "input", verbose: bool = True, stop_at_eos: bool = True, **options: Any) -> Any:
        """Continues a text or tokens [1, n]. PyTorch's generator of random numbers draws them if it is imported, else NumPy's."""
        if unknown := {name for name, value in options.items() if value is not None and name not in ("use_past_kv_cache", "eos_token_id")}:
            raise TypeError(f"there is no option {sorted(unknown)[0]!r}")
        torch, is_text = sys.modules.get("torch"), isinstance(input, (str, list))
        ids = taken(self.to_tokens(input, prepend_bos) if is_text else input)
        ids = ids.reshape(-1, ids.shape[-1])
        if any(point.fwd_hooks for point in self.hook_dict.values()):
            if do_sample:
                raise NotImplementedError("tokens are not drawn while hooks change the run: do_sample=False takes the likeliest")
            for _ in range(max_new_tokens):
                ids = np.concatenate([ids, taken(self(given(ids)))[:, -1].argmax(-1)[:, None]], 1)
        else:
            heat = float(temperature) if do_sample else 0.0
            seed = 0 if not heat else int(torch.randint(2**31, (1,))) if torch else int(np.random.randint(2**31))
            rows = [self.plain.generate(row, max_new_tokens, temperature=heat, seed=(seed + i) % 2**31) for i, row in enumerate(self._checked(ids))]
            longest = max(map(len, rows))
            ids = np.array([[*row, *[self.tokenizer.eos_token_id] * (longest - len(row))] for row in rows], np.int64)
        if return_type == "tokens" or (return_type == "input" and not is_text):
            return given(ids)
        texts = [self.tokenizer.decode(row[1:] if row[0] == self.tokenizer.bos_token_id else row) for row in ids]
        return texts if isinstance(input, list) else texts[0]

    def __getattr__(self, name: str) -> Any:
        if name in _WEIGHTS:
            return given(self._layers(name))
        if name in ("W_E", "W_pos", "W_U", "b_U"):
            if name not in self._weights:
                self._weights[name] = self._of_ends(name)
            return given(self._weights[name])
        places = self.__dict__.get("hook_dict", {})
        if name in places:
            return places[name]
        if any(place.startswith(f"{name}.") for place in places):
            return _Part(self, name)
        raise AttributeError(f"HookedTransformer has no attribute {name!r}")

    # Settings

    def _flag(self, flag: str, on: bool) -> None:
        self._flags = self._flags | {flag} if on else self._flags - {flag}
        setattr(self.cfg, f"use_{flag}", on)

    def set_use_attn_result(self, on: bool) -> None:
        """Whether a cache has `hook_result`."""
        self._flag("attn_result", on)

    def set_use_split_qkv_input(self, on: bool) -> None:
        """Whether a cache has `hook_q_input`, `hook_k_input` and `hook_v_input`."""
        self._flag("split_qkv_input", on)

    def set_use_hook_mlp_in(self, on: bool) -> None:
        """Whether a cache has `hook_mlp_in`."""
        self._flag("hook_mlp_in", on)

    def to(self, *_: Any, **__: Any) -> HookedTransformer:
        """The model, which stays on the CPU and in float32."""
        return self

    eval = cpu = to

    def __repr__(self) -> str:
        return f"HookedTransformer of {self.plain!r}"


#: The name of the same calls in TransformerLens 3 and later: `boot_transformers` opens a model as its file has it.
TransformerBridge = HookedTransformer
