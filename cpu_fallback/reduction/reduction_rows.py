"""Lowering of row reductions of float32: softmax and its gradients, layer_norm, rms_norm, sums, variances, maxima.

A row describes the eager kernel's computation, in its order, for all sizes of the whole tensor. If the kernel adds in
an order without a function in `reduction_source`, there is no row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from ...dispatch.layers.graph.graph import Node
from ...dispatch.structured.meta.loss import MEAN
from ...dispatch.structured.stub import StructuredCall
from ...runtime.cpu.element_program import CannotLower, ElementProgram, Value
from ...runtime.cpu.elementary_functions import instructions_of
from ...runtime.tensor_spec import TensorSpec
from ..normalization import compiled_rows, row_norm
from ..normalization import softmax as softmax_kernels
from ..normalization.softmax_rows import MIDDLE, MIN_ROW
from . import half_words
from .blocks import SHARED_BYTES
from .line_reductions import SHORT_LINE
from .reduction_source import LONGEST_LINE
from .reduction_source import REDUCTIONS as LINE_REDUCTIONS
from .small_variance import FEW
from .sums import BLOCK, SMALL_MATRIX

F32, F64 = "float32", "float64"
SUMS = ("line_sum", "streamed_sum")
"""Reductions that are sums in float32."""
NARROW = ("float16", "bfloat16")


class RowCounts(Protocol):
    """Interface of the rows of a step."""

    @property
    def n(self) -> int:
        """Number of elements of a row."""

    @property
    def rows(self) -> int:
        """Number of rows."""


class RowsRead(Protocol):
    """Interface of a step for `RowStep`: its rows, and the arguments of its kernel after its outputs."""

    @property
    def space(self) -> RowCounts:
        """The rows."""

    @property
    def operands(self) -> list[Any]:
        """Nodes and numbers."""


class RowStep:
    """Call of a reduction, as lowerings see it.

    Attributes:
        program: The program to which values are added.
        call: The structured call.
        n: The number of elements of a row.
        rows: The number of rows.
    """

    def __init__(
        self, program: ElementProgram, call: StructuredCall, step: RowsRead, values: dict[Node, Value]
    ) -> None:
        self.program, self.call = program, call
        self.n, self.rows = step.space.n, step.space.rows
        self._given = dict(zip(call.runtime, step.operands, strict=True))
        self._values = values

    def spec(self, name: str) -> TensorSpec:
        """Return the spec of a tensor."""
        result: TensorSpec = self.call.args[name]
        return result

    def raw(self, name: str) -> Any:
        """Return an argument as the kernel is called with it."""
        return self._given[name] if name in self._given else self.call.args[name]

    def operand(self, name: str) -> Value:
        """Return a tensor converted to float32 for computation. Raise CannotLower for other dtypes."""
        if self.spec(name).dtype.name not in (F32, *NARROW):
            raise CannotLower(self.spec(name).dtype.name)
        return self.program.convert(self._values[self.raw(name)], F32)

    def value(self, name: str) -> Value:
        """Return a tensor in its own dtype."""
        return self._values[self.raw(name)]

    def number(self, number: float, dtype: str = F32) -> Value:
        """Return a number as a value."""
        return self.program.number(np.dtype(dtype).type(number), dtype)

    def reduced(self, name: str, *rows: Value) -> Value:
        """Reduce one row, or two, with a function of `reduction_source`. Raise CannotLower if it is not bitwise
        identical."""
        is_made = all(row.kind != "constant" for row in rows)
        if not self.program.has_function(name) or self.n > LONGEST_LINE or not is_made:
            raise CannotLower(name)
        if name in SUMS and id(rows[0]) in self.program.one_hots:
            return self._of_one_hot(*self.program.one_hots[id(rows[0])])
        dtype = F64 if LINE_REDUCTIONS[name] == "double" else F32
        return self.program.value("reduction", dtype, operands=rows, detail=name)

    def _of_one_hot(self, position: Value, number: Value) -> Value:
        """Return the sum of a one-hot row: zero if the position is outside of the row."""
        p = self.program
        is_first = p.compare("ge", position, p.number(0, position.dtype))
        is_there = p.bitwise("and", is_first, p.compare("lt", position, p.number(self.n, position.dtype)))
        # A negative zero and a zero add up to zero.
        return p.select(is_there, self.binary("add", number, self.number(0)), self.number(0))

    def binary(self, name: str, a: Value, b: Value) -> Value:
        """Return ``add``, ``sub``, ``mul`` or ``div`` of two values."""
        return self.program.arithmetic(name, a, b)

    def function(self, ufunc: np.ufunc, a: Value) -> Value:
        """Return a ufunc of float32, by instructions or by NumPy's loop."""
        made = instructions_of(self.program, ufunc.__name__, a)
        return made or self.program.value("ufunc", F32, operands=(a,), detail=ufunc)


