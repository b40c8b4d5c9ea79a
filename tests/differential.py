"""Compares `regard attend` with attention in NumPy's f64, over random configurations of every option, alone and together.

    python tests/differential.py --count 100000 --seed 1 [--program target/release/regard] [--jobs 2]

The reference follows the words of the contract and shares no code with Regard. A configuration is a seed and its number, so that
`--seed S --first N --count 1` repeats a failure. The tolerance of a row is the bound of the rounding errors: see `bound`.
"""

import argparse
import json
import math
import os
import random
import struct
import subprocess
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor

import numpy as np

U = 2.0**-24  # half an ULP of f32, relative
INF = math.inf
# Half an ULP of each type, relative, and the type's smallest step.
ROUNDING = {"F32": (0.0, 0.0), "F16": (2.0**-11, 2.0**-25), "BF16": (2.0**-8, 2.0**-133)}
LARGEST = {"F32": 3.4028235e38, "F16": 65504.0, "BF16": 3.3895314e38}


def gamma(n):
    return n * U / (1 - n * U)


# A safetensors reader and writer of ten lines, so that NumPy is the only dependency.


def encode(kind, x):
    if kind == "F32":
        return x.astype("<f4").tobytes()
    if kind == "F16":
        return x.astype("<f2").tobytes()
    if kind == "BF16":
        bits = x.astype("<f4").view("<u4").astype(np.uint64)
        return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("<u2").tobytes()
    return x.astype({"I64": "<i8", "BOOL": "u1", "U8": "u1"}[kind]).tobytes()


def decode(kind, data):
    if kind == "BF16":
        return (np.frombuffer(data, "<u2").astype("<u4") << 16).view("<f4")
    return np.frombuffer(data, {"F32": "<f4", "F16": "<f2"}[kind])


def save(path, tensors):
    header, blob = {}, b""
    for name, (kind, x) in tensors.items():
        data = encode(kind, x)
        header[name] = {"dtype": kind, "shape": list(x.shape), "data_offsets": [len(blob), len(blob) + len(data)]}
        blob += data
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + blob)


def load(path):
    with open(path, "rb") as file:
        content = file.read()
    (size,) = struct.unpack("<Q", content[:8])
    tensors = {}
    for name, info in json.loads(content[8 : 8 + size]).items():
        if name != "__metadata__":
            start, end = (8 + size + at for at in info["data_offsets"])
            tensors[name] = decode(info["dtype"], content[start:end]).reshape(info["shape"]).astype(np.float64)
    return tensors


# A random configuration.


