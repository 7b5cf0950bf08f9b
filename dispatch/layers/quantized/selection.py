"""Operators that move or select elements of quantized tensors: they run on the integers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ....runtime.quantized_data import PerTensorAffine
from ....runtime.scalar_type import qint32
from ...composite.quantized import is_quantized, numbers_of, quantized_by, quantized_tensor, vector_numbers_of
from ...generated import functions as ops
from .pointwise import LANES, are_channels_last, check_uniform, nearest, requantized, require_quantized
from .structure import rewrapped
from .table import find, refuse_packed

MOVED = (
    *("index.Tensor", "index_select", "flip", "repeat", "native_channel_shuffle", "channel_shuffle"),
    *("reflection_pad1d", "reflection_pad2d", "pixel_shuffle", "pixel_unshuffle"),
)
"""Operators that give elements of their first argument."""


def moved(name: str) -> Callable[..., Any]:
    """Return an operator that moves integers."""
    entry = find(f"aten::{name}")
    short = name.partition(".")[0]

    def move(self: Any, *rest: Any) -> Any:
        check_moved(short, self)
        return rewrapped(self, entry.call(self._data.ints, *rest))

    move.__module__ = __name__
    return move


def check_moved(name: str, self: Any) -> None:
    """Raise RuntimeError for a per-channel tensor, whose scales would have to move too."""
    require_quantized(name, self)
    refuse_packed(name, self)
    if not isinstance(self._data.quantizer, PerTensorAffine):
        raise RuntimeError(f"Only per_tensor quantized quantized tensors are supported by {name}.")


def cat(tensors: Sequence[Any], dim: int) -> Any:
    """Concatenate tensors, on the grid of the first."""
    require_quantized("cat", *tensors)
    return joined(tensors, dim, None)


def joined(
    tensors: Sequence[Any],
    dim: int,
    quantizer: PerTensorAffine | None,
    relu: bool = False,
    stacks: bool = False,
) -> Any:
    """Concatenate tensors with one quantizer, by default that of the first; `relu` clamps at zero."""
    first = tensors[0]
    for each in tensors:
        if each._spec.dtype is not first._spec.dtype:
            raise RuntimeError("All dtypes must be the same.")
        if not isinstance(each._data.quantizer, PerTensorAffine):
            raise RuntimeError("Only per-tensor quantization is supported in 'cat'!")
    refuse_packed("cat", first)
    grid: PerTensorAffine = first._data.quantizer if quantizer is None else quantizer
    dtype = first._spec.dtype
    ndim = first._spec.ndim
    by_channels = ndim == 4 and dim % ndim == 1 and not stacks and all(map(are_channels_last, tensors))
    ints = [onto(each, grid, by_channels)._data.ints for each in tensors]
    out = ops.cat(ints, dim)
    if relu:
        out = out.clamp(min=grid.zero_point)
    return quantized_tensor(out, grid, dtype)


def onto(self: Any, grid: PerTensorAffine, by_channels: bool) -> Any:
    """Requantize a tensor. Even with an unchanged quantizer, qint32 goes through float32 unless it is channels-last."""
    dtype = self._spec.dtype
    if self._data.quantizer == grid and (by_channels or dtype is not qint32):
        return self
    if by_channels and self._spec.sizes[1] >= LANES:
        return requantized(vector_numbers_of(self), grid, dtype)
    return quantized_by(numbers_of(self), grid, dtype)


def stack(tensors: Sequence[Any], dim: int) -> Any:
    """Stack tensors along a new dimension, with the quantizer of the first."""
    require_quantized("stack", *tensors)
    ndim = tensors[0]._spec.ndim + 1
    return joined([each.unsqueeze(dim % ndim) for each in tensors], dim % ndim, None, stacks=True)


def constant_pad_nd(self: Any, pad: Sequence[int], value: Any) -> Any:
    """Pad with the integer nearest to a number."""
    check_moved("constant_pad_nd", self)
    filler = nearest(float(value), self._data.quantizer, self._spec.dtype)
    return rewrapped(self, ops.constant_pad_nd(self._data.ints, pad, filler))


def masked_fill(self: Any, mask: Any, value: Any) -> Any:
    """Fill the masked elements with the integer nearest to a number."""
    require_quantized("masked_fill", self)
    if not isinstance(self._data.quantizer, PerTensorAffine):
        raise RuntimeError(
            "masked_fill__quantized_cpu for quantized tensors is currently only supported for per tensor quantized "
            "tensors"
        )
    quantizer = check_uniform("masked_fill", self)
    number = float(value.item()) if hasattr(value, "_spec") else float(value)
    return rewrapped(self, self._data.ints.masked_fill(mask, nearest(number, quantizer, self._spec.dtype)))


def index_put(self: Any, indices: Sequence[Any], values: Any, accumulate: bool) -> Any:
    """Write the integers nearest to floating numbers at some indices."""
    if not isinstance(self._data.quantizer, PerTensorAffine):
        raise RuntimeError(
            "index_put for quantized tensors is currently only supported for per tensor quantized tensors"
        )
    if is_quantized(values):
        raise RuntimeError("Value argument for quantized input_put should not be quantized")
    if accumulate:
        raise RuntimeError("index_put for quantized tensors is currently not supported for accumulate=True")
    quantizer = check_uniform("index_put", self)
    ints = quantized_by(values, quantizer, self._spec.dtype)._data.ints
    return rewrapped(self, ops.index_put(self._data.ints, indices, ints))


def _index_put_impl_(self: Any, indices: Sequence[Any], values: Any, accumulate: bool, unsafe: bool) -> Any:
    self._data.ints.copy_(index_put(self, indices, values, accumulate)._data.ints)
    return self


def sort(self: Any, stable: bool | None, dim: int, descending: bool) -> tuple[Any, Any]:
    """Return the sorted elements and their indices."""
    check_moved("sort", self)
    values, indices = ops.sort(self._data.ints, stable=stable, dim=dim, descending=descending)
    return rewrapped(self, values), indices


def topk(self: Any, k: int, dim: int, largest: bool, sorted: bool) -> tuple[Any, Any]:
    """Return the largest or smallest elements of each row, and their indices."""
    if not isinstance(self._data.quantizer, PerTensorAffine):
        raise RuntimeError("Top-K is only supported on per-tensor quantization")
    check_moved("topk", self)
    values, indices = ops.topk(self._data.ints, k, dim, largest, sorted)
    return rewrapped(self, values), indices


def extreme(name: str) -> Callable[..., Any]:
    """Return the maximum or the minimum."""
    function = getattr(ops, name)

    def of_all(self: Any) -> Any:
        require_quantized(name, self)
        if not isinstance(self._data.quantizer, PerTensorAffine):
            raise RuntimeError(
                f"{name.title()} operator for quantized tensors only works for per tensor quantized tensors."
            )
        refuse_packed(name, self)
        return rewrapped(self, function(self._data.ints))

    of_all.__module__ = __name__
    return of_all


def extreme_along(name: str) -> Callable[..., Any]:
    """Return the maximum or minimum of each row, and its index."""
    function = getattr(ops, name)

    def along(self: Any, dim: int, keepdim: bool) -> tuple[Any, Any]:
        if not isinstance(self._data.quantizer, PerTensorAffine):
            raise RuntimeError(
                f"{name.title()} operator for quantized tensors only works for per tensor quantized tensors."
            )
        refuse_packed(name, self)
        values, indices = function(self._data.ints, dim, keepdim)
        return rewrapped(self, values), indices

    along.__module__ = __name__
    return along


KERNELS: dict[str, Callable[..., Any]] = {
    **{name: moved(name) for name in MOVED},
    "cat": cat,
    "stack": stack,
    "constant_pad_nd": constant_pad_nd,
    "masked_fill.Scalar": masked_fill,
    "masked_fill.Tensor": masked_fill,
    "index_put": index_put,
    "_index_put_impl_": _index_put_impl_,
    "sort.stable": sort,
    "sort": lambda self, dim, descending: sort(self, False, dim, descending),
    "topk": topk,
    "max": extreme("max"),
    "min": extreme("min"),
    "max.dim": extreme_along("max"),
    "min.dim": extreme_along("min"),
}
