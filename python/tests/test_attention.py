"""`regard.attention`, compared with attention in float64 and with PyTorch's, and its promises about bits, memory and errors."""

import os
import threading
import time
import tracemalloc

import numpy as np
import pytest
import reference
import regard

try:
    import torch
except ImportError:
    torch = None
with_torch = pytest.mark.skipif(torch is None, reason="NOT CHECKED against PyTorch, which is not installed")
try:
    from ml_dtypes import bfloat16
except ImportError:
    bfloat16 = None
with_bfloat16 = pytest.mark.skipif(bfloat16 is None, reason="NOT CHECKED with NumPy's bfloat16: ml_dtypes is not installed")


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def qkv(batch=2, heads=4, kv_heads=2, n_q=5, n_k=7, d=8, d_v=6, seed=0):
    return (
        numbers(batch, heads, n_q, d, seed=seed),
        numbers(batch, kv_heads, n_k, d, seed=seed + 1),
        numbers(batch, kv_heads, n_k, d_v, seed=seed + 2),
    )


def check(q, k, v, scores="weights", **options):
    """Output, weights, scores and log-sum-exp are as near to the reference as float32 allows."""
    found = regard.attention(q, k, v, scores="weights", lse=True, **options)
    masked = regard.attention(q, k, v, scores="masked", **options).scores
    output, weights, log_sum_exp, scores = reference.attention(q, k, v, **options)
    added = 0.0
    mask = options.get("attn_mask")
    if mask is not None and mask.dtype.kind == "f":
        added += np.abs(mask[np.isfinite(mask)], dtype=np.float64).max(initial=0)
    if "alibi_slopes" in options:
        added += np.abs(options["alibi_slopes"]).max() * 2 * (q.shape[2] + k.shape[2])
    of_output, of_weights, of_scores, of_sum = reference.bounds(
        q, k, v,
        scale=options.get("scale"),
        temperature=options.get("temperature", 1.0),
        added=added,
        extra=np.abs(options.get("sinks", 0.0)).max(),
    )  # fmt: skip
    near(found.output, output, of_output)
    near(found.scores, weights, of_weights)
    near(masked, scores, of_scores)
    near(found.log_sum_exp, log_sum_exp, of_sum + np.abs(log_sum_exp[np.isfinite(log_sum_exp)]).max(initial=0) * 4 * reference.U)
    return found.output


def near(found, expected, bound):
    assert found.dtype == np.float32 and found.shape == expected.shape
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(found[~finite], expected[~finite])
    error = np.abs(found[finite] - expected[finite]).max(initial=0)
    assert error <= bound, f"{error} exceeds {bound}"


ALIBI = [0.5, 0.25, 0.125, 0.0625]
OPTIONS = {
    "plain": {},
    "top-left": {"causal": "top-left"},
    "bottom-right": {"causal": "bottom-right"},
    "offset": {"causal": 1},
    "negative offset": {"causal": -2},
    "scale": {"scale": 0.3},
    "softcap": {"softcap": 1.5},
    "temperature": {"temperature": 0.4},
    "window": {"window": (2, 1), "position": "bottom-right"},
    "window without a limit": {"window": (None, 0), "causal": 1},
    "allowed": {"attn_mask": np.random.default_rng(1).random((2, 1, 5, 7)) < 0.6},
    "bytes": {"attn_mask": np.arange(7, dtype=np.uint8) % 3},
    "added": {"attn_mask": numbers(4, 5, 7, seed=9)},
    "added, some hidden": {"attn_mask": np.triu(np.full((5, 7), -np.inf, np.float32), 2)},
    "added in half precision": {"attn_mask": numbers(1, 7, seed=9).astype(np.float16)},
    "lengths": {"kv_lengths": [3, 7]},
    "lengths as an array": {"kv_lengths": np.array([0, 5])},
    "sinks": {"sinks": [0.5, -1.0, 2.0, 0.0]},
    "alibi": {"alibi_slopes": ALIBI, "position": "bottom-right"},
    "together": {
        "causal": "bottom-right",
        "scale": 0.7,
        "softcap": 3.0,
        "temperature": 1.7,
        "window": (4, None),
        "kv_lengths": np.array([6, 7]),
        "sinks": np.array([0.5, -1.0, 2.0, 0.0], np.float32),
        "alibi_slopes": np.array(ALIBI),
        "attn_mask": numbers(2, 1, 5, 7, seed=4),
    },
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS.keys())
def test_every_option_is_what_the_contract_says(options):
    check(*qkv(), **options)


