"""Functions of the elements of quantized tensors (ATen/native/quantized/cpu/kernels/QuantizedOpKernels.cpp).

Functions that keep the quantizer work on integers. Others compute in float32, with the rounding of PyTorch's CPU
kernels.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ....runtime.memory_format import channels_last, channels_last_3d
from ....runtime.quantized_data import LIMITS, PerTensorAffine
from ....runtime.scalar_type import dtype as ScalarType
from ....runtime.scalar_type import float32, float64, qint8, qint32
from ....runtime.tensor_impl import TensorImpl
from ...composite.quantized import is_quantized, numbers_of, quantized_by, quantized_tensor, vector_numbers_of
from ...generated import functions as ops
from .structure import rewrapped, uniform
from .table import refuse_packed

single = np.float32


def nearest(number: float, quantizer: PerTensorAffine, dtype: ScalarType) -> int:
    """Return the integer nearest to a number."""
    least, greatest = LIMITS[dtype]
    inverse = float(single(1) / single(quantizer.scale))
    product = float(single(number)) * inverse
    # For 32 bits the product is rounded separately, as in `quantized_by`.
    steps = single(
        (float(single(product)) if dtype is qint32 else product) + float(single(quantizer.zero_point))
    )
    if np.isnan(steps):
        return least if dtype is qint32 else greatest
    return int(min(max(float(np.rint(steps)), least), greatest))


def requantized(numbers: Any, quantizer: PerTensorAffine, dtype: ScalarType) -> Any:
    """Quantize a kernel's float32 result. For 8 bits the zero point is added after rounding."""
    if dtype is qint32:
        return quantized_by(numbers, quantizer, dtype)
    inverse = float(single(1) / single(quantizer.scale))
    ints = ops._requantize(numbers, inverse, quantizer.zero_point, dtype)
    return quantized_tensor(ints, quantizer, dtype)


LANES = 16
"""Number of elements in an AVX-512 vector: fewer channels are computed one by one."""


def are_channels_last(self: Any) -> bool:
    """Return True if PyTorch takes its channels-last kernels, which it also does for a single channel."""
    formats = {4: channels_last, 5: channels_last_3d}
    ndim = self._spec.ndim
    return ndim in formats and bool(self._data.ints.is_contiguous(memory_format=formats[ndim]))


def check_uniform(name: str, self: Any) -> PerTensorAffine:
    """Return the per-tensor quantizer of a tensor. Raises RuntimeError for per-channel, NotImplementedError for none.

    Raises RuntimeError for channels, NotImplementedError for none.
    """
    require_quantized(name, self)
    refuse_packed(name, self)
    return uniform(self)


def require_quantized(name: str, *tensors: Any) -> None:
    """Raise NotImplementedError for a tensor that is not quantized."""
    for each in tensors:
        if not is_quantized(each):
            raise NotImplementedError(
                f"Could not run 'aten::qscheme' with arguments from the '{each._spec.device.type.upper()}' backend: "
                f"{name} expected a quantized tensor, got one of dtype {each._spec.dtype}"
            )


def relu(self: Any) -> Any:
    """Clamp at zero."""
    quantizer = check_uniform("relu", self)
    return rewrapped(self, self._data.ints.clamp(min=quantizer.zero_point))


def clamp(self: Any, min: Any, max: Any) -> Any:
    """Clamp between the integers nearest to two numbers, of which one may be omitted."""
    quantizer = check_uniform("clamp", self)
    if min is None and max is None:
        raise RuntimeError("Both min and max not specified")
    dtype = self._spec.dtype
    low, high = (None if each is None else nearest(each, quantizer, dtype) for each in (min, max))
    return rewrapped(self, self._data.ints.clamp(low, high))


def hardtanh(self: Any, min_val: Any, max_val: Any) -> Any:
    return clamp(self, min_val, max_val)


def gelu_on_single(self: Any, approximate: str = "none") -> Any:
    """Compute GELU with the quantizer of the argument, whose scale is rounded to float32."""
    quantizer = check_uniform("gelu", self)
    grid = PerTensorAffine(float(single(quantizer.scale)), quantizer.zero_point)
    return requantized(gelu(vector_numbers_of(self), approximate), grid, self._spec.dtype)


