"""Activations on CUDA: a scalar function for each, over the elementwise skeleton."""

from __future__ import annotations

from typing import Any

from ...dispatch.structured.dtype_kinds import FLOAT, REAL_NUMBERS
from ...dispatch.structured.stub import register_stub, with_defaults
from ...runtime.cuda.triton.lazy_triton import libdevice, tl, triton
from .pointwise import pointwise
from .pointwise_functions import divide


@triton.jit
def elu(a, alpha, scale, input_scale):
    return tl.where(a < 0, libdevice.expm1(a * input_scale) * (alpha * scale), a * scale)


@triton.jit
def clipped(a):
    shifted = a + 3.0
    return tl.where(shifted < 0.0, 0.0, tl.where(shifted > 6.0, 6.0, shifted))


@triton.jit
def hardswish(a):
    return divide(a * clipped(a), clipped(a) * 0.0 + 6.0)


@triton.jit
def hardsigmoid(a):
    return divide(clipped(a), clipped(a) * 0.0 + 6.0)


@triton.jit
def hardshrink(a, lambd):
    return tl.where((a >= -lambd) & (a <= lambd), 0.0, a)


@triton.jit
def softshrink(a, lambd):
    return tl.where(a > lambd, a - lambd, tl.where(a < -lambd, a + lambd, a * 0.0))


@triton.jit
def mish(a):
    return a * libdevice.tanh(tl.where(a > 20.0, a, libdevice.log1p(libdevice.exp(a))))


@triton.jit
def log_sigmoid(a):
    return tl.where(a < 0.0, a, tl.where(a == a, 0.0, a)) - libdevice.log1p(libdevice.exp(-tl.abs(a)))


@triton.jit
def threshold(a, limit, value):
    return tl.where(a <= limit, value, a)


FUNCTIONS: dict[str, tuple[Any, str]] = {
    "elu": (elu, FLOAT),
    "hardshrink": (hardshrink, FLOAT),
    "hardsigmoid": (hardsigmoid, FLOAT),
    "hardswish": (hardswish, FLOAT),
    "log_sigmoid": (log_sigmoid, FLOAT),
    "mish": (mish, FLOAT),
    "softshrink": (softshrink, FLOAT),
    "threshold": (threshold, REAL_NUMBERS),
}
"""The scalar function of each operator, and the kinds of dtype that it serves."""

for _name, _row in FUNCTIONS.items():
    register_stub(f"{_name}_stub", "cuda", with_defaults(pointwise(*_row)))
