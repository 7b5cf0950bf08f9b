"""Operators as values of an element program, with the bits of the kernels in `cpu_fallback`.

An operator's row here says what its eager kernel computes: which function, in which dtype, rounded where. What has no
row, or has none for its dtypes, is left to NumPy whole; a ufunc that has no instructions is called between those around
it. Sizes are the whole tensors': where eager kernels of many elements differ from those of few, these are the former.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from ...cpu_fallback.elementwise import gelu as gelu_chain
from ...cpu_fallback.elementwise import pointwise_math as m
from ...cpu_fallback.elementwise.elementwise import RoundedConstants, compute_dtype_of, constants_for
from ...cpu_fallback.elementwise.pointwise import OPERATORS, ZEROS
from ...cpu_fallback.widen import NARROW, compute_dtype
from ...dispatch.layers.graph.graph import Node
from ...dispatch.structured.stub import StructuredCall
from ...dispatch.structured.supported_dtypes import ROUNDING_NUMBERS
from ...runtime.tensor_spec import TensorSpec
from ..pointwise import CopyKernel, PointwiseCall
from ..schedule import FusedKernel
from .element_program import CannotLower, ElementProgram, Value, kind_of


class Lowered:
    """A fused kernel as an element program.

    Attributes:
        program: its values.
        values: of each node, inputs and steps.
        outputs: the values of the kernel's outputs.
    """

    def __init__(self, kernel: FusedKernel, program: ElementProgram) -> None:
        self.program = program
        self.values: dict[Node, Value] = {}
        for i, node in enumerate(kernel.inputs):
            self.values[node] = program.value("input", node.val.dtype.name, detail=i)
        specs = {node: node.val for node in kernel.inputs} | {c.node: c.node.val for c in kernel.calls}
        for call in kernel.calls:
            try:
                made = _lowered(program, call, specs, self.values)
            except CannotLower:
                operands = [self.values[o] for o in call.operands if isinstance(o, Node)]
                made = program.value("operator", call.node.val.dtype.name, operands=operands, detail=call)
            self.values[call.node] = made
        self.outputs = [self.values[node] for node in kernel.outputs]


def _lowered(
    program: ElementProgram, call: PointwiseCall, specs: dict[Node, TensorSpec], values: dict[Node, Value]
) -> Value:
    """The value of a step. Raises CannotLower."""
    out = call.node.val.dtype.name
    if isinstance(call.kernel, CopyKernel):
        return program.convert(values[call.operands[0]], out)
    row = ROWS.get(call.kernel.stub.removesuffix("_stub"))
    if row is None:
        raise CannotLower(call.kernel.stub)
    structured, _ = call.planned(specs)
    if structured.iterator is None and "common_dtype" not in structured.extra:
        raise CannotLower(structured.name)
    return program.convert(row(Step(program, structured, call.operands, values)), out)


class Step:
    """An operator's call, as rows see it.

    Attributes:
        program: where values are made.
        call: the structured call.
        numel: the elements of the result.
        dtype: the dtype that is computed in, by name.
    """

    def __init__(
        self,
        program: ElementProgram,
        call: StructuredCall,
        operands: Sequence[Any],
        values: dict[Node, Value],
    ) -> None:
        self.program, self.call = program, call
        self.common = compute_dtype_of(call)
        self.dtype = compute_dtype(self.common).name
        self.numel = call.outputs[0].numel
        self._given = dict(zip(call.runtime, operands, strict=True))
        self._values = values

    @property
    def is_narrow(self) -> bool:
        """Whether the common dtype is computed in a wider one."""
        return self.common in NARROW

    def raw(self, name: str) -> Any:
        """An argument as the kernel is called with it: a node, a number, or what was left at its default."""
        return self._given[name] if name in self._given else self.call.args[name]

    def operand(self, name: str, dtype: str = "") -> Value:
        """An argument in the dtype that is computed in, or in another."""
        given = self.raw(name)
        dtype = dtype or self.dtype
        if isinstance(given, Node):
            value = self._values[given]
            if self._rounds and not self.call.args[name].ndim:
                value = self.program.convert(value, self.common.name)
            return self.program.convert(value, dtype)
        np_dtype = np.dtype(dtype) if dtype != "bfloat16" else self.common.np
        if self._rounds:
            found = RoundedConstants(np_dtype, type(given), self.common.np)[given]
        else:
            found = constants_for(self.call, name, np_dtype, type(given))[given]
        return self.program.number(found[()], dtype)

    @property
    def operands(self) -> list[Value]:
        """All that the kernel is called with."""
        return [self.operand(name) for name in self.call.runtime]

    @property
    def _rounds(self) -> bool:
        return self.is_narrow and self.call.name.rstrip("_") in ROUNDING_NUMBERS

    def number(self, number: float) -> Value:
        """A number in the dtype that is computed in."""
        return self.program.number(np.dtype(self.dtype).type(number), self.dtype)

    def ufunc(self, function: np.ufunc, a: Value) -> Value:
        """A ufunc of one float, which NumPy computes."""
        return self.program.value("ufunc", a.dtype, operands=(a,), detail=function)

    def need(self, kinds: str) -> None:
        """Raise CannotLower for a dtype of another kind."""
        if self.dtype == "bool":
            kind = "b"
        else:
            kind = "f" if "float" in self.dtype else self.dtype[0]
        if kind not in kinds or "complex" in self.dtype:
            raise CannotLower(self.dtype)


Row = Callable[[Step], Value]


def _product(s: Step, a: Value, b: Value) -> Value:
    return s.program.arithmetic("mul", a, b)


def _scaled(s: Step, name: str, scale: str) -> Value:
    """An operand times a scale, which is left out where it is 1."""
    value = s.operand(name)
    return _product(s, value, s.operand(scale)) if scale in s.call.runtime else value


def _add(s: Step) -> Value:
    return s.program.arithmetic("add", s.operand("self"), _scaled(s, "other", "alpha"))


def _sub(s: Step) -> Value:
    return s.program.arithmetic("sub", s.operand("self"), _scaled(s, "other", "alpha"))


def _rsub(s: Step) -> Value:
    return s.program.arithmetic("sub", s.operand("other"), _scaled(s, "self", "alpha"))


def _mul(s: Step) -> Value:
    return s.program.arithmetic("mul", *s.operands)


def _div(s: Step) -> Value:
    s.need("f")
    return s.program.arithmetic("div", *s.operands)


def _addc(name: str) -> Row:
    """self + value * tensor1 * tensor2, or divided by it."""

    def row(s: Step) -> Value:
        s.need("f" if name == "div" else "fiu")
        scaled = s.operand("tensor1")
        if "value" in s.call.runtime:
            scaled = _product(s, s.operand("value"), scaled)
        term = s.program.arithmetic(name, scaled, s.operand("tensor2"))
        return s.program.arithmetic("add", s.operand("self"), term)

    return row


def _compare(name: str) -> Row:
    return lambda s: s.program.compare(name, *s.operands)


def _equality(name: str) -> Row:
    """``eq`` and ``ne``; dtypes that are only stored are compared otherwise."""
    return lambda s: s.program.compare(name, *s.operands)


def _bitwise(name: str) -> Row:
    return lambda s: s.program.bitwise(name, *s.operands)


def _bitwise_not(s: Step) -> Value:
    a = s.operand("self")
    ones = True if kind_of(a) == "b" else -1
    return s.program.bitwise("xor", a, s.program.number(ones, a.dtype))


def _logical(name: str) -> Row:
    """Of truth values; operands of other dtypes are compared with zero first."""

    def row(s: Step) -> Value:
        truths = [s.program.convert(value, "bool") for value in s.operands]
        return s.program.bitwise(name, *truths)

    return row


def _logical_not(s: Step) -> Value:
    truth = s.program.convert(s.operand("self"), "bool")
    return s.program.bitwise("xor", truth, s.program.number(True, "bool"))


def _shift(name: str) -> Row:
    """By a number of bits within the width."""

    def row(s: Step) -> Value:
        s.need("iu")
        a, bits = s.operand("self"), s.raw("other")
        if isinstance(bits, Node) or not 0 <= bits < 8 * np.dtype(a.dtype).itemsize:
            raise CannotLower(name)
        code = "shl" if name == "left" else "ashr" if kind_of(a) == "i" else "lshr"
        return s.program.instruction(a.dtype, f"{code} {a.register} {{0}}, {bits}", a)

    return row


def _integer_division(name: str) -> Row:
    """Of integers by a constant other than 0 and -1: its quotient or remainder, rounded down or towards zero."""

    def row(s: Step) -> Value:
        s.need("iu")
        p, a, divisor = s.program, s.operand("self"), s.raw("other")
        if isinstance(divisor, Node) or divisor != int(divisor) or divisor in (0, -1):
            raise CannotLower(name)
        b = s.operand("other")
        if int(b.text) != divisor:
            raise CannotLower("a divisor that wraps")
        sign = "s" if kind_of(a) == "i" else "u"
        quotient = p.instruction(a.dtype, f"{sign}div {a.register} {{0}}, {{1}}", a, b)
        rest = p.instruction(a.dtype, f"{sign}rem {a.register} {{0}}, {{1}}", a, b)
        is_floor = name in ("floor_divide", "remainder") and sign == "s"
        if not is_floor:
            return quotient if name.endswith("divide") else rest
        zero = p.number(0, a.dtype)
        crosses = p.bitwise(
            "and", p.compare("ne", rest, zero), p.compare("lt" if divisor > 0 else "gt", rest, zero)
        )
        if name == "remainder":
            return p.select(crosses, p.arithmetic("add", rest, b), rest)
        return p.arithmetic("sub", quotient, p.select(crosses, p.number(1, a.dtype), zero))

    return row


def _div_mode(s: Step) -> Value:
    mode = s.call.args["rounding_mode"]
    if mode is None:
        return _div(s)
    if kind_of(s.operand("self")) == "f":
        if mode == "floor":
            raise CannotLower("floor of a quotient")
        quotient = s.program.arithmetic("div", *s.operands)
        if s.is_narrow:
            quotient = s.program.convert(s.program.convert(quotient, s.common.name), s.dtype)
        return s.program.intrinsic("trunc", quotient)
    return _integer_division("floor_divide" if mode == "floor" else "trunc_divide")(s)


def _extreme(name: str) -> Row:
    def row(s: Step) -> Value:
        _check_extremes(s)
        return getattr(s.program, name)(*s.operands)  # type: ignore[no-any-return]

    return row


@cache
def _takes_second_zero() -> bool:
    """Whether NumPy's maximum and minimum take the second of two zeros, as x86's instructions do."""
    return all(
        np.signbit(f(np.full(n, a, t), np.full(n, -a, t))).all() == (a == 0.0 and not np.signbit(a))
        for f in (np.maximum, np.minimum)
        for t in (np.float32, np.float64)
        for n in (1, 16, 37)
        for a in (0.0, -0.0)
    )


def _check_extremes(s: Step) -> None:
    if "float" in s.dtype and not _takes_second_zero():
        raise CannotLower("maximum")


def _relu(s: Step) -> Value:
    _check_extremes(s)
    p, a = s.program, s.operand("self")
    spec, out = s.call.args["self"], s.call.outputs[0]
    if s.is_narrow and spec.dtype is out.dtype and spec.numel > ZEROS and spec.dtype.name != "float8_e4m3fn":
        if spec.dtype.name not in ("float16", "bfloat16"):
            raise CannotLower("relu")
        # By its bits: the zero is positive.
        kept = p.select(p.compare("gt", a, s.number(0)), a, s.number(0))
        return p.select(p.is_nan(a), a, kept)
    return p.maximum(s.number(0), a)


def _clamp(s: Step) -> Value:
    s.need("fiu")
    p, a = s.program, s.operand("self")
    low, high = (s.call.args.get(name) is not None for name in ("min", "max"))
    given = [name for name in ("min", "max") if s.call.args.get(name) is not None]
    if any(isinstance(s.raw(name), Node) for name in given) and len(given) == 2:
        raise CannotLower("clamp")
    if low and high:
        for name, order in (("min", "gt"), ("max", "lt")):
            bound = s.operand(name)
            chosen = p.select(p.compare(order, a, bound), a, bound)
            a = p.select(p.is_nan(a), a, chosen) if kind_of(a) == "f" else chosen
        return a
    _check_extremes(s)
    return (p.maximum if low else p.minimum)(a, s.operand(given[0]))


def _where(s: Step) -> Value:
    dtype = s.call.extra["common_dtype"].name
    return s.program.select(
        s.operand("condition", "bool"), s.operand("self", dtype), s.operand("other", dtype)
    )


def _abs(s: Step) -> Value:
    p, a = s.program, s.operand("self")
    kind = kind_of(a)
    if kind == "f":
        return p.intrinsic("fabs", a)
    return a if kind == "u" else p.select(p.compare("lt", a, s.number(0)), p.negative(a), a)


def _neg(s: Step) -> Value:
    s.need("fiu")
    return s.program.negative(s.operand("self"))


def _sign(s: Step) -> Value:
    p, a = s.program, s.operand("self")
    if kind_of(a) == "b":
        return a
    below = s.number(0)
    if kind_of(a) != "u":
        below = p.select(p.compare("lt", a, s.number(0)), s.number(-1), s.number(0))
    return p.select(p.compare("gt", a, s.number(0)), s.number(1), below)


def _signbit(s: Step) -> Value:
    p, a = s.program, s.operand("self")
    if kind_of(a) != "f":
        return p.compare("lt", a, p.number(0, a.dtype))
    word = "int32" if a.dtype == "float32" else "int64"
    bits = p.instruction(word, f"bitcast {a.register} {{0}} to {'i' + word[3:]}", a)
    return p.compare("lt", bits, p.number(0, word))


def _rounding(name: str) -> Row:
    def row(s: Step) -> Value:
        a = s.operand("self")
        return s.program.intrinsic(name, a) if kind_of(a) == "f" else a

    return row


def _sqrt(s: Step) -> Value:
    s.need("f")
    return s.program.intrinsic("sqrt", s.operand("self"))


def _inverse(s: Step, a: Value) -> Value:
    return s.program.arithmetic("div", s.number(1), a)


def _reciprocal(s: Step) -> Value:
    s.need("f")
    return _inverse(s, s.operand("self"))


def _rsqrt(s: Step) -> Value:
    return _inverse(s, _sqrt(s))


def _pow(s: Step) -> Value:
    """A power with one of the exponents that have products and roots of their own."""
    s.need("f")
    exponent = s.raw("exponent")
    if isinstance(exponent, Node) or s.is_narrow or not isinstance(s.raw("self"), Node):
        raise CannotLower("pow")
    a = s.operand("self")
    square = _product(s, a, a)
    made: dict[float, Callable[[], Value]] = {
        0.5: lambda: s.program.intrinsic("sqrt", a),
        1.0: lambda: a,
        2.0: lambda: square,
        3.0: lambda: _product(s, square, a),
        -0.5: lambda: _inverse(s, s.program.intrinsic("sqrt", a)),
        -1.0: lambda: _inverse(s, a),
        -2.0: lambda: _inverse(s, square),
    }
    if exponent not in made:
        raise CannotLower("pow")
    return made[exponent]()


def _called(stub: str) -> Row:
    """A row of eager kernels that is a ufunc of one float."""
    function = OPERATORS[stub][0]
    assert isinstance(function, np.ufunc)

    def row(s: Step) -> Value:
        s.need("f")
        return s.ufunc(function, s.operand("self"))

    return row


def _sigmoid(s: Step) -> Value:
    s.need("f")
    p = s.program
    power = s.ufunc(np.exp, p.negative(s.operand("self")))
    return _inverse(s, p.arithmetic("add", power, s.number(1)))


def _silu(s: Step) -> Value:
    s.need("f")
    p, a = s.program, s.operand("self")
    power = s.ufunc(np.exp, p.negative(a))
    return p.arithmetic("div", a, p.arithmetic("add", power, s.number(1)))


def _gelu(s: Step) -> Value:
    """Of float32, by the polynomials of eager kernels around NumPy's tanh."""
    spec = s.call.args["self"]
    is_plain = spec.is_contiguous and spec.sizes == s.call.outputs[0].sizes
    if s.dtype != "float32" or s.is_narrow or not is_plain:
        raise CannotLower("gelu")
    p, a = s.program, s.operand("self")
    one, half = s.number(1), s.number(0.5)
    is_chained = s.numel > gelu_chain.CHAINED_FROM
    if s.call.args["approximate"] != "tanh":
        if s.numel <= m.FEW:
            raise CannotLower("gelu")
        square = _product(s, a, a)
        share = _product(s, square, s.number(m.NORMAL[-1]))
        for coefficient in m.NORMAL[-2:0:-1]:
            share = _product(s, p.arithmetic("add", share, s.number(coefficient)), square)
        share = _product(s, p.arithmetic("add", share, s.number(m.NORMAL[0])), a)
        share = _product(s, p.arithmetic("add", s.ufunc(np.tanh, share), one), half)
        return _product(s, share, a)
    if is_chained:
        cubic = _product(s, _product(s, a, a), s.number(m.SQRT_2_OVER_PI * m.CUBIC))
        inner = _product(s, p.arithmetic("add", cubic, s.number(m.SQRT_2_OVER_PI)), a)
        share = _product(s, p.arithmetic("add", s.ufunc(np.tanh, inner), one), half)
        return _product(s, share, a)
    cubed = _product(s, _product(s, _product(s, s.number(m.CUBIC), a), a), a)
    inner = _product(s, s.number(m.SQRT_2_OVER_PI), p.arithmetic("add", a, cubed))
    return _product(s, _product(s, half, a), p.arithmetic("add", one, s.ufunc(np.tanh, inner)))


