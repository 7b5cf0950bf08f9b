"""Rows of activations, of their gradients, and of functions that are ufuncs of NumPy's."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...dispatch.layers.graph.graph import Node
from ...runtime.cpu.element_program import CannotLower, ElementProgram, Value
from ...runtime.cpu.hyperbolic_tangent import OWN_TANH
from ..blocks import BLOCK
from . import gelu as gelu_chain
from . import gelu_rows, wide_functions, wide_kernels
from . import pointwise_math as m
from .chains import SMALL
from .operator_step import Row, Step, check_extremes, inverse, product
from .pointwise import OPERATORS, ZEROS
from .vector_passes import NUMPY_HAS_VECTORS


def _relu(s: Step) -> Value:
    check_extremes(s)
    p, a = s.program, s.operand("self")
    spec, out = s.call.args["self"], s.call.outputs[0]
    if s.is_narrow and spec.dtype is out.dtype and spec.numel > ZEROS and spec.dtype.name != "float8_e4m3fn":
        if spec.dtype.name not in ("float16", "bfloat16"):
            raise CannotLower("relu")
        # By its bits: the zero is positive.
        positive = p.select(p.compare("gt", a, s.number(0)), a, s.number(0))
        return p.select(p.is_nan(a), a, positive)
    return p.maximum(s.number(0), a)


def _called(stub: str) -> Row:
    """Return the lowering of an eager kernel that is a ufunc of one float."""
    function = OPERATORS[stub][0]
    assert isinstance(function, np.ufunc)

    def row(s: Step) -> Value:
        s.need("f")
        return s.ufunc(function, s.operand("self"))

    return row


def _wide(stub: str) -> Row:
    """Return the lowering of a function of `wide_functions`."""
    of_few = _called(stub) if stub in CALLED else None

    def row(s: Step) -> Value:
        s.need("f")
        if wide_kernels.is_wide(stub, s.call):
            return wide_functions.instructions(s.program, stub, *s.operands)
        if of_few is None:
            raise CannotLower(stub)
        return of_few(s)

    return row


def _sigmoid(s: Step) -> Value:
    s.need("f")
    p = s.program
    power = s.ufunc(np.exp, p.negative(s.operand("self")))
    return inverse(s, p.arithmetic("add", power, s.number(1)))


def _silu(s: Step) -> Value:
    s.need("f")
    p, a = s.program, s.operand("self")
    power = s.ufunc(np.exp, p.negative(a))
    return p.arithmetic("div", a, p.arithmetic("add", power, s.number(1)))


def _gelu(s: Step) -> Value:
    """Lower gelu of float32 with the polynomials of eager kernels around NumPy's tanh."""
    spec = s.call.args["self"]
    is_plain = spec.is_contiguous and spec.sizes == s.call.outputs[0].sizes
    if s.dtype != "float32" or s.is_narrow or not is_plain:
        raise CannotLower("gelu")
    p, a = s.program, s.operand("self")
    one, half = s.number(1), s.number(0.5)
    is_chained, is_tanh = s.numel > gelu_chain.CHAINED_FROM, s.call.args["approximate"] == "tanh"
    if is_chained and p.has_function(OWN_TANH):
        return gelu_rows.gelu(p, a, is_tanh)
    if not is_tanh:
        if s.numel <= m.FEW:
            raise CannotLower("gelu")
        return product(s, _normal_share(s, a), a)
    if is_chained:
        share = product(s, p.arithmetic("add", _tanh_of_cubic(s, a), one), half)
        return product(s, share, a)
    cubed = product(s, product(s, product(s, s.number(m.CUBIC), a), a), a)
    inner = product(s, s.number(m.SQRT_2_OVER_PI), p.arithmetic("add", a, cubed))
    return product(s, product(s, half, a), p.arithmetic("add", one, s.ufunc(np.tanh, inner)))


