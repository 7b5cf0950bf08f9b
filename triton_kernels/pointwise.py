"""Pointwise operators: a line for each, its stub and the scalar function that computes it.

A function gets its operands in the compute type of the iterator's common dtype (float32 for the narrow
floats); what it returns is converted to the output's dtype.
"""

from collections.abc import Callable
from typing import Any

import triton
import triton.language as tl

from ..dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from .elementwise import check_dtypes, common_types, elementwise


@triton.jit
def add(a, b):
    if a.dtype == tl.int1:
        return a | b
    else:
        return a + b


@triton.jit
def add_scaled(a, b, alpha):
    if a.dtype == tl.int1:
        return a | (b & alpha)
    else:
        return a + b * alpha


@triton.jit
def sub(a, b):
    return a - b


@triton.jit
def sub_scaled(a, b, alpha):
    return a - b * alpha


@triton.jit
def mul(a, b):
    if a.dtype == tl.int1:
        return a & b
    else:
        return a * b


@triton.jit
def div(a, b):
    if a.dtype == tl.float32:
        return tl.div_rn(a, b)
    else:
        return a / b


@triton.jit
def neg(a):
    if a.dtype.is_floating():
        return a * -1.0
    else:
        return 0 - a


@triton.jit
def exp(a):
    return tl.exp(a)


@triton.jit
def relu(a):
    # NaN is not below zero and stays.
    return tl.where(a < 0, 0, a).to(a.dtype)


@triton.jit
def threshold_backward(grad, a, threshold):
    return tl.where(a <= threshold, 0, grad).to(grad.dtype)


def pointwise(function: Any) -> Callable[[StructuredCall], PlannedKernel]:
    """The kernel factory of a scalar function over the common dtype."""

    def factory(call: StructuredCall) -> PlannedKernel:
        iterator = call.iterator
        assert iterator is not None
        inputs = [call.args[name] for name in call.runtime]
        check_dtypes(call, [*call.outputs, *inputs])
        return elementwise(call, function, inputs, common_types(call, iterator.common_dtype))

    return factory


def with_alpha(plain: Any, scaled: Any) -> Callable[[StructuredCall], PlannedKernel]:
    """The kernel factory of an operator with a scale, which is a runtime argument only where it is not 1."""
    first, second = pointwise(plain), pointwise(scaled)
    return lambda call: (second if "alpha" in call.runtime else first)(call)


FUNCTIONS: dict[str, Any] = {
    "mul_stub": mul,
    "div_stub": div,
    "neg_stub": neg,
    "exp_stub": exp,
    "relu_stub": relu,
    "threshold_backward_stub": threshold_backward,
}

for _stub, _function in FUNCTIONS.items():
    register_stub(_stub, "cuda", pointwise(_function))
register_stub("add_stub", "cuda", with_alpha(add, add_scaled))
register_stub("sub_stub", "cuda", with_alpha(sub, sub_scaled))
