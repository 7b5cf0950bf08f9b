"""Steps of a row kernel as statements of Triton source, for rows that are read once or in several passes.

A statement defines one value of a tile, or combines the elements of its rows to a number for each. Texts are
templates: ``{y3}`` is the value `y3`, whose name differs between passes if a row is read several times. Softmax, layer
norm and variances are the statements of their own kernels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ...dispatch.layers.graph.graph import Node
from ...dispatch.structured.stub import ElementFunction
from ...runtime.cuda.triton.lazy_triton import tl
from ...runtime.scalar_type import bool_, float64
from ...runtime.tensor_spec import TensorSpec
from ...triton_kernels.conversion import compute_type, triton_type
from ...triton_kernels.elementwise.elementwise import HEAVY
from ...triton_kernels.elementwise.pointwise_functions import divide, exp, log, rsqrt
from ...triton_kernels.indexing.index_bounds import Bound
from ...triton_kernels.normalization.softmax_kernels import gradient, normalised, scale_of, summand
from ...triton_kernels.reduction.joint_reduction_kernels import finite
from ...triton_kernels.reduction.moments_kernels import spread
from ...triton_kernels.reduction.reduction import NORMS, REDUCTIONS, Reduction
from ..draws import DropoutCall
from ..pointwise import PointwiseCall
from ..reductions import RowCall, views_of
from ..row_space import View
from ..schedule import RowsKernel
from .source_text import number_text, type_text


class Statement(NamedTuple):
    """Definition of one value.

    Attributes:
        name: Its name.
        text: A template of its expression, or of the combined value.
        reads: The names of the values in it.
        comment: The comment before it.
        reduction: The combine functions over a row; None for a value of each element.
        accumulator: The accumulator's type, as source.
        words: The registers of an element.
        moves_along_rows: True if it differs between elements of a row although none of its operands does.
    """

    name: str
    text: str
    reads: tuple[str, ...]
    comment: str = ""
    reduction: Reduction | None = None
    accumulator: Any = None
    words: int = 1
    moves_along_rows: bool = False


@dataclass
class Program:
    """Statements of a kernel, and their requirements.

    Attributes:
        statements: The statements in order.
        loads: The view of an input for each loaded value.
        stores: The values of the outputs, in their order.
        imports: Functions by their names in the source.
        is_heavy: True if a step uses many registers.
        pointers: The names of the inputs' pointers.
        bounds: The bounds of indices, and the inputs that hold them; a launch has a word for each, in `flags`.
        draws: The random ops in order.
    """

    statements: list[Statement] = field(default_factory=list)
    loads: dict[str, View] = field(default_factory=dict)
    stores: dict[Node, str] = field(default_factory=dict)
    imports: dict[Any, str] = field(default_factory=dict)
    is_heavy: bool = False
    pointers: dict[Node, str] = field(default_factory=dict)
    bounds: list[tuple[Bound, Node]] = field(default_factory=list)
    draws: list[DropoutCall] = field(default_factory=list)

    def pointer(self, node: Node) -> str:
        """Return the pointer of an input."""
        return self.pointers[node]

    def flag(self, bound: Bound, numbers: Node) -> str:
        """Return the address of the flag for an input's indices out of bounds."""
        self.bounds.append((bound, numbers))
        return f"flags + {len(self.bounds) - 1}"

    def function(self, made: Any) -> str:
        """Return the name of a `@triton.jit` function in the source."""
        return self.imports.setdefault(made, f"f_{made.__name__}_{len(self.imports)}")

    def value(
        self, text: str, *reads: str, comment: str = "", words: int = 1, moves_along_rows: bool = False
    ) -> str:
        """Define a value of each element, or of each row. Return its name."""
        name = f"y{len(self.statements)}"
        self.statements.append(
            Statement(name, text, reads, comment, words=words, moves_along_rows=moves_along_rows)
        )
        return name

    def combined(self, row: Reduction, text: str, *reads: str, type_: Any, comment: str = "") -> str:
        """Define a number for each row, of the accumulator's type. Return its name."""
        name = f"y{len(self.statements)}"
        words = type_.primitive_bitwidth // 32 or 1
        self.statements.append(Statement(name, text, reads, comment, row, type_, words))
        return name


