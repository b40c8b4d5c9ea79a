"""What a call of `regard.attention` takes beside the kernel: 16 queries, 16 keys, vectors of 16 numbers.

`regard bench` measures the same attention in Rust: `kernel` without allocation, `multi-head` with its result allocated. For
quiet figures: chrt -f 50 taskset -c 1 python benches/call.py
"""

import json
import subprocess
import sys
import timeit

import numpy as np
import regard


def median(call, repeats=101, number=1000):
    return sorted(timeit.repeat(call, number=number, repeat=repeats))[repeats // 2] / number


q, k, v = np.random.default_rng(0).standard_normal((3, 16, 16), dtype=np.float32)
program = sys.argv[1] if len(sys.argv) > 1 else str(regard.program())
size = ["--batch=1", "--heads=1", "--queries=16", "--keys=16", "--dim=16", "--threads=1"]
lines = subprocess.run([program, "bench", "attention", *size, "--format=json"], capture_output=True, check=True, text=True)
for line in lines.stdout.splitlines():
    row = json.loads(line)
    print(f"{row['impl']:>12}: {row['median_s'] * 1e6:6.2f} µs")
calls = {
    "a call": lambda: regard.attention(q, k, v),
    "one thread": lambda: regard.attention(q, k, v, threads=1),
    "4 dimensions": lambda q=q[None, None], k=k[None, None], v=v[None, None]: regard.attention(q, k, v, causal="bottom-right"),
    "no query": lambda q=q[:0]: regard.attention(q, k, v),
}
for name, call in calls.items():
    print(f"{name:>12}: {median(call) * 1e6:6.2f} µs")
