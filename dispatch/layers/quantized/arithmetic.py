"""Quantized sums, products and activations of `tt.ops.quantized`, with their own output scale and zero point.

Source: ATen/native/quantized/cpu/qadd.cpp, qmul.cpp, BinaryOps.cpp, qelu.cpp, qhardswish.cpp, qsoftmax.cpp.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ....runtime.quantized_data import LIMITS, PerTensorAffine, Quantized
from ....runtime.scalar_type import int32, qint32
from ...composite.quantized import numbers_of, quantized_by, quantized_tensor, vector_numbers_of
from ...generated import functions as ops
from .pointwise import (
    check_uniform,
    clamp,
    hardswish,
    in_float64,
    leaky_relu,
    prelu_of,
    requantized,
    require_quantized,
    sigmoid_by_steps,
    threshold,
)
from .selection import joined
from .structure import rewrapped

single = np.float32


def check_pair(name: str, qa: Any, qb: Any) -> None:
    """Raise RuntimeError for operands with different schemes or dtypes, or with per-channel quantizers."""
    require_quantized(f"quantized::{name.lower()}", qa, qb)
    first, second = qa._data.quantizer, qb._data.quantizer
    if first.scheme is not second.scheme:
        raise RuntimeError(f"Both inputs to {name} must have the same quantization scheme.")
    if not isinstance(first, PerTensorAffine):
        raise RuntimeError(f"Only per tensor quantization is supported in {name}.")
    if qa._spec.dtype is not qb._spec.dtype:
        raise RuntimeError(f"{name} operands should have same data type.")
    check_uniform(name.lower(), qa)


def add_on(qa: Any, qb: Any, grid: PerTensorAffine, relu: bool) -> Any:
    """Return the sum of the numbers on a grid."""
    check_pair("Add", qa, qb)
    total = vector_numbers_of(qa) + vector_numbers_of(qb)
    return requantized(total.relu() if relu else total, grid, qa._spec.dtype)


def mul_on(qa: Any, qb: Any, grid: PerTensorAffine, relu: bool) -> Any:
    """Multiply the integers minus their zero points, with wrap-around at 32 bits, and requantize the product."""
    check_pair("Mul", qa, qb)
    first, second, dtype = qa._data.quantizer, qb._data.quantizer, qa._spec.dtype
    product = (qa._data.ints.to(int32) - first.zero_point) * (qb._data.ints.to(int32) - second.zero_point)
    inverse = single(1) / single(grid.scale)
    multiplier = float(single(first.scale) * single(second.scale) * inverse)
    ints = ops._requantize(product, multiplier, grid.zero_point, dtype)
    if relu:
        ints = ints.clamp(min=grid.zero_point)
    return quantized_tensor(ints, grid, dtype)


def on_grid(function: Callable[..., Any], relu: bool) -> Callable[..., Any]:
    """Return the operator ``function(qa, qb, scale, zero_point)``."""
    return lambda qa, qb, scale, zero_point: function(qa, qb, PerTensorAffine(float(scale), zero_point), relu)


def into(function: Callable[..., Any], relu: bool) -> Callable[..., Any]:
    """Return the operator ``function(qa, qb, out)``, with the quantizer of `out`."""

    def write(qa: Any, qb: Any, out: Any) -> Any:
        return stored(out, function(qa, qb, check_uniform("out", out), relu))

    return write


def stored(out: Any, result: Any) -> Any:
    """Write a result's integers to a tensor of its dtype and shape, which also gets its quantizer."""
    if out._spec.dtype is not result._spec.dtype:
        raise RuntimeError(f"expected an output of dtype {result._spec.dtype}, got {out._spec.dtype}")
    if out._spec.sizes != result._spec.sizes:
        raise RuntimeError(
            f"expected an output of shape {list(result._spec.sizes)}, got {list(out._spec.sizes)}"
        )
    out._data.ints.copy_(result._data.ints)
    out._data = Quantized(out._data.ints, result._data.quantizer)
    out.bump_version()
    return out


def number_of(b: Any) -> float:
    return float(b.item()) if hasattr(b, "_spec") else float(b)


def add_scalar(relu: bool) -> Callable[..., Any]:
    """Return the addition of a number: the zero point moves if the result is in range; else the scale grows."""

    def add(qa: Any, b: Any) -> Any:
        quantizer = check_uniform("add_scalar", qa)
        dtype = qa._spec.dtype
        least, greatest = LIMITS[dtype]
        scale, zero_point = quantizer.scale, quantizer.zero_point
        steps = int(np.rint(single(number_of(b) / scale)))
        moved = zero_point - steps
        ints = qa._data.ints
        if least > moved or moved > greatest:
            end = least if least > moved else greatest
            reach = greatest - moved if least > moved else moved - least
            wider = reach / (greatest - least) * scale
            shifted = ints.to(int32) - zero_point + steps
            ints = ops._requantize(shifted, float(single(scale) * (single(1) / single(wider))), end, dtype)
            grid = PerTensorAffine(wider, end)
        else:
            ints, grid = ints.clone(), PerTensorAffine(scale, moved)
        if relu:
            ints = ints.clamp(min=grid.zero_point)
        return quantized_tensor(ints, grid, dtype)

    return add


