"""Attention in float64, written after the contract, and bounds for the errors of a computation in float32."""

import numpy as np

U = 2.0**-24  # the unit roundoff of float32


def first_position(causal, n_q, key_len):
    return {"top-left": 0, "bottom-right": key_len - n_q}.get(causal, causal)


def attention(
    q,
    k,
    v,
    *,
    causal=None,
    scale=None,
    softcap=None,
    temperature=1.0,
    window=None,
    position=None,
    attn_mask=None,
    kv_lengths=None,
    sinks=None,
    alibi_slopes=None,
):
    """Output, weights, log-sum-exp and masked scores of [batch, heads, n, d] arrays."""
    q, k, v = (np.asarray(x, np.float64) for x in (q, k, v))
    groups = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, groups, 1), np.repeat(v, groups, 1)
    (batch, heads, n_q, d), n_k = q.shape, k.shape[2]
    scores = q @ k.swapaxes(-1, -2) * (1 / np.sqrt(d) if scale is None else scale)
    if softcap is not None:
        scores = softcap * np.tanh(scores / softcap)
    position = causal if position is None else position
    position = "top-left" if position is None else position
    key_lens = [n_k] * batch if kv_lengths is None else kv_lengths
    for entry, key_len in enumerate(key_lens):
        i, j = np.arange(n_q)[:, None], np.arange(n_k)[None, :]
        if alibi_slopes is not None:
            distance = np.abs(first_position(position, n_q, key_len) + i - j)
            scores[entry] -= np.asarray(alibi_slopes, np.float64)[:, None, None] * distance
        hidden = np.broadcast_to(j >= key_len, (n_q, n_k)).copy()
        if causal is not None:
            hidden |= j > first_position(causal, n_q, key_len) + i
        if window is not None:
            at = first_position(position, n_q, key_len) + i
            left, right = window
            hidden |= (left is not None) & (j < at - (left or 0))
            hidden |= (right is not None) & (j > at + (right or 0))
        scores[entry][:, hidden] = -np.inf
    if attn_mask is not None:
        if attn_mask.dtype in (bool, np.uint8):
            scores = np.where(attn_mask, scores, -np.inf)
        else:
            scores = scores + attn_mask.astype(np.float64)
    scaled = scores / temperature
    extra = np.full((1, heads, 1, 1), -np.inf)
    if sinks is not None:
        extra = np.asarray(sinks, np.float64).reshape(1, heads, 1, 1) / temperature
    top = np.maximum(scaled.max(-1, keepdims=True, initial=-np.inf), extra)
    top = np.where(np.isfinite(top), top, 0)
    exp = np.exp(scaled - top)
    total = exp.sum(-1, keepdims=True) + np.exp(extra - top)
    with np.errstate(divide="ignore", invalid="ignore"):
        weights = np.where(total > 0, exp / total, 0)
        log_sum_exp = (np.log(total) + top)[..., 0]
    return weights @ v, weights, log_sum_exp, scores


def bounds(q, k, v, *, scale=None, temperature=1.0, added=0.0, extra=0.0):
    """Bounds for the errors of output, weights and scores.

    With u the unit roundoff and s = scale · Σ |q||k|: the dot product of d terms in any order is within d·u·s of the exact
    one, and the scale, the soft cap (whose slope is at most 1), the bias and the division by the temperature each round once
    or twice: a score is within e = ((d + 8)·s + 4·added)·u. The maximum is subtracted, with a rounding of at most 2·|score|·u,
    the exponential is within 4u of its argument's, so a term of the softmax has the relative error (2e + 4u + …)/T; the weight,
    by numerator and denominator, twice that and (n_k + 2)·u for the sum. The output is a sum of n_k products: n_k·u more of
    Σ w|v| ≤ max |v|. `extra` is the largest size of other scores in the same softmax (sinks).
    """
    q, k, v = (np.asarray(x, np.float64) for x in (q, k, v))
    d, n_k = q.shape[-1], k.shape[-2]
    scale = 1 / np.sqrt(d) if scale is None else abs(scale)
    # Cauchy–Schwarz: Σ |q||k| is at most the product of the largest norms.
    largest = scale * np.linalg.norm(q, axis=-1).max(initial=0) * np.linalg.norm(k, axis=-1).max(initial=0)
    score = ((d + 8) * largest + 4 * added) * U
    exponent = (score + 4 * (largest + added + extra) * U) / temperature + 8 * U
    weight = np.expm1(2 * exponent) + (n_k + 4) * U
    output = (weight + (n_k + 2) * U) * np.abs(v).max(initial=0)
    return output, weight, score, exponent + (n_k + 4) * U
