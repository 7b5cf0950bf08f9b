"""How gamma and beta numbers move with their shapes; `cpu_fallback/random/implicit_gradients.py` has the method."""

from __future__ import annotations

from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.cuda.triton.lazy_triton import libdevice, tl, triton
from ..elementwise.elementwise import HEAVY, elementwise
from ..special.gamma import digamma

NODES = tl.constexpr(72)
BEGIN = tl.constexpr(-3.6)
STEP = tl.constexpr(7.8 / 72)
NEWTON_STEPS = tl.constexpr(5)
INFINITY = tl.constexpr(float("inf"))


@triton.jit
def standard_gamma_grad(a, x):
    """dx/da of a gamma number x of shape a."""
    low = x <= a
    above = a - 1.0
    slope = tl.where(low, a - x, (x - above) / x)
    curvature = tl.where(low, x, above / (x * x))
    scale = 2.0 / (slope + tl.sqrt(slope * slope + 2.0 * curvature))
    for _ in range(NEWTON_STEPS):
        fall = libdevice.expm1(-scale)
        below = (a * scale + x * fall - 1.0) / (a - x - x * fall)
        beyond = (scale - above * libdevice.log1p(scale / x) - 1.0) / (1.0 - above / (x + scale))
        scale = scale - tl.where(low, below, beyond)
    scale = tl.where(low | (a > 1.0), scale, 1.0)
    base = libdevice.log(x) - digamma(a)
    total = x * 0.0
    for k in range(NODES + 1):
        t = x * 0.0 + (BEGIN + STEP * k)
        far = libdevice.exp(-t)
        place = libdevice.exp(t - far)
        s = scale * place
        rise = tl.where(low, -s, libdevice.log1p(s / x))
        height = libdevice.exp(tl.where(low, -a * s - x * libdevice.expm1(-s), above * rise - s))
        term = STEP * (1.0 + far) * place * height * (base + rise)
        total += tl.where(height > 0.0, term, 0.0)
    found = tl.where(low, -x, 1.0) * total * scale
    found = tl.where((x == 0.0) & (a > 0.0), 0.0, found)
    return tl.where((a > 0.0) & (x < INFINITY) & (a < INFINITY), found, float("nan"))


@triton.jit
def dirichlet_grad(x, a, both):
    """dx/da / (1 - x) of a beta number x of shapes a and both - a, where the second one stays."""
    y = 1.0 - x
    b = both - a
    low = x * both <= a
    sign = tl.where(low, -1.0, 1.0).to(tl.float64)
    part = tl.where(low, x, y)
    rate = tl.where(low, a, b)
    distance = tl.abs(a * y - b * x)
    scale = 2.0 / (distance + tl.sqrt(distance * distance + 2.0 * both * x * y))
    for _ in range(NEWTON_STEPS):
        moved = part * libdevice.expm1(-scale)
        slope = rate - both * (part + moved) / (1.0 + moved)
        scale = scale - (rate * scale + both * libdevice.log1p(moved) - 1.0) / slope
    ends = digamma(both) - digamma(a)
    base = libdevice.log(x) + ends
    total = x * 0.0
    for k in range(NODES + 1):
        t = x * 0.0 + (BEGIN + STEP * k)
        far = libdevice.exp(-t)
        place = libdevice.exp(t - far)
        s = scale * place
        moved = libdevice.log1p(part * libdevice.expm1(-s))
        height = libdevice.exp(-(rate * s + both * moved))
        rise = tl.where(low, moved + s, moved)
        term = STEP * (1.0 + far) * place * height * (base - rise)
        total += tl.where(height > 0.0, term, 0.0)
    found = sign * x * total * scale
    found = tl.where((x == 0.0) & (a > 0.0), 0.0, found)
    found = tl.where((x == 1.0) & (b > 0.0), ends / b, found)
    return tl.where((a > 0.0) & (b > 0.0) & (x >= 0.0) & (x <= 1.0), found, float("nan"))


HEAVY.update((standard_gamma_grad, dirichlet_grad))


def standard_gamma_grad_kernel(call: StructuredCall) -> PlannedKernel:
    """The derivative of gamma numbers."""
    inputs = [call.args[name] for name in call.runtime]
    return elementwise(call, standard_gamma_grad, inputs, [tl.float64] * 2)


def dirichlet_grad_kernel(call: StructuredCall) -> PlannedKernel:
    """The derivative of beta numbers."""
    inputs = [call.args[name] for name in call.runtime]
    return elementwise(call, dirichlet_grad, inputs, [tl.float64] * 3)


register_stub("_standard_gamma_grad_stub", "cuda", standard_gamma_grad_kernel)
register_stub("_dirichlet_grad_stub", "cuda", dirichlet_grad_kernel)
