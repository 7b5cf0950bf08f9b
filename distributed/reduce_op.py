"""What a reduction over processes does with their numbers."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from ..dispatch.tensor import Tensor

__all__ = ["PremultipliedSum", "ReduceOp", "Reduction", "make_premultiplied_sum", "supports_complex"]


class ReduceOp(enum.Enum):
    """What `all_reduce` and its kin do with the numbers of all processes (`torch.distributed.ReduceOp`).

    Sums of float16 and bfloat16 are computed in float32. Bools are added as by "or" and multiplied as by "and". AVG
    divides the sum by the number of processes; of integers it takes the whole part. The bitwise BAND, BOR and BXOR take
    integers and bools.
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
    """A sum of numbers that each process multiplies by a factor of its own before (`ReduceOp.PREMUL_SUM`)."""

    factor: float | Tensor


Reduction: TypeAlias = ReduceOp | PremultipliedSum
"""What reductions take."""


def make_premultiplied_sum(factor: float | Tensor) -> PremultipliedSum:
    """A sum with a factor (`torch.distributed._make_nccl_premul_sum`)."""
    return PremultipliedSum(factor)


def supports_complex(reduceOp: Reduction) -> bool:
    """Whether complex numbers can be reduced so (`torch.distributed.supports_complex`)."""
    return reduceOp not in _NOT_OF_COMPLEX


_NOT_OF_COMPLEX = frozenset(
    {ReduceOp.MAX, ReduceOp.MIN, ReduceOp.PRODUCT, ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR}
)
