"""Activations on CUDA: a scalar function for each, over the elementwise skeleton."""

from __future__ import annotations

from ..dispatch.structured.stub import KernelFactory, register_stub, with_defaults
from ..runtime.cuda.lazy_triton import libdevice, tl, triton
from .pointwise import FLOAT, pointwise
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


FACTORIES: dict[str, KernelFactory] = {
    "elu": with_defaults(pointwise(elu, FLOAT)),
    "hardshrink": pointwise(hardshrink, FLOAT),
    "hardsigmoid": pointwise(hardsigmoid, FLOAT),
    "hardswish": pointwise(hardswish, FLOAT),
    "log_sigmoid": pointwise(log_sigmoid, FLOAT),
    "mish": pointwise(mish, FLOAT),
    "softshrink": pointwise(softshrink, FLOAT),
    "threshold": pointwise(threshold, "iuf"),
}

for _name, _factory in FACTORIES.items():
    register_stub(f"{_name}_stub", "cuda", _factory)
