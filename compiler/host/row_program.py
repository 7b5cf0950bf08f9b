"""Program of a row: values of elements, numbers of the row, and passes over whole rows between them.

A reduction is a value of kind ``reduction``, of one row or two, and `detail` names it (`reduction_source`). A gathered
element of a row has kind ``picked``, and an element's own index has kind ``position``. A value that depends on rows
only through reductions and gathers is a number of the row. A ufunc without instructions also goes over a row, by
NumPy's own loop (`ufunc_loops`). A pointwise kernel is a row program whose rows are tiles.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...cpu_fallback.reduction.reduction_rows import REDUCTIONS, RowStep
from ...dispatch.layers.graph.graph import Node
from ...dispatch.plans.structured_kernel import StructuredKernel
from ...runtime.cpu.element_loop import made_of
from ...runtime.cpu.element_program import CannotLower, ElementProgram, Value
from ...runtime.cpu.ufunc_loops import UfuncLoop, ufunc_loop
from ...runtime.fork_lock import cached_property
from ...runtime.tensor_spec import TensorSpec
from ...triton_kernels.geometry import broadcast_strides
from ..norm_gradients import GradientKernel
from ..reductions import RowCall, views_of
from ..row_space import RowSpace, View
from ..schedule import RowsKernel
from .draws import FEWEST

WEIGHTS = {"instruction": 1, "ufunc": 32, "draw": 16}
"""Instructions that a value takes for an element, about; a ufunc is NumPy's."""


@dataclass(frozen=True)
class RowProgram:
    """Inputs, computation and outputs of a row.

    Attributes:
        inputs: Values from arrays; the seeds of random ops, if any, are the last.
        outputs: Values stored to arrays.
        are_rows: True for an array with an element for each of a row's, inputs first; others have one for the row.
        columns: Values of a row's elements that are summed over rows.
    """

    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    are_rows: tuple[bool, ...]
    columns: tuple[Value, ...] = ()

    @cached_property
    def order(self) -> list[Value]:
        """All values in topological order."""
        return made_of((*self.outputs, *self.columns))

    @cached_property
    def rows(self) -> set[int]:
        """Return the `id` of the values with one element for each element of a row."""
        row_values = {id(v) for v, is_row in zip(self.inputs, self.are_rows, strict=False) if is_row}
        for value in self.order:
            if value.kind == "position":
                row_values.add(id(value))
            is_of_elements = value.kind in ("instruction", "ufunc", "draw")
            if is_of_elements and any(id(operand) in row_values for operand in value.operands):
                row_values.add(id(value))
        return row_values

    @cached_property
    def levels(self) -> dict[int, int]:
        """By the `id` of a value, the length of the chain of reductions, ufuncs and gathers before it."""
        level_of: dict[int, int] = {}
        for value in self.order:
            before = max((level_of[id(operand)] for operand in value.operands), default=0)
            level_of[id(value)] = before + (value.kind in ("reduction", "ufunc", "picked"))
        return level_of

    @property
    def reductions(self) -> list[str]:
        """Names of the row reductions."""
        return list(dict.fromkeys(str(v.detail) for v in self.order if v.kind == "reduction"))

    @property
    def ufuncs(self) -> dict[int, UfuncLoop]:
        """NumPy's loops, by the `id` of values. Raise CannotLower if there is none, or NumPy computes an operator."""
        loops = {}
        for value in self.order:
            if value.by_numpy:
                loop = ufunc_loop(value.detail, value.dtype) if value.kind == "ufunc" else None
                if loop is None or value.operands[0].kind == "constant":
                    raise CannotLower(value.name)
                loops[id(value)] = loop
        return loops

    @property
    def instructions(self) -> int:
        """Approximate number of instructions for an element."""
        return sum(WEIGHTS.get(value.kind, 0) for value in self.order)

    @cached_property
    def draws(self) -> list[Value]:
        """Random words, of which each row has its own."""
        return [value for value in self.order if value.kind == "draw"]

    def __str__(self) -> str:
        called = list(dict.fromkeys(value.name for value in self.order if value.kind == "ufunc"))
        over = "over rows" if self.reductions else "over tiles"
        over += ", which draws" if self.draws else ""
        over += ", which also adds them up" if self.columns else ""
        return f"one compiled loop {over}" + (f", with NumPy's {', '.join(called)}" if called else "")


