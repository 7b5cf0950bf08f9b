"""Matcher of steps that compute each row independently: reductions over the last dimensions, softmax, layer norm.

A row has the reduced dimensions, `RowSpace.line`; the dimensions before it, `RowSpace.lead`, count the rows. A step's
result for a row is a number or a row that depends on no other row. So a block of rows can be computed together with
pointwise steps. The kernel is the eager one, planned for the specs of some rows.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from ..dispatch.core.op_overload import OpOverload
from ..dispatch.layers.graph.graph import Node
from ..dispatch.plans.structured_kernel import StructuredKernel
from ..dispatch.structured.stub import PlannedKernel, StructuredCall
from ..runtime.dispatch_key import BY_NAME
from ..runtime.scalar_type import bfloat16, bool_, float16, float32, float64, int8, int16, int32, int64, uint8
from ..runtime.tensor_spec import TensorSpec
from .fused_step import FusedStep, IndexSpace
from .pointwise import PointwiseCall, bound_arguments, is_planned_alone
from .row_space import RowSpace, View

if TYPE_CHECKING:
    from ..runtime.cpu.element_program import Value
    from .host.row_program import LoweredRows
    from .triton.row_statements import Program

OPERATORS = frozenset(
    f"aten::{name}"
    for name in (
        *("sum.dim_IntList", "mean.dim", "prod.dim_int", "amax", "amin", "any.dim", "all.dim", "logsumexp"),
        *(
            "var.dim",
            "std.dim",
            "var.correction",
            "std.correction",
            "var_mean.correction",
            "std_mean.correction",
        ),
        *("max.dim", "min.dim", "argmax", "argmin"),
        *("_softmax", "_log_softmax", "_softmax_backward_data", "_log_softmax_backward_data"),
        *("_vector_norm", "native_layer_norm", "_fused_rms_norm"),
    )
)
"""The operators that may reduce rows."""
PLACES = frozenset({"aten::max.dim", "aten::min.dim", "aten::argmax", "aten::argmin"})
"""Argmax and argmin operators."""
DTYPES = frozenset({bool_, uint8, int8, int16, int32, int64, float16, bfloat16, float32, float64})
"""Dtypes of rows: some operators refuse other dtypes, or compute them in other ways."""
LONGEST_ROW_BYTES = 1 << 20
"""The longest row on the CPU in bytes: blocks have whole rows, and must fit in the cache."""
LONGEST_DEVICE_ROW = 1 << 16
"""The longest row on a GPU, in elements, for one program."""
FEWEST_DEVICE_ROWS = 128
"""Rows from which programs of one row fill a GPU; eager kernels share the work on fewer long ones among programs."""
SHORT_DEVICE_ROW = 4096
"""The longest row, in elements, for which one program is as fast as several."""


@dataclass(frozen=True)
class RowCall(FusedStep):
    """Step that computes each row independently.

    Attributes:
        call: The step, with its kernel.
        space: Its rows.
    """

    call: PointwiseCall
    space: RowSpace

    @property
    def node(self) -> Node:
        """The step."""
        return self.call.node

    @property
    def operands(self) -> list[Any]:
        """Arguments of the kernel after its outputs: nodes and numbers."""
        return self.call.operands

    @property
    def index_space(self) -> RowSpace:
        """Its rows."""
        return self.space

    @property
    def takes_all_rows(self) -> bool:
        """True if the eager kernel needs all rows, since it also computes sums over rows."""
        return bool(self.column_sums)

    def planned(self, specs: dict[Node, TensorSpec]) -> tuple[StructuredCall, PlannedKernel]:
        """Return the kernel for operands of these specs."""
        return self.call.planned(specs)

    def view_of(self, operand: Node, space: RowSpace) -> View:
        """Return the view of an input that the step reads."""
        is_rows = operand.val.sizes == space.sizes and operand.val.ndim
        return View(operand, len(space.sizes) if is_rows else None)

    def reads_inside(self, operand: Node, space: IndexSpace) -> bool:
        """Return True if a row of the result reads only the same row of an operand."""
        return self.space.joins(self.node, False, operand)

    def is_loop_alone(self, stubs: frozenset[str]) -> bool:
        """Return True for a call on the CPU of one of the eager kernels."""
        return is_planned_alone(self.node, self.call.kernel, stubs)

    def lower_row(self, kernel: LoweredRows, values: dict[Node, Value]) -> dict[Node, Value]:
        """Add the step to a CPU loop over rows."""
        from .host.row_program import lowered_reduction

        return lowered_reduction(self, kernel, values)

    def write_row(self, program: Program, values: dict[Node, str], row_size: int) -> dict[Node, str]:
        """Add the step to a CUDA kernel over rows."""
        from .triton.row_statements import reduction_of_rows

        return reduction_of_rows(self, program, values, row_size)


@dataclass(frozen=True)
class ResultOf(FusedStep):
    """A step that takes one of several results of another step.

    Attributes:
        node: the step.
    """

    node: Node
    is_computed: ClassVar[bool] = False

    @property
    def operands(self) -> list[Any]:
        """The step that has several results."""
        return [self.node.args[0]]


def row_call(node: Node) -> RowCall | None:
    """Return a step that computes each row independently, or None."""
    if node.op != "call_function" or not isinstance(node.target, OpOverload) or node.is_impure:
        return None
    entry = node.target._entry
    if entry.name not in OPERATORS:
        return None
    values = tuple(bound_arguments(node))
    names = [argument.name for argument in entry.schema.arguments]
    tensors = [v for v in values if isinstance(v, Node)]
    source = tensors[0].val
    if not isinstance(source, TensorSpec) or source.device.type not in ("cpu", "cuda"):
        return None
    space = space_of(source, dict(zip(names, values, strict=True)))
    if space is None or not is_served(space, source):
        return None
    results = node.val if isinstance(node.val, tuple | list) else (node.val,)
    if not are_of_rows(space, [v.val for v in tensors], results):
        return None
    if not isinstance(node.val, TensorSpec) and not takes_each_once(node):
        return None
    if source.dtype is bool_ and entry.name in PLACES:
        return None
    kernel = entry.kernel_for(BY_NAME["CPU" if source.device.type == "cpu" else "CUDA"])
    planner = None if kernel is None else kernel.planner
    if not isinstance(planner, StructuredKernel) or planner.form != "functional":
        return None
    runtime = entry.runtime_positions([v.val if isinstance(v, Node) else v for v in values])
    return RowCall(PointwiseCall(node, values, tuple(runtime), planner), space)


def space_of(source: TensorSpec, arguments: Mapping[str, Any]) -> RowSpace | None:
    """Return the rows of an operator with these arguments; None if it does not reduce the last dimensions."""
    if "normalized_shape" in arguments:
        count = len(arguments["normalized_shape"])
    else:
        dim = arguments["dim"]
        dims = dim if isinstance(dim, tuple | list) else [dim]
        if any(d.__class__ is not int for d in dims) or not source.ndim:
            return None
        reduced = sorted({d % source.ndim for d in dims})
        count = len(reduced)
        if reduced != list(range(source.ndim - count, source.ndim)):
            return None
    if not 0 < count < source.ndim:
        return None
    split = source.ndim - count
    return RowSpace(tuple(source.sizes[:split]), tuple(source.sizes[split:]), source.device)


def are_of_rows(space: RowSpace, operands: Sequence[TensorSpec], results: Sequence[TensorSpec]) -> bool:
    """Return True if a step reads and makes only contiguous rows, lines that rows share, and numbers for each row."""
    return (
        all(spec.is_contiguous and space.holds(spec.sizes) for spec in results)
        and all(spec.is_contiguous and spec.sizes in (space.sizes, space.line) for spec in operands)
        and all(spec.device is space.device and spec.dtype in DTYPES for spec in operands)
    )


def is_served(space: RowSpace, source: TensorSpec) -> bool:
    """Return True if rows are many and short enough for a block to have several."""
    if space.rows < 2 or space.n < 2:
        return False
    if space.device.type == "cpu":
        return space.n * source.itemsize <= LONGEST_ROW_BYTES
    return space.n <= SHORT_DEVICE_ROW or (space.n <= LONGEST_DEVICE_ROW and space.rows >= FEWEST_DEVICE_ROWS)


def takes_each_once(node: Node) -> bool:
    """Return True if a node's results are only read by `getitem`, each by one step."""
    indices = [user.args[1] if user.target is operator.getitem else None for user in node.users]
    return None not in indices and len(set(indices)) == len(indices) > 0


def views_of(call: FusedStep, inputs: Sequence[Node], space: RowSpace) -> dict[Node, View]:
    """Return the views that a step has of those of its operands that are the kernel's inputs."""
    operands = [operand for operand in call.operands if isinstance(operand, Node)]
    return {operand: call.view_of(operand, space) for operand in operands if operand in inputs}
