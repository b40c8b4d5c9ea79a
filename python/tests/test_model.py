"""`regard.Model`: its numbers, compared with NumPy and with its own, its changes, hooks, sweeps and studies, and its errors."""

import concurrent.futures
import doctest
import json
import multiprocessing
import os
import pickle
import shutil
import signal
import subprocess
import sys
import threading
import time
import warnings
import wave
from pathlib import Path

import numpy as np
import pytest
import regard

TEXT = "Mary and John went to the store. John gave the drink to"
OTHER = "Mary and John went to the store. Mary gave the drink to"
GOLDEN = Path(os.environ.get("GOLDEN", Path(__file__).parents[2] / "tests" / "golden" / "models"))


@pytest.fixture(scope="module")
def model():
    return regard.Model("story")


def near(found, expected, tolerance=1e-4):
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * max(1, np.abs(expected).max()))


def test_sizes_and_tokens(model):
    cfg = model.cfg
    assert (cfg.n_layers, cfg.n_heads, cfg.d_model, cfg.n_ctx) == (4, 4, 64, 96)
    ids = model.to_tokens(TEXT)
    assert ids.dtype == np.int64 and model.to_str_tokens(TEXT)[1] == "Mary"
    assert model.to_string(ids[1:]) == TEXT
    np.testing.assert_array_equal(model(ids), model(TEXT))
    assert model(TEXT).shape == (len(ids), cfg.d_vocab)
    assert cfg.d_vocab_out == cfg.d_vocab and "story" in repr(model) and "n_heads" in model._repr_html_()
    with pytest.warns(UserWarning, match="does not know 'Zeppelin'"):
        model("Mary gave Zeppelin")


