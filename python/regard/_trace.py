"""A model's forward pass, as arrays."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np

from ._changes import Change
from ._model import Model


def trace(
    model: Model | str | os.PathLike[str],
    given: Any,
    *,
    keep: str | Iterable[str] | None = None,
    changes: Iterable[Change] = (),
    **reading: Any,
) -> dict[str, np.ndarray]:
    """Run a model on a text and return arrays under transformers' names, as the command `regard trace` writes them.

    Parameters
    ----------
    model : Model, str or path
        A model, or what `Model` opens.
    given : str, ids or an image
        What the model reads.
    keep : str or strings, optional
        Instead of transformers' arrays: the names of some of them ("attentions"), or places under TransformerLens's names, where *
        stands for any characters ("blocks.*.attn.hook_pattern").
    changes, **reading
        As of `Model.run`.

    Returns
    -------
    dict of str to numpy.ndarray
        float32, without a batch axis: "logits" [n, vocabulary], "attentions" [layers, heads, n, n], "hidden_states" [layers + 1, n,
        width], …; "input_ids" int64 [n]; and "tokens" [n], strings.

    Examples
    --------
    >>> import regard
    >>> arrays = regard.trace("story", "Mia gave Tom the ball.")
    >>> arrays["attentions"].shape
    (4, 4, 7, 7)
    >>> arrays["tokens"]
    array(['[STORY]', 'Mia', 'gave', 'Tom', 'the', 'ball', '.'], dtype='<U7')
    """
    if not isinstance(model, Model):
        model = Model(model)
    outputs = {name: (places, stacked) for name, places, stacked in model._opened.outputs()}
    names = list(outputs) if keep is None else [keep] if isinstance(keep, str) else list(keep)
    named = [name for name in names if name not in outputs]
    places = model._filtered(named) if named else []
    wanted = {place for name in names for place in outputs.get(name, ((),))[0]}
    logits, cache = model.run_with_cache(given, sorted(wanted | set(places)), changes=changes, **reading)
    arrays: dict[str, np.ndarray] = {place: cache[place] for place in places}
    for name in names:
        if name == "logits" and logits is not None:
            arrays[name] = logits
        elif outputs.get(name, ((),))[0]:
            of_output, stacked = outputs[name]
            arrays[name] = np.stack([cache[place] for place in of_output]) if stacked else cache[of_output[0]]
        elif name == "logits" and keep is not None:
            raise KeyError("the model has no logits")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the run has warned of unknown words
        one = model._one(given, reading)
    if one.ids:
        arrays["input_ids"] = np.array(one.ids, np.int64)
    if one.decoder_ids:
        arrays["decoder_input_ids"] = np.array(one.decoder_ids, np.int64)
    return arrays | {"tokens": np.array(cache.tokens)}
