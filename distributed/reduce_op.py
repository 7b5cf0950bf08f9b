"""Reductions over ranks."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from ..dispatch.tensor import Tensor

__all__ = ["PremultipliedSum", "ReduceOp", "Reduction", "make_premultiplied_sum", "supports_complex"]


class ReduceOp(enum.Enum):
    """Reduction operation of `all_reduce` and similar functions (`torch.distributed.ReduceOp`).

    Sums of float16 and bfloat16 accumulate in float32. For bools, the sum is "or" and the product is "and".
    AVG divides the sum by the number of ranks; for integers it truncates. BAND, BOR and BXOR are bitwise and
    take integers and bools.
    """

    SUM = 0
    AVG = 1
    PRODUCT = 2
    MIN = 3
    MAX = 4
    BAND = 5
    BOR = 6
    BXOR = 7
    PREMUL_SUM = 8


ReduceOp.RedOpType = ReduceOp  # type: ignore[attr-defined]  # PyTorch's name of the enumeration in its class


class PremultipliedSum(NamedTuple):
    """Sum whose inputs each rank multiplies by its own factor first (`ReduceOp.PREMUL_SUM`)."""

    factor: float | Tensor


Reduction: TypeAlias = ReduceOp | PremultipliedSum
"""Type of reduction arguments."""


def make_premultiplied_sum(factor: float | Tensor) -> PremultipliedSum:
    """Return a sum with a factor (`torch.distributed._make_nccl_premul_sum`)."""
    return PremultipliedSum(factor)


def supports_complex(reduceOp: Reduction) -> bool:
    """Return True if the reduction supports complex tensors (`torch.distributed.supports_complex`)."""
    return reduceOp not in _NOT_OF_COMPLEX


_NOT_OF_COMPLEX = frozenset(
    {ReduceOp.MAX, ReduceOp.MIN, ReduceOp.PRODUCT, ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR}
)
