"""Meta functions of compositions that put elements in places, which the host computes at once (see `host_plans`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ....runtime.memory_format import contiguous_strides
from ....runtime.scalar_type import bool_, float32, float64, int64
from ....runtime.tensor_spec import TensorSpec
from ...iterator.broadcast import infer_size
from ..host_plans import ComposedError
from ..meta_base import MetaBase
from .indexing import preserved

if TYPE_CHECKING:
    from ..meta_base import NumberKind

PARTS = (float32, float64)


def _is_plain(*specs: TensorSpec) -> bool:
    """Whether the elements lie one after another, in the strides that new memory has."""
    return all(spec.is_contiguous and spec.strides == contiguous_strides(spec.sizes) for spec in specs)


def fill(meta: MetaBase, self: TensorSpec, value: NumberKind) -> None:
    """`fill` with a number."""
    meta.set_output_raw_strided(0, self.sizes, preserved(self), dtype=self.dtype)


def put(meta: MetaBase, self: TensorSpec, index: TensorSpec, source: TensorSpec, accumulate: bool) -> None:
    """`put` that replaces elements, or adds to full floats."""
    same = self.dtype is source.dtype and index.numel == source.numel
    if index.dtype is not int64 or not same or not _is_plain(self) or not self.numel:
        raise ComposedError
    if accumulate and self.dtype not in PARTS:
        raise ComposedError
    meta.set_output_contiguous(0, self.sizes, dtype=self.dtype)


def index_fill(meta: MetaBase, self: TensorSpec, dim: int, index: TensorSpec, value: NumberKind) -> None:
    """`index_fill` with a number."""
    d = dim + self.ndim if dim < 0 else dim
    if index.dtype is not int64 or index.ndim > 1 or not 0 <= d < self.ndim or not _is_plain(self):
        raise ComposedError
    if isinstance(value, TensorSpec) or (value is complex and not self.dtype.is_complex):
        raise ComposedError
    meta.extra["dim"] = d
    meta.set_output_contiguous(0, self.sizes, dtype=self.dtype)


def take_along_dim(meta: MetaBase, self: TensorSpec, indices: TensorSpec, dim: int | None) -> None:
    """`take_along_dim` where nothing is broadcast."""
    if dim is None or indices.dtype is not int64 or self.ndim != indices.ndim or not self.ndim:
        raise ComposedError
    d = dim + self.ndim if dim < 0 else dim
    if not 0 <= d < self.ndim or not _is_plain(self, indices) or not indices.numel:
        raise ComposedError
    rest = (self.sizes[:d], self.sizes[d + 1 :])
    if rest != (indices.sizes[:d], indices.sizes[d + 1 :]):
        raise ComposedError
    meta.extra["dim"] = d
    meta.set_output_contiguous(0, indices.sizes, dtype=self.dtype)


def masked_scatter(meta: MetaBase, self: TensorSpec, mask: TensorSpec, source: TensorSpec) -> None:
    """`masked_scatter` where nothing is broadcast."""
    if self.dtype is not source.dtype or mask.dtype is not bool_ or self.sizes != mask.sizes:
        raise ComposedError
    if not _is_plain(self, mask, source):
        raise ComposedError
    meta.set_output_contiguous(0, self.sizes, dtype=self.dtype)


def unsafe_masked_put(
    meta: MetaBase,
    self: TensorSpec,
    mask: TensorSpec,
    indices: Sequence[TensorSpec | None],
    values: TensorSpec,
) -> None:
    """`_unsafe_masked_index_put_accumulate` with an index for each dimension, of values as many as there are places."""
    full = len(indices) == self.ndim and all(spec is not None and spec.dtype is int64 for spec in indices)
    if not full or self.dtype not in PARTS or not self.numel or not _is_plain(self):
        raise ComposedError
    sizes: tuple[int, ...] = ()
    try:
        for spec in indices:
            assert spec is not None
            sizes = infer_size(sizes, spec.sizes)
    except RuntimeError:
        raise ComposedError from None
    if (
        mask.dtype is not bool_
        or values.dtype is not self.dtype
        or values.sizes != sizes
        or mask.sizes != sizes
    ):
        raise ComposedError
    meta.extra["places"] = sizes
    meta.set_output_contiguous(0, self.sizes, dtype=self.dtype)


def diag_embed(meta: MetaBase, self: TensorSpec, offset: int, dim1: int, dim2: int) -> None:
    """`diag_embed` into two last dimensions in order."""
    rank = self.ndim + 1
    first, second = (d + rank if d < 0 else d for d in (dim1, dim2))
    if (first, second) != (rank - 2, rank - 1) or not self.ndim:
        raise ComposedError
    side = self.sizes[-1] + abs(offset)
    meta.extra["length"] = self.sizes[-1]
    meta.set_output_contiguous(0, (*self.sizes[:-1], side, side), dtype=self.dtype)


def diagflat(meta: MetaBase, self: TensorSpec, offset: int) -> None:
    """`diagflat`."""
    side = self.numel + abs(offset)
    meta.extra["length"] = self.numel
    meta.set_output_contiguous(0, (side, side), dtype=self.dtype)


def block_diag(meta: MetaBase, tensors: Sequence[TensorSpec]) -> None:
    """`block_diag` of matrices, vectors and numbers of one dtype."""
    if not tensors or any(s.ndim > 2 or s.dtype is not tensors[0].dtype or not s.numel for s in tensors):
        raise ComposedError
    rows, columns = 0, 0
    places = []
    for spec in tensors:
        height, width = (1,) * (2 - spec.ndim) + spec.sizes
        places.append((slice(rows, rows + height), slice(columns, columns + width)))
        rows, columns = rows + height, columns + width
    meta.extra["places"] = tuple(places)
    meta.set_output_contiguous(0, (rows, columns), dtype=tensors[0].dtype)


def _strided(self: TensorSpec, size: Sequence[int], stride: Sequence[int], offset: int) -> TensorSpec:
    """The spec of elements of a plain tensor that lie a number of elements after its first, all within it."""
    reach = offset + sum((n - 1) * s for n, s in zip(size, stride, strict=True))
    if not _is_plain(self) or 0 in size or offset < 0 or reach >= self.numel:
        raise ComposedError
    return TensorSpec.of(tuple(size), tuple(stride), self.dtype, self.device)


def strided_copy(
    meta: MetaBase, self: TensorSpec, size: Sequence[int], stride: Sequence[int], offset: int
) -> None:
    """A strided part of a plain tensor, copied."""
    meta.extra["part"] = _strided(self, size, stride, offset)
    meta.set_output_contiguous(0, tuple(size), dtype=self.dtype)


def strided_scatter(
    meta: MetaBase,
    self: TensorSpec,
    src: TensorSpec,
    size: Sequence[int],
    stride: Sequence[int],
    offset: int,
) -> None:
    """A plain tensor, copied, in which a strided part is another's elements."""
    part = _strided(self, size, stride, offset)
    if part.overlaps or src.sizes != part.sizes or src.dtype is not self.dtype:
        raise ComposedError
    meta.extra["part"] = part
    meta.set_output_contiguous(0, self.sizes, dtype=self.dtype)
