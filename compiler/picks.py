"""Steps that pick an element for each number of an index tensor, in pointwise kernels on CUDA.

They are `gather`, and `index_select` of the last dimension. An element is loaded where its number says, among the loads
of the kernel. Rows of tables have steps of their own, in kernels over rows (`gathers`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ..dispatch.core.op_overload import OpOverload
from ..dispatch.layers.graph.graph import Node
from ..runtime.tensor_spec import TensorSpec
from .gathers import NUMBERS
from .pointwise import bound_arguments
from .reductions import DTYPES

GATHER, INDEX_SELECT = "aten::gather", "aten::index_select"


class PickCall(NamedTuple):
    """A step that picks elements along a dimension.

    Attributes:
        node: the step.
        source: what elements are picked of.
        numbers: which are picked.
        dim: along which dimension.
    """

    node: Node
    source: Node
    numbers: Node
    dim: int

    @property
    def operands(self) -> list[Any]:
        """What is read at the index of the result: the numbers alone."""
        return [self.numbers]

    @property
    def strides(self) -> tuple[int, ...]:
        """The source's strides over the result, 0 along the dimension."""
        return tuple([0 if d == self.dim else s for d, s in enumerate(self.source.val.strides)])


def pick_call(node: Node) -> PickCall | None:
    """A step as one that picks elements, or None for any other."""
    if node.op != "call_function" or not isinstance(node.target, OpOverload):
        return None
    name = node.target._entry.name
    if name not in (GATHER, INDEX_SELECT) or not isinstance(node.val, TensorSpec):
        return None
    source, dim, numbers = bound_arguments(node)[:3]
    spec, from_, which = node.val, source.val, numbers.val
    if source is numbers or spec.device.type != "cuda" or not spec.is_contiguous or not spec.ndim:
        return None
    if any(each.device is not spec.device for each in (from_, which)) or from_.ndim != spec.ndim:
        return None
    if which.dtype not in NUMBERS or from_.dtype not in DTYPES or which.numel < 2 or not from_.numel:
        return None
    at = dim % spec.ndim
    # The numbers of `index_select` are broadcast to the result as they are only along the last dimension.
    if spec.numel < 2 or (name == INDEX_SELECT and at != spec.ndim - 1):
        return None
    return PickCall(node, source, numbers, at)
