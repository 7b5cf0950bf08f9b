"""Formulas of pooling."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...tensor import Tensor


def at_maxima(x: Tensor, indices: Tensor, rank: int) -> Tensor:
    """Return the elements of `x` at the pooling indices, over the last `rank` dimensions."""
    lead = tuple(indices.shape)[:-rank]
    planes, places = math.prod(tuple(x.shape)[-rank:]), math.prod(tuple(indices.shape)[-rank:])
    found = x.reshape((*lead, planes)).gather(-1, indices.reshape((*lead, places)))
    return found.reshape(tuple(indices.shape))
