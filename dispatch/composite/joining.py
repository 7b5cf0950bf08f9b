"""Joining of tensors, made of other operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import TYPE_CHECKING, Any

from ...runtime.device import CPU
from ...runtime.memory_format import contiguous_format
from ...runtime.tensor_spec import TensorSpec
from ..core.kernel_function import Plan
from ..core.operator_entry import OperatorEntry
from ..generated import functions as ops
from ..iterator.overlap import check_no_overlap, shares_memory
from ..iterator.type_promotion import promote_types
from ..plans.functional import FunctionalForm, slot_of
from ..plans.host_kernel import is_unseen
from ..plans.register import planned_by
from ..structured.allocation import allocator_of, numpy_may_allocate
from ..structured.meta.dims import wrap_dim
from ..structured.meta.joining import can_cast
from ..structured.stub import PlannedKernel, StructuredCall, find_kernel
from ..tensor import Tensor, blank_tensor
from .forms import write_out

if TYPE_CHECKING:
    from ...runtime.scalar_type import dtype as ScalarType


def concat(tensors: Sequence[Tensor], dim: int) -> Tensor:
    """Return `torch.concat` and `torch.concatenate`."""
    return ops.cat(tensors, dim)


def _plan_stack(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan | None:
    """Plan the stack of host tensors of one shape as a single write."""
    tensors, dim = args
    specs = tuple([each._spec for each in tensors])
    if not specs or not all(map(partial(_stacks_with, specs[0]), specs)):
        return None
    if not is_unseen(key_set, ("aten::cat", "aten::unsqueeze")):
        return None
    sizes = specs[0].sizes
    d = wrap_dim(dim, len(sizes) + 1)
    spec = TensorSpec.contiguous((*sizes[:d], len(specs), *sizes[d:]), specs[0].dtype, CPU)
    # Along an existing dimension, the result is the concatenation, viewed with one more dimension.
    lifted = (*sizes, 1) if d == len(sizes) else sizes
    part = TensorSpec.contiguous(lifted, spec.dtype, CPU)
    joined = TensorSpec.contiguous((*lifted[:d], lifted[d] * len(specs), *lifted[d + 1 :]), spec.dtype, CPU)
    extra = {"kept": tuple(range(len(specs))), "dim": d}
    call = StructuredCall("cat", {"tensors": (part,) * len(specs)}, ("tensors",), (joined,), None, CPU, extra)
    kernel = find_kernel("cat_stub", "cpu", "cat")(call)
    join, fresh = kernel.into, kernel.fresh
    allocate, whole, lifts = allocator_of(spec), joined.sizes, lifted != sizes
    is_uniform = len(set(specs)) == 1 and specs[0].is_contiguous
    if fresh is not None and is_uniform and not lifts and numpy_may_allocate(spec):
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


def _stacks_with(first: TensorSpec, spec: TensorSpec) -> bool:
    """Return whether a tensor is one of a stack that is contiguous: with at most 3 dimensions, no other format is."""
    if spec is first and spec.is_contiguous:
        return spec.device is CPU
    return spec.ndim < 3 and spec.sizes == first.sizes and spec.dtype is first.dtype and spec.device is CPU


def _unfolded(
    fresh: Callable[[Sequence[Any]], Any], sizes: tuple[int, ...]
) -> Callable[[Sequence[Any]], Any]:
    """Return the kernel that reshapes NumPy's concatenation into one more dimension."""
    return lambda arrays: fresh(arrays).reshape(sizes)


def _pair_of(allocate: Callable[[], Any]) -> Callable[[Sequence[Any]], Any]:
    """Return the kernel that joins two arrays, in three quarters of the time of a concatenation."""

    def pair(arrays: Sequence[Any]) -> Any:
        made = allocate()
        made[0], made[1] = arrays
        return made

    return pair


@planned_by(_plan_stack)
def stack(tensors: Sequence[Tensor], dim: int) -> Tensor:
    """Return `torch.stack`: join tensors of one shape along a new dimension."""
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
    if d < len(sizes) and tensors[0]._spec.suggest_memory_format() is not contiguous_format:
        # Joined along an existing dimension, the tensors keep their memory format.
        return ops._unsafe_view(ops.cat(tensors, d), (*sizes[:d], len(tensors), *sizes[d:]))
    return ops.cat([each.unsqueeze(d) for each in tensors], d)


def stack_out(tensors: Sequence[Tensor], dim: int, out: Tensor) -> Tensor:
    """Run `torch.stack` with an ``out=`` tensor, which must not be an input."""
    for each in tensors:
        if shares_memory(out, each):
            check_no_overlap(out, each)
    return _joined_into("stack", out, stack(tensors, dim))


def _joined_into(name: str, out: Tensor, joined: Tensor) -> Tensor:
    """Write joined tensors to the given ``out=`` tensor. Raises TypeError, as `cat`, for its dtype."""
    _check_cast(joined._spec.dtype, out)
    return write_out(name, out, joined)


def _check_cast(dtype: ScalarType, out: Tensor) -> None:
    if not can_cast(dtype, out._spec.dtype):
        raise TypeError(
            f"torch.cat(): input types can't be cast to the desired output type {out._spec.dtype.scalar_name}"
        )


def _at_least(rank: int, x: Tensor) -> Tensor:
    """Return the tensor with as many dimensions as `torch.atleast_1d`, ``2d``, ``3d`` give it."""
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
    """Return `torch._chunk_cat`: join `num_chunks` zero-padded chunks of each tensor, flattened to vectors.

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
    """Run `torch._chunk_cat` with an ``out=`` tensor."""
    return _joined_into("_chunk_cat", out, _chunk_cat(tensors, dim, num_chunks))


def hstack(tensors: Sequence[Tensor]) -> Tensor:
    """Return `torch.hstack`."""
    return _joined("hstack", tensors, 1, 1)


def vstack(tensors: Sequence[Tensor]) -> Tensor:
    """Return `torch.vstack`."""
    return _joined("vstack", tensors, 2, 0)


def dstack(tensors: Sequence[Tensor]) -> Tensor:
    """Return `torch.dstack`."""
    return _joined("dstack", tensors, 3, 2)


def column_stack(tensors: Sequence[Tensor]) -> Tensor:
    """Return `torch.column_stack`."""
    return hstack([x.reshape((x._spec.numel, 1)) if x._spec.ndim <= 1 else x for x in tensors])


def _join_out(name: str, join: Callable[[Sequence[Any]], Any]) -> Callable[..., Any]:
    def join_out(tensors: Sequence[Tensor], out: Tensor) -> Tensor:
        if tensors:  # checked before their sizes, as in cat
            _check_cast(reduce(promote_types, (each._spec.dtype for each in tensors)), out)
        return _joined_into(name, out, join(tensors))

    return join_out


hstack_out = _join_out("hstack", hstack)
vstack_out = _join_out("vstack", vstack)
dstack_out = _join_out("dstack", dstack)
column_stack_out = _join_out("column_stack", column_stack)