def program_of(kernel: RowsKernel) -> Program:
    """Return the statements of a kernel. Raise RuntimeError for an unsupported step."""
    made = Program(pointers={node: f"a{i}" for i, node in enumerate(kernel.inputs)})
    values: dict[Node, str] = {}
    loaded: dict[View, str] = {}
    for call in kernel.computed:
        own = dict(values)
        for node, view in views_of(call, kernel.inputs, kernel.space).items():
            if node in call.gathered:
                continue  # a table, of which no element is at the same place for all rows
            if view not in loaded:
                loaded[view] = f"x{len(loaded)}"
                made.loads[loaded[view]] = view
            own[node] = loaded[view]
        values |= call.write_row(made, own, kernel.space.n)
    made.stores = {node: values[node] for node in kernel.outputs}
    made.statements = _read(made)
    return made


def _read(made: Program) -> list[Statement]:
    """Return the statements whose values are read or stored, without unused statistics."""
    read_names = set(made.stores.values())
    live_statements = []
    for statement in reversed(made.statements):
        if statement.name in read_names:
            read_names.update(statement.reads)
            live_statements.append(statement)
    return live_statements[::-1]


def rounded(text: str, spec: TensorSpec) -> str:
    """Return a value rounded to the dtype that it has in the program."""
    return f"convert({text}, {type_text(triton_type(spec.dtype))})"