@pytest.mark.parametrize("seed", range(60))
def test_random_options_together(seed):
    rng = np.random.default_rng(seed)
    batch, kv_heads, groups = rng.integers(1, 4, 3)
    n_q, n_k, d, d_v = rng.integers(1, 40, 4)
    heads = kv_heads * groups
    every = {
        "causal": rng.choice(np.array(["top-left", "bottom-right", 3], object)),
        "scale": float(rng.uniform(-1, 1)),
        "softcap": float(rng.uniform(0.5, 9)),
        "temperature": float(rng.uniform(0.2, 3)),
        "kv_lengths": rng.integers(0, n_k + 1, batch),
        "sinks": rng.standard_normal(heads),
        "attn_mask": [numbers(batch, 1, n_q, 1, seed=seed), rng.random((heads, 1, n_k)) < 0.7][seed % 2],
        "window": (int(rng.integers(0, 9)), None),
        "alibi_slopes": rng.uniform(0, 1, heads),
    }
    options = {name: value for name, value in every.items() if rng.random() < 0.4}
    if "window" in options or "alibi_slopes" in options:
        options["position"] = "top-left"
    check(*qkv(batch, heads, kv_heads, n_q, n_k, d, d_v, seed), **options)


@with_torch
@pytest.mark.parametrize(("causal", "masked"), [(None, False), ("top-left", False), (None, True)])
def test_pytorch_agrees(causal, masked):
    q, k, v = qkv(heads=4, kv_heads=4, n_q=33, n_k=33, d=16, d_v=16)
    mask = numbers(33, 33, seed=7) if masked else None
    f64 = [torch.from_numpy(x).double() for x in (q, k, v)]
    expected = torch.nn.functional.scaled_dot_product_attention(
        *f64, attn_mask=None if mask is None else torch.from_numpy(mask).double(), is_causal=causal is not None
    )
    of_output, *_ = reference.bounds(q, k, v, added=0 if mask is None else np.abs(mask).max())
    tensors = [torch.from_numpy(x) for x in (q, k, v)]
    near(regard.attention(*tensors, causal=causal, attn_mask=mask), expected.numpy(), of_output)


def test_temperatures_0_and_infinity_are_limits():
    q, k, v = qkv(1, 1, 1)
    coldest = regard.attention(q, k, v, temperature=0, scores="weights").scores
    scores = regard.attention(q, k, v, scores="raw").scores
    np.testing.assert_array_equal(coldest, scores == scores.max(-1, keepdims=True))
    hottest = regard.attention(q, k, v, temperature=float("inf"), scores="weights").scores
    np.testing.assert_array_equal(hottest, np.float32(1 / 7))


def test_rows_have_the_same_bits_in_any_batch_on_any_threads():
    q, k, v = qkv(batch=3, heads=4, kv_heads=2, n_q=130, n_k=300, d=64, d_v=64)
    options = {"causal": "bottom-right"}
    whole = regard.attention(q, k, v, **options).view(np.uint32)
    for threads in (1, 2, 64):
        np.testing.assert_array_equal(regard.attention(q, k, v, threads=threads, **options).view(np.uint32), whole)
    for entry in range(3):
        one = regard.attention(q[entry], k[entry], v[entry], **options)
        np.testing.assert_array_equal(one.view(np.uint32), whole[entry])
    for row in (0, 77, 129):
        one = regard.attention(q[:, :, row : row + 1], k, v, causal=300 - 130 + row)
        np.testing.assert_array_equal(one.view(np.uint32), whole[:, :, row : row + 1])