def test_a_layer_follows_from_the_weights(model):
    """Attention and feed-forward layer of qwen2 in float64, from the model's weights and the stream that enters."""
    names = ["blocks.1.*", "blocks.1.attn.hook_result", "blocks.1.hook_mlp_in"]
    _, cache = model.run_with_cache(TEXT, names)
    cfg, x = model.cfg, cache["resid_pre", 1].astype(np.float64)
    scale = np.sqrt((x**2).mean(-1, keepdims=True) + cfg.eps)
    near(cache["scale", 1, "ln1"], scale)
    near(cache["normalized", 1, "ln1"], x / scale)
    normed = cache["blocks.1.ln1.hook_out"].astype(np.float64)
    for name, weight, bias in (("q", model.W_Q, model.b_Q), ("k", model.W_K, model.b_K), ("v", model.W_V, model.b_V)):
        near(cache[name, 1], np.einsum("td,hde->the", normed, weight[1]) + bias[1])
    q, k = (cache[f"rot_{name}", 1].astype(np.float64) for name in "qk")
    k, v = (np.repeat(x, cfg.n_heads // cfg.n_key_value_heads, 1) for x in (k, cache["v", 1].astype(np.float64)))
    scores = np.einsum("qhe,khe->hqk", q, k) / np.sqrt(cfg.d_head)
    scores[:, ~np.tri(len(x), dtype=bool)] = -np.inf
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    near(cache["pattern", 1], weights)
    near(cache["z", 1], np.einsum("hqk,khe->qhe", weights, v))
    result = np.einsum("the,hed->thd", cache["z", 1], model.W_O[1])
    near(cache["result", 1], result)
    near(cache["attn_out", 1], result.sum(1))
    gate = cache["blocks.1.ln2.hook_out"] @ model.W_gate[1]
    near(cache["post", 1], gate / (1 + np.exp(-gate)) * (cache["blocks.1.ln2.hook_out"] @ model.W_in[1]))
    near(cache["mlp_out", 1], cache["post", 1] @ model.W_out[1])
    last = model.run_with_cache(TEXT, "ln_final.hook_out")[1]["ln_final.hook_out"]
    near(model(TEXT), last @ model.W_U)
    assert model.W_Q.shape == np.stack(model.W_Q).shape == (4, 4, 64, cfg.d_head)
    np.testing.assert_array_equal(model.W_Q[1, 2], model.W_Q[1][2])
    np.testing.assert_array_equal(model.W_Q[1:, -1], np.stack(model.W_Q)[1:, -1])
    assert model.W_E.shape == (cfg.d_vocab, 64)


def test_a_cache(model, tmp_path):
    logits, cache = model.run_with_cache(TEXT)
    assert "blocks.0.attn.hook_result" not in cache and ("pattern", 2) in cache and ("nothing", 2) not in cache
    assert cache.stack_activation("pattern").shape == (4, 4, len(cache.tokens), len(cache.tokens))
    assert cache["pattern", 2] is cache["blocks.2.attn.hook_pattern"]
    assert np.shares_memory(cache["z", 0], cache["z", 0]) and cache["z", 0].flags.owndata is False
    cache.save(tmp_path / "cache.safetensors")
    opened = regard.Cache.open(tmp_path / "cache.safetensors")
    assert opened.tokens == cache.tokens and list(opened) == list(cache)
    for name, array in cache.items():
        np.testing.assert_array_equal(opened[name], array)
    assert list(tmp_path.iterdir()) == [tmp_path / "cache.safetensors"]
    assert f"{len(cache)} places" in repr(cache) and "hook_pattern" in cache._repr_html_()
    assert cache.decoder_tokens == opened.decoder_tokens == []
    some = model.run_with_cache(TEXT, lambda name: name.endswith("hook_z"))[1]
    assert len(some) == 4
    np.testing.assert_array_equal(model(TEXT), logits)


@pytest.mark.parametrize("place", ["blocks.1.attn.hook_z", "blocks.2.hook_resid_pre", "blocks.1.ln2.hook_normalized"])
def test_a_hook_writes_or_returns(model, place):
    def write(array, hook):
        assert hook.name == place and hook.layer() == int(place.split(".")[1])
        array[3] = 0

    def another(array, hook):
        array = array.copy()
        array[3] = 0
        return array.astype(np.float64)

    written = model.run_with_hooks(TEXT, [(place, write)])
    np.testing.assert_array_equal(written, model.run_with_hooks(TEXT, [(place, another)]))
    assert (written != model(TEXT)).any()
    near(written[:3], model(TEXT)[:3])  # the norm's numbers go another way, with other roundings


def test_hooks_are_the_changes(model):
    def zero_head(z, hook):
        z[:, 2] = 0

    def mean_head(z, hook):
        z[:, 2] = z[:, 2].mean(0)

    def other_row(x, hook):
        x[8] = theirs["resid_pre", 2][8]

    vector = np.sin(np.arange(64)).astype(np.float32)

    def add(x, hook):
        x[-1] += vector

    def hot(scores, hook):
        scores[1] /= 2

    def cut(scores, hook):
        scores[3, 5, 2] = -np.inf

    _, theirs = model.run_with_cache(OTHER)
    for change, name, hook in [
        (regard.Ablate("1.2"), "blocks.1.attn.hook_z", zero_head),
        (regard.Ablate((1, 2), "mean"), "blocks.1.attn.hook_z", mean_head),
        (regard.Patch("blocks.2.hook_resid_pre", 8, OTHER), "blocks.2.hook_resid_pre", other_row),
        (regard.Add("blocks.2.hook_resid_pre", vector, position=-1), "blocks.2.hook_resid_pre", add),
        (regard.Temperature("2.1", 2), "blocks.2.attn.hook_attn_scores", hot),
        (regard.Cut("0.3", 5, 2), "blocks.0.attn.hook_attn_scores", cut),
    ]:
        near(model.run(TEXT, changes=[change]), model.run_with_hooks(TEXT, [(name, hook)]))
        assert pickle.loads(pickle.dumps(change)).__class__ is change.__class__
    of = model.run(TEXT, changes=[regard.Ablate("1.2", of=OTHER)])
    mean = theirs["z", 1][:, 2].mean(0)
    near(of, model.run_with_hooks(TEXT, [("blocks.1.attn.hook_z", lambda z, hook: z.__setitem__((slice(None), 2), mean))]))


def test_a_path_is_the_difference_of_a_head(model):
    _, ours = model.run_with_cache(TEXT)
    _, theirs = model.run_with_cache(OTHER)
    added = (theirs["z", 0][:, 1] - ours["z", 0][:, 1]) @ model.W_O[0][1]

    def read(x, hook):
        x[:, 3] += added

    change = regard.Path("0.1", "blocks.2.attn.hook_q_input", OTHER, to=3)
    found = model.run(TEXT, changes=[change])
    near(found, model.run_with_hooks(TEXT, [("blocks.2.attn.hook_q_input", read)]))
    assert (found != model(TEXT)).any()
    sweep = model.sweep(TEXT, path="0.1", source=OTHER, logit=("Mary", "John"))
    assert np.isnan(sweep.effect[0]).all() and not np.isnan(sweep.effect[1:]).any()
    mary, john = (model.to_single_token(name) for name in ("Mary", "John"))
    near(sweep.values[2, 3], found[-1][mary] - found[-1][john])


def test_batches(model):
    texts = [TEXT, OTHER, "Mia gave Tom the"]
    logits = model(texts[:2])
    near(logits, np.stack([model(text) for text in texts[:2]]))
    changes = [regard.Ablate("0.2"), regard.Temperature("1.0", 0.5)]
    logits, cache = model.run_with_cache(texts[:2], "*hook_pattern", changes=changes)
    assert logits.shape[0] == 2 and cache["pattern", 0].shape[0] == 2 and len(cache.tokens) == 2
    for i, text in enumerate(texts[:2]):
        alone, one = model.run_with_cache(text, "*hook_pattern", changes=changes)
        near(logits[i], alone)
        near(cache["pattern", 3][i], one["pattern", 3])
    logits, caches = model.run_with_cache(texts, "*hook_z")
    assert [len(x) for x in logits] == [len(model.to_tokens(text)) for text in texts]
    near(logits[2], model(texts[2]))
    near(caches[2]["z", 1], model.run_with_cache(texts[2], "*hook_z")[1]["z", 1])
    shapes = []
    one = model.run_with_hooks([TEXT], [("blocks.0.attn.hook_z", lambda z, hook: shapes.append(z.shape))])
    model.run_with_hooks(texts[:2], [("blocks.0.attn.hook_z", lambda z, hook: shapes.append(z.shape))])
    assert one.shape[0] == 1 and [shape[0] for shape in shapes] == [1, 2]


def test_sweeps(model):
    mary, john = (model.to_single_token(name) for name in ("Mary", "John"))

    def difference(logits):
        return logits[-1][mary] - logits[-1][john]

    sweep = model.sweep(TEXT, ablate="each-head", logit=("Mary", "John"))
    assert sweep.effect.shape == sweep.shape == (4, 4)
    for layer, head in [(0, 2), (3, 3)]:
        alone = model.run(TEXT, changes=[regard.Ablate((layer, head))])
        near(sweep.values[layer, head], difference(alone))
    near(sweep.unchanged, difference(model(TEXT)))
    near(model.sweep(TEXT, ablate="each-head", logit=difference).values, sweep.values)
    mean = model.sweep(TEXT, ablate="each-head", to="mean", logit="Mary")
    near(mean.values[1, 2], model.run(TEXT, changes=[regard.Ablate("1.2", "mean")])[-1][mary])
    heads = model.sweep(TEXT, patch="each-head", source=OTHER, logit=("Mary", "John"))
    near(heads.values[0, 1], difference(model.run(TEXT, changes=[regard.PatchHead("0.1", OTHER)])))
    places = model.sweep(TEXT, patch="each-place", source=OTHER, logit=("Mary", "John"))
    assert places.effect.shape == (4, len(model.to_tokens(TEXT))) and places.columns[1] == "1 Mary"
    at = regard.Patch("blocks.2.hook_resid_pre", 9, OTHER)
    near(places.values[2, 9], difference(model.run(TEXT, changes=[at])))
    first = model.sweep(TEXT, ablate="each-head", logit="Mary", position=3)
    near(first.unchanged, model(TEXT)[3][mary])
    parts = model.sweep(TEXT, attribute="each-head", logit=("Mary", "John"))
    assert abs(parts.parts["logit"] - difference(model(TEXT))) < 1e-3
    assert np.asarray(parts).shape == (4, 4)
    assert "largest effects" in repr(sweep) and "title='layer 0, head 0: " in sweep._repr_html_()
    for page in (sweep._repr_html_(), parts._repr_html_()):
        assert "http" not in page and "<script" not in page


def test_lens_score_and_generate(model):
    lens = model.lens(TEXT)
    assert lens.shape == (5, len(model.to_tokens(TEXT)), model.cfg.d_vocab)
    near(lens[-1], model(TEXT))
    near(model.lens(TEXT, position=-1), lens[:, -1])
    score = model.score(TEXT, head=(2, 1), query=-1, key=1)
    pattern = model.run_with_cache(TEXT, "blocks.2.attn.hook_pattern")[1]["pattern", 2]
    assert np.float32(score.weight.value) == pattern[1, -1, 1]
    assert model.generate(TEXT, 1) == f"{TEXT} {model.to_string([model(TEXT)[-1].argmax()])}"
    ids = model.generate(model.to_tokens(TEXT), 5, temperature=1.0, seed=3)
    np.testing.assert_array_equal(ids, model.generate(model.to_tokens(TEXT), 5, temperature=1.0, seed=3))
    without = model.generate(TEXT, 1, changes=[regard.Ablate("0.2"), regard.Ablate("3.3")])
    assert without.startswith(TEXT)


@pytest.mark.parametrize(
    ("problem", "expected"),
    [
        ("multi_label_classification", [0.880797029, 0.484380037, 0.362969220]),
        ("single_label_classification", [0.830394089, 0.105572768, 0.064033121]),
        ("regression", None),
    ],
)
def test_probabilities_are_those_of_a_pipeline(tmp_path, problem, expected):
    if not GOLDEN.exists():
        pytest.skip(f"NOT CHECKED: {GOLDEN} is not there")
    folder = shutil.copytree(GOLDEN / "tiny-vit", tmp_path / "vit")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"problem_type": problem}))
    model, logits = regard.Model(folder), np.array([[2.0, -0.0625, -0.5625]] * 2)
    if expected is None:
        with pytest.raises(ValueError, match="the model is a regression"):
            model.probabilities(logits)
        return
    # transformers computes in float32.
    np.testing.assert_allclose(model.probabilities(logits), [expected] * 2, rtol=2**-22)