ReductionRow = Callable[[RowStep], Sequence[Value]]
"""Function from a reduction's call to its results, in float32. It raises CannotLower for an unsupported call."""


def _extreme(name: str) -> ReductionRow:
    """Return the lowering of a maximum or minimum."""

    def row(s: RowStep) -> list[Value]:
        spec = s.spec("self")
        if spec.dtype.name != F32 or s.n > SHORT_LINE or s.call.extra["dims"] != (spec.ndim - 1,):
            raise CannotLower(name)
        return [s.reduced(name, s.operand("self"))]

    return row


def _line_sum(s: RowStep) -> Value:
    """Return the sum of a row, in float32."""
    spec = s.spec("self")
    if s.call.outputs[0].dtype is not spec.dtype:
        raise CannotLower("sum")
    is_last = s.call.extra["dims"] == (spec.ndim - 1,)
    if spec.dtype.name == F32 and spec.nbytes >= SHARED_BYTES:
        return s.reduced("streamed_sum", s.operand("self"))
    if spec.dtype.name in NARROW and spec.numel >= half_words.FROM and not s.n % 2:
        if s.n > 2 * half_words.WORDS:
            raise CannotLower("sum")
        return s.reduced("half_sum", s.operand("self"))
    if not is_last:
        raise CannotLower("sum")
    return s.reduced("line_sum", s.operand("self"))


def _sum(s: RowStep) -> list[Value]:
    if s.n <= BLOCK and s.n * s.rows <= SMALL_MATRIX and s.spec("self").dtype.name == F32:
        raise CannotLower("sum")
    return [_line_sum(s)]


def _mean(s: RowStep) -> list[Value]:
    return [s.binary("div", _line_sum(s), s.number(s.n))]


def _variance(root: bool, with_mean: bool) -> ReductionRow:
    """Return the lowering of ``var``, ``std``, ``var_mean`` or ``std_mean``.

    If no function has eager's order (several dimensions, few elements), the sum is in float64.
    """

    def row(s: RowStep) -> list[Value]:
        p, spec, a = s.program, s.spec("self"), s.operand("self")
        correction = s.raw("correction") if "correction" in s.call.args else s.call.extra["correction"]
        if isinstance(correction, Node):
            raise CannotLower("correction")
        freedom = max(s.n - (1 if correction is None else correction), 0)
        is_last = s.call.extra["dims"] == (spec.ndim - 1,)
        is_small = spec.dtype.name == F32 and spec.numel <= FEW and not with_mean
        if is_last and not is_small:
            total = s.reduced("spread", a)
            narrow = s.binary("div", p.maximum(p.convert(total, F32), s.number(0)), s.number(freedom))
            narrow = p.intrinsic("sqrt", narrow) if root else narrow
        else:
            total, narrow = s.reduced("wide_spread", a), None
        made = s.binary("div", total, s.number(freedom, F64))
        made = p.convert(p.intrinsic("sqrt", made) if root else made, F32)
        if narrow is not None:
            # A total that overflows float32 comes from float64, and so do values computed from it.
            size = p.intrinsic("fabs", p.convert(total, F32))
            made = p.select(p.compare("lt", size, s.number(np.inf)), narrow, made)
        if not with_mean:
            return [made]
        return [made, p.convert(s.binary("div", s.reduced("finite_sum", a), s.number(s.n, F64)), F32)]

    return row


def adds_by_size(n: int) -> bool:
    """Return True if softmax and norms add rows of `n` elements in another order when there are few of them."""
    return n <= max(softmax_kernels.EXPANDED, row_norm.EXPANDED)