def test_results_have_the_dimensions_of_q():
    q, k, v = qkv(1, 1, 1)
    whole = regard.attention(q, k, v, scores="weights", lse=True)
    for drop in (1, 2):
        part = regard.attention(*(x.reshape(x.shape[drop:]) for x in (q, k, v)), scores="weights", lse=True)
        for name in ("output", "scores", "log_sum_exp"):
            one = getattr(part, name)
            assert one.ndim == getattr(whole, name).ndim - drop
            np.testing.assert_array_equal(one.ravel(), getattr(whole, name).ravel())


def test_a_past_goes_before_the_keys():
    q, k, v = qkv(n_q=2)
    whole = regard.attention(q, k, v, causal="bottom-right")
    split = regard.attention(
        q, k[:, :, 5:], v[:, :, 5:], past_key=k[:, :, :5], past_value=v[:, :, :5], causal="bottom-right"
    )
    np.testing.assert_array_equal(split.output, whole)
    np.testing.assert_array_equal(split.present_key, k)
    np.testing.assert_array_equal(split.present_value, v)


def grow(q, k, v):
    """A past that grows from 3 keys to 5 and to 7: the present of the first call is the past of the second."""
    first = regard.attention(q, k[:, :, 3:5], v[:, :, 3:5], past_key=k[:, :, :3], past_value=v[:, :, :3])
    return regard.attention(
        q, k[:, :, 5:], v[:, :, 5:], past_key=first.present_key, past_value=first.present_value, causal="bottom-right"
    )


def test_a_past_of_half_precision_grows():
    q, k, v = (x.astype(np.float16) for x in qkv())
    grown = grow(q, k, v)
    assert grown.present_key.dtype == grown.present_value.dtype == np.float16
    np.testing.assert_array_equal(grown.present_key, k)
    np.testing.assert_array_equal(grown.output, regard.attention(q, k, v, causal="bottom-right"))


@with_bfloat16
def test_a_past_of_bfloat16_grows():
    q, k, v = (x.astype(bfloat16) for x in qkv())
    expected = regard.attention(*(x.astype(np.float32) for x in (q, k, v)), causal="bottom-right")
    for of_queries in (q, q.astype(np.float32)):
        grown = grow(of_queries, k, v)
        assert grown.present_key.dtype == grown.present_value.dtype == bfloat16
        np.testing.assert_array_equal(grown.present_key, k)
        np.testing.assert_array_equal(grown.present_value, v)
        np.testing.assert_array_equal(grown.output, expected)
    with pytest.raises(TypeError, match="`past_key` is float32, but `k` is bfloat16"):
        regard.attention(q, k, v, past_key=k.astype(np.float32), past_value=v)


@with_torch
def test_a_past_of_bfloat16_tensors_grows():
    q, k, v = (torch.from_numpy(x).bfloat16() for x in qkv())
    grown = grow(q, k, v)
    assert grown.present_key.dtype == grown.present_value.dtype == torch.bfloat16
    assert torch.equal(grown.present_key, k) and torch.equal(grown.present_value, v)
    expected = regard.attention(q, k, v, causal="bottom-right")
    np.testing.assert_array_equal(grown.output, expected)
    if bfloat16 is not None:  # a past of PyTorch before NumPy's keys, and the other way round
        of_numpy = [x.view(torch.int16).numpy().view(bfloat16) for x in (k, v)]
        for past, new in (((k, v), of_numpy), (of_numpy, (k, v))):
            past, new = [x[:, :, :5] for x in past], [x[:, :, 5:] for x in new]
            mixed = regard.attention(q, *new, past_key=past[0], past_value=past[1], causal="bottom-right")
            np.testing.assert_array_equal(mixed.output, expected)


def test_disjoint_keys_merge_by_log_sum_exp():
    q, k, v = qkv(kv_heads=4)
    parts = [regard.attention(q, k[:, :, at], v[:, :, at], lse=True) for at in (slice(3), slice(3, None))]
    sums = np.stack([part.log_sum_exp for part in parts]).astype(np.float64)
    share = np.exp(sums - np.logaddexp(*sums))[..., None]
    merged = sum(s * part.output for s, part in zip(share, parts))
    of_output, *_ = reference.bounds(q, k, v)
    assert np.abs(merged - reference.attention(q, k, v)[0]).max() <= 2 * of_output


