"""Batching rules of normalizations: examples become rows, samples or channels; per-example weights are applied last."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...generated import functions as ops
from .layout import (
    Batch,
    Dims,
    Rule,
    apart,
    as_channels,
    folded,
    from_channels,
    front,
    rank_of,
    refuse_inplace,
    result_of_one,
    sizes_of,
    whole,
)

if TYPE_CHECKING:
    from ...tensor import Tensor


def _unless_empty(rule: Rule) -> Rule:
    """Return the rule; without examples, it returns an empty batch of the operator's result for one."""

    def either(batch: Batch, dims: Dims, *args: Any) -> tuple[Any, Any]:
        if batch.size:
            return rule(batch, dims, *args)
        example_args = [
            value if dim is None else value.new_empty(sizes_of(value, dim))
            for value, dim in zip(args, dims, strict=True)
        ]
        device = next(value._spec.device for value in args if value is not None)
        made = [
            result
            if result is None
            else ops.empty((0, *result._spec.sizes), dtype=result._spec.dtype, device=device)
            for result in result_of_one(batch.op, example_args)
        ]
        return tuple(made), tuple([None if result is None else 0 for result in made])

    return either


def _behind(x: Tensor | None, dim: int | None, rank: int) -> Tensor | None:
    """Reshape a parameter of the last dimensions so that it broadcasts with (batch, *rank dimensions)."""
    if x is None or dim is None:
        return x
    x = front(x, dim)
    sizes = x._spec.sizes
    return x.reshape((sizes[0], *(1,) * (rank - len(sizes) + 1), *sizes[1:]))


def _of_channels(x: Tensor | None, dim: int | None, rank: int) -> Tensor | None:
    """Reshape a channel parameter so that it broadcasts with (batch, n, channels, ...)."""
    if x is None:
        return None
    batch = 1 if dim is None else x._spec.sizes[dim]
    return front(x, dim).reshape((batch, 1, -1, *(1,) * (rank - 2)))


