"""What `regard.lens` gives and takes: arrays, names of places, products of matrices, and the cache of a run."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from ._cache import nearest

if TYPE_CHECKING:
    from .lens import HookedTransformer

NO_GRADIENTS = "there are no gradients here, so no function can be called with them (bwd_hooks): use TransformerLens for that"


def given(array: Any) -> Any:
    """An array for the user."""
    torch = sys.modules.get("torch")
    return array if torch is None or not isinstance(array, np.ndarray) else torch.from_numpy(np.asarray(array, order="C"))


def taken(array: Any) -> Any:
    """An array of the user."""
    return array.detach().cpu().numpy() if hasattr(array, "detach") else np.asarray(array)


def part_of(array: np.ndarray, part: Any, axis: int) -> np.ndarray:
    """A position, a range (start, end) or several of them along an axis."""
    if part is None:
        return array
    part = slice(*part) if isinstance(part, tuple) else part if isinstance(part, (int, slice)) else taken(part)
    index: list[Any] = [slice(None)] * array.ndim
    index[axis] = part
    return array[tuple(index)]


def get_act_name(name: str, layer: Any = None, layer_type: str | None = None) -> str:
    """The name of a place from its short form.

    >>> get_act_name("resid_pre", 3), get_act_name("z", 3, "attn"), get_act_name("k6"), get_act_name("scale", 4, "ln1")
    ('blocks.3.hook_resid_pre', 'blocks.3.attn.hook_z', 'blocks.6.attn.hook_k', 'blocks.4.ln1.hook_scale')
    """
    if ("." in name or name.startswith("hook_")) and layer is None and layer_type is None:
        return name
    if match := re.fullmatch(r"([a-z_]+?)(\d+)([a-z]?.*)", name):
        name, layer, layer_type = match[1], match[2], match[3] or layer_type
    name = {"attn": "pattern", "attn_logits": "attn_scores", "key": "k", "query": "q", "value": "v"}.get(name, name)
    name = re.sub(r"^mlp_(pre|mid|post)$", r"\1", name)
    if name in ("k", "v", "q", "z", "rot_k", "rot_q", "result", "pattern", "attn_scores"):
        layer_type = "attn"
    elif name in ("pre", "post", "mid", "pre_linear"):
        layer_type = "mlp"
    else:
        layer_type = {"a": "attn", "m": "mlp", "b": "", "block": "", "blocks": "", "attention": "attn"}.get(layer_type or "", layer_type)
    if name in ("scale", "normalized") and layer is None:
        return f"ln_final.hook_{name}"
    return (f"blocks.{layer}." if layer is not None else "") + (f"{layer_type}." if layer_type else "") + f"hook_{name}"


def place_of(*key: Any) -> str:
    """The name of a place in the run. TransformerLens has two names of what each head reads."""
    return re.sub(r"^(blocks\.\d+)\.(hook_[qkv]_input)$", r"\1.attn.\2", get_act_name(*key))


def _test_prompt(prompt: str, answer: str, model: HookedTransformer, prepend_space_to_answer: bool = True, prepend_bos: Any = None, top_k: int = 10) -> None:
    """Prints how likely a model finds an answer of one token, and what it finds likelier."""
    answer = f" {answer}" if prepend_space_to_answer and not answer.startswith(" ") else answer
    print("Tokenized prompt:", model.to_str_tokens(prompt, prepend_bos=prepend_bos))
    logits = taken(model(prompt, prepend_bos=prepend_bos))[0, -1].astype(np.float64)
    probabilities, order, token = np.exp(logits - np.logaddexp.reduce(logits)), np.argsort(-logits), model.to_single_token(answer)
    rank = int(np.flatnonzero(order == token)[0])
    print(f"Rank: {rank: <8} Logit: {logits[token]:5.2f} Prob: {probabilities[token]:6.2%} Token: |{answer}|")
    for i, other in enumerate(order[:top_k]):
        print(f"Top {i}th token. Logit: {logits[other]:5.2f} Prob: {probabilities[other]:6.2%} Token: |{model.to_string([other])}|")


#: The functions of `transformer_lens.utils` that studies call.
utils = SimpleNamespace(get_act_name=get_act_name, to_numpy=taken, get_device=lambda: "cpu", test_prompt=_test_prompt)


class HookPoint:
    """A place at which functions are called. `ctx` is a dictionary for what they keep."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.ctx: dict[str, Any] = {}
        self.fwd_hooks: list[tuple[Any, bool]] = []

    def layer(self) -> int:
        """The layer of the place."""
        return int(self.name.split(".")[1])

    def add_hook(self, hook: Any, dir: str = "fwd", is_permanent: bool = False, prepend: bool = False) -> None:
        """Calls `hook(array, hook=point)` at the place in later runs."""
        if dir != "fwd":
            raise NotImplementedError(NO_GRADIENTS)
        self.fwd_hooks.insert(0 if prepend else len(self.fwd_hooks), (hook, is_permanent))

    def remove_hooks(self, dir: str = "fwd", including_permanent: bool = False) -> None:
        """Calls the functions no longer."""
        self.fwd_hooks = [one for one in self.fwd_hooks if one[1] and not including_permanent]

    def __repr__(self) -> str:
        return f"HookPoint({self.name!r}, {len(self.fwd_hooks)} hooks)"


