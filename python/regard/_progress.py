"""A progress bar for work that takes longer than a second."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def bar(total: int, shown: bool | None) -> Iterator[Callable[[int], Any] | None]:
    """A function to call with the part of `total` that is done. It shows a bar of tqdm, after a second unless `shown` is given."""
    if shown is False or total == 0:
        yield None
        return
    try:
        from tqdm.auto import tqdm
    except ImportError:
        yield None
        return
    with tqdm(total=total, delay=0 if shown else 1, leave=False) as progress:
        yield lambda done: progress.update(done - progress.n)
