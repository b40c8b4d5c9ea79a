"""Runs the programs that measure, and returns their lines."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

BENCHES = Path(__file__).resolve().parent
RUST_PEERS = [
    "gemm", "nano-gemm", "matrixmultiply", "nalgebra", "nalgebra-static", "faer", "numkong", "rten-vecmath",
    "candle-nn", "burn-flex",
]  # fmt: skip
PYTHON_PEERS = ["torch", "onnxruntime", "ort-mha", "ort-gqa", "ort-attention"]
PEERS = RUST_PEERS + PYTHON_PEERS


TARGET = Path(os.environ.get("CARGO_TARGET_DIR", BENCHES.parent / "target"))
REGARD = [os.environ.get("REGARD", TARGET / "release/regard"), "bench"]
# What prints the same lines in WebAssembly.
WASM = [BENCHES.parent / ".ci/wasi.mjs", TARGET / "wasm32-wasip1/release/examples/lines.wasm"]


def build(wasm):
    """Builds `regard`, or the example for WebAssembly, so that the present code is measured. Returns the command that measures."""
    command, environment = ["cargo", "build", "--release", "--quiet"], dict(os.environ)
    if wasm:
        command += ["-p", "regard-benches", "--no-default-features", "--example", "lines", "--target", "wasm32-wasip1"]
        environment["RUSTFLAGS"] = "-C target-feature=+simd128"
    elif "REGARD" in os.environ:
        return REGARD
    subprocess.run(command, cwd=BENCHES.parent, env=environment, check=True)
    return WASM if wasm else REGARD


def regard(args):
    """The lines of `regard bench`."""
    return lines([*REGARD, *args])


def rust_peers_program():
    return os.environ.get("REGARD_PEERS", BENCHES / "peers/target/release/regard-peers")


def installed(name):
    if name in RUST_PEERS:
        return os.path.exists(rust_peers_program())
    return importlib.util.find_spec("torch" if name == "torch" else "onnxruntime") is not None


def peer(name, args, peak):
    """The line of a peer, or None if it lacks the operation."""
    if name in PYTHON_PEERS:
        command = [sys.executable, BENCHES / "peers/peers.py", *args, "--peak", str(peak)]
    else:
        command = [rust_peers_program(), *args]
    found = lines([*command, "--impl", name])
    return found[0] if found else None


def lines(command):
    command = [str(part) for part in [*command, "--format", "json"]]
    try:
        run = subprocess.run(command, check=True, capture_output=True, text=True)
    except FileNotFoundError:
        sys.exit(f"{command[0]} does not exist: benches/README.md says how to build it")
    except subprocess.CalledProcessError as failure:
        reason = failure.stderr.strip()
        if "there is: " in reason or "no peer has this operation" in reason:
            return []
        sys.exit(f"{' '.join(command)}: {reason}")
    return [json.loads(line) for line in run.stdout.splitlines()]


def duration(line):
    seconds = line["median_s"]
    for unit, size in [("s", 1), ("ms", 1e-3), ("µs", 1e-6)]:
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"