def configuration(seed):
    """The tensors of a file, the options of the command line, and the same for the reference."""
    rng = random.Random(seed)
    numbers = np.random.default_rng(seed)
    often = rng.choice([0.1, 0.3, 0.6])  # few options, some, or many together
    with_option = lambda: rng.random() < often
    rank = rng.choice([2, 3, 4])
    batch = rng.randint(1, 3) if rank == 4 else 1
    kv_heads = rng.randint(1, 3) if rank >= 3 else 1
    heads = kv_heads * (rng.randint(1, 3) if rank >= 3 else 1)
    n_q, n_new = rng.choice([1, 2, 5, 17, 33]), rng.choice([1, 2, 7, 16, 40, 65])
    d_k, d_v = rng.choice([1, 2, 8, 17, 64]), rng.choice([1, 3, 8, 16, 33])
    kind = rng.choice(["F32", "F32", "F16", "BF16"])
    kind_v = kind if rng.random() < 0.7 else rng.choice(["F32", "F16", "BF16"])
    size = rng.choice([0.3, 1.0, 4.0])

    def tensor(kind, *shape):
        x = (numbers.standard_normal(shape) * size).astype(np.float32)
        return decode(kind, encode(kind, x)).reshape(shape).astype(np.float64)

    c = {"kind": kind, "q": tensor(kind, batch, heads, n_q, d_k)}
    k, v = tensor(kind, batch, kv_heads, n_new, d_k), tensor(kind_v, batch, kv_heads, n_new, d_v)
    stored = lambda x: x.reshape(x.shape[4 - rank :])
    file = {"q": (kind, stored(c["q"])), "k": (kind, stored(k)), "v": (kind_v, stored(v))}
    n_past = rng.choice([1, 4, 30]) if with_option() else 0
    if n_past:
        past_k, past_v = tensor(kind, batch, kv_heads, n_past, d_k), tensor(kind_v, batch, kv_heads, n_past, d_v)
        file["past_key"], file["past_value"] = (kind, stored(past_k)), (kind_v, stored(past_v))
        k, v = np.concatenate([past_k, k], 2), np.concatenate([past_v, v], 2)
    c["k"], c["v"] = k, v
    n_k = n_past + n_new

    options = []
    position = lambda: rng.choice(["top-left", "bottom-right", str(rng.randint(-5, n_k + 3))])
    c["causal"] = position() if with_option() else None
    if c["causal"]:
        options += ["--causal", c["causal"]]
    c["lengths"] = np.array([rng.randint(0, n_k) for _ in range(batch)]) if with_option() else None
    if c["lengths"] is not None:
        file["kv_lengths"] = ("I64", c["lengths"])
    side = lambda: rng.choice([None, rng.randint(0, 5), rng.randint(0, n_k)])
    c["window"] = (side(), side()) if with_option() else None
    c["alibi"] = numbers.choice([0.5, 0.0625, 0.01, 1.0, 0.0, -0.1], heads).astype(np.float32) if with_option() else None
    if c["alibi"] is not None:
        file["alibi_slopes"] = ("F32", c["alibi"])
    c["position"] = c["causal"]
    if c["window"] or c["alibi"] is not None:
        if c["causal"] is None or with_option():
            c["position"] = position()
            options += ["--position", c["position"]]
        if c["window"]:
            options += ["--window", ",".join("inf" if n is None else str(n) for n in c["window"])]
    c["mask"] = None
    if with_option():
        # The mask is broadcast from the right. With lengths it may end with the longest of them.
        cols = int(c["lengths"].max()) if c["lengths"] is not None and rng.random() < 0.3 else n_k
        cols = cols if cols > 0 else n_k
        shape = [batch, heads, n_q, cols][rng.randint(0, 3) :]
        shape = [1 if rng.random() < 0.2 and i < len(shape) - 1 else n for i, n in enumerate(shape)]
        hidden = numbers.random(shape) < rng.random()
        how = rng.choice(["BOOL", "U8", "F32", "F16"])
        if how in ("BOOL", "U8"):
            file["attn_mask"] = (how, ~hidden)
            c["mask"] = np.where(hidden, -INF, 0.0)
        else:
            bias = decode(how, encode(how, numbers.standard_normal(shape).astype(np.float32))).reshape(shape).astype(np.float64)
            c["mask"] = np.where(hidden, -INF, bias)
            file["attn_mask"] = (how, c["mask"])
        if cols < n_k:
            c["mask"] = np.concatenate([c["mask"], np.zeros([*shape[:-1], n_k - cols])], -1)
    c["sinks"] = (numbers.standard_normal(heads) * 2).astype(np.float32) if with_option() else None
    if c["sinks"] is not None:
        file["sinks"] = ("F32", c["sinks"])
    f32 = lambda x: float(np.float32(x))
    c["scale"] = f32(rng.choice([0.05, 0.5, 1.0, -0.3, 0.0])) if with_option() else None
    if c["scale"] is not None:
        options += ["--scale", repr(c["scale"])]
    c["softcap"] = f32(rng.choice([0.5, 5.0, 50.0])) if with_option() else None
    if c["softcap"]:
        options += ["--softcap", repr(c["softcap"])]
    c["temperature"] = rng.choice([0.0, 0.05, 0.7, 3.0, 1e4, INF]) if with_option() else 1.0
    if c["temperature"] != 1.0:
        options += ["--temperature", "inf" if c["temperature"] == INF else repr(c["temperature"])]
        c["temperature"] = f32(c["temperature"])
    c["stage"] = rng.choice(["raw", "softcapped", "masked", "weights"]) if with_option() else None
    if c["stage"]:
        options += ["--scores", c["stage"]]
    c["lse"] = with_option()
    if c["lse"]:
        options.append("--lse")
    if with_option():
        options += ["--threads", str(rng.randint(1, 2))]
    return file, options, c


# The reference.


def softmax(s, t):
    """Weights and log-sum-exp of rows whose last column may be a sink."""
    top = s.max(-1, keepdims=True)
    nothing = top == -INF
    seen = s > -INF
    if t == INF:
        count = seen.sum(-1, keepdims=True)
        return np.where(seen, 1 / np.maximum(count, 1), 0.0), np.where(nothing, -INF, np.log(np.maximum(count, 1)))[..., 0]
    if t == 0:
        ties = (s == top) & seen
        count = ties.sum(-1, keepdims=True)
        shift = np.where(top == 0, 0.0, np.copysign(INF, top)) + np.log(np.maximum(count, 1))
        return np.where(ties, 1 / np.maximum(count, 1), 0.0), np.where(nothing, -INF, shift)[..., 0]
    safe = np.where(nothing, 0.0, top)
    e = np.exp((s - safe) / t)
    total = e.sum(-1, keepdims=True)
    with np.errstate(divide="ignore"):
        lse = np.where(nothing, -INF, safe / t + np.log(total))
    return e / np.where(total == 0, 1.0, total), lse[..., 0]


