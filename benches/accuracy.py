"""Prints the errors of Regard and of PyTorch compared with f64, on the same unit-normal inputs of several seeds.

    python benches/accuracy.py [--seeds 16] [--format json]

The root mean square over all outputs and seeds compares two implementations. The largest error is that of one
output in thousands: from seed to seed it varies by a third for either of them, so its median is printed.
"""

import argparse
import json
import os
import subprocess
import tempfile

import numpy
import torch
from safetensors.numpy import load_file, save_file

import programs

HEADS, DIM = 2, 64


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, nargs="+", default=[64, 512, 1024, 2048, 4096])
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--format", choices=["text", "json"], default="text")
    args = parser.parse_args()
    if args.format == "text":
        print(f"{'':12} {'root mean square':^21}   {'median of the largest':^21}")
        print(f"{'keys':>5} {'causal':>6} {'regard':>10} {'torch':>10}   {'regard':>10} {'torch':>10}")
    for keys in args.keys:
        for causal in [False, True]:
            found = measure(keys, causal, args.seeds)
            if args.format == "json":
                print(json.dumps({"keys": keys, "dim": DIM, "causal": causal, "seeds": args.seeds, **found}))
            else:
                columns = [f"{found[kind][name]:>10.3e}" for kind in found for name in found[kind]]
                print(f"{keys:>5} {str(causal):>6} {' '.join(columns[:2])}   {' '.join(columns[2:])}", flush=True)


def measure(keys, causal, seeds):
    """The errors of each implementation: the root mean square, and the median over seeds of the largest."""
    errors = {"regard": [], "torch": []}
    for seed in range(seeds):
        random = numpy.random.default_rng([keys, seed])
        q, k, v = (random.standard_normal((1, HEADS, keys, DIM), dtype="float32") for _ in "qkv")
        expected = reference(q, k, v, causal)
        for name, attention in [("regard", regard), ("torch", pytorch)]:
            errors[name].append(attention(q, k, v, causal) - expected)
    return {
        "rms_error": {name: float(numpy.sqrt(numpy.square(found).mean())) for name, found in errors.items()},
        "max_error": {
            name: float(numpy.median([numpy.abs(one).max() for one in found])) for name, found in errors.items()
        },
    }


def reference(q, k, v, causal):
    """The attention of each head in f64."""
    out = numpy.empty(q.shape)
    for head in range(HEADS):
        q_head, k_head, v_head = (x[0, head].astype(float) for x in (q, k, v))
        scores = q_head @ k_head.T / DIM**0.5
        if causal:
            scores[numpy.triu_indices(len(scores), 1)] = -numpy.inf
        weights = numpy.exp(scores - scores.max(axis=1, keepdims=True))
        out[0, head] = weights @ v_head / weights.sum(axis=1, keepdims=True)
    return out


def regard(q, k, v, causal):
    with tempfile.TemporaryDirectory() as folder:
        source, target = os.path.join(folder, "in.safetensors"), os.path.join(folder, "out.safetensors")
        save_file({"q": q, "k": k, "v": v}, source)
        command = [programs.REGARD[0], "attend", "--input", source, "--output", target]
        subprocess.run(command + (["--causal", "top-left"] if causal else []), check=True, capture_output=True)
        return load_file(target)["output"]


def pytorch(q, k, v, causal):
    q, k, v = map(torch.from_numpy, (q, k, v))
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal).numpy()


if __name__ == "__main__":
    main()
