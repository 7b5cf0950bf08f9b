"""Shape composites: splitting, ranks, broadcasting, grids, diagonals, shuffles (ATen/native/TensorShape.cpp)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...runtime.memory_format import contiguous_format
from ...runtime.scalar_type import bool_, int64
from ..core.mode_stack import sees_whole
from ..generated import functions as ops
from ..generated.functions import unsqueeze
from ..iterator.broadcast import infer_size
from ..plans.host_kernel import host_kernel
from ..structured.meta.dims import wrap_dim
from ..tensor_data import tensor
from .views import (
    narrow,
    tensor_split_indices,
    tensor_split_sections,
    unsafe_chunk,
    unsafe_split,
    unsafe_split_with_sizes,
)

if TYPE_CHECKING:
    from ..tensor import Tensor

__all__ = ["unsafe_chunk", "unsafe_split", "unsafe_split_with_sizes"]


def _divisible(name: str, self: Tensor, least: int, dim: int, sections: int) -> int:
    """Return the dimension to split evenly. Raises RuntimeError if it cannot be split."""
    rank = self._spec.ndim
    if rank < least:
        raise RuntimeError(
            f"torch.{name} requires a tensor with at least {least} dimension{'s' if least > 1 else ''}, but got "
            f"a tensor with {rank} dimensions!"
        )
    size = self._spec.sizes[dim]
    if sections <= 0 or size % sections:
        raise RuntimeError(
            f"torch.{name} attempted to split along dimension {dim}, but the size of the dimension {size} is not "
            f"divisible by the split_size {sections}!"
        )
    return dim


def hsplit_sections(self: Tensor, sections: int) -> tuple[Tensor, ...]:
    """Run `torch.hsplit` into equal parts, along the columns."""
    dim = _divisible("hsplit", self, 1, min(self._spec.ndim - 1, 1), sections)
    return tensor_split_sections(self, sections, dim)


def hsplit_indices(self: Tensor, indices: Sequence[int]) -> tuple[Tensor, ...]:
    """Return `torch.hsplit` at given indices."""
    return tensor_split_indices(self, indices, _divisible("hsplit", self, 1, min(self._spec.ndim - 1, 1), 1))


def vsplit_sections(self: Tensor, sections: int) -> tuple[Tensor, ...]:
    """Run `torch.vsplit` into equal parts, along the rows."""
    return tensor_split_sections(self, sections, _divisible("vsplit", self, 2, 0, sections))


def vsplit_indices(self: Tensor, indices: Sequence[int]) -> tuple[Tensor, ...]:
    """Return `torch.vsplit` at given indices."""
    return tensor_split_indices(self, indices, _divisible("vsplit", self, 2, 0, 1))


def dsplit_sections(self: Tensor, sections: int) -> tuple[Tensor, ...]:
    """Run `torch.dsplit` into equal parts, along the depth."""
    return tensor_split_sections(self, sections, _divisible("dsplit", self, 3, 2, sections))


def dsplit_indices(self: Tensor, indices: Sequence[int]) -> tuple[Tensor, ...]:
    """Return `torch.dsplit` at given indices."""
    return tensor_split_indices(self, indices, _divisible("dsplit", self, 3, 2, 1))


def atleast_1d(self: Tensor) -> Tensor:
    """Return `torch.atleast_1d`."""
    return self.reshape((1,)) if self._spec.ndim == 0 else self


def atleast_2d(self: Tensor) -> Tensor:
    """Return `torch.atleast_2d`: a vector becomes a row."""
    rank = self._spec.ndim
    return self.reshape((1, 1)) if rank == 0 else unsqueeze(self, 0) if rank == 1 else self


def atleast_3d(self: Tensor) -> Tensor:
    """Run `torch.atleast_3d`: a vector becomes (1, n, 1), a matrix (m, n, 1)."""
    rank = self._spec.ndim
    if rank >= 3:
        return self
    return unsqueeze(atleast_2d(self), -1) if rank else self.reshape((1, 1, 1))


def atleast_1d_sequence(tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Return `torch.atleast_1d` of each tensor."""
    return tuple([atleast_1d(x) for x in tensors])


