"""The program `regard`, which is a package of its own."""

from __future__ import annotations

import warnings
from pathlib import Path

_NAMES = ("regard", "regard.exe")


def program() -> Path:
    """The path of the program `regard`: that of the package `regard-program`, or else the one that the shell would find.

    Raises
    ------
    FileNotFoundError
        There is neither.
    """
    # These modules are imported where they are used, because importing them takes longer than importing the rest of the package.
    import shutil
    from importlib import metadata

    try:
        files = metadata.files("regard-program") or []
    except metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.name in _NAMES and (path := Path(file.locate())).is_file():
            return path.resolve()
    found = shutil.which("regard")
    if found is None:
        raise FileNotFoundError(
            "the program `regard` is not there: neither is the package regard-program installed, nor does PATH have it; "
            "`pip install ./apps/desktop` or `cargo install --path apps/desktop` in the repository installs it"
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
