"""A model in the process."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Union, overload

import numpy as np

from ._cache import Cache, nearest
from ._changes import Change, Head, head_name, position_of
from ._progress import bar
from ._regard import Opened, Prepared
from ._sweep import Sweep

#: A text, its ids [n], or several of either; for a model of images, an image; for a model of sound, a recording.
Input = Union[str, Sequence[Any], np.ndarray, "os.PathLike[str]"]
#: What has one array: one of these, or a batch of ids [batch, n].
One = Union[str, np.ndarray, "os.PathLike[str]"]
Filter = Union[str, Iterable[str], Callable[[str], bool], None]
Hook = tuple[Union[str, Callable[[str], bool]], Callable[[np.ndarray, "HookPoint"], Any]]


@dataclasses.dataclass(frozen=True)
class Config:
    """The sizes of a model, under TransformerLens's names."""

    model_name: str
    #: The family, such as "gpt2".
    original_architecture: str
    #: The layers; of a model with an encoder and a decoder, those of the decoder.
    n_layers: int
    n_heads: int
    n_key_value_heads: int
    d_model: int
    d_head: int
    d_mlp: int
    #: The most tokens: a limit where positions are learned, else the length that the model was trained with.
    n_ctx: int | None
    d_vocab: int
    #: The logits of a position: the vocabulary, or the classes. 0 without a head.
    d_vocab_out: int
    act_fn: str
    eps: float
    #: The layers of an encoder beside the decoder.
    n_encoder_layers: int = 0


@dataclasses.dataclass(frozen=True)
class HookPoint:
    """The place at which a hook is called."""

    name: str

    def layer(self) -> int:
        """The layer of the place.

        >>> HookPoint("blocks.3.attn.hook_z").layer()
        3
        """
        return int(self.name.split(".")[1])


class _Layers(Sequence[np.ndarray]):
    """A weight of each layer, computed on request. `np.stack` joins them to one array."""

    def __init__(self, count: int, of_layer: Callable[[int], np.ndarray]) -> None:
        self._count, self._of_layer = count, of_layer

    def __len__(self) -> int:
        return self._count

    @property
    def shape(self) -> tuple[int, ...]:
        return (self._count, *self[0].shape)

    def __getitem__(self, layer: Any) -> Any:
        if isinstance(layer, tuple):
            return np.asarray(self)[layer] if not isinstance(layer[0], (int, np.integer)) else self[layer[0]][layer[1:]]
        if isinstance(layer, slice):
            return [self[i] for i in range(*layer.indices(self._count))]
        if not -self._count <= layer < self._count:
            raise IndexError(f"there is no layer {layer}: the model has {self._count}")
        return self._of_layer(layer % self._count)

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.stack(list(self)).astype(dtype or np.float32, copy=False)

    def __repr__(self) -> str:
        return f"{self._count} layers of {list(self[0].shape)}"


def _heads(array: np.ndarray, cfg: Config) -> np.ndarray:
    """[heads, d_model, d_head] of a projection [heads · d_head, d_model]."""
    return array.reshape(-1, cfg.d_head, array.shape[-1]).swapaxes(1, 2)


class _Weight:
    """A weight of each layer, as TransformerLens names and lays it out: `model.W_Q[layer]`."""

    def __init__(self, part: str, shaped: Callable[[np.ndarray, Config], np.ndarray]) -> None:
        self.part, self.shaped = part, shaped

    def __set_name__(self, of: Any, name: str) -> None:
        self.__doc__ = f"`{name}` of each layer: `model.{name}[layer]`."

    @overload
    def __get__(self, model: None, of: Any = None) -> _Weight: ...
    @overload
    def __get__(self, model: Model, of: Any = None) -> _Layers: ...
    def __get__(self, model: Model | None, of: Any = None) -> _Weight | _Layers:
        if model is None:
            return self
        stack = "decoder" if model._is_pair else "blocks"
        return _Layers(model.cfg.n_layers, lambda layer: self.shaped(model._parameter(f"{stack}.{layer}.{self.part}"), model.cfg))


