#!/usr/bin/env python3
"""The time of one attention over many machines: `python3 cluster/model.py [--check PAGE]`.

It steps through the chunks of keys as `regard_mpi::attend` does: a chunk is sent while the one before it is computed, and a rank
computes with a chunk when it has come and the one before it is done. The slowest rank sets the pace. The constants are those of
docs/many-machines.md; `--check` tells whether the page has the table that is printed.
"""

import argparse
import pathlib
import sys

CHUNK = 4096  # keys that are computed together
BLOCK = 500  # queries of a block of a rank
SEGMENT, HOP = 32768, 2e-6  # bytes that Open MPI's chain passes on at a time, and seconds that it takes from node to node
HEADS, KV_HEADS, NUMBERS = 32, 8, 2 * 128  # one layer of an 8-billion-parameter Llama: d_k + d_v numbers a head


def most_queries(tokens, ranks, first):
    """The most queries of a rank that stand at `first` or later, where each has blocks r and 2R - 1 - r of 2R."""
    rounds = max(1, tokens // (2 * ranks * BLOCK))
    block = tokens / (2 * ranks * rounds)
    whole, rest = divmod(tokens - first, 2 * ranks * block)
    return whole * 2 * block + min(rest, block) + min(max(rest - ranks * block, 0), block)


def seconds(tokens, ranks, causal, rate, bandwidth):
    """One attention: seconds in all, and those in which the slowest rank waits for keys."""
    begun = computed = arrived = waited = 0.0
    for first in range(0, tokens, CHUNK):
        keys = min(CHUNK, tokens - first)
        queries = most_queries(tokens, ranks, first + keys / 2 if causal else 0)
        send = 4 * keys * KV_HEADS * NUMBERS / bandwidth + (ranks - 1) * (SEGMENT / bandwidth + HOP)
        arrived = max(begun, arrived) + (send if ranks > 1 else 0)
        begun = max(arrived, computed)
        waited += begun - computed
        computed = begun + queries * keys * HEADS * NUMBERS / rate
    return computed, waited


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--core", type=float, default=40e9, help="multiply-adds a second of a core")
    parser.add_argument("--cores", type=int, default=64, help="cores of a node")
    parser.add_argument("--bandwidth", type=float, default=100e9 / 8, help="bytes a second of a node's network")
    parser.add_argument("--check", type=pathlib.Path, help="a page that must have the table")
    arguments = parser.parse_args()
    lines = ["| tokens | nodes | GiB a node | received | causal | waiting | all keys | waiting |", "|" + "--:|" * 8]
    for tokens in 10**5, 10**6, 10**7:
        for ranks in 1, 4, 16, 64, 256, 1024:
            own = 4 * tokens / ranks * NUMBERS * (HEADS + KV_HEADS)  # queries, outputs, keys and values
            chunks = 2 * 4 * CHUNK * KV_HEADS * NUMBERS
            row = [f"{tokens:,}", f"{ranks:,}", f"{(own + chunks) / 2**30:.2f}"]
            row.append(f"{4 * tokens * KV_HEADS * NUMBERS * (1 - 1 / ranks) / 1e9:.1f} GB")
            for causal in True, False:
                rate = arguments.core * arguments.cores
                total, waited = seconds(tokens, ranks, causal, rate, arguments.bandwidth)
                row += [f"{total:.3g} s", f"{100 * waited / total:.0f} %"]
            lines.append("| " + " | ".join(row) + " |")
    table = "\n".join(lines)
    print(table)
    if arguments.check and table not in arguments.check.read_text():
        sys.exit(f"{arguments.check} has another table")


if __name__ == "__main__":
    main()