class FactoredMatrix:
    """The product A @ B of two matrices, or of many, which is not written out."""

    def __init__(self, a: Any, b: Any) -> None:
        self._a, self._b = taken(a), taken(b)
        self.shape = np.broadcast_shapes(self._a.shape[:-2], self._b.shape[:-2]) + (self._a.shape[-2], self._b.shape[-1])
        self.ndim = len(self.shape)

    @property
    def A(self) -> Any:  # noqa: N802
        """The left factor."""
        return given(self._a)

    @property
    def B(self) -> Any:  # noqa: N802
        """The right factor."""
        return given(self._b)

    @property
    def AB(self) -> Any:  # noqa: N802
        """The product."""
        return given(self._a @ self._b)

    @property
    def T(self) -> FactoredMatrix:  # noqa: N802
        """The transpose."""
        return FactoredMatrix(self._b.swapaxes(-1, -2), self._a.swapaxes(-1, -2))

    @property
    def U(self) -> Any:  # noqa: N802
        """The left singular vectors, as columns."""
        return self.svd()[0]

    @property
    def S(self) -> Any:  # noqa: N802
        """The singular values."""
        return self.svd()[1]

    @property
    def Vh(self) -> Any:  # noqa: N802
        """The right singular vectors, as rows."""
        return self.svd()[2]

    @property
    def V(self) -> Any:  # noqa: N802
        """The right singular vectors, as columns."""
        return given(taken(self.svd()[2]).swapaxes(-1, -2))

    @property
    def eigenvalues(self) -> Any:
        """The eigenvalues that are not 0 for the sizes alone."""
        return given(np.linalg.eigvals(self._b @ self._a))

    def svd(self) -> tuple[Any, Any, Any]:
        """U, S and Vh of the product, from those of its factors."""
        (ua, sa, va), (ub, sb, vb) = (np.linalg.svd(x, full_matrices=False) for x in (self._a, self._b))
        u, s, v = np.linalg.svd((sa[..., None] * va) @ (ub * sb[..., None, :]), full_matrices=False)
        return given(ua @ u), given(s), given(v @ vb)

    def norm(self) -> Any:
        """The Frobenius norm."""
        return given(np.asarray(np.sqrt((taken(self.svd()[1]) ** 2).sum(-1))))

    def __matmul__(self, other: Any) -> Any:
        if isinstance(other, FactoredMatrix):
            return (self @ other._a) @ other._b
        other = taken(other)
        if other.ndim < 2:
            return given(self._a @ (self._b @ other))
        return FactoredMatrix(self._a, self._b @ other) if self._a.shape[-1] <= other.shape[-1] else FactoredMatrix(self._a @ (self._b @ other), np.eye(other.shape[-1], dtype=other.dtype))

    def __rmatmul__(self, other: Any) -> Any:
        other = taken(other)
        return given(other @ self._a @ self._b) if other.ndim < 2 else FactoredMatrix(other @ self._a, self._b)

    def __mul__(self, number: float) -> FactoredMatrix:
        return FactoredMatrix(self._a * float(number), self._b)

    __rmul__ = __mul__
    __array_priority__ = 1000

    def __getitem__(self, index: Any) -> FactoredMatrix:
        index = index if isinstance(index, tuple) else (index,)
        lead = self.ndim - 2
        head, row, column = index[:lead], (*index[lead : lead + 1], slice(None))[:1], (*index[lead + 1 :], slice(None))[:1]
        a, b = (np.broadcast_to(x, self.shape[:-2] + x.shape[-2:])[head] for x in (self._a, self._b))
        keep = [slice(i, i + 1) if isinstance(i, (int, np.integer)) and i != -1 else i for i in (*row, *column)]
        return FactoredMatrix(a[..., keep[0], :], b[..., :, keep[1]])

    def __repr__(self) -> str:
        return f"FactoredMatrix of {list(self.shape)}, {self._a.shape[-1]} between"


