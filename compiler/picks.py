"""Gathers of one element for each index, in pointwise kernels.

They are `gather`, and `index_select` of the last dimension; on the CPU also `x[..., indices]`, and in row kernels a
`gather` of one element per row. The kernel loads an element at its index. Gathers of table rows are steps of row
kernels (`gathers`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from ..dispatch.core.op_overload import OpOverload
from ..dispatch.layers.graph.graph import Node
from ..runtime.cpu.object_code import is_possible
from ..runtime.tensor_spec import TensorSpec
from .fused_step import Check, EagerCall, FusedStep, IndexSpace
from .gathers import NUMBERS
from .pointwise import bound_arguments
from .reductions import DTYPES
from .row_space import RowSpace

if TYPE_CHECKING:
    from ..runtime.cpu.element_program import Value
    from .host.lowering import Lowered
    from .host.row_program import LoweredRows
    from .triton.pointwise import ElementWriter

GATHER, INDEX_SELECT, INDEX = "aten::gather", "aten::index_select", "aten::index.Tensor"


@dataclass(frozen=True)
class PickCall(FusedStep):
    """Gather of elements along a dimension.

    Attributes:
        node: The step.
        source: The source tensor.
        numbers: The indices.
        dim: The dimension.
        wraps: True if negative indices count from the end.
    """

    node: Node
    source: Node
    numbers: Node
    dim: int
    wraps: bool
    is_split_off: ClassVar[bool] = True

    @property
    def operands(self) -> list[Any]:
        """Operands read at the result's index: the indices alone."""
        return [self.numbers]

    @property
    def strides(self) -> tuple[int, ...]:
        """The source's strides over the result, 0 along the dimension."""
        return tuple([0 if d == self.dim else s for d, s in enumerate(self.source.val.strides)])

    def is_of_rows(self, space: RowSpace) -> bool:
        """Return True if the step picks one element of each row and the rows are on the CPU, so a row kernel can fuse
        it."""
        sizes, last = tuple(self.node.val.sizes), len(space.lead)
        is_one = (
            len(space.line) == 1 and self.dim == last and sizes == space.kept == tuple(self.numbers.val.sizes)
        )
        return is_one and space.device.type == "cpu" and tuple(self.source.val.sizes) == space.sizes

    @property
    def gathered(self) -> tuple[Node, ...]:
        """The source and the indices."""
        return self.source, self.numbers

    def is_supported_in(self, space: IndexSpace) -> bool:
        """Return True if it picks one element of each row of a CPU kernel."""
        return isinstance(space, RowSpace) and self.is_of_rows(space)

    def lower_elements(self, kernel: Lowered) -> dict[Node, Value]:
        """Add the step to a CPU loop over elements."""
        from .host.picks import picked

        index = kernel.inputs.index(self.source) + kernel.first
        # Gathers from the same elements share a pointer to them.
        origins = [(pick.source, pick.strides) for pick in kernel.picks]
        number = origins.index((self.source, self.strides))
        return {self.node: picked(kernel.program, self, kernel.values[self.numbers], index, number)}

    def lower_row(self, kernel: LoweredRows, values: dict[Node, Value]) -> dict[Node, Value]:
        """Add the step to a CPU loop over rows."""
        from .host.picks import picked_of_row

        return {self.node: picked_of_row(kernel, self, values)}

    def eager_call(self) -> EagerCall:
        """Return the step as an eager call."""
        from .host.picks import eager_pick

        return EagerCall(eager_pick(self), [self.source, self.numbers], [self.node])

    @property
    def check(self) -> tuple[Node, Check]:
        """The bounds check of the indices."""
        from .host.picks import check_of

        return self.numbers, check_of(self)

    def write_elements(self, writer: ElementWriter) -> dict[Node, str]:
        """Add the step to a pointwise CUDA kernel."""
        from .triton.gathers import picked_elements

        return {self.node: picked_elements(self, writer)}


def pick_call(node: Node) -> PickCall | None:
    """Return a step as a gather of elements, or None."""
    if node.op != "call_function" or not isinstance(node.target, OpOverload):
        return None
    name, spec = node.target._entry.name, node.val
    if name not in (GATHER, INDEX_SELECT, INDEX) or not isinstance(spec, TensorSpec):
        return None
    source, dim, numbers = bound_arguments(node)[:3] if name != INDEX else _of_last(node)
    if not isinstance(numbers, Node) or source is numbers or not spec.is_contiguous or not spec.ndim:
        return None
    if spec.device.type != "cuda" and not (spec.device.type == "cpu" and is_possible()):
        return None
    if name == INDEX and spec.device.type == "cuda":
        return None
    from_, which = source.val, numbers.val
    if any(each.device is not spec.device for each in (from_, which)) or from_.ndim != spec.ndim:
        return None
    if which.dtype not in NUMBERS or from_.dtype not in DTYPES or which.numel < 2 or not from_.numel:
        return None
    pick_dim = dim % spec.ndim
    # Only along the last dimension are the indices of `index_select` broadcast to the result unchanged.
    if spec.numel < 2 or (name != GATHER and (pick_dim != spec.ndim - 1 or which.ndim != 1)):
        return None
    return PickCall(node, source, numbers, pick_dim, name == INDEX)


def _of_last(node: Node) -> tuple[Node, int, Node | None]:
    """Return the source, dimension and indices of an `index` call; no indices unless only the last dimension
    has some."""
    source, indices = bound_arguments(node)
    is_last = len(indices) == source.val.ndim and not any(isinstance(each, Node) for each in indices[:-1])
    return source, -1, indices[-1] if is_last else None
