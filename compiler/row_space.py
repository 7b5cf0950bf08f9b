"""Index space of kernels over rows, and how a step views a kernel's inputs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from ..dispatch.layers.graph.graph import Node
from ..runtime.device import device as Device
from ..runtime.tensor_spec import TensorSpec


class RowSpace(NamedTuple):
    """Index space of steps that compute each row independently.

    Attributes:
        lead: The sizes of the dimensions that count rows.
        line: The sizes of a row.
        device: Its device.
    """

    lead: tuple[int, ...]
    line: tuple[int, ...]
    device: Device

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes of tensors that have all elements of all rows."""
        return self.lead + self.line

    @property
    def is_rows(self) -> bool:
        """True: each row is computed by itself."""
        return True

    @property
    def kept(self) -> tuple[int, ...]:
        """The sizes of tensors that have one number for each row, with the dimensions of a row as size 1."""
        return self.lead + (1,) * len(self.line)

    @property
    def rows(self) -> int:
        """Number of rows."""
        return math.prod(self.lead)

    @property
    def n(self) -> int:
        """The elements of a row."""
        return math.prod(self.line)

    def holds(self, sizes: Sequence[int]) -> bool:
        """Return True if a result of these sizes belongs to the kernel: whole rows, or a number for each."""
        return tuple(sizes) in (self.sizes, self.kept, self.lead)

    def joins(self, reader: Node, is_pointwise: bool, operand: Node) -> bool:
        """Return True if a step reads only the same row of another step's result.

        A number for each row must keep the row's dimensions: otherwise it would be broadcast along other dimensions.
        """
        if not isinstance(operand.val, TensorSpec):
            return True  # several results, of which `reader` takes one
        sizes = operand.val.sizes
        return len(sizes) == reader.val.ndim if is_pointwise else bool(sizes == self.sizes)


class View(NamedTuple):
    """View of an input by a step: with the row dimensions first, or unchanged.

    Attributes:
        node: The input.
        ndim: The number of dimensions to which it is expanded with size 1; None for an input that all rows share.
    """

    node: Node
    ndim: int | None
