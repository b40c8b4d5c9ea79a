"""What stands beside `regard.attention`: masks as values, gradients, the cache, ragged batches, rotary positions; in float64 and PyTorch's words."""

import numpy as np
import pytest
import reference
import regard
from regard import mask


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def three(batch=2, heads=3, n=11, d=8, seed=0):
    return tuple(numbers(batch, heads, n, d, seed=seed + i) for i in range(3))


def error_bound(q, k, v, **options):
    return reference.bounds(q, k, v, **options)[0]


IDS = np.array([[4] * 3 + [9] * 8, [1] * 10 + [0]])
I, J = np.arange(11)[:, None], np.arange(11)[None]
SAME = IDS[:, None, :, None] == IDS[:, None, None, :]
MASKS = {
    "causal": (mask.causal(), J <= I),
    "document": (mask.document(IDS), SAME),
    "document of one row": (mask.document(IDS[0]), SAME[:1]),
    "document, causal": (mask.document(IDS) & mask.causal("top-left"), SAME & (J <= I)),
    "prefix or causal": (mask.prefix([2, 7]) | mask.causal(), (np.array([2, 7]).reshape(2, 1, 1, 1) > J) | (J <= I)),
    "one prefix": (mask.prefix(4), np.broadcast_to(J < 4, (11, 11))),
    "window": (mask.window(2, -1), I - 2 <= J),
    "window or prefix, in documents": ((mask.window(1, 0) | mask.prefix(2)) & mask.document(IDS), SAME & (((I - 1 <= J) & (J <= I)) | (J < 2))),
    "an offset": (mask.causal(-3), J <= I - 3),
}


@pytest.mark.parametrize("name", MASKS)
def test_a_mask_is_the_matrix_that_it_stands_for(name):
    q, k, v = three()
    value, matrix = MASKS[name]
    matrix = np.broadcast_to(matrix, (2, 1, 11, 11))
    found = regard.attention(q, k, v, mask=value, scores="weights", lse=True)
    dense = regard.attention(q, k, v, attn_mask=matrix, scores="weights", lse=True)
    for part in ("output", "scores", "log_sum_exp"):
        np.testing.assert_array_equal(getattr(found, part), getattr(dense, part))
    expected = reference.attention(q, k, v, attn_mask=matrix)[0]
    assert np.abs(found.output - expected).max() <= error_bound(q, k, v)


def test_a_mask_counts_beside_other_options():
    q, k, v = three()
    some = np.random.default_rng(1).random((11, 11)) < 0.7
    found = regard.attention(q, k, v, mask=mask.document(IDS), attn_mask=some, kv_lengths=[11, 6], causal="top-left")
    matrix = np.broadcast_to(SAME & some & (J <= I), (2, 1, 11, 11)).copy()
    matrix[1, :, :, 6:] = False
    np.testing.assert_array_equal(found, regard.attention(q, k, v, attn_mask=matrix))


def test_a_mask_of_new_tokens_goes_by_their_position():
    q, k, v = three()
    whole = regard.attention(q, k, v, mask=mask.document(IDS) & mask.causal())
    last = regard.attention(q[:, :, 8:], k, v, mask=mask.document(IDS) & mask.causal(), position="bottom-right")
    np.testing.assert_array_equal(last, whole[:, :, 8:])
    with pytest.raises(ValueError, match=r"`mask` \(causal\) over 3 queries and 11 keys needs position"):
        regard.attention(q[:, :, 8:], k, v, mask=mask.causal())


