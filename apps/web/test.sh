#!/usr/bin/env bash
# Tests the page in a real browser, from a fresh clone: installs what it needs, builds the page as tests do, and runs them.
#
# The program that the tests compare with is `target/debug/regard`, or $REGARD. $CHROMIUM and $FIREFOX are the browsers.
set -euo pipefail
cd "$(dirname "$0")"
packages=()
need() { command -v "$1" >/dev/null || packages+=("${@:2}"); }
need "${CHROMIUM:-chromium}" chromium
need "${FIREFOX:-firefox-esr}" firefox-esr libegl1
need Xvfb xvfb
need npm nodejs npm
if ((${#packages[@]})); then
    apt-get update -qq
    apt-get install -y -qq --no-install-recommends "${packages[@]}" >/dev/null
fi
rustup target add --toolchain stable wasm32-unknown-unknown 2>/dev/null || rustup target add wasm32-unknown-unknown
npm ci --silent --no-audit --no-fund
node build.mjs --quick
npm test --silent
