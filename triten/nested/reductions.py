"""Reductions of jagged tensors: over dense dimensions, over sequences, over all."""

from __future__ import annotations

from typing import Any

from ..dispatch.generated import functions as ops
from ..dispatch.tensor import Tensor
from ..runtime.scalar_type import iinfo
from .nested_tensor import JAGGED, NestedTensor
from .padding import inner_dim, wrapped
from .pointwise import pointwise
from .ragged import Raggedness, pad


def _least(values: Tensor) -> Any:
    if values.is_floating_point():
        return float("-inf")
    return iinfo(values.dtype).min if values.dtype.itemsize > 1 or values.dtype.is_signed else 0


def _greatest(values: Tensor) -> Any:
    return float("inf") if values.is_floating_point() else iinfo(values.dtype).max


IDENTITIES: dict[str, Any] = {
    "sum": 0,
    "nansum": 0,
    "prod": 1,
    "amax": _least,
    "argmax": _least,
    "max": _least,
    "amin": _greatest,
    "argmin": _greatest,
    "min": _greatest,
    "any": False,
    "all": True,
    "logsumexp": float("-inf"),
    "count_nonzero": 0,
}
"""What padding has to be so that a reduction over a padded sequence is that over the sequence."""

WITH_INDICES = ("max", "min")
"""Reductions along a dimension that give indices, too."""


def _segments(name: str, values: Tensor, raggedness: Raggedness, dim: int, keepdim: bool, named: Any) -> Any:
    """Reduce each sequence along the packed dimension `dim`: (batch, ...)."""
    dtype = named.get("dtype")
    if name == "sum" and values.is_floating_point() and (dtype is None or dtype.is_floating_point):
        rows = values.movedim(dim, 0) if dtype is None else values.movedim(dim, 0).to(dtype)
        total = ops.segment_reduce(rows, "sum", offsets=raggedness.offsets, axis=0)
        return total.unsqueeze(dim + 1) if keepdim else total
    identity = IDENTITIES[name]
    if name in ("any", "all"):
        values = values != 0
    padding = identity(values) if callable(identity) else identity
    padded = pad(values, raggedness, dim, padding)
    return getattr(ops, name)(padded, dim + 1, keepdim, **named)


def _mean(values: Tensor, raggedness: Raggedness, dim: int, keepdim: bool, named: Any) -> Tensor:
    total = _segments("sum", values, raggedness, dim, True, named)
    lengths = raggedness.segment_lengths.to(total.dtype)
    mean: Tensor = total / lengths.view(-1, *(1,) * (total.dim() - 1))
    return mean if keepdim else mean.squeeze(dim + 1)


def _reduction(name: str) -> None:
    operator = getattr(ops, name)

    def rule(input: NestedTensor, dim: Any = None, keepdim: bool = False, **named: Any) -> Any:
        if isinstance(dim, Tensor):  # max(input, other)
            return pointwise(operator, (input, dim), {})
        named = {each: value for each, value in named.items() if value is not None}
        if dim is None or dim == () or dim == []:
            return operator(input.packed()._packed, **named)
        dims = sorted({wrapped(input, each, name) for each in ([dim] if isinstance(dim, int) else dim)})
        ragged = input._ragged_idx
        if ragged not in dims:
            if 0 in dims:
                raise RuntimeError(
                    f"{name}(): reducing along the batch dimension but not the ragged dimension is not supported for "
                    "nested tensors"
                )
            inner: Any = [each - 1 for each in dims]
            result = operator(input._packed, inner[0] if isinstance(dim, int) else inner, keepdim, **named)
            after = ragged if keepdim else ragged - sum(each < ragged for each in dims)
            if isinstance(result, tuple):
                return result._make(input.like(each, after) for each in result)  # type: ignore[attr-defined]
            return input.like(result, after)
        packed = input.packed()
        if 0 in dims:
            inner = [each - 1 for each in dims if each]
            total = operator(packed._packed, inner[0] if len(inner) == 1 else inner, keepdim, **named)
            return total.unsqueeze(0) if keepdim else total
        if len(dims) > 1:
            raise RuntimeError(
                f"{name}(): reducing along a ragged and non-batch dimension is not supported for nested tensors"
            )
        reduced = _mean if name == "mean" else None
        if reduced is not None:
            return reduced(packed._packed, packed._raggedness, ragged - 1, keepdim, named)
        if name not in IDENTITIES:
            raise NotImplementedError(
                f"{name}(): not supported for nested tensors along the ragged dimension"
            )
        return _segments(name, packed._packed, packed._raggedness, ragged - 1, keepdim, named)

    JAGGED.signature(name)(rule)


for _name in (*IDENTITIES, "mean", "median"):
    _reduction(_name)


def _dense(name: str, input: NestedTensor, dim: Any, keepdim: bool, named: dict[str, Any]) -> Any:
    """Reduce over dense dimensions or over all, but not along sequences."""
    operator = getattr(ops, name)
    if dim is None:
        return operator(input.packed()._packed, **named)
    requested = [dim] if isinstance(dim, int) else list(dim)
    if input._ragged_idx in [wrapped(input, each, name) for each in requested]:
        raise NotImplementedError(f"{name}(): not supported for nested tensors along the ragged dimension")
    dims = [inner_dim(input, each, name) for each in requested]
    after = input._ragged_idx - (0 if keepdim else sum(each + 1 < input._ragged_idx for each in set(dims)))
    return input.like(operator(input._packed, dim=dims, keepdim=keepdim, **named), after)


def _deviation(name: str) -> None:
    def rule(
        input: NestedTensor,
        dim: Any = None,
        unbiased: bool = True,
        keepdim: bool = False,
        *,
        correction: Any = None,
    ) -> Any:
        if isinstance(dim, bool):
            dim, unbiased = None, dim
        correction = int(unbiased) if correction is None else correction
        return _dense(name, input, dim, keepdim, {"correction": correction})

    JAGGED.signature(name)(rule)


_deviation("var")
_deviation("std")


@JAGGED.signature("linalg_vector_norm", "norm", "vector_norm")
def vector_norm(
    input: NestedTensor,
    ord: Any = 2,
    dim: Any = None,
    keepdim: bool = False,
    dtype: Any = None,
    **named: Any,
) -> Any:
    order = named.pop("p", ord)
    return _dense(
        "linalg_vector_norm", input, dim, keepdim, {"ord": 2 if order == "fro" else order, "dtype": dtype}
    )