def _softmax_sum(s: RowStep, name: str, a: Value, b: Value | None = None) -> Value:
    """Return the sum of a row, or of its products with another row, as softmax adds.

    `name` is the argument whose sizes determine the order.
    """
    spec = s.spec(name)
    if s.call.extra["dim"] != spec.ndim - 1:
        raise CannotLower("softmax")
    tensors = [x for x in (*s.call.args.values(), *s.call.outputs) if isinstance(x, TensorSpec)]
    if spec.numel > softmax_kernels.ONE_CALL and s.n >= MIN_ROW:
        made = s.reduced("row_sum", a) if b is None else s.reduced("row_dot", a, b)
        return s.program.convert(made, F32)
    is_own = all(x.dtype.name == F32 for x in tensors)
    if not is_own and spec.numel <= 2 * softmax_kernels.BLOCK:
        raise CannotLower("softmax")  # NumPy's pairwise sum
    is_product = spec.ndim == 2 and s.n <= softmax_kernels.ROW
    if is_product or (is_own and adds_by_size(s.n) and spec.numel <= 2 * softmax_kernels.BLOCK):
        raise CannotLower("softmax")
    return s.reduced("line_sum", a if b is None else s.binary("mul", a, b))


def _softmax(s: RowStep) -> list[Value]:
    p, a, middle = s.program, s.operand("self"), s.number(MIDDLE)
    row_max = s.reduced("maximum", a)
    # `exp_of_rows`: eager subtracts no maximum that is near.
    is_near = p.compare("le", p.intrinsic("fabs", s.binary("sub", row_max, middle)), middle)
    row_max = p.select(is_near, s.number(0), row_max)
    power = s.function(np.exp, s.binary("sub", a, row_max))
    return [s.binary("div", power, _softmax_sum(s, "self", power))]


def _log_softmax(s: RowStep) -> list[Value]:
    a = s.operand("self")
    shifted = s.binary("sub", a, s.reduced("maximum", a))
    total = _softmax_sum(s, "self", s.function(np.exp, shifted))
    return [s.binary("sub", shifted, s.function(np.log, total))]


def _softmax_backward(s: RowStep) -> list[Value]:
    grad, output = s.operand("grad_output"), s.operand("output")
    total = _softmax_sum(s, "output", grad, output)
    return [s.binary("mul", s.binary("sub", grad, total), output)]


def _log_softmax_backward(s: RowStep) -> list[Value]:
    grad, output = s.operand("grad_output"), s.operand("output")
    total = _softmax_sum(s, "output", grad)
    return [s.binary("sub", grad, s.binary("mul", s.function(np.exp, output), total))]


def _logsumexp(s: RowStep) -> list[Value]:
    """Lower log(sum(exp(self - max))) + max, with 0 instead of an infinite maximum."""
    p, a, spec = s.program, s.operand("self"), s.spec("self")
    if s.call.extra["dims"] != (spec.ndim - 1,):
        raise CannotLower("logsumexp")
    row_max = s.reduced("maximum", a)
    is_finite = p.compare("lt", p.intrinsic("fabs", row_max), s.number(np.inf))
    row_max = p.select(is_finite, row_max, s.number(0))
    total = s.reduced("line_sum", s.function(np.exp, s.binary("sub", a, row_max)))
    return [s.binary("add", s.function(np.log, total), row_max)]


def _norm(centred: bool) -> ReductionRow:
    """Return the lowering of layer_norm, or of rms_norm, which subtracts no mean and has no bias."""

    def row(s: RowStep) -> list[Value]:
        spec, p = s.spec("input"), s.program
        is_small = s.n <= row_norm.EXPANDED and s.n * s.rows <= row_norm.SMALL
        if centred and is_small and spec.dtype.name == F32:
            raise CannotLower("layer_norm")
        a, count = s.operand("input"), s.number(s.n, F64)
        kind = "lane" if compiled_rows.is_served(s.call, s.rows, s.n) else "row"
        results = []
        if centred:
            mean = p.convert(s.binary("div", s.reduced(f"{kind}_sum", a), count), F32)
            a = s.binary("sub", a, mean)
            results.append(mean)
        eps = s.raw("eps")
        if isinstance(eps, Node):
            raise CannotLower("eps")
        eps = row_norm.epsilon(np.float32) if eps is None else eps
        share = s.binary("div", s.reduced(f"{kind}_dot", a, a), count)
        root = p.intrinsic("sqrt", s.binary("add", share, s.number(eps, F64)))
        scale = p.convert(s.binary("div", s.number(1, F64), root), F32)
        made = s.binary("mul", a, scale)
        for name, operation in (("weight", "mul"), ("bias", "add")):
            if isinstance(s.call.args.get(name), TensorSpec):
                made = s.binary(operation, made, s.operand(name))
        return [made, *results, scale]

    return row


