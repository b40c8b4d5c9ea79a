"""The arrays of a forward pass."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

_DTYPES = {"F32": "<f4", "I64": "<i8"}


def nearest(name: str, known: Any, what: str) -> KeyError:
    """The error for an unknown name, with the most similar known names."""
    from difflib import get_close_matches

    close = get_close_matches(name, list(known), n=3, cutoff=0.5)
    hint = f"; near it: {', '.join(close)}" if close else ""
    return KeyError(f"{what} {name!r}{hint}")


class Cache(Mapping[str, np.ndarray]):
    """The arrays that a run has kept, under TransformerLens's names.

    A name is a key, and so is a short form of it, whose layer may count from the end: `cache["pattern", 2]` is `cache["blocks.2.attn.hook_pattern"]`, and
    `cache["scale", 2, "ln1"]` is `cache["blocks.2.ln1.hook_scale"]`. Arrays are float32, without a batch axis for one text and with
    one for several of equal length. They own their numbers: nothing is copied when they are taken out.

    Attributes
    ----------
    tokens : list of str
        The tokens of the text, or of each text.
    decoder_tokens : list of str
        The decoder's tokens, of a model that has an encoder too; else empty.

    Examples
    --------
    >>> import regard
    >>> model = regard.Model("story")
    >>> logits, cache = model.run_with_cache("Mia gave Tom the ball.", names_filter="blocks.*.attn.hook_pattern")
    >>> cache["pattern", 2].shape
    (4, 7, 7)
    >>> cache
    Cache of 4 places, 7 tokens, 3.1 kB
    """

    def __init__(self, arrays: Mapping[str, np.ndarray], tokens: list[Any] | None = None, decoder_tokens: list[Any] | None = None) -> None:
        self._arrays = dict(arrays)
        self.tokens = list(tokens or [])
        self.decoder_tokens = list(decoder_tokens or [])

    def __getitem__(self, name: str | tuple[Any, ...]) -> np.ndarray:
        if isinstance(name, tuple):
            name = self._long(name)
        try:
            return self._arrays[name]
        except KeyError:
            raise nearest(name, self._arrays, "the cache has no place") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def __contains__(self, name: object) -> bool:
        if isinstance(name, tuple):
            try:
                name = self._long(name)
            except KeyError:
                return False
        return name in self._arrays

    def _long(self, short: tuple[Any, ...]) -> str:
        """The full name of a short form: (name, layer), or (name, layer, part), such as ("scale", 2, "ln1")."""
        name, layer, *part = short
        if layer is not None and layer < 0:
            layer += 1 + max((int(match[1]) for key in self._arrays if (match := re.match(r"blocks\.(\d+)\.", key))), default=-1)
        start = f"{part.pop()}." if part else ""
        forms = [f"blocks.{layer}.{start}hook_{name}", *(f"blocks.{layer}.{within}.hook_{name}" for within in ("attn", "mlp"))]
        for form in forms:
            if form in self._arrays:
                return form
        raise nearest(forms[0], self._arrays, "the cache has no place")

    def stack_activation(self, name: str) -> np.ndarray:
        """A place of all layers: `cache.stack_activation("pattern")` is [layers, heads, n_q, n_k].

        Raises
        ------
        KeyError
            The cache does not have the place of every layer.
        """
        layers = {int(match[1]) for key in self._arrays if (match := re.match(r"blocks\.(\d+)\.", key))}
        if not layers:
            raise nearest(name, self._arrays, "the cache has no place")
        return np.stack([self[name, layer] for layer in range(max(layers) + 1)])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the arrays and the tokens into a safetensors file, which `Cache.open` and the window read."""
        metadata = {"tokens": json.dumps(self.tokens)}
        if self.decoder_tokens:
            decoder_tokens = metadata["decoder_tokens"] = json.dumps(self.decoder_tokens)
            for name in self._arrays:
                if name.startswith("decoder."):
                    side = "query_tokens" if "cross_attn" in name else "tokens"
                    metadata[f"{re.sub(r'[0-9]+', '*', name, count=1)}.{side}"] = decoder_tokens
        header: dict[str, Any] = {"__metadata__": metadata}
        arrays, end = [], 0
        for name, array in self._arrays.items():
            array = np.ascontiguousarray(array, "<i8" if array.dtype.kind in "iu" else "<f4")
            kind = "I64" if array.dtype.kind == "i" else "F32"
            header[name] = {"dtype": kind, "shape": array.shape, "data_offsets": [end, end + array.nbytes]}
            arrays.append(array)
            end += array.nbytes
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        part = Path(f"{os.fspath(path)}.{os.getpid()}.part")
        try:
            with part.open("wb") as file:
                file.write(len(text).to_bytes(8, "little") + text)
                for array in arrays:
                    file.write(array.tobytes())
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Cache:
        """Reads what `save` wrote.

        Raises
        ------
        ValueError
            The file is no safetensors file of float32 and int64.
        """
        with Path(path).open("rb") as file:
            size = int.from_bytes(file.read(8), "little")
            text = file.read(min(size, os.fstat(file.fileno()).st_size))
            data = np.frombuffer(bytearray(file.read()), np.uint8)
        try:
            header = json.loads(text)
            metadata = header.pop("__metadata__", {})
            arrays = {}
            for name, tensor in header.items():
                start, end = tensor["data_offsets"]
                if tensor["dtype"] not in _DTYPES:
                    raise ValueError(f"{name} is {tensor['dtype']}, and a cache has {' and '.join(_DTYPES)}")
                arrays[name] = data[start:end].view(_DTYPES[tensor["dtype"]]).reshape(tensor["shape"])
            return cls(arrays, *(json.loads(metadata.get(of, "[]")) for of in ("tokens", "decoder_tokens")))
        except (ValueError, KeyError, TypeError, AttributeError) as e:
            raise ValueError(f"{os.fspath(path)} is no cache of places: {e}") from e

    def __repr__(self) -> str:
        size = sum(array.nbytes for array in self._arrays.values())
        return f"Cache of {len(self)} places, {len(self.tokens)} tokens, {size / 1000:.1f} kB"

    def _repr_html_(self) -> str:
        from html import escape

        rows = "".join(
            f"<tr><td style='text-align: left'><code>{escape(name)}</code></td><td>{list(array.shape)}</td></tr>"
            for name, array in self._arrays.items()
        )
        table = f"<table><tr><th>place</th><th>shape</th></tr>{rows}</table>"
        return f"<details><summary>{escape(repr(self))}</summary>{table}</details>"