@pytest.mark.parametrize(
    "name",
    # Decoders, encoders, models of two stacks and of images, recent ones; a mixture and a base model among them.
    ["tiny-gptj", "tiny-bloom", "tiny-mixtral", "tiny-deberta-v2", "tiny-electra", "tiny-bart", "tiny-mt5", "tiny-dinov2_with_registers"]
    + ["tiny-clip_vision_model", "tiny-siglip_text_model", "tiny-cohere2", "tiny-ministral3"],
)
def test_a_family_of_each_kind_gives_the_numbers_of_transformers(name):
    model, expected = _golden(name), regard.Cache.open(GOLDEN / name / "expected.safetensors")
    given = expected["pixel_values" if "pixel_values" in expected else "input_ids"]
    decoder = {"decoder": expected["decoder_input_ids"]} if "decoder_input_ids" in expected else {}
    logits, cache = model.run_with_cache(given, **decoder)
    near(logits, expected["logits" if "logits" in expected else "pooler_output"])
    if name == "tiny-mixtral":  # the weights of the experts that a token takes are shares
        weights, taken = (cache[f"blocks.0.mlp.hook_expert_{part}"] for part in ("weights", "indices"))
        near(np.take_along_axis(weights, taken.astype(int), -1).sum(-1), np.ones(len(given)))
    if decoder:
        crossing = np.stack([cache[f"decoder.{layer}.cross_attn.hook_pattern"] for layer in range(model.cfg.n_layers)])
        near(crossing, expected["cross_attentions"])