def _norm_backward(centred: bool) -> ReductionRow:
    """Return the lowering of the gradients of layer_norm or rms_norm; those of weight and bias are summed over rows."""

    def row(s: RowStep) -> list[Value]:
        p, grad, gap = s.program, s.operand("grad_out"), s.operand("input")
        rstd = s.operand("rstd")
        if centred:
            gap = s.binary("sub", gap, s.operand("mean"))
        normal = s.binary("mul", gap, rstd)
        scaled = grad
        if isinstance(s.call.args.get("weight"), TensorSpec):
            scaled = s.binary("mul", grad, s.operand("weight"))
        wide, count = p.convert(rstd, F64), s.number(s.n, F64)
        cube = s.binary("mul", s.binary("mul", wide, wide), wide)
        along = s.binary("div", s.reduced("lane_dot", scaled, gap), count)
        slope = p.convert(s.binary("mul", cube, along), F32)
        made = s.binary("mul", scaled, rstd)
        made = s.binary("sub", made, s.binary("mul", gap, slope))
        if centred:
            plain = s.binary("div", s.reduced("lane_sum", scaled), count)
            made = s.binary("sub", made, p.convert(s.binary("mul", wide, plain), F32))
        return [made, s.binary("mul", grad, normal), grad]

    return row


def _nll_loss_backward(s: RowStep) -> list[Value]:
    """Lower the gradient of nll_loss: a number at the target, and zeros. Ignored rows have an invalid target."""
    p, grad, total = s.program, s.operand("grad_output"), s.operand("total_weight")
    is_mean = s.raw("reduction") == MEAN
    made = s.binary("mul", grad, s.number(-1 / s.rows if is_mean else -1))
    if is_mean:
        # Eager divides if some row is ignored.
        divided = s.binary("div", p.negative(grad), total)
        made = p.select(p.compare("eq", total, s.number(s.rows)), made, divided)
    return [_one_hot(s, s.value("target"), made)]


def _one_hot(s: RowStep, index: Value, number: Value) -> Value:
    """Return a row of zeros except for a number, at a 32-bit index."""
    p = s.program
    index = p.convert(index, "int32")
    position = p.convert(p.value("position", "int64"), "int32")
    row = p.select(p.compare("eq", position, index), number, s.number(0))
    p.one_hots[id(row)] = index, number
    return row


def _scatter(s: RowStep) -> list[Value]:
    """Lower a scatter-add of a number for each row, into zeros at a place of the row."""
    if not isinstance(s.raw("src"), Node) or s.call.extra["reduce"] != "add":
        raise CannotLower("scatter")
    return [_one_hot(s, s.value("index"), s.binary("add", s.operand("src"), s.number(0)))]


REDUCTIONS: dict[str, ReductionRow] = {
    "amax": _extreme("maximum"),
    "amin": _extreme("minimum"),
    "sum": _sum,
    "mean": _mean,
    "var": _variance(root=False, with_mean=False),
    "std": _variance(root=True, with_mean=False),
    "var_mean": _variance(root=False, with_mean=True),
    "std_mean": _variance(root=True, with_mean=True),
    "softmax": _softmax,
    "log_softmax": _log_softmax,
    "logsumexp": _logsumexp,
    "softmax_backward": _softmax_backward,
    "log_softmax_backward": _log_softmax_backward,
    "native_layer_norm": _norm(True),
    "fused_rms_norm": _norm(False),
    "scatter": _scatter,
    "nll_loss_backward": _nll_loss_backward,
    "native_layer_norm_backward": _norm_backward(True),
    "fused_rms_norm_backward": _norm_backward(False),
}
"""By stub."""