class Model:
    """A model that runs in this process. The arrays that it computes are not copied.

    Arrays are float32, without a batch axis for one text. Several texts of equal length (a list) are computed together, and their
    arrays have a batch axis; texts of different lengths are computed without padding, and come as lists.

    Parameters
    ----------
    name : str or path
        "english", "story" or "digits" (the models that come with the package), a Hugging Face folder, a .gguf file, or a name
        such as "openai-community/gpt2", which is looked for in the local Hugging Face cache.
    threads : int, optional
        At most so many threads, and at most one for each core, which is the default. It changes no bit of a result.
    download : bool
        Fetch a model that is not in the cache.

    Raises
    ------
    FileNotFoundError
        There is no such file, folder or model in the cache.
    ValueError
        The model is of a family that is not known, or its files do not fit each other; the message says which.

    Examples
    --------
    >>> import regard
    >>> model = regard.Model("english")
    >>> model
    Model('english'): llama, 6 layers of 6 heads, d_model 192, 4096 tokens
    >>> logits = model("When Mary and John went to the store, John gave a drink to")  # [n, vocabulary]
    >>> model.to_string([logits[-1].argmax()])
    ' Mary'
    """

    def __init__(self, name: str | os.PathLike[str] = "english", *, threads: int | None = None, download: bool = False) -> None:
        self.name = os.fspath(name)
        self.threads = threads
        path = None if self.name in Opened.BUNDLED else _find(self.name, download)
        # Another process may have another current folder. A name of the cache is looked for in its own cache.
        self._where = os.path.abspath(path) if path is not None and path == Path(self.name) else self.name
        self._files = _files(path)
        self._opened = Opened.open(path or Path(self.name), threads)
        self._description = json.loads(self._opened.description())
        self._places = dict.fromkeys(self._opened.places())  # in the order of computation, and quick to find one in
        self._heads = dict.fromkeys(self._opened.heads())
        self.cfg = _config(self.name, self._description, self._opened)

    def __reduce__(self) -> tuple[Any, ...]:
        # A process that gets the model several times opens it once.
        if _files(None if self.name in Opened.BUNDLED else _find(self._where, False)) != self._files:
            raise RuntimeError(f"the files of {self.name} have changed since the model was opened: open it again, so that all processes have one model")
        return opened_once, (self.name, self._where, self.threads)

    def __repr__(self) -> str:
        cfg = self.cfg
        layers = f"{cfg.n_encoder_layers} + {cfg.n_layers}" if cfg.n_encoder_layers else f"{cfg.n_layers}"
        sizes = f"{layers} layers of {cfg.n_heads} heads, d_model {cfg.d_model}, {cfg.d_vocab} tokens"
        return f"Model({self.name!r}): {cfg.original_architecture}, {sizes}"

    def _repr_html_(self) -> str:
        from html import escape

        rows = (f"<tr><td style='text-align: left'>{name}</td><td>{escape(str(value))}</td></tr>"
                for name, value in dataclasses.asdict(self.cfg).items())
        return f"<table>{''.join(rows)}</table>"

    # Tokens

    def to_tokens(self, text: str, *, pair: str | None = None) -> np.ndarray:
        """The ids of a text, int64 [n], with the special tokens that the model was trained with.

        A word that the model does not know is told as a warning.

        >>> import regard
        >>> regard.Model("story").to_tokens("Mia gave")
        array([  1,  30, 123])
        """
        # The decoder of a model with an encoder reads another text.
        return np.array(self._prepared(text, pair=pair, decoder=[] if self._is_pair else None).ids, np.int64)

    def to_str_tokens(self, given: Input) -> list[str]:
        """The tokens of a text or of ids, as the tokenizer writes them.

        >>> import regard
        >>> regard.Model("story").to_str_tokens("Mia gave")
        ['[STORY]', 'Mia', 'gave']
        """
        ids = self.to_tokens(given) if isinstance(given, str) else np.asarray(given)
        return self._opened.names([int(i) for i in ids.ravel()])

    def to_string(self, ids: Iterable[int] | np.ndarray) -> str:
        """The text of ids."""
        return self._opened.decode([int(i) for i in np.ravel(np.asarray(ids))])

    def to_single_token(self, token: str | int) -> int:
        """The id of a token: as the tokenizer writes it ("Ġthe"), as text that is one token (" the"), or a class's name.

        Raises
        ------
        ValueError
            The text is no single token.
        """
        return self._opened.logit_named(token) if isinstance(token, str) else int(token)

    def _prepared(self, words: Any, rate: int = 16_000, pair: str | None = None, chat: bool = False, decoder: Any = None) -> Prepared:
        prepared = self._opened.prepare(words, rate, pair, chat, decoder)
        for word in prepared.unknown:
            warnings.warn(f"the model does not know {word!r}", stacklevel=_level())
        return prepared

    # Runs

    @overload
    def __call__(self, given: One, **options: Any) -> np.ndarray: ...
    @overload
    def __call__(self, given: Input, **options: Any) -> Any: ...
    def __call__(self, given: Input, **options: Any) -> Any:
        """The logits of a text: float32 [n, vocabulary], [classes], or [features] of a vector. The options are those of `run`."""
        return self.run(given, **options)

    @overload
    def run(self, given: One, *, changes: Iterable[Change] = (), **reading: Any) -> np.ndarray: ...
    @overload
    def run(self, given: Input, *, changes: Iterable[Change] = (), **reading: Any) -> Any: ...
    def run(self, given: Input, *, changes: Iterable[Change] = (), **reading: Any) -> Any:
        """The logits of a text, with changes.

        Parameters
        ----------
        given : str, ids or an image, or a list of texts or of lists of ids
            An image is a path (with Pillow), a uint8 array [height, width, 3], or float32 [channels, height, width] that is
            normalized as the model was trained. A recording is the path of a WAV file, float32 samples [n], or its log-mel
            spectrogram [bands, frames].
        changes : changes
            `Ablate`, `Temperature`, `Cut`, `Patch`, `PatchHead`, `Path` and `Add`.
        decoder : str or ids, optional
            What the decoder has written already, for a model with an encoder and a decoder.
        pair, chat
            A second text, for a model that reads two; put the text into the model's chat template.
        rate
            The samples of a second, 16000 unless given.

        Returns
        -------
        numpy.ndarray [n, vocabulary], or [classes]; the vector [features] of a model that gives one for the whole input, such as
        CLIP or a BERT without a head; None of another model without a head
            With a batch axis for a list of equal length, and a list for texts of different lengths.

        >>> import regard
        >>> model = regard.Model("story")
        >>> model.run(["Mia gave Tom the", "Tom gave Mia the"], changes=[regard.Ablate("0.2")]).shape
        (2, 5, 278)
        """
        return self._run(given, (), changes, (), reading)[0]

    @overload
    def run_with_cache(
        self, given: One, names_filter: Filter = None, *, changes: Iterable[Change] = (), fwd_hooks: Iterable[Hook] = (), **reading: Any
    ) -> tuple[np.ndarray, Cache]: ...
    @overload
    def run_with_cache(
        self, given: Input, names_filter: Filter = None, *, changes: Iterable[Change] = (), fwd_hooks: Iterable[Hook] = (), **reading: Any
    ) -> tuple[Any, Any]: ...
    def run_with_cache(
        self, given: Input, names_filter: Filter = None, *, changes: Iterable[Change] = (), fwd_hooks: Iterable[Hook] = (), **reading: Any
    ) -> tuple[Any, Any]:
        """The logits, and a `Cache` of the places of the run.

        Parameters
        ----------
        names_filter : str, strings or function, optional
            Which places: a name, where * stands for any characters, several of them, or a function of a name. All of them
            unless given, but for the copies of the stream for each head (`hook_q_input`, `hook_k_input`, `hook_v_input`),
            `hook_mlp_in` and `hook_result`, which a name asks for.

        Raises
        ------
        KeyError
            The model does not have the place; the message has those that are near it.
        """
        return self._run(given, self._filtered(names_filter), changes, fwd_hooks, reading)

    @overload
    def run_with_hooks(self, given: One, fwd_hooks: Iterable[Hook] = (), *, changes: Iterable[Change] = (), **reading: Any) -> np.ndarray: ...
    @overload
    def run_with_hooks(self, given: Input, fwd_hooks: Iterable[Hook] = (), *, changes: Iterable[Change] = (), **reading: Any) -> Any: ...
    def run_with_hooks(self, given: Input, fwd_hooks: Iterable[Hook] = (), *, changes: Iterable[Change] = (), **reading: Any) -> Any:
        """The logits of a run in which functions read and change places.

        Parameters
        ----------
        fwd_hooks : list of (name, function)
            The function gets the array of the place and a `HookPoint` that has its name. It writes into the array and returns
            None, or returns another array of the shape. A name is as in `run_with_cache`; also `hook_attn_scores` and
            `hook_pattern` can be changed. An error in a function ends the run.

        >>> import regard
        >>> model = regard.Model("story")
        >>> def first_head_sees_nothing(pattern, hook):
        ...     pattern[0] = 0
        >>> model.run_with_hooks("Mia gave Tom the", [("blocks.2.attn.hook_pattern", first_head_sees_nothing)]).shape
        (5, 278)
        """
        return self._run(given, (), changes, fwd_hooks, reading)[0]

    def lens(self, given: Input, *, position: int | None = None, **reading: Any) -> Any:
        """The logits of the residual stream before the first layer and after each one, by the final norm and the unembedding.

        Returns
        -------
        numpy.ndarray [layers + 1, n, vocabulary], or [layers + 1, vocabulary] at a position
            Several texts have a batch axis after the layers; texts of different lengths come as a list, but at a position as one
            array.

        >>> import regard
        >>> regard.Model("story").lens("Mia gave Tom the", position=-1).shape
        (5, 278)
        >>> regard.Model("story").lens(["Mia gave Tom the", "Mia gave"], position=-1).shape
        (5, 2, 278)
        """
        places = self._opened.streams()
        _, cache = self.run_with_cache(given, places, **reading)
        if isinstance(cache, list):
            each = [self._lens([one[place] for place in places], position) for one in cache]
            return each if position is None else np.stack(each, axis=1)
        if cache[places[0]].ndim == 2:
            return self._lens([cache[place] for place in places], position)
        texts = range(len(cache[places[0]]))
        return np.stack([self._lens([cache[place][i] for place in places], position) for i in texts], axis=1)

    def _lens(self, streams: list[np.ndarray], position: int | None) -> np.ndarray:
        """The logits of the streams [n, d_model] of one text, at all positions or at one."""
        layers = []
        for stream in streams:
            if position is not None:
                stream = stream[position_of(position, len(stream))][None]
            logits = self._opened.lens(np.ascontiguousarray(stream))
            if logits is None:
                raise ValueError("the model has no head, and no logits")
            layers.append(logits if position is None or logits.ndim == 1 else logits[0])
        return np.stack(layers)

    def probabilities(self, logits: np.ndarray) -> np.ndarray:
        """The probability of each token, or of each class, from logits as `run` returns them, of any leading axes.

        Tokens and classes of which one holds have the softmax; classes of which several may hold, and a single class, the
        sigmoid of their own logit, as in the pipelines of transformers. `ValueError` for a regression, whose logits are the
        numbers that it predicts.

        Returns
        -------
        numpy.ndarray [..., n] of float64

        >>> import regard
        >>> model = regard.Model("story")
        >>> round(float(model.probabilities(model.run("Mia gave Tom the")[-1]).sum()), 6)
        1.0
        """
        logits = np.asarray(logits, np.float32)
        rows = [self._opened.probabilities(row) for row in np.ascontiguousarray(logits).reshape(-1, logits.shape[-1])]
        if any(row is None for row in rows):
            raise ValueError("the model is a regression: its logits are the numbers that it predicts, and not probabilities")
        return np.array(rows, np.float64).reshape(logits.shape)

    def score(self, given: Input, *, head: Head, query: int, key: int, changes: Iterable[Change] = (), **reading: Any) -> SimpleNamespace:
        """One score of a head, step by step: from the two vectors through position, scale and softmax to the attention weight.

        Returns
        -------
        SimpleNamespace
            `q`, `k` (and `q_before`, `k_before` their position), `products`, `dot`, `scale`, `scaled`, `softcap`, `capped`,
            `bias`, `hidden`, `score`, `temperature`, `maximum`, `sum` and `weight`. `dot` and `weight` have a `value`, a
            `reference` in float64 and their difference, `error`.

        >>> import regard
        >>> score = regard.Model("story").score("Mia gave Tom the ball.", head="0.2", query=-1, key=3)
        >>> score.query, score.key, abs(score.weight.error) < 1e-6
        (6, 3, True)
        """
        one = self._one(given, reading)
        name = self._head(head)
        query, key = (position_of(at, n) for at, n in zip((query, key), self._opened.edges(name, one)))
        text = self._opened.score(one, self._changes(changes, one), name, query, key)
        return json.loads(text, object_hook=lambda fields: SimpleNamespace(**fields))

    def generate(
        self,
        given: Input,
        tokens: int = 20,
        *,
        temperature: float = 0.0,
        seed: int = 0,
        changes: Iterable[Change] = (),
        **reading: Any,
    ) -> Any:
        """Continues a text by at most `tokens` tokens. Returns a str for a text, and ids for ids.

        At the temperature 0 the likeliest token follows; above it, tokens are drawn, the same ones for the same seed.

        >>> import regard
        >>> regard.Model("story").generate("Mia and Tom went to the park.", 6)
        'Mia and Tom went to the park. They were a little tired.'
        """
        one = self._one(given, reading)
        ids = self._opened.generate(one, self._changes(changes, one), tokens, temperature, seed)
        before = one.decoder_ids if self._is_pair else one.ids
        written = np.array([*before, *ids], np.int64)
        if not isinstance(given, str):
            return written
        start = "" if self._is_pair else given
        return start + self.to_string(written)[len(self.to_string(before)) :]

    # Sweeps

    def sweep(
        self,
        given: Input,
        *,
        logit: Any,
        ablate: str | None = None,
        patch: str | None = None,
        path: Head | None = None,
        attribute: str | None = None,
        to: str = "zero",
        source: Any = None,
        into: str = "q",
        position: int | None = None,
        progress: bool | None = None,
        **reading: Any,
    ) -> Sweep:
        """Makes one change after another, each alone, and returns the effect of each on a logit.

        One of these is given:

        - `ablate="each-head"`: each head is replaced by zeros, or with `to="mean"` by its mean over the positions: [layers, heads];
        - `patch="each-head"`: each head's output is that in the run of the text `source`: [layers, heads];
        - `patch="each-place"`: the residual stream that enters each layer at each position is: [layers, n], NaN where one of two
          stacks has fewer positions;
        - `path="L.H"`: each later head's queries (`into="q"`), keys ("k") or values ("v") read what this head's output is in the run
          of `source`, and all between them stays as it is: [layers, heads], NaN where no path leads;
        - `attribute="each-head"`: nothing is changed; what each head adds to the logit directly: [layers, heads].

        Parameters
        ----------
        logit : token, (token, token) or function
            A token's logit, the difference of two, or a function of the logits [n, vocabulary] that gives a number; a function of
            the last ones [1, vocabulary] of a model that writes. A token is an id or a text.
        position : int, optional
            The position whose logits are read: the last one of a model that writes, the mask's of one that fills gaps.
        progress : bool, optional
            Show a bar, which needs tqdm. Without it, a sweep that takes over a second shows one.

        Ctrl-C ends a sweep between two runs.

        >>> import regard
        >>> model = regard.Model("story")
        >>> sweep = model.sweep("Mary and John went to the store. John gave the drink to", ablate="each-head", logit=("Mary", "John"))
        >>> sweep.effect.shape
        (4, 4)
        """
        one = self._one(given, reading)
        chosen = {"ablate": ablate, "patch": patch, "path": path, "attribute": attribute}
        ways = [name for name, value in chosen.items() if value is not None]
        if len(ways) != 1:
            raise ValueError(f"a sweep does one of {', '.join(chosen)}, not {' and '.join(ways) or 'none'}")
        (what,) = ways
        known = {"ablate": ["each-head"], "patch": ["each-head", "each-place"], "attribute": ["each-head"]}
        if what in known and chosen[what] not in known[what]:
            raise ValueError(f"{what} is {' or '.join(map(repr, known[what]))}, not {chosen[what]!r}")
        if (what in ("patch", "path")) != (source is not None):
            raise ValueError("a patch and a path take their numbers from the run of another text, `source`, and nothing else does")

        rows = list(dict.fromkeys(head.rsplit(".", 1)[0] for head in self._heads))
        if what == "attribute":
            return self._attribute(one, logit, position, rows)
        measure, last = self._measure(one, logit, position)
        other = None if source is None else self._source(source, one)
        if what == "ablate" and to not in ("zero", "mean"):
            raise ValueError(f"a head is replaced by 'zero' or by its 'mean', not by {to!r}")
        if what == "path" and into not in ("q", "k", "v"):
            raise ValueError(f"a path leads into 'q', 'k' or 'v' of later heads, not {into!r}")
        by_position = patch == "each-place"
        if what == "ablate":
            each: dict[str, Any] = {"ablated_head": to}
        elif what == "path":
            each = {"path": {"head": self._head(path), "into": into, "from": other}}
        else:
            each = {"patched_place" if by_position else "patched_head": other}
        text = json.dumps(each)
        cells = self._opened.cells(text)
        if by_position:
            rows = list(dict.fromkeys(row for row, _ in cells))
        where = tuple(np.array([(rows.index(row), column) for row, column in cells]).T)
        shape = (len(rows), 1 + int(where[1].max()))
        names = [f" {token}" for token in one.tokens] if not self._is_pair else [""] * shape[1]
        columns = [f"{i}{names[i]}" if by_position else f"head {i}" for i in range(shape[1])]
        with bar(len(cells), progress) as done:
            unchanged, logits = self._opened.sweep(one, text, last, done)
        values = np.full(shape, np.nan, np.float32)
        values[where] = [measure(x) for x in logits]
        whole = measure(unchanged[-1:] if last else unchanged)
        labels = [f"layer {row}" if row.isdigit() else row.replace(".", " ") for row in rows]
        done_to = {
            "ablate": f"each head replaced by {'zeros' if to == 'zero' else 'its mean'}",
            "patch": f"each {'head' if patch == 'each-head' else 'place'} patched from the other text",
            "path": f"the path from head {head_name(path or '')} into {into} of each later head",
        }
        return Sweep(values, whole, labels, columns, done_to[what], _named(logit), by_position)

    def _attribute(self, one: Any, logit: Any, position: int | None, rows: list[str]) -> Sweep:
        if callable(logit):
            raise ValueError("what a head adds to a logit is told of a token, or of the difference of two")
        plus, minus = self._logit(logit)
        at, _, _ = self._opened.measure(one, plus, minus, self._position(one, position))
        parts = json.loads(self._opened.attribute(one, "[]", at, plus, minus))
        of_heads = [layer["heads"] for layer in parts["layers"]] + [layer["cross"] for layer in parts["layers"] if layer.get("cross")]
        rows = [row for row in rows if not row.startswith("encoder")]
        labels = [f"layer {row}" if row.isdigit() else row.replace(".", " ") for row in rows]
        columns = [f"head {head}" for head in range(self.cfg.n_heads)]
        effects = np.array(of_heads, np.float64)
        sweep = Sweep(effects + parts["logit"], parts["logit"], labels, columns, "what each head adds", _named(logit))
        sweep.effect, sweep.parts = effects, parts
        return sweep

    def _measure(self, one: Any, logit: Any, position: int | None) -> tuple[Callable[[np.ndarray], float], bool]:
        """The function that reads a number from the logits of a run, and whether the last position is enough for it."""
        if callable(logit):
            classifies = self.cfg.d_vocab_out != self.cfg.d_vocab
            return lambda logits: float(logit(logits)), position is None and self._description["stack"]["causal"] and not classifies
        plus, minus = self._logit(logit)
        _, row, last = self._opened.measure(one, plus, minus, self._position(one, position))

        def measure(logits: np.ndarray) -> float:
            of_row = logits.reshape(-1, self.cfg.d_vocab_out)[row]
            return float(of_row[plus] - (0 if minus is None else of_row[minus]))

        return measure, last

    def _logit(self, logit: Any) -> tuple[int, int | None]:
        tokens = logit if isinstance(logit, (tuple, list)) else [logit, None]
        if len(tokens) != 2 or not all(one is None or isinstance(one, (str, int, np.integer)) for one in tokens):
            raise TypeError(f"logit is a token, a pair of tokens or a function, not {logit!r}")
        plus, minus = tokens
        return self.to_single_token(plus), None if minus is None else self.to_single_token(minus)

    def _position(self, one: Prepared, position: int | None) -> int | None:
        """A position among those of the logits."""
        return None if position is None else position_of(position, one.lengths[1 if self._is_pair else 0])

    # Weights

    @property
    def W_E(self) -> np.ndarray:  # noqa: N802
        """The embedding [d_vocab, d_model]."""
        return self._parameter("tokens")

    @property
    def W_pos(self) -> np.ndarray:  # noqa: N802
        """The vectors of positions [n_ctx, d_model]."""
        return self._parameter("positions")

    @property
    def W_U(self) -> np.ndarray:  # noqa: N802
        """The unembedding [d_model, d_vocab]."""
        return self._parameter("head").T

    W_Q = _Weight("attn.q", _heads)
    W_K = _Weight("attn.k", _heads)
    W_V = _Weight("attn.v", _heads)
    W_O = _Weight("attn.out", lambda array, cfg: array.T.reshape(cfg.n_heads, cfg.d_head, -1))
    b_Q = _Weight("attn.q.bias", lambda array, cfg: array.reshape(-1, cfg.d_head))
    b_K = _Weight("attn.k.bias", lambda array, cfg: array.reshape(-1, cfg.d_head))
    b_V = _Weight("attn.v.bias", lambda array, cfg: array.reshape(-1, cfg.d_head))
    b_O = _Weight("attn.out.bias", lambda array, cfg: array)
    W_in = _Weight("mlp.up", lambda array, cfg: array.T)
    W_gate = _Weight("mlp.gate", lambda array, cfg: array.T)
    W_out = _Weight("mlp.down", lambda array, cfg: array.T)
    b_in = _Weight("mlp.up.bias", lambda array, cfg: array)
    b_out = _Weight("mlp.down.bias", lambda array, cfg: array)

    def _parameter(self, name: str) -> np.ndarray:
        array = self._opened.parameter(name)
        if array is None:
            raise AttributeError(f"the model does not have {name}")
        return array

    # What the compiled part reads

    @property
    def _is_pair(self) -> bool:
        """Whether the model has an encoder and a decoder."""
        return self._description["encoder"] is not None

    def _head(self, head: Head | None) -> str:
        name = head_name(head or "")
        if name not in self._heads:
            raise nearest(name, self._heads, "the model has no head")
        return name

    def _place(self, place: str) -> str:
        if place not in self._places:
            raise nearest(place, self._places, "the model has no place")
        return place

    def _named(self, pattern: str) -> list[str]:
        if pattern in self._places:
            return [pattern]
        try:
            return self._opened.named([pattern])
        except ValueError:
            raise nearest(pattern, self._places, "the model has no place") from None

    def _filtered(self, names: Filter) -> list[str]:
        if names is None:
            return ["*"]
        if callable(names):
            return [place for place in self._places if names(place)]
        return [place for name in ([names] if isinstance(names, str) else names) for place in self._named(name)]

    def _changes(self, changes: Iterable[Change], one: Prepared) -> str:
        return json.dumps([change._as_json(self, one) for change in changes])

    def _source(self, source: Any, beside: Prepared) -> dict[str, Any]:
        """The input from which changes of the run on `beside` are taken. It is read as that one is."""
        words, rate = self._words(source, 16_000)
        found: dict[str, Any] = json.loads(self._opened.source(words, rate, beside))
        return found

    @property
    def _frames(self) -> dict[str, int] | None:
        """The bands and the number of frames that a model of sound reads."""
        return self._description["embedding"].get("frames")

    def _inputs(self, given: Input, reading: dict[str, Any]) -> tuple[list[Prepared], bool]:
        """The inputs, and whether there is a batch of them."""
        if self._description["embedding"]["patches"] is None and self._frames is None:
            given = np.asarray(given) if hasattr(given, "__dlpack__") else given  # such as a tensor [batch, n]
            batch = (isinstance(given, (list, tuple)) and len(given) > 0 and not isinstance(given[0], (int, np.integer))) or (
                isinstance(given, np.ndarray) and given.ndim == 2
            )
        else:
            batch = isinstance(given, (list, tuple))
        if not batch:
            return [self._one(given, reading)], False
        return [self._one(one, reading) for one in given], True  # type: ignore[union-attr]

    def _one(self, given: Any, reading: dict[str, Any]) -> Prepared:
        unknown = set(reading) - {"decoder", "pair", "chat", "rate"}
        if unknown:
            raise TypeError(f"there is no option {sorted(unknown)[0]!r}")
        words, rate = self._words(given, reading.get("rate", 16_000))
        decoder = reading.get("decoder")
        if decoder is not None and not isinstance(decoder, str):
            decoder = [int(i) for i in np.ravel(np.asarray(decoder))]
        return self._prepared(words, rate, reading.get("pair"), bool(reading.get("chat", False)), decoder)

    def _words(self, given: Any, rate: int) -> tuple[Any, int]:
        """What is given in the form that the compiled part prepares: a text, ids, bytes or numbers; and a recording's rate."""
        if self._description["embedding"]["patches"] is not None:
            if isinstance(given, (str, os.PathLike)):
                from PIL import Image

                with Image.open(given) as image:
                    given = np.asarray(image.convert("RGB"))
            array = np.asarray(given)
            return np.ascontiguousarray(array, np.uint8 if array.dtype == np.uint8 else np.float32), rate
        if self._frames is not None:
            if isinstance(given, (str, os.PathLike)):
                with open(given, "rb") as file:
                    return self._opened.wav(file.read())
            return np.ascontiguousarray(given, np.float32), rate
        if isinstance(given, str):
            return given, rate
        array = np.asarray(given)
        if array.ndim != 1 or array.dtype.kind not in "iu":
            raise ValueError(f"a text is a str, or whole numbers [n], not {array.dtype} of the shape {array.shape}")
        if array.size and (array.min() < 0 or array.max() >= self.cfg.d_vocab):
            wrong = array[(array < 0) | (array >= self.cfg.d_vocab)][0]
            raise ValueError(f"the token {wrong} is not one of the vocabulary's {self.cfg.d_vocab}")
        return array.tolist(), rate

    def _run(self, given: Input, keep: Sequence[str], changes: Iterable[Change], hooks: Iterable[Hook], reading: dict[str, Any]) -> Any:
        inputs, is_batch = self._inputs(given, reading)
        if not inputs:
            raise ValueError("there is no text to read")
        changes = list(changes)
        at = [(place, function) for name, function in hooks for place in (self._filtered(name) if callable(name) else self._named(name))]
        # Changes may come from a text that is read beside this one, with the types of its tokens.
        groups: dict[Any, list[int]] = {}
        for i, one in enumerate(inputs):
            groups.setdefault((one.lengths, tuple(one.types) if changes else ()), []).append(i)
        logits: list[Any] = [None] * len(inputs)
        caches: list[Any] = [None] * len(inputs)
        for indices in groups.values():
            together = [inputs[i] for i in indices]
            text = self._changes(changes, together[0])
            # A hook sees a batch axis in every group of a batch, or in none.
            adds_batch = is_batch and len(together) == 1
            called = [(place, _called(function, adds_batch)) for place, function in at]
            found, kept = self._opened.run(together, list(keep), text, called, False)
            if not is_batch:
                return found, _cache(kept, together[0])
            if adds_batch:
                found = None if found is None else found[None]
                kept = {name: array[None] for name, array in kept.items()}
            if len(groups) == 1:
                return found, _cache(kept, together)
            for row, i in enumerate(indices):
                logits[i] = None if found is None else found[row]
                caches[i] = _cache({name: array[row] for name, array in kept.items()}, inputs[i])
        if len({one.lengths for one in inputs}) == 1:
            kept = {name: np.stack([cache[name] for cache in caches]) for name in caches[0]}
            return None if logits[0] is None else np.stack(logits), _cache(kept, inputs)
        return logits, caches


