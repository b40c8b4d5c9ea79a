"""The program `regard`, which is among the scripts of a wheel."""

from __future__ import annotations

import warnings
from pathlib import Path

_NAMES = ("regard", "regard.exe")


def program() -> Path:
    """The path of the program `regard`: that of this package, or else the one that the shell would find.

    Raises
    ------
    FileNotFoundError
        There is neither.
    """
    # These modules are imported where they are used, because importing them takes longer than importing the rest of the package.
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
            "the program `regard` is not there: this package was built without it, and PATH does not have it; "
            "`cargo install --path apps/desktop` in the repository puts it on PATH"
        )
    return Path(found)


def run(*arguments: str) -> None:
    """Runs a command of the program. Its notes become warnings, and its error becomes an exception."""
    import subprocess

    done = subprocess.run(
        [program(), *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8"
    )
    for line in done.stderr.splitlines():
        if line.startswith("note: "):
            warnings.warn(line.removeprefix("note: "), stacklevel=3)
    if done.returncode:
        error = done.stderr.strip().removeprefix("error: ")
        # The exit code 2 means bad input or wrong usage.
        raise (ValueError if done.returncode == 2 else RuntimeError)(error)
