"""A model's forward pass beside transformers on PyTorch, in turns within one process: a random model of GPT-2 small's shape.

    pip install torch transformers ./python
    python python/benches/forward.py [--turns 9] [--tokens 1 8 32 128 512] [--threads 1 2] [--peak GFLOPS]

A line is a number of tokens on a number of threads: the median of ours, in milliseconds; the median of the ratios of a turn's two times
(above 1, ours is faster); and, with the multiply-add peak of a thread from `regard bench`, the share of the roofline. The roofline is
the larger of two times: all weights read once at the speed of PyTorch's sum of as many numbers, and all operations at the peak.
Each measured call follows one of its own kind, because threads of PyTorch spin for some milliseconds after their work.
`REGARD_TIER=avx2` chooses the kernels of a machine without AVX-512 for ours alone.
"""

import argparse
import statistics
import tempfile

import numpy as np
from lens import folder, timed

import regard


def median_of(call, times):
    return statistics.median(timed(call) for _ in range(times))


def timed_after_one(call):
    call()
    return timed(call)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--tokens", type=int, nargs="+", default=[1, 8, 32, 128, 512])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--peak", type=float, help="billions of operations a second on one thread")
    args = parser.parse_args()

    import torch
    import transformers

    with tempfile.TemporaryDirectory() as path, torch.no_grad():
        folder(path)
        their = transformers.GPT2LMHeadModel.from_pretrained(path, dtype=torch.float32).eval()
        # Matrices of weights, the tied table of tokens among them: each is read once for all tokens.
        weights = sum(p.numel() for name, p in their.named_parameters() if p.dim() == 2 and "wpe" not in name)
        numbers = torch.ones(weights)
        print(f"{'threads':>7} {'tokens':>6} {'regard':>9} {'torch':>9} {'ratio':>6} {'GFLOP/s':>8} {'roofline':>9}")
        for threads in args.threads:
            torch.set_num_threads(threads)
            ours = regard.Model(path, threads=threads)
            reading = median_of(numbers.sum, 9)
            for tokens in args.tokens:
                ids = list(np.random.default_rng(tokens).integers(3, 50_000, tokens))
                tensor = torch.tensor([ids])
                calls = (lambda: ours(ids)), (lambda: their(tensor).logits)
                np.testing.assert_allclose(np.asarray(calls[0]()).reshape(tokens, -1), calls[1]()[0].numpy(), atol=1e-3)
                turns = [[timed_after_one(call) for call in calls] for _ in range(args.turns)]
                mine, other = (statistics.median(column) for column in zip(*turns))
                ratio = statistics.median(b / a for a, b in turns)
                operations = 2 * weights * tokens
                least = max(reading, operations / (args.peak * 1e9 * threads)) if args.peak else 0
                share = f"{least / mine:9.0%}" if least else ""
                print(f"{threads:7} {tokens:6} {mine * 1e3:7.1f}ms {other * 1e3:7.1f}ms {ratio:6.2f} {operations / mine / 1e9:8.0f} {share}")


if __name__ == "__main__":
    main()
