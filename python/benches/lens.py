"""`regard.Model` beside TransformerLens, in turns within one process: a random model of GPT-2 small's shape, 32 tokens; and
`regard.lens` in the study of python/tests/exploratory_analysis.py, which both run on `english`.

    pip install gguf transformer-lens ./python
    python python/benches/lens.py [--turns 9] [--threads 2]

A line is what both do: the median over the turns of each one's time, and of the ratio of a turn's two times (above 1, ours is faster).
"""

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import argparse
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

TOKENS = 32


def folder(path):
    """A random GPT-2 small with norms that are not ones, and a tokenizer of its numbers."""
    import tokenizers
    import torch
    import transformers

    torch.manual_seed(0)
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config())
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "ln_" in name:
                weight.add_(0.2 * torch.randn_like(weight))
    model.save_pretrained(path)
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({str(i): i for i in range(50257)}, unk_token="0"))
    special = {"unk_token": "0", "bos_token": "1", "eos_token": "2", "pad_token": "3"}
    transformers.PreTrainedTokenizerFast(tokenizer_object=words, **special).save_pretrained(path)


def theirs(path, threads):
    import torch
    import transformers
    from transformer_lens.model_bridge import TransformerBridge

    torch.set_num_threads(threads)
    model = transformers.GPT2LMHeadModel.from_pretrained(path, dtype=torch.float32, attn_implementation="eager").eval()
    tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(path)
    return TransformerBridge.boot_transformers(str(path), hf_model=model, tokenizer=tokenizer, device="cpu", dtype=torch.float32)


def cases(ours, lens, ids, other):
    """The name of each comparison, the goal for the ratio, and both calls."""
    import torch
    from transformer_lens.patching import get_act_patch_direct_path

    tokens, other_tokens = torch.tensor([ids]), torch.tensor([other])
    place = "blocks.6.attn.hook_z"
    heads = ours.cfg.n_heads

    def zero(head):
        def hook(z, hook):
            z[:, :, head] = 0
            return z

        return hook

    def their_sweep():
        for layer in range(ours.cfg.n_layers):
            for head in range(heads):
                lens.run_with_hooks(tokens, fwd_hooks=[(f"blocks.{layer}.attn.hook_z", zero(head))])

    def metric(logits):
        return logits[0, -1, 5] - logits[0, -1, 7]

    _, clean = lens.run_with_cache(other_tokens)
    _, corrupted = lens.run_with_cache(tokens)

    def their_path():
        return get_act_patch_direct_path(lens, tokens, clean, corrupted, metric, 0, 3, verbose=False)

    def our_path():
        return ours.sweep(ids, path="0.3", source=other, logit=(5, 7), progress=False)

    with torch.no_grad():
        expected = their_path().numpy()[1:]
    error = np.abs(our_path().values[1:] - expected).max()
    print(f"a path's logits differ by {error:.1e} at most")
    assert error < 1e-3
    return [
        ("run", 1, lambda: ours(ids), lambda: lens(tokens)),
        ("run_with_cache, all places", 1, lambda: ours.run_with_cache(ids), lambda: lens.run_with_cache(tokens)),
        (
            "a hook on one place",
            1,
            lambda: ours.run_with_hooks(ids, [(place, lambda z, hook: None)]),
            lambda: lens.run_with_hooks(tokens, fwd_hooks=[(place, lambda z, hook: None)]),
        ),
        ("sweep of 144 heads", 6, lambda: ours.sweep(ids, ablate="each-head", logit=(5, 7), progress=False), their_sweep),
        ("path from one head to later queries", 5, our_path, their_path),
    ]


def study(path, threads):
    """The study on `english` in float32, by both."""
    import torch

    sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "tests/golden/lens"))
    import record
    from regard.lens import HookedTransformer

    record.english(path)
    torch.set_grad_enabled(False)
    ours, lens = HookedTransformer.from_pretrained(path, threads=threads), record.their_model(path)
    their_text = record.STUDY.replace(record.OURS, record.THEIRS)
    return ("the study of indirect objects", 5, lambda: record.run(record.STUDY, ours), lambda: record.run(their_text, lens))


def timed(call):
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def hook_cost(path, ids, turns):
    """What a hook takes beside the run, in seconds of one thread: turns of runs with 120 hooks, 10 at each layer, and without."""
    import regard

    model, hooks = regard.Model(path, threads=1), [("blocks.*.attn.hook_z", lambda z, hook: None)] * 10

    def cpu(call):
        start = time.thread_time()
        call()
        return time.thread_time() - start

    costs = [-cpu(lambda: model.run(ids)) + cpu(lambda: model.run_with_hooks(ids, hooks)) for _ in range(turns)]
    return statistics.median(costs) / 120


def fresh(code, repeats=5):
    """The median of the numbers that fresh processes print, line by line."""
    lines = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split() for _ in range(repeats)]
    return [statistics.median(map(float, column)) for column in zip(*lines)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as path, tempfile.TemporaryDirectory() as english:
        folder(path)
        alone = fresh("import time, numpy; start = time.process_time(); import regard; print(time.process_time() - start)")
        print(f"import regard, NumPy apart: {alone[0] * 1e3:.0f} ms of a core")
        size = pathlib.Path(path, "model.safetensors").stat().st_size
        # A file in memory is read at the speed of a copy.
        code = f"""
import time
start = time.perf_counter(); data = open({path!r} + "/model.safetensors", "rb").read(); print(time.perf_counter() - start); del data
import regard
regard.Model("story", threads={args.threads})
start = time.perf_counter(); model = regard.Model({path!r}, threads={args.threads}); print(time.perf_counter() - start)
"""
        reading, opening = fresh(code)
        print(f"opening: {opening * 1e3:.0f} ms; reading the file: {reading * 1e3:.0f} ms; ratio {opening / reading:.2f}")
        code = f"""
import re, regard
peak = lambda: int(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1]) * 1024
before = peak()
model = regard.Model({path!r}, threads={args.threads}); model(list(range(3, {3 + TOKENS})))
print(peak() - before)
"""
        (memory,) = fresh(code, 1)
        print(f"memory of the model and a run: {memory / 1e6:.0f} MB, {memory / size:.2f} of the file")

        import regard

        ours, lens = regard.Model(path, threads=args.threads), theirs(path, args.threads)
        import torch

        ids, other = list(range(3, 3 + TOKENS)), [3, 90, *range(5, 3 + TOKENS)]
        print(f"a hook on one place: {hook_cost(path, ids, 21) * 1e6:.0f} µs over the run")
        with torch.no_grad():
            np.testing.assert_allclose(ours(ids), lens(torch.tensor([ids]))[0].numpy(), atol=1e-3)
            print(f"{'':36} {'regard':>9} {'TL':>9} {'ratio':>7} {'goal':>5}")
            for name, goal, mine, their in (*cases(ours, lens, ids, other), study(english, args.threads)):
                if args.only not in name:
                    continue
                mine(), their()
                turns = [(timed(mine), timed(their)) for _ in range(args.turns if goal == 1 else max(3, args.turns // 3))]
                a, b = (statistics.median(column) for column in zip(*turns))
                ratio = statistics.median(b / a for a, b in turns)
                print(f"{name:36} {a * 1e3:7.1f}ms {b * 1e3:7.1f}ms {ratio:7.2f} {goal:5}")


if __name__ == "__main__":
    main()
