"""Fusion of `tril` and `triu` with pointwise steps on CUDA: an element is kept or zero by its row and column."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..dispatch.core.op_overload import OpOverload
from ..dispatch.layers.graph.graph import Node
from ..runtime.tensor_spec import TensorSpec
from .fused_step import FusedStep, IndexSpace
from .pointwise import bound_arguments
from .reductions import DTYPES

if TYPE_CHECKING:
    from .triton.pointwise import ElementWriter

OPERATORS = {"aten::tril": False, "aten::triu": True}
"""True for the operator that keeps the upper triangle."""


@dataclass(frozen=True)
class TriangleCall(FusedStep):
    """Upper or lower triangle of matrices.

    Attributes:
        node: The step.
        source: The matrices.
        diagonal: The first or last diagonal that is kept, within the matrix or just outside of it.
        is_upper: True if the elements above the diagonal are kept, False for those below.
    """

    node: Node
    source: Node
    diagonal: int
    is_upper: bool

    @property
    def operands(self) -> list[Any]:
        """The matrices."""
        return [self.source]

    @property
    def coordinates(self) -> tuple[int, ...]:
        """The rows and the columns."""
        return self.node.val.ndim - 2, self.node.val.ndim - 1

    def is_supported_in(self, space: IndexSpace) -> bool:
        """Return False: only pointwise kernels have coordinates."""
        return False

    def write_elements(self, writer: ElementWriter) -> dict[Node, str]:
        """Add the step to a pointwise CUDA kernel."""
        from .triton.triangles import triangle_text

        return {self.node: triangle_text(self, writer)}


def triangle_call(node: Node) -> TriangleCall | None:
    """Return a step as a triangle of contiguous CUDA matrices, or None."""
    if node.op != "call_function" or not isinstance(node.target, OpOverload):
        return None
    is_upper = OPERATORS.get(node.target._entry.name)
    if is_upper is None:
        return None
    source, diagonal = bound_arguments(node)
    specs: tuple[TensorSpec, ...] = (source.val, node.val)
    if any(s.device.type != "cuda" or not s.is_contiguous or s.dtype not in DTYPES for s in specs):
        return None
    if node.val.numel < 2 or diagonal.__class__ is not int:
        return None
    rows, columns = node.val.sizes[-2:]
    return TriangleCall(node, source, max(-rows, min(diagonal, columns)), is_upper)
