"""Indexing composites. The modules `joining` and `repetition` hold related operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...runtime.dimname import position_of
from ...runtime.layout import strided
from ...runtime.scalar_type import bool_, int32, int64
from ...runtime.tensor_impl import TensorImpl
from ..autograd.formulas.indexing import embedding_backward as embedding_backward
from ..generated import functions as ops
from ..iterator.broadcast import infer_size
from ..iterator.overlap import assert_no_internal_overlap, check_no_overlap, shares_memory
from ..plans.host_kernel import host_kernel
from ..structured.meta.dims import wrap_dim
from ..tensor import Tensor
from .dimnames import by_name, refused
from .forms import laid_as, outermost_first, restored, write_out
from .joining import (
    _chunk_cat,
    _chunk_cat_out,
    column_stack,
    column_stack_out,
    concat,
    dstack,
    dstack_out,
    hstack,
    hstack_out,
    stack,
    stack_out,
    vstack,
    vstack_out,
)
from .repetition import (
    fliplr,
    flipud,
    repeat,
    repeat_interleave,
    repeat_interleave_by,
    repeat_interleave_each,
    roll,
    rot90,
    tile,
)
from .views_in_place import check_leaf

if TYPE_CHECKING:
    from ...runtime.scalar_type import Number

__all__ = [
    "_chunk_cat",
    "_chunk_cat_out",
    "_unsafe_index",
    "_unsafe_index_put",
    "_unsafe_masked_index",
    "_unsafe_masked_index_put_accumulate",
    "argwhere",
    "cat_by_name",
    "cat_by_name_out",
    "column_stack",
    "column_stack_out",
    "concat",
    "dstack",
    "dstack_out",
    "fliplr",
    "flipud",
    "gather_by_name",
    "hstack",
    "hstack_out",
    "index_fill",
    "index_fill_",
    "index_fill__by_name",
    "index_fill_by_name",
    "index_put_impl",
    "index_select_by_name",
    "masked_scatter",
    "masked_scatter_",
    "masked_select",
    "masked_select_out",
    "nonzero_as",
    "nonzero_as_out",
    "nonzero_numpy",
    "nonzero_out",
    "put",
    "put_",
    "repeat",
    "repeat_interleave",
    "repeat_interleave_by",
    "repeat_interleave_each",
    "roll",
    "rot90",
    "stack",
    "stack_out",
    "take_along_dim",
    "tile",
    "vstack",
    "vstack_out",
]


def _unsafe_index(self: Tensor, indices: Sequence[Tensor | None]) -> Tensor:
    """Run `torch._unsafe_index`; bounds are checked nevertheless."""
    return self.index(indices)


def _unsafe_index_put(
    self: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool
) -> Tensor:
    """Run `torch._unsafe_index_put`; bounds are checked nevertheless."""
    return self.index_put(indices, values, accumulate)


def _bounded(self: Tensor, indices: Sequence[Any]) -> list[Any]:
    """Clamp indices into the bounds of their dimensions."""
    if len(indices) > self._spec.ndim:
        raise IndexError(f"too many indices for tensor of dimension {self._spec.ndim} (got {len(indices)})")
    return [
        index if index is None else ops.clamp(index, -self._spec.sizes[d], self._spec.sizes[d] - 1)
        for d, index in enumerate(indices)
    ]


def _check_unmasked(indices: Sequence[Tensor | None]) -> None:
    if not indices:
        raise IndexError("at least one index must be provided")
    for index in indices:
        if index is not None and index._spec.dtype not in (int64, int32):
            kind = index._spec.dtype.scalar_name
            raise RuntimeError(f"_unsafe_masked_index found unexpected index type {kind}")


def _unsafe_masked_index(
    self: Tensor, mask: Tensor, indices: Sequence[Tensor | None], fill: Number
) -> Tensor:
    """Return `torch._unsafe_masked_index`: elements where a mask is True, `fill` elsewhere; masked indices may be
    invalid.
    """
    _check_unmasked(indices)
    if not self._spec.numel:
        sizes = [d for d, index in enumerate(indices) if index is None]
        picked = (
            mask._spec.sizes if not sizes else self.new_empty(self._spec.sizes).index(indices)._spec.sizes
        )
        return self.new_full(picked, fill)
    return self.index(_bounded(self, indices)).masked_fill(ops.logical_not(mask), fill)


@host_kernel("_unsafe_masked_index_put_accumulate", "index_put")
def _unsafe_masked_index_put_accumulate(
    self: Tensor, mask: Tensor, indices: Sequence[Tensor | None], values: Tensor
) -> Tensor:
    """Run `torch._unsafe_masked_index_put_accumulate`: add values where a mask is True."""
    _check_unmasked(indices)
    if not self._spec.numel:
        return self.clone()
    masked_values = values.masked_fill(ops.logical_not(mask), 0)
    return self.index_put(_bounded(self, indices), masked_values, True)


def index_put_impl(
    self: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool, unsafe: bool
) -> Tensor:
    """Run `index_put_`; bounds are checked even where ATen may skip the check."""
    return self.index_put_(indices, values, accumulate)


def _entries(self: Tensor, dim: int, index: Tensor) -> Tensor:
    """Return a broadcastable mask of the indexed entries of one dimension; each counts once."""
    rank = self._spec.ndim
    d = wrap_dim(dim, rank)
    if index._spec.dtype is not int64:
        raise IndexError("index_fill_(): Expected dtype int64 for index.")
    if index._spec.ndim > 1:
        raise RuntimeError(
            f"index_fill_(): Index has to be a vector/scalar, got {index._spec.ndim} dimensions"
        )
    size = self._spec.sizes[d] if rank else 1
    mask = index.new_zeros((size,), dtype=bool_, device=self.device)
    mask.index_put_((index.reshape((-1,)),), ops.ones((), dtype=bool_, device=self.device))
    return mask.view((size,) + (1,) * (rank - d - 1)) if rank else mask.view(())


def _check_filling(self: Tensor, value: Tensor | Number) -> None:
    if self._spec.layout is not strided:
        raise NotImplementedError(
            f"index_fill: expected a strided tensor, got one of layout {self._spec.layout}; to_dense() gives one"
        )
    kind = value._spec.dtype.is_complex if isinstance(value, TensorImpl) else isinstance(value, complex)
    if kind and not self._spec.dtype.is_complex:
        raise RuntimeError("index_fill_(): Converting complex Scalar to non-complex type is not supported")
    if isinstance(value, TensorImpl) and value._spec.ndim:
        raise RuntimeError(
            "index_fill_ only supports a 0-dimensional value tensor, but got tensor with "
            f"{value._spec.ndim} dimension(s)."
        )


@host_kernel("index_fill", "index_put", "masked_fill.Scalar")
def index_fill(self: Tensor, dim: int, index: Tensor, value: Tensor | Number) -> Tensor:
    """Compute `torch.index_fill` on a copy with the tensor's memory layout."""
    _check_filling(self, value)
    order = outermost_first(self._spec)
    if order is None and self._spec.is_contiguous:
        return self.masked_fill(_entries(self, dim, index), value)
    if order is None:  # it overlaps itself, or has gaps
        return index_fill_(self.clone(), dim, index, value)
    moved = order.index(wrap_dim(dim, len(order)))
    return restored(index_fill(self.permute(order), moved, index, value), order)


