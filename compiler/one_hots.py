"""A scatter-add of one number into each row of zeros, as a step over rows, on the CPU if compiled loops are available.

It is the gradient of a `gather` of one element per row (`passes.scattered_zeros` prepares the zeros). Readers of the
row recompute it, so the row need not be written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..cpu_fallback.indexing.index_bounds import check_bounds
from ..dispatch.core.op_overload import OpOverload
from ..dispatch.layers.graph.graph import Node
from ..dispatch.plans.structured_kernel import StructuredKernel
from ..runtime.cpu.object_code import is_possible
from ..runtime.dispatch_key import BY_NAME
from ..runtime.scalar_type import bfloat16, float16, float32
from ..runtime.tensor_spec import TensorSpec
from .fused_step import Check
from .gathers import NUMBERS
from .pointwise import PointwiseCall, bound_arguments
from .reductions import RowCall, is_served
from .row_space import RowSpace, View

SCATTER_ADD, EXPAND = "aten::scatter_add", "aten::expand"
DTYPES = frozenset({float16, bfloat16, float32})
LONGEST = (1 << 31) - 1
"""The longest row, whose positions fit in 32 bits."""


class OneHotCall(RowCall):
    """A step that adds a number to zeros at a place of each row."""

    @property
    def indices(self) -> Node:
        """The indices within the rows."""
        index_node: Node = self.call.values[2]
        return index_node

    @property
    def takes_all_rows(self) -> bool:
        """True: the eager kernel is called with all rows, which share the expanded zero."""
        return True

    @property
    def check(self) -> tuple[Node, Check]:
        """The bounds check of the indices."""
        return self.indices, check_of_indices(self)

    def view_of(self, operand: Node, space: RowSpace) -> View:
        """Return the view of an input: a number for each row, or the zeros."""
        return View(operand, len(space.sizes))


def one_hot_call(node: Node) -> OneHotCall | None:
    """Return a step as a scatter-add into rows of zeros, or None."""
    if node.op != "call_function" or not isinstance(node.target, OpOverload):
        return None
    entry = node.target._entry
    if entry.name != SCATTER_ADD or not is_possible():
        return None
    values = tuple(bound_arguments(node))
    zeros, dim, indices, numbers = values
    spec: TensorSpec = node.val
    if (
        spec.device.type != "cpu"
        or spec.ndim < 2
        or dim not in (-1, spec.ndim - 1)
        or spec.sizes[-1] > LONGEST
    ):
        return None
    space = RowSpace(tuple(spec.sizes[:-1]), (spec.sizes[-1],), spec.device)
    if any(tuple(each.val.sizes) != space.kept for each in (indices, numbers)) or not is_served(space, spec):
        return None
    if indices.val.dtype not in NUMBERS or numbers.val.dtype is not spec.dtype or spec.dtype not in DTYPES:
        return None
    if not spec.is_contiguous or not is_zero(zeros):
        return None
    kernel = entry.kernel_for(BY_NAME["CPU"])
    planner = None if kernel is None else kernel.planner
    if not isinstance(planner, StructuredKernel):
        return None
    runtime = entry.runtime_positions([v.val if isinstance(v, Node) else v for v in values])
    return OneHotCall(PointwiseCall(node, values, tuple(runtime), planner), space)


def is_zero(node: Node) -> bool:
    """Return True if all elements of a value are known to be zero: a constant, or one that is expanded."""
    name = node.target._entry.name if isinstance(node.target, OpOverload) else ""
    if name == EXPAND:
        return is_zero(node.args[0])
    if name == "aten::full":
        return bool(node.args[1] == 0)
    if node.op != "get_attr" or any(node.val.strides):
        return False
    value = node.graph.constants[node.target]
    return bool(value.detach().reshape(-1)[0].item() == 0)


def check_of_indices(call: OneHotCall) -> Callable[[Any], None]:
    """Return a function that checks an array of indices and raises the eager error for one out of bounds."""
    size, dim = call.space.n, len(call.space.lead)
    return lambda indices: check_bounds(indices, size, dim, False, RuntimeError)
