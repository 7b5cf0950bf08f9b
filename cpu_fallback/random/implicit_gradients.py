"""Implicit reparameterization gradients of gamma and beta samples with respect to their shape parameters.

A sample x of shape a stays at its quantile as a changes, so dx/da = -(dF/da) / f. Both derivatives are one
integral over the side of x without the mode. The variable is the logarithm of x below it and x itself above
it (the log-odds for beta numbers). The integrand decreases monotonically. The double exponential rule, scaled
by where the integrand fell to 1 / e, sums it to ten digits.

Sources: M. Figurnov, S. Mohamed, A. Mnih, "Implicit reparameterization gradients" (2018); H. Takahasi, M.
Mori, "Double exponential formulas for numerical integration" (1974).
"""

from __future__ import annotations

from functools import cache
from typing import Any

from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ..elementwise.elementwise import SLOW, planned
from ..plain_numpy import np

NODES = 72
BEGIN, END = -3.6, 4.2
STEP = (END - BEGIN) / NODES
NEWTON_STEPS = 5

Array = Any


@cache
def _digamma() -> Any:
    from scipy.special import psi

    return psi


def _nodes() -> list[tuple[float, float]]:
    t = np.linspace(BEGIN, END, NODES + 1)
    node = np.exp(t - np.exp(-t))
    return [(float(s), float(w)) for s, w in zip(node, STEP * (1.0 + np.exp(-t)) * node, strict=True)]


TABLE = _nodes()


def standard_gamma_grad(alpha: Array, sample: Array) -> Array:
    """Compute dx/da of a gamma sample x of shape a."""
    dtype = sample.dtype
    a, x = alpha.astype(np.float64), sample.astype(np.float64)
    with np.errstate(all="ignore"):
        low, above = x <= a, a - 1.0
        slope = np.where(low, a - x, (x - above) / x)
        curvature = np.where(low, x, above / (x * x))
        scale = 2.0 / (slope + np.sqrt(slope * slope + 2.0 * curvature))
        for _ in range(NEWTON_STEPS):
            fall = np.expm1(-scale)
            below = (a * scale + x * fall - 1.0) / (a - x - x * fall)
            beyond = (scale - above * np.log1p(scale / x) - 1.0) / (1.0 - above / (x + scale))
            scale = scale - np.where(low, below, beyond)
        scale = np.where(low | (a > 1.0), scale, 1.0)
        base = np.log(x) - _digamma()(a)
        total = np.zeros(np.broadcast(a, x).shape)
        for node, weight in TABLE:
            s = scale * node
            rise = np.where(low, -s, np.log1p(s / x))
            height = np.exp(np.where(low, -a * s - x * np.expm1(-s), above * rise - s))
            total += np.where(height > 0, weight * height * (base + rise), 0.0)
        gradient = np.where(low, -x, 1.0) * total * scale
        gradient = np.where((x == 0) & (a > 0), 0.0, gradient)
        return np.where((a > 0) & (x < np.inf) & (a < np.inf), gradient, np.nan).astype(dtype)


def dirichlet_grad(sample: Array, alpha: Array, total_alpha: Array) -> Array:
    """Compute dx/da / (1 - x) of a beta sample x of shapes a and total - a, with the second shape fixed."""
    dtype = sample.dtype
    x, a = sample.astype(np.float64), alpha.astype(np.float64)
    both = total_alpha.astype(np.float64)
    with np.errstate(all="ignore"):
        y, b = 1.0 - x, both - a
        low = x * both <= a
        sign = np.where(low, -1.0, 1.0)
        part, rate = np.where(low, x, y), np.where(low, a, b)
        distance = np.abs(a * y - b * x)
        scale = 2.0 / (distance + np.sqrt(distance * distance + 2.0 * both * x * y))
        for _ in range(NEWTON_STEPS):
            moved = part * np.expm1(-scale)
            slope = rate - both * (part + moved) / (1.0 + moved)
            scale = scale - (rate * scale + both * np.log1p(moved) - 1.0) / slope
        base = np.log(x) - _digamma()(a) + _digamma()(both)
        total = np.zeros(np.broadcast(x, a, both).shape)
        for node, weight in TABLE:
            s = scale * node
            moved = np.log1p(part * np.expm1(-s))
            height = np.exp(-(rate * s + both * moved))
            rise = np.where(low, moved + s, moved)
            total += np.where(height > 0, weight * height * (base - rise), 0.0)
        gradient = sign * x * total * scale
        gradient = np.where((x == 0) & (a > 0), 0.0, gradient)
        gradient = np.where((x == 1) & (b > 0), 1.0 / b * (_digamma()(both) - _digamma()(a)), gradient)
        return np.where((a > 0) & (b > 0) & (x >= 0) & (x <= 1), gradient, np.nan).astype(dtype)


SLOW.update((standard_gamma_grad, dirichlet_grad))


def standard_gamma_grad_kernel(call: StructuredCall) -> PlannedKernel:
    """Compute the derivative of gamma samples."""
    return planned(call, standard_gamma_grad)


def dirichlet_grad_kernel(call: StructuredCall) -> PlannedKernel:
    """Compute the derivative of beta samples."""
    return planned(call, dirichlet_grad)


register_stub("_standard_gamma_grad_stub", "cpu", standard_gamma_grad_kernel)
register_stub("_dirichlet_grad_stub", "cpu", dirichlet_grad_kernel)