def index_fill_(self: Tensor, dim: int, index: Tensor, value: Tensor | Number) -> Tensor:
    """Run `Tensor.index_fill_`."""
    check_leaf(self)
    _check_filling(self, value)
    return self.masked_fill_(_entries(self, dim, index), value)


@host_kernel("take_along_dim", "gather")
def take_along_dim(self: Tensor, indices: Tensor, dim: int | None) -> Tensor:
    """Run `torch.take_along_dim`: gather with the other dimensions broadcast."""
    if dim is None:
        return self.view((-1,)).gather(0, indices.view((-1,)))
    if indices._spec.dtype is not int64:
        raise RuntimeError(
            f"torch.take_along_dim(): dtype of indices should be Long but got {indices.dtype.scalar_name}"
        )
    if self._spec.ndim != indices._spec.ndim:
        raise RuntimeError(
            "torch.take_along_dim(): input and indices should have the same number of dimensions, but got "
            f"{self._spec.ndim} dimensions for input, and {indices._spec.ndim} dimensions for indices"
        )
    d = wrap_dim(dim, self._spec.ndim)
    mine, theirs = list(self._spec.sizes), list(indices._spec.sizes)
    indices = indices + (indices < 0).to(int64) * mine[d]
    mine_d, theirs_d = mine[d], theirs[d]
    mine[d] = theirs[d] = 1
    common = list(infer_size(mine, theirs))
    common[d] = mine_d
    source = self.expand(common)
    common[d] = theirs_d
    return source.gather(d, indices.expand(common))


