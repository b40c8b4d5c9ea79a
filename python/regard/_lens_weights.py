"""The weights of a model, and the places of its runs, as TransformerLens processes them.

Norms are folded into the layers after them, what is written into the stream is centred (of a model with layer norms), the biases of
values become one of the layer, and the unembedding is centred. None of it changes a prediction. The model runs with the weights of its
file: a place is turned into the processed form when it is read, and back when a hook has written into it.
"""

from __future__ import annotations

import re
import warnings
from types import SimpleNamespace
from typing import Any

import numpy as np

from ._lens_cache import FactoredMatrix, given, taken
from ._model import _WEIGHTS, Model

#: Places of the residual stream, which are centred where what is written into it is.
_STREAM = re.compile(r"(hook_embed|hook_pos_embed|.*\.hook_(resid_\w+|attn_out|mlp_out|mlp_in|[qkv]_input|result))")


class Processed:
    """A model's weights, processed or as in its file."""

    cfg: SimpleNamespace
    W_U: Any
    b_U: Any

    def __init__(self, plain: Model) -> None:
        self.plain = plain
        self._weights: dict[Any, Any] = {}
        self._is_layer_norm = plain._description["stack"]["block"]["norm"]["kind"] == "layer"

    def to_single_token(self, string: str) -> int:
        """The id of a text that is one token."""
        raise NotImplementedError

    def enable_compatibility_mode(self, disable_warnings: bool = False, no_processing: bool = False, fold_ln: bool = True, center_writing_weights: bool = True,
                                  center_unembed: bool = True, fold_value_biases: bool = True, refactor_factored_attn_matrices: bool = False) -> None:
        """Processes the weights as HookedTransformer.from_pretrained does."""
        stack = self.plain._description["stack"]
        is_known = not no_processing and stack["block"]["placement"] == "before" and not self.plain._is_pair and stack.get("experts") is None
        if not is_known and (fold_ln or fold_value_biases) and not no_processing and not disable_warnings:
            warnings.warn(f"the weights of {self.cfg.original_architecture} are not processed: norms are not folded", stacklevel=3)
        head = self.plain._description["head"].get("tokens") or {}
        self._folds, self._folds_v = is_known and fold_ln, is_known and fold_value_biases
        self._centres = is_known and center_writing_weights and self._is_layer_norm
        self._centres_logits = is_known and center_unembed and not head.get("softcap")
        self._weights.clear()

    def _seen(self, name: str, array: np.ndarray, sign: int = 1) -> np.ndarray:
        """A place as the processed weights give it; with the sign −1, as the model's own do. The mean of a stream matters to neither."""
        if self._folds_v and name.endswith((".attn.hook_v", ".attn.hook_z", ".attn.hook_result")):
            bias = self._value_bias(int(name.split(".")[1]))
            if bias is not None and not name.endswith("hook_v"):
                bias = np.repeat(bias, self.cfg.n_heads // len(bias), 0)
                bias = bias if name.endswith("hook_z") else np.einsum("hd,hdm->hm", bias, self._raw("W_O", int(name.split(".")[1])))
            array = array if bias is None else array - sign * bias
        if self._centres and sign > 0 and _STREAM.fullmatch(name):
            array = array - array.mean(-1, keepdims=True)
        return array

    def _raw(self, name: str, layer: int) -> Any:
        weight = _WEIGHTS[name]
        array = self.plain._opened.parameter(f"blocks.{layer}.{weight.part}")
        return None if array is None else weight.shaped(array, self.plain.cfg)

    def _norm(self, name: str, layer: int) -> tuple[np.ndarray, np.ndarray]:
        """The weights and biases of the norm before a weight."""
        start = "ln_final" if layer < 0 else f"blocks.{layer}.ln{2 if name in ('W_in', 'W_gate', 'b_in') else 1}"
        get, one = self.plain._opened.parameter, f"blocks.{layer}.ln1"
        weight = next((w for w in (get(start), get(one)) if w is not None), np.ones(self.cfg.d_model, np.float32))
        return weight, next((b for b in (get(f"{start}.bias"), get(f"{one}.bias")) if b is not None), np.zeros_like(weight))

    def _value_bias(self, layer: int) -> np.ndarray | None:
        """The bias of the values that is folded into the layer's [kv heads, d_head]."""
        key = "b_V folded", layer
        if key not in self._weights:
            bias, weight = self._raw("b_V", layer), self._raw("W_V", layer)
            shift = self._norm("b_V", layer)[1] if self._folds and self._is_layer_norm else np.zeros(self.cfg.d_model, np.float32)
            none = bias is None and not shift.any()
            self._weights[key] = None if none else (0 if bias is None else bias) + np.einsum("m,hmd->hd", shift, weight)
        return self._weights[key]

    def _weight(self, name: str, layer: int) -> np.ndarray:
        """A weight of a layer, processed."""
        if (name, layer) not in self._weights:
            self._weights[name, layer] = self._processed(name, layer)
        return self._weights[name, layer]

    def _processed(self, name: str, layer: int) -> np.ndarray:
        of = {"b_Q": "W_Q", "b_K": "W_K", "b_V": "W_V", "b_in": "W_in", "b_O": "W_O", "b_out": "W_out"}.get(name, name)
        array, weight = self._raw(name, layer), self._raw(of, layer)
        if weight is None:
            raise AttributeError(f"the model does not have {name}")
        if array is None:
            array = np.zeros((*weight.shape[:-2], weight.shape[-1]) if name not in ("b_O", "b_out") else self.cfg.d_model, np.float32)
        if name in ("b_O", "b_out"):
            bias = self._value_bias(layer) if self._folds_v and name == "b_O" else None
            if bias is not None:
                array = array + np.einsum("hd,hdm->m", np.repeat(bias, self.cfg.n_heads // len(bias), 0), weight)
        elif self._folds and name not in ("W_O", "W_out"):
            gamma, beta = self._norm(name, layer)
            if name.startswith("b_"):
                return np.zeros_like(array) if name == "b_V" and self._folds_v else array + beta @ weight
            array = array * gamma[:, None]
            return array - array.mean(-2, keepdims=True) if self._is_layer_norm else array
        elif name == "b_V" and self._folds_v:
            return np.zeros_like(array)
        if self._centres and name in ("W_O", "W_out", "b_O", "b_out"):
            array = array - array.mean(-1, keepdims=True)
        return array

    def _of_ends(self, name: str) -> np.ndarray:
        if name in ("W_E", "W_pos"):
            array = getattr(self.plain, name)
            return array - array.mean(-1, keepdims=True) if self._centres else array
        gamma, beta = self._norm("", -1)
        head = self.plain.W_U
        if name == "b_U":
            bias = self.plain._opened.parameter("head.bias")
            array = np.zeros(head.shape[1], np.float32) if bias is None else bias
            array = array + beta @ head if self._folds and self._is_layer_norm else array
        else:
            array = head * gamma[:, None] if self._folds else head
            array = array - array.mean(0) if self._folds and self._is_layer_norm else array
        return array - array.mean(-1, keepdims=True) if self._centres_logits else array

    def _layers(self, name: str) -> np.ndarray:
        """A weight of all layers."""
        return np.stack([self._weight(name, at) for at in range(self.cfg.n_layers)])

    def _wide(self, array: np.ndarray) -> np.ndarray:
        """Keys' or values' weights of each query head."""
        return np.repeat(array, self.cfg.n_heads // array.shape[1], 1)

    @property
    def QK(self) -> FactoredMatrix:  # noqa: N802
        """What scores read: [layers, heads]."""
        return FactoredMatrix(self._layers("W_Q"), self._wide(self._layers("W_K")).swapaxes(-1, -2))

    @property
    def OV(self) -> FactoredMatrix:  # noqa: N802
        """What heads move: [layers, heads]."""
        return FactoredMatrix(self._wide(self._layers("W_V")), self._layers("W_O"))

    def ln_final(self, residual: Any) -> Any:
        """The stream [..., d_model] after the final norm."""
        x = taken(residual)
        x = x - x.mean(-1, keepdims=True) if self._is_layer_norm else x
        x = x / np.sqrt((x * x).mean(-1, keepdims=True) + self.cfg.eps)
        gamma, beta = self._norm("", -1)
        return given(x if self._folds else x * gamma + (beta if self._is_layer_norm else 0))

    def unembed(self, residual: Any) -> Any:
        """The logits of the stream [..., d_model] after the final norm."""
        return given(taken(residual) @ taken(self.W_U) + taken(self.b_U))

    def tokens_to_residual_directions(self, tokens: Any) -> Any:
        """The column of the unembedding for each token: […, d_model]."""
        tokens = np.asarray(self.to_single_token(tokens)) if isinstance(tokens, str) else taken(tokens)
        return given(np.moveaxis(taken(self.W_U)[:, tokens], 0, -1))
