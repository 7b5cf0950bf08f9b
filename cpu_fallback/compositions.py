"""Kernels of pointwise compositions that are computed at once (`host_plans`), in float32 and float64.

Each rounds where its parts do; `ndtr` is SciPy's, which is nearer to the true value than they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from .blocks import Blocks
from .elementwise import SLOW, planned
from .pointwise import loaded
from .selection import selected
from .special_math import lgamma
from .vector_passes import square_sum

Array = np.ndarray[Any, Any]


def angle(call: StructuredCall) -> PlannedKernel:
    """pi below zero, NaN kept, else 0."""
    dtype = call.outputs[0].np_dtype
    zero, pi = np.zeros((), dtype), np.array(math.pi, dtype)

    def of(a: Array) -> Array:
        found = np.multiply(np.less(a, zero), pi)
        return found if square_sum(a, a) >= 0 else np.where(np.isnan(a), a, found)

    return planned(call, of)


def complex_(call: StructuredCall) -> PlannedKernel:
    """Complex numbers of their parts."""
    return _of_parts(call, lambda real, imag: (real, imag))


def polar(call: StructuredCall) -> PlannedKernel:
    """Complex numbers of their magnitudes and angles."""
    return _of_parts(call, lambda size, angle: (size * np.cos(angle), size * np.sin(angle)))


def _of_parts(call: StructuredCall, parts: Callable[[Any, Any], tuple[Any, Any]]) -> PlannedKernel:
    blocks = Blocks(call.outputs[0], [call.args[name] for name in call.runtime])

    def step(out: Any, a: Any, b: Any) -> None:
        out.real, out.imag = parts(a, b)

    if call.outputs[0].numel <= FEW:
        return PlannedKernel(step, quiet=True, any_shape=FEW)
    return PlannedKernel(lambda out, a, b: blocks.run(step, out, a, b), quiet=True)


FEW = 1 << 12
"""Elements up to which there are no blocks."""


def prelu(call: StructuredCall) -> PlannedKernel:
    """a where positive, else a * weight."""

    def of(a: Array, weight: Array) -> Array:
        scaled = weight * a
        if 0 < weight.item() <= 1:
            return np.maximum(a, scaled)  # type: ignore[no-any-return]
        return selected(a > 0, a, scaled)  # type: ignore[no-any-return]

    return planned(call, of)


def square(call: StructuredCall) -> PlannedKernel:
    """a * a."""
    return planned(call, np.square)


def ndtr(call: StructuredCall) -> PlannedKernel:
    """The distribution function of the normal distribution."""
    return planned(call, loaded("scipy.special:ndtr"))


def mvlgamma(call: StructuredCall) -> PlannedKernel:
    """The logarithm of the multivariate gamma function: a sum of `lgamma`, in float64."""
    p, dtype = call.args["p"], call.outputs[0].np_dtype
    shifts = (np.arange(1 - p, 1) * 0.5).astype(dtype)
    rest = np.array(p * (p - 1) * math.log(math.pi) / 4, dtype)

    def of(a: Array) -> Array:
        terms = lgamma(a[..., None] + shifts)
        found = terms[..., 0] if p == 1 else np.add.reduce(terms, -1, np.float64).astype(dtype)
        return found + rest  # type: ignore[no-any-return]

    SLOW.add(of)
    return planned(call, of)


KERNELS = {
    "angle": angle,
    "complex": complex_,
    "mvlgamma": mvlgamma,
    "polar": polar,
    "prelu": prelu,
    "special_ndtr": ndtr,
    "square": square,
}

for _name, _factory in KERNELS.items():
    register_stub(f"{_name}_stub", "cpu", _factory)