def masked_select(self: Tensor, mask: Tensor) -> Tensor:
    """Run `torch.masked_select`: return the elements where the mask is True, in order."""
    if mask._spec.dtype is not bool_:
        raise RuntimeError("masked_select: expected BoolTensor for mask")
    sizes = infer_size(self._spec.sizes, mask._spec.sizes) or (1,)
    return self.expand(sizes).index([mask.expand(sizes)])


def masked_select_out(self: Tensor, mask: Tensor, out: Tensor) -> Tensor:
    """Run `torch.masked_select` with an ``out=`` tensor."""
    if out._spec.dtype is not self._spec.dtype:
        raise RuntimeError("masked_select(): self and result must have the same scalar type")
    for read in (self, mask):
        if shares_memory(out, read):
            check_no_overlap(out, read)
    assert_no_internal_overlap(out._spec)
    return write_out("masked_select", out, masked_select(self, mask))


def _check_masked_scatter(self: Tensor, mask: Tensor, source: Tensor) -> None:
    if self._spec.dtype is not source._spec.dtype:
        raise RuntimeError(
            "masked_scatter: expected self and source to have same dtypes but got"
            f"{self.dtype.scalar_name} and {source.dtype.scalar_name}"
        )
    if mask._spec.dtype is not bool_:
        raise RuntimeError(
            f"masked_scatter_ only supports boolean masks, but got mask with dtype {mask.dtype.scalar_name}"
        )


def _scattered_where(self: Tensor, mask: Tensor, source: Tensor) -> tuple[tuple[Tensor, ...], Tensor]:
    """Return the nonzero positions of a mask as an index of `self`, and the same number of source elements."""
    where = nonzero_numpy(mask.expand(self._spec.sizes))
    count = where[0]._spec.numel
    if source._spec.numel < count:
        raise RuntimeError("Number of elements of source < number of ones in mask")
    return where, source.reshape((-1,)).slice(0, 0, count, 1)


