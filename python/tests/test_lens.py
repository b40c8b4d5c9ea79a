"""`regard.lens`: TransformerLens's calls, and the numbers that TransformerLens 4.3 found in a study (tests/golden/lens/record.py)."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import regard
from regard.lens import FactoredMatrix, HookedTransformer, TransformerBridge, get_act_name

GOLDEN = Path(os.environ.get("GOLDEN", Path(__file__).parents[2] / "tests" / "golden" / "models"))
TEXT = "When Mary and John went to the store, John gave a drink to"


def array(x):
    return x.detach().numpy() if hasattr(x, "detach") else np.asarray(x)


@pytest.fixture(scope="module")
def model():
    return HookedTransformer.from_pretrained("english")


@pytest.fixture(scope="module")
def golden():
    path = GOLDEN.parent / "lens" / "english.npz"
    if not path.exists():
        pytest.skip(f"NOT CHECKED: {path} is not there")
    return dict(np.load(path))


def near(found, expected, tolerance=1e-4):
    np.testing.assert_allclose(array(found), expected, rtol=0, atol=tolerance * max(1, np.abs(expected).max()))


def test_the_study_finds_what_transformer_lens_finds(golden):
    """In a process of its own, because arrays are tensors where PyTorch is imported."""
    pytest.importorskip("torch", reason="NOT CHECKED with PyTorch, which is not installed")
    study = Path(__file__).with_name("exploratory_analysis.py")
    code = (
        "import sys, numpy as np, torch\nfrom regard.lens import HookedTransformer\n"
        "scope = {'model': HookedTransformer.from_pretrained('english')}\n"
        f"exec(compile(open({str(study)!r}).read(), 'study', 'exec'), scope)\n"
        "np.savez(sys.argv[1], **{name: np.asarray(value) for name, value in scope['results'].items()})\n"
    )
    out = Path(os.environ.get("TMPDIR", "/tmp")) / f"regard-study-{os.getpid()}.npz"
    try:
        subprocess.run([sys.executable, "-c", code, str(out)], check=True)
        found = dict(np.load(out))
    finally:
        out.unlink(missing_ok=True)
    assert set(found) == set(golden)
    for name, expected in golden.items():
        if expected.dtype.kind == "f":
            near(found[name], expected)
        else:
            np.testing.assert_array_equal(found[name], expected)


def test_a_study_in_numpy_finds_what_transformer_lens_finds(model, golden):
    tokens = golden["tokens"]
    swapped = np.arange(len(tokens)) ^ 1
    answers = np.array([[model.to_single_token(name) for name in pair] for pair in
                        ((" John", " Mary"), (" Tom", " James"), (" Anna", " Ben"), (" Paul", " Lucy"))])
    answers = np.stack([answers, answers[:, ::-1]], 1).reshape(-1, 2)

    def difference(logits):
        last = array(logits)[:, -1]
        return (np.take_along_axis(last, answers, 1) * [1, -1]).sum(1)

    logits, cache = model.run_with_cache(tokens)
    near(array(logits)[:, -1], golden["last logits"])
    near(difference(logits), golden["logit diff"])
    near(model(tokens, return_type="loss"), golden["loss"])
    directions = array(model.tokens_to_residual_directions(answers))
    directions = directions[:, 0] - directions[:, 1]
    for name, stack in (
        ("logit lens", cache.accumulated_resid(layer=-1, incl_mid=True, pos_slice=-1)),
        ("attribution of layers", cache.decompose_resid(layer=-1, pos_slice=-1)),
        ("attribution of heads", cache.stack_head_results(layer=-1, pos_slice=-1)),
    ):
        scaled = array(cache.apply_ln_to_stack(stack, layer=-1, pos_slice=-1))
        near(np.einsum("...bd,bd->...", scaled, directions).ravel() / len(tokens), golden[name].ravel())
    corrupted = difference(model(tokens[swapped])).mean()
    for name, columns in (("resid_pre", tokens.shape[1]), ("z", model.cfg.n_heads), ("pattern", model.cfg.n_heads)):
        found = np.zeros((model.cfg.n_layers, columns))
        for layer in range(model.cfg.n_layers):
            for column in range(columns):

                def patch(values, hook, column=column, name=name):
                    index = (slice(None), slice(None), column) if name == "z" else (slice(None), column)
                    values[index] = cache[hook.name][index]

                patched = model.run_with_hooks(tokens[swapped], fwd_hooks=[(get_act_name(name, layer), patch)])
                found[layer, column] = (difference(patched).mean() - corrupted) / (difference(logits).mean() - corrupted)
        near(found, golden[f"patched {name}"])
    near(model.blocks[0].attn.W_O[1], golden["W_O"])
    near(model.QK[0, 1].AB, golden["QK"])


@pytest.mark.parametrize("family", ["gpt2", "gpt_neox", "llama", "qwen2"])
def test_processing_changes_no_prediction(family):
    """Folded norms, centred weights and folded biases: the same distributions, and a stream that follows from the processed weights."""
    folder = GOLDEN / f"tiny-{family}"
    ids = np.array([[5, 17, 3, 22, 9], [1, 2, 3, 4, 5]])
    raw, made = TransformerBridge.boot_transformers(folder), HookedTransformer.from_pretrained(folder)
    before, (after, cache) = array(raw(ids)), made.run_with_cache(ids)
    near(array(after) - before, (array(after) - before).mean(-1, keepdims=True) + 0 * before)
    near(raw.plain(ids), before)
    normal = {name: array(value).astype(np.float64) for name, value in cache.items()}
    for layer in range(made.cfg.n_layers):
        normed = normal[f"blocks.{layer}.ln1.hook_normalized"]
        for name in "qkv":
            weight, bias = (array(getattr(made, f"{kind}_{name.upper()}"))[layer] for kind in "Wb")
            near(cache[name, layer], np.einsum("bnm,hme->bnhe", normed, weight) + bias)
        out = np.einsum("bnhe,hem->bnm", normal[f"blocks.{layer}.attn.hook_z"], array(made.W_O)[layer]) + array(made.b_O)[layer]
        near(cache["attn_out", layer], out)
    last = normal["ln_final.hook_normalized"]
    near(after, last @ array(made.W_U) + array(made.b_U))
    near(made.unembed(made.ln_final(cache["resid_post", -1])), array(after))
    near(array(cache.decompose_resid()).sum(0), array(cache["resid_post", -1]))
    near(array(cache.stack_head_results(incl_remainder=True)).sum(0), array(cache["resid_post", -1]))
    # A hook that writes back what it gets changes nothing, whatever the place.
    same = made.run_with_hooks(ids, fwd_hooks=[(lambda name: name.endswith(("hook_v", "hook_z", "resid_mid", "attn_out")), lambda x, hook: x * 1)])
    near(same, array(after))


def test_hooks_and_their_contexts(model):
    plain = array(model(TEXT))
    seen = []

    def keep(z, hook):
        hook.ctx["shape"], _ = tuple(z.shape), seen.append(hook.layer())

    model.add_hook("blocks.2.attn.hook_z", keep)
    model.blocks[3].hook_resid_pre.add_hook(keep)
    model(TEXT)
    assert seen == [2, 3] and model.hook_dict["blocks.2.attn.hook_z"].ctx["shape"] == (1, 15, 6, 32)
    model.reset_hooks()
    assert not model.hook_dict["blocks.2.attn.hook_z"].ctx
    with model.hooks(fwd_hooks=[("blocks.0.attn.hook_pattern", lambda pattern, hook: pattern * 0)]):
        changed = array(model(TEXT))
        assert np.abs(changed - plain).max() > 1
        np.testing.assert_array_equal(array(model(TEXT)), changed)  # from the layers of an unchanged run
    np.testing.assert_array_equal(array(model(TEXT)), plain)
    for call in (lambda: model.run_with_hooks(TEXT, bwd_hooks=[("hook_embed", keep)]), lambda: model.add_hook("hook_embed", keep, dir="bwd")):
        with pytest.raises(NotImplementedError, match="no gradients"):
            call()
    with pytest.raises(KeyError, match="hook_patern.*hook_pattern"):
        model.run_with_hooks(TEXT, fwd_hooks=[("blocks.0.attn.hook_patern", keep)])


def test_many_runs_of_the_same_tokens_have_the_bits_of_one(model):
    """From the second hooked run on, the layers before the hook are not computed again."""
    ids = model.to_tokens([TEXT, TEXT.replace("Mary", "Lucy")])
    results = [array(model.run_with_hooks(ids, fwd_hooks=[(get_act_name("mlp_out", 4), lambda x, hook: x * 0.5)])) for _ in range(3)]
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])


def test_a_run_in_which_functions_change_nothing_is_the_unchanged_one(model):
    """From the second hooked run on, it ends where nothing can change any more. The result is the user's own."""
    ids = model.to_tokens([TEXT, TEXT.replace("Mary", "Lucy")])
    plain = array(model(ids))
    seen = []

    def look(x, hook):
        seen.append(hook.name)
        return x * 1

    def write(x, hook):
        x[:, 0] = x[:, 0]

    hooks = [(get_act_name("pattern", 0), look), (get_act_name("resid_mid", 1), look), (get_act_name("mlp_out", 4), write)]
    for turn in range(4):
        found = array(model.run_with_hooks(ids, fwd_hooks=hooks))
        np.testing.assert_array_equal(found, plain)
        found[:] = 0
        assert seen == ["blocks.0.attn.hook_pattern", "blocks.1.hook_resid_mid"] * (turn + 1)
    # One place that changes is enough, before others that do not, or after them.
    for changed in ("blocks.0.attn.hook_z", "blocks.5.hook_mlp_out"):
        halved = array(model.run_with_hooks(ids, fwd_hooks=[*hooks, (changed, lambda x, hook: x * 0.5)]))
        assert np.abs(halved - plain).max() > 0.1
        model._known.key = None  # a run that computes everything
        np.testing.assert_array_equal(halved, array(model.run_with_hooks(ids, fwd_hooks=[*hooks, (changed, lambda x, hook: x * 0.5)])))
        model.run_with_hooks(ids, fwd_hooks=hooks)
    _, cache = model.run_with_cache(ids, fwd_hooks=hooks)
    assert len(cache) > 100 and model.run_with_hooks(ids, fwd_hooks=hooks, return_type=None) is None


