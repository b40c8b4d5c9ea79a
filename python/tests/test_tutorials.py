"""The calls that TransformerLens's tutorials make, as they write them, on a random GPT-2. Where TransformerLens is installed, with its numbers."""

import json
import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # before it is imported: no name is looked up

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

GOLDEN = Path(os.environ.get("GOLDEN", Path(__file__).parents[2] / "tests" / "golden" / "models"))
TOKENS = [[1, 5, 17, 3, 22, 9], [1, 2, 3, 4, 5, 6]]

#: What is called: `model`, `tokens` [2, 6], `one` [1, 6], `cache` of `tokens`, and hooks are there.
CALLS = [
    "model(tokens)",
    'model(tokens, return_type="loss")',
    'model(tokens, return_type="both")[1]',
    'model(tokens, return_type="loss", loss_per_token=True)',
    "model(tokens, stop_at_layer=1)",
    "model.run_with_cache(tokens)[0]",
    'model.run_with_cache(one, remove_batch_dim=True)[1]["pattern", 0]',
    'model.run_with_cache(tokens, names_filter=lambda name: name.endswith("hook_z"))[1]["z", 1]',
    'model.run_with_cache(tokens, names_filter=["blocks.0.hook_resid_post"])[1]["resid_post", 0]',
    'model.run_with_cache(tokens, names_filter="blocks.0.attn.hook_pattern")[1]["blocks.0.attn.hook_pattern"]',
    'model.run_with_hooks(tokens, fwd_hooks=[("blocks.1.attn.hook_z", zero)])',
    'model.run_with_hooks(tokens, return_type="loss", fwd_hooks=[(lambda name: name.endswith("hook_mlp_out"), half)])',
    "hooked(model, tokens)",
    "added(model, tokens)",
    "context(model, tokens)",
    'cache["resid_post", -1]',
    'cache["blocks.0.attn.hook_attn_scores"][0, 0, -1]',
    "cache.accumulated_resid(layer=-1, incl_mid=True, pos_slice=-1)",
    "cache.accumulated_resid(layer=-1, apply_ln=True, pos_slice=-1)",
    "cache.decompose_resid(layer=-1, pos_slice=-1)",
    "cache.stack_head_results(layer=-1, pos_slice=-1)",
    "cache.apply_ln_to_stack(cache.decompose_resid(layer=-1, pos_slice=-1), layer=-1, pos_slice=-1)",
    "cache.logit_attrs(cache.decompose_resid(layer=-1, pos_slice=-1), tokens=tokens[:, 0], pos_slice=-1)",
    'cache.stack_activation("pattern")',
    "model.tokens_to_residual_directions(tokens[:, 0])",
    "model.W_E",
    "model.W_U",
    "model.W_Q[1, 0]",
    "model.blocks[0].attn.W_O",
    "model.QK[0, 1].AB",
    "model.OV[1].AB",
    "model.W_pos",
    'model.to_string(model.to_tokens("5 17 3"))',
    'model.to_str_tokens("5 17 3")',
    'model.to_single_token("17")',
    "model.generate(one, max_new_tokens=4, do_sample=False, verbose=False, stop_at_eos=False, use_past_kv_cache=False)",
    "model.generate(one, max_new_tokens=4, do_sample=False, verbose=False, stop_at_eos=False)",
    "halved(model, tokens)",
    'model.run_with_hooks(tokens, fwd_hooks=[("blocks.0.hook_resid_mid", half)])',
]

#: What TransformerLens 4.3 does otherwise, and the call before it, which gives both libraries' numbers. Its cache of keys is not read:
#: from the second written token on, a token sees itself alone. `hook_resid_mid` is a name of `ln2.hook_in`: what a hook changes there,
#: the feed-forward layer reads, and the stream goes on without it.
OTHERWISE = (CALLS[-3], CALLS[-1])

PRELUDE = """
def zero(z, hook):
    z[:, :, 0] = 0
    return z

def half(out, hook):
    return out * 0.5

def hooked(model, tokens):
    with model.hooks(fwd_hooks=[("blocks.0.attn.hook_pattern", half)]):
        return model(tokens)

def added(model, tokens):
    model.add_hook("blocks.1.hook_resid_pre", half)
    logits = model(tokens)
    model.reset_hooks()
    return logits

def halved(model, tokens):
    kept = []
    def keep(stream, hook):
        kept.append(stream * 1)
    def halve(out, hook):
        return (out - kept[0]) * 0.5
    return model.run_with_hooks(tokens, fwd_hooks=[("blocks.0.hook_resid_pre", keep), ("blocks.0.hook_attn_out", halve)])

def context(model, tokens):
    def keep(pattern, hook):
        hook.ctx["layer"] = hook.layer()
    model.run_with_hooks(tokens, fwd_hooks=[("blocks.1.attn.hook_pattern", keep)])
    return model.hook_dict["blocks.1.attn.hook_pattern"].ctx.get("layer", 1)
"""

