"""Reordering and repetition of elements: flips, rotations, `roll`, `repeat`, `tile`, `repeat_interleave`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from ...runtime.cuda.value_reading import may_read_values
from ...runtime.memory_format import contiguous_format
from ...runtime.scalar_type import bool_, int32, int64
from ...runtime.tensor_spec import TensorSpec
from ..generated import functions as ops
from ..plans.host_kernel import host_kernel
from ..structured.meta.dims import MAX_ELEMENTS, check_size, wrap_dim
from ..structured.stub import StructuredCall, find_kernel
from ..tensor import Tensor


def fliplr(self: Tensor) -> Tensor:
    """Return `torch.fliplr`."""
    if self._spec.ndim < 2:
        raise RuntimeError("Input must be >= 2-d.")
    return self.flip((1,))


def flipud(self: Tensor) -> Tensor:
    """Return `torch.flipud`."""
    if self._spec.ndim < 1:
        raise RuntimeError("Input must be >= 1-d.")
    return self.flip((0,))


@host_kernel("roll", "cat")
def roll(self: Tensor, shifts: Sequence[int], dims: Sequence[int]) -> Tensor:
    """Run `torch.roll`; without `dims`, roll the flattened tensor."""
    spec = self._spec
    if not shifts:
        raise RuntimeError("`shifts` required")
    if not dims and len(shifts) == 1:
        return ops._unsafe_view(roll(self.reshape((-1,)), shifts, (0,)), spec.sizes)
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
    """Return `torch.rot90`."""
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
    """Run `Tensor.repeat`: tile copies of the tensor."""
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
    check_size(target)
    if 0 in target:
        return ops._unsafe_view(self.reshape((-1,))[:0], target)
    if math.prod(repeats) == 1:
        return ops._unsafe_view(self.clone(memory_format=contiguous_format), target)
    apart = [m for n in sizes for m in (1, n)]
    spread = [m for n, r in zip(sizes, repeats, strict=True) for m in (r, n)]
    copied = self.reshape(apart).expand(spread).clone(memory_format=contiguous_format)
    return ops._unsafe_view(copied, target)


def repeat_interleave(repeats: Tensor, output_size: int | None) -> Tensor:
    """Return ``torch.repeat_interleave(repeats)``: each position repeated by its count.

    The host knows the output's size only once the device has summed the repeats, or by `output_size`.
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
        min_repeats, max_repeats = (int(bound) for bound in ops.aminmax(repeats))
        if min_repeats < 0:
            raise RuntimeError("repeats can not be negative")
        total = int(ends.select(0, spec.numel - 1))
        if max_repeats * spec.numel > MAX_ELEMENTS:  # the sum may have wrapped around
            total = sum(repeats.tolist())
            check_size((total,))
        if output_size is not None and output_size != total:
            raise RuntimeError("allocated size does not match required size")
    positions = ops.arange(total, dtype=ends.dtype, device=repeats.device)
    # The last cumulative sum exceeds all positions unless a repeat is invalid. Clamp the positions in that case too:
    # the repeats' error then precedes any index error.
    return ops.searchsorted(
        ends.narrow(0, 0, spec.numel - 1), positions, out_int32=spec.dtype is int32, right=True
    )


def _report_where(wrong: Tensor) -> None:
    """Raise an error for invalid repeats at the next synchronization; a wrapped tensor has no bytes."""
    spec = wrong._spec
    if type(wrong) is Tensor and spec.keys == TensorSpec.contiguous(spec.sizes, bool_, spec.device).keys:
        _repeats_check(spec)(wrong._data)


@lru_cache(maxsize=256)
def _repeats_check(spec: TensorSpec) -> Callable[[Any], None]:
    call = StructuredCall("repeat_interleave", {"self": spec}, ("self",), (), None, spec.device, {})
    return find_kernel("repeats_check_stub", "cuda", "repeat_interleave")(call).into


def _line(self: Tensor, dim: int | None) -> tuple[Tensor, int]:
    """Return the tensor and a dimension of it; without a dimension, the flattened tensor and its only one."""
    if dim is None:
        return self.reshape((-1,)), 0
    if not self._spec.ndim:
        raise IndexError(f"Dimension out of range (expected to be in range of [-1, 0], but got {dim})")
    return self, wrap_dim(dim, self._spec.ndim)


def repeat_interleave_by(self: Tensor, repeats: Tensor, dim: int | None, output_size: int | None) -> Tensor:
    """Run `torch.repeat_interleave` with a count for each entry."""
    source, d = _line(self, dim)
    size = source._spec.sizes[d] if source._spec.ndim else 1
    repeats_spec = repeats._spec
    if repeats_spec.ndim > 1:
        raise RuntimeError("repeats must be 0-dim or 1-dim tensor")
    if repeats_spec.ndim == 0 or repeats_spec.sizes == (1,):
        repeats = repeats.reshape((1,)).expand((size,))
    elif repeats_spec.sizes[0] != size:
        raise RuntimeError(
            "repeats must have the same size as input along dim, but got repeats.size(0) = "
            f"{repeats_spec.sizes[0]} and input.size({d}) = {size}"
        )
    return source.index_select(d, ops.repeat_interleave(repeats, output_size=output_size))


def repeat_interleave_each(self: Tensor, repeats: int, dim: int | None, output_size: int | None) -> Tensor:
    """Run `torch.repeat_interleave` with one count for all entries."""
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
    """Run `torch.tile`: `repeat` with missing leading counts taken as one."""
    lead = self._spec.ndim - len(dims)
    return self.repeat((1,) * max(lead, 0) + tuple(dims))
