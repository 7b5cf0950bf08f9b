"""Activations on the CPU, a row for each; integers are refused where PyTorch refuses them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy._core.umath import clip  # the ufunc under np.clip, which keeps NaN and goes over the data once

from ..dispatch.structured.stub import (
    KernelFactory,
    PlannedKernel,
    StructuredCall,
    register_stub,
    with_defaults,
)
from .elementwise import planned, writing
from .pointwise import FLOAT, REAL, check_kind
from .pointwise_math import log1p
from .selection import selected
from .undispatched import np

Array = np.ndarray[Any, Any]


def elu(a: Array, alpha: float, scale: float, input_scale: float) -> Array:
    """scale * a above zero, alpha * scale * (exp(input_scale * a) - 1) below."""
    return selected(a < 0, np.expm1(np.minimum(a, 0) * input_scale) * (alpha * scale), a * scale)


@writing
def hardswish(a: Array, out: Array) -> None:
    """a * relu6(a + 3) / 6."""
    share = np.add(a, 3)
    share = clip(share, 0, 6, out=None if share.ndim == 0 else share)
    np.divide(a * share, 6, out)


@writing
def hardsigmoid(a: Array, out: Array) -> None:
    """relu6(a + 3) / 6."""
    np.add(a, 3, out)
    clip(out, 0, 6, out=out)
    np.divide(out, 6, out)


def hardshrink(a: Array, lambd: float) -> Array:
    """0 within [-lambd, lambd], NaN kept."""
    return selected((a >= -lambd) & (a <= lambd), np.zeros((), a.dtype), a)


def softshrink(a: Array, lambd: float) -> Array:
    """Nearer to zero by `lambd`, 0 within [-lambd, lambd]; NaN kept."""
    return selected(a > lambd, a - lambd, selected(a < -lambd, a + lambd, a * 0))


def mish(a: Array) -> Array:
    """a * tanh(log(1 + exp(a))), which is a * n / (n + 2) with n = e * (e + 2) and e = exp(a).

    From 20 on that quotient is 1, in float64 too; without the limit n would overflow.
    """
    e = np.exp(np.minimum(a, a.dtype.type(20)))
    n = e * (e + 2)
    e = n + 2
    return a * (n / e)


def log_sigmoid(a: Array) -> Array:
    """log(1 / (1 + exp(-a)))."""
    return np.minimum(a, 0) - log1p(np.exp(-np.abs(a)))


def threshold(a: Array, limit: float, value: float) -> Array:
    """`value` up to the limit, NaN kept."""
    return selected(a <= limit, np.asarray(value, a.dtype), a)


def row(function: Callable[..., Any], kinds: str) -> KernelFactory:
    """The factory of a row."""

    def factory(call: StructuredCall) -> PlannedKernel:
        check_kind(call, kinds)
        return planned(call, function)

    return factory


FUNCTIONS: dict[str, tuple[Callable[..., Any], str]] = {
    "elu": (elu, FLOAT),
    "hardshrink": (hardshrink, FLOAT),
    "hardsigmoid": (hardsigmoid, FLOAT),
    "hardswish": (hardswish, FLOAT),
    "log_sigmoid": (log_sigmoid, FLOAT),
    "mish": (mish, FLOAT),
    "softshrink": (softshrink, FLOAT),
    "threshold": (threshold, REAL),
}
"""The function of each operator, and the kinds of dtype that it serves."""

for _name, _row in FUNCTIONS.items():
    register_stub(f"{_name}_stub", "cpu", with_defaults(row(*_row)))