@pytest.mark.parametrize("name", ["tiny-bert", "tiny-t5", "tiny-vit", "tiny-whisper", "tiny-gpt2", "gguf/tiny-llama256.Q4_K.gguf"])
def test_other_families(name):
    path = GOLDEN / name
    if not GOLDEN.exists():
        pytest.skip(f"NOT CHECKED: {GOLDEN} is not there")
    model = regard.Model(path)
    if name == "tiny-vit":
        image = np.sin(np.arange(3 * 12 * 12, dtype=np.float32)).reshape(3, 12, 12)
        logits, cache = model.run_with_cache(image, "*hook_pattern")
        assert logits.shape == (model.cfg.d_vocab_out,) and cache.tokens[:2] == ["[CLS]", "patch 0,0"]
        assert model.sweep(image, ablate="each-head", logit=1).effect.shape == (model.cfg.n_layers, model.cfg.n_heads)
        with pytest.raises(ValueError, match=r"\[3, 12, 12\], not \[3, 4, 4\]"):
            model(np.zeros((3, 4, 4), np.float32))
        powers = np.exp(logits.astype(np.float64) - logits.max())
        np.testing.assert_allclose(model.probabilities(logits), powers / powers.sum(), rtol=1e-12)
        return
    if name == "tiny-whisper":
        expected = regard.Cache.open(path / "expected.safetensors")
        decoder = {"decoder": expected["decoder_input_ids"]}
        with wave.open(str(path / "sound.wav")) as file:
            samples = np.frombuffer(file.readframes(file.getnframes()), "<i2") / np.float32(32768)
        for sound in (expected["input_features"], path / "sound.wav", samples):
            logits, cache = model.run_with_cache(sound, "*hook_pattern", **decoder)
            near(logits, expected["logits"])
        assert cache.tokens[24] == "0.96 s"
        assert regard.trace(model, sound, **decoder)["cross_attentions"].shape == (3, 3, 12, 25)
        rows = model.cfg.n_encoder_layers + 2 * model.cfg.n_layers
        assert model.sweep(sound, ablate="each-head", logit=(7, 9), **decoder).effect.shape[0] == rows
        patched = model.run(sound, changes=[regard.PatchHead("encoder.1.2", np.zeros_like(expected["input_features"]))])
        assert np.isfinite(patched).all()
        with pytest.raises(ValueError, match="has 8000 samples a second"):
            model(samples, rate=8000)
        with pytest.raises(ValueError, match=r"\[12, 50\], not \[12, 4\]"):
            model(np.zeros((12, 4), np.float32))
        return
    ids = list(range(3, 12))
    decoder = {"decoder": [0, 7, 5]} if name == "tiny-t5" else {}
    logits, cache = model.run_with_cache(ids, **decoder)
    assert logits.shape == (3 if decoder else 9, model.cfg.d_vocab) and np.isfinite(logits).all()
    sweep = model.sweep(ids, ablate="each-head", logit=(7, 9), position=2, **decoder)
    rows = model.cfg.n_encoder_layers + 2 * model.cfg.n_layers if decoder else model.cfg.n_layers
    assert sweep.effect.shape == (rows, model.cfg.n_heads)
    assert model.lens(ids, **decoder).shape[0] == model.cfg.n_layers + 1
    if decoder:
        alone = model.run(ids, changes=[regard.Ablate("cross.1.2")], **decoder)
        near(sweep.values[-model.cfg.n_layers + 1, 2], alone[2, 7] - alone[2, 9])


def _golden(name):
    if not GOLDEN.exists():
        pytest.skip(f"NOT CHECKED: {GOLDEN} is not there")
    return regard.Model(GOLDEN / name)


