"""Batching rules of views and of their backward operators: the mapped dimension moves to the front."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ....runtime.allocator import storage_size
from ...generated import functions as ops
from ...structured.meta.views import RANGE, infer_size
from .layout import Batch, Dims, Rule, front, numel_of, rank_of, shifted

if TYPE_CHECKING:
    from ...tensor import Tensor


def view(batch: Batch, dims: Dims, self: Tensor, size: Sequence[int]) -> tuple[Any, Any]:
    """Run `view` by sizes."""
    sizes = infer_size(size, numel_of(self, dims[0]))
    return front(self, dims[0]).view((batch.size, *sizes)), 0


def reshaped(batch: Batch, dims: Dims, self: Tensor, size: Sequence[int]) -> tuple[Any, Any]:
    """Run `_unsafe_view`; the examples need not be contiguous with each other."""
    sizes = infer_size(size, numel_of(self, dims[0]))
    return front(self, dims[0]).reshape((batch.size, *sizes)), 0


def expand(batch: Batch, dims: Dims, self: Tensor, size: Sequence[int], implicit: bool) -> tuple[Any, Any]:
    """Run `expand`; new dimensions come after the mapped one."""
    x = front(self, dims[0])
    have = x._spec.sizes[1:]
    lead = len(size) - len(have)
    if lead:
        x = x.reshape((batch.size, *(1,) * lead, *have))
    return x.expand((batch.size, *size), implicit=implicit), 0


def strided_from(
    batch: Batch, dims: Dims, self: Tensor, size: Sequence[int], stride: Sequence[int], offset: int
) -> tuple[Any, Any]:
    """Run `as_strided`: the same geometry from the first element of each example."""
    x = front(self, dims[0])
    return x._strided_from((batch.size, *size), (x._spec.strides[0], *stride), offset), 0


def permute(batch: Batch, dims: Dims, self: Tensor, order: Sequence[int]) -> tuple[Any, Any]:
    """Run `permute`."""
    rank = rank_of(self, dims[0])
    return front(self, dims[0]).permute((0, *[shifted(d, rank) for d in order])), 0


def transpose(batch: Batch, dims: Dims, self: Tensor, dim0: int, dim1: int) -> tuple[Any, Any]:
    """Run `transpose`; a 0-d example is unchanged."""
    rank = rank_of(self, dims[0])
    if rank == 0:
        return self.alias(), dims[0]
    return front(self, dims[0]).transpose(shifted(dim0, rank), shifted(dim1, rank)), 0


def t(batch: Batch, dims: Dims, self: Tensor) -> tuple[Any, Any]:
    """Run `t`."""
    if rank_of(self, dims[0]) < 2:
        return self.alias(), dims[0]
    return front(self, dims[0]).transpose(1, 2), 0


def select(batch: Batch, dims: Dims, self: Tensor, dim: int, index: int) -> tuple[Any, Any]:
    """Run `select`."""
    return front(self, dims[0]).select(shifted(dim, rank_of(self, dims[0])), index), 0


def select_first(batch: Batch, dims: Dims, self: Tensor, index: int) -> tuple[Any, Any]:
    """Return ``x[i]``."""
    x = front(self, dims[0])
    size = x._spec.sizes[1]
    if not -size <= index < size:
        raise IndexError(f"index {index} is out of bounds for dimension 0 with size {size}")
    return x.select(1, index), 0


def slice_(
    batch: Batch, dims: Dims, self: Tensor, dim: int, start: int | None, end: int | None, step: int
) -> tuple[Any, Any]:
    """Run `slice`."""
    return front(self, dims[0]).slice(shifted(dim, rank_of(self, dims[0])), start, end, step), 0


def slice_first(
    batch: Batch, dims: Dims, self: Tensor, start: int | None, end: int | None, step: int
) -> tuple[Any, Any]:
    """Return ``x[start:end:step]``."""
    return front(self, dims[0]).slice(1, start, end, step), 0


def squeeze(batch: Batch, dims: Dims, self: Tensor, *dim: Any) -> tuple[Any, Any]:
    """Run `squeeze` in its three forms; the mapped dimension stays, even with size 1."""
    x, rank = front(self, dims[0]), rank_of(self, dims[0])
    if not dim:
        named = range(1, rank + 1)
    elif rank == 0:
        named = range(0)
    else:
        named = [shifted(d, rank) for d in (dim if dim[0].__class__ is int else dim[0])]  # type: ignore[assignment]
    gone = tuple([d for d in named if x._spec.sizes[d] == 1])
    return x.squeeze(gone) if gone else x.alias(), 0


def unsqueeze(batch: Batch, dims: Dims, self: Tensor, dim: int) -> tuple[Any, Any]:
    """Run `unsqueeze`."""
    return front(self, dims[0]).unsqueeze(shifted(dim, rank_of(self, dims[0]) + 1)), 0


def same(batch: Batch, dims: Dims, self: Tensor) -> tuple[Any, Any]:
    """Run `alias` or `detach`, which ignore the position of the mapped dimension."""
    return batch.op.call(self), dims[0]


def behind(batch: Batch, dims: Dims, self: Tensor, *rest: Any) -> tuple[Any, Any]:
    """Run a view of the last dimension, or one that adds dimensions after it."""
    return batch.op.call(front(self, dims[0]), *rest), 0


def basic_index(batch: Batch, dims: Dims, self: Tensor, index: Sequence[int]) -> tuple[Any, Any]:
    """Return ``x[...]`` with numbers, ranges and new dimensions."""
    return front(self, dims[0])._basic_index((RANGE, 0, batch.size, 1, *index)), 0


def diagonal(batch: Batch, dims: Dims, self: Tensor, offset: int, dim1: int, dim2: int) -> tuple[Any, Any]:
    """Run `diagonal`."""
    rank = rank_of(self, dims[0])
    return front(self, dims[0]).diagonal(offset, shifted(dim1, rank), shifted(dim2, rank)), 0


def unfold(batch: Batch, dims: Dims, self: Tensor, dimension: int, size: int, step: int) -> tuple[Any, Any]:
    """Run `unfold`; a 0-d example gives one window."""
    x, rank = front(self, dims[0]), rank_of(self, dims[0])
    if rank == 0:
        return x.unsqueeze(1).unfold(1, size, step).squeeze(1), 0
    return x.unfold(shifted(dimension, rank), size, step), 0


def select_backward(
    batch: Batch, dims: Dims, grad: Tensor, sizes: Sequence[int], dim: int, index: int
) -> tuple[Any, Any]:
    """Return zeros with the gradient at one index."""
    whole = (batch.size, *sizes)
    return ops.select_backward(front(grad, dims[0]), whole, shifted(dim, len(sizes)), index), 0


def slice_backward(
    batch: Batch,
    dims: Dims,
    grad: Tensor,
    sizes: Sequence[int],
    dim: int,
    start: int | None,
    end: int | None,
    step: int,
) -> tuple[Any, Any]:
    """Return zeros with the gradient in a range."""
    whole = (batch.size, *sizes)
    return ops.slice_backward(front(grad, dims[0]), whole, shifted(dim, len(sizes)), start, end, step), 0


def diagonal_backward(
    batch: Batch, dims: Dims, grad: Tensor, sizes: Sequence[int], offset: int, dim1: int, dim2: int
) -> tuple[Any, Any]:
    """Return zeros with the gradient on a diagonal."""
    rank, whole = len(sizes), (batch.size, *sizes)
    made = ops.diagonal_backward(
        front(grad, dims[0]), whole, offset, shifted(dim1, rank), shifted(dim2, rank)
    )
    return made, 0


def basic_index_backward(
    batch: Batch, dims: Dims, grad: Tensor, sizes: Sequence[int], index: Sequence[int]
) -> tuple[Any, Any]:
    """Return zeros with the gradient at a basic index."""
    whole = (batch.size, *sizes)
    return ops._basic_index_backward(front(grad, dims[0]), whole, (RANGE, 0, batch.size, 1, *index)), 0


def strided_backward(
    batch: Batch,
    dims: Dims,
    grad: Tensor,
    sizes: Sequence[int],
    strides: Sequence[int],
    size: Sequence[int],
    stride: Sequence[int],
    offset: int,
) -> tuple[Any, Any]:
    """Return zeros with the gradient at a strided view's elements; the examples are consecutive in memory."""
    reach = storage_size(tuple(sizes), tuple(strides))
    made = ops._as_strided_backward(
        front(grad, dims[0]),
        (batch.size, *sizes),
        (reach, *strides),
        (batch.size, *size),
        (reach, *stride),
        offset,
    )
    return made, 0


