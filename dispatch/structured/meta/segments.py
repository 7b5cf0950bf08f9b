"""Meta functions of reductions of segments (ATen/native/SegmentReduce.cpp)."""

from __future__ import annotations

import math

from ....runtime.scalar_type import dtype as ScalarType
from ....runtime.scalar_type import int32, int64
from ....runtime.tensor_spec import TensorSpec
from ..meta_base import MetaBase
from .dims import wrap_dim
from .linalg import check_same_device

REDUCTIONS = {
    "sum": "sum",
    "mean": "mean",
    "max": "max",
    "amax": "max",
    "min": "min",
    "amin": "min",
    "prod": "prod",
}
"""Supported values of `reduce`, with their meaning."""

NOTHING = {"sum": 0.0, "mean": 0.0, "max": -math.inf, "min": math.inf, "prod": 1.0}
"""Initial value of each reduction, if none is given."""

NEGATIVE = "lengths contains negative value!"
UNEQUAL = "segment_reduce(): Expected all rows of lengths along axis to sum to data.size(lengths.dim()-1) when !unsafe."
DESCENDING = "segment_reduce(): expected offsets that do not descend, within [0, {size}], but got {wrong}"
LONG = "segment_reduce(): expected lengths that add up to at most data.size({axis}) = {size}, but got {wrong}"
"""Kernel error messages for lengths and offsets that are invalid by value."""


def check_segments(
    device: str,
    data: TensorSpec,
    reduce: str,
    lengths: TensorSpec | None,
    offsets: TensorSpec | None,
    axis: int,
) -> tuple[int, int]:
    """Return the reduced dimension, and the number of segments in a row of it."""
    dim = wrap_dim(axis, data.ndim)
    if lengths is None and offsets is None:
        raise RuntimeError("segment_reduce(): Either lengths or offsets must be defined.")
    if reduce not in REDUCTIONS:
        raise RuntimeError(f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}")
    name, bounds = ("lengths", lengths) if offsets is None else ("offsets", offsets)
    assert bounds is not None
    check_same_device("segment_reduce", data, bounds)
    if data.ndim < bounds.ndim:
        raise RuntimeError(
            f"segment_reduce(): Expected data.dim() >= {name}_value.dim() to be true, but got {data.ndim} and "
            f"{bounds.ndim}"
        )
    if dim != bounds.ndim - 1:
        raise RuntimeError(
            f"segment_reduce(): Expected axis to be the last dimension of {name} but got {dim}."
        )
    if bounds.sizes[:dim] != data.sizes[:dim]:
        raise RuntimeError(
            f"segment_reduce(): Expected {name} to have the sizes of data before axis {dim}, "
            f"{list(data.sizes[:dim])}, but got {list(bounds.sizes[:dim])}"
        )
    if bounds.dtype not in (int32, int64):
        raise refused(f"_segment_reduce_{name}_{device}_kernel1", bounds.dtype)
    if not data.dtype.is_floating_point:
        raise refused(f"_segment_reduce_{device}", data.dtype)
    if offsets is not None and not offsets.sizes[dim]:
        raise RuntimeError("segment_reduce(): Expected offsets of at least one element along axis, got none")
    return dim, bounds.sizes[dim] - (offsets is not None)


def refused(kernel: str, dtype: ScalarType) -> NotImplementedError:
    """Return PyTorch's error for a dtype that a kernel does not have."""
    return NotImplementedError(f"\"{kernel}\" not implemented for '{dtype.scalar_name}'")


def segment_reduce(
    meta: MetaBase,
    data: TensorSpec,
    reduce: str,
    lengths: TensorSpec | None,
    indices: TensorSpec | None,
    offsets: TensorSpec | None,
    axis: int,
    unsafe: bool,
    initial: object,
) -> None:
    """Infer one number for each segment along the dimension."""
    wrap_dim(axis, data.ndim)
    if indices is not None:
        raise RuntimeError("segment_reduce(): indices based reduction is not supported yet.")
    dim, count = check_segments(data.device.type, data, reduce, lengths, offsets, axis)
    if not unsafe and lengths is not None and not lengths.numel:
        raise RuntimeError(
            "segment_reduce(): Expected lengths of at least one element when !unsafe, got none"
        )
    meta.extra["dim"] = dim
    sizes = (*data.sizes[:dim], count, *data.sizes[dim + 1 :])
    meta.set_output_contiguous(0, sizes, dtype=data.dtype, device=data.device)


def _segment_reduce_backward(
    meta: MetaBase,
    grad: TensorSpec,
    output: TensorSpec,
    data: TensorSpec,
    reduce: str,
    lengths: TensorSpec | None,
    offsets: TensorSpec | None,
    axis: int,
    initial: object,
) -> None:
    """Infer the gradient of the data; tied minima or maxima share it."""
    dim, count = check_segments(data.device.type, data, reduce, lengths, offsets, axis)
    check_same_device(meta.name, data, grad, output, lengths, offsets)
    for other in (grad, output):
        if other.dtype is not data.dtype:
            raise RuntimeError(
                f"expected scalar type {data.dtype.scalar_name} but found {other.dtype.scalar_name}"
            )
        if other.sizes != (*data.sizes[:dim], count, *data.sizes[dim + 1 :]):
            raise RuntimeError(
                "_segment_reduce_backward: expected grad and output of the segments' sizes "
                f"{[*data.sizes[:dim], count, *data.sizes[dim + 1 :]]}, but got {list(other.sizes)}"
            )
    meta.extra["dim"] = dim
    meta.set_output_contiguous(0, data.sizes, dtype=data.dtype, device=data.device)