LAYOUTS = {
    "tokens before heads": lambda x: np.ascontiguousarray(x.swapaxes(1, 2)).swapaxes(1, 2),
    "room for more tokens": lambda x: np.concatenate([x, x], 2)[:, :, : x.shape[2]],
    "a part of each token": lambda x: np.concatenate([x, x], 3)[..., : x.shape[3]],
    "read only": lambda x: np.frombuffer(x.tobytes(), np.float32).reshape(x.shape),
}


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS.keys())
def test_these_layouts_are_read_without_a_copy(layout):
    q, k, v = qkv(2, 2, 2, 128, 128, 512, 512)  # 1 MiB each
    expected = regard.attention(q, k, v)
    views = [layout(x) for x in (q, k, v)]
    tracemalloc.start()
    found = regard.attention(*views)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    np.testing.assert_array_equal(found, expected)
    assert peak < 100_000, "NumPy copied an array"  # the result is not NumPy's own memory


@pytest.mark.parametrize(
    "layout",
    [lambda x: x[..., ::-1][..., ::-1][:, :, ::-1], lambda x: np.asfortranarray(x), lambda x: np.repeat(x, 2, 3)[..., ::2]],
)
def test_other_layouts_give_the_same_numbers(layout):
    q, k, v = (layout(x) for x in qkv())
    np.testing.assert_array_equal(regard.attention(q, k, v), regard.attention(*(x.copy() for x in (q, k, v))))
    shifted = np.zeros(q.nbytes + 1, np.uint8)[1:].view(np.float32).reshape(q.shape)
    shifted[:] = q
    np.testing.assert_array_equal(regard.attention(shifted, k, v), regard.attention(q, k, v))


def test_repeated_keys_are_read_where_they_are():
    q, k, v = qkv(batch=3)
    one_k, one_v = (np.broadcast_to(x[:1], x.shape) for x in (k, v))
    np.testing.assert_array_equal(regard.attention(q, one_k, one_v), regard.attention(q, one_k.copy(), one_v.copy()))


def test_half_precision_has_the_bits_of_the_same_numbers_in_single():
    half = [x.astype(np.float16) for x in qkv()]
    single = [x.astype(np.float32) for x in half]
    expected = regard.attention(*single)
    np.testing.assert_array_equal(regard.attention(*half), expected)
    np.testing.assert_array_equal(regard.attention(single[0], *half[1:]), expected)


@with_torch
def test_tensors_of_pytorch_share_their_memory():
    q, k, v = (torch.from_numpy(x) for x in qkv(2, 2, 2, 128, 128, 512, 512))
    expected = regard.attention(q.numpy(), k.numpy(), v.numpy())
    tracemalloc.start()
    found = regard.attention(q, k, v)
    # transformers makes heads in this order of axes: tokens before heads.
    other = regard.attention(*(x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v)))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(other, expected)
    assert peak < 100_000, "NumPy copied an array"
    np.testing.assert_array_equal(torch.from_dlpack(found).numpy(), found)
    b = [x.bfloat16() for x in (q, k, v)]
    np.testing.assert_array_equal(regard.attention(*b), regard.attention(*(x.float() for x in b)))
    added = torch.linspace(-1, 1, 128).bfloat16()
    np.testing.assert_array_equal(regard.attention(*b, attn_mask=added), regard.attention(*b, attn_mask=added.float()))
    model, trained, place = regard.Model("story"), torch.nn.Parameter(torch.ones(64)), "blocks.1.hook_resid_pre"
    added, *others = (model.run("Mia gave", changes=[regard.Add(place, x)]) for x in (np.ones(64), trained, trained.bfloat16()))
    for other in others:
        np.testing.assert_array_equal(other, added)
    for of in (torch.float32, torch.bfloat16):
        trained = torch.nn.Parameter(q.to(of))
        with pytest.raises(ValueError, match=r"`q` requires a gradient, .*: give `q.detach\(\)`, or call regard.torch.attention"):
            regard.attention(trained, k, v)
    stands_in = {"bfloat16": "does not read the bfloat16 numbers of a Other: give", "nowhere.bfloat16": "nowhere is not there to read it"}
    for name, said in stands_in.items():
        other = type("Other", (), {"dtype": name, "__dlpack__": b[0].__dlpack__, "__dlpack_device__": b[0].__dlpack_device__})()
        with pytest.raises(ValueError, match=f"`q` cannot be shared: .*{said}"):
            regard.attention(other, k, v)