def _sigmoid_backward(s: Step) -> Value:
    s.need("f")
    p, y = s.program, s.operand("output")
    factor = _product(s, y, p.arithmetic("sub", s.number(1), y))
    return _product(s, s.operand("grad_output"), factor)


def _tanh_backward(s: Step) -> Value:
    s.need("f")
    p, y = s.program, s.operand("output")
    return _product(s, s.operand("grad_output"), p.arithmetic("sub", s.number(1), _product(s, y, y)))


def _silu_backward(s: Step) -> Value:
    s.need("f")
    p, a, one = s.program, s.operand("self"), s.number(1)
    share = _inverse(s, p.arithmetic("add", one, s.ufunc(np.exp, p.negative(a))))
    slope = p.arithmetic("add", one, _product(s, a, p.arithmetic("sub", one, share)))
    return _product(s, s.operand("grad_output"), _product(s, share, slope))


def _threshold_backward(s: Step) -> Value:
    p = s.program
    below = p.compare("le", s.operand("self"), s.operand("threshold"))
    return p.select(below, s.number(0), s.operand("grad_output"))


def _threshold(s: Step) -> Value:
    s.need("f")
    p, a = s.program, s.operand("self")
    return p.select(p.compare("le", a, s.operand("threshold")), s.operand("value"), a)


