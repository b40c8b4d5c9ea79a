#!/usr/bin/env bash
# Builds the wheel of the module by pip, as a user does, packs the program into another, installs both into a clean virtual
# environment, and runs the tests there. The wheels stay in target/python/wheels.
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
# The program's wheel has the program that the workspace's tests have built: with the features of its package alone, maturin would build
# the window once more. wheels.yml builds it by maturin.
if [ ! -x "$target/debug/regard" ]; then (cd "$root" && cargo build --quiet -p regard-desktop --target-dir "$target"); fi
version=$("$target/debug/regard" --version | cut -d" " -f2)
name=regard_program-$version
mkdir -p "$work/program/$name.dist-info" "$work/program/$name.data/scripts"
printf 'Metadata-Version: 2.1\nName: regard-program\nVersion: %s\n' "$version" >"$work/program/$name.dist-info/METADATA"
printf 'Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: py3-none-any\n' >"$work/program/$name.dist-info/WHEEL"
install -m 755 "$target/debug/regard" "$work/program/$name.data/scripts"
strip "$work/program/$name.data/scripts/regard" 2>/dev/null || true
"${pip[@]}" install wheel
"$work/clean/bin/python" -m wheel pack --dest-dir "$wheels" "$work/program" >/dev/null

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