def words_of(spec: TensorSpec) -> int:
    """Return the number of registers that an element takes."""
    return max(spec.itemsize // 4, 1)


def element_of_rows(call: PointwiseCall, made: Program, values: dict[Node, str]) -> str:
    """Add a pointwise step to a program. Return the name of its value."""
    from .pointwise import operands_of

    specs = {node: node.val for node in values}
    element: ElementFunction | None = call.planned(specs)[1].element
    if element is None:
        raise RuntimeError(f"{call.node.target.name()} has no function of one element")
    made.is_heavy = made.is_heavy or element.function in HEAVY
    arguments = operands_of(element, call.operands, {n: f"{{{name}}}" for n, name in values.items()})
    reads = [values[operand] for operand in call.operands if isinstance(operand, Node)]
    text = rounded(f"{made.function(element.function)}({arguments})", call.node.val)
    return made.value(text, *reads, comment=call.node.format_node(), words=words_of(call.node.val))


def reduction_of_rows(
    call: RowCall, made: Program, values: dict[Node, str], row_size: int
) -> dict[Node, str]:
    """Add a step over rows to a program. Return the names of its results' values."""
    lower = LOWERED[call.node.target._entry.name]
    names = lower(Row(made, call, values, row_size))
    return {call.results[index]: name for index, name in names.items() if index in call.results}


class Row(NamedTuple):
    """Step over rows to be lowered.

    Attributes:
        program: The program to which statements are added.
        call: The step.
        values: The names of its operands.
        n: The elements of a row.
    """

    program: Program
    call: RowCall
    values: dict[Node, str]
    n: int

    def argument(self, name: str) -> Any:
        """Return an argument of the operator."""
        names = [argument.name for argument in self.call.node.target._entry.schema.arguments]
        return self.call.call.values[names.index(name)]

    @property
    def correction(self) -> Any:
        """Correction of a variance: subtracted from the number of elements; None for the default."""
        names = {argument.name for argument in self.call.node.target._entry.schema.arguments}
        return self.argument("correction") if "correction" in names else int(self.argument("unbiased"))

    @property
    def comment(self) -> str:
        """The step as the graph has it."""
        return self.call.node.format_node()

    def given(self, name: str, type_: Any, comment: str = "") -> str:
        """Add an operand in the compute type. Return the value's name."""
        own = self.values[self.argument(name)]
        words = type_.primitive_bitwidth // 32 or 1
        return self.program.value(
            f"convert({{{own}}}, {type_text(type_)})", own, comment=comment, words=words
        )

    def stored(self, text: str, *reads: str, index: int = 0) -> str:
        """Add a result, rounded to the output's dtype. Return the value's name."""
        spec = self.call.specs[index]
        return self.program.value(rounded(text, spec), *reads, words=words_of(spec))

    def total(self, text: str, *reads: str, type_: Any) -> str:
        """Add the sum of a row. Return the value's name."""
        return self.program.combined(REDUCTIONS["sum_stub"], text, *reads, type_=type_)

    def number(self, value: float | int, type_: Any) -> str:
        """Return a number as source."""
        return f"tl.full([], {number_text(value)}, {type_text(type_)})"


def _reduced(stub: str, of_truth: str | None = None) -> Callable[[Row], dict[int, str]]:
    """Return the lowering of a reduction with one accumulator; `of_truth` is for a boolean output."""

    def lower(row: Row) -> dict[int, str]:
        is_truth = of_truth is not None and row.call.specs[0].dtype is bool_
        return _combined(row, REDUCTIONS[of_truth if is_truth and of_truth else stub])

    return lower


def _combined(row: Row, how: Reduction) -> dict[int, str]:
    """Lower a reduction with one accumulator, which combines as its own kernel does."""
    source, out = row.argument("self").val.dtype, row.call.specs[0]
    type_ = how.accumulate(source, out.dtype)
    made = row.program
    value = row.given("self", type_, row.comment)
    text = f"convert({made.function(how.load)}({{{value}}}), {type_text(type_)})"
    total = made.combined(how, text, value, type_=type_)
    finish = f"{made.function(how.finish)}({{{total}}}, {row.number(row.n, tl.int64)})"
    return {0: row.stored(finish, total)}


def _arg_extreme(stub: str, has_value: bool) -> Callable[[Row], dict[int, str]]:
    """Return the lowering of argmax or argmin: a NaN before any number, and the first among equals."""

    def lower(row: Row) -> dict[int, str]:
        type_ = compute_type(row.argument("self").val.dtype)
        made = row.program
        how = REDUCTIONS[stub]
        value = row.given("self", type_, row.comment)
        extreme = made.combined(how, f"{{{value}}}", value, type_=type_)
        is_extreme = f"({{{value}}} == {{{extreme}}}) | ({{{value}}} != {{{value}}}) & ({{{extreme}}} != {{{extreme}}})"
        first = REDUCTIONS["amin_stub"]
        element_index = made.combined(
            first, f"tl.where({is_extreme}, r, {row.n})", value, extreme, type_=tl.int64
        )
        if not has_value:
            return {0: row.stored(f"{{{element_index}}}", element_index)}
        other = row.number(how.start(type_), type_)
        # Zeros of both signs are equal.
        extreme_value = made.combined(
            how,
            f"tl.where(r == {{{element_index}}}, {{{value}}}, {other})",
            value,
            element_index,
            type_=type_,
        )
        return {
            0: row.stored(f"{{{extreme_value}}}", extreme_value),
            1: row.stored(f"{{{element_index}}}", element_index, index=1),
        }

    return lower


def _softmax(is_log: bool) -> Callable[[Row], dict[int, str]]:
    def lower(row: Row) -> dict[int, str]:
        type_ = compute_type(row.argument("self").val.dtype)
        made = row.program
        value = row.given("self", type_, row.comment)
        row_max = made.combined(REDUCTIONS["amax_stub"], f"{{{value}}}", value, type_=type_)
        total = row.total(f"{made.function(exp)}({{{value}}} - {{{row_max}}})", value, row_max, type_=type_)
        scale = made.value(f"{made.function(scale_of)}({{{total}}}, {is_log})", total)
        result = (
            f"{made.function(normalised)}({{{value}}}, {{{row_max}}}, {{{total}}}, {{{scale}}}, {is_log})"
        )
        return {0: row.stored(result, value, row_max, total, scale)}

    return lower


def _softmax_backward(is_log: bool) -> Callable[[Row], dict[int, str]]:
    def lower(row: Row) -> dict[int, str]:
        type_ = compute_type(row.argument("output").val.dtype)
        made = row.program
        grad, value = row.given("grad_output", type_, row.comment), row.given("output", type_)
        text = f"{made.function(summand)}({{{grad}}}, {{{value}}}, {is_log})"
        total = row.total(text, grad, value, type_=type_)
        result = f"{made.function(gradient)}({{{grad}}}, {{{value}}}, {{{total}}}, {is_log})"
        return {0: row.stored(result, grad, value, total)}

    return lower


def _logsumexp(row: Row) -> dict[int, str]:
    type_ = compute_type(row.call.specs[0].dtype)
    made = row.program
    value = row.given("self", type_, row.comment)
    row_max = made.combined(REDUCTIONS["amax_stub"], f"{{{value}}}", value, type_=type_)
    shift = made.value(f"{made.function(finite)}({{{row_max}}})", row_max)
    total = row.total(f"{made.function(exp)}({{{value}}} - {{{shift}}})", value, shift, type_=type_)
    return {0: row.stored(f"{made.function(log)}({{{total}}}) + {{{shift}}}", total, shift)}


def _normalised(is_centred: bool) -> Callable[[Row], dict[int, str]]:
    """Return the lowering of layer_norm, or of rms_norm, which subtracts no mean and has no bias."""

    def lower(row: Row) -> dict[int, str]:
        spec = row.argument("input").val
        type_ = compute_type(spec.dtype)
        made = row.program
        count, divided = row.number(row.n, type_), made.function(divide)
        value = row.given("input", type_, row.comment)
        results = {}
        if is_centred:
            total = row.total(f"{{{value}}}", value, type_=type_)
            centre = made.value(f"{divided}({{{total}}}, {count})", total)
            value = made.value(f"{{{value}}} - {{{centre}}}", value, centre)
            results[1] = row.stored(f"{{{centre}}}", centre, index=1)
        squares = row.total(f"{{{value}}} * {{{value}}}", value, type_=type_)
        eps = row.argument("eps")
        added = row.number(
            (2.0**-52 if spec.dtype is float64 else 2.0**-23) if eps is None else float(eps), type_
        )
        factor = made.value(f"{made.function(rsqrt)}({divided}({{{squares}}}, {count}) + {added})", squares)
        last = 2 if is_centred else 1
        results[last] = row.stored(f"{{{factor}}}", factor, index=last)
        text, reads = f"{{{value}}} * {{{factor}}}", [value, factor]
        for name, operation in (("weight", "*"), ("bias", "+"))[: 2 if is_centred else 1]:
            if row.argument(name) is not None:
                parameter = row.given(name, type_)
                text = f"({text}) {operation} {{{parameter}}}"
                reads.append(parameter)
        results[0] = row.stored(text, *reads)
        return results

    return lower


def _moments(is_root: bool, has_mean: bool) -> Callable[[Row], dict[int, str]]:
    """Return the lowering of a variance or its root: about the rounded mean, with a correction for its rounding.

    The source is Chan, Golub, LeVeque, 1983.
    """

    def lower(row: Row) -> dict[int, str]:
        type_ = compute_type(row.argument("self").val.dtype)
        made = row.program
        correction = row.correction
        freedom = float(max(row.n - (1 if correction is None else correction), 0))
        count, divided = row.number(row.n, type_), made.function(divide)
        value = row.given("self", type_, row.comment)
        total = row.total(f"{{{value}}}", value, type_=type_)
        mean = made.value(f"{divided}({{{total}}}, {count})", total)
        gap = made.value(f"{{{value}}} - {{{mean}}}", value, mean)
        left = row.total(f"{{{gap}}}", gap, type_=type_)
        squares = row.total(f"{{{gap}}} * {{{gap}}}", gap, type_=type_)
        about = made.value(f"{{{squares}}} - {{{left}}} * {divided}({{{left}}}, {count})", squares, left)
        number = row.number(freedom, tl.float64)
        result = f"{made.function(spread)}({{{about}}}, {number}, {is_root})"
        results = {0: row.stored(result, about)}
        if has_mean:
            results[1] = row.stored(f"{{{mean}}}", mean, index=1)
        return results

    return lower


LOWERED: dict[str, Callable[[Row], dict[int, str]]] = {
    "aten::sum.dim_IntList": _reduced("sum_stub", "any_stub"),
    "aten::mean.dim": _reduced("mean_stub"),
    "aten::prod.dim_int": _reduced("prod_stub", "all_stub"),
    "aten::amax": _reduced("amax_stub"),
    "aten::amin": _reduced("amin_stub"),
    "aten::any.dim": _reduced("any_stub"),
    "aten::all.dim": _reduced("all_stub"),
    "aten::max.dim": _arg_extreme("amax_stub", True),
    "aten::min.dim": _arg_extreme("amin_stub", True),
    "aten::argmax": _arg_extreme("amax_stub", False),
    "aten::argmin": _arg_extreme("amin_stub", False),
    "aten::_vector_norm": lambda row: _combined(row, NORMS[row.argument("ord")]),
    "aten::logsumexp": _logsumexp,
    "aten::_softmax": _softmax(False),
    "aten::_log_softmax": _softmax(True),
    "aten::_softmax_backward_data": _softmax_backward(False),
    "aten::_log_softmax_backward_data": _softmax_backward(True),
    "aten::native_layer_norm": _normalised(True),
    "aten::_fused_rms_norm": _normalised(False),
    "aten::var.dim": _moments(False, False),
    "aten::std.dim": _moments(True, False),
    "aten::var.correction": _moments(False, False),
    "aten::std.correction": _moments(True, False),
    "aten::var_mean.correction": _moments(False, True),
    "aten::std_mean.correction": _moments(True, True),
}
"""Lowering of each operator to the names of its outputs' values, by their indices."""
