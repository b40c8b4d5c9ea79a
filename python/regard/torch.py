"""Attention whose gradients PyTorch follows."""

from __future__ import annotations

from typing import Any

import torch

from ._regard import attention as _attention
from ._regard import attention_backward

__all__ = ["attention"]


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Any, k: Any, v: Any, attn_mask: Any, sinks: Any, options: dict[str, Any]) -> Any:
        beside = {name: x.detach() for name, x in (("attn_mask", attn_mask), ("sinks", sinks)) if x is not None}
        out = torch.from_numpy(_attention(q.detach(), k.detach(), v.detach(), **beside, **options))
        ctx.save_for_backward(q, k, v, attn_mask, sinks)
        ctx.out, ctx.options = out, options
        return out.to(q.dtype, copy=True)

    @staticmethod
    def backward(ctx: Any, *d_out: Any) -> Any:
        q, k, v, attn_mask, sinks = ctx.saved_tensors
        beside = {name: x.detach() for name, x in (("attn_mask", attn_mask), ("sinks", sinks)) if x is not None}
        found = attention_backward(q.detach(), k.detach(), v.detach(), ctx.out, d_out[0].detach(), **beside, **ctx.options)

        def of(x: Any, gradient: Any) -> Any:
            return None if x is None or gradient is None else torch.from_numpy(gradient).reshape(x.shape).to(x.dtype)

        return of(q, found.q), of(k, found.k), of(v, found.v), of(attn_mask, found.attn_mask), of(sinks, found.sinks), None


def attention(q: Any, k: Any, v: Any, *, attn_mask: Any = None, sinks: Any = None, **options: Any) -> Any:
    """`regard.attention` of tensors, with gradients with respect to `q`, `k`, `v`, an additive `attn_mask` and `sinks`.

    The weights are computed again for the gradients, a few queries at a time, so that no matrix [n_q, n_k] is kept.

    Parameters
    ----------
    q, k, v : torch.Tensor
        On the CPU, as of `regard.attention`.
    attn_mask, sinks : torch.Tensor, optional
        As of `regard.attention`.
    **options
        As of `regard.attention_backward`.

    Returns
    -------
    torch.Tensor
        The output, in the type of `q`.

    Examples
    --------
    >>> import torch, regard.torch
    >>> x = torch.ones(1, 3, 4, requires_grad=True)
    >>> regard.torch.attention(x, x, x, causal="top-left").sum().backward()
    >>> x.grad.sum().item()
    12.0
    """
    attn_mask, sinks = (None if x is None else torch.as_tensor(x) for x in (attn_mask, sinks))
    return _Attention.apply(q, k, v, attn_mask, sinks, options)  # type: ignore[no-untyped-call]