def atleast_2d_sequence(tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Return `torch.atleast_2d` of each tensor."""
    return tuple([atleast_2d(x) for x in tensors])


def atleast_3d_sequence(tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Return `torch.atleast_3d` of each tensor."""
    return tuple([atleast_3d(x) for x in tensors])


def broadcast_tensors(tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Return `torch.broadcast_tensors`: views of one common shape; a tensor of that shape is returned unchanged."""
    sizes: tuple[int, ...] = ()
    for x in tensors:
        sizes = infer_size(sizes, x._spec.sizes)
    return tuple([x if x._spec.sizes == sizes else x.expand(sizes) for x in tensors])


def meshgrid(tensors: Sequence[Tensor], indexing: str) -> tuple[Tensor, ...]:
    """Return `torch.meshgrid`: each vector along its own dimension, expanded over the others."""
    if not tensors:
        raise RuntimeError("meshgrid expects a non-empty TensorList")
    if indexing not in ("ij", "xy"):
        raise RuntimeError(f'torch.meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}')
    first = tensors[0]
    for x in tensors:
        if x._spec.ndim > 1:
            raise RuntimeError(
                f"torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got: {list(x.shape)}"
            )
        if x.dtype is not first.dtype:
            raise RuntimeError("torch.meshgrid expects all tensors to have the same dtype")
        if x._spec.device is not first._spec.device:
            raise RuntimeError("torch.meshgrid expects all tensors to have the same device")
    swapped = indexing == "xy" and len(tensors) >= 2
    order = list(tensors)
    if swapped:
        order[0], order[1] = order[1], order[0]
    rank = len(order)
    sizes = tuple([x.numel() for x in order])
    grids = [x.reshape([-1 if d == i else 1 for d in range(rank)]).expand(sizes) for i, x in enumerate(order)]
    if swapped:
        grids[0], grids[1] = grids[1], grids[0]
    return tuple(grids)


def linalg_diagonal(A: Tensor, offset: int, dim1: int, dim2: int) -> Tensor:
    """Return `torch.linalg.diagonal`."""
    return ops.diagonal(A, offset, dim1, dim2)


def diag(self: Tensor, diagonal: int) -> Tensor:
    """Return `torch.diag`: the diagonal matrix of a vector, or the diagonal of a matrix."""
    rank = self._spec.ndim
    if rank not in (1, 2):
        raise RuntimeError(f"diag(): Supports 1D or 2D tensors. Got {rank}D")
    if rank == 1:
        matrix: Tensor = diag_embed(self, diagonal, 0, 1)
        return matrix
    return ops.clone(ops.diagonal(self, diagonal, 0, 1), memory_format=contiguous_format)


@host_kernel("diagflat", "zeros", "diagonal_scatter")
def diagflat(self: Tensor, offset: int) -> Tensor:
    """Return `torch.diagflat`: a matrix with all elements on its diagonal."""
    matrix: Tensor = diag_embed(self.reshape((-1,)), offset, 0, 1)
    return matrix


@host_kernel("diag_embed", "zeros", "diagonal_scatter")
def diag_embed(self: Tensor, offset: int, dim1: int, dim2: int) -> Tensor:
    """Return `torch.diag_embed`: the last dimension as the diagonal of two new dimensions, with zeros elsewhere."""
    rank = self._spec.ndim + 1
    first, second = wrap_dim(dim1, rank), wrap_dim(dim2, rank)
    if first == second:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    length = self._spec.sizes[-1] if self._spec.ndim else 1
    side = length + abs(offset)
    sizes = list(self._spec.sizes[:-1])
    for dim in sorted((first, second)):
        sizes.insert(dim, side)
    if side >= 1 << 63:
        raise RuntimeError(f"diag_embed(): an offset of {offset} overflows the sizes {sizes}")
    zeros = ops.zeros(sizes, dtype=self.dtype, device=self._spec.device)
    return ops.diagonal_scatter(zeros, self, offset, first, second)


@host_kernel("block_diag", "zeros", "cat")
def block_diag(tensors: Sequence[Tensor]) -> Tensor:
    """Return `torch.block_diag`: matrices along the diagonal, zeros elsewhere; vectors are rows."""
    if not tensors:
        return ops.empty((1, 0))
    device = tensors[0]._spec.device
    blocks = []
    for i, x in enumerate(tensors):
        if x._spec.device is not device:
            raise RuntimeError(
                "torch.block_diag: input tensors must all be on the same device. Input 0 is on device "
                f"{device} and input {i} is on device {x._spec.device}"
            )
        if x._spec.ndim > 2:
            raise RuntimeError(
                f"torch.block_diag: Input tensors must have 2 or fewer dimensions. Input {i} has "
                f"{x._spec.ndim} dimensions"
            )
        blocks.append(atleast_2d(x))
    width = sum(x._spec.sizes[1] for x in blocks)
    rows, left = [], 0
    for x in blocks:
        height, own = x._spec.sizes
        parts = [ops.zeros((height, left), dtype=x.dtype, device=device), x]
        parts.append(ops.zeros((height, width - left - own), dtype=x.dtype, device=device))
        rows.append(ops.cat(parts, 1))
        left += own
    return ops.cat(rows, 0)


def cartesian_prod(tensors: Sequence[Tensor]) -> Tensor:
    """Return `torch.cartesian_prod`: one row for each combination of elements."""
    for x in tensors:
        if x._spec.ndim != 1:
            raise RuntimeError(f"Expect a 1D vector, but got shape {list(x.shape)}")
    if len(tensors) == 1:
        return tensors[0]
    return ops.stack([grid.reshape((-1,)) for grid in meshgrid(tensors, "ij")], 1)


def combinations(self: Tensor, r: int, with_replacement: bool) -> Tensor:
    """Return `torch.combinations`: one row for each combination of `r` elements, in order."""
    if self._spec.ndim != 1:
        raise RuntimeError(f"Expect a 1D vector, but got shape {list(self.shape)}")
    if r < 0:
        raise RuntimeError(f"Expect a non-negative number, but got {r}")
    if r == 0:
        return ops.empty((0,), dtype=self.dtype, device=self._spec.device)
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    count = _number_of_choices(self.numel(), r, with_replacement)
    if sees_whole():
        return _combinations_by_mask(self, r, with_replacement)
    chosen = np.fromiter(itertools.chain.from_iterable(choose(range(self.numel()), r)), np.int64, count * r)
    rows = tensor(chosen, dtype=int64).to(self._spec.device, non_blocking=True)
    return ops._unsafe_view(ops.index_select(self, 0, rows), (count, r))


def _combinations_by_mask(self: Tensor, r: int, with_replacement: bool) -> Tensor:
    """Select rows of the Cartesian product whose positions ascend. Modes see PyTorch's operators."""
    grids = meshgrid([self] * r, "ij")
    positions = meshgrid([ops.arange(self.numel(), device=self._spec.device)] * r, "ij")
    ascends = ops.full(positions[0]._spec.sizes, True, dtype=bool_, device=self._spec.device)
    for low, high in itertools.pairwise(positions):
        ascends.mul_(ops.le(low, high) if with_replacement else ops.lt(low, high))
    return ops.stack([grid.masked_select(ascends) for grid in grids], 1)


MAX_CHOSEN = 2**29
"""Maximum number of elements in a result of `combinations`; their indices take 4 GiB."""


def _number_of_choices(numel: int, r: int, with_replacement: bool) -> int:
    """Return the number of combinations of `r` out of `numel` elements. Raises RuntimeError for too many."""
    among = numel + r - 1 if with_replacement else numel
    # Each further element adds at least one combination, so check r before computing a huge binomial.
    fits = 0 <= r <= MAX_CHOSEN and (r > among or min(r, among - r) <= 64)
    count = math.comb(among, r) if fits and numel else 0
    if not fits and r > among:
        return 0
    if not fits or count * r > MAX_CHOSEN:
        size = f"{count} x {r}" if fits else f"more than 2**63 x {r}"
        raise RuntimeError(
            f"combinations: {numel} elements, {r} at a time, give a tensor of {size} elements, and at most "
            f"{MAX_CHOSEN} are supported; choose a smaller r"
        )
    return count


def narrow_copy(self: Tensor, dim: int, start: int, length: int) -> Tensor:
    """Return `torch.narrow_copy`."""
    return ops.clone(narrow(self, dim, start, length), memory_format=contiguous_format)


def sum_to_size(self: Tensor, size: Sequence[int]) -> Tensor:
    """Return `torch.Tensor.sum_to_size`: the sum over the broadcast dimensions."""
    sizes, target = self._spec.sizes, tuple(size)
    if not target:
        return ops.sum(self)
    lead = len(sizes) - len(target)
    fits = lead >= 0 and all(own == n or n == 1 for own, n in zip(sizes[lead:], target, strict=True))
    if not fits:
        raise RuntimeError(f"size {{{list(target)}}} is not expandable to size {{{list(sizes)}}}.")
    dims = [d for d in range(len(sizes)) if d < lead or (target[d - lead] == 1 and sizes[d] != 1)]
    if not dims:
        return self
    return ops.sum(self, dims, True).view(target) if lead else ops.sum(self, dims, True)


def pixel_shuffle(self: Tensor, upscale_factor: int) -> Tensor:
    """Run `torch.pixel_shuffle`: (..., C r^2, H, W) to (..., C, H r, W r)."""
    if self._spec.ndim < 3:
        raise RuntimeError(
            f"pixel_shuffle expects input to have at least 3 dimensions, but got input with {self._spec.ndim} "
            "dimension(s)"
        )
    if upscale_factor <= 0:
        raise RuntimeError(f"pixel_shuffle expects a positive upscale_factor, but got {upscale_factor}")
    *batch, c, h, w = self._spec.sizes
    r = upscale_factor
    if r * r >= 1 << 63:
        raise ValueError(f"upscale factor is too large, (upscale_factor)^2 overflowed: upscale_factor={r}")
    if c % (r * r):
        raise RuntimeError(
            "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of "
            f"upscale_factor, but input.size(-3)={c} is not divisible by {r * r}"
        )
    rank = len(batch)
    split = self.reshape((*batch, c // (r * r), r, r, h, w))
    order = [*range(rank), *(rank + d for d in (0, 3, 1, 4, 2))]
    return _moved(self, split.permute(order), (*batch, c // (r * r), h * r, w * r))


def pixel_unshuffle(self: Tensor, downscale_factor: int) -> Tensor:
    """Run `torch.pixel_unshuffle`: (..., C, H r, W r) to (..., C r^2, H, W)."""
    if self._spec.ndim < 3:
        raise RuntimeError(
            f"pixel_unshuffle expects input to have at least 3 dimensions, but got input with {self._spec.ndim} "
            "dimension(s)"
        )
    if downscale_factor <= 0:
        raise RuntimeError(f"pixel_unshuffle expects a positive downscale_factor, but got {downscale_factor}")
    *batch, c, h, w = self._spec.sizes
    r = downscale_factor
    for side, size, index in (("height", h, -2), ("width", w, -1)):
        if size % r:
            raise RuntimeError(
                f"pixel_unshuffle expects {side} to be divisible by downscale_factor, but input.size({index})="
                f"{size} is not divisible by {r}"
            )
    rank = len(batch)
    split = self.reshape((*batch, c, h // r, r, w // r, r))
    order = [*range(rank), *(rank + d for d in (0, 2, 4, 1, 3))]
    return _moved(self, split.permute(order), (*batch, c * r * r, h // r, w // r))


def _moved(like: Tensor, permuted: Tensor, sizes: Sequence[int]) -> Tensor:
    """Copy permuted elements into a new shape, in the memory format of `like`.

    The result is never a view, even if the order is unchanged.
    """
    made: Tensor = ops._unsafe_view(ops.clone(permuted, memory_format=contiguous_format), sizes)
    return made.contiguous(memory_format=like._spec.suggest_memory_format())


def channel_shuffle(self: Tensor, groups: int) -> Tensor:
    """Run `torch.nn.functional.channel_shuffle`: interleave the channels of all groups."""
    if self._spec.ndim < 3:
        raise RuntimeError(
            f"channel_shuffle expects input with > 2 dims, but got input with sizes {list(self._spec.sizes)}"
        )
    n, c, *rest = self._spec.sizes
    if groups <= 0:
        raise RuntimeError(
            f"Number of groups to divide channels in must be positive. Value of groups:{groups}"
        )
    if c % groups:
        raise RuntimeError(
            f"Number of channels must be divisible by groups. Got {c} channels and {groups} groups."
        )
    grouped = self.reshape((n, groups, c // groups, math.prod(rest)))
    return _moved(self, ops.swapdims(grouped, 1, 2), (n, c, *rest))
