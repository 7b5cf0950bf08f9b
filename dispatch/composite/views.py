"""Reshaping by views if possible, else by copies."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ...runtime.allocator import storage_size
from ...runtime.local_dispatch_key_set import modes
from ...runtime.memory_format import contiguous_format
from ...runtime.scalar_type import int64
from ...runtime.storage import root_of
from ...runtime.tensor_spec import TensorSpec
from ..autograd.creation import mark_several
from ..core.kernel_function import Plan
from ..core.operator_entry import OperatorEntry
from ..generated.functions import _unsafe_view, view_as_real
from ..plans.delegated import plan_of_part
from ..plans.register import planned_by
from ..structured.meta.dims import wrap_dim
from ..structured.meta.views import infer_size, view_strides
from . import dimnames, views_in_place
from .several_views import plan_chunk, plan_split, plan_split_with_sizes, plan_unbind, refuse_too_many_views

if TYPE_CHECKING:
    from ..tensor import Tensor


@lru_cache(maxsize=4096)
def _reshaped(spec: TensorSpec, shape: tuple[int, ...]) -> tuple[tuple[int, ...], bool]:
    """Return the shape with -1 resolved, and True if a view can have it."""
    sizes = infer_size(shape, spec.numel)
    return sizes, view_strides(spec.sizes, spec.strides, sizes) is not None


def _plan_reshape(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan | None:
    """Plan a reshape as a view if possible."""
    sizes, is_view = _reshaped(args[0]._spec, tuple(args[1]))
    return plan_of_part(op, key_set, args, "aten::view", (args[0], sizes)) if is_view else None


@planned_by(_plan_reshape)
def reshape(self: Tensor, shape: Sequence[int]) -> Tensor:
    """Return `torch.reshape`."""
    sizes, is_view = _reshaped(self._spec, tuple(shape))
    if is_view:
        return self.view(sizes)
    return _unsafe_view(self.clone(memory_format=contiguous_format), sizes)


def _check_strided(size: Sequence[int], stride: Sequence[int], storage_offset: int | None) -> None:
    if len(size) != len(stride):
        raise RuntimeError(f"mismatch in length of strides and shape: {len(stride)} and {len(size)}")
    if any(n < 0 for n in size):
        raise RuntimeError(f"Trying to create tensor with negative dimension {min(size)}: {list(size)}")
    if any(s < 0 for s in stride):
        raise RuntimeError(
            f"as_strided: Negative strides are not supported at the moment, got strides: {list(stride)}"
        )
    if storage_offset is not None and storage_offset < 0:
        raise RuntimeError(f"Tensor: invalid storage offset {storage_offset}")


def _check_reach(self: Tensor, size: Sequence[int], stride: Sequence[int], first: int) -> None:
    itemsize = self._spec.itemsize
    needed = (first + storage_size(tuple(size), tuple(stride))) * itemsize
    have = root_of(self._data).nbytes
    if 0 not in size and needed > have:
        raise RuntimeError(
            f"setStorage: sizes {list(size)}, strides {list(stride)}, storage offset {first}, and itemsize "
            f"{itemsize} "
            f"requiring a storage size of {needed} are out of bounds for storage of size {have}"
        )


def plan_at_start(
    op: OperatorEntry, key_set: int, args: Sequence[Any], part: str, leading_args: Sequence[Any] = ()
) -> Plan | None:
    """Plan an operator of ``as_strided``'s arguments, for tensors that begin where their storage does.

    `part` takes, behind `leading_args`, an offset from the tensor's first element; other tensors are the composite's.
    """
    self, (size, stride, storage_offset) = args[0], args[1 + len(leading_args) :]
    _check_strided(size, stride, storage_offset)
    first = storage_offset or 0
    size, stride = tuple(size), tuple(stride)
    planned = plan_of_part(op, key_set, args, part, (self, *leading_args, size, stride, first))
    if planned is None:
        return None
    at_start = planned
    needed = 0 if 0 in size else (first + storage_size(size, stride)) * self._spec.itemsize
    composed = op.rebind(op.lookup(key_set).bind(op, key_set), args)

    def plan(self: Tensor, *rest: Tensor) -> Any:
        data = self._data
        if root_of(data) is data and needed <= data.nbytes:
            return at_start(self, *rest)
        return composed(self, *rest)

    return plan


def _plan_as_strided(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan | None:
    return plan_at_start(op, key_set, args, "aten::_strided_from")


@planned_by(_plan_as_strided)
def as_strided(
    self: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None
) -> Tensor:
    """Return `torch.as_strided`: any sizes and strides over the storage; offsets count from its start."""
    _check_strided(size, stride, storage_offset)
    own = self.storage_offset()
    first = own if storage_offset is None else storage_offset
    _check_reach(self, size, stride, first)
    return self._strided_from(tuple(size), tuple(stride), first - own)


def real(self: Tensor) -> Tensor:
    """Return `torch.real`: a view of the real parts; a real tensor itself."""
    return view_as_real(self).select(-1, 0) if self._spec.dtype.is_complex else self


def imag(self: Tensor) -> Tensor:
    """Return `torch.imag`: a view of the imaginary parts."""
    if not self._spec.dtype.is_complex:
        raise RuntimeError("imag is not implemented for tensors with non-complex dtypes.")
    return view_as_real(self).select(-1, 1)


def narrow(self: Tensor, dim: int, start: int, length: int) -> Tensor:
    """Return `torch.narrow`."""
    spec = self._spec
    if spec.ndim == 0:
        raise RuntimeError("narrow() cannot be applied to a 0-dim tensor.")
    if length < 0:
        raise RuntimeError("narrow(): length must be non-negative.")
    size = spec.sizes[wrap_dim(dim, spec.ndim)]
    if not -size <= start <= size:
        raise IndexError(
            f"start out of range (expected to be in range of [{-size}, {size}], but got {start})"
        )
    if start < 0:
        start += size
    if start + length > size:
        raise RuntimeError(f"start ({start}) + length ({length}) exceeds dimension size ({size}).")
    return self.slice(dim, start, start + length, 1)


def narrow_tensor(self: Tensor, dim: int, start: Tensor, length: int) -> Tensor:
    """Run `torch.narrow` from a start in an integral 0-d tensor.

    Meta tensors have no values; sizes and strides do not depend on the start, so that it is 0 for them.
    """
    if start._spec.ndim or not start._spec.dtype.is_integral:
        raise RuntimeError("start must be an 0-dim integral Tensor.")
    if self._spec.is_meta and start._spec.is_meta:
        return narrow(self, dim, 0, length)
    return narrow(self, dim, start.item(), length)


def view_as(self: Tensor, other: Tensor) -> Tensor:
    """Return `Tensor.view_as`."""
    return self.view(other._spec.sizes)


def reshape_as(self: Tensor, other: Tensor) -> Tensor:
    """Return `Tensor.reshape_as`."""
    return self.reshape(other._spec.sizes)


def expand_as(self: Tensor, other: Tensor) -> Tensor:
    """Return `Tensor.expand_as`."""
    return self.expand(other._spec.sizes)


def broadcast_to(self: Tensor, size: Sequence[int]) -> Tensor:
    """Return `torch.broadcast_to`."""
    return self.expand(size)


def _moved_order(rank: int, source: int | Sequence[int], destination: int | Sequence[int]) -> list[int]:
    """Return the order of dimensions that moves the named ones; the others keep their order."""
    source_dims = (source,) if isinstance(source, int) else tuple(source)
    destination_dims = (destination,) if isinstance(destination, int) else tuple(destination)
    if len(source_dims) != len(destination_dims):
        raise RuntimeError(
            f"movedim: Invalid source or destination dims: source ({list(source_dims)} dims) should contain the "
            "same number "
            f"of dims as destination ({list(destination_dims)} dims)"
        )
    sources = [wrap_dim(d, rank) for d in source_dims]
    targets = [wrap_dim(d, rank) for d in destination_dims]
    for name, dims, named in (("source", sources, source_dims), ("destination", targets, destination_dims)):
        if len(set(dims)) != len(dims):
            raise RuntimeError(f"movedim: repeated dim in `{name}` ({list(named)})")
    order = [-1] * rank
    if not rank:
        return order
    for s, t in zip(sources, targets, strict=True):
        order[t] = s
    rest = iter(d for d in range(rank) if d not in sources)
    return [next(rest) if d < 0 else d for d in order]


def _plan_movedim(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan | None:
    self: Tensor = args[0]
    order = _moved_order(self._spec.ndim, args[1], args[2])
    return plan_of_part(op, key_set, args, "aten::permute", (self, tuple(order))) if order else None


@planned_by(_plan_movedim)
def movedim(self: Tensor, source: int | Sequence[int], destination: int | Sequence[int]) -> Tensor:
    """Run `torch.movedim`: move the given dimensions to new positions, and keep the order of the others."""
    order = _moved_order(self._spec.ndim, source, destination)
    return self.permute(order) if order else self.alias()


def swapdims(self: Tensor, dim0: int, dim1: int) -> Tensor:
    """Run `torch.swapdims` and `torch.swapaxes`."""
    return self.transpose(dim0, dim1)


def adjoint(self: Tensor) -> Tensor:
    """Return `torch.adjoint`: the conjugate transpose of the last two dimensions."""
    rank = self._spec.ndim
    if rank == 1:
        raise RuntimeError(
            f"tensor.adjoint() is only supported on matrices or batches of matrices. Got {rank}-D tensor."
        )
    turned = self.transpose(-2, -1) if rank else self
    return turned.conj() if self._spec.dtype.is_complex else turned


@lru_cache(maxsize=4096)
def _flattened(sizes: tuple[int, ...], start_dim: int, end_dim: int) -> tuple[int, ...] | None:
    """Return the sizes with a range of dimensions flattened; None if there is nothing to flatten."""
    first, last = wrap_dim(start_dim, len(sizes)), wrap_dim(end_dim, len(sizes))
    if first > last:
        raise RuntimeError("flatten() has invalid args: start_dim cannot come after end_dim")
    if not sizes:
        return (1,)
    if first == last:
        return None
    return (*sizes[:first], math.prod(sizes[first : last + 1]), *sizes[last + 1 :])


def _plan_flatten(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan | None:
    """Plan a flattening of dimensions as a view, or as the tensor itself."""
    self, start_dim, end_dim = args
    sizes = _flattened(self._spec.sizes, start_dim, end_dim)
    if sizes is None:
        return _itself
    return (
        plan_of_part(op, key_set, args, "aten::view", (self, sizes))
        if _reshaped(self._spec, sizes)[1]
        else None
    )


def _itself(tensor: Tensor) -> Tensor:
    return tensor


@planned_by(_plan_flatten)
def flatten(self: Tensor, start_dim: int, end_dim: int) -> Tensor:
    """Run `torch.flatten`; return the tensor itself if there is nothing to flatten."""
    sizes = _flattened(self._spec.sizes, start_dim, end_dim)
    return self if sizes is None else reshape(self, sizes)


def unflatten(self: Tensor, dim: int, sizes: Sequence[int]) -> Tensor:
    """Return `torch.unflatten`."""
    spec = self._spec
    d = wrap_dim(dim, spec.ndim)
    if not sizes:
        raise RuntimeError("unflatten: sizes must be non-empty")
    if not spec.ndim:
        raise RuntimeError("unflatten: expected a tensor with dimensions, got one of none")
    have = spec.sizes[d]
    known = math.prod(n for n in sizes if n != -1)
    inferred = sum(n == -1 for n in sizes)
    if inferred > 1:
        raise RuntimeError("unflatten got an unexpected error:\nonly one dimension can be inferred")
    if known != have if not inferred else known == 0 or have % known:
        raise RuntimeError(
            f"unflatten: Provided sizes {list(sizes)} don't multiply up to the size of dim {d} ({have}) in "
            "the input "
            "tensor"
        )
    whole = [have // known if n == -1 else n for n in sizes]
    return self.view((*spec.sizes[:d], *whole, *spec.sizes[d + 1 :]))


def ravel(self: Tensor) -> Tensor:
    """Return `torch.ravel`."""
    return self.contiguous().view((-1,))


@planned_by(plan_split)
def split(self: Tensor, split_size: int, dim: int) -> tuple[Tensor, ...]:
    """Run `torch.split` into parts of one size; the last part may be smaller."""
    return mark_several(_parts_of_size(self, split_size, dim), "Split", dim)


def unsafe_split(self: Tensor, split_size: int, dim: int) -> tuple[Tensor, ...]:
    """Run `torch.unsafe_split`, whose parts may be written to under autograd."""
    return _unrelated(_parts_of_size(self, split_size, dim))


def _unrelated(parts: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Make autograd see tensors that share memory as unrelated: a write to one is no write to the others."""
    for part in parts:
        part._view_base = part._version_cell = None
    return parts


