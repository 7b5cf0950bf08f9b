"""Indexing and joining made of other operators."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache, reduce
from typing import TYPE_CHECKING, Any

from ...runtime.cuda.value_reading import may_read_values
from ...runtime.device import CPU
from ...runtime.dimname import position_of
from ...runtime.memory_format import contiguous_format
from ...runtime.scalar_type import bool_, int32, int64
from ...runtime.tensor_impl import TensorImpl
from ...runtime.tensor_spec import TensorSpec
from ..core.kernel_function import Plan
from ..core.operator_entry import OperatorEntry
from ..generated import functions as ops
from ..iterator.broadcast import infer_size
from ..iterator.overlap import assert_no_internal_overlap, check_no_overlap, shares_memory
from ..iterator.type_promotion import promote_types
from ..plans.functional import FunctionalForm, slot_of
from ..plans.host_kernel import host_kernel, is_unseen
from ..plans.register import planned_by
from ..structured.allocation import allocator_of, numpy_may_allocate
from ..structured.meta.dims import wrap_dim
from ..structured.meta.joining import can_cast
from ..structured.stub import PlannedKernel, StructuredCall, find_kernel
from ..tensor import Tensor, blank_tensor
from .dimnames import by_name, refused
from .forms import laid_as, outermost_first, restored, write_out
from .views_in_place import check_leaf

if TYPE_CHECKING:
    from ...runtime.scalar_type import Number
    from ...runtime.scalar_type import dtype as ScalarType


def concat(tensors: Sequence[Tensor], dim: int) -> Tensor:
    """`torch.concat`, `torch.concatenate`."""
    return ops.cat(tensors, dim)


def _plan_stack(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """Host tensors that lie alike without gaps are joined at once, where their elements go."""
    composed = op.rebind(stack, args)
    tensors, dim = args
    specs = tuple([each._spec for each in tensors])
    if not specs or len(set(specs)) > 1 or not specs[0].is_contiguous or specs[0].device is not CPU:
        return composed
    if not is_unseen(key_set, ("aten::cat", "aten::unsqueeze")):
        return composed
    sizes = specs[0].sizes
    d = wrap_dim(dim, len(sizes) + 1)
    spec = TensorSpec.contiguous((*sizes[:d], len(specs), *sizes[d:]), specs[0].dtype, CPU)
    # Along a dimension that the tensors have, the result is their concatenation, read with one dimension more.
    lifted = (*sizes, 1) if d == len(sizes) else sizes
    part = TensorSpec.contiguous(lifted, spec.dtype, CPU)
    joined = TensorSpec.contiguous((*lifted[:d], lifted[d] * len(specs), *lifted[d + 1 :]), spec.dtype, CPU)
    extra = {"kept": tuple(range(len(specs))), "dim": d}
    call = StructuredCall("cat", {"tensors": (part,) * len(specs)}, ("tensors",), (joined,), None, CPU, extra)
    kernel = find_kernel("cat_stub", "cpu", "cat")(call)
    join, fresh = kernel.into, kernel.fresh
    allocate, whole, lifts = allocator_of(spec), joined.sizes, lifted != sizes
    if fresh is not None and not lifts and numpy_may_allocate(spec):
        is_pair = d == 0 and len(specs) == 2
        compute = _pair_of(allocate) if is_pair else _unfolded(fresh, spec.sizes)
        unfolded = PlannedKernel(join, compute, kernel.quiet)
        return FunctionalForm((slot_of(specs),), None).plan(unfolded, (spec,))

    def planned(tensors: Sequence[Any]) -> Tensor:
        out = blank_tensor()
        out._data = data = allocate()
        if lifts:
            join(data.reshape(whole), [each._data.reshape(lifted) for each in tensors])
        else:
            join(data.reshape(whole), [each._data for each in tensors])
        out._spec = spec
        out._version_cell = out._autograd = out._view_base = None
        return out

    return planned


def _unfolded(
    fresh: Callable[[Sequence[Any]], Any], sizes: tuple[int, ...]
) -> Callable[[Sequence[Any]], Any]:
    """The kernel that reads NumPy's own concatenation with one dimension more."""
    return lambda arrays: fresh(arrays).reshape(sizes)