def test_a_long_mask_takes_no_matrix():
    """Of 2^17 tokens the matrix would be 16 GiB; documents of 64 tokens are computed alone, so this takes a moment."""
    n = 2**17
    x = numbers(1, n, 2)
    out = regard.attention(x, x, x, mask=mask.document(np.arange(n) // 64))
    alone = regard.attention(x[:, -64:], x[:, -64:], x[:, -64:])
    assert np.abs(out[:, -64:] - alone).max() <= 2 * error_bound(x[None, :, -64:], x[None, :, -64:], x[None, :, -64:])


def test_errors_of_masks():
    q, k, v = three()
    for value, error, message in (
        (mask.document([1, 2]), ValueError, r"the documents must have the shape \[11\] \(one a key\), not \[2\]"),
        (mask.prefix([1, 2, 3]), ValueError, "the lengths of prefixes"),
        (mask.prefix(-1), ValueError, "no length is negative"),
        (np.ones((11, 11), bool), TypeError, "an array is for `attn_mask`"),
    ):
        with pytest.raises(error, match=message):
            regard.attention(q, k, v, mask=value)
    with pytest.raises(TypeError, match="ids holds float64"):
        mask.document([0.5])
    with pytest.raises(TypeError, match="unsupported operand"):
        mask.causal() & np.ones(3)
    assert repr(mask.causal() | mask.prefix([2])) == "(regard.mask.causal(None) | regard.mask.prefix([2]))"


def slope(of, x, d_out, step=1e-6):
    """The gradient of sum(of(x) · d_out) by central differences in float64."""
    x = x.astype(np.float64)
    found = np.zeros_like(x)
    for at in np.ndindex(x.shape):
        moved = [x.copy(), x.copy()]
        moved[0][at] += step
        moved[1][at] -= step
        found[at] = ((of(moved[0]) - of(moved[1])) * d_out).sum() / (2 * step)
    return found


GRADIENTS = {
    "plain": {},
    "causal": {"causal": "top-left"},
    "everything": {"softcap": 2.0, "temperature": 0.7, "window": (3, 1), "kv_lengths": [5, 3], "alibi_slopes": [0.5, 0.25]},
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_are_the_slopes_of_the_definition(name):
    q, k, v = three(2, 2, 5, 3)
    k, v = k[:, :1], v[:, :1]  # grouped queries
    bias, sinks, d_out = numbers(1, 5, 5, seed=5), numbers(2, seed=6), numbers(2, 2, 5, 3, seed=7)
    given = {"q": q, "k": k, "v": v, "attn_mask": bias, "sinks": sinks}
    options = {"scale": 0.8, **GRADIENTS[name]}
    if "window" in options:
        options["position"] = "top-left"

    def out(**changed):
        return reference.attention(**{**given, **changed}, **options)[0]

    found = regard.attention_backward(
        q, k, v, regard.attention(q, k, v, attn_mask=bias, sinks=sinks, **options), d_out, attn_mask=bias, sinks=sinks, **options
    )
    for part, x in given.items():
        expected = slope(lambda moved, part=part: out(**{part: moved}), x, d_out)
        # The numbers are below 8, and a gradient is a sum of at most 20 products of three of them in float32.
        np.testing.assert_allclose(getattr(found, part).reshape(x.shape), expected, rtol=0, atol=20 * 8 * 2**-20, err_msg=part)


def test_errors_of_gradients():
    q, k, v = three()
    with pytest.raises(ValueError, match=r"`d_out` has the shape \[2, 3, 11, 7\], but that of the output is needed, \[2, 3, 11, 8\]"):
        regard.attention_backward(q, k, v, v, v[..., :7])
    with pytest.raises(ValueError, match="temperature"):
        regard.attention_backward(q, k, v, v, v, temperature=0)


@pytest.mark.parametrize("kind", ["float32", "float16", "bfloat16"])
def test_pytorch_has_the_same_gradients(kind):
    torch = pytest.importorskip("torch", reason="NOT CHECKED with PyTorch, which is not installed")
    import regard.torch

    given = [torch.from_numpy(x).to(getattr(torch, kind)) for x in three(n=40, d=16)]
    bias = torch.from_numpy(numbers(2, 1, 40, 40, seed=4))
    d_out = torch.from_numpy(numbers(2, 3, 40, 16, seed=9)).double()
    ours = [x.clone().requires_grad_() for x in (*given, bias)]
    theirs = [x.double().requires_grad_() for x in (*given, bias)]
    out = regard.torch.attention(*ours[:3], attn_mask=ours[3])
    assert out.dtype == given[0].dtype
    (out.double() * d_out).sum().backward()
    expected = torch.nn.functional.scaled_dot_product_attention(*theirs[:3], attn_mask=theirs[3])
    (expected * d_out).sum().backward()
    # Half precision rounds the output, its gradient and the gradients: a few units in the last place of numbers below 8.
    bound = {"float32": 2e-5, "float16": 8 * 2**-10, "bfloat16": 8 * 2**-7}[kind]
    for a, b in [(out, expected), *((x.grad, y.grad) for x, y in zip(ours, theirs))]:
        assert (a.double() - b).abs().max() <= bound


def test_pytorch_follows_a_mask_that_is_expanded_and_one_of_booleans():
    torch = pytest.importorskip("torch", reason="NOT CHECKED with PyTorch, which is not installed")
    import regard.torch

    q, k, v = (torch.from_numpy(x) for x in three())
    slopes = torch.zeros(3, 1, 1, requires_grad=True)
    distance = torch.from_numpy(np.abs(I - J).astype(np.float32))
    regard.torch.attention(q, k, v, attn_mask=(slopes * distance).expand(2, 3, 11, 11)).square().sum().backward()
    found = slopes.grad.clone()
    slopes64 = torch.zeros(3, 1, 1, requires_grad=True, dtype=torch.float64)
    theirs = torch.nn.functional.scaled_dot_product_attention(q.double(), k.double(), v.double(), attn_mask=slopes64 * distance.double())
    theirs.square().sum().backward()
    torch.testing.assert_close(found.double(), slopes64.grad, rtol=1e-4, atol=1e-4)
    x = q.clone().requires_grad_()
    regard.torch.attention(x, k, v, attn_mask=torch.from_numpy(J <= I), mask=mask.document(IDS)).sum().backward()
    assert torch.isfinite(x.grad).all()


@pytest.mark.parametrize("kind", ["numpy", "torch", "torch bfloat16"])
def test_a_cache_has_the_output_of_the_whole_text(kind):
    q, k, v = three(n=200)
    if kind != "numpy":
        torch = pytest.importorskip("torch", reason="NOT CHECKED with PyTorch, which is not installed")
        q, k, v = map(torch.from_numpy, (q, k, v))
        if kind.endswith("bfloat16"):
            k, v = k.bfloat16(), v.bfloat16()
    whole = regard.attention(q, k, v, causal="top-left")
    cache = regard.KeyValueCache(capacity=8)
    for a, b in [(0, 30), *((i, i + 1) for i in range(30, 200))]:
        cache.append(k[:, :, a:b], v[:, :, a:b])
        out = regard.attention(q[:, :, a:b], cache.keys, cache.values, causal="bottom-right")
        np.testing.assert_array_equal(out, whole[:, :, a:b])
    assert (len(cache), cache.position, tuple(cache.keys.shape)) == (200, 200, (2, 3, 200, 8))


def test_a_cache_appends_without_copying():
    cache = regard.KeyValueCache(capacity=100)
    x = numbers(2, 10, 4)
    cache.append(x, x)
    first = cache.keys
    cache.append(x, x)
    assert np.shares_memory(first, cache.keys) and np.shares_memory(first, cache.keys[:, :10])
    cache.truncate(12)
    assert (len(cache), cache.position) == (12, 12)
    np.testing.assert_array_equal(cache.keys[:, 10:], x[:, :2])


def test_a_cache_of_a_window_stays_small():
    cache, x = regard.KeyValueCache(capacity=16), numbers(1, 1000, 4)
    whole = regard.attention(x, x, x, causal="top-left", window=(7, 0))
    for i in range(1000):
        cache.append(x[:, i : i + 1], x[:, i : i + 1])
        cache.keep_last(8)
        out = regard.attention(x[:, i : i + 1], cache.keys, cache.values, causal="bottom-right", window=(7, 0))
        # The sums begin at another key: 8 terms of numbers below 8.
        np.testing.assert_allclose(out, whole[:, i : i + 1], rtol=0, atol=64 * 2**-22)
    assert (len(cache), cache.position) == (8, 1000) and "room for float32 [1, 16, 4]" in repr(cache)


def test_errors_of_a_cache():
    cache = regard.KeyValueCache()
    x = numbers(2, 3, 4)
    with pytest.raises(ValueError, match="holds no token"):
        cache.keys
    with pytest.raises(ValueError, match=r"`values` has the shape \[2, 2, 4\]"):
        cache.append(x, x[:, :2])
    cache.append(x, x)
    with pytest.raises(ValueError, match=r"`keys` is float64 \[2, 3, 4\], but the cache holds float32"):
        cache.append(x.astype(float), x)
    with pytest.raises(ValueError, match=r"`values` is float32 \[2, 3, 5\]"):
        cache.append(x, numbers(2, 3, 5))
    assert len(cache) == 3


def test_ragged_texts_have_the_bits_that_they_have_alone():
    lengths, key_lengths = [3, 0, 70, 1], [5, 2, 70, 4]
    bounds, key_bounds = np.cumsum([0, *lengths]), np.cumsum([0, *key_lengths])
    q, k, v = numbers(74, 4, 8), numbers(81, 2, 8, seed=1), numbers(81, 2, 6, seed=2)
    options = {"causal": "bottom-right", "softcap": 3.0, "sinks": [0.5, 0, 1, 2]}
    out = regard.attention_ragged(q, k, v, bounds, key_bounds, **options)
    assert out.shape == (74, 4, 6)
    for i in range(4):
        a, b, c, d = *bounds[i : i + 2], *key_bounds[i : i + 2]
        alone = regard.attention(*(np.ascontiguousarray(x.swapaxes(0, 1)) for x in (q[a:b], k[c:d], v[c:d])), **options)
        np.testing.assert_array_equal(out[a:b], alone.swapaxes(0, 1))
    one = regard.attention_ragged(k, k, v, key_bounds, causal="top-left")
    ids = np.repeat(np.arange(4), key_lengths)
    packed = regard.attention(*(x.swapaxes(0, 1) for x in (k, k, v)), mask=mask.document(ids), causal="top-left").swapaxes(0, 1)
    assert np.abs(one - packed).max() <= 2 * error_bound(k.swapaxes(0, 1)[None], k.swapaxes(0, 1)[None], v.swapaxes(0, 1)[None])


def test_errors_of_ragged_texts():
    q = numbers(5, 2, 4)
    for bounds, error, message in (
        ([0, 3], ValueError, "from 0 up to the 5 tokens of `q`"),
        ([0, 4, 3, 5], ValueError, "goes"),
        ([0.0, 5.0], TypeError, "whole numbers"),
    ):
        with pytest.raises(error, match=message):
            regard.attention_ragged(q, q, q, bounds)
    with pytest.raises(TypeError, match="does not take attn_mask"):
        regard.attention_ragged(q, q, q, [0, 5], attn_mask=None)
    with pytest.raises(ValueError, match=r"`q` has the shape \[5, 4\]"):
        regard.attention_ragged(q[:, 0], q, q, [0, 5])


def rotated(x, places, frequencies, interleaved, amplitude=1.0):
    """The definition in float64: pairs as complex numbers, times e^(i · position · frequency)."""
    x = x.astype(np.float64)
    d = 2 * len(frequencies)
    pairs = x[..., 0:d:2] + 1j * x[..., 1:d:2] if interleaved else x[..., : d // 2] + 1j * x[..., d // 2 : d]
    turned = pairs * amplitude * np.exp(1j * places[..., None] * frequencies)
    out = x.copy()
    if interleaved:
        out[..., 0:d:2], out[..., 1:d:2] = turned.real, turned.imag
    else:
        out[..., : d // 2], out[..., d // 2 : d] = turned.real, turned.imag
    return out


@pytest.mark.parametrize("interleaved", [False, True])
def test_rotary_positions_are_those_of_the_definition(interleaved):
    x = numbers(2, 3, 11, 8)
    frequencies = 10_000.0 ** (-np.arange(0, 8, 2) / 8)
    bound = 4 * np.abs(x).max() * 2**-23  # two products and their sum, and the rounding of sine and cosine
    for positions, places in ((0, np.arange(11)), (100_000, 100_000 + np.arange(11)), (np.arange(11) * 3, np.arange(11) * 3)):
        expected = rotated(x, places, frequencies, interleaved)
        assert np.abs(regard.rotary(x, positions, interleaved=interleaved) - expected).max() <= bound
    ragged = np.array([np.arange(11), np.arange(11) + 5])
    expected = rotated(x, ragged[:, None], frequencies, interleaved)
    assert np.abs(regard.rotary(x, ragged, interleaved=interleaved) - expected).max() <= bound
    part = regard.rotary(x, 2, features=4, base=500.0, interleaved=interleaved)
    expected = rotated(x, 2 + np.arange(11), 500.0 ** (-np.arange(0, 4, 2) / 4), interleaved)
    assert np.abs(part - expected).max() <= bound
    given = regard.rotary(x, frequencies=[1.0, 0.0], amplitude=1.5, interleaved=interleaved)
    assert np.abs(given - rotated(x, np.arange(11), np.array([1.0, 0.0]), interleaved, 1.5)).max() <= 2 * bound


def test_errors_of_rotary_positions():
    x = numbers(2, 3, 11, 8)
    for options, error, message in (
        ({"features": 3}, ValueError, "features is 3, but an even number up to the 8"),
        ({"features": 10}, ValueError, "features is 10"),
        ({"positions": -1}, ValueError, "positions holds -1"),
        ({"positions": 0.5}, TypeError, "a whole number"),
        ({"positions": np.arange(4)}, ValueError, r"positions has the shape \[4\]"),
        ({"frequencies": np.ones(9)}, ValueError, "rotary features"),
    ):
        with pytest.raises(error, match=message):
            regard.rotary(x, **options)


def test_transformers_rotates_the_same_way():
    torch = pytest.importorskip("torch", reason="NOT CHECKED with PyTorch, which is not installed")
    llama = pytest.importorskip("transformers.models.llama.modeling_llama", reason="NOT CHECKED with transformers, which is not installed")
    import transformers

    config = transformers.LlamaConfig(hidden_size=32, num_attention_heads=4, rope_parameters={"rope_type": "default", "rope_theta": 5e5})
    embedding = llama.LlamaRotaryEmbedding(config)
    x = torch.from_numpy(numbers(1, 4, 9, 8))
    cos, sin = embedding(x, torch.arange(9)[None])
    expected = llama.apply_rotary_pos_emb(x, x, cos, sin)[0]
    assert np.abs(regard.rotary(x, frequencies=embedding.inv_freq) - expected.numpy()).max() <= 1e-5  # their angles are float32
    assert np.abs(regard.rotary(x, base=5e5) - expected.numpy()).max() <= 1e-5


def test_the_environment_limits_the_threads():
    import subprocess
    import sys

    code = "import numpy as np, regard; x = np.ones((1, 8, 512, 64), 'f4'); regard.attention(x, x, x); print(*[l.split()[1] for l in open('/proc/self/status') if l.startswith('Threads')])"
    if not sys.platform.startswith("linux"):
        pytest.skip("this system has no /proc")
    import os

    one, all_cores = (
        int(subprocess.run([sys.executable, "-c", code], env={**os.environ, "OPENBLAS_NUM_THREADS": "1", **limit}, check=True, capture_output=True, text=True).stdout)
        for limit in ({"RAYON_NUM_THREADS": "1"}, {})
    )
    cores = len(os.sched_getaffinity(0))
    assert one == 1 and (all_cores > 1 or cores == 1)