class ActivationCache(Mapping[Any, Any]):
    """The arrays of a run by name, or by a short form: `cache["resid_post", -1]`, `cache["pattern", 3]`."""

    def __init__(self, cache_dict: dict[str, np.ndarray], model: HookedTransformer, has_batch_dim: bool = True) -> None:
        self.cache_dict, self.model, self.has_batch_dim = cache_dict, model, has_batch_dim

    def _at(self, *key: Any) -> np.ndarray:
        if len(key) > 1 and key[1] is not None and int(key[1]) < 0:
            key = (key[0], self.model.cfg.n_layers + int(key[1]), *key[2:])
        name = key[0] if key[0] in self.cache_dict else place_of(*key)
        if name.endswith("attn.hook_result") and name not in self.cache_dict:
            self.compute_head_results()
        if name not in self.cache_dict:
            raise nearest(name, self.cache_dict, "the cache has no place")
        return self.cache_dict[name]

    def __getitem__(self, key: Any) -> Any:
        return given(self._at(*(key if isinstance(key, tuple) else (key,))))

    def __iter__(self) -> Iterator[str]:
        return iter(self.cache_dict)

    def __len__(self) -> int:
        return len(self.cache_dict)

    def __repr__(self) -> str:
        return f"ActivationCache with keys {list(self.cache_dict)}"

    def to(self, device: Any) -> ActivationCache:
        """The cache, which stays on the CPU."""
        return self

    def remove_batch_dim(self) -> ActivationCache:
        """Takes the batch axis away, of a batch of one."""
        if self.has_batch_dim:
            sizes = {len(array) for array in self.cache_dict.values()}
            assert sizes <= {1}, f"the cache has batches of {sizes}, and only a batch of 1 can lose its axis"
            self.cache_dict = {name: array[0] for name, array in self.cache_dict.items()}
            self.has_batch_dim = False
        return self

    def _layer(self, layer: int | None) -> int:
        return self.model.cfg.n_layers if layer is None or layer == -1 else layer

    def stack_activation(self, activation_name: str, layer: int = -1, sublayer_type: str | None = None) -> Any:
        """A place of all layers before `layer`: [layers, …]."""
        return given(np.stack([self._at(activation_name, at, sublayer_type) for at in range(self._layer(layer))]))

    def _stack(self, parts: list[tuple[str, np.ndarray]], pos_slice: Any, return_labels: bool, ln: Any) -> Any:
        stack = np.stack([part_of(array, pos_slice, -2) for _, array in parts])
        stack = given(stack) if ln is None else ln(stack)
        return (stack, [label for label, _ in parts]) if return_labels else stack

    def accumulated_resid(self, layer: int | None = None, incl_mid: bool = False, apply_ln: bool = False, pos_slice: Any = None, mlp_input: bool = False, return_labels: bool = False) -> Any:
        """The residual stream before each layer up to `layer`, and after the last one: [parts, …, d_model]."""
        to, last, parts = self._layer(layer), self.model.cfg.n_layers, []
        for at in range(to + 1):
            if at == last:
                parts.append(("final_post", self._at("resid_post", last - 1)))
                break
            parts.append((f"{at}_pre", self._at("resid_pre", at)))
            if (incl_mid and at < to) or (mlp_input and at == to):
                parts.append((f"{at}_mid", self._at("resid_mid", at)))
        ln = (lambda x: self.apply_ln_to_stack(x, to, mlp_input, pos_slice, recompute_ln=to == last)) if apply_ln else None
        return self._stack(parts, pos_slice, return_labels, ln)

    def decompose_resid(self, layer: int | None = None, mlp_input: bool = False, mode: str = "all", apply_ln: bool = False, pos_slice: Any = None, incl_embeds: bool = True, return_labels: bool = False) -> Any:
        """What the embeddings and each sublayer before `layer` write into the stream: [parts, …, d_model]."""
        to = self._layer(layer)
        parts = [(name[5:], self.cache_dict[name]) for name in ("hook_embed", "hook_pos_embed") if incl_embeds and name in self.cache_dict]
        for at in range(to):
            parts += [(f"{at}_{name}", self._at(name, at)) for name in ("attn_out", "mlp_out") if mode in ("all", name[:-4])]
        if mlp_input and mode != "mlp":
            parts.append((f"{to}_attn_out", self._at("attn_out", to)))
        return self._stack(parts, pos_slice, return_labels, (lambda x: self.apply_ln_to_stack(x, to, mlp_input, pos_slice)) if apply_ln else None)

    def compute_head_results(self) -> None:
        """What each head writes, of the layers whose `hook_z` the cache has."""
        for at in range(self.model.cfg.n_layers):
            name, z = f"blocks.{at}.attn.hook_result", self.cache_dict.get(f"blocks.{at}.attn.hook_z")
            if name not in self.cache_dict and z is not None:
                self.cache_dict[name] = np.einsum("...hd,hdm->...hm", z, self.model._weight("W_O", at), optimize=True)

    def stack_head_results(self, layer: int = -1, return_labels: bool = False, incl_remainder: bool = False, pos_slice: Any = None, apply_ln: bool = False) -> Any:
        """What each head before `layer` writes into the stream: [layers · heads, …, d_model]."""
        to, parts = self._layer(layer), []
        for at in range(to):
            result = self._at("result", at)
            parts += [(f"L{at}H{head}", result[..., head, :]) for head in range(result.shape[-2])]
        if incl_remainder:
            parts.append(("remainder", self._at("resid_post", to - 1) - sum(array for _, array in parts)))
        return self._stack(parts, pos_slice, return_labels, (lambda x: self.apply_ln_to_stack(x, to, pos_slice=pos_slice)) if apply_ln else None)

    def apply_ln_to_stack(self, residual_stack: Any, layer: int | None = None, mlp_input: bool = False, pos_slice: Any = None, batch_slice: Any = None, has_batch_dim: bool = True, recompute_ln: bool = False) -> Any:
        """Parts of the stream as the norm before `layer` makes them in this run, by its divisors; with `recompute_ln`, by their own."""
        stack, to = taken(residual_stack), self._layer(layer)
        if has_batch_dim and batch_slice is not None:
            stack = part_of(stack, batch_slice, 1)
        if recompute_ln and to == self.model.cfg.n_layers:
            return self.model.ln_final(stack)
        if self.model._is_layer_norm:
            stack = stack - stack.mean(-1, keepdims=True)
        name = "ln_final.hook_scale" if to == self.model.cfg.n_layers else f"blocks.{to}.ln{2 if mlp_input else 1}.hook_scale"
        scale = part_of(self._at(name), pos_slice, -2)
        return given(stack / (part_of(scale, batch_slice, 0) if self.has_batch_dim else scale))

    def logit_attrs(self, residual_stack: Any, tokens: Any, incorrect_tokens: Any = None, pos_slice: Any = None, batch_slice: Any = None, has_batch_dim: bool = True) -> Any:
        """What each part of the stream adds to a token's logit, or to the difference of two: [parts, …]."""
        directions = taken(self.model.tokens_to_residual_directions(tokens))
        if incorrect_tokens is not None:
            directions = directions - taken(self.model.tokens_to_residual_directions(incorrect_tokens))
        stack = taken(self.apply_ln_to_stack(residual_stack, -1, pos_slice=pos_slice, batch_slice=batch_slice, has_batch_dim=has_batch_dim))
        if has_batch_dim and stack.ndim == 4 and directions.ndim == 2 and len(directions) == stack.shape[1]:
            directions = directions[:, None]
        return given((stack * directions).sum(-1))
