"""Gradients of attention: second derivatives by ordinary operators, over the full attention matrix."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ....runtime.scalar_type import bool_
from ...generated import functions as ops

if TYPE_CHECKING:
    from ...tensor import Tensor


def defined(bias: Tensor | None, query: Tensor) -> Tensor:
    """Return the mask, or an empty tensor for None: the backward's schema has no optional tensor there."""
    return query.new_empty((0,)) if bias is None else bias


def attention_mask_backward(
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
) -> Tensor:
    """Return the gradient of a numeric mask: the gradient of the scores, one value per query and key.

    Raises NotImplementedError with dropout, whose random mask ordinary operators cannot repeat.
    """
    if dropout_p:
        raise NotImplementedError("the gradient of attn_bias is not implemented with dropout")
    group = query.shape[1] // key.shape[1] if key.shape[1] else 1
    weights = _weights(query, _for_each_head(key, group), mask, is_causal, _scale(query, scale))
    grad_weights = ops.matmul(grad, _for_each_head(value, group).mT)
    return weights * (grad_weights - _row_sum(grad_weights * weights))


def varlen_attention_backward(
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    output: Tensor,
    logsumexp: Tensor,
    cu_seq_q: Tensor,
    cu_seq_k: Tensor | None,
    left: int,
    right: int,
    scale: float | None,
    seqused_k: Tensor | None,
    block_table: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of packed sequences.

    Raises RuntimeError with `seqused_k` or `block_table`, which PyTorch supports for inference only.
    """
    if block_table is not None or cu_seq_k is None:
        raise RuntimeError("varlen_attn: block_table is an inference-only parameter")
    if seqused_k is not None:
        raise RuntimeError("varlen_attn: seqused_k is an inference-only parameter")
    gradients: tuple[Tensor, Tensor, Tensor] = ops._varlen_attn_backward(
        grad, query, key, value, output, logsumexp, cu_seq_q, cu_seq_k, left, right, scale=scale
    )
    return gradients


def _scale(query: Tensor, scale: float | None) -> float:
    width = query.shape[3]
    return scale if scale is not None else 1.0 / math.sqrt(width) if width else 1.0


def attention_double_backward(
    grads: Sequence[Tensor | None],
    grad_out: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
) -> tuple[Tensor | None, Tensor | None, Tensor | None, Tensor | None, Tensor | None]:
    """Differentiate the gradients of query, key and value by `grad_out`, `query`, `key`, `value` and the mask.

    Let P = softmax(S) be the weights, with S = scale q k^T + mask. In the backward pass:

    - dP = g v^T and dS = P (dP - sum(dP P)),
    - dq = scale dS k, dk = scale dS^T q and dv = P^T g.

    `grads` are the gradients x, y and z of these three. For heads that share keys, the keys are repeated and their
    gradients added.

    Raises NotImplementedError with dropout, whose random mask ordinary operators cannot repeat.
    """
    if dropout_p:
        raise NotImplementedError(
            "the second derivative of scaled_dot_product_attention is not implemented with dropout"
        )
    heads, heads_k = query.shape[1], key.shape[1]
    group = heads // heads_k if heads_k else 1
    c = _scale(query, scale)
    q, g = query, grad_out
    k, v = _for_each_head(key, group), _for_each_head(value, group)
    x = grads[0]
    y, z = (None if each is None else _for_each_head(each, group) for each in grads[1:3])
    weights = _weights(q, k, mask, is_causal, c)
    grad_weights = ops.matmul(g, v.mT)
    relative = grad_weights - _row_sum(grad_weights * weights)
    of_scores = weights * relative
    of_g = of_q = of_k = of_v = of_weights = inner = None
    if x is not None or y is not None:
        along: Any = None
        if x is not None:
            along = ops.matmul(x, k.mT) * c
            of_k = ops.matmul(of_scores.mT, x) * c
        if y is not None:
            more = ops.matmul(q, y.mT) * c
            along = more if along is None else along + more
            of_q = ops.matmul(of_scores, y) * c
        mean = _row_sum(along * weights)
        tangent = weights * (along - mean)
        of_g, of_v = ops.matmul(tangent, v), ops.matmul(tangent.mT, g)
        of_weights = along * relative - grad_weights * mean
    if z is not None:
        more = ops.matmul(g, z.mT)
        of_weights = more if of_weights is None else of_weights + more
        more = ops.matmul(weights, z)
        of_g = more if of_g is None else of_g + more
    if of_weights is not None:
        inner = weights * (of_weights - _row_sum(of_weights * weights))
        through_q, through_k = ops.matmul(inner, k) * c, ops.matmul(inner.mT, q) * c
        of_q = through_q if of_q is None else of_q + through_q
        of_k = through_k if of_k is None else of_k + through_k
    return of_g, of_q, _over_heads(of_k, heads_k, group), _over_heads(of_v, heads_k, group), inner


def window_double_backward(
    grads: Sequence[Tensor | None],
    grad_out: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    left: int,
    right: int,
    scale: float | None,
) -> tuple[Tensor | None, Tensor | None, Tensor | None, Tensor | None]:
    """Compute `attention_double_backward` of sliding-window attention, over the full attention matrix."""
    length, keys, device = query.shape[2], key.shape[2], query.device
    center = ops.arange(length, device=device).unsqueeze(1) + (keys - length)
    distance = ops.arange(keys, device=device) - center
    mask = ops.ones((length, keys), dtype=bool_, device=device)
    if left >= 0:
        mask = ops.logical_and(mask, ops.ge(distance, -left))
    if right >= 0:
        mask = ops.logical_and(mask, ops.le(distance, right))
    results = attention_double_backward(grads, grad_out, query, key, value, mask, 0.0, False, scale)
    return results[0], results[1], results[2], results[3]


def _row_sum(x: Tensor) -> Tensor:
    return ops.sum(x, -1, keepdim=True)


def _weights(q: Tensor, k: Tensor, mask: Tensor | None, is_causal: bool, scale: float) -> Tensor:
    scores = ops.matmul(q, k.mT) * scale
    if mask is not None and mask.shape != (0,):
        if mask.dtype is bool_:
            scores = ops.masked_fill(scores, ops.logical_not(mask), -math.inf)
        else:
            scores = scores + mask
    if is_causal:
        visible = ops.tril(ops.ones(scores.shape[-2:], dtype=bool_, device=scores.device))
        scores = ops.masked_fill(scores, ops.logical_not(visible), -math.inf)
    empty = ops.all(ops.eq(scores, -math.inf), -1, True)
    return ops.masked_fill(ops.softmax(ops.masked_fill(scores, empty, 0.0), -1), empty, 0.0)


def _for_each_head(x: Tensor, group: int) -> Tensor:
    """Return (B, G, S, E) as (B, G * group, S, E), each head repeated in place."""
    if group == 1:
        return x
    b, heads, length, width = x.shape
    return x.unsqueeze(2).expand(b, heads, group, length, width).reshape(b, heads * group, length, width)


def _over_heads(x: Tensor | None, heads_k: int, group: int) -> Tensor | None:
    """Return the sum over the heads that share keys."""
    if x is None or group == 1:
        return x
    b, _, length, width = x.shape
    return ops.sum(x.reshape(b, heads_k, group, length, width), 2)
