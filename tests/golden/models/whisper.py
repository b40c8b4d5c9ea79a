"""Writes tiny-whisper: a model with random weights as it lies in a Hugging Face cache, a recording, and what transformers gives for it.

    pip install torch transformers
    python whisper.py

The recording is prepared by WhisperFeatureExtractor; all that follows is computed in float64 by eager attention.
"""

import json
import shutil
import wave
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer
from transformers import SuppressTokensAtBeginLogitsProcessor, SuppressTokensLogitsProcessor
from transformers import AutoTokenizer, WhisperConfig, WhisperFeatureExtractor, WhisperForConditionalGeneration

FOLDER = Path(__file__).parent / "tiny-whisper"
SPECIAL = ["<|startoftranscript|>", "<|en|>", "<|transcribe|>", "<|notimestamps|>"]
NEW = 10
SUPPRESS, SUPPRESS_FIRST = [71], [93, 66]  # likely tokens of this model
TEXT = " tokens look at other"
CASES = ["The  cat's 2 hats,\n\tdidn't fit: 1234567!", "naïve café — 注意 🙂", ""]


def tokenizer():
    """The byte-level tokens of tiny-gpt2, with the tokens that begin a transcript."""
    tokens = json.loads((FOLDER.parent / "tiny-gpt2/tokenizer.json").read_text())
    first = len(tokens["model"]["vocab"])
    for i, content in enumerate(SPECIAL):
        tokens["added_tokens"].append(dict(tokens["added_tokens"][0], id=first + i, content=content))
    (FOLDER / "tokenizer.json").write_text(json.dumps(tokens, ensure_ascii=False))
    return first


def recording(random, samples):
    """A tone that rises, one that ends halfway, and noise, as 16-bit integers."""
    t = np.arange(samples) / 16_000
    sound = 0.3 * np.sin(2 * np.pi * (300 * t + 4000 * t * t)) + 0.2 * np.sin(2 * np.pi * 1800 * t) * (t < t[-1] / 2)
    sound += 0.02 * random.standard_normal(samples)
    return np.round(sound * 32_767).astype(np.int16)