def _pair_of(allocate: Callable[[], Any]) -> Callable[[Sequence[Any]], Any]:
    """The kernel of two arrays one after the other, in three quarters of the time of a concatenation."""

    def pair(arrays: Sequence[Any]) -> Any:
        made = allocate()
        made[0], made[1] = arrays
        return made

    return pair


@planned_by(_plan_stack)
def stack(tensors: Sequence[Tensor], dim: int) -> Tensor:
    """`torch.stack`: tensors of one shape along a new dimension."""
    if not tensors:
        raise RuntimeError("stack expects a non-empty TensorList")
    sizes = tensors[0]._spec.sizes
    for position, each in enumerate(tensors):
        if each._spec.sizes != sizes:
            raise RuntimeError(
                f"stack expects each tensor to be equal size, but got {list(sizes)} at entry 0 and "
                f"{list(each._spec.sizes)} at entry {position}"
            )
    d = wrap_dim(dim, len(sizes) + 1)
    return ops.cat([each.unsqueeze(d) for each in tensors], d)


def stack_out(tensors: Sequence[Tensor], dim: int, out: Tensor) -> Tensor:
    """`torch.stack` into a tensor, which is none of them."""
    for each in tensors:
        if shares_memory(out, each):
            check_no_overlap(out, each)
    return _joined_into("stack", out, stack(tensors, dim))


def _joined_into(name: str, out: Tensor, joined: Tensor) -> Tensor:
    """Tensors that were joined, in the one that was given for them. Raises TypeError, as `cat`, for its dtype."""
    _check_cast(joined._spec.dtype, out)
    return write_out(name, out, joined)


def _check_cast(dtype: ScalarType, out: Tensor) -> None:
    if not can_cast(dtype, out._spec.dtype):
        raise TypeError(
            f"torch.cat(): input types can't be cast to the desired output type {out._spec.dtype.scalar_name}"
        )


def _at_least(rank: int, x: Tensor) -> Tensor:
    """The tensor with as many dimensions as `torch.atleast_1d`, ``2d``, ``3d`` give it."""
    have = x._spec.ndim
    if have >= rank:
        return x
    if have == 0:
        return x.reshape((1,) * rank)
    if have == 1:
        return x.unsqueeze(0) if rank == 2 else x.unsqueeze(0).unsqueeze(2)
    return x.unsqueeze(2)


def _joined(name: str, tensors: Sequence[Tensor], rank: int, dim: int) -> Tensor:
    if not tensors:
        raise RuntimeError(f"{name} expects a non-empty TensorList")
    whole = [_at_least(rank, x) for x in tensors]
    return ops.cat(whole, 0 if name == "hstack" and whole[0]._spec.ndim == 1 else dim)


def _chunk_cat(tensors: Sequence[Tensor], dim: int, num_chunks: int) -> Tensor:
    """`torch._chunk_cat`: `num_chunks` parts of each tensor, padded with zeros, side by side as vectors.

    The result has the dimensions before `dim`, the chunks, and the flattened rest of every tensor.
    """
    if not tensors:
        raise RuntimeError("_chunk_cat expects a non-empty input tensor list")
    if num_chunks < 1:
        raise RuntimeError("_chunk_cat expects positive num_chunks")
    first = tensors[0]._spec
    for each in tensors:
        if not each._spec.numel:
            raise RuntimeError("_chunk_cat expects non-empty tensor")
        if each._spec.dtype is not first.dtype:
            raise RuntimeError("_chunk_cat expects all input tensors with the same dtype")
    ranks = {each._spec.ndim for each in tensors}
    if len(ranks) > 1 and not 0 <= dim < min(ranks):
        raise RuntimeError(
            "_chunk_cat expects non-negative dim when input tensors have different ndims, and dim < ndim for all input "
            f"tensors, got {dim} for {sorted(ranks)}"
        )
    d = wrap_dim(dim, first.ndim)
    parts = []
    for each in tensors:
        spec = each._spec
        if spec.sizes[:d] != first.sizes[:d]:
            raise RuntimeError(
                "_chunk_cat expects same sizes of 0,...,dim-1 dimensions for all input tensors"
            )
        missing = -spec.sizes[d] % num_chunks
        if missing:
            sizes = (*spec.sizes[:d], missing, *spec.sizes[d + 1 :])
            each = ops.cat([each, each.new_zeros(sizes)], d)
        parts.append(each.reshape((*spec.sizes[:d], num_chunks, -1)))
    return ops.cat(parts, d + 1)


