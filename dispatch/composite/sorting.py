"""Sorting made of other operators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..generated import functions as ops
from ..iterator.overlap import check_write_overlap, shares_memory
from .dimnames import by_name, refused
from .forms import write_out

if TYPE_CHECKING:
    from ..tensor import Tensor


def argsort(self: Tensor, dim: int, descending: bool) -> Tensor:
    """Return `torch.argsort`: the source indices of the sorted elements."""
    return ops.sort(self, dim, descending)[1]


def argsort_stable(self: Tensor, stable: bool, dim: int, descending: bool) -> Tensor:
    """Run `torch.argsort`; equal elements keep their order."""
    return ops.sort(self, stable=stable, dim=dim, descending=descending)[1]


def argsort_out(self: Tensor, stable: bool, dim: int, descending: bool, out: Tensor) -> Tensor:
    """Run `torch.argsort` with an ``out=`` tensor."""
    return write_out("argsort", out, argsort_stable(self, stable, dim, descending))


def msort(self: Tensor) -> Tensor:
    """Return `torch.msort`: the values sorted along the first dimension."""
    return ops.sort(self, 0, False)[0]


def msort_out(self: Tensor, out: Tensor) -> Tensor:
    """Run `torch.msort` with an ``out=`` tensor."""
    if shares_memory(out, self):
        check_write_overlap(out, self)
    return write_out("msort", out, msort(self), exact=True, strided=True)


sort_by_name = refused("sort")
argsort_by_name = refused("argsort")
kthvalue_by_name = by_name("kthvalue")
kthvalue_by_name_out = by_name("kthvalue.values")
median_by_name = by_name("median.dim")
median_by_name_out = by_name("median.dim_values")
nanmedian_by_name = by_name("nanmedian.dim")
nanmedian_by_name_out = by_name("nanmedian.dim_values")