def _leaky_relu(s: Step) -> Value:
    """The larger of a and its product where the slope allows it."""
    _check_extremes(s)
    p, a, slope = s.program, s.operand("self"), s.raw("negative_slope")
    scaled = _product(s, a, s.operand("negative_slope"))
    if not isinstance(slope, Node) and 0 < np.dtype(s.dtype).type(slope) <= 1:
        return p.maximum(a, scaled)
    return p.select(p.compare("gt", a, s.number(0)), a, scaled)


def _leaky_relu_backward(s: Step) -> Value:
    p, grad = s.program, s.operand("grad_output")
    above = p.compare("gt", s.operand("self"), s.number(0))
    return p.select(above, grad, _product(s, grad, s.operand("negative_slope")))


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
    return p.arithmetic("div", _product(s, a, clipped), s.number(6))


def _lerp(s: Step) -> Value:
    """Of a number as weight."""
    s.need("f")
    p, start, end, weight = s.program, s.operand("self"), s.operand("end"), s.raw("weight")
    if isinstance(weight, Node):
        raise CannotLower("lerp")
    span = p.arithmetic("sub", end, start)
    rounded = np.dtype(s.dtype).type(weight)
    if abs(rounded) < 0.5:
        return p.arithmetic("add", start, _product(s, span, s.operand("weight")))
    return p.arithmetic("sub", end, _product(s, span, s.number(1 - rounded)))


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

