"""Fallback for operators without a batching rule: run each example, and stack the results (functorch
BatchedFallback).
"""

from __future__ import annotations

import warnings
from typing import Any

from ....runtime.tensor_impl import TensorImpl
from ...generated import functions as ops
from .layout import Batch, Dims, refuse_inplace

_warned: set[str] = set()


def refuse_alias(name: str) -> None:
    """Raise RuntimeError for a view operator: stacked results cannot alias its input."""
    raise RuntimeError(
        f"Batching rule not implemented for {name}; the fallback path doesn't work on out= or view ops."
    )


def loop(batch: Batch, dims: Dims, *args: Any) -> tuple[Any, Any]:
    """Run the operator for each example; writes go through views of the examples.

    Raises RuntimeError for an empty batch, because the sizes of its results are unknown, and for results that are not
    tensors.
    """
    op = batch.op
    if op.name not in _warned:
        _warned.add(op.name)
        warnings.warn(
            f"There is a performance drop because we have not yet implemented the batching rule for {op.name}. "
            "Please file us an issue on GitHub so that we can prioritize its implementation.",
            UserWarning,
            stacklevel=2,
        )
    if batch.size == 0:
        raise RuntimeError(
            f"{op.name}: The fallback path does not support vmap over dims of size 0. Please rewrite your function so "
            "that there are no size 0 dimensions."
        )
    written = [i for i, a in enumerate(op.schema.arguments) if a.is_write]
    for position in written:
        if not _is_mapped(dims[position]):
            refuse_inplace(batch)
    results = [
        op.call(*[_example(a, d, i) for a, d in zip(args, dims, strict=True)]) for i in range(batch.size)
    ]
    if written:
        return None, None
    count = len(op.schema.returns)
    if count == 0:
        return None, None
    if count == 1:
        return _stacked(op.name, results)
    columns = [_stacked(op.name, column) for column in zip(*results, strict=True)]
    return tuple(c for c, _ in columns), tuple(d for _, d in columns)


def _is_mapped(dim: Any) -> bool:
    return any(d is not None for d in dim) if dim.__class__ is tuple else dim is not None


def _example(value: Any, dim: Any, index: int) -> Any:
    if dim is None:
        return value
    if dim.__class__ is tuple:
        return [_example(v, d, index) for v, d in zip(value, dim, strict=True)]
    return value.select(dim, index)


def _stacked(name: str, results: Any) -> tuple[Any, Any]:
    first = results[0]
    if isinstance(first, TensorImpl):
        return ops.stack(results, 0), 0
    if first is None:  # a gradient that was not requested
        return None, None
    if isinstance(first, list | tuple):
        lists = [_stacked(name, column) for column in zip(*results, strict=True)]
        return [value for value, _ in lists], tuple(d for _, d in lists)
    raise RuntimeError(f"Batching rule not implemented for {name}. We could not generate a fallback.")
