"""The attention of a model, drawn in a notebook, in a page or in the window."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ._cache import Cache
from ._model import Model
from ._regard import heads_page

#: What a tokenizer writes for a space or a new line before a word.
_MARKS = str.maketrans({"Ġ": "␣", "▁": "␣", "Ċ": "⏎", "\n": "⏎", "\t": "⇥"})


def show(
    attentions: Any,
    tokens: Any = None,
    *,
    key_tokens: Iterable[str] | None = None,
    entry: int | None = None,
    which: str = "attn",
    to: str | os.PathLike[str] | None = None,
    window: bool = False,
) -> None:
    """Draw the attention weights of all heads: below the cell of a notebook, or as a page of a browser.

    The heads stand as a strip, whose rows are layers. A click chooses the large one, which is drawn as lines between tokens and as a
    matrix; the pointer shows the number. The page is drawn by this package, loads nothing, and stays in the notebook's file.

    Parameters
    ----------
    attentions : Model, Cache, sequence of arrays [batch, heads, n_q, n_k], or array [layers, heads, n_q, n_k]
        A model, which reads the text `tokens`; a cache that has the pattern of every layer, whose tokens are taken; or what
        `model(..., output_attentions=True).attentions` is in transformers: PyTorch tensors or NumPy arrays, one a layer. A batch axis
        may be missing. An array that is no sequence has the axes [layers, heads, n_q, n_k], as `trace` gives it.
    tokens : sequence of str, or a list of them for each text, optional
        The tokens of the queries, and of the keys unless `key_tokens` are given. A model reads a text, or several.
    key_tokens : sequence of str, optional
        The tokens of the keys, for attention between two texts.
    entry : int, optional
        Only this entry of the batch. All of them can be chosen on the page unless given.
    which : "attn", "encoder", "decoder" or "cross"
        The attention of a cache: that of a model with one stack, or one of the three of a model with an encoder and a decoder.
    to : path, optional
        Writes the page into this file instead.
    window : bool
        Opens the window of Regard on it, in which everything can be changed, and waits until it is closed; in a notebook, the window's
        page below the cell. It needs the program `regard` (`regard.program`), and in a notebook `anywidget`.

    Raises
    ------
    ValueError
        Shapes or numbers of tokens that do not fit; the message names them.

    Examples
    --------
    >>> import regard
    >>> _, cache = regard.Model("story").run_with_cache("Mia gave Tom the ball.", "*hook_pattern")
    >>> regard.show(cache)  # doctest: +SKIP
    """
    if isinstance(attentions, Model):
        place = "*.hook_pattern" if which == "attn" else f"{'decoder.*.cross_attn' if which == 'cross' else f'{which}.*.attn'}.hook_pattern"
        tokens, attentions = None, attentions.run_with_cache(tokens, place)[1]
    if isinstance(attentions, list) and attentions and all(isinstance(one, Cache) for one in attentions):
        raise ValueError("texts of different lengths have no batch axis: show the cache of one of them")
    if hasattr(attentions, "stack_activation"):  # a cache
        tokens = getattr(attentions, "tokens", None) if tokens is None else tokens
        weights = _of_cache(attentions, which)
    else:
        weights = _weights(attentions)
    if entry is not None:
        if not -len(weights) <= entry < len(weights):
            raise ValueError(f"entry {entry} is not in the batch of {len(weights)}")
        several = _is_nested(tokens)
        tokens = [tokens[entry]] if several else tokens
        weights = weights[entry][None]
    sides = _tokens(tokens, key_tokens, weights.shape, which == "cross")
    if window:
        _window(weights[0], sides[0], tokens is not None or key_tokens is not None)
        return
    layers = [f"layer {i}" for i in range(weights.shape[1])]
    counted = [f"{n} {what}{'' if n == 1 else 's'}" for n, what in zip(weights.shape[1:3], ("layer", "head"))]
    title = f"{' × '.join(counted)}, {weights.shape[3]} queries, {weights.shape[4]} keys"
    page = heads_page(np.ascontiguousarray(weights, np.float32), title, layers, sides)
    if to is not None:
        Path(to).write_text(page, encoding="utf-8")
    elif is_notebook():
        from IPython.display import HTML, display

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # IPython's advice on frames
            display(HTML(page))
    else:
        _browse(page)


def _browse(page: str) -> None:
    """Opens a page in the browser, and says where it is."""
    import tempfile
    import webbrowser

    with tempfile.NamedTemporaryFile("w", prefix="regard-", suffix=".html", delete=False, encoding="utf-8") as file:
        file.write(page)
    webbrowser.open(Path(file.name).as_uri())
    print(f"the heads are drawn in {file.name}")


def _window(weights: np.ndarray, sides: list[list[str]], has_tokens: bool) -> None:
    """The window of the program on the attention [layers, heads, n_q, n_k] of one text."""
    import subprocess
    import tempfile

    from ._program import program

    named = dict(zip(("query_tokens", "key_tokens"), map(np.array, sides))) if has_tokens else {}
    with tempfile.TemporaryDirectory(prefix="regard-") as folder:
        path = Path(folder) / "attention.npz"
        np.savez(path, attentions=weights, **named)  # type: ignore[arg-type]  # an array is not NumPy's option allow_pickle
        if is_notebook():
            from IPython.display import display

            from ._widget import PAGE, Heads

            if not PAGE:
                raise FileNotFoundError("this package was built without the window's page: regard.show without window=True draws the heads")
            display(Heads(path.read_bytes()))
            return
        done = subprocess.run([program(), "--", path], stdout=subprocess.PIPE, encoding="utf-8")
        # The text is printed by Python, so that a program that has replaced sys.stdout gets it.
        sys.stdout.write(done.stdout)
        if done.returncode:
            raise RuntimeError(f"the window ended with the exit code {done.returncode}")


def _of_cache(cache: Any, which: str) -> np.ndarray:
    """[texts, layers, heads, n_q, n_k] of a cache."""
    if which == "attn":
        stacked = _array(cache.stack_activation("pattern"), "the cache's patterns")
    else:
        places = {"encoder": "encoder.{}.attn.hook_pattern", "decoder": "decoder.{}.attn.hook_pattern", "cross": "decoder.{}.cross_attn.hook_pattern"}
        if which not in places:
            raise ValueError(f"which is 'attn', {', '.join(map(repr, places))}, not {which!r}")
        layers = [array for i in range(len(cache)) if (array := cache.get(places[which].format(i))) is not None]
        if not layers:
            raise ValueError(f"the cache has no pattern of {which}: run_with_cache(text, '*hook_pattern') keeps it")
        stacked = np.stack(layers)
    return stacked.swapaxes(0, 1) if stacked.ndim == 5 else stacked[None]


def _weights(attentions: Any) -> np.ndarray:
    """float32 [texts, layers, heads, n_q, n_k]."""
    if getattr(attentions, "attentions", None) is not None or hasattr(attentions, "last_hidden_state"):  # transformers' output
        attentions = attentions.attentions or ()
    if not isinstance(attentions, (tuple, list)):
        weights = _array(attentions, "attentions")
        if weights.ndim not in (2, 3, 4):
            raise ValueError(f"attentions have the shape {weights.shape}, but [layers, heads, n_q, n_k] is needed")
        return weights.reshape((1,) * (5 - weights.ndim) + weights.shape)
    layers: list[np.ndarray] = []
    for i, layer in enumerate(attentions):
        if layer is None:
            raise ValueError(f"layer {i} has no attention weights: load the model with attn_implementation=\"eager\"")
        layer = _array(layer, f"layer {i}")
        layer = layer[None] if layer.ndim == 3 else layer
        if layer.ndim != 4:
            raise ValueError(f"layer {i} has the shape {layer.shape}, but [batch, heads, n_q, n_k] is needed")
        if layers and layer.shape != layers[0].shape:
            raise ValueError(f"layer {i} has the shape {layer.shape}, but layer 0 has {layers[0].shape}")
        layers.append(layer)
    if not layers:
        raise ValueError(
            "attentions are empty: call the model with output_attentions=True, and load it with attn_implementation=\"eager\", because "
            "SDPA, which is the default of transformers, computes no weights"
        )
    return np.stack(layers, axis=1)


def _array(x: Any, name: str) -> np.ndarray:
    if hasattr(x, "detach"):  # a tensor of PyTorch: with a gradient, on another device, or of a type that NumPy lacks
        x = x.detach().cpu().float()
    array = np.asarray(x)
    if array.dtype.kind != "f":
        raise TypeError(f"{name} is of the type {array.dtype}, but numbers with a fraction are needed")
    return array.astype(np.float32, copy=False)


def _is_nested(tokens: Any) -> bool:
    """Whether there is a list of tokens for each text."""
    return isinstance(tokens, Sequence) and len(tokens) > 0 and not isinstance(tokens[0], str)


def _tokens(tokens: Any, key_tokens: Any, shape: tuple[int, ...], is_cross: bool) -> list[list[list[str]]]:
    """The tokens of the queries and of the keys of each text."""
    texts, _, _, n_q, n_k = shape

    def side(given: Any, axis: str, n: int) -> list[list[str]]:
        if given is None:
            return [[""] * n] * texts
        each = [list(one) for one in given] if _is_nested(given) else [list(given)] * texts
        if len(each) != texts:
            raise ValueError(f"there are tokens of {len(each)} texts for a batch of {texts}")
        for one in each:
            if len(one) != n:
                raise ValueError(f"there are {len(one)} tokens for {axis} = {n}: attentions have the shape {list(shape[1:])}")
        return [[str(token).translate(_MARKS) for token in one] for one in each]

    if isinstance(tokens, str):
        raise ValueError("tokens are a list of str, one a token: a text is for a model")
    if key_tokens is None and not is_cross:
        key_tokens = tokens
    return [list(both) for both in zip(side(tokens, "n_q", n_q), side(key_tokens, "n_k", n_k))]


def is_notebook() -> bool:
    """Whether this runs in the kernel of a notebook."""
    if "IPython" not in sys.modules:
        return False
    from IPython import get_ipython

    shell = get_ipython()
    return shell is not None and hasattr(shell, "kernel")
