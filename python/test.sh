#!/usr/bin/env bash
# Builds the wheel with the program in it by pip, as a user does, installs it into a clean virtual environment, and runs the tests
# there. The wheel stays in target/python/wheels.
#
# test.sh [PROGRAM]: the program `regard` to put into the wheel. Without it, the debug build of the workspace is used, and built
# if it does not exist. The wheel gets the page for notebooks from the workspace's target folder or from $PAGE, if there is one:
# apps/web/test.sh or `npm run build` makes it. PROFILE=release builds the module as it is released. With TORCH=1 the tests also
# compare with PyTorch and TransformerLens (300 MB).
set -euo pipefail
cd "$(dirname "$0")"
root=$(cd .. && pwd)
program=${1:-$root/target/debug/regard}
work=$(mktemp -d)
data=$PWD/regard._regard.data
page=${PAGE:-${CARGO_TARGET_DIR:-$root/target}/page}
trap 'rm -rf "$work" "$data" regard/_page' EXIT
# The build folder is beside the workspace's own target folder, whose builds are not touched.
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$root/target}/python
wheels=$CARGO_TARGET_DIR/wheels

if [ ! -x "$program" ]; then
    (cd "$root" && env -u CARGO_TARGET_DIR cargo build --quiet -p regard-desktop --target-dir "$root/target")
fi

python3 -m venv "$work/clean"
mkdir -p "$data/scripts"
install -m 755 "$program" "$data/scripts/regard"
strip "$data/scripts/regard" 2>/dev/null || true
if [ -f "$page/index.html" ]; then python3 page.py "$page"; fi
rm -rf "$wheels"
MATURIN_PEP517_ARGS="--locked --profile ${PROFILE:-dev}" \
    "$work/clean/bin/pip" wheel --quiet --disable-pip-version-check --no-deps --wheel-dir "$wheels" .

"$work/clean/bin/pip" install --quiet --disable-pip-version-check "$wheels"/*.whl anywidget distributed ml_dtypes mypy pandas pytest nbclient nbconvert nbformat ipykernel tqdm ${TORCH:+torch transformer-lens --extra-index-url https://download.pytorch.org/whl/cpu}
# Tests in another folder than this one import the installed package.
cp -r README.md examples tests "$work"
cd "$work"
ls -l "$wheels"
clean/bin/regard --version
# These packages have no types.
printf '[mypy]\n' >mypy.ini
printf '[mypy-%s.*]\nignore_missing_imports = True\n' PIL dask distributed pandas torch tqdm transformers >>mypy.ini
clean/bin/python -m mypy --config-file mypy.ini -p regard
# The stubs list the contents of the module. The widgets' base class has none, and PyTorch may be missing.
clean/bin/python -m mypy.stubtest regard --mypy-config-file mypy.ini --allowlist <(printf '%s\n' regard._widget.Heads 'regard.torch.*') --ignore-unused-allowlist
GOLDEN=$root/tests/golden/models clean/bin/python -m pytest -q -rs tests