def reference(c):
    q, k, v = c["q"], c["k"], c["v"]
    groups = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, groups, 1), np.repeat(v, groups, 1)
    (batch, heads, n_q, d), n_k = q.shape, k.shape[2]
    scale = 1 / math.sqrt(d) if c["scale"] is None else c["scale"]
    raw = np.einsum("bhid,bhjd->bhij", q, k) * scale
    capped = c["softcap"] * np.tanh(raw / c["softcap"]) if c["softcap"] else raw
    lengths = np.full(batch, n_k) if c["lengths"] is None else c["lengths"]

    i, j = np.arange(n_q)[:, None], np.arange(n_k)[None, :]

    def stands(position):
        """Where query i of each batch entry stands among the keys: [batch, n_q, 1]."""
        if position in (None, "top-left"):
            first = np.zeros(batch, int)
        elif position == "bottom-right":
            first = lengths - n_q
        else:
            first = np.full(batch, int(position))
        return first[:, None, None] + i

    sees = np.broadcast_to(j < lengths[:, None, None], (batch, n_q, n_k)).copy()
    if c["causal"]:
        sees &= j <= stands(c["causal"])
    if c["window"]:
        left, right = c["window"]
        at = stands(c["position"])
        if left is not None:
            sees &= j >= at - left
        if right is not None:
            sees &= j <= at + right
    added = np.zeros((batch, heads, n_q, n_k))
    linear = np.zeros_like(added)
    if c["alibi"] is not None:
        linear = -c["alibi"].astype(float)[None, :, None, None] * np.abs(stands(c["position"]) - j)[:, None]
    if c["mask"] is not None:
        added = added + c["mask"]
    masked = np.where(sees[:, None] & (added > -INF), capped + added + linear, -INF)
    rows = masked
    if c["sinks"] is not None:
        sink = np.broadcast_to(c["sinks"].astype(float)[None, :, None, None], (batch, heads, n_q, 1))
        rows = np.concatenate([masked, sink], -1)
    weights, lse = softmax(rows, c["temperature"])
    weights = weights[..., :n_k]
    seen = masked > -INF

    # The rounding error of the largest of a row's scores: that of the sum over d with the scale, the cap's six roundings, those
    # of ALiBi, and that of the last addition.
    error = gamma(d + 4) * np.einsum("bhid,bhjd->bhij", np.abs(q), np.abs(k)) * abs(scale)
    error = error + (6 * U * np.abs(capped) if c["softcap"] else 0) + 3 * U * np.abs(linear)
    error = error + U * np.abs(np.where(seen, masked, 0.0)) + U * np.abs(np.where(seen, added, 0.0))
    each, error = error, np.where(seen, error, 0.0).max(-1)
    top = rows.max(-1)
    values = np.where(seen[..., None], np.abs(v)[:, :, None], 0.0).max((-1, -2))
    return {
        "raw": raw, "softcapped": capped, "masked": masked, "weights": weights, "rows": rows, "seen": seen, "top": top,
        "output": np.einsum("bhij,bhjc->bhic", weights, v), "lse": lse, "each": each, "error": error, "values": values,
    }  # fmt: skip


