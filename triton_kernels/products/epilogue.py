"""Epilogue of a matmul before the store: scales, an addend, and an activation."""

from __future__ import annotations

from ...runtime.cuda.triton.lazy_triton import libdevice, tl, triton

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
def scaled(total, scale_a, scale_b, rows, columns, m, n, ROW_WISE: tl.constexpr):
    """Scale `total` by the scales of the operands, one number each or one for each row and each column."""
    if scale_a is None:
        return total
    elif ROW_WISE:
        by_row = tl.load(scale_a + rows, mask=rows < m, other=0)
        by_column = tl.load(scale_b + columns, mask=columns < n, other=0)
        return total * by_row[:, None] * by_column[None, :]
    else:
        return total * (tl.load(scale_a) * tl.load(scale_b))


@triton.jit
def saturated(total, scale_out, TYPE: tl.constexpr):
    """Scale `total` by the output's scale, clamped to the range of an 8-bit output; NaN stays."""
    if scale_out is not None:
        total = total * tl.load(scale_out)
    largest: tl.constexpr = 448.0 if tl.float8e4nv == TYPE else 57344.0
    return tl.clamp(total, -largest, largest, tl.PropagateNan.ALL)


@triton.jit
def finish(total, value, alpha, beta, ACTIVATION: tl.constexpr):
    """Return activation(alpha * total + beta * value); a value or scale of None is left out."""
    if alpha is not None:
        total = total * alpha
    if value is not None:
        if beta is not None:
            value = value * beta
        total = total + value
    return activated(total, ACTIVATION)
