"""Dimension arguments: negative dimensions, reduction shapes, PyTorch's errors (ATen/WrapDimUtils.h)."""

from __future__ import annotations

from collections.abc import Sequence

MAX_ELEMENTS = 2**63 - 1
"""Maximum size of a dimension."""


def check_size(sizes: Sequence[int]) -> None:
    """Raise RuntimeError for a dimension whose size does not fit into 64 bits."""
    if any(n > MAX_ELEMENTS for n in sizes):
        raise RuntimeError(f"Storage size calculation overflowed with sizes={list(sizes)}")


def wrap_dim(dim: int, rank: int, scalar_ok: bool = True) -> int:
    """Wrap a dimension into [0, rank). Raises IndexError out of range; rank 0 takes 0 and -1 unless told otherwise."""
    if 0 <= dim < rank:
        return dim
    if rank == 0:
        if not scalar_ok:
            raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
        rank = 1
    if not -rank <= dim < rank:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got {dim})"
        )
    return dim % rank


def reduced_dims(dim: Sequence[int] | int | None, rank: int) -> tuple[int, ...]:
    """Return the dimensions to reduce, wrapped and sorted; none means all. Raises RuntimeError for duplicates."""
    if dim is None or (not isinstance(dim, int) and len(dim) == 0):
        return tuple(range(rank))
    if dim.__class__ is int:
        wrapped = wrap_dim(dim, rank)
        return (wrapped,) if rank else ()
    dims: list[int] = []
    for each in (dim,) if isinstance(dim, int) else dim:
        d = wrap_dim(each, rank)
        if d in dims:
            raise RuntimeError(f"dim {d} appears multiple times in the list of dims")
        dims.append(d)
    return tuple(sorted(dims)) if rank else ()


def reduced_shape(sizes: Sequence[int], dims: Sequence[int], keepdim: bool) -> tuple[int, ...]:
    """Return the sizes after reducing `dims`."""
    if keepdim:
        return tuple(1 if i in dims else n for i, n in enumerate(sizes))
    return tuple([n for i, n in enumerate(sizes) if i not in dims])
