"""The program `regard`, which a wheel carries among its scripts."""

from __future__ import annotations

import warnings
from pathlib import Path

_NAMES = ("regard", "regard.exe")


def program() -> Path:
    """The path of the program `regard`: the one of this package, or else the one that the shell would find.

    Raises
    ------
    FileNotFoundError
        There is neither.
    """
    # Imported where they are used: together they take longer than all of the package.
    import shutil
    from importlib import metadata

    try:
        files = metadata.files("regard") or []
    except metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.name in _NAMES and (path := Path(file.locate())).is_file():
            return path.resolve()
    found = shutil.which("regard")
    if found is None:
        raise FileNotFoundError(
            "the program `regard` is not there: this package was built without it, and PATH does not have it"
        )
    return Path(found)


def run(*arguments: str) -> None:
    """Runs a command of the program. What it notes becomes a warning, and its error an exception."""
    import subprocess

    done = subprocess.run(
        [program(), *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8"
    )
    for line in done.stderr.splitlines():
        if line.startswith("note: "):
            warnings.warn(line.removeprefix("note: "), stacklevel=3)
    if done.returncode:
        error = done.stderr.strip().removeprefix("error: ")
        # 2 is bad input or wrong usage.
        raise (ValueError if done.returncode == 2 else RuntimeError)(error)