def _parts_of_size(self: Tensor, split_size: int, dim: int) -> tuple[Tensor, ...]:
    spec = self._spec
    if spec.ndim == 0:
        raise RuntimeError("split expects at least a 1-dimensional tensor")
    if split_size < 0:
        raise RuntimeError(f"split expects split_size be non-negative, but got split_size={split_size}")
    size = spec.sizes[wrap_dim(dim, spec.ndim)]
    if split_size == 0:
        if size:
            raise RuntimeError(
                f"split_size can only be 0 if dimension size is 0, but got dimension size of {size}"
            )
        return (self.slice(dim, 0, 0, 1),)
    if size == 0:
        return (self.slice(dim, 0, 0, 1),)
    refuse_too_many_views("split", -(-size // split_size))
    return tuple([self.slice(dim, s, min(s + split_size, size), 1) for s in range(0, size, split_size)])


@planned_by(plan_split_with_sizes)
def split_with_sizes(self: Tensor, split_sizes: Sequence[int], dim: int) -> tuple[Tensor, ...]:
    """Run `torch.split` into parts of the given sizes."""
    return mark_several(_parts_of_sizes(self, split_sizes, dim), "SplitWithSizes", dim)


def unsafe_split_with_sizes(self: Tensor, split_sizes: Sequence[int], dim: int) -> tuple[Tensor, ...]:
    """Run `torch.unsafe_split_with_sizes`, whose parts may be written to under autograd."""
    return _unrelated(_parts_of_sizes(self, split_sizes, dim))


def _parts_of_sizes(self: Tensor, split_sizes: Sequence[int], dim: int) -> tuple[Tensor, ...]:
    spec = self._spec
    if spec.ndim == 0:
        raise RuntimeError("split expects at least a 1-dimensional tensor")
    size = spec.sizes[wrap_dim(dim, spec.ndim)]
    if any(n < 0 for n in split_sizes):
        raise RuntimeError(
            "split_with_sizes expects split_sizes have only non-negative entries, but got "
            f"split_sizes={list(split_sizes)}"
        )
    if sum(split_sizes) != size:
        raise RuntimeError(
            f"split_with_sizes expects split_sizes to sum exactly to {size} (input tensor's size at "
            f"dimension {dim}), "
            f"but got split_sizes={list(split_sizes)}"
        )
    ends = list(itertools.accumulate(split_sizes))
    return tuple([self.slice(dim, end - n, end, 1) for n, end in zip(split_sizes, ends, strict=True)])


@planned_by(plan_chunk)
def chunk(self: Tensor, chunks: int, dim: int) -> tuple[Tensor, ...]:
    """Run `torch.chunk`: at most `chunks` parts of one size; the last part may be smaller."""
    return mark_several(_parts_in_number(self, chunks, dim), "Split", dim)


def unsafe_chunk(self: Tensor, chunks: int, dim: int) -> tuple[Tensor, ...]:
    """Run `torch.unsafe_chunk`, whose parts may be written to under autograd."""
    return _unrelated(_parts_in_number(self, chunks, dim))


def _parts_in_number(self: Tensor, chunks: int, dim: int) -> tuple[Tensor, ...]:
    spec = self._spec
    if spec.ndim == 0:
        raise RuntimeError("chunk expects at least a 1-dimensional tensor")
    if chunks <= 0:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    size = spec.sizes[wrap_dim(dim, spec.ndim)]
    if size == 0:
        refuse_too_many_views("chunk", chunks)
        return _parts_of_sizes(self, (0,) * chunks, dim)
    return _parts_of_size(self, (size + chunks - 1) // chunks, dim)


def tensor_split_sections(self: Tensor, sections: int, dim: int) -> tuple[Tensor, ...]:
    """Run `torch.tensor_split` into a number of parts whose sizes differ by at most one."""
    spec = self._spec
    _check_tensor_split(spec.ndim)
    size = spec.sizes[wrap_dim(dim, spec.ndim)]
    if sections <= 0:
        raise RuntimeError(f"number of sections must be larger than 0, got {sections}")
    refuse_too_many_views("tensor_split", sections)
    small, larger = divmod(size, sections)
    return _parts_of_sizes(self, [small + 1] * larger + [small] * (sections - larger), dim)


def tensor_split_indices(self: Tensor, indices: Sequence[int], dim: int) -> tuple[Tensor, ...]:
    """Run `torch.tensor_split` at the given indices."""
    spec = self._spec
    _check_tensor_split(spec.ndim)
    starts = (0, *indices)
    ends = (*indices, spec.sizes[wrap_dim(dim, spec.ndim)])
    return tuple([self.slice(dim, start, end, 1) for start, end in zip(starts, ends, strict=True)])


def tensor_split_tensor(self: Tensor, tensor_indices_or_sections: Tensor, dim: int) -> tuple[Tensor, ...]:
    """Run `torch.tensor_split` by an int64 tensor: a number of parts, or the indices."""
    _check_tensor_split(self._spec.ndim)
    index_spec = tensor_indices_or_sections._spec
    if index_spec.dtype is not int64:
        raise RuntimeError(
            "tensor_split expected tensor_indices_or_sections to have dtype of long, but got "
            f"{index_spec.dtype.scalar_name}"
        )
    if index_spec.device.type != "cpu":
        raise RuntimeError(
            f"tensor_split expected tensor_indices_or_sections to be on cpu, but it's on {index_spec.device}"
        )
    if index_spec.ndim > 1:
        raise RuntimeError(
            "tensor_split expected tensor_indices_or_sections to be a zero-dimensional or one-dimensional "
            "tensor, but "
            f"got a tensor with {index_spec.ndim} dims"
        )
    if index_spec.ndim == 0:
        return tensor_split_sections(self, tensor_indices_or_sections.item(), dim)
    return tensor_split_indices(self, tensor_indices_or_sections.tolist(), dim)


def _check_tensor_split(rank: int) -> None:
    if rank == 0:
        raise RuntimeError(
            "tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims"
        )


@planned_by(plan_unbind)
def unbind(self: Tensor, dim: int) -> tuple[Tensor, ...]:
    """Run `torch.unbind`: return the slices along a dimension."""
    spec = self._spec
    d = wrap_dim(dim, spec.ndim, scalar_ok=False)
    refuse_too_many_views("unbind", spec.sizes[d])
    if d == 0 and not modes:
        return mark_several(tuple([self._select_first(i) for i in range(spec.sizes[0])]), "Unbind", 0)
    return mark_several(tuple([self.select(d, i) for i in range(spec.sizes[d])]), "Unbind", d)


transpose_by_name = dimnames.by_name("transpose.int")
select_by_name = dimnames.by_name("select.int")
squeeze_by_name = dimnames.by_name("squeeze.dim")
unbind_by_name = dimnames.by_name("unbind.int")
diagonal_by_name = dimnames.diagonal_by_name
flatten_between = dimnames.flatten_between
flatten_names = dimnames.flatten_names
flatten_to = dimnames.flatten_to
unflatten_namedshape = dimnames.unflatten_namedshape
unflatten_to = dimnames.unflatten_to
as_strided_ = views_in_place.as_strided_
squeeze_ = views_in_place.squeeze_
swapaxes_ = views_in_place.swapaxes_
swapdims_ = views_in_place.swapdims_
t_ = views_in_place.t_
transpose_ = views_in_place.transpose_
unsqueeze_ = views_in_place.unsqueeze_
