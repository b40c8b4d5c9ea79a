"""The attention of a model in the window or in a notebook."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from ._cache import Cache
from ._program import program, run


def show(
    attentions: Any,
    tokens: Iterable[str] | None = None,
    *,
    key_tokens: Iterable[str] | None = None,
    entry: int = 0,
    notebook: bool | None = None,
) -> None:
    """Show the attention weights of a model: in the window, or below the cell of a notebook.

    The window stays until it is closed, and `show` waits for it. Where there is no display, a summary is printed.

    A notebook shows the same window in a frame below the cell, if `anywidget` is installed (`pip install anywidget`).
    Without it, and where a notebook is only read, all heads are drawn, with the number under the pointer. Neither loads
    anything from the network.

    Parameters
    ----------
    attentions : Cache, or sequence of arrays [batch, heads, n_q, n_k], or array [layers, heads, n_q, n_k]
        A cache that has the pattern of every layer, whose tokens are taken; or what `model(..., output_attentions=True).attentions`
        is: PyTorch tensors or NumPy arrays, one a layer. A batch axis may be missing. An array that is no sequence has the axes [layers, heads, n_q, n_k], as `trace` gives it.
    tokens : sequence of str, optional
        The tokens of the queries, and of the keys unless `key_tokens` are given.
    key_tokens : sequence of str, optional
        The tokens of the keys, for attention between two texts.
    entry : int
        Which entry of the batch.
    notebook : bool, optional
        Show it in the notebook. Found out unless given.

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
    import subprocess
    import tempfile

    if isinstance(attentions, Cache):
        if tokens is None and attentions.tokens:
            tokens = attentions.tokens if isinstance(attentions.tokens[0], str) else attentions.tokens[entry]
        stacked = attentions.stack_activation("pattern")
        attentions = stacked[:, entry] if stacked.ndim == 5 else stacked
    weights = _weights(attentions, entry)
    arrays = {"attentions": weights} | _tokens(tokens, key_tokens, weights.shape)
    if notebook is None:
        notebook = _is_notebook()
    with tempfile.TemporaryDirectory(prefix="regard-") as folder:
        path = Path(folder) / "attention.npz"
        np.savez(path, **arrays)  # type: ignore[arg-type]  # an array is not NumPy's option allow_pickle
        if notebook:
            page = Path(folder) / "heads.html"
            run("export", "--view=grid", f"--to={page}", "--", str(path))
            _display(page.read_text(encoding="utf-8"), path.read_bytes())
        else:
            done = subprocess.run([program(), "--", path], stdout=subprocess.PIPE, encoding="utf-8")
            # The text is printed by Python, so that a program that has replaced sys.stdout gets it.
            sys.stdout.write(done.stdout)
            if done.returncode:
                raise RuntimeError(f"the window ended with the exit code {done.returncode}")


def _weights(attentions, entry: int) -> np.ndarray:
    """float32 [layers, heads, n_q, n_k]."""
    if not isinstance(attentions, (tuple, list)):
        weights = _array(attentions, "attentions")
        if weights.ndim not in (2, 3, 4):
            raise ValueError(f"attentions have the shape {weights.shape}, but [layers, heads, n_q, n_k] is needed")
        return weights.reshape((1,) * (4 - weights.ndim) + weights.shape)
    layers: list[np.ndarray] = []
    for i, layer in enumerate(attentions):
        if layer is None:
            raise ValueError(f"layer {i} has no attention weights: load the model with attn_implementation=\"eager\"")
        layer = _array(layer, f"layer {i}")
        if layer.ndim == 4:
            if not -layer.shape[0] <= entry < layer.shape[0]:
                raise ValueError(f"entry {entry} is not in the batch of layer {i}, whose shape is {layer.shape}")
            layer = layer[entry]
        if layer.ndim != 3:
            raise ValueError(f"layer {i} has the shape {layer.shape}, but [batch, heads, n_q, n_k] is needed")
        if layers and layer.shape != layers[0].shape:
            raise ValueError(f"layer {i} has the shape {layer.shape}, but layer 0 has {layers[0].shape}")
        layers.append(layer)
    if not layers:
        raise ValueError("attentions are empty: call the model with output_attentions=True")
    return np.stack(layers)


def _array(x, name: str) -> np.ndarray:
    if hasattr(x, "detach"):  # a tensor of PyTorch: with a gradient, on another device, or of a type that NumPy lacks
        x = x.detach().cpu().float()
    array = np.asarray(x)
    if array.dtype.kind != "f":
        raise TypeError(f"{name} is of the type {array.dtype}, but numbers with a fraction are needed")
    return array.astype(np.float32, copy=False)


def _tokens(tokens, key_tokens, shape) -> dict[str, np.ndarray]:
    _, _, n_q, n_k = shape
    if tokens is None and key_tokens is None:
        return {}
    if key_tokens is None:
        key_tokens = tokens
    lists = {}
    for name, given, axis, n in (("query_tokens", tokens, "n_q", n_q), ("key_tokens", key_tokens, "n_k", n_k)):
        if given is None:
            continue
        given = [str(token) for token in given]
        if len(given) != n:
            raise ValueError(f"there are {len(given)} tokens for {axis} = {n}: attentions have the shape {list(shape)}")
        lists[name] = np.array(given)
    return lists


def _is_notebook() -> bool:
    """Whether this runs in the kernel of a notebook."""
    if "IPython" not in sys.modules:
        return False
    from IPython import get_ipython

    shell = get_ipython()
    return shell is not None and hasattr(shell, "kernel")


def _display(drawn: str, attention: bytes) -> None:
    """Shows the drawn heads and then the page, which replaces them. In a notebook without a kernel the drawn heads stay."""
    import html
    import uuid

    from IPython.display import HTML, display

    name = f"regard-{uuid.uuid4()}"
    frame = f'<iframe srcdoc="{html.escape(drawn)}" title="Attention heads" width="100%" height="640" style="border: 0"></iframe>'
    # If the page has no kernel, JupyterLab writes an error below the drawn heads, which is enough.
    style = f"<style>.jp-OutputArea-child:has(#{name}) + * > .jupyter-widgets:not(:has(*)) {{ display: none }}</style>"
    display(HTML(f'<div id="{name}">{style}{frame}</div>'))
    try:
        from ._widget import PAGE, Heads
    except ImportError:  # there is no anywidget
        return
    if PAGE:
        display(Heads(name, attention))
