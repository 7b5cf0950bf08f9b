"""Backward of copies of views and of scatters: what the views' own derivatives call, and a gradient's strides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...core.overload_packet import packets

if TYPE_CHECKING:
    from ...tensor import Tensor


def restrided(grad: Tensor, strides: Sequence[int]) -> Tensor:
    """The gradient under the strides that an input had, in which a strided view finds its elements."""
    return grad if grad._spec.strides == tuple(strides) else packets["_restride"].call(grad, strides)
