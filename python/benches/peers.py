"""`regard.attention` beside PyTorch and ONNX Runtime, in turns within one process.

The order within a turn is drawn anew, from a fixed seed. In a fixed order each call finds the caches and the memory as the same
other call has left them, and that alone moves a ratio by up to a quarter: ONNX Runtime's attention of 512 tokens was between 0.93
and 1.31 of ours, by who came before it.

A line is a shape: the median over 31 turns of a peer's time over ours (above 1, ours is faster), with its quartiles, for the peer
whose median is the lowest. The peers are those of `benches/peers/peers.py`.

    pip install numpy onnx onnxruntime torch ./python
    python python/benches/peers.py
"""

import argparse
import pathlib
import random
import statistics
import sys
import time

import regard

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "benches" / "peers"))
import peers

TURNS, SECONDS = 31, 0.01
# Heads, tokens, the width of a head, causal, threads.
ROWS = [
    (8, 512, 64, False, 1),
    (8, 2048, 64, False, 1),
    (8, 1024, 128, False, 1),
    (8, 128, 64, False, 1),
    (12, 128, 32, False, 1),
    (8, 512, 64, True, 1),
    (8, 2048, 64, True, 1),
    (8, 128, 64, False, 2),
    (8, 512, 64, False, 2),
]


def calls(heads, tokens, width, causal, threads):
    """Ours first, then each peer's."""
    args = argparse.Namespace(
        op="attention", batch=1, heads=heads, kv_heads=heads, queries=tokens, keys=tokens, dim=width, causal=causal, threads=threads
    )
    q, k, v = (peers.normal(1, heads, tokens, width) for _ in "qkv")
    ours = {"regard": lambda: regard.attention(q, k, v, causal="bottom-right" if causal else None, threads=threads)}
    return ours | peers.pytorch(args) | peers.onnx_runtime(args)


def sample(call, count):
    start = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - start) / count


def main():
    draw = random.Random(0)
    print(f"{'heads':>5} {'tokens':>6} {'width':>5} {'causal':>6} {'threads':>7} {'ratio':>6}  {'quartiles':>9}  fastest peer")
    for row in ROWS:
        functions = calls(*row)
        counts = {name: max(1, round(SECONDS / sample(call, 3))) for name, call in functions.items()}
        names = list(functions)
        orders = [draw.sample(names, len(names)) for _ in range(TURNS)]
        turns = [{name: sample(functions[name], counts[name]) for name in order} for order in orders]
        others = functions.keys() - {"regard"}
        fastest = min(others, key=lambda name: statistics.median(turn[name] / turn["regard"] for turn in turns))
        ratios = [turn[fastest] / turn["regard"] for turn in turns]
        low, median, high = statistics.quantiles(ratios, n=4)
        heads, tokens, width, causal, threads = row
        print(f"{heads:5} {tokens:6} {width:5} {causal!s:>6} {threads:7} {median:6.2f}  {low:5.2f}–{high:5.2f}  {fastest}")


if __name__ == "__main__":
    main()
