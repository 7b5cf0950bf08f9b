"""What is done to sums before they are stored: scales, an addend, and an activation."""

from __future__ import annotations

from ...runtime.cuda.lazy_triton import libdevice, tl, triton

SQRT_HALF = tl.constexpr(0.7071067811865476)


@triton.jit
def activated(value, ACTIVATION: tl.constexpr):
    """max(value, 0) where NaN stays, or value times the normal distribution's function of it, or value itself."""
    if ACTIVATION == "relu":
        return tl.where(value < 0, tl.zeros_like(value), value)
    elif ACTIVATION == "gelu":
        return value * 0.5 * (1.0 + libdevice.erf(value * SQRT_HALF))
    else:
        return value


@triton.jit
def finish(total, value, alpha, beta, ACTIVATION: tl.constexpr):
    """The activation of alpha * total + beta * value; None for a value or a scale leaves it out."""
    if alpha is not None:
        total = total * alpha
    if value is not None:
        if beta is not None:
            value = value * beta
        total = total + value
    return activated(total, ACTIVATION)