def triangle(batch: Batch, dims: Dims, self: Tensor, diagonal: int) -> tuple[Any, Any]:
    """Run `tril` or `triu` of the last two dimensions."""
    return batch.op.call(front(self, dims[0]), diagonal), 0


def triangle_(batch: Batch, dims: Dims, self: Tensor, diagonal: int) -> tuple[Any, Any]:
    """Run `tril` or `triu` in place."""
    batch.op.call(front(self, dims[0]), diagonal)
    return None, None


RULES: dict[str, Rule] = {
    "view": view,
    "_unsafe_view": reshaped,
    "view.dtype": behind,
    "view_as_real": behind,
    "view_as_complex": behind,
    "expand": expand,
    "_strided_from": strided_from,
    "permute": permute,
    "transpose.int": transpose,
    "t": t,
    "select.int": select,
    "_select_first": select_first,
    "slice.Tensor": slice_,
    "_slice_first": slice_first,
    "squeeze": squeeze,
    "squeeze.dim": squeeze,
    "squeeze.dims": squeeze,
    "unsqueeze": unsqueeze,
    "alias": same,
    "detach": same,
    "_basic_index": basic_index,
    "diagonal": diagonal,
    "unfold": unfold,
    "select_backward": select_backward,
    "slice_backward": slice_backward,
    "diagonal_backward": diagonal_backward,
    "_basic_index_backward": basic_index_backward,
    "_as_strided_backward": strided_backward,
    "tril": triangle,
    "triu": triangle,
    "tril_": triangle_,
    "triu_": triangle_,
}
