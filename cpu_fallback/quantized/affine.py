"""Floating numbers to integers on a grid, and back, in one pass over blocks that stay in the cache."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.cpu.workspace import borrow, give_back
from ...runtime.float_errors import quietly
from ...runtime.quantized_data import LIMITS
from ...runtime.scalar_type import float64, int32, qint32
from ...runtime.tensor_spec import TensorSpec
from ..blocks import Blocks
from ..plain_numpy import np

BLOCK = 1 << 17
"""Elements of a block: in shorter ones, threads wait for each other's Python between two calls of NumPy."""

single = np.float32

SHIFT = single(3 << 22)
"""A number between 2**23 and 2**24, where float32 has whole numbers alone."""


def quantize(call: StructuredCall) -> PlannedKernel:
    """Quantize to integers: the inverse of the scale, its product and the sum with the zero point round to
    float32.

    For 8 bits and scalar parameters, product and sum round once, as in the vector instructions of PyTorch's
    kernels.

    NaN becomes the greatest 8-bit integer if the scale is a number, 0 if it is a tensor; with 32 bits it
    becomes the least.
    """
    (out,), dtype = call.outputs, call.args["dtype"]
    specs = [call.args[name] for name in ("scale", "zero_point")]
    tensors = [spec if isinstance(spec, TensorSpec) else None for spec in specs]
    least, greatest = LIMITS[dtype]
    blocks = Blocks(out, (call.args["self"], *tensors), BLOCK) if out.ndim else None
    by_numbers = tensors == [None, None]
    if dtype is qint32:
        compute = wide(least, greatest)
    elif by_numbers:
        compute = narrow(least, greatest)
    else:
        compute = narrow_by_channels(least, greatest)

    @quietly
    def into(out: Any, x: Any, scale: Any, zero_point: Any) -> None:
        inverse = single(1) / as_single(scale)
        zero = as_single(zero_point)
        if blocks is None:
            compute(out, x, inverse, zero)
        else:
            blocks.run(compute, out, x, inverse, zero)

    return PlannedKernel(into)


def requantize(call: StructuredCall) -> PlannedKernel:
    """Requantize integers: the product with a multiplier rounds to float32 and to an integer, then the zero
    point is added.
    """
    (out,), dtype = call.outputs, call.args["dtype"]
    specs = [call.args[name] for name in ("multiplier", "zero_point")]
    tensors = [spec if isinstance(spec, TensorSpec) else None for spec in specs]
    least, greatest = LIMITS[dtype]
    blocks = Blocks(out, (call.args["self"], *tensors), BLOCK) if out.ndim else None
    # The sum with a zero point of 32 bits is exact in float64 alone.
    sums = np.float64 if dtype is qint32 else single

    def compute(out: Any, x: Any, multiplier: Any, zero: Any) -> None:
        steps = np.rint(x.astype(single, copy=False) * multiplier) + zero
        np.copyto(out, np.fmax(np.fmin(steps, sums(greatest)), sums(least)), casting="unsafe")

    @quietly
    def into(out: Any, x: Any, multiplier: Any, zero_point: Any) -> None:
        multiplier = as_single(multiplier)
        zero = zero_point.astype(sums) if isinstance(zero_point, np.ndarray) else sums(zero_point)
        if blocks is None:
            compute(out, x, multiplier, zero)
        else:
            blocks.run(compute, out, x, multiplier, zero)

    return PlannedKernel(into)


def as_single(parameter: Any) -> Any:
    """Return a number or an array in float32."""
    return parameter.astype(single) if isinstance(parameter, np.ndarray) else single(parameter)


def rounded_twice(steps: Any, x: Any, inverse: Any, zero: Any) -> None:
    """Write the sums to float32, product and sum rounded one after the other."""
    np.multiply(x, inverse, out=steps)
    if isinstance(zero, np.ndarray) or zero:
        np.add(steps, zero, out=steps)


def rounded_once(steps: Any, x: Any, inverse: Any, zero: Any, wide: Any) -> None:
    """Write the sums to float32 with one rounding, by way of float64, in which products of float32 and most sums
    are exact.

    The input is copied first: a multiplication that converts its operands takes longer than a copy and a
    multiplication.
    """
    np.copyto(wide, x)
    np.multiply(wide, np.float64(inverse), out=wide)
    np.add(wide, np.float64(zero), out=wide)
    np.copyto(steps, wide, casting="unsafe")


