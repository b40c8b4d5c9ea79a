"""Packs the page of apps/web into the package, where a notebook's widget finds it: page.py FOLDER

FOLDER is the output of `node build.mjs` in apps/web. The files are compressed with gzip, as the browser receives them.
"""

import gzip
import shutil
import sys
from pathlib import Path

NAMES = ["index.html", "page.js", "system.js", "worker.js", "program/regard.js", "program/regard_bg.wasm"]


def main() -> None:
    (folder,) = sys.argv[1:]
    target = Path(__file__).parent / "regard" / "_page"
    shutil.rmtree(target, ignore_errors=True)
    for name in NAMES:
        path = target / f"{name}.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(Path(folder, name).read_bytes(), mtime=0))
    print(f"{sum(path.stat().st_size for path in target.rglob('*.gz')) / 1e6:.2f} MB in {target}")


if __name__ == "__main__":
    main()