def _cache(arrays: dict[str, np.ndarray], of: Prepared | list[Prepared]) -> Cache:
    """What the run of an input has kept, or the run of several."""
    if not isinstance(of, list):
        return Cache(arrays, of.tokens, of.decoder_tokens)
    decoder_tokens = [one.decoder_tokens for one in of]
    return Cache(arrays, [one.tokens for one in of], decoder_tokens if any(decoder_tokens) else None)


def _level() -> int:
    """The stack level of a warning at the caller's line, outside of this package."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] == "regard":
        frame, level = frame.f_back, level + 1
    return level


def _called(function: Callable[[np.ndarray, HookPoint], Any], adds_batch: bool) -> Callable[[np.ndarray, str], Any]:
    """Wraps a hook for the compiled part. A batch of one text has a batch axis for the hook, and none in the compiled part."""
    if not adds_batch:
        return lambda array, name: function(array, HookPoint(name))

    def call(array: np.ndarray, name: str) -> Any:
        result = function(array[None], HookPoint(name))
        return None if result is None else np.asarray(result)[0]

    return call


def _named(logit: Any) -> str:
    if callable(logit):
        return getattr(logit, "__name__", "a function of the logits")
    return " − ".join(str(token) for token in logit if token is not None) if isinstance(logit, (tuple, list)) else str(logit)


#: The weights of each layer by their names.
_WEIGHTS = {name: weight for name, weight in vars(Model).items() if isinstance(weight, _Weight)}


def _config(name: str, description: dict[str, Any], opened: Opened) -> Config:
    stack, block = description["stack"], description["stack"]["block"]
    return Config(
        model_name=name,
        original_architecture=description["family"],
        n_layers=len(stack["windows"]),
        n_heads=block["heads"],
        n_key_value_heads=block["kv_heads"],
        d_model=description["width"],
        d_head=block["head_size"],
        d_mlp=block["hidden"],
        n_ctx=description["context"],
        d_vocab=description["vocabulary"],
        d_vocab_out=opened.logits(),
        act_fn=block["activation"],
        eps=block["norm"]["epsilon"],
        n_encoder_layers=0 if description["encoder"] is None else len(description["encoder"]["windows"]),
    )


_OPENED: dict[tuple[str, int | None], Model] = {}


def opened_once(name: str, where: str, threads: int | None) -> Model:
    """The model of a pickled `Model`. A process opens it only once, and once more after its files have been overwritten."""
    key = (where, threads)
    model = _OPENED.get(key)
    if model is None or model._files != _files(None if where in Opened.BUNDLED else _find(where, False)):
        model = _OPENED[key] = Model(where, threads=threads)
        model.name, model.cfg = name, dataclasses.replace(model.cfg, model_name=name)
    return model


def _files(path: Path | None) -> list[tuple[str, int, int]]:
    """The names, sizes and times of a model's files."""
    if path is None:
        return []
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    stats = [(file.name, file.stat()) for file in files if file.is_file()]
    return [(name, stat.st_size, stat.st_mtime_ns) for name, stat in stats]


def _find(name: str, download: bool) -> Path:
    """The folder or file of a model."""
    path = Path(name)
    if path.exists():
        return path
    home = os.environ.get
    base = home("HF_HUB_CACHE") or (home("HF_HOME") and f"{home('HF_HOME')}/hub") or None
    cache = Path(base or f"{home('XDG_CACHE_HOME') or Path.home() / '.cache'}/huggingface/hub")
    folder = cache / f"models--{name.replace('/', '--')}"
    found = _snapshot(folder)
    if download and (found is None or not (any(found.glob("*.gguf")) or any(found.glob("*.safetensors")))):
        from ._program import run

        run("model", "--download", "--", name)
        found = _snapshot(folder)
    if found is None:
        raise FileNotFoundError(f"{name}: there is no such file or folder, and {folder} is not in the cache; download=True fetches it")
    files = [] if (found / "config.json").exists() else list(found.glob("*.gguf"))
    return files[0] if len(files) == 1 else found


def _snapshot(folder: Path) -> Path | None:
    try:
        found = folder / "snapshots" / (folder / "refs" / "main").read_text().strip()
    except OSError:
        return None
    return found if found.is_dir() else None