def _normal_share(s: Step, a: Value) -> Value:
    """Lower (1 + erf(a / sqrt(2))) / 2."""
    p, square = s.program, product(s, a, a)
    share = product(s, square, s.number(m.NORMAL[-1]))
    for coefficient in m.NORMAL[-2:0:-1]:
        share = product(s, p.arithmetic("add", share, s.number(coefficient)), square)
    share = product(s, p.arithmetic("add", share, s.number(m.NORMAL[0])), a)
    return product(s, p.arithmetic("add", s.ufunc(np.tanh, share), s.number(1)), s.number(0.5))


def _tanh_of_cubic(s: Step, a: Value) -> Value:
    """Lower tanh(sqrt(2 / pi) * (a + 0.044715 a^3))."""
    cubic = product(s, product(s, a, a), s.number(m.SQRT_2_OVER_PI * m.CUBIC))
    inner = product(s, s.program.arithmetic("add", cubic, s.number(m.SQRT_2_OVER_PI)), a)
    return s.ufunc(np.tanh, inner)


def _gelu_backward(s: Step) -> Value:
    """Lower the gradient of gelu for many float32 elements, with the chains of eager kernels."""
    specs = (s.call.args["grad_output"], s.call.args["self"])
    sizes = s.call.outputs[0].sizes
    is_plain = all(x.is_contiguous and x.sizes == sizes and x.dtype.name == "float32" for x in specs)
    if s.dtype != "float32" or not is_plain or s.numel <= gelu_chain.CHAINED_FROM:
        raise CannotLower("gelu_backward")
    p, grad, a = s.program, s.operand("grad_output"), s.operand("self")
    if p.has_function(OWN_TANH):
        return gelu_rows.gelu_backward(p, grad, a, s.call.args["approximate"] == "tanh")
    one, half, square = s.number(1), s.number(0.5), product(s, a, a)
    if s.call.args["approximate"] != "tanh":
        power = s.ufunc(np.exp, product(s, square, s.number(-0.5)))
        density = product(s, product(s, power, s.number(m.INVERSE_SQRT_2PI)), a)
        return product(s, p.arithmetic("add", _normal_share(s, a), density), grad)
    tanh = _tanh_of_cubic(s, a)
    slope = product(s, square, s.number(3 * m.SQRT_2_OVER_PI * m.CUBIC))
    slope = product(s, product(s, p.arithmetic("add", slope, s.number(m.SQRT_2_OVER_PI)), a), half)
    slope = product(s, slope, p.arithmetic("sub", one, product(s, tanh, tanh)))
    share = product(s, p.arithmetic("add", tanh, one), half)
    return product(s, p.arithmetic("add", share, slope), grad)


def _erf(s: Step) -> Value:
    """Lower erf of float32 with the float64 quotient of eager kernels, unless their last block is short."""
    spec, rest = s.call.args["self"], s.numel % BLOCK or BLOCK
    is_plain = spec.is_contiguous and spec.sizes == s.call.outputs[0].sizes
    if s.dtype != "float32" or min(s.numel, rest) < m.ERF_FROM or not is_plain:
        raise CannotLower("erf")
    p = s.program
    x = p.convert(s.operand("self"), "float64")
    for order, bound in (("lt", -4.0), ("gt", 4.0)):
        limit = p.number(bound, "float64")
        x = p.select(p.compare(order, x, limit), limit, x)
    square = product(s, x, x)
    above, below = (_polynomial(p, coefficients, square) for coefficients in m.ERF_OVER_X)
    return p.convert(p.arithmetic("div", product(s, above, x), below), "float32")


