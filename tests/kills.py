"""Kills `regard` while it writes, and lets it write to a full disk and to a read-only one.

    python tests/kills.py --count 100 [--program target/release/regard]

After each kill the destination must be the old file, the new one or absent; the next run removes what was left. Full and read-only
disks are mounted with tmpfs, which needs root: without it they are left out, and a line says so.
"""

import argparse
import json
import os
import random
import struct
import subprocess
import sys
import tempfile
import time


def tensors(path, n):
    header, at = {}, 0
    for name in "qkv":
        header[name] = {"dtype": "F32", "shape": [n, 64], "data_offsets": [at, at + n * 256]}
        at += n * 256
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + bytes(at))


def read(path):
    with open(path, "rb") as file:
        return file.read()


def commands(program, source, folder):
    """Each command that writes a file, with the file."""
    target = lambda name: os.path.join(folder, name)
    text = "Mia gave Tom the ball. " * 10
    return [
        ([program, "attend", "--input", source, "--output", target("o.safetensors"), "--scores", "weights"], "o.safetensors"),
        ([program, "export", source, "--matrix", "q", "--to", target("o.csv")], "o.csv"),
        ([program, "export", "the-cat-sat", "--matrix", "weights", "--to", target("o.png")], "o.png"),
        ([program, "trace", "story", "--text", text, "--output", target("t.safetensors")], "t.safetensors"),
    ]


def left(folder):
    return [name for name in os.listdir(folder) if name.startswith(".regard-")]


def kills(program, count):
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "in.safetensors")
        tensors(source, 1000)
        for command, name in commands(program, source, folder):
            path = os.path.join(folder, name)
            start = time.time()
            subprocess.run(command, check=True, capture_output=True)
            whole, new = time.time() - start, read(path)
            found, most = {"old": 0, "new": 0, "absent": 0}, 0
            for number in range(count):
                if number % 2:
                    with open(path, "wb") as file:
                        file.write(b"old")
                else:
                    os.path.exists(path) and os.remove(path)
                process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                time.sleep(random.uniform(0.0, 1.1) * whole)
                process.kill()
                process.wait()
                content = read(path) if os.path.exists(path) else None
                kind = {None: "absent", b"old": "old", new: "new"}.get(content)
                assert kind, f"{command}: {path} has {len(content)} bytes: neither the old file nor the new one"
                found[kind] += 1
                most = max(most, len(left(folder)))
            subprocess.run(command, check=True, capture_output=True)
            assert not left(folder), f"{command}: the next run leaves {left(folder)}"
            print(f"{count} kills of `regard {command[1]}` writing {name}: {found}; at most {most} temporary files, none after the next run")


def disks(program):
    if os.geteuid() != 0:
        print("full and read-only disks: not tested, because mounting needs root")
        return
    with tempfile.TemporaryDirectory() as folder, tempfile.NamedTemporaryFile(suffix=".safetensors") as source:
        tensors(source.name, 300)
        for options, what in [("size=16k", "a full disk"), ("ro", "a read-only disk")]:
            subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder], check=True)
            try:
                for command, name in commands(program, source.name, folder):
                    done = subprocess.run(command, capture_output=True, text=True)
                    if done.returncode == 0 and what == "a full disk" and name == "o.png":
                        continue  # a small picture has room
                    lines = done.stderr.strip().splitlines()
                    assert done.returncode == 1 and len(lines) == 1 and "panicked" not in done.stderr, (command, done)
                    assert not os.path.exists(os.path.join(folder, name)) and not left(folder), os.listdir(folder)
                    print(f"{what}: {lines[0]}")
            finally:
                subprocess.run(["umount", folder], check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--program", default="target/release/regard")
    args = parser.parse_args()
    disks(os.path.abspath(args.program))
    kills(os.path.abspath(args.program), args.count)


if __name__ == "__main__":
    sys.exit(main())