def bound(c, r):
    """A bound for the relative error of the weights of a row, averaged over the row.

    An error of e in two scores changes e^((s − max)/T) by a factor of e^(2e/T). The exponent is rounded three times, relative to
    its size; exp adds 2 roundings, the rescaling of each further tile of 64 keys 4, and the sums over keys γₙ (Higham, Accuracy
    and Stability of Numerical Algorithms, 3.1).
    """
    n_k, t = r["raw"].shape[-1], c["temperature"]
    rounding = gamma(n_k + 8 + 4 * -(-n_k // 64))
    if t in (0.0, INF):
        return np.full(r["error"].shape, rounding)
    top = np.where(r["top"] == -INF, 0.0, r["top"])[..., None]
    spread = np.where(r["seen"], np.minimum((top - np.where(r["seen"], r["masked"], 0.0)) / t, 104.0), 0.0)
    mean = (r["weights"] * spread).sum(-1)
    return np.expm1(2 * r["error"] / t + 4 * U * mean) + rounding


def check(name, found, expected, tolerance, kind, rows):
    """Raises AssertionError unless `found` is `expected` ± `tolerance`, rounded to `kind`, in the rows that are compared."""
    relative, step = ROUNDING[kind]
    expected = np.broadcast_to(expected, found.shape)
    tolerance = np.broadcast_to(tolerance, found.shape)
    with np.errstate(invalid="ignore"):
        close = np.abs(found - expected) <= tolerance + relative * (np.abs(expected) + tolerance) + step
    close |= found == expected
    close |= np.isinf(found) & (np.sign(found) == np.sign(expected)) & (np.abs(expected) > 0.999 * LARGEST[kind])
    wrong = ~close & np.broadcast_to(rows, found.shape)
    if wrong.any():
        at = tuple(int(n) for n in np.argwhere(wrong)[0])
        raise AssertionError(f"{name}{list(at)} is {found[at]!r}, not {expected[at]!r} ± {tolerance[at]:.3g}")


def compare(c, found):
    r = reference(c)
    error, whole = bound(c, r), lambda x: x.reshape((1,) * (r["raw"].ndim - x.ndim) + x.shape)
    kind, finite = c["kind"], np.where(r["top"] == -INF, 0.0, r["top"])
    # At T = 0, a row whose two largest scores are within rounding may have either result.
    clear = np.ones(r["top"].shape, bool)
    if c["temperature"] == 0:
        ordered = np.sort(r["rows"], -1)
        if ordered.shape[-1] > 1:
            lead = ordered[..., -1] - np.where(ordered[..., -2] == -INF, -1e300, ordered[..., -2])
            clear = (lead > 2 * r["error"] + 1e-30) | (r["top"] == -INF)
    check("output", whole(found["output"]), r["output"], (2.5 * error * r["values"] + 1e-44)[..., None], kind, clear[..., None])
    if c["lse"]:
        size = np.abs(finite) / max(c["temperature"], 1e-30) + np.where(np.isfinite(r["lse"]), np.abs(r["lse"]), 0.0)
        size = size if c["temperature"] not in (0.0, INF) else np.where(np.isfinite(r["lse"]), np.abs(r["lse"]), 0.0)
        lse = found["log_sum_exp"]
        # At T = 0 the log-sum-exp is infinite with the sign of the largest score. Within rounding of 0, either sign is right.
        signed = (c["temperature"] != 0) | (np.abs(finite) > r["error"]) | (r["error"] == 0)
        check("log_sum_exp", lse.reshape(r["lse"].shape), r["lse"], 1.5 * error + 4 * U * size, "F32", clear & signed)
    if c["stage"] == "weights":
        # `bound` is for the mean of the weights. The exponent of a single weight is rounded relative to its own size, and a
        # subnormal weight may be 0.
        t = c["temperature"]
        spread = 0.0 if t in (0.0, INF) else np.where(r["seen"], (finite[..., None] - np.where(r["seen"], r["masked"], 0)) / t, 0)
        tolerance = r["weights"] * (2 * error[..., None] + 4 * U * np.minimum(spread, 104.0)) + 1.1754944e-38
        check("scores", whole(found["scores"]), r["weights"], tolerance, kind, clear[..., None])
    elif c["stage"]:
        check("scores", whole(found["scores"]), r[c["stage"]], r["each"] + 1e-44, kind, True)


def one(task):
    program, seed, number = task
    file, options, c = configuration(seed * 1_000_003 + number)
    # In memory, if there is such a folder, because a disk takes longer than the program.
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        source, target = os.path.join(folder, "in.safetensors"), os.path.join(folder, "out.safetensors")
        save(source, file)
        command = [program, "attend", "--input", source, "--output", target, *options]
        done = subprocess.run(command, capture_output=True, text=True)
        try:
            assert done.returncode == 0, done.stderr
            compare(c, load(target))
        except AssertionError as wrong:
            shapes = {name: (kind, x.shape) for name, (kind, x) in file.items()}
            return f"--seed {seed} --first {number} --count 1: {wrong}\n    {' '.join(options)}\n    {shapes}"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--program", default="target/release/regard")
    args = parser.parse_args()
    tasks = ((args.program, args.seed, n) for n in range(args.first, args.first + args.count))
    failed = 0
    with ProcessPoolExecutor(args.jobs) as pool:
        for done, wrong in enumerate(pool.map(one, tasks, chunksize=16), 1):
            if wrong:
                failed += 1
                print(wrong, flush=True)
            if done % 10_000 == 0:
                print(f"{done} configurations, {failed} wrong", flush=True)
    print(f"{args.count} configurations of seed {args.seed} from {args.first} on: {failed} wrong")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
