"""Floating numbers to integers on a grid, and back: scalar functions over the elementwise skeleton."""

from __future__ import annotations

from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.cuda.triton.lazy_triton import libdevice, tl, triton
from ...runtime.quantized_data import LIMITS
from ...runtime.scalar_type import float64, int32, qint32, quint4x2
from ...runtime.tensor_spec import TensorSpec
from ..elementwise.elementwise import elementwise


@triton.jit
def steps_of(x, scale, zero_point):
    """Return the nearest integers as float32; product and sum round once."""
    return libdevice.rint(tl.fma(x, tl.div_rn(1.0, scale), zero_point))


@triton.jit
def steps_rounded_twice(x, scale, zero_point):
    """Return the nearest integers as float32; product and sum round separately."""
    return libdevice.rint(x * tl.div_rn(1.0, scale) + zero_point)


@triton.jit
def clamped(steps, least, greatest):
    steps = tl.where(steps < least, least, steps)
    return tl.where(steps < greatest, steps, greatest)


@triton.jit
def to_int8(x, scale, zero_point):
    return clamped(steps_of(x, scale, zero_point), -128.0, 127.0).to(tl.int32)


@triton.jit
def to_uint8(x, scale, zero_point):
    return clamped(steps_of(x, scale, zero_point), 0.0, 255.0).to(tl.int32)


@triton.jit
def to_uint4(x, scale, zero_point):
    return clamped(steps_rounded_twice(x, scale, zero_point), 0.0, 15.0).to(tl.int32)


@triton.jit
def zero_for_nan(steps):
    return tl.where(steps == steps, steps, 0.0)


@triton.jit
def to_int8_by_channels(x, scale, zero_point):
    return clamped(zero_for_nan(steps_rounded_twice(x, scale, zero_point)), -128.0, 127.0).to(tl.int32)


@triton.jit
def to_uint8_by_channels(x, scale, zero_point):
    return clamped(zero_for_nan(steps_rounded_twice(x, scale, zero_point)), 0.0, 255.0).to(tl.int32)


@triton.jit
def to_uint4_by_channels(x, scale, zero_point):
    return clamped(zero_for_nan(steps_rounded_twice(x, scale, zero_point)), 0.0, 15.0).to(tl.int32)


@triton.jit
def to_int32(x, scale, zero_point):
    steps = steps_rounded_twice(x, scale, zero_point)
    # Nan is not less than anything, and not greater.
    inside = tl.where((steps >= -2147483648.0) & (steps < 2147483648.0), steps, 0.0).to(tl.int64)
    return tl.where(steps >= 2147483648.0, 2147483647, tl.where(steps >= -2147483648.0, inside, -2147483648))


@triton.jit
def again_to_int8(x, multiplier, zero_point):
    return clamped(libdevice.rint(x * multiplier) + zero_point, -128.0, 127.0).to(tl.int32)


@triton.jit
def again_to_uint8(x, multiplier, zero_point):
    return clamped(libdevice.rint(x * multiplier) + zero_point, 0.0, 255.0).to(tl.int32)


@triton.jit
def again_to_int32(x, multiplier, zero_point):
    steps = libdevice.rint(x * multiplier).to(tl.float64) + zero_point.to(tl.float64)
    return clamped(steps, -2147483648.0, 2147483647.0).to(tl.int64)


@triton.jit
def number_of(q, scale, zero_point):
    return (q - zero_point).to(tl.float32) * scale


@triton.jit
def number_by_channels(q, scale, zero_point):
    return ((q - zero_point) * scale).to(tl.float32)


def quantize(call: StructuredCall) -> PlannedKernel:
    """Integers; as `cpu_fallback` has them, to the bit."""
    x, scale, zero_point = (call.args[name] for name in ("self", "scale", "zero_point"))
    dtype = call.args["dtype"]
    by_channels = isinstance(scale, TensorSpec) or isinstance(zero_point, TensorSpec)
    if dtype is qint32:
        function = to_int32
    elif dtype is quint4x2:
        function = to_uint4_by_channels if by_channels else to_uint4
    elif LIMITS[dtype][0] < 0:
        function = to_int8_by_channels if by_channels else to_int8
    else:
        function = to_uint8_by_channels if by_channels else to_uint8
    return elementwise(call, function, (x, scale, zero_point), (tl.float32, tl.float32, tl.float32))


def requantize(call: StructuredCall) -> PlannedKernel:
    """Integers on another grid; as `cpu_fallback` has them, to the bit."""
    x, multiplier, zero_point = (call.args[name] for name in ("self", "multiplier", "zero_point"))
    dtype = call.args["dtype"]
    if dtype is qint32:
        types = (tl.float32, tl.float32, tl.int32)
        return elementwise(call, again_to_int32, (x, multiplier, zero_point), types)
    function = again_to_int8 if LIMITS[dtype][0] < 0 else again_to_uint8
    return elementwise(call, function, (x, multiplier, zero_point), (tl.float32, tl.float32, tl.float32))


def dequantize(call: StructuredCall) -> PlannedKernel:
    """Numbers; as `cpu_fallback` has them, to the bit."""
    ints, scale, zero_point = (call.args[name] for name in ("self", "scale", "zero_point"))
    if ints.dtype is int32 and not isinstance(zero_point, TensorSpec):
        return elementwise(call, number_of, (ints, scale, zero_point), (tl.int32, tl.float32, tl.int32))
    wide = isinstance(scale, TensorSpec) and scale.dtype is float64
    types = (tl.float64,) * 3 if wide else (tl.float32,) * 3
    return elementwise(call, number_by_channels, (ints, scale, zero_point), types)


register_stub("_quantize_affine_stub", "cuda", quantize)
register_stub("_requantize_stub", "cuda", requantize)
register_stub("_dequantize_affine_stub", "cuda", dequantize)
