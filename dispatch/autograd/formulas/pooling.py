"""Formulas of pooling."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...tensor import Tensor


def at_maxima(x: Tensor, indices: Tensor, rank: int) -> Tensor:
    """Return the elements of `x` at the pooling indices, over the last `rank` dimensions."""
    lead = tuple(indices.shape)[:-rank]
    planes, num_windows = math.prod(tuple(x.shape)[-rank:]), math.prod(tuple(indices.shape)[-rank:])
    maxima = x.reshape((*lead, planes)).gather(-1, indices.reshape((*lead, num_windows)))
    return maxima.reshape(tuple(indices.shape))