def test_flags_keep_places_that_a_model_has_on_request(model):
    for flag, places in (("attn_result", ("result",)), ("split_qkv_input", ("q_input", "k_input", "v_input")), ("hook_mlp_in", ("mlp_in",))):
        for on in (True, False):
            getattr(model, f"set_use_{flag}")(on)
            _, cache = model.run_with_cache("Mary and")
            assert all((f"blocks.2{'' if place == 'mlp_in' else '.attn'}.hook_{place}" in list(cache)) == on for place in places)
            assert not on or all(array(cache[place, 2]).shape[:2] == (1, 4) for place in places)
        called = []
        model.run_with_hooks("Mary and", fwd_hooks=[(get_act_name(place, 2), lambda x, hook: called.append(hook.name)) for place in places])
        assert len(called) == len(places)


def test_tokens_and_runs(model):
    ids = array(model.to_tokens([TEXT, "Mary and"]))
    assert ids.shape == (2, 15) and (ids[1, 4:] == model.tokenizer.pad_token_id).all()
    assert array(model.to_tokens(TEXT, prepend_bos=False)).shape == (1, 14)
    assert model.to_str_tokens("Mary and") == ["<|endoftext|>", "M", "ary", " and"]
    assert model.to_string(array(model.to_tokens(TEXT))[0, 1:]) == TEXT and model.to_string(ids)[0].endswith(TEXT)
    assert model.to_str_tokens(np.array([model.to_single_token(" Mary")])) == [" Mary"] == [model.to_single_str_token(model.to_single_token(" Mary"))]
    assert model.get_token_position(" John", TEXT) == 4 and model.get_token_position(" John", TEXT, mode="last") == 10
    with pytest.raises(ValueError, match="no single token"):
        model.to_single_token(" Mary and")
    logits, loss = model(TEXT, return_type="both")
    each = array(model(TEXT, return_type="loss", loss_per_token=True))
    assert array(logits).shape == (1, 15, 4096) and each.shape == (1, 14) and abs(each.mean() - float(loss)) < 1e-5
    _, cache = model.run_with_cache(TEXT, return_type=None)
    near(model(TEXT, stop_at_layer=2), array(cache["resid_pre", 2]))
    near(model(TEXT, stop_at_layer=-1), array(cache["resid_pre", 5]))
    _, short = model.run_with_cache(TEXT, stop_at_layer=1, names_filter=lambda name: name.endswith("pattern"))
    assert list(short) == ["blocks.0.attn.hook_pattern"]
    near(short["pattern", 0], array(cache["pattern", 0]))
    _, one = model.run_with_cache(TEXT, remove_batch_dim=True, names_filter=["blocks.1.attn.hook_z", "blocks.5.hook_resid_post"])
    assert len(one) == 2 and array(one["resid_post", -1]).shape == (15, 192)
    assert model.generate(TEXT, max_new_tokens=1, do_sample=False) == TEXT + " Mary"
    assert array(model.generate(model.to_tokens(TEXT), max_new_tokens=2)).shape[1] <= 17


def test_products_of_matrices():
    rng = np.random.default_rng(0)
    a, b, c = rng.standard_normal((2, 7, 3)), rng.standard_normal((2, 3, 5)), rng.standard_normal((5, 4))
    ab = FactoredMatrix(a, b)
    assert ab.shape == (2, 7, 5) and array(ab[1].AB).shape == (7, 5)
    near(ab[1, 2:4].AB, (a @ b)[1, 2:4])
    near((ab @ c).AB, a @ b @ c)
    near(ab.T.AB, (a @ b).swapaxes(1, 2))
    u, s, vh = map(array, ab.svd())
    near(u * s[:, None] @ vh, a @ b)
    near(ab.norm(), np.linalg.norm(a @ b, axis=(1, 2)))
    square = FactoredMatrix(a, rng.standard_normal((2, 3, 7)))
    expected = np.sort(np.abs(np.linalg.eigvals(array(square.AB))))[:, -3:]
    near(np.sort(np.abs(array(square.eigenvalues))), expected)
