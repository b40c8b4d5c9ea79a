"""PyTorch and ONNX Runtime, measured like `regard bench`: with the same flags and the same lines of output.

    python peers.py attention --queries 512 --dim 64 --causal --threads 1 --format json

The program does not measure the machine's peak: `--peak` takes it from a line of `regard bench` (`peak_gflops`).
"""

import argparse
import json
import os
import statistics
import sys
import time

import numpy

ROUNDS, SAMPLE, BUDGET = 21, 0.005, 4.0


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("op", choices=["matmul", "softmax", "attention"])
    for flag in ["batch", "heads", "kv-heads", "queries", "keys", "dim"]:
        parser.add_argument(f"--{flag}", type=int)
    parser.add_argument("--causal", action="store_true", help="the last query sees all keys")
    parser.add_argument("--fixed", action="store_true", help="the sizes that `regard bench --fixed` has")
    parser.add_argument("--threads", type=int, default=0, help="0 means one for each core")
    parser.add_argument("--impl", type=lambda names: names.split(","), help="measure only these")
    parser.add_argument("--peak", type=float, help="GFLOP/s of one thread")
    parser.add_argument("--format", choices=["text", "json"], default="text")
    args = parser.parse_args()
    n = args.queries or 16
    queries, keys, dim = {
        ("matmul", False): (256, 256, 256),
        ("matmul", True): (n, n, n),
        ("softmax", False): (64, 1024, 1),
        ("attention", False): (512, args.queries or 512, 64),
        ("attention", True): (n, n, 16),
    }[args.op, args.fixed]
    args.batch = args.batch or 1
    args.heads = args.heads or (1 if args.fixed else 8)
    args.kv_heads = args.kv_heads or args.heads
    args.queries, args.keys, args.dim = args.queries or queries, args.keys or keys, args.dim or dim
    args.threads = args.threads or os.cpu_count()
    return args


def shape(args):
    names = {
        "matmul": ["queries", "dim", "keys"],
        "softmax": ["queries", "keys"],
        "attention": ["batch", "heads", "kv_heads", "queries", "keys", "dim", "causal"],
    }
    return {name: getattr(args, name) for name in names[args.op]}


def flops(args):
    """The number of useful operations, as `regard bench` counts them."""
    n_q, n_k = args.queries, args.keys
    if args.op == "matmul":
        return 2 * n_q * args.dim * n_k
    if args.op == "softmax":
        return 5 * n_q * n_k
    seen = n_q * n_k if not args.causal else n_q * n_k - n_q**2 / 2 if n_q <= n_k else n_k**2 / 2
    return 4 * args.batch * args.heads * seen * args.dim


def normal(*shape):
    return numpy.random.default_rng(0).standard_normal(shape, dtype="float32")


def pytorch(args):
    """PyTorch's implementations: functions to call, by name."""
    import torch
    from torch.nn.attention.bias import causal_lower_right

    torch.set_num_threads(args.threads)
    torch.set_grad_enabled(False)
    if args.op == "matmul":
        a, b = torch.from_numpy(normal(args.queries, args.dim)), torch.from_numpy(normal(args.dim, args.keys))
        out = torch.empty(args.queries, args.keys)
        return {"torch": lambda: torch.mm(a, b, out=out)}
    if args.op == "softmax":
        x = torch.from_numpy(normal(args.queries, args.keys))
        return {"torch": lambda: torch.softmax(x, -1)}
    q = torch.from_numpy(normal(args.batch, args.heads, args.queries, args.dim))
    k, v = (torch.from_numpy(normal(args.batch, args.kv_heads, args.keys, args.dim)) for _ in "kv")
    options = {"enable_gqa": args.kv_heads != args.heads}
    if args.causal and args.queries == args.keys:
        options["is_causal"] = True
    elif args.causal and args.queries > 1:
        options["attn_mask"] = causal_lower_right(args.queries, args.keys)
    return {"torch": lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v, **options)}


def node(args, op, inputs, output, domain="", shared=(), **attributes):
    """A function that runs one operator of ONNX Runtime on arrays by name; `shared` outputs write over an input."""
    import onnxruntime
    from onnx import TensorProto, helper

    def info(name, array):
        kind = TensorProto.INT32 if array.dtype == numpy.int32 else TensorProto.FLOAT
        return helper.make_tensor_value_info(name, kind, array.shape)

    outputs = {"output": output} | {name: inputs[source] for name, source in shared}
    graph = helper.make_graph(
        [helper.make_node(op, list(inputs), list(outputs), domain=domain, **attributes)],
        op,
        [info(name, array) for name, array in inputs.items()],
        [info(name, array) for name, array in outputs.items()],
    )
    imports = [helper.make_opsetid("", 23), helper.make_opsetid("com.microsoft", 1)]
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = args.threads, 1
    model = helper.make_model(graph, opset_imports=imports, ir_version=11).SerializeToString()
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    values = {name: onnxruntime.OrtValue.ortvalue_from_numpy(array) for name, array in inputs.items()}
    values["output"] = onnxruntime.OrtValue.ortvalue_from_numpy(output)
    values |= {name: values[source] for name, source in shared}
    binding = session.io_binding()
    for name in inputs:
        binding.bind_ortvalue_input(name, values[name])
    for name in outputs:
        binding.bind_ortvalue_output(name, values[name])
    return lambda: session.run_with_iobinding(binding)


