"""Floating numbers to integers on a grid, and back, in one pass over blocks that stay in the cache."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.float_errors import quietly
from ...runtime.quantized_data import LIMITS
from ...runtime.scalar_type import float64, int32, qint32
from ...runtime.tensor_spec import TensorSpec
from ..blocks import Blocks
from ..plain_numpy import np

BLOCK = 1 << 15
"""Elements of a block: numbers and temporaries of float32 stay in the second cache."""

single = np.float32


def quantize(call: StructuredCall) -> PlannedKernel:
    """Integers: the inverse of the scale, its product and the sum with the zero point round to float32.

    To 8 bits and by numbers, product and sum round once, as in the vector instructions of PyTorch's kernels.

    Nan becomes the greatest integer of 8 bits where a number is the scale, 0 where a tensor is; with 32 bits the least.
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
    """Integers: the product with a multiplier rounds to float32 and to an integer, before the zero point is added."""
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
    """A number or an array in float32."""
    return parameter.astype(single) if isinstance(parameter, np.ndarray) else single(parameter)


def steps_rounded_once(x: Any, inverse: Any, zero: Any) -> Any:
    """The nearest integers as float32: the products of float32 are exact in float64, and so are most sums."""
    steps = np.asarray(np.multiply(x, inverse, dtype=np.float64))
    np.add(steps, zero, out=steps)
    steps = steps.astype(single)
    return np.rint(steps, out=steps)


def steps_rounded_twice(x: Any, inverse: Any, zero: Any) -> Any:
    """The nearest integers as float32, of which product and sum round one after the other."""
    steps = np.empty(np.shape(x), single)
    np.multiply(x, inverse, out=steps)
    np.add(steps, zero, out=steps)
    return np.rint(steps, out=steps)


def narrow(least: int, greatest: int) -> Callable[..., None]:
    """To 8 bits; nan is passed over by fmin. It is fast with arrays alone, of which one has the limit everywhere."""
    highest, lowest = np.full(BLOCK, greatest, single), np.full(BLOCK, least, single)

    def compute(out: Any, x: Any, inverse: Any, zero: Any) -> None:
        steps = steps_rounded_once(x, inverse, zero)
        if steps.ndim == 1 and steps.size <= BLOCK:
            np.fmin(steps, highest[: steps.size], out=steps)
            np.fmax(steps, lowest[: steps.size], out=steps)
        else:
            np.fmin(steps, single(greatest), out=steps)
            np.fmax(steps, single(least), out=steps)
        np.copyto(out, steps, casting="unsafe")

    return compute


def narrow_by_channels(least: int, greatest: int) -> Callable[..., None]:
    """To 8 bits, nan to 0."""

    def compute(out: Any, x: Any, inverse: Any, zero: Any) -> None:
        steps = steps_rounded_twice(x, inverse, zero)
        known = np.where(steps == steps, steps, single(0))
        np.copyto(out, np.clip(known, least, greatest), casting="unsafe")

    return compute


def wide(least: int, greatest: int) -> Callable[..., None]:
    """To 32 bits, whose limits are no numbers of float32."""

    def compute(out: Any, x: Any, inverse: Any, zero: Any) -> None:
        steps = steps_rounded_twice(x, inverse, zero).astype(np.float64)
        steps = np.where(steps == steps, np.clip(steps, least, greatest), np.float64(least))
        np.copyto(out, steps, casting="unsafe")

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