def _elu(s: Step) -> Value:
    """Lower scale * a above zero and alpha * scale * expm1(input_scale * a) below, with the sum of eager kernels."""
    s.need("f")
    numbers = [s.raw(name) for name in ("alpha", "scale", "input_scale")]
    if any(isinstance(number, Node) for number in numbers):
        raise CannotLower("elu")
    p, a, zero = s.program, s.operand("self"), s.number(0)
    scale, below = s.operand("scale"), product(s, s.operand("alpha"), s.operand("scale"))
    power = product(s, p.minimum(a, zero), s.operand("input_scale"))
    part, scaled = product(s, s.ufunc(np.expm1, power), below), product(s, a, scale)
    if s.numel <= SMALL or not numbers[0] * numbers[1] > 0:
        return p.select(p.compare("lt", a, zero), part, scaled)
    total = p.arithmetic("add", product(s, p.maximum(a, zero), scale), part)
    return p.select(p.compare("eq", a, zero), scaled, total)


def _softplus(s: Step) -> Value:
    """Lower log(1 + exp(beta * a)) / beta, and a itself above the threshold."""
    s.need("f")
    if not (NUMPY_HAS_VECTORS or s.dtype == "float64"):
        raise CannotLower("softplus")
    p, a, beta = s.program, s.operand("self"), s.operand("beta")
    scaled = product(s, a, beta)
    raised = p.arithmetic("div", s.ufunc(np.log1p, s.ufunc(np.exp, scaled)), beta)
    return p.select(p.compare("gt", scaled, s.operand("threshold")), a, raised)


def _mish(s: Step) -> Value:
    """Lower mish: a * n / (n + 2) with n = e * (e + 2) and e = exp(a); from 20 on it is a."""
    s.need("f")
    check_extremes(s)
    p, a, two = s.program, s.operand("self"), s.number(2)
    power = s.ufunc(np.exp, p.minimum(a, s.number(20)))
    share = product(s, power, p.arithmetic("add", power, two))
    return product(s, a, p.arithmetic("div", share, p.arithmetic("add", share, two)))


def _polynomial(p: ElementProgram, coefficients: Sequence[float], x: Value) -> Value:
    """Evaluate a polynomial in float64 by Horner's rule; coefficients start from the lowest power."""
    value = p.number(coefficients[-1], "float64")
    for coefficient in coefficients[-2::-1]:
        value = p.arithmetic("mul", value, x)
        value = p.arithmetic("add", value, p.number(coefficient, "float64"))
    return value


def _sigmoid_backward(s: Step) -> Value:
    s.need("f")
    p, y = s.program, s.operand("output")
    factor = product(s, y, p.arithmetic("sub", s.number(1), y))
    return product(s, s.operand("grad_output"), factor)


def _tanh_backward(s: Step) -> Value:
    s.need("f")
    p, y = s.program, s.operand("output")
    return product(s, s.operand("grad_output"), p.arithmetic("sub", s.number(1), product(s, y, y)))


def _silu_backward(s: Step) -> Value:
    s.need("f")
    p, a, one = s.program, s.operand("self"), s.number(1)
    share = inverse(s, p.arithmetic("add", one, s.ufunc(np.exp, p.negative(a))))
    slope = p.arithmetic("add", one, product(s, a, p.arithmetic("sub", one, share)))
    return product(s, s.operand("grad_output"), product(s, share, slope))


def _threshold_backward(s: Step) -> Value:
    p = s.program
    below = p.compare("le", s.operand("self"), s.operand("threshold"))
    return p.select(below, s.number(0), s.operand("grad_output"))


def _threshold(s: Step) -> Value:
    s.need("f")
    p, a = s.program, s.operand("self")
    return p.select(p.compare("le", a, s.operand("threshold")), s.operand("value"), a)


def _native_dropout_backward(s: Step) -> Value:
    s.need("f")
    return product(s, product(s, s.operand("grad_output"), s.operand("scale")), s.operand("mask"))


