"""Formulas of reductions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...structured.native.dims import reduced_dims


def unreduced(grad: Any, shape: Sequence[int], dim: Any, keepdim: bool) -> Any:
    """The gradient of a sum, spread over what was summed."""
    if not keepdim:
        for d in reduced_dims(dim, len(shape)):
            grad = grad.unsqueeze(d)
    return grad.expand(shape)