@host_kernel("masked_scatter", "nonzero", "index_put")
def masked_scatter(self: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """Run `torch.masked_scatter`: write elements of the source, in order, where the mask is True."""
    sizes = infer_size(self._spec.sizes, mask._spec.sizes)
    whole = self.expand(sizes).contiguous()
    _check_masked_scatter(whole, mask, source)
    if self._spec.is_meta:
        return ops.clone(whole)
    where, values = _scattered_where(whole, mask, source)
    if not sizes:
        return whole.reshape((1,)).index_put(list(where), values).reshape(())
    return whole.index_put(list(where), values)


def masked_scatter_(self: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """Run `Tensor.masked_scatter_`."""
    _check_masked_scatter(self, mask, source)
    if self._spec.is_meta:
        return self
    where, values = _scattered_where(self, mask, source)
    (self if self._spec.ndim else self.view((1,))).index_put_(list(where), values)
    return self


def nonzero_out(self: Tensor, out: Tensor) -> Tensor:
    """Run `torch.nonzero` with an ``out=`` tensor."""
    if out._spec.dtype is not int64:
        raise RuntimeError(
            f"nonzero: Expected out tensor to have scalar type Long but got scalar type{out.dtype.scalar_name}"
        )
    return write_out("nonzero", out, ops.nonzero(self))


def nonzero_as(self: Tensor, as_tuple: bool) -> Tensor | tuple[Tensor, ...]:
    """Return `torch.nonzero` as one tensor, or as a tuple with an index vector for each dimension."""
    return nonzero_numpy(self) if as_tuple else ops.nonzero(self)


def nonzero_as_out(self: Tensor, as_tuple: bool, out: Tensor) -> Tensor:
    """Run ``nonzero(as_tuple=False, out=)``."""
    if as_tuple:
        raise RuntimeError("nonzero does not support the out kwarg when as_tuple is True")
    return ops.nonzero(self, out=out)


def nonzero_numpy(self: Tensor) -> tuple[Tensor, ...]:
    """Return the indices of nonzero elements, one vector for each dimension; a 0-d tensor has one."""
    whole = self.unsqueeze(0) if self._spec.ndim == 0 else self
    return tuple(ops.nonzero(whole).unbind(1))


def argwhere(self: Tensor) -> Tensor:
    """Return `torch.argwhere`."""
    return ops.nonzero(self)


def _checked_put(self: Tensor, index: Tensor, source: Tensor) -> list[Tensor]:
    if index._spec.dtype is not int64:
        raise RuntimeError(f"put_(): Expected a long tensor for index, but got {index.dtype.scalar_name}")
    if source._spec.dtype is not self._spec.dtype:
        raise RuntimeError(
            f"put_(): self and source expected to have the same dtype, but got self.dtype = {self.dtype} and "
            f"source.dtype = {source.dtype}"
        )
    if index._spec.numel != source._spec.numel:
        raise IndexError(
            "put_(): Expected source and index to have the same number of elements, but got source.numel() = "
            f"{source._spec.numel}, index.numel() = {index._spec.numel}"
        )
    return [index.reshape((-1,))]


@host_kernel("put", "index_put")
def put(self: Tensor, index: Tensor, source: Tensor, accumulate: bool) -> Tensor:
    """Compute `torch.put`: write elements of `source` at flat indices, in a copy with the tensor's memory layout."""
    where = _checked_put(self, index, source)
    flat = self.reshape((-1,)).index_put(where, source.reshape((-1,)), accumulate)
    return laid_as(ops._unsafe_view(flat, self._spec.sizes), self._spec)


def put_(self: Tensor, index: Tensor, source: Tensor, accumulate: bool) -> Tensor:
    """Run `Tensor.put_`."""
    if self._spec.is_contiguous:
        where = _checked_put(self, index, source)
        self.view((-1,)).index_put_(where, source.reshape((-1,)), accumulate)
        return self
    return self.copy_(put(self, index, source, accumulate))


cat_by_name = by_name("cat")
cat_by_name_out = by_name("cat.out")
gather_by_name = refused("gather")
index_select_by_name = refused("index_select")


def index_fill_by_name(self: Tensor, dim: str, index: Tensor, value: Tensor | Number) -> Tensor:
    """Run `torch.index_fill` along a dimension by name."""
    return self.index_fill(position_of(dim, self._spec.names), index, value)


def index_fill__by_name(self: Tensor, dim: str, index: Tensor, value: Tensor | Number) -> Tensor:
    """Run `torch.Tensor.index_fill_` along a dimension by name."""
    return self.index_fill_(position_of(dim, self._spec.names), index, value)