def _chunk_cat_out(tensors: Sequence[Tensor], dim: int, num_chunks: int, out: Tensor) -> Tensor:
    """`torch._chunk_cat` into a tensor."""
    return _joined_into("_chunk_cat", out, _chunk_cat(tensors, dim, num_chunks))


def hstack(tensors: Sequence[Tensor]) -> Tensor:
    """`torch.hstack`."""
    return _joined("hstack", tensors, 1, 1)


def vstack(tensors: Sequence[Tensor]) -> Tensor:
    """`torch.vstack`."""
    return _joined("vstack", tensors, 2, 0)


def dstack(tensors: Sequence[Tensor]) -> Tensor:
    """`torch.dstack`."""
    return _joined("dstack", tensors, 3, 2)


def column_stack(tensors: Sequence[Tensor]) -> Tensor:
    """`torch.column_stack`."""
    return hstack([x.reshape((x._spec.numel, 1)) if x._spec.ndim <= 1 else x for x in tensors])


def _join_out(name: str, join: Callable[[Sequence[Any]], Any]) -> Callable[..., Any]:
    def join_out(tensors: Sequence[Tensor], out: Tensor) -> Tensor:
        if tensors:  # before their sizes, as cat does
            _check_cast(reduce(promote_types, (each._spec.dtype for each in tensors)), out)
        return _joined_into(name, out, join(tensors))

    return join_out


hstack_out = _join_out("hstack", hstack)
vstack_out = _join_out("vstack", vstack)
dstack_out = _join_out("dstack", dstack)
column_stack_out = _join_out("column_stack", column_stack)


def _unsafe_index(self: Tensor, indices: Sequence[Tensor | None]) -> Tensor:
    """`torch._unsafe_index`; bounds are checked all the same."""
    return self.index(indices)


def _unsafe_index_put(
    self: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool
) -> Tensor:
    """`torch._unsafe_index_put`; bounds are checked all the same."""
    return self.index_put(indices, values, accumulate)


def _bounded(self: Tensor, indices: Sequence[Any]) -> list[Any]:
    """Indices brought into the bounds of their dimensions."""
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
    """`torch._unsafe_masked_index`: elements where a mask holds, `fill` elsewhere, whatever the index is there."""
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
    """`torch._unsafe_masked_index_put_accumulate`: values are added where a mask holds."""
    _check_unmasked(indices)
    if not self._spec.numel:
        return self.clone()
    kept = values.masked_fill(ops.logical_not(mask), 0)
    return self.index_put(_bounded(self, indices), kept, True)


def index_put_impl(
    self: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool, unsafe: bool
) -> Tensor:
    """`index_put_`; bounds are checked even where ATen may leave that out."""
    return self.index_put_(indices, values, accumulate)


def _entries(self: Tensor, dim: int, index: Tensor) -> Tensor:
    """A mask of the entries of one dimension that an index names, to be broadcast; each counts once."""
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
    """`torch.index_fill`: a copy that lies in memory as the tensor does."""
    _check_filling(self, value)
    order = outermost_first(self._spec)
    if order is None and self._spec.is_contiguous:
        return self.masked_fill(_entries(self, dim, index), value)
    if order is None:  # it overlaps itself, or has gaps
        return index_fill_(self.clone(), dim, index, value)
    moved = order.index(wrap_dim(dim, len(order)))
    return restored(index_fill(self.permute(order), moved, index, value), order)


def index_fill_(self: Tensor, dim: int, index: Tensor, value: Tensor | Number) -> Tensor:
    """`Tensor.index_fill_`."""
    check_leaf(self)
    _check_filling(self, value)
    return self.masked_fill_(_entries(self, dim, index), value)


