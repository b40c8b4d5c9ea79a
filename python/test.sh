#!/usr/bin/env bash
# Builds the wheels of the module and of the program by pip, as a user does, installs both into a clean virtual environment, and runs
# the tests there. The wheels stay in target/python/wheels.
#
# The program is the debug build of the workspace. The module's wheel gets the page for notebooks from the workspace's target folder or
# from $PAGE, if there is one: apps/web/test.sh or `npm run build` makes it. PROFILE=release builds the module as it is released. With
# TORCH=1 the tests also compare with PyTorch and TransformerLens (300 MB), and train `english` for some steps.
set -euo pipefail
cd "$(dirname "$0")"
root=$(cd .. && pwd)
work=$(mktemp -d)
target=${CARGO_TARGET_DIR:-$root/target}
page=${PAGE:-$target/page}
trap 'rm -rf "$work" regard/_page' EXIT
wheels=$target/python/wheels
rm -rf "$wheels"
python3 -m venv "$work/clean"
pip=("$work/clean/bin/python" -m pip --quiet --disable-pip-version-check)
"${pip[@]}" install --upgrade pip # one that knows groups of dependencies

if [ -f "$page/index.html" ]; then python3 page.py "$page"; fi
# The build folder is beside the workspace's own target folder, whose builds are not touched.
CARGO_TARGET_DIR=$target/python MATURIN_PEP517_ARGS="--locked --profile ${PROFILE:-dev}" "${pip[@]}" wheel --no-deps --wheel-dir "$wheels" .
CARGO_TARGET_DIR=$target MATURIN_PEP517_ARGS="--locked --profile dev" "${pip[@]}" wheel --no-deps --wheel-dir "$wheels" ../apps/desktop

"${pip[@]}" install "$wheels"/*.whl --group pyproject.toml:test ${TORCH:+torch transformer-lens --extra-index-url https://download.pytorch.org/whl/cpu}
# Tests in another folder than this one import the installed package.
cp -r README.md examples tests "$work"
cd "$work"
ls -l "$wheels"
clean/bin/regard --version
# These packages have no types.
printf '[mypy]\n' >mypy.ini
printf '[mypy-%s.*]\nignore_missing_imports = True\n' PIL dask distributed pandas torch tqdm transformers >>mypy.ini
clean/bin/python -m mypy --config-file mypy.ini -p regard
clean/bin/python -m mypy --config-file mypy.ini --warn-unused-ignores tests/typed.py
# The stubs list the contents of the module. The widgets' base class has none, and PyTorch may be missing.
clean/bin/python -m mypy.stubtest regard --mypy-config-file mypy.ini --allowlist <(printf '%s\n' regard._widget.Heads 'regard.torch.*') --ignore-unused-allowlist
GOLDEN=$root/tests/golden/models clean/bin/python -m pytest -q -rs tests
