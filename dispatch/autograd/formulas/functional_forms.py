"""Backward of view copies and of scatters: helpers of the views' own derivatives, and gradient strides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...core.overload_packet import packets

if TYPE_CHECKING:
    from ...tensor import Tensor


def restrided(grad: Tensor, strides: Sequence[int]) -> Tensor:
    """Return the gradient with the strides of the input, as a strided view expects."""
    return grad if grad._spec.strides == tuple(strides) else packets["_restride"].call(grad, strides)