@pytest.mark.parametrize(
    ("name", "head", "text", "other", "reading"),
    [
        ("tiny-t5", "decoder.0.1", "the quick fox", "the lazy dog", {"decoder": "a dog"}),
        ("tiny-t5", "cross.1.2", "the quick fox", "the lazy dog", {"decoder": "a dog"}),
        ("tiny-t5", "encoder.0.1", "the quick fox", "the lazy dog", {"decoder": [0, 7, 5]}),
        ("tiny-bert", "1.2", "the fox", "the dog", {"pair": "a lazy dog"}),
        ("chat", "1.2", "Mia", "Tom", {"chat": True}),
    ],
)
def test_the_source_of_a_change_is_read_as_the_text(name, head, text, other, reading, tmp_path):
    """Means and patches of a head come from a run with the pair, the chat template, the decoder's text and the token types."""
    if name == "chat":
        folder = GOLDEN.parents[2] / "models" / "story"
        if not folder.exists():
            pytest.skip(f"NOT CHECKED: {folder} is not there")
        for file in ("config.json", "tokenizer.json", "model.safetensors"):
            (tmp_path / file).write_bytes((folder / file).read_bytes())
        template = "{% for m in messages %}Mary saw {{ m.content }} .{% endfor %}"
        (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": template}))
        model = regard.Model(tmp_path)
        assert model.run_with_cache(text, "*hook_z", **reading)[1].tokens == ["Mary", "saw", "Mia", "."]
    else:
        model = _golden(name)
    *layer, index = head.split(".")
    place = {"encoder": "encoder.{}.attn", "decoder": "decoder.{}.attn", "cross": "decoder.{}.cross_attn"}
    place = place[layer[0]].format(layer[1]) + ".hook_z" if len(layer) == 2 else f"blocks.{layer[0]}.attn.hook_z"
    theirs = model.run_with_cache(other, place, **reading)[1][place][:, int(index)]

    def mean(z, hook):
        z[:, int(index)] = theirs.mean(0)

    def all_positions(z, hook):
        z[:, int(index)] = theirs

    found = model.run(text, changes=[regard.Ablate(head, "mean", other)], **reading)
    near(found, model.run_with_hooks(text, [(place, mean)], **reading), 1e-5)
    assert np.abs(found - model.run(text, **reading)).max() > 1e-4
    patched = model.run(text, changes=[regard.PatchHead(head, other)], **reading)
    near(patched, model.run_with_hooks(text, [(place, all_positions)], **reading), 1e-5)
    if "pair" in reading:  # the ids of both texts, with the types of the tokens that they replace
        ids = model.to_tokens(other, **reading)
        np.testing.assert_array_equal(model.run(text, changes=[regard.PatchHead(head, ids)], **reading), patched)


def test_positions_are_those_of_the_stack():
    """The encoder of this input has 2 tokens and the decoder 8: positions of either are counted by its own."""
    model = _golden("tiny-t5")
    given, decoder = [5, 6], {"decoder": [0, 7, 5, 9, 11, 4, 8, 3]}
    _, before = model.run_with_cache(given, **decoder)

    def changed(place, change, axis):
        _, after = model.run_with_cache(given, place, changes=[change], **decoder)
        moved = np.abs(after[place] - before[place])
        return np.unique(np.nonzero(moved > 1e-7)[axis]).tolist()

    weights = "decoder.0.attn.hook_pattern"
    assert changed(weights, regard.Cut("decoder.0.0", -1, 0), 1) == [7]
    assert changed(weights, regard.Cut("decoder.0.0", 6, -3), 1) == [6]
    assert changed("decoder.0.cross_attn.hook_pattern", regard.Cut("cross.0.0", -1, -1), 1) == [7]
    vector = np.ones(model.cfg.d_model)
    for at in (7, -1, np.int64(7)):
        assert changed("decoder.1.hook_resid_pre", regard.Add("decoder.1.hook_resid_pre", vector, at), 0) == [7]
    assert changed("encoder.1.hook_resid_pre", regard.Add("encoder.1.hook_resid_pre", vector, -1), 0) == [1]
    keys = "decoder.0.cross_attn.hook_k"
    assert changed(keys, regard.Patch(keys, -1, [9, 9]), 0) == [1]
    assert changed("decoder.0.attn.hook_z", regard.PatchHead("decoder.0.1", [9, 9], -1), 0) == []  # it does not see the encoder
    assert changed("decoder.1.attn.hook_z", regard.PatchHead("decoder.1.1", [9, 9], -1), 0) == [7]
    with pytest.raises(ValueError, match="no position 2: the text has 2 tokens"):
        model.run(given, changes=[regard.Cut("cross.0.0", 0, 2)], **decoder)
    with pytest.raises(TypeError):
        model.run(given, changes=[regard.Cut("cross.0.0", 0.5, 1)], **decoder)


def test_a_cache_of_both_stacks_names_the_tokens_of_each(tmp_path):
    model = _golden("tiny-t5")
    given, decoder = [5, 6], {"decoder": [0, 7, 5]}
    _, cache = model.run_with_cache(given, "*hook_pattern", **decoder)
    assert [len(cache.tokens), len(cache.decoder_tokens)] == [2, 3]
    path = tmp_path / "cache.safetensors"
    cache.save(path)
    assert regard.Cache.open(path).decoder_tokens == cache.decoder_tokens
    with path.open("rb") as file:
        told = json.loads(file.read(int.from_bytes(file.read(8), "little")))["__metadata__"]
    sides = {name: len(json.loads(tokens)) for name, tokens in told.items()}
    assert sides == {
        "tokens": 2,
        "decoder_tokens": 3,
        "decoder.*.attn.hook_pattern.tokens": 3,
        "decoder.*.cross_attn.hook_pattern.query_tokens": 3,
    }
    _, several = model.run_with_cache([given, [7, 8]], "*hook_pattern", **decoder)
    assert several.decoder_tokens == [cache.decoder_tokens] * 2


def test_a_logit_is_a_token_a_pair_or_a_function(model):
    for wrong in [{"Mary"}, ("Mary", "John", "box"), 1.5]:
        with pytest.raises(TypeError, match="logit is a token, a pair of tokens or a function, not"):
            model.sweep(TEXT, ablate="each-head", logit=wrong, progress=False)


def test_places_of_both_stacks_are_patched():
    model = _golden("tiny-t5")
    given, other, decoder = [5, 6, 7], [9, 6, 7], {"decoder": [0, 3]}
    sweep = model.sweep(given, patch="each-place", source=other, logit=7, **decoder)
    layers = model.cfg.n_encoder_layers
    assert sweep.shape == (layers + model.cfg.n_layers, 3) and sweep.rows[layers] == "decoder 0"
    assert np.isnan(sweep.effect[layers:, 2]).all() and not np.isnan(sweep.effect[:, :2]).any()
    for row, column, place in [(1, 0, "encoder.1.hook_resid_pre"), (layers + 1, 1, "decoder.1.hook_resid_pre")]:
        alone = model.run(given, changes=[regard.Patch(place, column, other)], **decoder)
        near(sweep.values[row, column], alone[-1, 7])


def test_a_lens_of_several_texts(model):
    a, b, short = "Mia gave Tom the", "Tom gave Mia the", "Mia gave"
    both = model.lens([a, b])
    assert both.shape == (5, 2, 5, model.cfg.d_vocab)
    near(both[:, 1], model.lens(b))
    near(model.lens([a, b], position=-1), both[:, :, -1])
    near(model.lens([a], position=0), both[:, :1, 0])
    ragged = model.lens([a, short])
    assert [len(x[0]) for x in ragged] == [5, 3]
    at_the_end = model.lens([a, short], position=-1)
    near(at_the_end[:, 1], model.lens(short, position=-1))
    with pytest.raises(ValueError, match="no position 9"):
        model.lens(a, position=9)


def test_a_hook_sees_one_number_of_axes(model):
    """Also where a length occurs once among texts of several lengths."""
    texts = ["Mia gave Tom the", "Tom gave Mia the", "Mia and Tom went to the"]
    shapes = []

    def quiet(pattern, hook):
        shapes.append(pattern.shape)
        pattern[:, 1] = 0

    hooks = [("blocks.2.attn.hook_pattern", quiet)]
    together = model.run_with_hooks(texts, hooks)
    assert shapes == [(2, 4, 5, 5), (1, 4, 7, 7)]
    for text, logits in zip(texts, together):
        near(logits, model.run_with_hooks([text], hooks)[0])


def test_an_array_that_a_hook_changes_in_place(model):
    def bits(array, hook):
        array.dtype = np.uint8

    def integers(array, hook):
        array.dtype = np.int32

    def flat(array, hook):
        array.shape = (-1,)

    for hook, says in ((bits, "one of uint8"), (integers, "one of int32"), (flat, "gives its array the shape")):
        with warnings.catch_warnings(), pytest.raises(ValueError, match=says):
            warnings.simplefilter("ignore", DeprecationWarning)
            model.run_with_hooks([TEXT] * 3, [("blocks.0.attn.hook_pattern", hook)])


def _ran(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done
    return done.stdout


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="NOT CHECKED: limits of Linux")
def test_a_run_larger_than_memory_is_refused():
    """With its number, and the interpreter continues."""
    said = _ran("""
import resource, numpy as np, regard
model = regard.Model("story")
resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
many = [np.arange(90) % 200 + 3] * 4000
for call in (lambda: model.run_with_cache(many), lambda: model.generate(many[0], 10**9)):
    try:
        call()
    except (MemoryError, ValueError) as error:
        print(type(error).__name__, error)
print(model([1, 5, 8]).shape)
""")
    first, second, shape = said.splitlines()
    assert first.startswith("MemoryError the run takes ") and first.endswith(" GB of memory left"), first
    assert second.startswith("MemoryError the run takes "), second
    assert shape == "(3, 278)"


@pytest.mark.skipif(sys.platform == "win32", reason="NOT CHECKED: signals of POSIX")
def test_a_signal_in_the_first_run_of_a_process():
    """The signal comes while the model computes, and is pending when the first array is made."""
    said = _ran("""
import os, signal, threading, regard
signal.signal(signal.SIGINT, signal.default_int_handler)
model = regard.Model("story")
begun = threading.Event()
thread = threading.Thread(target=lambda: (begun.wait(), os.kill(os.getpid(), signal.SIGINT)))
thread.start()
try:
    begun.set()
    model.run([[1, 5, 8] * 30] * 400)
    thread.join()
except BaseException as error:
    print(type(error).__name__)
""")
    assert said == "KeyboardInterrupt\n"


def test_errors_are_pythons(model):
    cases = [
        (KeyError, "near it: blocks.0.attn.hook_pattern", lambda: model.run_with_cache(TEXT, "blocks.0.attn.hook_patern")),
        (KeyError, "near it: blocks.0.attn.hook_z", lambda: model.run_with_hooks(TEXT, [("blocks.0.attn.hook_y", print)])),
        (KeyError, "no head '9.9'", lambda: model.run(TEXT, changes=[regard.Ablate("9.9")])),
        (KeyError, "the cache has no place", lambda: model.run_with_cache(TEXT, "*hook_z")[1]["pattern", 0]),
        (ValueError, "no position 99: the text has 14 tokens", lambda: model.run(TEXT, changes=[regard.Cut("0.0", 99, 0)])),
        (ValueError, "does not see key", lambda: model.run(TEXT, changes=[regard.Cut("0.0", 1, 5)])),
        (ValueError, r"3 numbers .* 14 positions of 64", lambda: model.run(TEXT, changes=[regard.Add("blocks.0.hook_resid_pre", [1, 2, 3])])),
        (ValueError, r"shape \[14, 3\], but the place has \[14, 4, 16\]",
         lambda: model.run_with_hooks(TEXT, [("blocks.0.attn.hook_z", lambda z, hook: z[:, :3, 0])])),
        (ValueError, "as many tokens", lambda: model.run(TEXT, changes=[regard.PatchHead("0.0", "Mia gave")])),
        (ValueError, 'the model does not know "Zeppelin"', lambda: model.sweep(TEXT, ablate="each-head", logit="Zeppelin")),
        (ValueError, "a sweep does one of", lambda: model.sweep(TEXT, logit="Mary")),
        (ValueError, "run of another text", lambda: model.sweep(TEXT, patch="each-head", logit="Mary")),
        (ValueError, "the token 9999 is not one of the vocabulary's 278", lambda: model([1, 9999])),
        (ValueError, "the token 278 is not one of the vocabulary's 278", lambda: model.sweep(TEXT, ablate="each-head", logit=278)),
        (ValueError, "the temperature of head 0.0 is -1.0", lambda: model.run(TEXT, changes=[regard.Temperature("0.0", -1)])),
        (TypeError, "no option 'txet'", lambda: model.run(TEXT, txet="x")),
        (FileNotFoundError, "download=True fetches it", lambda: regard.Model("no-such/model")),
        (AttributeError, "'W_X'", lambda: model.W_X),
        (ZeroDivisionError, "division", lambda: model.run_with_hooks(TEXT, [("blocks.0.attn.hook_z", lambda z, hook: 1 / 0)])),
    ]
    for kind, says, call in cases:
        with warnings.catch_warnings(), pytest.raises(kind, match=says) as raised:
            warnings.simplefilter("ignore")
            call()
        assert " --" not in str(raised.value), raised.value


def test_the_lock_is_free_while_kernels_run(model):
    """Another thread of Python continues while this one computes."""
    counted, stop = [0], threading.Event()

    def count():
        while not stop.is_set():
            counted[0] += 1
            time.sleep(0)

    thread = threading.Thread(target=count)
    thread.start()
    try:
        before = counted[0]
        model.sweep([1, *range(3, 120)], ablate="each-head", logit=5)
        assert counted[0] > before
    finally:
        stop.set()
        thread.join()


@pytest.mark.skipif(sys.platform == "win32", reason="NOT CHECKED: signals of POSIX")
def test_a_signal_ends_a_sweep_between_runs():
    code = f"""
import os, signal, regard
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background begins with the signal ignored
model = regard.Model("story")
calls = []
def interrupt(done):
    calls.append(done)
    os.kill(os.getpid(), signal.SIGINT)
import regard._model
from contextlib import contextmanager
@contextmanager
def bar(total, shown):
    yield interrupt
regard._model.bar = bar
try:
    model.sweep({TEXT!r}, ablate="each-head", logit="Mary")
except KeyboardInterrupt:
    print("ended after", len(calls), "of 4")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "ended after 1 of 4\n", done


def test_a_pickled_model_is_opened_once(model):
    again = pickle.loads(pickle.dumps(model))
    assert again is pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again(TEXT), model(TEXT))
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        (found,) = pool.map(model, [TEXT])
    np.testing.assert_array_equal(found, model(TEXT))


def _sum(model):
    return float(model(TEXT).sum())


def test_workers_of_another_folder_have_the_weights_of_now(tmp_path, monkeypatch):
    """The path of a pickled model is absolute, and files that were overwritten are read again."""
    story = GOLDEN.parents[2] / "models" / "story"
    if not story.exists():
        pytest.skip(f"NOT CHECKED: {story} is not there")
    (tmp_path / "relative").mkdir()
    for file in ("config.json", "tokenizer.json", "model.safetensors"):
        (tmp_path / "relative" / file).write_bytes((story / file).read_bytes())
    monkeypatch.chdir(tmp_path)
    old = regard.Model("relative")
    weights = bytearray((story / "model.safetensors").read_bytes())
    size = int.from_bytes(weights[:8], "little")
    header = json.loads(weights[8 : 8 + size])
    start, end = next(tensor["data_offsets"] for name, tensor in header.items() if name.endswith("layers.0.self_attn.v_proj.weight"))
    np.frombuffer(weights, np.uint8)[8 + size + start : 8 + size + end].view("<u2")[:] ^= 0x8000  # the sign of bf16
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        before = pool.submit(_sum, old).result()
        assert before == _sum(old)
        monkeypatch.chdir(tmp_path / "relative")
        assert pool.submit(_sum, old).result() == before
        (tmp_path / "new").write_bytes(weights)
        os.replace(tmp_path / "new", tmp_path / "relative" / "model.safetensors")
        new = regard.Model(tmp_path / "relative")
        assert pool.submit(_sum, new).result() == _sum(new) != before
        with pytest.raises(RuntimeError, match="files of relative have changed"):
            pickle.dumps(old)


PROMPTS = [TEXT, OTHER, TEXT.replace("store", "garden"), OTHER.replace("store", "garden")]
ANSWERS = [("Mary", "John"), ("John", "Mary")] * 2


def test_a_study(model):
    study = regard.study(model, PROMPTS, ANSWERS)
    assert study.effects.shape == (4, 4, 4)
    for i, (prompt, answer) in enumerate(zip(PROMPTS, ANSWERS)):
        np.testing.assert_array_equal(study.effects[i], model.sweep(prompt, ablate="each-head", logit=answer).effect)
    near(study.mean, study.effects.mean(0))
    near(study.sem, study.effects.std(0, ddof=1) / 2)
    with concurrent.futures.ThreadPoolExecutor(2) as executor:
        np.testing.assert_array_equal(regard.study(model, PROMPTS, ANSWERS, map=executor.map).effects, study.effects)
    paths = regard.study(model, PROMPTS[:2], ANSWERS[:2], path="0.1", sources=PROMPTS[1::-1])
    assert np.isnan(paths.effects[:, 0]).all()
    assert "±" in repr(study) and "±" in study._repr_html_()
    with pytest.raises(ValueError, match="4 prompts, but 1 answers"):
        regard.study(model, PROMPTS, ANSWERS[:1])
    pandas = pytest.importorskip("pandas", reason="NOT CHECKED with pandas, which is not installed")
    table = study.to_pandas()
    assert isinstance(table, pandas.DataFrame) and len(table) == 64
    one = table[(table.prompt == 2) & (table.row == "layer 0") & (table.column == "head 2")]
    assert one.effect.item() == study.effects[2, 0, 2]
    assert one.layer.item() == 0 and one["head"].item() == 2
    # Each prompt's rows are named by its own tokens, and positions of several tokens by their number.
    prompts = ["Mia gave Tom the", "Tom gave Mia the"]
    places = regard.study(model, prompts, ["ball", "ball"], patch="each-place", sources=prompts[::-1])
    assert places.columns == ["0 [STORY]", "1", "2 gave", "3", "4 the"]
    table = places.to_pandas()
    second = table[(table.prompt == 1) & (table.layer == 0)]
    assert second.column.tolist() == ["0 [STORY]", "1 Tom", "2 gave", "3 Mia", "4 the"]
    assert second.position.tolist() == list(range(5)) and table.layer.dtype.kind == "i"
    np.testing.assert_array_equal(second.effect, places.effects[1, 0])


def test_places_of_prompts_of_different_lengths_have_no_mean(model):
    prompts = ["Mia gave Tom the", "Mia gave Tom the ball ."]
    with pytest.raises(ValueError, match="have 5, 7 tokens"):
        regard.study(model, prompts, ["ball", "Tom"], patch="each-place", sources=prompts)


def _ends_once(folder, model, options, prompt, answer):
    """A sweep in which the first worker that gets the third prompt dies."""
    from regard._sweep import _sweep

    if prompt == PROMPTS[2]:
        try:
            os.mkdir(os.path.join(folder, "died"))
        except FileExistsError:
            pass
        else:
            os.kill(os.getpid(), signal.SIGKILL)
    return _sweep(model, options, prompt, answer)


@pytest.mark.skipif(sys.platform == "win32", reason="NOT CHECKED: signals of POSIX")
def test_a_study_on_a_cluster_survives_a_worker(model, tmp_path, monkeypatch):
    distributed = pytest.importorskip("distributed", reason="NOT CHECKED with Dask, which is not installed")
    import functools

    import regard._sweep

    alone = regard.study(model, PROMPTS, ANSWERS)
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster:
        with distributed.Client(cluster) as client:
            dying = functools.partial(_ends_once, str(tmp_path))
            monkeypatch.setattr(regard._sweep, "_sweep", dying)
            study = regard.study(model, PROMPTS, ANSWERS, map=client.map)
    assert (tmp_path / "died").is_dir()
    np.testing.assert_array_equal(study.effects, alone.effects)


def test_examples_of_the_documentation():
    import regard._cache
    import regard._changes
    import regard._model
    import regard._sweep
    import regard._trace

    modules = [regard._cache, regard._changes, regard._model, regard._sweep, regard._trace]
    results = [doctest.testmod(module) for module in modules]
    assert sum(result.attempted for result in results) > 20 and not any(result.failed for result in results)


def test_a_sweep_is_like_its_array(model):
    sweep = model.sweep(TEXT, ablate="each-head", logit=("Mary", "John"))
    other = model.sweep(OTHER, ablate="each-head", logit=("Mary", "John"))
    assert len(sweep) == 4 and sweep[0, 2] == sweep.effect[0, 2]
    np.testing.assert_array_equal(sweep - other, sweep.effect - other.effect)
    np.testing.assert_array_equal(1 - sweep, 1 - sweep.effect)
    pandas = pytest.importorskip("pandas")
    assert isinstance(table := sweep.to_pandas(), pandas.DataFrame) and table.loc["layer 0", "head 2"] == sweep[0, 2]


def test_a_study_keeps_the_prompts_that_it_can_sweep(model):
    with pytest.warns(UserWarning, match="prompt 1, 'Mia gave Tom the ball.': .*Xerxes") as told:
        study = regard.study(model, [TEXT, "Mia gave Tom the ball.", OTHER], ["Mary", "Xerxes", "John"])
    assert told[0].filename == __file__
    assert study.prompts == [TEXT, OTHER] and study.effects.shape == (2, 4, 4) and set(study.errors) == {1}
    with pytest.raises(ValueError, match=f"prompt 0, '{TEXT[:9]}.*Xerxes"):
        regard.study(model, [TEXT], ["Xerxes"])


def test_a_cache_counts_layers_from_the_end(model, tmp_path):
    _, cache = model.run_with_cache(TEXT)
    np.testing.assert_array_equal(cache["resid_post", -1], cache["resid_post", 3])
    np.testing.assert_array_equal(cache["scale", -2, "ln1"], cache["scale", 2, "ln1"])
    with pytest.raises(KeyError):
        cache["resid_post", -5]
    for content in (b"", b"\xff" * 40, b"\x02\0\0\0\0\0\0\0[]", b'\x2a\0\0\0\0\0\0\0{"a":{"dtype":"F16","data_offsets":[0,0]}}'):
        (tmp_path / "bad").write_bytes(content)
        with pytest.raises(ValueError, match="bad is no cache of places"):
            regard.Cache.open(tmp_path / "bad")


def test_tensors_of_ids_have_a_batch_axis(model):
    torch = pytest.importorskip("torch", reason="NOT CHECKED with PyTorch, which is not installed")
    ids = model.to_tokens(TEXT)
    np.testing.assert_array_equal(model(torch.from_numpy(ids)), model(ids))
    np.testing.assert_array_equal(model(torch.from_numpy(ids)[None]), model([ids]))


def test_a_warning_names_the_line_of_the_caller(model):
    for call in (lambda: model("Mary gave Zeppelin"), lambda: model.to_tokens("Zeppelin"), lambda: model.sweep("Mary gave Zeppelin", ablate="each-head", logit="Mary")):
        with pytest.warns(UserWarning, match="Zeppelin") as told:
            call()
        assert told[0].filename == __file__


def test_the_version_is_that_of_the_package():
    from importlib import metadata

    assert regard.__version__ == metadata.version("regard")
