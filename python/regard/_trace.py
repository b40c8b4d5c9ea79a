"""A model's forward pass, as arrays."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from ._program import run

_DTYPES = {"F32": "<f4", "I64": "<i8"}


def trace(
    model: str | os.PathLike[str],
    text: str | None = None,
    *,
    keep: str | Iterable[str] = "*",
    ids: Iterable[int] | None = None,
    text_pair: str | None = None,
    chat: bool = False,
    image: str | os.PathLike[str] | None = None,
    decoder_text: str | None = None,
    decoder_ids: Iterable[int] | None = None,
    ablate: str | Iterable[str] = (),
    head_temperature: str | Iterable[str] = (),
    cut: str | Iterable[str] = (),
    patch: str | Iterable[str] = (),
    patch_text: str | None = None,
    patch_ids: Iterable[int] | None = None,
    download: bool = False,
) -> dict[str, np.ndarray]:
    """Run a model on a text and return the arrays on the way, under TransformerLens's names.

    This is the command `regard trace`; each argument is the option of the same name.

    Parameters
    ----------
    model : str or path
        A Hugging Face folder, a .gguf file, "story" (the model that comes with the program), or a name such as
        "openai-community/gpt2", which is looked for in the local Hugging Face cache.
    text : str, optional
        What the model reads. `ids` are its tokens instead, and `image` a file for a model of images.
    keep : str or strings
        Which arrays: TransformerLens's names, where * stands for any characters ("blocks.*.attn.hook_pattern"), or the names
        that transformers uses ("attentions", "hidden_states", "logits").
    text_pair, chat, decoder_text, decoder_ids
        A second text (bert); put the text into the chat template; what the decoder has written already (t5).
    ablate : str or strings
        "L.H", "L.H=zero" or "L.H=mean": replaces a head's output. Layers, heads and positions count from 0.
    head_temperature : str or strings
        "L.H=T": divides a head's scores by T.
    cut : str or strings
        "L.H:I,J": hides key J from query I in one head.
    patch : str or strings
        "L.POS": replaces the residual stream that enters layer L at a position by that of the run of `patch_text` or `patch_ids`.
    download : bool
        Fetch a model that is not in the cache.

    Returns
    -------
    dict of str to numpy.ndarray
        float32, without a batch axis: "blocks.0.attn.hook_pattern" [heads, n, n], "blocks.0.hook_resid_pre" [n, width],
        "attentions" [layers, heads, n, n], …; "input_ids" int64 [n]; and "tokens" [n], strings.

    Raises
    ------
    ValueError
        A model, an input or a name that is not there; the message says which.

    Examples
    --------
    >>> import regard
    >>> places = regard.trace("story", "Mia gave Tom the ball.")
    >>> places["blocks.0.attn.hook_pattern"].shape
    (4, 7, 7)
    >>> places["tokens"]
    array(['[STORY]', 'Mia', 'gave', 'Tom', 'the', 'ball', '.'], dtype='<U7')
    """
    options = {
        "text": text,
        "text-pair": text_pair,
        "image": image,
        "decoder-text": decoder_text,
        "patch-text": patch_text,
    }
    arguments = [f"--{name}={value}" for name, value in options.items() if value is not None]
    for name, numbers in {"ids": ids, "decoder-ids": decoder_ids, "patch-ids": patch_ids}.items():
        if numbers is not None:
            arguments.append(f"--{name}={','.join(str(int(i)) for i in numbers)}")
    repeated = {"keep": keep, "ablate": ablate, "head-temperature": head_temperature, "cut": cut, "patch": patch}
    for name, values in repeated.items():
        arguments += [f"--{name}={value}" for value in ([values] if isinstance(values, str) else values)]
    arguments += [f"--{name}" for name, is_set in {"chat": chat, "download": download}.items() if is_set]
    with tempfile.TemporaryDirectory(prefix="regard-") as folder:
        path = Path(folder) / "trace.safetensors"
        run("trace", *arguments, f"--output={path}", "--", str(model))
        return _read(path)


def _read(path: Path) -> dict[str, np.ndarray]:
    """The tensors of a safetensors file that the program wrote, and the tokens of its metadata."""
    with path.open("rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        data = np.frombuffer(bytearray(file.read()), np.uint8)
    arrays: dict[str, np.ndarray] = {}
    for key, value in header.pop("__metadata__", {}).items():
        arrays[key] = np.array(json.loads(value))
    for name, tensor in header.items():
        start, end = tensor["data_offsets"]
        arrays[name] = data[start:end].view(_DTYPES[tensor["dtype"]]).reshape(tensor["shape"])
    return arrays
