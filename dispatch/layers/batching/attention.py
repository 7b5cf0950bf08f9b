"""Rules of attention: examples become batches of one call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .layout import Batch, Dims, Rule, apart, folded, front, rank_of, sizes_of, whole
from .random import refuse_same

if TYPE_CHECKING:
    from ...tensor import Tensor


def _mask(x: Tensor | None, dim: int | None, batch: int, size: int) -> Tensor | None:
    """Return a mask that broadcasts to (batch * b, h, l, s), from one that broadcasts to (b, h, l, s) per example."""
    if x is None:
        return None
    if sizes_of(x, dim) == (0,):
        return x.new_empty((0,))
    missing = 4 - rank_of(x, dim)
    if dim is None:
        x = x.reshape((*(1,) * missing, *x._spec.sizes))
        if x._spec.sizes[0] == 1:
            return x
        x = x.unsqueeze(0)
    else:
        x = front(x, dim)
        x = x.reshape((x._spec.sizes[0], *(1,) * missing, *x._spec.sizes[1:]))
    rest = x._spec.sizes[2:]
    return x.expand((size, batch, *rest)).reshape((size * batch, *rest))


def _results(batch: Batch, b: int, results: Any) -> tuple[Any, Any]:
    """Split the results into examples; results of fewer than two dimensions are shared by all examples."""
    mapped = [r._spec.ndim > 1 for r in results]
    values = tuple([apart(r, batch.size, b) if own else r for r, own in zip(results, mapped, strict=True)])
    return values, tuple([0 if own else None for own in mapped])


def flash_attention_for_cpu(
    batch: Batch,
    dims: Dims,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    p: float,
    causal: bool,
    mask: Tensor | None,
    scale: float | None,
) -> tuple[Any, Any]:
    """Run `_scaled_dot_product_flash_attention_for_cpu`."""
    b = _batches(query, dims[0])
    folded_args = [
        folded(whole(x, d, batch.size)) for x, d in zip((query, key, value), dims[:3], strict=True)
    ]
    return _results(
        batch, b, batch.op.call(*folded_args, p, causal, _mask(mask, dims[5], b, batch.size), scale)
    )


def flash_attention_for_cpu_backward(
    batch: Batch,
    dims: Dims,
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
    lse: Tensor,
    p: float,
    causal: bool,
    mask: Tensor | None,
    scale: float | None,
) -> tuple[Any, Any]:
    """Run `_scaled_dot_product_flash_attention_for_cpu_backward`."""
    b = _batches(query, dims[1])
    tensors = (grad, query, key, value, out, lse)
    folded_args = [folded(whole(x, d, batch.size)) for x, d in zip(tensors, dims[:6], strict=True)]
    folded_args[5] = folded_args[5].contiguous()
    return _results(
        batch, b, batch.op.call(*folded_args, p, causal, _mask(mask, dims[8], b, batch.size), scale)
    )


def efficient_attention(
    batch: Batch,
    dims: Dims,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    saves: bool,
    p: float,
    causal: bool,
    scale: float | None,
) -> tuple[Any, Any]:
    """Run `_scaled_dot_product_efficient_attention`; each example has its own dropout."""
    if p:
        refuse_same(batch)
    b = _batches(query, dims[0])
    folded_args = [
        folded(whole(x, d, batch.size)) for x, d in zip((query, key, value), dims[:3], strict=True)
    ]
    made = batch.op.call(*folded_args, _mask(bias, dims[3], b, batch.size), saves, p, causal, scale)
    return _results(batch, b, made)


def efficient_attention_backward(
    batch: Batch,
    dims: Dims,
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor,
    out: Tensor,
    lse: Tensor,
    seed: Tensor,
    offset: Tensor,
    p: float,
    grad_mask: Sequence[bool],
    causal: bool,
    scale: float | None,
) -> tuple[Any, Any]:
    """Run `_scaled_dot_product_efficient_attention_backward`, with the random numbers of all examples."""
    b = _batches(query, dims[1])
    positions = (0, 1, 2, 3, 5, 6)
    args = (grad, query, key, value, bias, out, lse)
    rows = {i: folded(whole(args[i], dims[i], batch.size)) for i in positions}
    mask = _mask(bias, dims[4], b, batch.size)
    folded_args = [rows[0], rows[1], rows[2], rows[3], mask, rows[5], rows[6].contiguous()]
    return _results(batch, b, batch.op.call(*folded_args, seed, offset, p, grad_mask, causal, scale))


def sliding_window(
    batch: Batch,
    dims: Dims,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    left: int,
    right: int,
    scale: float | None,
) -> tuple[Any, Any]:
    """Run `_sliding_window_attn`."""
    b = _batches(query, dims[0])
    folded_args = [
        folded(whole(x, d, batch.size)) for x, d in zip((query, key, value), dims[:3], strict=True)
    ]
    return _results(batch, b, batch.op.call(*folded_args, left, right, scale))


def sliding_window_backward(
    batch: Batch,
    dims: Dims,
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
    lse: Tensor,
    left: int,
    right: int,
    scale: float | None,
) -> tuple[Any, Any]:
    """Run `_sliding_window_attn_backward`."""
    b = _batches(query, dims[1])
    tensors = (grad, query, key, value, out, lse)
    folded_args = [folded(whole(x, d, batch.size)) for x, d in zip(tensors, dims[:6], strict=True)]
    folded_args[5] = folded_args[5].contiguous()
    return _results(batch, b, batch.op.call(*folded_args, left, right, scale))


def _batches(query: Tensor, dim: int | None) -> int:
    """Return the batch size of one example."""
    size: int = query._spec.sizes[0 if dim is None or dim > 0 else 1]
    return size


RULES: dict[str, Rule] = {
    "_scaled_dot_product_flash_attention_for_cpu": flash_attention_for_cpu,
    "_scaled_dot_product_flash_attention_for_cpu_backward": flash_attention_for_cpu_backward,
    "_scaled_dot_product_efficient_attention": efficient_attention,
    "_scaled_dot_product_efficient_attention_backward": efficient_attention_backward,
    "_sliding_window_attn": sliding_window,
    "_sliding_window_attn_backward": sliding_window_backward,
}
