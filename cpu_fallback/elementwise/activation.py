"""Activations on the CPU, a row for each; integers are refused where PyTorch refuses them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy._core.umath import clip  # the ufunc under np.clip, which keeps NaN and goes over the data once

from ...dispatch.structured.dtype_kinds import FLOAT, INEXACT, REAL
from ...dispatch.structured.stub import (
    KernelFactory,
    PlannedKernel,
    StructuredCall,
    register_stub,
    with_defaults,
)
from ..plain_numpy import np
from ..widen import compute_np
from .chains import SMALL, Chain, Maker, chained, general, is_plain
from .elementwise import planned
from .pointwise import check_kind
from .pointwise_math import log1p, silu
from .selection import selected

Array = np.ndarray[Any, Any]


def elu(alpha: Array, scale: Array, input_scale: Array) -> Chain:
    """Compute scale * a above zero, alpha * scale * (exp(input_scale * a) - 1) below."""
    below, zero = np.asarray(alpha * scale), np.zeros_like(alpha)
    is_sloped, is_scaled, adds = bool(input_scale != 1), bool(below != 1), bool(below > 0)

    def chain(out: Array, scratch: Array, a: Array) -> None:
        np.minimum(a, zero, out=scratch)
        if is_sloped:
            np.multiply(scratch, input_scale, scratch)
        np.expm1(scratch, scratch)
        if is_scaled:
            np.multiply(scratch, below, scratch)
        if a.size <= SMALL or not adds:
            np.multiply(a, scale, out)
            np.copyto(out, scratch, where=np.less(a, zero))
            return
        np.maximum(a, zero, out=out)
        np.multiply(out, scale, out)
        np.add(out, scratch, out)
        if not a.all():
            # A sum of zeros loses the sign.
            np.copyto(out, a * scale, where=np.equal(a, zero))

    return chain


def hardswish_in(np_dtype: np.dtype[Any]) -> Maker:
    """Compute a * relu6(a + 3) / 6."""
    zero, three, six = [np.array(n, np_dtype) for n in (0, 3, 6)]

    def chain(out: Array, scratch: Array, a: Array) -> None:
        np.add(a, three, scratch)
        clip(scratch, zero, six, out=scratch)
        np.multiply(a, scratch, out)
        np.divide(out, six, out)

    return lambda: chain


def hardsigmoid_in(np_dtype: np.dtype[Any]) -> Maker:
    """Compute relu6(a + 3) / 6."""
    zero, three, six = [np.array(n, np_dtype) for n in (0, 3, 6)]

    def chain(out: Array, _: Array, a: Array) -> None:
        np.add(a, three, out)
        clip(out, zero, six, out=out)
        np.divide(out, six, out)

    return lambda: chain


def kept_where(keeps: Array, out: Array, a: Array) -> None:
    """Copy `a` bit by bit where the mask holds and write 0 elsewhere, without branches."""
    bits = _BITS[a.dtype]
    np.multiply(a.view(bits), keeps, out.view(bits))


_BITS = {np.dtype(np.float32): np.dtype(np.uint32), np.dtype(np.float64): np.dtype(np.uint64)}


def hardshrink(lambd: Array) -> Chain:
    """Replace elements within [-lambd, lambd] by 0; NaN propagates."""

    zero = np.zeros_like(lambd)

    def chain(out: Array, scratch: Array, a: Array) -> None:
        np.absolute(a, scratch)
        if a.size <= SMALL:
            np.copyto(out, a)
            np.copyto(out, zero, where=np.less_equal(scratch, lambd))
            return
        within = np.less_equal(scratch, lambd)
        kept_where(np.logical_not(within, within), out, a)

    return chain


def softshrink(lambd: Array) -> Chain:
    """Shrink towards zero by `lambd`; [-lambd, lambd] gives a zero of the same sign. NaN propagates."""
    low = np.asarray(-lambd)

    def chain(out: Array, scratch: Array, a: Array) -> None:
        clip(a, low, lambd, out=scratch)
        np.subtract(a, scratch, out)
        np.copysign(out, a, out)

    return chain


def leaky_relu(slope: Array) -> Chain:
    """Return the function a if a > 0 else a * slope."""
    if 0 < slope <= 1:

        def larger(out: Array, scratch: Array, a: Array) -> None:
            np.multiply(a, slope, scratch)
            np.maximum(a, scratch, out=out)

        return larger
    zero = np.zeros_like(slope)

    def chain(out: Array, scratch: Array, a: Array) -> None:
        np.multiply(a, slope, scratch)
        np.copyto(out, selected(np.greater(a, zero), a, scratch))

    return chain


def mish_in(np_dtype: np.dtype[Any]) -> Maker:
    """Compute a * tanh(log(1 + exp(a))), which is a * n / (n + 2) with n = e * (e + 2) and e = exp(a).

    From 20 on that quotient is 1, in float64 too; without the limit n would overflow.
    """
    two, limit = [np.array(n, np_dtype) for n in (2, 20)]

    def chain(out: Array, scratch: Array, a: Array) -> None:
        np.minimum(a, limit, out=scratch)
        np.exp(scratch, scratch)
        np.add(scratch, two, out)
        np.multiply(scratch, out, scratch)
        np.add(scratch, two, out)
        np.divide(scratch, out, out)
        np.multiply(a, out, out)

    return lambda: chain


def silu_in(np_dtype: np.dtype[Any]) -> Maker:
    """Compute a * sigmoid(a)."""
    one = np.ones((), np_dtype)

    def chain(out: Array, scratch: Array, a: Array) -> None:
        np.negative(a, scratch)
        np.exp(scratch, scratch)
        np.add(scratch, one, scratch)
        np.divide(a, scratch, out)

    return lambda: chain


def elu_backward(alpha: Array, scale: Array, input_scale: Array) -> Chain:
    """Compute grad * scale above zero, grad * exp(input_scale * a) * (input_scale * alpha * scale) up to zero."""
    below, zero = np.asarray(input_scale * alpha * scale), np.zeros_like(alpha)

    def chain(out: Array, scratch: Array, grad: Array, a: Array) -> None:
        np.minimum(a, zero, out=scratch)
        np.multiply(scratch, input_scale, scratch)
        np.exp(scratch, scratch)
        np.multiply(scratch, below, scratch)
        np.multiply(grad, scratch, scratch)
        np.multiply(grad, scale, out)
        np.copyto(out, selected(np.less_equal(a, zero), scratch, out))

    return chain


def softplus(beta: Array, threshold: Array) -> Chain:
    """Compute log(1 + exp(beta * a)) / beta, and a itself above the threshold."""

    def chain(out: Array, scratch: Array, a: Array) -> None:
        np.multiply(a, beta, scratch)
        np.exp(scratch, out)
        above = np.greater(scratch, threshold)
        if a.size <= SMALL:
            np.log1p(out, out)
            np.divide(out, beta, out)
            np.copyto(out, a, where=above)
            return
        np.divide(log1p(out), beta, scratch)
        np.copyto(out, selected(above, a, scratch))

    return chain


def log_sigmoid(a: Array) -> Array:
    """Compute log(1 / (1 + exp(-a)))."""
    return np.minimum(a, 0) - log1p(np.exp(-np.abs(a)))


def threshold(a: Array, limit: float, value: float) -> Array:
    """`value` up to the limit, NaN kept."""
    return selected(a <= limit, np.asarray(value, a.dtype), a)


def threshold_chain(limit: Array, value: Array) -> Chain:
    """Return the threshold chain of floats, which selects by xor of their bits."""
    bits = _BITS[value.dtype]
    word = value.view(bits)

    def chain(out: Array, _: Array, a: Array) -> None:
        below = np.less_equal(a, limit)
        if a.size <= SMALL:
            np.copyto(out, a)
            np.copyto(out, value, where=below)
            return
        source_bits, target = a.view(bits), out.view(bits)
        np.bitwise_xor(source_bits, word, target)
        np.multiply(target, below, target)
        np.bitwise_xor(target, source_bits, target)

    return chain


def row(function: Callable[..., Any], kinds: str) -> KernelFactory:
    """Return the kernel factory of a table row."""

    def factory(call: StructuredCall) -> PlannedKernel:
        check_kind(call, kinds)
        return planned(call, function)

    return factory


FUNCTIONS: dict[str, tuple[Callable[..., Any], str]] = {
    "log_sigmoid": (log_sigmoid, FLOAT),
    "silu": (silu, INEXACT),
    "threshold": (threshold, REAL),
}
"""The function of each operator, and the kinds of dtype that it serves."""
CHAINS: dict[str, Maker] = {
    "elu": elu,
    "hardshrink": hardshrink,
    "leaky_relu": leaky_relu,
    "softplus": softplus,
    "softshrink": softshrink,
    "threshold": threshold_chain,
}
"""Chain makers of operators with numbers, from the numbers to the chain."""
CHAINS_IN: dict[str, Callable[[np.dtype[Any]], Maker]] = {
    "hardsigmoid": hardsigmoid_in,
    "hardswish": hardswish_in,
    "mish": mish_in,
    "silu": silu_in,
}
"""Chain makers of operators without numbers, from the compute dtype to the chain."""


def chain_row(name: str) -> KernelFactory:
    """Return the kernel factory of a chain; it casts operands that are not plain to the chain's dtype."""

    def factory(call: StructuredCall) -> PlannedKernel:
        function, kinds = FUNCTIONS.get(name, (None, FLOAT))
        check_kind(call, kinds)
        np_dtype = compute_np(call.common_dtype)
        if np_dtype in _BITS:
            make = CHAINS[name] if name in CHAINS else CHAINS_IN[name](np_dtype)
            if is_plain(call, np_dtype):
                return chained(call, make, np_dtype)
            function = function or general(make)
        assert function is not None
        return planned(call, function)

    return factory


for _name in (*CHAINS, *CHAINS_IN):
    register_stub(f"{_name}_stub", "cpu", with_defaults(chain_row(_name)))
register_stub("log_sigmoid_stub", "cpu", with_defaults(row(*FUNCTIONS["log_sigmoid"])))
