"""Host kernels of pointwise composites, of contiguous tensors in float32 or float64.

Each rounds where its composite does; `ndtr` is SciPy's, which is nearer to the true value than they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from ...dispatch.iterator.broadcast import broadcast_sizes
from ...dispatch.structured.stub import (
    HostKernel,
    HostKernelFactory,
    PlannedKernel,
    StructuredCall,
    register_stub,
)
from ...runtime.tensor_spec import TensorSpec
from ..blocks import Blocks
from ..plain_numpy import copyto, np
from ..special.special_math import lgamma
from ..widen import FULL_FLOATS
from . import wide_kernels
from .activation import elu_backward
from .chains import chained
from .elementwise import planned, writing
from .pointwise import by_passes, loaded
from .pointwise_math import leaky_relu
from .vector_passes import square_sum

Array = np.ndarray[Any, Any]
Pointwise = Callable[[StructuredCall], PlannedKernel | None]


def of_plain(kernel: Pointwise, to_complex: bool = False) -> HostKernelFactory:
    """Return the factory of a kernel of contiguous tensors of float32 or float64, with a contiguous result.

    Args:
        kernel: from the call, with the result's spec, to the kernel; None for what is the composite's.
        to_complex: If True, the result is complex.
    """

    def factory(call: StructuredCall) -> HostKernel | None:
        specs = [arg for arg in call.args.values() if isinstance(arg, TensorSpec)]
        common = specs[0].dtype
        if common not in FULL_FLOATS or not all(s.dtype is common and s.is_contiguous for s in specs):
            return None
        try:
            sizes = broadcast_sizes(*[spec.sizes for spec in specs])
        except RuntimeError:
            return None
        out = TensorSpec.contiguous(sizes, common.to_complex() if to_complex else common, call.device)
        made = kernel(call._replace(outputs=(out,), extra={"common_dtype": common}))
        return None if made is None else HostKernel.of(made, out)

    return factory


_ANGLES = {np.dtype(kind): (np.zeros((), kind), np.array(math.pi, kind)) for kind in (np.float32, np.float64)}


@writing
def angles(a: Array, out: Array) -> None:
    """Compute the angles of real numbers: pi below zero, else 0, keeping NaN."""
    zero, pi = _ANGLES[a.dtype]
    below = np.less(a, zero)
    if square_sum(a, a) >= 0:
        np.multiply(below, pi, out)
    else:
        copyto(out, np.where(np.isnan(a), a, np.multiply(below, pi)))


def angle(call: StructuredCall) -> PlannedKernel:
    """Compute the angles of real numbers."""
    return planned(call, angles)


def complex_(call: StructuredCall) -> PlannedKernel:
    """Make complex numbers from their parts."""
    return _of_parts(call, lambda real, imag: (real, imag))


def polar(call: StructuredCall) -> PlannedKernel:
    """Make complex numbers from magnitudes and angles."""
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


def prelu(call: StructuredCall) -> PlannedKernel | None:
    """Plan a where positive, else a * weight, for a single weight; return None for several."""
    spec, weight = call.args["self"], call.args["weight"]
    return planned(call, leaky_relu) if spec.ndim and weight.numel == 1 and weight.ndim <= 1 else None


def square(call: StructuredCall) -> PlannedKernel:
    """Compute a * a."""
    return planned(call, np.square)


def ndtr(call: StructuredCall) -> PlannedKernel:
    """Compute the cumulative distribution function of the normal distribution."""
    passes = by_passes(call, "special_ndtr", loaded("scipy.special:ndtr"))
    return wide_kernels.for_many("special_ndtr", call, passes)


def mvlgamma(call: StructuredCall) -> PlannedKernel | None:
    """Compute the logarithm of the multivariate gamma function."""
    if not 1 <= call.args["p"] < 1 << 32:
        return None
    return planned(call, multivariate(call.args["p"], call.outputs[0].np_dtype))


@lru_cache(64)
def multivariate(p: int, dtype: Any) -> Callable[[Array], Array]:
    """`mvlgamma` of a dimension, a sum of `lgamma`, in float64."""
    shifts = (np.arange(1 - p, 1) * 0.5).astype(dtype)
    rest = np.array(p * (p - 1) * math.log(math.pi) / 4, dtype)

    def of(a: Array) -> Array:
        terms = lgamma(a[..., None] + shifts)
        total = terms[..., 0] if p == 1 else np.add.reduce(terms, -1, np.float64).astype(dtype)
        return total + rest  # type: ignore[no-any-return]

    return of


def elu_gradient(call: StructuredCall) -> PlannedKernel | None:
    """Compute the gradient of `elu` from its input."""
    grad, *_, is_result, own = call.args.values()
    if is_result or grad.sizes != own.sizes or not grad.numel or not grad.ndim:
        return None
    names = ("grad_output", "self_or_result", "alpha", "scale", "input_scale")
    kernel = chained(call._replace(runtime=names), elu_backward, grad.np_dtype)
    into, fresh = kernel.into, kernel.fresh
    return PlannedKernel(
        lambda out, grad, alpha, scale, slope, own: into(out, grad, own, alpha, scale, slope),
        None
        if fresh is None
        else lambda grad, alpha, scale, slope, own: fresh(grad, own, alpha, scale, slope),
        kernel.quiet,
    )


HOST_KERNELS = {
    "angle": of_plain(angle),
    "complex": of_plain(complex_, to_complex=True),
    "elu_backward": of_plain(elu_gradient),
    "mvlgamma": of_plain(mvlgamma),
    "polar": of_plain(polar, to_complex=True),
    "prelu": of_plain(prelu),
    "special_ndtr": of_plain(ndtr),
    "square": of_plain(square),
}

for _name, _factory in HOST_KERNELS.items():
    register_stub(f"{_name}_host_stub", "cpu", _factory)