def narrow(least: int, greatest: int) -> Callable[..., None]:
    """To 8 bits, nan to the greatest integer: `fmin` passes it over."""
    highest, lowest = limits_of(least, greatest)

    def compute(out: Any, x: Any, inverse: Any, zero: Any) -> None:
        shape, size = np.shape(x), np.size(x)
        room = borrow(12 * size)
        steps = room[8 * size : 12 * size].view(single).reshape(shape)
        if zero == 0 or math.frexp(inverse)[0] in (0.5, -0.5):
            # Nothing is added, or a product with a power of two is exact.
            rounded_twice(steps, x, inverse, zero)
        else:
            rounded_once(steps, x, inverse, zero, room[: 8 * size].view(np.float64).reshape(shape))
        line = steps.reshape(-1)
        np.fmin(line, highest[:size], out=line)
        np.fmax(line, lowest[:size], out=line)
        nearest(out, steps)
        give_back(room)

    return compute


def narrow_by_channels(least: int, greatest: int) -> Callable[..., None]:
    """To 8 bits, nan to 0."""
    highest, lowest = limits_of(least, greatest)

    def compute(out: Any, x: Any, inverse: Any, zero: Any) -> None:
        shape, size = np.shape(x), np.size(x)
        room = borrow(4 * size)
        steps = room[: 4 * size].view(single).reshape(shape)
        rounded_twice(steps, x, inverse, zero)
        line = steps.reshape(-1)
        if line.min() != line.min():
            np.copyto(line, 0, where=line != line)
        np.minimum(line, highest[:size], out=line)
        np.maximum(line, lowest[:size], out=line)
        nearest(out, steps)
        give_back(room)

    return compute


@cache
def limits_of(least: int, greatest: int, dtype: Any = single) -> tuple[Any, Any]:
    """Return the greatest and the least integer as arrays of a block's length, since ufuncs are fast only with
    arrays.
    """
    return np.full(BLOCK, greatest, dtype), np.full(BLOCK, least, dtype)


def nearest(out: Any, steps: Any) -> None:
    """Write the nearest integers of 8 bits to numbers that lie between their limits, which are overwritten.

    A sum with `SHIFT` rounds to a whole number, halves to even, and has it in the lowest bits.
    """
    np.add(steps, SHIFT, out=steps)
    np.copyto(out.view(np.uint8), steps.view(np.int32), casting="unsafe")


def wide(least: int, greatest: int) -> Callable[..., None]:
    """To 32 bits, whose limits are no numbers of float32; nan to the least integer."""
    highest, lowest = limits_of(least, greatest, np.float64)

    def compute(out: Any, x: Any, inverse: Any, zero: Any) -> None:
        shape, size = np.shape(x), np.size(x)
        room = borrow(12 * size)
        steps = room[8 * size : 12 * size].view(single).reshape(shape)
        rounded_twice(steps, x, inverse, zero)
        np.rint(steps, out=steps)
        line = room[: 8 * size].view(np.float64)
        np.copyto(line, steps.reshape(-1))
        np.fmax(line, lowest[:size], out=line)
        np.minimum(line, highest[:size], out=line)
        np.copyto(out, line.reshape(shape), casting="unsafe")
        give_back(room)

    return compute


def dequantize(call: StructuredCall) -> PlannedKernel:
    """Numbers; the difference from a zero point that is a number wraps in 32 bits, from a tensor it is a float.

    Scales of float64 are multiplied in float64, and the products round to float32.
    """
    (out,), ints = call.outputs, call.args["self"]
    specs = [call.args[name] for name in ("scale", "zero_point")]
    tensors = [spec if isinstance(spec, TensorSpec) else None for spec in specs]
    blocks = Blocks(out, (ints, *tensors), BLOCK) if out.ndim else None
    wide = isinstance(specs[0], TensorSpec) and specs[0].dtype is float64
    wraps = ints.dtype is int32 and not isinstance(specs[1], TensorSpec)

    def compute(out: Any, q: Any, scale: Any, zero: Any) -> None:
        if wraps:
            np.copyto(out, (q - zero).astype(single) * scale)
        elif wide:
            np.copyto(out, (q - zero) * scale, casting="unsafe")
        else:
            np.multiply(np.subtract(q, zero, dtype=single, casting="unsafe"), scale, out=out)

    @quietly
    def into(out: Any, q: Any, scale: Any, zero_point: Any) -> None:
        if wide:
            zero = zero_point.astype(np.float64)
        else:
            scale = as_single(scale)
            zero = np.int32(zero_point) if wraps else as_single(zero_point)
        if blocks is None:
            compute(out, q, scale, zero)
        else:
            blocks.run(compute, out, q, scale, zero)

    return PlannedKernel(into)


register_stub("_quantize_affine_stub", "cpu", quantize)
register_stub("_requantize_stub", "cpu", requantize)
register_stub("_dequantize_affine_stub", "cpu", dequantize)
