#!/usr/bin/env bash
# Tests the page in a real browser, from a fresh clone: installs what it needs, builds the page as tests do, and runs them.
#
# The program that the tests compare with is `target/debug/regard`, or $REGARD. $CHROMIUM is the browser.
set -euo pipefail
cd "$(dirname "$0")"
if ! command -v "${CHROMIUM:-chromium}" >/dev/null || ! command -v npm >/dev/null; then
    apt-get update -qq
    apt-get install -y -qq --no-install-recommends chromium nodejs npm >/dev/null
fi
rustup target add --toolchain stable wasm32-unknown-unknown 2>/dev/null || rustup target add wasm32-unknown-unknown
npm ci --silent --no-audit --no-fund
node build.mjs --quick --only simd
npm test --silent
