"""Runs a whole model with Regard and its peers in turns, and prints the median of the ratios of each measurement.

    python3 benches/models.py MODEL --threads 1 --pairs 3

MODEL is a Hugging Face folder or a GGUF file. The peers of a folder are PyTorch (transformers) and, for models that only read,
ONNX Runtime; the peer of a file is llama.cpp (xllamacpp). Those that are not installed are left out. ATEN_CPU_CAPABILITY=avx2 and REGARD_TIER=avx2 limit both to one width of vectors.
"""

import argparse
import io
import statistics
import time

import programs


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--tokens", default="16,64,128,512")
    parser.add_argument("--pairs", type=int, default=3)
    args = parser.parse_args()
    peers = peers_of(args.model, args.threads)
    ratios = {}
    for _ in range(args.pairs):
        ours = regard(args.model, args.threads, args.tokens)
        for key, seconds in ours.items():
            batch, count = key
            for name, peer in peers.items():
                theirs = peer.write() if key == (0, 0) else peer.read(batch, count)
                if theirs is None:
                    continue
                ratios.setdefault((key, name), []).append((theirs / seconds, seconds, theirs))
    for ((batch, count), name), found in ratios.items():
        what = "write a token" if (batch, count) == (0, 0) else f"read {batch} × {count}"
        ratio, ours, theirs = (statistics.median(column) for column in zip(*found))
        print(f"{what:<16} ours {1e3 * ours:8.2f} ms   {name:<12} {1e3 * theirs:8.2f} ms   {ratio:5.2f}×")


def peers_of(model, threads):
    if model.endswith(".gguf"):
        return {"llama.cpp": LlamaCpp(model, threads)}
    peers = {"torch": Torch(model, threads)}
    if not peers["torch"].writes:
        try:
            peers["onnxruntime"] = OnnxRuntime(peers["torch"], threads)
        except ImportError as error:
            print(f"without ONNX Runtime: {error}")
    return peers


def regard(model, threads, tokens):
    """The seconds by batch and tokens; (0, 0) is a token that continues a text."""
    found = {}
    for line in programs.regard(["model", model, "--threads", threads, "--tokens", tokens]):
        if line["op"] == "read":
            found[line["batch"], line["tokens"]] = line["median_s"]
        elif line["op"] == "write":
            found[0, 0] = line["following_s"]
    return found


def median(call, budget=2.0, most=15):
    call()
    seconds, start = [], time.perf_counter()
    while not seconds or len(seconds) < most and time.perf_counter() - start < budget:
        begin = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - begin)
    return statistics.median(seconds)


class Torch:
    def __init__(self, folder, threads):
        import torch
        import transformers

        self.torch = torch
        torch.set_num_threads(threads)
        torch.set_grad_enabled(False)
        config = transformers.AutoConfig.from_pretrained(folder)
        self.writes = any("CausalLM" in name or "LMHead" in name for name in config.architectures or [])
        kind = transformers.AutoModelForCausalLM if self.writes else transformers.AutoModel
        self.model = kind.from_pretrained(folder, dtype="auto").eval()

    def ids(self, batch, tokens):
        return self.torch.randint(5, 1000, (batch, tokens))

    def read(self, batch, tokens):
        ids = self.ids(batch, tokens)
        last = {"logits_to_keep": 1} if self.writes else {}
        return median(lambda: self.model(input_ids=ids, **last))

    def write(self):
        state = self.model(input_ids=self.ids(1, 16), use_cache=True)
        cache, ids = state.past_key_values, self.ids(1, 1)
        return median(lambda: self.model(input_ids=ids, past_key_values=cache, use_cache=True))


class OnnxRuntime:
    def __init__(self, torch, threads):
        import onnxruntime

        ids = torch.ids(2, 16)
        inputs = {"input_ids": ids, "attention_mask": torch.torch.ones_like(ids)}
        any_size = {name: {0: "batch", 1: "tokens"} for name in inputs}
        program = torch.torch.onnx.export(torch.model, (), kwargs=inputs, dynamic_shapes=any_size)
        file = io.BytesIO()
        program.save(file)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        self.torch = torch
        self.session = onnxruntime.InferenceSession(file.getvalue(), options)

    def read(self, batch, tokens):
        ids = self.torch.ids(batch, tokens).numpy()
        inputs = {"input_ids": ids, "attention_mask": (ids > 0).astype(ids.dtype)}
        return median(lambda: self.session.run(None, inputs))


class LlamaCpp:
    """A server within this process, which measures itself. Its many messages go to standard error."""

    def __init__(self, file, threads):
        import xllamacpp

        params = xllamacpp.CommonParams()
        params.model.path = file
        params.n_parallel = 1
        params.n_gpu_layers = 0
        params.cpuparams.n_threads = threads
        params.cpuparams_batch.n_threads = threads
        self.server = xllamacpp.Server(params)

    def timings(self, tokens, written):
        request = {"prompt": list(range(100, 100 + tokens)), "n_predict": written, "ignore_eos": True}
        request |= {"cache_prompt": False, "temperature": 0}
        return [self.server.handle_completions(request)["timings"] for _ in range(5)]

    def read(self, batch, tokens):
        if batch == 1:
            return statistics.median(t["prompt_ms"] for t in self.timings(tokens, 1)) / 1e3
        return None

    def write(self):
        return statistics.median(t["predicted_per_token_ms"] for t in self.timings(16, 24)) / 1e3


if __name__ == "__main__":
    main()
