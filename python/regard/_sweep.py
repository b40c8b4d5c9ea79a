"""The results of a sweep or a study, as arrays and as a picture."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from ._model import Model


def heatmap(numbers: np.ndarray, rows: Sequence[str], columns: Sequence[str], title: str, spread: np.ndarray | None = None) -> str:
    """A table of numbers of both signs as coloured cells, with the number under the pointer, in HTML that loads no other file."""
    from html import escape

    largest = float(np.nanmax(np.abs(numbers), initial=0)) or 1.0
    lines = []
    for i, row in enumerate(rows):
        cells = [f"<th style='text-align: right; font-weight: normal; white-space: nowrap'>{escape(row)}</th>"]
        for j, column in enumerate(columns):
            number = float(numbers[i, j])
            color, told = "transparent", "none"
            if not np.isnan(number):
                color = f"rgba({'178, 24, 43' if number < 0 else '33, 102, 172'}, {abs(number) / largest:.3f})"
                told = f"{number:.4f}" + ("" if spread is None else f" ± {spread[i, j]:.4f}")
            told = escape(f"{row}, {column}: {told}", quote=True)
            cells.append(f"<td title='{told}' style='background: {color}; min-width: 1.6em; height: 1.6em; padding: 0'></td>")
        lines.append(f"<tr>{''.join(cells)}</tr>")
    head = "".join(f"<th style='font-weight: normal'>{escape(column.removeprefix('head '))}</th>" for column in columns)
    ends = f"from {np.nanmin(numbers):.3f} (red) to {np.nanmax(numbers):.3f} (blue)"
    return (
        f"<div>{escape(title)}: {ends}</div>"
        f"<table style='border-collapse: collapse'><tr><th></th>{head}</tr>{''.join(lines)}</table>"
    )


class Sweep:
    """The effect of each change of a sweep on a logit.

    Attributes
    ----------
    values : numpy.ndarray [rows, columns]
        The logit with each change alone.
    unchanged : float
        The logit without a change.
    effect : numpy.ndarray [rows, columns]
        By how much each change changes it: `values - unchanged`. NumPy's functions take a sweep as this array.
    rows, columns : list of str
        The names of layers, and of heads or positions.
    """

    effect: np.ndarray
    #: What each part adds to the logit, of an attribution.
    parts: dict[str, Any] | None = None

    def __init__(
        self,
        values: np.ndarray,
        unchanged: float,
        rows: list[str],
        columns: list[str],
        what: str,
        logit: str,
        by_position: bool = False,
    ) -> None:
        self.values, self.unchanged, self.rows, self.columns = values, unchanged, rows, columns
        self.effect = values - np.asarray(unchanged, values.dtype)
        self.what, self.logit = what, logit
        #: Whether a column is a position, and not a head.
        self.by_position = by_position

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return self.effect.astype(dtype or self.effect.dtype, copy=bool(copy))

    @property
    def shape(self) -> tuple[int, ...]:
        return self.effect.shape

    def __len__(self) -> int:
        return len(self.effect)

    def __getitem__(self, index: Any) -> Any:
        """The effect at an index, such as `sweep[layer, head]`."""
        return self.effect[index]

    def __sub__(self, other: Any) -> np.ndarray:
        """The difference of the effects, such as of two texts."""
        return self.effect - np.asarray(other)

    def __rsub__(self, other: Any) -> np.ndarray:
        return np.asarray(other) - self.effect

    def to_pandas(self) -> Any:
        """A table of the effects, with the names of rows and columns."""
        import pandas

        return pandas.DataFrame(self.effect, self.rows, self.columns)

    def top(self, count: int = 5) -> list[tuple[str, str, float]]:
        """The changes with the largest effects of either sign: row, column and effect."""
        order = np.argsort(-np.abs(np.nan_to_num(self.effect)), axis=None)[:count]
        places = zip(*np.unravel_index(order, self.effect.shape))
        return [(self.rows[i], self.columns[j], float(self.effect[i, j])) for i, j in places]

    def __repr__(self) -> str:
        lines = [f"  {row}, {column}: {effect:+.4f}" for row, column, effect in self.top()]
        return "\n".join([f"{self.logit}, {self.unchanged:.4f} unchanged; {self.what}; the largest effects:", *lines])

    def _repr_html_(self) -> str:
        title = f"{self.logit}, {self.unchanged:.4f} unchanged; {self.what}"
        return heatmap(self.effect, self.rows, self.columns, title)


class Study:
    """A sweep of each of many prompts.

    Attributes
    ----------
    effects : numpy.ndarray [prompts, rows, columns]
        What each change does to the logit of each prompt.
    unchanged : numpy.ndarray [prompts]
        The logit of each prompt without a change.
    mean, std, sem : numpy.ndarray [rows, columns]
        The mean over the prompts, its standard deviation, and the standard error of the mean.
    errors : dict of int to str
        What is wrong with a prompt that could not be swept, by its number among those that were given.
    """

    errors: dict[int, str]

    def __init__(self, prompts: list[Any], sweeps: list[Sweep]) -> None:
        self.prompts, self.sweeps, self.errors = prompts, sweeps, {}
        shapes = {sweep.shape for sweep in sweeps}
        if len(shapes) > 1:
            counts = ", ".join(str(sweep.shape[1]) for sweep in sweeps)
            raise ValueError(f"places of prompts of different lengths have no mean: the prompts have {counts} tokens")
        self.rows, self.what = sweeps[0].rows, sweeps[0].what
        # A position that has one token in all prompts is named by it, and another by its number.
        names = zip(*(sweep.columns for sweep in sweeps))
        self.columns = [all_[0] if len(set(all_)) == 1 else str(i) for i, all_ in enumerate(names)]
        self.effects = np.stack([sweep.effect for sweep in sweeps])
        self.unchanged = np.array([sweep.unchanged for sweep in sweeps])
        wide = self.effects.astype(np.float64)
        self.mean, self.std = wide.mean(0), wide.std(0, ddof=min(1, len(sweeps) - 1))
        self.sem = self.std / np.sqrt(len(sweeps))

    def to_pandas(self) -> Any:
        """A table with a line for each prompt, row and column.

        Its columns are `prompt`, `row` and `column` (the names), `layer` and `head` or `position` (whole numbers, which sort as
        numbers), `effect` and `unchanged`.
        """
        import pandas

        prompt, row, column = (index.ravel() for index in np.indices(self.effects.shape))
        names = np.array([sweep.columns for sweep in self.sweeps])
        layers = np.array([int(name.split()[-1]) for name in self.rows])
        return pandas.DataFrame({
            "prompt": prompt,
            "row": np.array(self.rows)[row],
            "column": names[prompt, column],
            "layer": layers[row],
            "position" if self.sweeps[0].by_position else "head": column,
            "effect": self.effects.ravel(),
            "unchanged": self.unchanged[prompt],
        })

    def __repr__(self) -> str:
        order = np.argsort(-np.abs(np.nan_to_num(self.mean)), axis=None)[:5]
        lines = [f"  {self.rows[i]}, {self.columns[j]}: {self.mean[i, j]:+.4f} ± {self.sem[i, j]:.4f}"
                 for i, j in zip(*np.unravel_index(order, self.mean.shape))]
        return "\n".join([f"{len(self.prompts)} prompts; {self.what}; the largest mean effects, ± standard errors:", *lines])

    def _repr_html_(self) -> str:
        title = f"{self.what}; the mean effect over {len(self.prompts)} prompts ± its standard error"
        return heatmap(self.mean, self.rows, self.columns, title, self.sem)


def _sweep(model: Model, options: dict[str, Any], prompt: Any, answer: Any, source: Any = None) -> Sweep | Exception:
    """The sweep of a prompt, or the error of one that cannot be swept, so that the others are kept."""
    try:
        return model.sweep(prompt, logit=answer, progress=False, **options, **({} if source is None else {"source": source}))
    except (ValueError, KeyError, TypeError) as e:
        return e


def study(
    model: Model,
    prompts: Iterable[Any],
    answers: Iterable[Any],
    *,
    sources: Iterable[Any] | None = None,
    map: Callable[..., Iterable[Any]] = map,
    progress: bool | None = None,
    **sweep: Any,
) -> Study:
    """A sweep of each of many prompts, on one machine or on many.

    Parameters
    ----------
    prompts : texts or ids
    answers : tokens, or pairs of them
        The `logit` of each prompt.
    sources : texts or ids, optional
        The other text of each prompt, for patches and paths.
    map : function
        Anything that means the same as the built-in: an executor's `map`, or Dask's `Client.map`, whose futures are waited for. A
        process opens the model once. What a worker computes has the bits of one process.
    progress : bool, optional
        As of `Model.sweep`.

    A prompt that cannot be swept, for instance because its answer is no token, is left out with a warning that names it. If none can, the
    error names the last one.

    **sweep
        What is swept, as of `Model.sweep`: each head is ablated unless something else is given.

    >>> import regard
    >>> model = regard.Model("story")
    >>> prompts = ["Mary and John went to the store. John gave the drink to", "John and Mary went to the store. Mary gave the drink to"]
    >>> regard.study(model, prompts, [("Mary", "John"), ("John", "Mary")]).effects.shape
    (2, 4, 4)
    """
    from ._progress import bar

    prompts, answers = list(prompts), list(answers)
    columns = [prompts, answers] + ([] if sources is None else [list(sources)])
    if len({len(column) for column in columns}) != 1 or not prompts:
        raise ValueError(f"there are {len(prompts)} prompts, but {' and '.join(str(len(column)) for column in columns[1:])} answers or sources")
    if not {"ablate", "patch", "path", "attribute"} & set(sweep):
        sweep["ablate"] = "each-head"
    results = []
    with bar(len(prompts), progress) as done:
        for result in map(partial(_sweep, model, sweep), *columns):
            results.append(result.result() if hasattr(result, "result") else result)
            if done is not None:
                done(len(results))
    wrong = {i: result for i, result in enumerate(results) if isinstance(result, Exception)}
    for i, error in wrong.items():
        said = f"prompt {i}, {prompts[i]!r}: {error.args[0] if error.args else error}"
        if len(wrong) == len(results):
            raise type(error)(said) from error
        warnings.warn(f"{said}; the study is of the other prompts", stacklevel=2)
    kept = [i for i in range(len(prompts)) if i not in wrong]
    study = Study([prompts[i] for i in kept], [results[i] for i in kept])
    study.errors = {i: str(error) for i, error in wrong.items()}
    return study