def onnx_runtime(args):
    """ONNX Runtime's implementations: functions to call, by name."""
    if args.op == "matmul":
        inputs = {"a": normal(args.queries, args.dim), "b": normal(args.dim, args.keys)}
        return {"onnxruntime": node(args, "MatMul", inputs, normal(args.queries, args.keys))}
    if args.op == "softmax":
        x = normal(args.queries, args.keys)
        return {"onnxruntime": node(args, "Softmax", {"x": x}, x)}
    batch, heads, kv_heads, n_q, n_k, dim = (shape(args)[name] for name in list(shape(args))[:6])
    causal = args.causal and n_q > 1  # one query sees all keys
    calls = {}
    if kv_heads == heads and not (causal and n_q != n_k):
        rows = {name: normal(batch, n, heads * dim) for name, n in [("query", n_q), ("key", n_k), ("value", n_k)]}
        attributes = {"num_heads": heads, "unidirectional": int(causal)}
        calls["ort-mha"] = node(
            args, "MultiHeadAttention", rows, rows["query"], "com.microsoft", **attributes
        )
    if not (causal and n_q != n_k):
        q, k = normal(batch, heads, n_q, dim), normal(batch, kv_heads, n_k, dim)
        calls["ort-attention"] = node(args, "Attention", {"q": q, "k": k, "v": k}, q, is_causal=int(causal))
    if (args.causal or n_q == 1) and n_q <= n_k:
        # This attention is always causal, and writes the keys of the queries into a cache. The cache is passed whole, and has no
        # room for more keys.
        inputs = {
            "query": normal(batch, n_q, heads * dim),
            "key": normal(batch, n_q, kv_heads * dim),
            "value": normal(batch, n_q, kv_heads * dim),
            "past_key": normal(batch, kv_heads, n_k, dim),
            "past_value": normal(batch, kv_heads, n_k, dim),
            "seqlens_k": numpy.full(batch, n_k - 1, dtype="int32"),
            "total_sequence_length": numpy.array([n_k], dtype="int32"),
        }
        shared = [("present_key", "past_key"), ("present_value", "past_value")]
        attributes = {"num_heads": heads, "kv_num_heads": kv_heads}
        calls["ort-gqa"] = node(
            args, "GroupQueryAttention", inputs, inputs["query"], "com.microsoft", shared, **attributes
        )
    return calls


def measure(calls):
    """The seconds of a call of each, sampled in turns."""
    counts, seconds = {}, {name: [] for name in calls}

    def sample(name, count):
        call, start = calls[name], time.perf_counter()
        for _ in range(count):
            call()
        return time.perf_counter() - start

    spent = dict.fromkeys(calls, 0.0)
    for name in calls:
        counts[name] = 1
        while (elapsed := sample(name, counts[name])) < SAMPLE:
            counts[name] *= 2
    for _ in range(ROUNDS):
        for name, count in counts.items():
            if spent[name] < BUDGET:
                elapsed = sample(name, count)
                spent[name] += elapsed
                seconds[name].append(elapsed / count)
    return seconds


def line(args, name, seconds):
    median = statistics.median(seconds)
    quartiles = statistics.quantiles(seconds, n=4) if len(seconds) > 1 else [median] * 3
    gflops = flops(args) / median / 1e9
    line = {
        "op": args.op,
        "impl": name,
        "shape": shape(args),
        "threads": args.threads,
        "median_s": median,
        "spread": (quartiles[2] - quartiles[0]) / median,
        "gflops": gflops,
        "fraction_of_peak": gflops / (args.peak * args.threads) if args.peak else None,
        "peak_gflops": args.peak,
    }
    if args.op == "softmax":
        line["ns_per_element"] = median * 1e9 / (args.queries * args.keys)
    return line


def main():
    args = arguments()
    calls = {}
    libraries = [pytorch, onnx_runtime]
    if args.impl:  # importing both takes seconds
        libraries = [pytorch] * ("torch" in args.impl) + [onnx_runtime] * (args.impl != ["torch"])
    for library in libraries:
        try:
            calls |= library(args)
        except ImportError as missing:
            print(f"without {missing.name}", file=sys.stderr)
    if args.impl:
        unknown = [name for name in args.impl if name not in calls]
        if unknown:
            raise SystemExit(f"no {', '.join(unknown)} of this; there is: {', '.join(calls)}")
        calls = {name: calls[name] for name in args.impl}
    for name, seconds in measure(calls).items():
        result = line(args, name, seconds)
        if args.format == "json":
            print(json.dumps(result))
        else:
            share = f" {result['fraction_of_peak']:6.1%} of peak" if args.peak else ""
            sizes = " ".join(f"{key} {value}" for key, value in result["shape"].items())
            print(
                f"{args.op:<10} {sizes} {name:<14} {args.threads} threads {result['median_s'] * 1e6:10.2f} µs "
                f"±{result['spread']:.1%} {result['gflops']:8.2f} GFLOP/s{share}"
            )


if __name__ == "__main__":
    main()
