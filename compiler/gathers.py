"""Gathers of table rows by an index tensor: embeddings, `index_select`, an index tensor.

A row of the result is a row of the table, so the step is computed for a block of rows together with its readers. On
CUDA it is a load at a loaded address; on the CPU rows are copied into a block. Indices are checked as the eager
kernels check them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ..dispatch.core.op_overload import OpOverload
from ..dispatch.layers.graph.graph import Node
from ..dispatch.plans.structured_kernel import StructuredKernel
from ..runtime.dispatch_key import BY_NAME
from ..runtime.scalar_type import int32, int64
from ..runtime.tensor_spec import TensorSpec
from .fused_step import FusedStep, IndexSpace
from .pointwise import DeviceOnly, PointwiseCall, bound_arguments
from .reductions import DTYPES, RowCall, is_served
from .row_space import RowSpace, View

if TYPE_CHECKING:
    from .triton.row_statements import Program

NUMBERS = frozenset({int32, int64})
"""The dtypes of row numbers; masks are no numbers."""


FEWEST_ON_HOST = 1 << 15
"""Elements from which rows are taken block by block on the CPU: fewer stay in the cache from step to step."""


class TableRows(NamedTuple):
    """Rows that an operator gathers from a table.

    Attributes:
        table: The tensor whose rows are gathered.
        numbers: The row indices.
        wraps: True if negative indices count from the end.
    """

    table: Node
    numbers: Node
    wraps: bool


class GatherCall(RowCall):
    """A step that takes rows of a table, a row of the result for each number."""

    @property
    def rows(self) -> TableRows:
        """Table and indices of the gathered rows."""
        table_rows = _rows_of(self.node.target._entry.name, self.call.values)
        assert table_rows is not None
        return table_rows

    @property
    def operands(self) -> list[Any]:
        """The table and the numbers."""
        return [self.rows.table, self.rows.numbers]

    @property
    def gathered(self) -> tuple[Node, ...]:
        """The table."""
        return (self.rows.table,)

    def view_of(self, operand: Node, space: RowSpace) -> View:
        """Return the view of an input: an index for each row, or the table as a whole.

        The step's own rows may be broadcast to more rows.
        """
        return View(operand, len(space.lead) if operand is self.rows.numbers else None)

    def space_for_reader(self, reader: FusedStep, space: IndexSpace | None) -> RowSpace | None:
        """Return the rows over which this step is fused with a CUDA step that broadcasts its result, or None."""
        if not (space is None or isinstance(space, RowSpace)):
            return None
        spec, line = reader.node.val, self.space.line
        row_space = space or RowSpace(tuple(spec.sizes[: -len(line)]), line, self.space.device)
        is_broadcast = row_space.line == line and tuple(spec.sizes) == row_space.sizes
        on_device = self.space.device.type == "cuda" and spec.ndim >= self.node.val.ndim
        return row_space if is_broadcast and on_device and is_served(row_space, spec) else None

    def reads_inside(self, operand: Node, space: IndexSpace) -> bool:
        """Return False: any row may read any part of the table, and the numbers are read before it."""
        return False

    def write_row(self, program: Program, values: dict[Node, str], row_size: int) -> dict[Node, str]:
        """Add the step to a CUDA kernel over rows."""
        from .triton.gathers import taken_rows

        return {self.node: taken_rows(program, self, values)}


def gather_call(node: Node) -> GatherCall | None:
    """Return a step as a gather of table rows, or None."""
    if node.op != "call_function" or not isinstance(node.target, OpOverload):
        return None
    entry = node.target._entry
    if entry.name not in OPERATORS or not isinstance(node.val, TensorSpec):
        return None
    values = tuple(bound_arguments(node))
    rows = _rows_of(entry.name, values)
    if rows is None or rows.table is rows.numbers:
        return None
    table, index, spec = rows.table.val, rows.numbers.val, node.val
    if spec.device.type not in ("cpu", "cuda") or any(s.device is not spec.device for s in (table, index)):
        return None
    if index.dtype not in NUMBERS or table.dtype not in DTYPES or not table.numel:
        return None
    if table.ndim < 2 or not (table.is_contiguous and spec.is_contiguous):
        return None
    space = RowSpace(tuple(index.sizes), tuple(table.sizes[1:]), spec.device)
    if not index.ndim or tuple(spec.sizes) != space.sizes or not is_served(space, spec):
        return None
    if spec.device.type == "cpu" and spec.numel <= FEWEST_ON_HOST:
        return None
    kernel = entry.kernel_for(BY_NAME["CPU" if spec.device.type == "cpu" else "CUDA"])
    planner = None if kernel is None else kernel.planner
    if not isinstance(planner, StructuredKernel) or planner.form != "functional":
        if spec.device.type == "cpu":
            return None
        return GatherCall(PointwiseCall(node, values, (), DeviceOnly()), space)
    runtime = entry.runtime_positions([v.val if isinstance(v, Node) else v for v in values])
    return GatherCall(PointwiseCall(node, values, tuple(runtime), planner), space)


def _embedding(values: tuple[Any, ...]) -> TableRows | None:
    return TableRows(values[0], values[1], False)


def _index_select(values: tuple[Any, ...]) -> TableRows | None:
    table, dim, index = values
    return TableRows(table, index, False) if dim in (0, -table.val.ndim) else None


def _index(values: tuple[Any, ...]) -> TableRows | None:
    table, indices = values
    return TableRows(table, indices[0], True) if len(indices) == 1 and isinstance(indices[0], Node) else None


OPERATORS = {
    "aten::embedding": _embedding,
    "aten::index_select": _index_select,
    "aten::index.Tensor": _index,
}
"""Operators that may gather rows, with functions from the arguments to the rows."""


def _rows_of(name: str, values: tuple[Any, ...]) -> TableRows | None:
    return OPERATORS[name](values)