def test_bytes_of_a_boolean_mask_may_be_any_number():
    q, k, v = qkv()
    odd = np.array([0, 2, 255, 0, 1, 7, 0], np.uint8)
    found = regard.attention(q, k, v, attn_mask=odd.view(bool))
    np.testing.assert_array_equal(found, regard.attention(q, k, v, attn_mask=odd != 0))


def test_rows_that_see_nothing_are_0_and_hidden_nan_does_not_leak():
    q, k, v = qkv()
    k[:, :, 3:], v[:, :, 3:] = np.nan, np.nan
    found = regard.attention(q, k, v, kv_lengths=[0, 3])
    assert not found[0].any() and np.isfinite(found[1]).all()


def test_empty_tensors():
    assert regard.attention(*qkv(n_q=0)).shape == (2, 4, 0, 6)
    assert not regard.attention(*qkv(n_k=0)).any()
    assert regard.attention(*qkv(batch=0)).shape == (0, 4, 5, 6)
    assert regard.attention(*qkv(d=0)).shape == (2, 4, 5, 6)


X = np.zeros((2, 3, 4), np.float32)
ERRORS = {
    "list": (TypeError, ([[0.0]], X, X), {}, "`q` is a list, but an array is needed"),
    "float64": (TypeError, (X.astype(float), X, X), {}, "`q` is float64, but float32, float16 or bfloat16 is needed"),
    "mixed": (TypeError, (X.astype(np.float16), X, X), {}, "`q` is float16, `k` float32 and `v` float32, but"),
    "one axis": (ValueError, (X[0, 0], X, X), {}, r"`q` has the shape \[4\], but 2, 3 or 4 dimensions are needed"),
    "rank": (ValueError, (X, X[0], X), {}, r"`k` has the shape \[3, 4\], but as many dimensions as `q` \[2, 3, 4\]"),
    "head_dim": (ValueError, (X, X[..., :3], X), {}, r"key must have the shape \[1, 2, 3, 4\] .* not \[1, 2, 3, 3\]"),
    "tokens": (ValueError, (X, X, X[:, 1:]), {}, r"value must have the shape \[1, 2, 3, 4\] .* not \[1, 2, 2, 4\]"),
    "heads": (ValueError, (X, X[[0, 1, 0]], X[[0, 1, 0]]), {}, "2 query heads cannot be divided evenly among 3 key/value heads"),
    "causal": (ValueError, (X, X, X), {"causal": "left"}, 'causal is "left", but top-left'),
    "causal=True": (TypeError, (X, X, X), {"causal": True}, "causal is True, but"),
    "window": (TypeError, (X, X, X), {"window": 3}, "window is 3, but"),
    "window's place": (ValueError, (X[:, 1:], X, X), {"window": (1, 1)}, "window over 2 queries and 3 keys needs position"),
    "position": (ValueError, (X, X, X), {"position": 1}, "position is for window, `mask` and `alibi_slopes`"),
    "temperature": (ValueError, (X, X, X), {"temperature": -1.0}, "temperature is -1, but a number from 0"),
    "large": (ValueError, (X, X, X), {"temperature": 1e50}, "temperature is 1e50, but the largest float32 is"),
    "softcap": (ValueError, (X, X, X), {"softcap": -1.0}, "cap"),
    "stage": (ValueError, (X, X, X), {"scores": "all"}, 'scores is "all", but raw'),
    "mask": (ValueError, (X, X, X), {"attn_mask": X[:, :, :2]}, r"`attn_mask` has the shape \[2, 3, 2\], which does not broadcast to .* \[1, 2, 3, 3\]"),
    "mask's type": (TypeError, (X, X, X), {"attn_mask": X[:, :, :3].astype(complex)}, "`attn_mask` is complex128, but bool"),
    "mask's axes": (ValueError, (X, X, X), {"attn_mask": X[None, None]}, r"`attn_mask` has the shape \[1, 1, 2, 3, 4\], which does not broadcast"),
    "lengths": (ValueError, (X, X, X), {"kv_lengths": [4]}, "the key length of batch entry 0 is 4, but key has 3 tokens"),
    "negative length": (ValueError, (X, X, X), {"kv_lengths": [-1]}, "`kv_lengths` holds -1"),
    "lengths' type": (TypeError, (X, X, X), {"kv_lengths": [1.5]}, "`kv_lengths` is .*, but whole numbers"),
    "sinks": (ValueError, (X, X, X), {"sinks": [1.0]}, r"`sinks` has the shape \[1\], but \[2\] is needed"),
    "half a past": (ValueError, (X, X, X), {"past_key": X}, "`past_key` comes without `past_value`"),
    "past": (ValueError, (X, X, X), {"past_key": X[:1], "past_value": X}, r"`past_key` has the shape \[1, 3, 4\], which does not"),
    "masked array": (TypeError, (np.ma.masked_greater(X, 0.5), X, X), {}, "`q` is a masked array, whose mask would not count"),
    "threads": (ValueError, (X, X, X), {"threads": 0}, "threads is 0, but 1 or more are needed"),
    "memory": (MemoryError, (np.zeros((2**48, 0), np.float32), X[0, :, :0], X[0]), {}, "does not fit in memory"),
}  # fmt: skip