@host_kernel("take_along_dim", "gather")
def take_along_dim(self: Tensor, indices: Tensor, dim: int | None) -> Tensor:
    """`torch.take_along_dim`: gather with the other dimensions broadcast."""
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
    """`torch.masked_select`: the elements where the mask holds, in order."""
    if mask._spec.dtype is not bool_:
        raise RuntimeError("masked_select: expected BoolTensor for mask")
    sizes = infer_size(self._spec.sizes, mask._spec.sizes) or (1,)
    return self.expand(sizes).index([mask.expand(sizes)])


def masked_select_out(self: Tensor, mask: Tensor, out: Tensor) -> Tensor:
    """`torch.masked_select` into a tensor."""
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
    """Where a mask holds, as an index of `self`, and as many elements of the source."""
    where = nonzero_numpy(mask.expand(self._spec.sizes))
    count = where[0]._spec.numel
    if source._spec.numel < count:
        raise RuntimeError("Number of elements of source < number of ones in mask")
    return where, source.reshape((-1,)).slice(0, 0, count, 1)


@host_kernel("masked_scatter", "nonzero", "index_put")
def masked_scatter(self: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """`torch.masked_scatter`: elements of the source, in order, where the mask holds."""
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
    """`Tensor.masked_scatter_`."""
    _check_masked_scatter(self, mask, source)
    if self._spec.is_meta:
        return self
    where, values = _scattered_where(self, mask, source)
    (self if self._spec.ndim else self.view((1,))).index_put_(list(where), values)
    return self


def nonzero_out(self: Tensor, out: Tensor) -> Tensor:
    """`torch.nonzero` into a tensor."""
    if out._spec.dtype is not int64:
        raise RuntimeError(
            f"nonzero: Expected out tensor to have scalar type Long but got scalar type{out.dtype.scalar_name}"
        )
    return write_out("nonzero", out, ops.nonzero(self))


def nonzero_as(self: Tensor, as_tuple: bool) -> Tensor | tuple[Tensor, ...]:
    """`torch.nonzero` as one tensor or as a tuple of index vectors, one for each dimension."""
    return nonzero_numpy(self) if as_tuple else ops.nonzero(self)


def nonzero_as_out(self: Tensor, as_tuple: bool, out: Tensor) -> Tensor:
    """``nonzero(as_tuple=False, out=)``."""
    if as_tuple:
        raise RuntimeError("nonzero does not support the out kwarg when as_tuple is True")
    return ops.nonzero(self, out=out)


def nonzero_numpy(self: Tensor) -> tuple[Tensor, ...]:
    """The places of elements that are not zero, a vector for each dimension; a number has one."""
    whole = self.unsqueeze(0) if self._spec.ndim == 0 else self
    return tuple(ops.nonzero(whole).unbind(1))


def argwhere(self: Tensor) -> Tensor:
    """`torch.argwhere`."""
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
    """`torch.put`: elements of `source` at places of the flattened tensor, in a copy that lies as the tensor does."""
    where = _checked_put(self, index, source)
    flat = self.reshape((-1,)).index_put(where, source.reshape((-1,)), accumulate)
    return laid_as(ops._unsafe_view(flat, self._spec.sizes), self._spec)


def put_(self: Tensor, index: Tensor, source: Tensor, accumulate: bool) -> Tensor:
    """`Tensor.put_`."""
    if self._spec.is_contiguous:
        where = _checked_put(self, index, source)
        self.view((-1,)).index_put_(where, source.reshape((-1,)), accumulate)
        return self
    return self.copy_(put(self, index, source, accumulate))


def fliplr(self: Tensor) -> Tensor:
    """`torch.fliplr`."""
    if self._spec.ndim < 2:
        raise RuntimeError("Input must be >= 2-d.")
    return self.flip((1,))


def flipud(self: Tensor) -> Tensor:
    """`torch.flipud`."""
    if self._spec.ndim < 1:
        raise RuntimeError("Input must be >= 1-d.")
    return self.flip((0,))


def roll(self: Tensor, shifts: Sequence[int], dims: Sequence[int]) -> Tensor:
    """`torch.roll`; without `dims` the flattened tensor is rolled."""
    spec = self._spec
    if not shifts:
        raise RuntimeError("`shifts` required")
    if not dims and len(shifts) == 1:
        return roll(self.reshape((-1,)), shifts, (0,)).reshape(spec.sizes)
    if len(shifts) != len(dims):
        raise RuntimeError(f"shifts and dimensions must align. shifts: {len(shifts)}, dims:{len(dims)}")
    if not spec.numel:
        return self.clone()
    out = self
    if not spec.ndim:
        raise IndexError(f"Dimension specified as {dims[0]} but tensor has no dimensions")
    for shift, dim in zip(shifts, dims, strict=True):
        d = wrap_dim(dim, spec.ndim)
        size = spec.sizes[d]
        start = -shift % size if size else 0
        if start:
            out = ops.cat([out.slice(d, start, size, 1), out.slice(d, 0, start, 1)], d)
    if out is not self:
        return out
    return self.clone(memory_format=contiguous_format)


def rot90(self: Tensor, k: int, dims: Sequence[int]) -> Tensor:
    """`torch.rot90`."""
    rank = self._spec.ndim
    if len(dims) != 2:
        raise RuntimeError(f"expected total rotation dims == 2, but got dims = {len(dims)}")
    if rank < 2:
        raise RuntimeError(f"expected total dims >= 2, but got total dims = {rank}")
    a, b = dims
    if wrap_dim(a, rank) == wrap_dim(b, rank):
        raise RuntimeError(f"expected rotation dims to be different, but got dim0 = {a} and dim1 = {b}")
    for d in dims:
        wrap_dim(d, rank)
    turns = k % 4
    if turns == 1:
        return self.flip((b,)).transpose_(a, b)
    if turns == 2:
        return self.flip((a, b))
    if turns == 3:
        return self.flip((a,)).transpose_(a, b)
    return self.clone(memory_format=contiguous_format)


def repeat(self: Tensor, repeats: Sequence[int]) -> Tensor:
    """`Tensor.repeat`: copies of the tensor beside each other."""
    spec = self._spec
    lead = len(repeats) - spec.ndim
    if lead < 0:
        raise RuntimeError(
            "Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor"
        )
    sizes = (1,) * lead + spec.sizes
    target = tuple(n * r for n, r in zip(sizes, repeats, strict=True))
    if any(n < 0 for n in target):
        raise RuntimeError(f"Trying to create tensor with negative dimension {min(target)}: {list(target)}")
    if 0 in target:
        return ops._unsafe_view(self.reshape((-1,))[:0], target)
    if math.prod(repeats) == 1:
        return ops._unsafe_view(self.clone(memory_format=contiguous_format), target)
    apart = [m for n in sizes for m in (1, n)]
    spread = [m for n, r in zip(sizes, repeats, strict=True) for m in (r, n)]
    copied = self.reshape(apart).expand(spread).clone(memory_format=contiguous_format)
    return ops._unsafe_view(copied, target)


def repeat_interleave(repeats: Tensor, output_size: int | None) -> Tensor:
    """``torch.repeat_interleave(repeats)``: each place as often as its number says.

    Their number is known to the host only once the device has summed them, or by `output_size`.
    """
    spec = repeats._spec
    if spec.is_meta and output_size is None:
        raise RuntimeError("cannot repeat_interleave a meta tensor without output_size")
    if spec.ndim != 1:
        raise RuntimeError("repeat_interleave only accept 1D vector as repeat")
    if spec.dtype not in (int64, int32):
        raise NotImplementedError(
            f"\"repeat_interleave_{spec.device.type}\" not implemented for '{spec.dtype.scalar_name}'"
        )
    if spec.is_meta:
        return repeats.new_empty((output_size,))  # type: ignore[arg-type]
    if not spec.numel:
        return ops.empty_like(repeats)
    ends = ops.cumsum(repeats, 0)
    if output_size is not None and not may_read_values(spec.device):
        unequal = ops.ne(ends.narrow(0, spec.numel - 1, 1), output_size)
        _report_where(ops.logical_or(ops.lt(repeats, 0), unequal))
        total = output_size
    else:
        if bool(ops.any(ops.lt(repeats, 0))):
            raise RuntimeError("repeats can not be negative")
        total = int(ends.select(0, spec.numel - 1))
        if output_size is not None and output_size != total:
            raise RuntimeError("allocated size does not match required size")
    places = ops.arange(total, dtype=ends.dtype, device=repeats.device)
    return ops.searchsorted(ends, places, out_int32=spec.dtype is int32, right=True)


def _report_where(wrong: Tensor) -> None:
    """Have whoever waits for the device raise an error if repeats are wrong; a wrapped tensor has no bytes."""
    spec = wrong._spec
    if type(wrong) is Tensor and spec.keys == TensorSpec.contiguous(spec.sizes, bool_, spec.device).keys:
        _repeats_check(spec)(wrong._data)


@lru_cache(maxsize=256)
def _repeats_check(spec: TensorSpec) -> Callable[[Any], None]:
    call = StructuredCall("repeat_interleave", {"self": spec}, ("self",), (), None, spec.device, {})
    return find_kernel("repeats_check_stub", "cuda", "repeat_interleave")(call).into


def _line(self: Tensor, dim: int | None) -> tuple[Tensor, int]:
    """The tensor and a dimension of it; without one, the flattened tensor and its only one."""
    if dim is None:
        return self.reshape((-1,)), 0
    if not self._spec.ndim:
        raise IndexError(f"Dimension out of range (expected to be in range of [-1, 0], but got {dim})")
    return self, wrap_dim(dim, self._spec.ndim)


def repeat_interleave_by(self: Tensor, repeats: Tensor, dim: int | None, output_size: int | None) -> Tensor:
    """`torch.repeat_interleave`: each entry as often as a tensor says."""
    source, d = _line(self, dim)
    size = source._spec.sizes[d] if source._spec.ndim else 1
    given = repeats._spec
    if given.ndim > 1:
        raise RuntimeError("repeats must be 0-dim or 1-dim tensor")
    if given.ndim == 0 or given.sizes == (1,):
        repeats = repeats.reshape((1,)).expand((size,))
    elif given.sizes[0] != size:
        raise RuntimeError(
            "repeats must have the same size as input along dim, but got repeats.size(0) = "
            f"{given.sizes[0]} and input.size({d}) = {size}"
        )
    return source.index_select(d, ops.repeat_interleave(repeats, output_size=output_size))


def repeat_interleave_each(self: Tensor, repeats: int, dim: int | None, output_size: int | None) -> Tensor:
    """`torch.repeat_interleave`: each entry the same number of times."""
    source, d = _line(self, dim)
    if repeats < 0:
        raise RuntimeError("Repeats must be non-negative")
    source = source if source._spec.ndim else source.reshape((1,))
    sizes = source._spec.sizes
    if output_size is not None and output_size != sizes[d] * repeats:
        raise RuntimeError(
            f"repeat_interleave: Invalid output_size, expected {sizes[d] * repeats} but got {output_size}"
        )
    apart = source.unsqueeze(d + 1).expand((*sizes[: d + 1], repeats, *sizes[d + 1 :]))
    return apart.clone(memory_format=contiguous_format).reshape(
        (*sizes[:d], sizes[d] * repeats, *sizes[d + 1 :])
    )


def tile(self: Tensor, dims: Sequence[int]) -> Tensor:
    """`torch.tile`: `repeat` with missing leading counts taken as one."""
    lead = self._spec.ndim - len(dims)
    return self.repeat((1,) * max(lead, 0) + tuple(dims))


cat_by_name = by_name("cat")
cat_by_name_out = by_name("cat.out")
gather_by_name = refused("gather")
index_select_by_name = refused("index_select")


def index_fill_by_name(self: Tensor, dim: str, index: Tensor, value: Tensor | Number) -> Tensor:
    """`torch.index_fill` along a dimension by name."""
    return self.index_fill(position_of(dim, self._spec.names), index, value)


def index_fill__by_name(self: Tensor, dim: str, index: Tensor, value: Tensor | Number) -> Tensor:
    """`torch.Tensor.index_fill_` along a dimension by name."""
    return self.index_fill_(position_of(dim, self._spec.names), index, value)
