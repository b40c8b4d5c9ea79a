#!/usr/bin/env python3
"""Makes the book: `python3 docs/book.py` from the project's root. It lies in target/book/html afterwards.

A chapter is a file of the project, or an example that `regard walk --format markdown` prints with its pictures. Links between
files become links between chapters; links to other files lead to the repository. A link that leads nowhere is an error.

It needs `mdbook` (`cargo install mdbook`) and the program: target/debug/regard, or $REGARD.
"""

import html.parser
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
BOOK = ROOT / "target" / "book"
REGARD = os.environ.get("REGARD", ROOT / "target" / "debug" / "regard")
LINK = re.compile(r"(!?\[(?:[^\[\]]|\[[^\]]*\])*\])\(([^()\s]+)\)")
CODE = re.compile(r"(^```.*?^```)", re.S | re.M)


def repository():
    """The address of files that are not chapters."""
    with open(ROOT / "Cargo.toml", "rb") as file:
        return tomllib.load(file)["workspace"]["package"]["repository"]


def regard(*arguments):
    """The output of the program."""
    return subprocess.run([REGARD, *arguments], check=True, capture_output=True, text=True).stdout


def chapters(summary):
    """The chapter of each file that the summary names: {file: (path within the book, title)}."""
    found = {}
    for label, target in LINK.findall(summary):
        file = (DOCS / target).resolve()
        place = file.relative_to(DOCS) if file.is_relative_to(DOCS) else file.relative_to(ROOT)
        # mdBook calls README.md index.html, but not in links.
        name = "method.md" if place.name == "README.md" else place.name.lower()
        found[file] = str(place.with_name(name)), label[1:-1]
    return found


def without_rustdoc(text):
    """Links into the crate's documentation as plain names, and Rust's blocks with their language."""
    text = re.sub(r"\[(`[^`]+`)\]\(crate::[^)]*\)", r"\1", text)
    text = re.sub(r"\[(`[^`]+`)\](?![\[(:])", r"\1", text)
    return "".join(re.sub(r"\A```\n", "```rust\n", part) for part in CODE.split(text))


def lower(text):
    """Headings one level lower, below a title."""
    parts = CODE.split(text)
    return "".join(part if CODE.fullmatch(part) else re.sub(r"^(?=#+ )", "#", part, flags=re.M) for part in parts)


def linked(text, file, place, known):
    """The text of a file at its place in the book."""

    def link(match):
        label, target = match.groups()
        path, _, part = target.partition("#")
        whole = f"{repository()}/blob/main/"  # as pages name others that are also read elsewhere
        if path.startswith(whole):
            path = ROOT / path.removeprefix(whole)
        elif not path or re.match(r"[a-z]+:", path):
            return match.group()
        goal = (file.parent / path).resolve()
        part = f"#{part}" if part else ""
        if goal in known:
            return f"{label}({os.path.relpath(known[goal][0], pathlib.Path(place).parent)}{part})"
        if goal.is_relative_to(DOCS / "mathematics"):
            return f"{label}({os.path.relpath(goal.relative_to(DOCS), pathlib.Path(place).parent)}{part})"
        if not goal.exists():
            sys.exit(f"{file.relative_to(ROOT)}: the link {target} leads nowhere")
        if label.startswith("!"):
            picture = pathlib.Path("pictures") / goal.name
            (BOOK / "src" / "pictures").mkdir(exist_ok=True)
            shutil.copy(goal, BOOK / "src" / picture)
            return f"{label}({os.path.relpath(picture, pathlib.Path(place).parent)})"
        kind = "tree" if goal.is_dir() else "blob"
        return f"{label}({repository()}/{kind}/main/{goal.relative_to(ROOT)}{part})"

    parts = CODE.split(without_rustdoc(text))
    return "".join(part if CODE.fullmatch(part) else LINK.sub(link, part) for part in parts)


class Links(html.parser.HTMLParser):
    """The links and the names of places of a page."""

    def __init__(self, text):
        super().__init__()
        self.links, self.places = [], {""}
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.places.add(attributes.get("id"))
        self.links += [attributes[key] for key in ("href", "src") if attributes.get(key)]


def check(folder):
    """Ends the program if a link within the book leads nowhere."""
    pages = {path.resolve(): Links(path.read_text()) for path in folder.rglob("*.html")}
    broken = []
    for path, page in pages.items():
        if path.name in ("print.html", "404.html", "toc.html"):
            continue
        for link in page.links:
            target, _, place = link.partition("#")
            goal = (path.parent / target).resolve() if target else path
            if re.match(r"[a-z]+:", target):
                continue
            if not goal.exists() or (goal in pages and place not in pages[goal].places):
                broken.append(f"{path.relative_to(folder)}: {link}")
    if broken:
        sys.exit("links that lead nowhere:\n" + "\n".join(broken))
    return len(pages)


def main():
    source = BOOK / "src"
    shutil.rmtree(BOOK, ignore_errors=True)
    (source / "mathematics").mkdir(parents=True)
    for name in ("book.toml", "book.css"):
        shutil.copy(DOCS / name, BOOK / name)

    summary = (DOCS / "SUMMARY.md").read_text()
    known = chapters(summary)
    lines = []
    for example in json.loads(regard("walk", "--format", "json")):
        name, title = example["name"], example["title"]
        chapter = regard("walk", name, "--format", "markdown")
        (source / "mathematics" / f"{name}.md").write_text(chapter)
        lines.append(f"- [{title}](mathematics/{name}.md)")
    for file, (place, title) in known.items():
        path = source / place
        path.parent.mkdir(parents=True, exist_ok=True)
        text = file.read_text()
        if not text.startswith("# "):
            text = f"# {title}\n\n{lower(text)}"
        path.write_text(linked(text, file, place, known))
    summary = LINK.sub(lambda m: f"{m[1]}({known[(DOCS / m[2]).resolve()][0]})", summary)
    (source / "SUMMARY.md").write_text(summary.replace("<!-- examples -->", "\n".join(lines)))

    subprocess.run(["mdbook", "build", BOOK], check=True)
    print(f"{check(BOOK / 'html')} pages in {BOOK / 'html'}")


main()
