"""Rules of reductions, scans and normalisations along dimensions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ...generated import functions as ops
from .layout import Batch, Dims, Rule, front, numel_of, rank_of, shifted, whole

if TYPE_CHECKING:
    from ...tensor import Tensor


def along(dim_at: int, keepdim_at: int | None = None, tensors: int = 1) -> Rule:
    """Return the rule of an operator along the dimensions in its argument `dim_at`.

    Args:
        dim_at: Position of the dimension argument: a dimension or a list. None or an empty list means all, unless only
            one is allowed.
        keepdim_at: Position of the `keepdim` argument; None for operators that do not reduce.
        tensors: Number of leading arguments that are tensors of one shape.
    """

    def rule(batch: Batch, dims: Dims, *args: Any) -> tuple[Any, Any]:
        batched_args = list(args)
        rank = rank_of(args[0], dims[0])
        for i in range(tensors):
            batched_args[i] = whole(args[i], dims[i], batch.size)
            if rank == 0:
                batched_args[i] = batched_args[i].unsqueeze(1)
        batched_args[dim_at] = inner_dims(args[dim_at], rank)
        if rank == 0 and keepdim_at is not None:
            batched_args[keepdim_at] = False
        out = batch.op.call(*batched_args)
        if rank == 0 and keepdim_at is None:
            out = tuple([o.squeeze(1) for o in out]) if isinstance(out, tuple) else out.squeeze(1)
        return out, tuple([0] * len(out)) if isinstance(out, tuple) else 0

    return rule


def inner_dims(dim: int | Sequence[int] | None, rank: int) -> int | tuple[int, ...]:
    """Return dimensions of one example after the mapped one; a 0-d tensor counts as having one."""
    if isinstance(dim, int):
        return shifted(dim, rank)
    if not dim:
        return tuple(range(1, max(rank, 1) + 1))
    return tuple([shifted(d, rank) for d in dim])


def scan_(batch: Batch, dims: Dims, self: Tensor, dim: int, *more: Any) -> tuple[Any, Any]:
    """Run `cumsum_` or `cumprod_` in place, so that there is always a mapped dimension."""
    x, rank = front(self, dims[0]), rank_of(self, dims[0])
    batch.op.call(x if rank else x.unsqueeze(1), shifted(dim, rank), *more)
    return None, None


def _flat(x: Tensor, dim: int) -> Tensor:
    """Reshape to (batch, elements of one example)."""
    return front(x, dim).reshape((x._spec.sizes[dim], numel_of(x, dim)))


_TOTALS: dict[str, Callable[..., Any]] = {"sum": ops.sum, "mean": ops.mean, "prod": ops.prod}
_EXTREMA: dict[str, Callable[..., Any]] = {"max": ops.amax, "min": ops.amin, "any": ops.any, "all": ops.all}


def total(batch: Batch, dims: Dims, self: Tensor, *dtype: Any) -> tuple[Any, Any]:
    """Run `sum`, `mean` or `prod` over all elements of an example."""
    name = batch.op.name.removeprefix("aten::")
    return _TOTALS[name](_flat(self, dims[0]), 1, dtype=dtype[0]), 0


def extremum(batch: Batch, dims: Dims, self: Tensor) -> tuple[Any, Any]:
    """Run `max`, `min`, `any` or `all` over all elements of an example."""
    name = batch.op.name.removeprefix("aten::")
    return _EXTREMA[name](_flat(self, dims[0]), 1), 0


def deviation(batch: Batch, dims: Dims, self: Tensor, unbiased: bool) -> tuple[Any, Any]:
    """Run `var` or `std` over all elements of an example."""
    reduce: Callable[..., Any] = ops.var if batch.op.name == "aten::var" else ops.std
    return reduce(_flat(self, dims[0]), 1, correction=int(unbiased)), 0


def place_of_extremum(
    batch: Batch, dims: Dims, self: Tensor, dim: int | None, keepdim: bool
) -> tuple[Any, Any]:
    """Run `argmax` or `argmin`: without `dim`, return the index in the flattened example."""
    if dim is not None:
        return _ARG(batch, dims, self, dim, keepdim)
    out = batch.op.call(_flat(self, dims[0]), 1, False)
    return out.reshape((out._spec.sizes[0], *(1,) * rank_of(self, dims[0]))) if keepdim else out, 0


def extrema(batch: Batch, dims: Dims, self: Tensor, dim: int | None, keepdim: bool) -> tuple[Any, Any]:
    """Run `aminmax`."""
    if dim is not None:
        return _ARG(batch, dims, self, dim, keepdim)
    low, high = batch.op.call(_flat(self, dims[0]), 1, False)
    if keepdim:
        sizes = (low._spec.sizes[0], *(1,) * rank_of(self, dims[0]))
        low, high = low.reshape(sizes), high.reshape(sizes)
    return (low, high), (0, 0)


def middle(batch: Batch, dims: Dims, self: Tensor) -> tuple[Any, Any]:
    """Run `median` or `nanmedian` over all elements of an example."""
    select: Callable[..., Any] = ops.median if batch.op.name == "aten::median" else ops.nanmedian
    return select(_flat(self, dims[0]), 1)[0], 0


def flip(batch: Batch, dims: Dims, self: Tensor, over: Sequence[int]) -> tuple[Any, Any]:
    """Run `flip`; without dimensions it is a copy."""
    if not over:
        return self.clone(), dims[0]
    return _FLIP(batch, dims, self, over)


_ARG = along(1, 2)
_FLIP = along(1)
_SOFTMAX_BACKWARD = along(2, tensors=2)

RULES: dict[str, Rule] = {
    "sum": total,
    "mean": total,
    "prod": total,
    "max": extremum,
    "min": extremum,
    "any": extremum,
    "all": extremum,
    "var": deviation,
    "std": deviation,
    "argmax": place_of_extremum,
    "argmin": place_of_extremum,
    "aminmax": extrema,
    "flip": flip,
    "cumsum": along(1),
    "hash_tensor": along(1, 2),
    "kthvalue": along(2, 3),
    "median": middle,
    "nanmedian": middle,
    "sort": along(1),
    "sort.stable": along(2),
    "topk": along(2),
    "linalg_vector_norm": along(2, 3),
    "_vector_norm": along(2, 3),
    "cumsum_": scan_,
    "cumprod_": scan_,
    **{name: along(1) for name in ("cumprod", "logcumsumexp", "cummax", "cummin")},
    "_softmax": along(1),
    "_log_softmax": along(1),
    "_softmax_backward_data": _SOFTMAX_BACKWARD,
    "_log_softmax_backward_data": _SOFTMAX_BACKWARD,
    "var.dim": along(1, 3),
    "std.dim": along(1, 3),
    **{name: along(1, 3) for name in ("var.correction", "std.correction")},
    **{name: along(1, 3) for name in ("var_mean.correction", "std_mean.correction")},
    **dict.fromkeys(
        (
            "sum.dim_IntList",
            "mean.dim",
            "prod.dim_int",
            "amax",
            "amin",
            "max.dim",
            "median.dim",
            "nanmedian.dim",
            "min.dim",
            "any.dim",
            "any.dims",
            "all.dim",
            "all.dims",
            "logsumexp",
        ),
        _ARG,
    ),
}