def main():
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()
    start = tokenizer()
    torch.manual_seed(36)
    config = WhisperConfig(
        vocab_size=start + len(SPECIAL), d_model=24, num_mel_bins=12, max_source_positions=25, max_target_positions=40,
        encoder_layers=2, encoder_attention_heads=4, encoder_ffn_dim=40, decoder_layers=3, decoder_attention_heads=3,
        decoder_ffn_dim=56, decoder_start_token_id=start, bos_token_id=0, eos_token_id=0, pad_token_id=0,
        begin_suppress_tokens=None, attn_implementation="eager",
    )
    model = WhisperForConditionalGeneration(config)
    for name, parameter in model.named_parameters():
        if not name.endswith("encoder.embed_positions.weight"):
            parameter.data = 0.3 * torch.randn_like(parameter) + (1.0 if "norm.weight" in name else 0.0)
    model = model.half()
    model.generation_config.forced_decoder_ids = None
    model.save_pretrained(FOLDER)
    settings = {"decoder_start_token_id": start, "eos_token_id": 0, "forced_decoder_ids": [[1, start + 1], [2, start + 2], [3, None]]}
    settings |= {"suppress_tokens": SUPPRESS, "begin_suppress_tokens": SUPPRESS_FIRST}
    (FOLDER / "generation_config.json").write_text(json.dumps(settings, indent=2) + "\n")
    extractor = WhisperFeatureExtractor(feature_size=12, hop_length=320, chunk_length=1)
    extractor.save_pretrained(FOLDER)
    model = model.double().eval()
    random = np.random.default_rng(36)
    sounds = [recording(random, samples) for samples in (6000, 9000)]
    with wave.open(str(FOLDER / "sound.wav"), "wb") as file:
        file.setparams((1, 2, 16_000, 0, "NONE", ""))
        file.writeframes(sounds[0].tobytes())
    features = [extractor(x.astype(np.float32) / 32_768, sampling_rate=16_000, return_tensors="pt").input_features for x in sounds]
    words = Tokenizer.from_file(str(FOLDER / "tokenizer.json"))
    whole = AutoTokenizer.from_pretrained(FOLDER)  # with the class's tokens around a text
    begin = [start, start + 1, start + 2]  # those of generation_config.json
    ids = torch.tensor([[*begin, *words.encode(TEXT, add_special_tokens=False).ids]])

    def run(features, ids, hooks=()):
        handles = [module.register_forward_hook(hook) if not before else module.register_forward_pre_hook(hook) for module, hook, before in hooks]
        with torch.no_grad():
            out = model(features.double(), decoder_input_ids=ids, output_attentions=True, output_hidden_states=True)
        for handle in handles:
            handle.remove()
        return out

    def attention(head):
        which, layer, head = head.split(".")
        stack = model.model.encoder if which == "encoder" else model.model.decoder
        layer = stack.layers[int(layer)]
        module = layer.encoder_attn if which == "cross" else layer.self_attn
        return module, slice(int(head) * module.head_dim, (int(head) + 1) * module.head_dim)

    def ablated(head):
        module, part = attention(head)

        def zero(_, inputs):
            z = inputs[0].clone()
            z[..., part] = 0
            return (z,)

        return [(module.out_proj, zero, True)]

    def tempered(head, temperature):
        module, part = attention(head)

        def divide(_module, _inputs, q):
            q = q.clone()
            q[..., part] /= temperature
            return q

        return [(module.q_proj, divide, False)]

    out = run(features[0], ids)
    expected = {
        "input_features": features[0][0],
        "input_features_b": features[1][0],
        "decoder_input_ids": ids[0],
        "logits": out.logits[0],
        "encoder_last_hidden_state": out.encoder_last_hidden_state[0],
        "encoder_attentions": torch.cat(out.encoder_attentions),
        "decoder_attentions": torch.cat(out.decoder_attentions),
        "cross_attentions": torch.cat(out.cross_attentions),
        "encoder_hidden_states": torch.cat(out.encoder_hidden_states),
        "decoder_hidden_states": torch.cat(out.decoder_hidden_states),
    }
    for head in ("encoder.1.2", "decoder.0.1", "cross.2.0"):
        expected[f"ablated/{head}/logits"] = run(features[0], ids, ablated(head)).logits[0]
    for head, temperature in (("encoder.0.3", 0.5), ("decoder.1.2", 4.0), ("cross.0.1", 2.0)):
        expected[f"tempered/{head}={temperature:g}/logits"] = run(features[0], ids, tempered(head, temperature)).logits[0]

    other = run(features[1], ids)
    for layer, position in (("encoder.1", 7), ("decoder.2", 4)):
        name, number = layer.split(".")
        row = other[f"{name}_hidden_states"][int(number)][:, position]

        def patch(_, inputs):
            x = inputs[0].clone()
            x[:, position] = row
            return (x, *inputs[1:])

        module = getattr(model.model, name).layers[int(number)]
        expected[f"patched/{layer}.{position}/logits"] = run(features[0], ids, [(module, patch, True)]).logits[0]

    last = []
    handle = model.model.decoder.layer_norm.register_forward_pre_hook(lambda _, inputs: last.append(inputs[0]))
    run(features[0], ids)
    handle.remove()
    streams = torch.cat([*out.decoder_hidden_states[:-1], last[0]])
    with torch.no_grad():
        logits, best = model.proj_out(model.model.decoder.layer_norm(streams)).topk(5)
    expected |= {"decoder_residual_last": last[0][0], "lens": best, "lens_logits": logits}

    text, generated = ids[:, : len(begin)], []
    suppress = [
        SuppressTokensLogitsProcessor(settings["suppress_tokens"]),
        SuppressTokensAtBeginLogitsProcessor(settings["begin_suppress_tokens"], len(begin)),
    ]
    for _ in range(NEW):
        logits = run(features[0], text).logits[:, -1]
        for processor in suppress:
            logits = processor(text, logits)
        two = logits[0].topk(2)
        assert two.values[0] - two.values[1] > 0.002 and two.indices[0] != 0, two
        generated.append(int(two.indices[0]))
        text = torch.cat([text, two.indices[None, :1]], 1)
    expected["generated"] = torch.tensor(generated)
    kept = {k: v.float() if v.is_floating_point() else v.long() for k, v in expected.items()}
    save_file({k: v.contiguous() for k, v in kept.items()}, FOLDER / "expected.safetensors")
    notes = {
        "tokens": [f"{0.04 * i:.2f} s" for i in range(config.max_source_positions)],
        "decoder_text": TEXT,
        "decoder_tokens": [words.id_to_token(i) for i in ids[0].tolist()],
        "generated_text": words.decode(generated, skip_special_tokens=False),
        "tokenizer_cases": [{"text": text, "ids": whole(text).input_ids} for text in CASES],
    }
    (FOLDER / "expected.json").write_text(json.dumps(notes, ensure_ascii=False) + "\n")
    for path in FOLDER.iterdir():
        path.chmod(0o644)


main()