def mul_scalar(relu: bool) -> Callable[..., Any]:
    """Return the multiplication by a number, which scales the scale; a negative number reverses the integers."""

    def mul(qa: Any, b: Any) -> Any:
        quantizer = check_uniform("mul_scalar", qa)
        dtype, ints, number = qa._spec.dtype, qa._data.ints, number_of(b)
        least, greatest = LIMITS[dtype]
        if number > 0:
            grid, ints = PerTensorAffine(number * quantizer.scale, quantizer.zero_point), ints.clone()
        elif number == 0:
            grid, ints = PerTensorAffine(1.0, 0), ops.zeros_like(ints)
        else:
            grid = PerTensorAffine(abs(number) * quantizer.scale, greatest - (quantizer.zero_point - least))
            ints = (greatest + least - ints.to(int32)).to(ints.dtype)
        if relu:
            ints = ints.clamp(min=grid.zero_point)
        return quantized_tensor(ints, grid, dtype)

    return mul


def scalar_into(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda qa, b, out: stored(out, function(qa, b))


def exchanged(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda b, qa: function(qa, b)


def activation(
    name: str, function: Callable[..., Any], to_32_bits: Callable[..., Any] | None = None
) -> Callable[..., Any]:
    """Return ``function(qx, output_scale, output_zero_point, *rest)``: a dequantized function, requantized."""

    def activate(qx: Any, scale: float, zero_point: int, *rest: Any) -> Any:
        check_uniform(name, qx)
        grid = PerTensorAffine(float(scale), zero_point)
        compute = to_32_bits if to_32_bits is not None and qx._spec.dtype is qint32 else function
        return requantized(compute(vector_numbers_of(qx), *rest), grid, qx._spec.dtype)

    return activate


def elu_by(expm1: Callable[..., Any]) -> Callable[..., Any]:
    """Return ELU from a function that computes the exponential minus 1."""

    def elu(x: Any, alpha: Any = 1, scale: Any = 1, input_scale: Any = 1) -> Any:
        return ops.where(x <= 0, expm1(x * input_scale) * (alpha * scale), x * scale)

    return elu


def celu_by(expm1: Callable[..., Any]) -> Callable[..., Any]:
    elu = elu_by(expm1)

    def celu(x: Any, alpha: Any = 1) -> Any:
        if alpha == 0:
            raise RuntimeError("ZeroDivisionError: alpha cannot be 0 for CELU")
        return elu(x, alpha, 1, float(single(1.0 / alpha)))

    return celu


def leaky_relu_on(qx: Any, slope: Any, inplace: bool, scale: float, zero_point: int) -> Any:
    """Compute leaky ReLU on a grid; the flag has no effect, as in PyTorch."""
    return activation("leaky_relu", lambda x: leaky_relu(x, slope))(qx, scale, zero_point)


def prelu_on(qx: Any, weight: Any, scale: float, zero_point: int) -> Any:
    check_uniform("prelu", qx)
    require_quantized("prelu", weight)
    return requantized(prelu_of(qx, weight), PerTensorAffine(float(scale), zero_point), qx._spec.dtype)


def softmax(qx: Any, dim: int, scale: float, zero_point: int) -> Any:
    check_uniform("softmax", qx)
    grid = PerTensorAffine(float(scale), zero_point)
    return quantized_by(ops.softmax(numbers_of(qx), dim), grid, qx._spec.dtype)


def matmul(qa: Any, qb: Any, scale: float, zero_point: int) -> Any:
    """Compute a matmul of the numbers, on a grid."""
    check_pair("matmul", qa, qb)
    grid = PerTensorAffine(float(scale), zero_point)
    return quantized_by(ops.matmul(numbers_of(qa), numbers_of(qb)), grid, qa._spec.dtype)


def cat(relu: bool) -> Callable[..., Any]:
    """Concatenate tensors, on a grid if one is given, else on that of the first."""

    def concatenate(qxs: Sequence[Any], dim: int, scale: float | None, zero_point: int | None) -> Any:
        require_quantized("quantized::cat", *qxs)
        first = check_uniform("cat", qxs[0])
        grid = PerTensorAffine(
            first.scale if scale is None else float(scale),
            first.zero_point if zero_point is None else zero_point,
        )
        return joined(qxs, dim, grid, relu)

    return concatenate


def cat_into(relu: bool) -> Callable[..., Any]:
    def concatenate(qxs: Sequence[Any], dim: int, out: Any) -> Any:
        return stored(out, joined(qxs, dim, check_uniform("cat", out), relu))

    return concatenate


def relu6(qx: Any, inplace: bool = False) -> Any:
    """Clamp between 0 and 6, in place if requested."""
    out = clamp(qx, 0, 6)
    return stored(qx, out) if inplace else out


def dropout(qx: Any, scale: float, zero_point: int, p: Any = 0.5, training: bool = False) -> Any:
    """Return the tensor itself: as in PyTorch, no quantized tensor is trained."""
    return rewrapped(qx, qx._data.ints)


def clamped(qx: Any, min: Any = None, max: Any = None) -> Any:
    return clamp(qx, min, max)


def threshold_on_same_grid(qx: Any, limit: Any, value: Any) -> Any:
    quantizer = check_uniform("threshold", qx)
    return requantized(threshold(vector_numbers_of(qx), limit, value), quantizer, qx._spec.dtype)


HARDSWISH = activation("hardswish", hardswish)
SIGMOID = activation("sigmoid", ops.sigmoid, sigmoid_by_steps)
ELU = activation("elu", elu_by(ops.expm1), elu_by(in_float64(ops.expm1)))
CELU = activation("celu", celu_by(ops.expm1), celu_by(in_float64(ops.expm1)))