@pytest.mark.parametrize(("error", "arrays", "options", "message"), ERRORS.values(), ids=ERRORS.keys())
def test_errors_name_what_is_wrong(error, arrays, options, message):
    with pytest.raises(error, match=message):
        regard.attention(*arrays, **options)


def test_other_threads_run_meanwhile():
    q, k, v = qkv(1, 8, 8, 2000, 2000, 64, 64)
    ticks, over = [], threading.Event()

    def tick():
        while not over.is_set():
            ticks.append(time.perf_counter())
            time.sleep(0.001)

    other = threading.Thread(target=tick)
    other.start()
    try:
        start = time.perf_counter()
        regard.attention(q, k, v, threads=1)
        end = time.perf_counter()
    finally:
        over.set()
        other.join()
    assert [t for t in ticks if start < t < end], "nothing ran during the call"


def test_counts_beyond_the_cores_share_a_pool():
    try:
        status = open("/proc/self/status")
    except FileNotFoundError:
        pytest.skip("this system has no /proc")
    status.close()

    def running():
        with open("/proc/self/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("Threads:"))

    x = np.ones((1, 8, 256, 64), np.float32)
    cores = len(os.sched_getaffinity(0))
    for threads in (1, None, cores):
        regard.attention(x, x, x, threads=threads)
    before = running()
    for threads in range(cores, cores + 20):
        regard.attention(x, x, x, threads=threads)
    assert running() == before


def _child(queue):
    queue.put(regard.attention(*qkv(1, 8, 8, 300, 300, 64, 64)).sum())


def test_the_child_of_a_fork_has_threads_of_its_own():
    import multiprocessing

    if "fork" not in multiprocessing.get_all_start_methods():
        pytest.skip("this system has no fork")
    expected = regard.attention(*qkv(1, 8, 8, 300, 300, 64, 64)).sum()  # starts the pool here
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_child, args=(queue,))
    child.start()
    try:
        assert queue.get(timeout=60) == expected
    finally:
        child.kill()
        child.join()


def three(n=6, d=8):
    rng = np.random.default_rng(3)
    return tuple(rng.standard_normal((2, 3, n, d), dtype=np.float32) for _ in range(3))