def _leaky_relu(s: Step) -> Value:
    """Lower leaky_relu, as max(a, slope * a) if the slope allows it."""
    check_extremes(s)
    p, a, slope = s.program, s.operand("self"), s.raw("negative_slope")
    scaled = product(s, a, s.operand("negative_slope"))
    if not isinstance(slope, Node) and 0 < np.dtype(s.dtype).type(slope) <= 1:
        return p.maximum(a, scaled)
    return p.select(p.compare("gt", a, s.number(0)), a, scaled)


def _leaky_relu_backward(s: Step) -> Value:
    p, grad = s.program, s.operand("grad_output")
    above = p.compare("gt", s.operand("self"), s.number(0))
    return p.select(above, grad, product(s, grad, s.operand("negative_slope")))


def _clipped(s: Step, a: Value, low: float, high: float) -> Value:
    p = s.program
    for order, bound in (("gt", s.number(low)), ("lt", s.number(high))):
        a = p.select(p.is_nan(a), a, p.select(p.compare(order, a, bound), a, bound))
    return a


def _hardsigmoid(s: Step) -> Value:
    s.need("f")
    p = s.program
    clipped = _clipped(s, p.arithmetic("add", s.operand("self"), s.number(3)), 0, 6)
    return p.arithmetic("div", clipped, s.number(6))


def _hardswish(s: Step) -> Value:
    s.need("f")
    p, a = s.program, s.operand("self")
    clipped = _clipped(s, p.arithmetic("add", a, s.number(3)), 0, 6)
    return p.arithmetic("div", product(s, a, clipped), s.number(6))


def _hardshrink(s: Step) -> Value:
    s.need("f")
    p, a = s.program, s.operand("self")
    is_small = p.compare("le", p.intrinsic("fabs", a), s.operand("lambd"))
    return p.select(is_small, s.number(0), a)


def _softshrink(s: Step) -> Value:
    """Lower a - clamp(a, -lambd, lambd), with the sign of a."""
    s.need("f")
    p, a, bound = s.program, s.operand("self"), s.operand("lambd")
    low = p.negative(bound)
    clipped = p.select(p.compare("gt", a, low), a, low)
    clipped = p.select(p.compare("lt", clipped, bound), clipped, bound)
    word, size = ("int64", 64) if s.dtype == "float64" else ("int32", 32)
    sign, rest = (p.number(bits, word) for bits in (-(2 ** (size - 1)), 2 ** (size - 1) - 1))
    # NaN needs no select: a difference from NaN is NaN. LLVM 22 merges a select with these masks incorrectly.
    made = p.bitwise("and", p.reinterpreted(p.arithmetic("sub", a, clipped), word), rest)
    made = p.bitwise("or", made, p.bitwise("and", p.reinterpreted(a, word), sign))
    return p.reinterpreted(made, s.dtype)


CALLED = (
    "exp",
    "exp2",
    "expm1",
    "log",
    "log2",
    "sin",
    "cos",
    "tan",
    "tanh",
    "sinh",
    "cosh",
    "atan",
    "asin",
    "acos",
)

ACTIVATIONS: dict[str, Row] = {
    "elu": _elu,
    "erf": _erf,
    "gelu": _gelu,
    "gelu_backward": _gelu_backward,
    "hardshrink": _hardshrink,
    "hardsigmoid": _hardsigmoid,
    "hardswish": _hardswish,
    "leaky_relu": _leaky_relu,
    "leaky_relu_backward": _leaky_relu_backward,
    "mish": _mish,
    "native_dropout_backward": _native_dropout_backward,
    "relu": _relu,
    "sigmoid": _sigmoid,
    "sigmoid_backward": _sigmoid_backward,
    "silu": _silu,
    "silu_backward": _silu_backward,
    "tanh_backward": _tanh_backward,
    "softplus": _softplus,
    "softshrink": _softshrink,
    "threshold": _threshold,
    "threshold_backward": _threshold_backward,
}
ACTIVATIONS |= {name: _called(name) for name in CALLED}
ACTIVATIONS |= {name: _wide(name) for name in wide_functions.FUNCTIONS}
"""By stub."""