def strides_of(view: View, space: RowSpace) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the strides of a kernel's input over the dimensions that count rows, and over those of a row."""
    spec, split = view.node.val, len(space.lead)
    if view.ndim == split:
        return broadcast_strides(spec, space.lead), (0,) * len(space.line)
    strides = broadcast_strides(spec, space.sizes)
    return strides[:split], strides[split:]


def program_of_rows(
    space: RowSpace,
    inputs: Mapping[View, Value],
    results: Sequence[Value],
    outputs: Sequence[TensorSpec],
    columns: Sequence[Value] = (),
) -> RowProgram:
    """Return the program that makes results, stored in outputs of these specs, from inputs with these views.

    Columns are summed over rows.
    """
    are_rows = [any(strides_of(view, space)[1]) for view in inputs]
    are_whole = [tuple(spec.sizes) == space.sizes for spec in outputs]
    seeds = [value for value in made_of((*results, *columns)) if value.kind == "seeds"]
    if seeds and space.n < FEWEST:
        raise CannotLower("draws of short rows")
    program_inputs = (*inputs.values(), *seeds)
    return RowProgram(
        program_inputs, tuple(results), (*are_rows, *(True for _ in seeds), *are_whole), tuple(columns)
    )


def stub_of(call: RowCall) -> str:
    """Return the name under which an operator's kernel is registered."""
    kernel = call.call.kernel
    return kernel.stub.removesuffix("_stub") if isinstance(kernel, StructuredKernel | GradientKernel) else ""


def lowered_reduction(call: RowCall, kernel: LoweredRows, values: dict[Node, Value]) -> dict[Node, Value]:
    """Return the values of a step over rows. Raise CannotLower if it has no lowering."""
    structured, _ = call.planned(kernel.specs)
    lower = REDUCTIONS.get(stub_of(call))
    if lower is None:
        raise CannotLower(structured.name)
    lowered = lower(RowStep(kernel.elements, structured, call, values))
    sums = call.column_sums.values()
    return {
        node: lowered[index] if node in sums else kernel.elements.convert(lowered[index], node.val.dtype.name)
        for index, node in call.results.items()
    }


class LoweredRows:
    """Kernel over rows as a row program. Raise CannotLower if a step has no lowering.

    Attributes:
        elements: The element program, to which steps add values.
        specs: The spec of each node, inputs and steps.
        random_ops: The kernel's random ops, in order.
        program: The row program.
        views: The view of each input of the program.
        outputs: The specs of its outputs.
    """

    def __init__(self, kernel: RowsKernel, program: ElementProgram) -> None:
        space = kernel.space
        self.elements, self.space, self.random_ops = program, space, kernel.draws
        self.specs = {node: node.val for node in (*kernel.inputs, *(call.node for call in kernel.calls))}
        self._inputs: dict[View, Value] = {}
        known: dict[Node, Value] = {}
        for call in kernel.computed:
            views = views_of(call, kernel.inputs, space)
            known |= call.lower_row(self, known | {node: self.input(view) for node, view in views.items()})
        inputs = self._inputs
        self.views = list(inputs)
        summed = set(kernel.column_sums)
        stored = [node for node in kernel.outputs if node not in summed]
        columns = [known[node] for node in kernel.outputs if node in summed]
        self.outputs = [node.val for node in stored]
        results = [known[node] for node in stored]
        self.program = program_of_rows(space, inputs, results, self.outputs, columns)

    def input(self, view: View) -> Value:
        """Return the value of a kernel's input in a view."""
        if view not in self._inputs:
            dtype = view.node.val.dtype.name
            self._inputs[view] = self.elements.value("input", dtype, detail=len(self._inputs))
        return self._inputs[view]