def through_floats(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a float32 function whose result has the quantizer of the argument."""

    def on_same_grid(self: Any, *rest: Any) -> Any:
        quantizer = check_uniform(name, self)
        return requantized(function(vector_numbers_of(self), *rest), quantizer, self._spec.dtype)

    on_same_grid.__module__ = __name__
    return on_same_grid


def in_float64(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a float32 function that is computed in float64 and rounded: 32-bit results show the last bit."""
    return lambda x: function(x.to(float64)).to(float32)


def on_fixed_grid(
    name: str,
    function: Callable[..., Any],
    grids: dict[Any, PerTensorAffine],
    to_32_bits: Callable[..., Any] | None = None,
) -> Callable[..., Any]:
    """Return a float32 function with a known output range, and therefore a fixed quantizer.

    For `qint32` results, another function may be given.
    """

    def on_its_grid(self: Any) -> Any:
        check_uniform(name, self)
        dtype = self._spec.dtype
        grid = grids.get(dtype, grids[None])
        compute = to_32_bits if to_32_bits is not None and dtype is qint32 else function
        return requantized(compute(vector_numbers_of(self)), grid, dtype)

    on_its_grid.__module__ = __name__
    return on_its_grid


UNIT_GRIDS = {
    None: PerTensorAffine(1 / 256, 0),
    qint8: PerTensorAffine(1 / 256, -128),
    qint32: PerTensorAffine(2.0**-32, 0),
}
"""Grids for numbers from 0 to 1."""

SYMMETRIC_GRIDS = {
    None: PerTensorAffine(1 / 128, 128),
    qint8: PerTensorAffine(1 / 128, 0),
    qint32: PerTensorAffine(2.0**-31, 0),
}
"""Grids for numbers from -1 to 1."""


def threshold(x: Any, limit: Any, value: Any) -> Any:
    """Return the values above a limit, and another number elsewhere."""
    return ops.where(x > limit, x, single(value).item())


def leaky_relu(x: Any, slope: Any) -> Any:
    return ops.where(x > 0, x, x * slope)


def gelu(x: Any, approximate: str = "none") -> Any:
    if approximate != "none":
        return ops.gelu(x, approximate=approximate)
    return x * 0.5 * (ops.erf(x * float(single(0.7071067811865476))) + 1)


def sigmoid_by_steps(x: Any) -> Any:
    """Compute the sigmoid with every operation rounded to float32."""
    return (in_float64(ops.exp)(x.neg()) + 1).reciprocal()


def hardsigmoid(x: Any) -> Any:
    return (x + 3).clamp(0, 6) / 6


def hardswish(x: Any) -> Any:
    return x * (x + 3).clamp(0, 6) / 6


def _prelu_kernel(self: Any, weight: Any) -> Any:
    """Compute PReLU: multiply negative values by a weight, which is quantized too."""
    quantizer = check_uniform("prelu", self)
    require_quantized("prelu", weight)
    return requantized(prelu_of(self, weight), quantizer, self._spec.dtype)


def prelu_of(self: Any, weight: Any) -> Any:
    """Compute PReLU of a quantized tensor: multiply negative values by the channel's weight."""
    x, weights = vector_numbers_of(self), vector_numbers_of(weight)
    count, channels = weight._spec.numel, self._spec.sizes[1] if self._spec.ndim > 1 else 1
    if weight._spec.ndim != self._spec.ndim:
        if count not in (1, channels):
            raise RuntimeError(
                f"Mismatch of parameter numbers and input channel size. Found parameter numbers = {count} and channel "
                f"size = {channels}."
            )
        weights = weights.reshape([-1 if d == 1 else 1 for d in range(self._spec.ndim)])
    return ops.where(x > 0, x, x * weights)


def comparison(name: str) -> Callable[..., Any]:
    """Return a comparison of the numbers."""
    function = getattr(ops, name)

    def compare(self: Any, other: Any) -> Any:
        if isinstance(other, TensorImpl) and is_quantized(other):
            other = numbers_of(other)
        return function(numbers_of(self) if is_quantized(self) else self, other)

    compare.__module__ = __name__
    return compare


COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")

KERNELS: dict[str, Callable[..., Any]] = {
    "relu": relu,
    "clamp": clamp,
    "hardtanh": hardtanh,
    "relu6": lambda self: clamp(self, 0, 6),
    "threshold": through_floats("threshold", threshold),
    "leaky_relu": through_floats("leaky_relu", leaky_relu),
    "gelu": gelu_on_single,
    "sigmoid": on_fixed_grid("sigmoid", ops.sigmoid, UNIT_GRIDS, sigmoid_by_steps),
    "hardsigmoid": on_fixed_grid("hardsigmoid", hardsigmoid, UNIT_GRIDS),
    "tanh": on_fixed_grid("tanh", ops.tanh, SYMMETRIC_GRIDS, in_float64(ops.tanh)),
    "_prelu_kernel": _prelu_kernel,
    "prelu": _prelu_kernel,
    **{f"{name}.Tensor": comparison(name) for name in COMPARISONS},
    **{f"{name}.Scalar": comparison(name) for name in COMPARISONS},
}