RUN = """
import json, sys
import numpy as np
calls, tokens = json.loads(sys.argv[2]), json.loads(sys.argv[3])
results, failed = {}, {}
if sys.argv[4] != "numpy":
    import torch
    torch.set_grad_enabled(False)
    tokens = torch.tensor(tokens)
else:
    tokens = np.array(tokens)
if sys.argv[4] == "theirs":
    import transformers
    from transformer_lens.model_bridge import TransformerBridge
    hf = transformers.AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype=torch.float32, attn_implementation="eager").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(sys.argv[1])
    model = TransformerBridge.boot_transformers(sys.argv[1], hf_model=hf, tokenizer=tokenizer, device="cpu", dtype=torch.float32)
    model.enable_compatibility_mode()
else:
    from regard.lens import HookedTransformer
    model = HookedTransformer.from_pretrained(sys.argv[1])
scope = {"model": model, "tokens": tokens, "one": tokens[:1]}
exec(sys.argv[5], scope)
scope["cache"] = model.run_with_cache(tokens)[1]
for i, call in enumerate(calls):
    try:
        value = eval(call, scope)
        value = value.detach().numpy() if hasattr(value, "detach") else np.asarray(value)
        results[str(i)] = value.astype(str) if value.dtype == object else value
    except Exception as e:
        failed[call] = f"{type(e).__name__}: {e}"
np.savez(sys.argv[6], **results)
print(json.dumps(failed))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The random GPT-2 of the golden data, with a tokenizer of its numbers."""
    golden = GOLDEN / "tiny-gpt2"
    if not golden.exists():
        pytest.skip(f"NOT CHECKED: {golden} is not there")
    folder = tmp_path_factory.mktemp("tutorials")
    for name in ("config.json", "model.safetensors"):
        shutil.copy(golden / name, folder)
    count = json.loads((folder / "config.json").read_text())["vocab_size"]
    words = ["<unk>", "<s>", *map(str, range(2, count))]
    special = [{"id": i, "content": words[i], "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True} for i in (0, 1)]
    model = {"type": "WordLevel", "vocab": {word: i for i, word in enumerate(words)}, "unk_token": "<unk>"}
    text = {"version": "1.0", "added_tokens": special, "pre_tokenizer": {"type": "WhitespaceSplit"}, "model": model}
    (folder / "tokenizer.json").write_text(json.dumps(text))
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "<unk>", "bos_token": "<s>", "eos_token": "<s>", "pad_token": "<unk>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


def run(folder, which, out):
    arguments = [str(folder), json.dumps(CALLS), json.dumps(TOKENS), which, PRELUDE, str(out)]
    done = subprocess.run([sys.executable, "-c", RUN, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return dict(np.load(out)), json.loads(done.stdout.splitlines()[-1])


def has(module):
    import importlib.util

    return importlib.util.find_spec(module) is not None


@pytest.mark.parametrize("arrays", ["numpy", "torch"])
def test_the_calls_of_the_tutorials(folder, tmp_path, arrays):
    if arrays == "torch" and not has("torch"):
        pytest.skip("NOT CHECKED with PyTorch, which is not installed")
    ours, failed = run(folder, arrays, tmp_path / "ours.npz")
    assert not failed, failed
    assert len(ours) == len(CALLS) >= 34
    for call in OTHERWISE:
        at = CALLS.index(call)
        np.testing.assert_allclose(ours[str(at)], ours[str(at - 1)], rtol=0, atol=1e-4 * max(1, np.abs(ours[str(at)]).max()))
    if not has("transformer_lens"):
        pytest.skip("the calls run; their numbers are NOT CHECKED with TransformerLens, which is not installed")
    theirs, failed = run(folder, "theirs", tmp_path / "theirs.npz")
    print("TransformerLens itself fails at:", failed)
    differ = {}
    for i, call in enumerate(CALLS):
        if call in failed or call in OTHERWISE:
            continue
        a, b = ours[str(i)], theirs[str(i)]
        if a.dtype.kind == "f":
            hidden = np.isneginf(a) | (b < -1e30)  # scores of hidden keys: −∞ here, the least float there
            a, b = np.where(hidden, 0, a), np.where(hidden, 0, b)
        if a.shape != b.shape:
            differ[call] = f"{a.shape} is not {b.shape}"
        elif a.dtype.kind in "US":
            differ |= {} if (a == b).all() else {call: f"{a} is not {b}"}
        elif np.abs(a - b).max(initial=0) > 1e-4 * max(1, np.abs(b).max(initial=0)):
            differ[call] = f"off by {np.abs(a - b).max()}"
    assert not differ and len(failed) <= 2, (differ, failed)
