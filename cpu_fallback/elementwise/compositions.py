"""Kernels of pointwise compositions that are computed at once (`host_plans`), in float32 and float64.

Each rounds where its parts do; `ndtr` is SciPy's, which is nearer to the true value than they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ..blocks import Blocks
from ..special.special_math import lgamma
from ..undispatched import copyto, np
from .elementwise import planned, writing
from .pointwise import by_passes, loaded
from .pointwise_math import leaky_relu
from .vector_passes import square_sum

Array = np.ndarray[Any, Any]


_ANGLES = {np.dtype(kind): (np.zeros((), kind), np.array(math.pi, kind)) for kind in (np.float32, np.float64)}


@writing
def angles(a: Array, out: Array) -> None:
    """pi below zero, NaN kept, else 0."""
    zero, pi = _ANGLES[a.dtype]
    below = np.less(a, zero)
    if square_sum(a, a) >= 0:
        np.multiply(below, pi, out)
    else:
        copyto(out, np.where(np.isnan(a), a, np.multiply(below, pi)))


def angle(call: StructuredCall) -> PlannedKernel:
    """The angles of real numbers."""
    return planned(call, angles)


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
    return planned(call, leaky_relu)


def square(call: StructuredCall) -> PlannedKernel:
    """a * a."""
    return planned(call, np.square)


def ndtr(call: StructuredCall) -> PlannedKernel:
    """The distribution function of the normal distribution."""
    return by_passes(call, "special_ndtr", loaded("scipy.special:ndtr"))


def mvlgamma(call: StructuredCall) -> PlannedKernel:
    """The logarithm of the multivariate gamma function."""
    return planned(call, multivariate(call.args["p"], call.outputs[0].np_dtype))


@lru_cache(64)
def multivariate(p: int, dtype: Any) -> Callable[[Array], Array]:
    """`mvlgamma` of a dimension, a sum of `lgamma`, in float64."""
    shifts = (np.arange(1 - p, 1) * 0.5).astype(dtype)
    rest = np.array(p * (p - 1) * math.log(math.pi) / 4, dtype)

    def of(a: Array) -> Array:
        terms = lgamma(a[..., None] + shifts)
        found = terms[..., 0] if p == 1 else np.add.reduce(terms, -1, np.float64).astype(dtype)
        return found + rest  # type: ignore[no-any-return]

    return of


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
