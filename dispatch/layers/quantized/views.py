"""Views of quantized tensors: views of their integers, with the quantizer that the remaining channels have.

A tensor with a per-channel quantizer has the same views as in PyTorch (ATen/native/TensorShape.cpp).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ....runtime.quantized_data import PerChannel, PerTensorAffine
from ....runtime.scalar_type import quint4x2
from ...composite.quantized import quantized_tensor
from ...core.op_overload import find_overload
from ...core.operator_entry import OperatorEntry
from ...structured.meta.views import INTEGER, NEW_AXIS

Geometry = Callable[[Any, Sequence[Any]], Any]
"""Quantizer of a per-channel tensor's view, from the tensor and the other arguments."""


def viewed(op: OperatorEntry) -> Callable[..., Any]:
    """Return the function that makes an operator's views."""
    short = op.name.partition("::")[2]
    channels = CHANNELS.get(short)

    def view(self: Any, *args: Any) -> Any:
        data, dtype = self._data, self._spec.dtype
        if dtype is quint4x2:
            return _packed_view(op, self, args)
        if short == "view.dtype":
            raise RuntimeError(f"view(dtype): expected a tensor that is not quantized, got {dtype}")
        if not isinstance(data.quantizer, PerChannel):
            return quantized_tensor(op.call(data.ints, *args), data.quantizer, dtype)
        if short == "_basic_index":
            return _step_by_step(self, args[0])
        if channels is None:
            raise RuntimeError("Setting strides is possible only on uniformly quantized tensor")
        ints = op.call(data.ints, *args)
        quantizer = channels(self, args)
        if isinstance(quantizer, PerChannel):
            check_axis(ints._spec.sizes, quantizer)
        return quantized_tensor(ints, quantizer, dtype)

    view.__module__ = __name__
    return view


def _packed_view(op: OperatorEntry, self: Any, args: Sequence[Any]) -> Any:
    """View packed sub-byte elements with other sizes. Raises NotImplementedError for another view."""
    data = self._data
    if op.name == "aten::alias":
        sizes = self._spec.sizes
    elif op.name == "aten::view" and isinstance(data.quantizer, PerTensorAffine):
        # A tensor without bytes resolves the sizes, including a -1.
        sizes = (
            find_overload("aten::empty.memory_format")(self._spec.sizes, device="meta").view(args[0]).shape
        )
    else:
        raise NotImplementedError(f"\"{op.name.partition('::')[2]}\" not implemented for 'QUInt4x2'")
    return quantized_tensor(data.ints.alias(), data.quantizer, self._spec.dtype, sizes)


def check_axis(sizes: Sequence[int], quantizer: PerChannel) -> None:
    """Raise RuntimeError if a view's dimension does not have one index per channel."""
    count, axis = quantizer.scales._spec.numel, quantizer.axis
    if not 0 <= axis < len(sizes):
        raise RuntimeError(
            f"Channel axis out of range in per channel affine quantization. Got: {axis}Expected: [0, {len(sizes)})"
        )
    if sizes[axis] != count:
        raise RuntimeError(f"length of scales must equal to channel, expected {sizes[axis]} got, {count}")


def wrapped(dim: int, ndim: int) -> int:
    """Return a dimension counted from the first one."""
    return dim % ndim if ndim else 0


def shifted(quantizer: Any, axis: int) -> Any:
    """Return the same channels along another dimension."""
    return type(quantizer)(quantizer.scales, quantizer.zero_points, axis)


def of_channels(quantizer: Any, pick: Callable[[Any], Any], axis: int) -> Any:
    """Return the quantizer of some channels; a single channel gives a per-tensor quantizer.

    On a GPU the host waits for its scale.
    """
    scales, zero_points = pick(quantizer.scales), pick(quantizer.zero_points)
    if scales._spec.numel > 1:
        return type(quantizer)(scales.contiguous(), zero_points.contiguous(), axis)
    if not scales._spec.numel:
        return type(quantizer)(scales, zero_points, axis)
    if scales._spec.is_meta:
        return PerTensorAffine(1.0, 0)
    return PerTensorAffine(float(scales.float().item()), int(zero_points.item()))


def _slice(self: Any, args: Sequence[Any]) -> Any:
    quantizer, (dim, start, end, step) = self._data.quantizer, args
    dim = wrapped(dim, self._spec.ndim)
    if dim != quantizer.axis:
        return of_channels(quantizer, lambda channels: channels, quantizer.axis)
    return of_channels(quantizer, lambda channels: channels[start:end:step], dim)


def _slice_first(self: Any, args: Sequence[Any]) -> Any:
    return _slice(self, (0, *args))


def _select(self: Any, args: Sequence[Any]) -> Any:
    quantizer, (dim, index) = self._data.quantizer, args
    dim = wrapped(dim, self._spec.ndim)
    if dim == quantizer.axis:
        return of_channels(quantizer, lambda channels: channels[index : index + 1 or None], dim)
    return shifted(quantizer, quantizer.axis - (dim < quantizer.axis))


def _unsqueeze(self: Any, args: Sequence[Any]) -> Any:
    quantizer = self._data.quantizer
    dim = wrapped(args[0], self._spec.ndim + 1)
    return shifted(quantizer, quantizer.axis + (dim <= quantizer.axis))


def _without(self: Any, dims: Sequence[int]) -> Any:
    quantizer, sizes = self._data.quantizer, self._spec.sizes
    gone = {d for d in dims if sizes[d] == 1}
    if quantizer.axis in gone:
        raise RuntimeError(
            "Squeeze is only possible on non-axis dimension for Per-Channel Quantized Tensors."
        )
    return shifted(quantizer, quantizer.axis - sum(d < quantizer.axis for d in gone))


def _squeeze(self: Any, args: Sequence[Any]) -> Any:
    return _without(self, range(self._spec.ndim))


def _squeeze_dim(self: Any, args: Sequence[Any]) -> Any:
    dims = args[0] if isinstance(args[0], list | tuple) else (args[0],)
    return _without(self, [wrapped(d, self._spec.ndim) for d in dims])


def _same(self: Any, args: Sequence[Any]) -> Any:
    return self._data.quantizer


CHANNELS: dict[str, Geometry] = {
    "alias": _same,
    "view": _same,
    "slice.Tensor": _slice,
    "_slice_first": _slice_first,
    "select.int": _select,
    "unsqueeze": _unsqueeze,
    "squeeze": _squeeze,
    "squeeze.dim": _squeeze_dim,
    "squeeze.dims": _squeeze_dim,
}
"""Channels that a view keeps, by operator; other views of per-channel tensors are refused."""


def _step_by_step(self: Any, index: Sequence[int]) -> Any:
    """Return ``x[...]`` of a per-channel tensor, one dimension after the other."""
    dim = 0
    for position in range(0, len(index), 4):
        kind, start, stop, step = index[position : position + 4]
        if kind == NEW_AXIS:
            self = self.unsqueeze(dim)
            dim += 1
        elif kind == INTEGER:
            self = self.select(dim, start)
        else:
            self = find_overload("aten::slice.Tensor")(self, dim, start, stop, step)
            dim += 1
    return self
