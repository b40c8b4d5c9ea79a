#!/usr/bin/env python3
"""Runs the commands of the pages: `python3 docs/blocks.py [PAGE…]`. Without names, it takes all pages.

The blocks of a page run in their order, as they stand, in a copy of the project, from its root.

- sh: by `bash -e`, with `regard` on the path. `cargo run --release -- …` is `regard …`, and `cargo test --workspace` is left out,
  because CI has run it. `cargo run -p … --example NAME` runs the example that the tests have built, if they have. The commands in
  the second column of the README's table run, too.
- python: in a virtual environment, which has what `pip install ./python` installs. A block with `>>>` is a doctest.
- toml: all blocks of a page are the Cargo.toml of one crate, whose dependencies `cargo metadata` must find. Until Regard is published,
  the block of docs/install.md marked `until-published` belongs to each; the repository is this clone.
- rust: `cargo test` runs them, so a file of Rust must include the page.
- json: it must parse. text, html, console and a block marked `ignore` are only shown.

What cannot run everywhere has one of the words of NOT_RUN after its language (```sh,needs-board). The end lists it.

Relative links must lead to files. docs/install.md says whether Regard is published; until then no page may name what does not exist:
a package in a registry, its documentation, the page's address.

It needs the programs: target/debug/regard or $REGARD, and regard-mpi in target/cluster/debug. $REGARD_WHEEL is a
wheel to install in place of ./python; python/test.sh makes one.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import venv

ROOT = pathlib.Path(__file__).resolve().parent.parent
REGARD = pathlib.Path(os.environ.get("REGARD", ROOT / "target" / "debug" / "regard")).resolve()
NOT_RUN = {
    "needs-network": "it downloads something large, or something that is not there yet",
    "needs-board": "it needs a board or its emulator; the tests of apps/firmware run the same",
    "opens-a-window": "it runs until somebody ends it",
    "takes-minutes": "it takes minutes; .ci/run runs the same, or it measures",
    "publishes": "it uploads",
}
SHOWN = {"text", "html", "console", "json"}
BLOCK = re.compile(r"^( *)```([^\n`]*)\n(.*?)^ *```$", re.S | re.M)
LINK = re.compile(r"\]\(([^()\s]+)\)")
UNPUBLISHED = "Regard is not published yet"
REGISTRIES = re.compile(r"pip install \S*regard\b|cargo add regard|docs\.rs/regard|crates\.io/crates/regard|github\.io/regard")
# Definitions for the commands of a block. The package for Python has a target folder of its own, or is $REGARD_WHEEL.
SHELL = """
pip() {
    if [ "$*" = "install ./python" ] && [ -n "${REGARD_WHEEL-}" ]; then set -- install "$REGARD_WHEEL"; fi
    CARGO_TARGET_DIR=$CARGO_TARGET_DIR/python command pip "$@"
}
cargo() {
    case "$*" in
        "test --workspace") ;;
        "run --release -p "*) command cargo "$@" ;;
        "run --release -- "*) shift 3; regard "$@" ;;
        "run --release") regard ;;
        "run -p "*" --example "*)
            if [ -x "$EXAMPLES/$5" ]; then shift 4; "$EXAMPLES/$1" "${@:2}"; else command cargo "$@"; fi ;;
        *) command cargo "$@" ;;
    esac
}
"""


def blocks(page):
    """The blocks of a page: (line, language, marks, code), without the indentation of a list."""
    text = page.read_text()
    for match in BLOCK.finditer(text):
        indent, info, code = match.groups()
        language, *marks = re.split(r"[,\s]+", info.strip())
        code = re.sub(f"^{indent}", "", code, flags=re.M)
        yield text.count("\n", 0, match.start()) + 1, language, marks, code
    if page == ROOT / "README.md":
        for match in re.finditer(r"^\|[^|]*\| `([^`|]+)` \|", text, re.M):
            yield text.count("\n", 0, match.start()) + 1, "sh", [], match[1] + "\n"


def links(page, unpublished):
    """The errors in the wording of a page."""
    text = page.read_text()
    for target in LINK.findall(BLOCK.sub("", text)):
        path = target.partition("#")[0]
        if path and not re.match(r"[a-z]+:|mathematics/", path) and not (page.parent / path).exists():
            yield f"the link {target} leads nowhere"
    if unpublished and page.name != "RELEASING.md":
        for match in REGISTRIES.finditer(text):
            yield f"`{match[0]}` does not work before the first release"


class Reader:
    """Runs the blocks of a page, in a copy of the project."""

    def __init__(self, folder, unpublished):
        self.project, self.crate_lines, self.installed = folder / "regard", "", False
        files = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        for name in subprocess.check_output(files, cwd=ROOT, text=True).split("\0"):
            if (ROOT / name).is_file():
                (self.project / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, self.project / name)
        if unpublished:
            install = blocks(ROOT / "docs" / "install.md")
            self.crate_lines = "".join(code for _, language, marks, code in install if "until-published" in marks)
        venv.create(folder / "venv", with_pip=True)
        (folder / "venv" / "bin" / "regard").symlink_to(REGARD)
        (folder / "venv" / "bin" / "regard-mpi").symlink_to(ROOT / "target" / "cluster" / "debug" / "regard-mpi")
        with open(ROOT / "Cargo.toml", "rb") as file:
            repository = tomllib.load(file)["workspace"]["package"]["repository"]
        hidden = {"DISPLAY", "WAYLAND_DISPLAY", "WAYLAND_SOCKET"}  # the window would wait for somebody
        self.environment = {key: value for key, value in os.environ.items() if key not in hidden} | {
            "PATH": f"{folder / 'venv' / 'bin'}:{os.environ['PATH']}",
            "CARGO_TARGET_DIR": str(ROOT / "target"),
            "EXAMPLES": str(ROOT / "target" / "debug" / "examples"),
            "MATURIN_PEP517_ARGS": "--profile dev",  # a release build takes minutes
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            # A container of CI has fewer cores than the example has ranks.
            "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "OMPI_MCA_rmaps_base_oversubscribe": "1",
            # Git, and through it Cargo, finds the repository in this clone.
            "CARGO_NET_GIT_FETCH_WITH_CLI": "true",
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": f"url.file://{ROOT}.insteadOf",
            "GIT_CONFIG_VALUE_0": repository,
        }

    def python(self):
        """Installs what blocks of Python need, once."""
        if not self.installed:
            self.run(["bash", "-ec", f"{SHELL} pip install ./python; pip install numpy safetensors"])
        self.installed = True

    def run(self, command):
        """Runs a command to its end. Its output is shown only if it fails."""
        done = subprocess.run(
            command, cwd=self.project, env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, timeout=1800,
        )
        if done.returncode != 0:
            raise RuntimeError("\n".join(done.stdout.splitlines()[-20:]))

    def crate(self, code):
        """Looks for the dependencies of a Cargo.toml."""
        crate = self.project / "firmware"
        (crate / "src").mkdir(parents=True, exist_ok=True)
        (crate / "src" / "lib.rs").write_text("")
        package = '[workspace]\n[package]\nname = "page"\nedition = "2024"\n'
        (crate / "Cargo.toml").write_text(package + code + self.crate_lines)
        shutil.copy(ROOT / "Cargo.lock", crate)
        self.run(["cargo", "metadata", "--quiet", "--format-version", "1", "--manifest-path", "firmware/Cargo.toml"])

    def block(self, language, marks, code):
        if language == "python":
            self.python()
        if language == "sh":
            self.run(["bash", "-e", "-o", "pipefail", "-c", SHELL + code])
        elif language == "python" and ">>>" in code:
            with open(self.project / "session.txt", "a") as session:  # what earlier blocks of the page defined stays
                session.write(code)
            self.run(["python", "-m", "doctest", "session.txt"])
        elif language == "python":
            self.run(["python", "-c", code])
        elif language == "json":
            json.loads(code)
        elif language not in SHOWN and "ignore" not in marks:
            raise RuntimeError("the block has no language that is known here")


def pages(names):
    """The pages that are named, or all."""
    if names:
        return [pathlib.Path(name).resolve() for name in names]
    found = subprocess.check_output(["git", "ls-files", "*.md"], cwd=ROOT, text=True).split()
    return [ROOT / name for name in found if "decisions/" not in name and "golden/" not in name]


def documented():
    """The pages that a file of Rust includes."""
    found = subprocess.check_output(["git", "grep", "-o", r'include_str!(".*\.md")', "--", "*.rs"], cwd=ROOT, text=True)
    return {(ROOT / file).parent.joinpath(text.split('"')[1]).resolve() for file, text in (line.split(":", 1) for line in found.splitlines())}


def main():
    unpublished = UNPUBLISHED in (ROOT / "docs" / "install.md").read_text()
    included = documented()
    failures, not_run, count = [], [], 0
    with tempfile.TemporaryDirectory(prefix="regard-blocks-") as folder:
        reader = Reader(pathlib.Path(folder), unpublished)
        for page in pages(sys.argv[1:]):
            name, found = page.relative_to(ROOT), list(blocks(page))
            failures += [f"{name}: {failure}" for failure in links(page, unpublished)]
            for line, language, marks, code in found:
                reason = next((mark for mark in marks if mark in NOT_RUN), None)
                if reason:
                    not_run.append(f"{name}:{line}: not run, because {NOT_RUN[reason]}")
                    continue
                if language == "toml" or (page in included and language in ("", "rust", "ignore")):
                    continue
                print(f"{name}:{line}", flush=True)
                count += 1
                try:
                    reader.block(language, marks, code)
                except (RuntimeError, ValueError, subprocess.TimeoutExpired) as failure:
                    failures.append(f"{name}:{line}: {failure}\n{code}")
            (reader.project / "session.txt").unlink(missing_ok=True)
            lines = "".join(code for _, language, marks, code in found if language == "toml" and not marks)
            if lines:
                count += 1
                try:
                    reader.crate(lines)
                except RuntimeError as failure:
                    failures.append(f"{name}: its Cargo.toml: {failure}")
    print("\n".join(not_run))
    if failures:
        sys.exit("\n".join(failures))
    print(f"{count} blocks ran")


main()