def test_a_mask_is_taken_in_every_type():
    q, k, v = three()
    allowed = np.tri(6, dtype=bool)
    expected = regard.attention(q, k, v, attn_mask=allowed)
    for kind in (np.int8, np.int32, np.int64, np.uint8):
        np.testing.assert_array_equal(regard.attention(q, k, v, attn_mask=allowed.astype(kind) * 3), expected)
    added = np.where(allowed, 0, -np.inf)
    types = [np.float64, np.float32, np.float16]
    try:
        import ml_dtypes

        types.append(ml_dtypes.bfloat16)
    except ImportError:
        print("NOT CHECKED with ml_dtypes, which is not installed")
    biased = regard.attention(q, k, v, attn_mask=added.astype(np.float32))
    np.testing.assert_allclose(biased, expected, rtol=0, atol=1e-5)
    for kind in types:
        np.testing.assert_array_equal(regard.attention(q, k, v, attn_mask=added.astype(kind)), biased)
    with pytest.raises(TypeError, match="`attn_mask` is complex"):
        regard.attention(q, k, v, attn_mask=added.astype(complex))


def test_an_expanded_mask_is_not_written_out():
    """It would be 128 GiB: more than a test may take."""
    q = np.ones((1, 1, 2**15, 4), np.float32)
    q, keys = np.broadcast_to(q, (1, 4, 2**15, 4)), np.ones((1, 4, 2**15, 4), np.float32)[:, :, :8]
    mask = np.broadcast_to(np.arange(8) < 3, (1, 4, 2**15, 8))
    few = regard.attention(q[:, :, :2], keys, keys, attn_mask=mask[:, :, :2])
    np.testing.assert_array_equal(regard.attention(q, keys, keys, attn_mask=mask)[:, :, :2], few)
    one = np.broadcast_to(np.zeros((), np.float32), (64, 32, 4096, 4096))
    small = np.ones((64, 32, 1, 4), np.float32)
    with pytest.raises(ValueError, match=r"`attn_mask` has the shape \[64, 32, 4096, 4096\]"):
        regard.attention(small, small, small, attn_mask=one)


def test_the_error_of_a_mask_names_its_shape_and_the_right_one():
    q, k, v = three()
    with pytest.raises(ValueError, match=r"`attn_mask` has the shape \[2, 6, 6\], .*\[2, 3, 6, 6\].*\[2, 1, 6, 6\]"):
        regard.attention(q, k, v, attn_mask=np.ones((2, 6, 6), bool))


def test_words_for_no_limit():
    q, k, v = three()
    plain = regard.attention(q, k, v)
    np.testing.assert_array_equal(regard.attention(q, k, v, window=(-1, -1)), plain)
    np.testing.assert_array_equal(regard.attention(q, k, v, window=(2, -1)), regard.attention(q, k, v, window=(2, None)))
    np.testing.assert_array_equal(regard.attention(q, k, v, softcap=0.0), plain)
    with pytest.raises(TypeError, match="window is .* or None for no limit"):
        regard.attention(q, k, v, window=(-2, 0))


def test_numbers_of_heads_of_any_library():
    torch = pytest.importorskip("torch", reason="NOT CHECKED with PyTorch, which is not installed")
    q, k, v = three()
    slopes = regard.alibi_slopes(3)
    expected = regard.attention(q, k, v, alibi_slopes=slopes.tolist(), sinks=[0.5, 1, 2])
    for kind in (torch.float32, torch.float64, torch.bfloat16):
        found = regard.attention(q, k, v, alibi_slopes=torch.from_numpy(slopes).to(kind), sinks=torch.tensor([0.5, 1, 2]).to(kind))
        np.testing.assert_array_equal(found, expected)


def test_the_negative_bit_of_a_tensor_counts():
    torch = pytest.importorskip("torch", reason="NOT CHECKED with PyTorch, which is not installed")
    q, k, v = map(torch.from_numpy, three())
    for kind in (torch.float32, torch.bfloat16):
        a, b, c = (x.to(kind) for x in (q, k, v))
        np.testing.assert_array_equal(regard.attention(torch._neg_view(a), b, c), regard.attention(-a, b, c))


def test_a_limit_of_threads_changes_no_bit():
    q, k, v = three(200)
    expected = regard.attention(q, k, v)
    regard.set_num_threads(1)
    try:
        np.testing.assert_array_equal(regard.attention(q, k, v, threads=2), expected)
    finally:
        regard.set_num_threads(10_000)
    with pytest.raises(ValueError, match="threads is 0"):
        regard.set_num_threads(0)
