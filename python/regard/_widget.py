"""The page below the cell of a notebook: `_widget.js` in Python's terms. It needs anywidget."""

from __future__ import annotations

from pathlib import Path

import anywidget

HERE = Path(__file__).parent
# The files of the page, each compressed with gzip. There are none if the package was built without them.
PAGE = {path.relative_to(HERE / "_page").as_posix()[:-3]: path.read_bytes() for path in sorted((HERE / "_page").rglob("*.gz"))}


class Heads(anywidget.AnyWidget):
    """The page with an attention.

    The state of a widget may be saved in the notebook's file, so it stays small: the files go to each view that asks for them.
    """

    _esm = HERE.joinpath("_widget.js").read_text(encoding="utf-8")

    def __init__(self, attention: bytes) -> None:
        super().__init__()
        self.on_msg(lambda *_: self.send(list(PAGE), [attention, *PAGE.values()]))

    def __repr__(self) -> str:
        return "Attention heads"