ROWS: dict[str, Row] = {
    "abs": _abs,
    "add": _add,
    "addcdiv": _addc("div"),
    "addcmul": _addc("mul"),
    "bitwise_and": _bitwise("and"),
    "bitwise_left_shift": _shift("left"),
    "bitwise_not": _bitwise_not,
    "bitwise_or": _bitwise("or"),
    "bitwise_right_shift": _shift("right"),
    "bitwise_xor": _bitwise("xor"),
    "ceil": _rounding("ceil"),
    "clamp": _clamp,
    "clamp_max": _clamp,
    "clamp_min": _clamp,
    "div": _div,
    "div_mode": _div_mode,
    "eq": _compare("eq"),
    "floor": _rounding("floor"),
    "floor_divide": _integer_division("floor_divide"),
    "fmod": _integer_division("fmod"),
    "ge": _compare("ge"),
    "gelu": _gelu,
    "gt": _compare("gt"),
    "hardsigmoid": _hardsigmoid,
    "hardswish": _hardswish,
    "le": _compare("le"),
    "leaky_relu": _leaky_relu,
    "leaky_relu_backward": _leaky_relu_backward,
    "lerp": _lerp,
    "logical_and": _logical("and"),
    "logical_not": _logical_not,
    "logical_or": _logical("or"),
    "logical_xor": _logical("xor"),
    "lt": _compare("lt"),
    "maximum": _extreme("maximum"),
    "minimum": _extreme("minimum"),
    "mul": _mul,
    "ne": _compare("ne"),
    "neg": _neg,
    "pow": _pow,
    "reciprocal": _reciprocal,
    "relu": _relu,
    "remainder": _integer_division("remainder"),
    "round": _rounding("rint"),
    "rsqrt": _rsqrt,
    "rsub": _rsub,
    "sgn": _sign,
    "sigmoid": _sigmoid,
    "sigmoid_backward": _sigmoid_backward,
    "sign": _sign,
    "signbit": _signbit,
    "silu": _silu,
    "silu_backward": _silu_backward,
    "sqrt": _sqrt,
    "sub": _sub,
    "tanh_backward": _tanh_backward,
    "threshold": _threshold,
    "threshold_backward": _threshold_backward,
    "trunc": _rounding("trunc"),
    "where": _where,
}
"""By stub: the value of an operator's call."""
ROWS |= {name: _called(name) for name in CALLED}