def _applied(out: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    dtype = out._spec.dtype
    if weight is not None:
        out = ops.mul(out, weight)
    if bias is not None:
        out = ops.add(out, bias)
    return out.to(dtype)


def _sum(x: Tensor, dims: Sequence[int], like: Tensor) -> Tensor:
    """Sum a parameter's gradient within each example."""
    out = ops.sum(x, list(dims)) if dims else x
    return out.to(like._spec.dtype)


def layer_norm(
    batch: Batch,
    dims: Dims,
    input: Tensor,
    shape: Sequence[int],
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
) -> tuple[Any, Any]:
    """Run `native_layer_norm`, with examples as additional rows."""
    x, rank = whole(input, dims[0], batch.size), rank_of(input, dims[0])
    if dims[2] is None and dims[3] is None:
        return ops.native_layer_norm(x, shape, weight, bias, eps), (0, 0, 0)
    out, mean, rstd = ops.native_layer_norm(x, shape, None, None, eps)
    out = _applied(out, _behind(weight, dims[2], rank), _behind(bias, dims[3], rank))
    return (out, mean, rstd), (0, 0, 0)


def rms_norm(
    batch: Batch, dims: Dims, input: Tensor, shape: Sequence[int], weight: Tensor | None, eps: float | None
) -> tuple[Any, Any]:
    """Run `_fused_rms_norm`."""
    x, rank = whole(input, dims[0], batch.size), rank_of(input, dims[0])
    if dims[2] is None:
        return ops._fused_rms_norm(x, shape, weight, eps), (0, 0)
    out, rstd = ops._fused_rms_norm(x, shape, None, eps)
    return (_applied(out, _behind(weight, dims[2], rank), None), rstd), (0, 0)


def _weight_sums(
    mask: Sequence[bool], grad: Tensor, hat: Any, over: Sequence[int], like: Any
) -> tuple[list[Any], list[Any]]:
    sums = [ops.mul(grad, hat) if mask[1] else None, grad if len(mask) > 2 and mask[2] else None]
    made = [None if s is None else _sum(s, over, like) for s in sums][: len(mask) - 1]
    return made, [None if s is None else 0 for s in made]


def _hat(x: Tensor, rstd: Tensor, over: Sequence[int], centred: bool = True) -> Tensor:
    """Return the normalized input, with statistics that depend on the input for second derivatives."""
    gap = ops.sub(x, ops.mean(x, list(over), True)) if centred else x
    variance = ops.mean(ops.mul(gap, gap), list(over), True)
    rest = ops.sub(ops.pow(rstd, -2), variance).detach()
    return ops.mul(gap, ops.rsqrt(ops.add(variance, rest)))


def layer_norm_backward(
    batch: Batch,
    dims: Dims,
    grad: Tensor,
    input: Tensor,
    shape: Sequence[int],
    mean: Tensor,
    rstd: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    mask: Sequence[bool],
) -> tuple[Any, Any]:
    """Run `native_layer_norm_backward`; the weights' gradients are sums within each example."""
    rank = rank_of(input, dims[1])
    g, x, m, r = (
        whole(t, d, batch.size)
        for t, d in zip((grad, input, mean, rstd), (*dims[:2], *dims[3:5]), strict=True)
    )
    scaled = g if weight is None else _applied(g, _behind(weight, dims[5], rank), None)
    grad_input = None
    if mask[0]:
        only_input = (True, False, False)
        grad_input = ops.native_layer_norm_backward(scaled, x, shape, m, r, None, None, only_input)[0]
    like = x if weight is None and bias is None else weight if weight is not None else bias
    lead = rank - len(shape) + 1
    hat = _hat(x, r, range(lead, rank + 1)) if mask[1] else None
    sums, sum_dims = _weight_sums(mask, g, hat, range(1, lead), like)
    return (grad_input, *sums), (None if grad_input is None else 0, *sum_dims)


def rms_norm_backward(
    batch: Batch,
    dims: Dims,
    grad: Tensor,
    input: Tensor,
    shape: Sequence[int],
    rstd: Tensor,
    weight: Tensor | None,
    mask: Sequence[bool],
) -> tuple[Any, Any]:
    """Run `_fused_rms_norm_backward`."""
    rank = rank_of(input, dims[1])
    g, x, r = (
        whole(t, d, batch.size) for t, d in zip((grad, input, rstd), (*dims[:2], dims[3]), strict=True)
    )
    scaled = g if weight is None else _applied(g, _behind(weight, dims[4], rank), None)
    grad_input = None
    if mask[0]:
        grad_input = ops._fused_rms_norm_backward(scaled, x, shape, r, None, (True, False))[0]
    grad_mask = (mask[0], mask[1] and weight is not None)
    like = x if weight is None else weight
    lead = rank - len(shape) + 1
    hat = _hat(x, r, range(lead, rank + 1), centred=False) if grad_mask[1] else None
    sums, sum_dims = _weight_sums(grad_mask, g, hat, range(1, lead), like)
    return (grad_input, *sums), (None if grad_input is None else 0, *sum_dims)


def group_norm(
    batch: Batch,
    dims: Dims,
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    n: int,
    c: int,
    spatial: int,
    group: int,
    eps: float,
) -> tuple[Any, Any]:
    """Run `native_group_norm`, with examples as samples."""
    x, rank = whole(input, dims[0], batch.size), rank_of(input, dims[0])
    shared = dims[1] is None and dims[2] is None
    w, b = (weight, bias) if shared else (None, None)
    results = ops.native_group_norm(folded(x), w, b, n * batch.size, c, spatial, group, eps)
    out, mean, rstd = (apart(t, batch.size) for t in results)
    if not shared:
        out = _applied(out, _of_channels(weight, dims[1], rank), _of_channels(bias, dims[2], rank))
    return (out, mean, rstd), (0, 0, 0)


def group_norm_backward(
    batch: Batch,
    dims: Dims,
    grad: Tensor,
    input: Tensor,
    mean: Tensor,
    rstd: Tensor,
    weight: Tensor | None,
    n: int,
    c: int,
    spatial: int,
    group: int,
    mask: Sequence[bool],
) -> tuple[Any, Any]:
    """Run `native_group_norm_backward`."""
    rank = rank_of(input, dims[1])
    g, x, m, r = (whole(t, d, batch.size) for t, d in zip((grad, input, mean, rstd), dims[:4], strict=True))
    scaled = g if weight is None else _applied(g, _of_channels(weight, dims[4], rank), None)
    grad_input = None
    if mask[0]:
        count = n * batch.size
        g_all, x_all, m_all, r_all = map(folded, (scaled, x, m, r))
        made = ops.native_group_norm_backward(
            g_all, x_all, m_all, r_all, None, count, c, spatial, group, (True, False, False)
        )
        grad_input = apart(made[0], batch.size)
    hat = None
    if mask[1]:
        hat = _hat(x.reshape((batch.size, n, group, -1)), r.unsqueeze(-1), (3,)).reshape(x._spec.sizes)
    over = (1, *range(3, rank + 1))
    sums, sum_dims = _weight_sums(mask, g, hat, over, x if weight is None else weight)
    return (grad_input, *sums), (None if grad_input is None else 0, *sum_dims)


def _parameter(x: Tensor | None, dim: int | None, size: int) -> Any:
    """Reshape (batch, channels) to (batch * channels)."""
    return None if x is None else whole(x, dim, size).reshape((-1,))


def _batch_norm(
    batch: Batch,
    dims: Dims,
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    mean: Any,
    var: Any,
    training: bool,
    numbers: Sequence[float],
) -> tuple[Any, Any]:
    """Normalize with examples as channels; running statistics are updated in place."""
    size = batch.size
    written = [(mean, dims[3]), (var, dims[4])] if training and mean is not None else []
    if any(dim is None for _, dim in written):
        refuse_inplace(batch)
    rows = [_parameter(t, d, size) for t, d in zip((weight, bias, mean, var), dims[1:5], strict=True)]
    if written:
        rows[2:] = [row.clone() for row in rows[2:]]
    w, b, m, v = rows
    momentum, eps = numbers
    x = as_channels(input, dims[0], size)
    results = ops.native_batch_norm(x, w, b, m, v, training, momentum, eps)
    for (target, dim), row in zip(written, rows[2:], strict=False):
        front(target, dim).copy_(row.reshape((size, -1)))
    out, *statistics = results
    return (from_channels(out, size), *[k.reshape((size, -1)) for k in statistics]), (1, 0, 0)


def native_batch_norm(
    batch: Batch,
    dims: Dims,
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    *numbers: float,
) -> tuple[Any, Any]:
    """Run `native_batch_norm` or `_native_batch_norm_legit`."""
    return _batch_norm(batch, dims, input, weight, bias, running_mean, running_var, training, numbers)


def no_stats(
    batch: Batch,
    dims: Dims,
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    training: bool,
    *numbers: float,
) -> tuple[Any, Any]:
    """Run `_native_batch_norm_legit.no_stats`."""
    return _batch_norm(batch, (*dims[:3], None, None), input, weight, bias, None, None, training, numbers)


def no_training(
    batch: Batch,
    dims: Dims,
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    mean: Tensor,
    var: Tensor,
    *numbers: float,
) -> tuple[Any, Any]:
    """Run `_native_batch_norm_legit_no_training`."""
    return _batch_norm(batch, dims, input, weight, bias, mean, var, False, numbers)


def batch_norm_backward(
    batch: Batch,
    dims: Dims,
    grad: Tensor,
    input: Tensor,
    weight: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    save_mean: Tensor | None,
    save_invstd: Tensor | None,
    train: bool,
    eps: float,
    mask: Sequence[bool],
) -> tuple[Any, Any]:
    """Run `native_batch_norm_backward`."""
    size = batch.size
    tensors = (weight, running_mean, running_var, save_mean, save_invstd)
    rows = [_parameter(t, d, size) for t, d in zip(tensors, dims[2:7], strict=True)]
    g, x = (as_channels(t, d, size) for t, d in zip((grad, input), dims[:2], strict=True))
    w, rm, rv, sm, sr = rows
    grad_input, *sums = ops.native_batch_norm_backward(g, x, w, rm, rv, sm, sr, train, eps, mask)
    results = [None if grad_input is None else from_channels(grad_input, size)]
    results += [None if s is None else s.reshape((size, -1)) for s in sums]
    return tuple(results), tuple(None if r is None else p for r, p in zip(results, (1, 0, 0), strict=True))


_RULES: dict[str, Rule] = {
    "native_layer_norm": layer_norm,
    "native_layer_norm_backward": layer_norm_backward,
    "_fused_rms_norm": rms_norm,
    "_fused_rms_norm_backward": rms_norm_backward,
    "native_group_norm": group_norm,
    "native_group_norm_backward": group_norm_backward,
    "native_batch_norm": native_batch_norm,
    "_native_batch_norm_legit": native_batch_norm,
    "_native_batch_norm_legit.no_stats": no_stats,
    "_native_batch_norm_legit_no_training": no_training,
    "native_batch_norm_backward": batch_norm_backward,
}

RULES: dict[str, Rule] = {name: _unless_empty(rule) for name, rule in _RULES.items()}
