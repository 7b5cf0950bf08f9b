"""The exclusive or of the bits of elements: floats as the bits of their float64, integers as int64.

Floats are widened as integers: conversion instructions are free to give a NaN another payload, and a hash is to be the
same on every device.
"""

from __future__ import annotations

from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.cuda.triton.lazy_triton import tl, triton
from ...runtime.scalar_type import int16, int32, int64
from .reduction import Reduction, reduction
from .reduction_kernels import identity


@triton.jit
def exclusive_or(a, b):
    return a ^ b


@triton.jit
def exclusive_or_across(tile):
    return tl.reduce(tile, 1, exclusive_or)


@triton.jit
def widened(bits, value, MANTISSA: tl.constexpr):
    """Return the float64 bits of `value`, whose own bits are `bits`; a NaN keeps its payload and becomes quiet."""
    wide = value.to(tl.float64).to(tl.int64, bitcast=True)
    payload = (bits & ((1 << MANTISSA) - 1)) << (52 - MANTISSA)
    nan = payload | 0x7FF8000000000000
    return tl.where(value != value, tl.where(bits < 0, nan | (-1 << 63), nan), wide)


@triton.jit
def float16_bits(bits):
    return widened(bits, bits.to(tl.int16).to(tl.float16, bitcast=True).to(tl.float32), 10)


@triton.jit
def bfloat16_bits(bits):
    return widened(bits, (bits << 16).to(tl.int32).to(tl.float32, bitcast=True), 7)


@triton.jit
def float32_bits(bits):
    return widened(bits, bits.to(tl.int32).to(tl.float32, bitcast=True), 23)


LOADS = {
    "float16": (int16, float16_bits),
    "bfloat16": (int16, bfloat16_bits),
    "float32": (int32, float32_bits),
    "float64": (int64, identity),
}
"""Load types of floats, and the functions that make float64 bits of the loaded values."""

INTEGERS = ("bool", "uint8", "int8", "int16", "int32", "int64")


def hash_tensor(call: StructuredCall) -> PlannedKernel:
    """`torch.hash_tensor`."""
    spec = call.args["self"]
    if spec.dtype.name in LOADS:
        stored, load = LOADS[spec.dtype.name]
        call = call._replace(args={**call.args, "self": spec.replace(dtype=stored)})
    elif spec.dtype.name in INTEGERS:
        load = identity
    else:
        raise NotImplementedError(f"\"xor_sum_cuda\" not implemented for '{spec.dtype.scalar_name}'")
    row = Reduction(exclusive_or, exclusive_or_across, lambda _: 0, lambda *_: tl.int64, load)
    return reduction(row)(call)


register_stub("hash_tensor_stub", "cuda", hash_tensor)
