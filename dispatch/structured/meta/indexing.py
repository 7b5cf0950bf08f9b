"""Meta functions and planners of indexing, masks and `nonzero` (ATen/native/Indexing.cpp).

Related modules are `joining`, `index_rows`, `scattering` and `embedding`.

This module checks index tensors by shape and dtype; kernels check that their values are in bounds. If the result's
shape depends on values (`nonzero`, masks), a planner reads the data before it allocates.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ....runtime.memory_format import contiguous_strides, dense_strides_like, preserve_format, strides_for
from ....runtime.scalar_type import bool_, int32, int64, uint8
from ....runtime.spare_memory import CHECKED_FROM, require_memory
from ....runtime.tensor_spec import TensorSpec
from ....runtime.user_frame import levels_to_user
from ...core.kernel_function import Plan
from ...core.operator_entry import OperatorEntry
from ...iterator.broadcast import infer_size
from ...iterator.overlap import shares_memory
from ...plans.functional import data_of
from ...plans.structured_kernel import StructuredKernel
from ...tensor import Tensor
from ..allocation import allocator_of
from ..meta_base import MetaBase
from ..stub import StructuredCall, find_kernel, is_registered
from .dims import wrap_dim
from .embedding import embedding, embedding_dense_backward, embedding_renorm
from .index_rows import index_add, index_copy, index_reduce, index_select
from .joining import can_cast, cat
from .linalg import check_same_device
from .scattering import gather, scatter, scatter_add, scatter_reduce, scatter_value, take

if TYPE_CHECKING:
    from ....runtime.device import device as Device
    from ...iterator.type_promotion import PromotedOperand

__all__ = [
    "DataDependentShapeError",
    "can_cast",
    "cat",
    "check_masks",
    "embedding",
    "embedding_dense_backward",
    "embedding_renorm",
    "flip",
    "gather",
    "index",
    "index_add",
    "index_copy",
    "index_meta",
    "index_put",
    "index_put_meta",
    "index_reduce",
    "index_select",
    "indexed_sizes",
    "is_mask",
    "masked_fill",
    "nonzero",
    "nonzero_static",
    "preserved",
    "scatter",
    "scatter_add",
    "scatter_reduce",
    "scatter_value",
    "take",
    "triangle",
]


class DataDependentShapeError(NotImplementedError):
    """Error of a Meta kernel whose output size depends on elements."""


def preserved(spec: TensorSpec) -> tuple[int, ...]:
    """Return the strides of a result that keeps the input's layout."""
    return strides_for(preserve_format, spec.sizes, (spec.sizes, spec.strides))


def is_mask(spec: TensorSpec | None) -> bool:
    """Return True if an index tensor is a mask rather than integer indices."""
    return spec is not None and spec.dtype in (bool_, uint8)


def indexed_sizes(
    self: TensorSpec, indices: Sequence[TensorSpec | None]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the sizes of ``self[indices]`` for integer indices, and the strides of `self` along them, 0 if indexed.

    The index dimensions replace the indexed ones if those are adjacent, and otherwise come first. Raises IndexError.
    """
    if len(indices) > self.ndim:
        raise IndexError(f"too many indices for tensor of dimension {self.ndim} (got {len(indices)})")
    picked = [i for i, spec in enumerate(indices) if spec is not None]
    shape: tuple[int, ...] = ()
    for position in picked:
        spec = indices[position]
        assert spec is not None
        if spec.dtype not in (int64, int32):
            raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
        if spec.device is not self.device:
            raise RuntimeError(
                f"indices should be either on cpu or on the same device as the indexed tensor ({self.device})"
            )
        try:
            shape = infer_size(shape, spec.sizes)
        except RuntimeError:
            shapes = ", ".join(str(list(s.sizes)) for s in indices if s is not None)
            raise IndexError(
                f"shape mismatch: indexing tensors could not be broadcast together with shapes {shapes}"
            ) from None
    if 0 not in shape and any(self.sizes[p] == 0 for p in picked):
        raise IndexError("index is out of bounds for dimension with size 0")
    adjacent = not picked or picked == list(range(picked[0], picked[-1] + 1))
    front = picked[0] if picked and adjacent else 0
    rest = [d for d in range(self.ndim) if d not in picked]
    before, after = [d for d in rest if d < front], [d for d in rest if d >= front]
    sizes = (*[self.sizes[d] for d in before], *shape, *[self.sizes[d] for d in after])
    strides = (*[self.strides[d] for d in before], *[0 for _ in shape], *[self.strides[d] for d in after])
    return sizes, strides


def index_meta(meta: MetaBase, self: TensorSpec, indices: Sequence[TensorSpec | None]) -> None:
    """Infer ``self[indices]`` with integer indices."""
    sizes, strides = indexed_sizes(self, indices)
    meta.set_output_raw_strided(
        0, sizes, dense_strides_like(sizes, strides), dtype=self.dtype, device=self.device
    )


def index_put_meta(
    meta: MetaBase,
    self: TensorSpec,
    indices: Sequence[TensorSpec | None],
    values: TensorSpec,
    accumulate: bool,
) -> None:
    """Infer `self` with `values` at integer indices."""
    sizes, _ = indexed_sizes(self, indices)
    lead = len(sizes) - values.ndim
    if lead < 0 or any(n not in (1, sizes[lead + i]) for i, n in enumerate(values.sizes)):
        raise RuntimeError(
            f"shape mismatch: value tensor of shape {list(values.sizes)} cannot be broadcast to indexing "
            "result of "
            f"shape {list(sizes)}"
        )
    if values.dtype is not self.dtype:
        raise RuntimeError(
            f"Index put requires the source and destination dtypes match, got {self.dtype.scalar_name} for "
            "the "
            f"destination and {values.dtype.scalar_name} for the source."
        )
    meta.extra["sizes"] = sizes
    meta.extra["apart_from"] = ("indices", "values")
    meta.set_output_raw_strided(0, self.sizes, preserved(self), dtype=self.dtype, device=self.device)


_INDEX = StructuredKernel(index_meta, "index_stub", "functional")


_INDEX_PUT = StructuredKernel(index_put_meta, "index_put_stub", "functional")


_INDEX_PUT_ = StructuredKernel(index_put_meta, "index_put_stub", "inplace")


def require_places(name: str, mask: TensorSpec) -> None:
    """Raise MemoryError for a mask with more elements than memory has bytes, regardless of its strides.

    The size of the result is known only once all elements are read, which would take hours.
    """
    if mask.device.type == "cpu" and mask.numel >= CHECKED_FROM:
        require_memory(mask.numel, f"{name}: a mask of {mask.numel} elements")


def check_masks(self: TensorSpec, indices: Sequence[TensorSpec | None]) -> None:
    """Raise an error for a mask whose shape differs from the dimensions that it covers."""
    d = 0
    for spec in indices:
        if spec is None or not is_mask(spec):
            d += 1
            continue
        require_places("index", spec)
        if spec.dtype is uint8:
            warnings.warn(
                "indexing with dtype triten.uint8 is now deprecated, please use a dtype triten.bool instead.",
                UserWarning,
                stacklevel=levels_to_user(),
            )
        for position, size in enumerate(spec.sizes):
            if d + position >= self.ndim:
                raise IndexError(f"too many indices for tensor of dimension {self.ndim}")
            if size != self.sizes[d + position]:
                raise IndexError(
                    f"The shape of the mask {list(spec.sizes)} at index {position} does not match the "
                    "shape of the "
                    f"indexed tensor {list(self.sizes)} at index {d + position}"
                )
        d += spec.ndim


def _spec_or_none(value: Tensor | None) -> TensorSpec | None:
    return None if value is None else value._spec


def _numbered(indices: Sequence[Any], device: Device) -> list[Any]:
    """Return masks as their nonzero positions, one tensor for each dimension, and host indices on `device`."""
    from ...generated.functions import nonzero

    out: list[Any] = []
    for value in indices:
        if value is None:
            out.append(None)
            continue
        if value._spec.device is not device:
            value = value.to(device)
        out += nonzero(value).unbind(1) if is_mask(value._spec) else [value]
    return out


def _is_direct(self: TensorSpec, indices: Sequence[TensorSpec | None]) -> bool:
    """Return True if all indices are integers on the tensor's own device."""
    return not any(spec is not None and (is_mask(spec) or spec.device is not self.device) for spec in indices)


def _check_indirect(self: TensorSpec, indices: Sequence[TensorSpec | None]) -> None:
    for spec in indices:
        if spec is not None and spec.device is not self.device and spec.device.type != "cpu":
            raise RuntimeError(
                f"indices should be either on cpu or on the same device as the indexed tensor ({self.device})"
            )
    check_masks(self, indices)


def index(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """Plan ``index.Tensor(self, indices)``."""
    self: TensorSpec = args[0]._spec.detached
    indices = [_spec_or_none(i) for i in args[1]]
    if _is_direct(self, indices):
        return _INDEX(op, key_set, args)
    _check_indirect(self, indices)
    device = self.device
    if self.is_meta and any(spec is not None and is_mask(spec) for spec in indices):
        raise DataDependentShapeError(
            "index: the shape of a result picked by a mask depends on data; Meta has none"
        )
    same_device = all(spec is None or spec.device is device for spec in indices)
    if same_device and is_registered("index_masked_stub", device.type):
        call_args = {"self": self, "indices": tuple(indices)}
        call = StructuredCall("index", call_args, ("self", "indices"), (), None, device, {})
        pick = find_kernel("index_masked_stub", device.type, "index")(call).fresh
        assert pick is not None

        def masked(self: Tensor, indices: Sequence[Tensor | None]) -> Tensor:
            data = pick(self._data, data_of(indices))
            return Tensor.from_data(data, TensorSpec.contiguous(data.shape, self._spec.dtype, device))

        return masked
    return lambda self, indices: op.call_with_keys(key_set, (self, tuple(_numbered(indices, device))))


def index_put(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """Plan ``index_put(self, indices, values, accumulate)`` and its in-place form."""
    self: TensorSpec = args[0]._spec.detached
    indices = [_spec_or_none(i) for i in args[1]]
    values: TensorSpec = args[2]._spec
    move = values.device is not self.device and values.ndim == 0
    if _is_direct(self, indices) and not move:
        check_same_device("index_put_", self, values)
        return (_INDEX_PUT_ if op.schema.is_mutable else _INDEX_PUT)(op, key_set, args)
    _check_indirect(self, indices)
    device = self.device
    accumulate = args[3]
    if self.is_meta and any(spec is not None and is_mask(spec) for spec in indices):
        # The number of values that a mask selects depends on data; the result's shape does not.
        if op.schema.is_mutable:
            return lambda self, indices, values: self
        result = TensorSpec.of(self.sizes, preserved(self), self.dtype, device)
        allocate = allocator_of(result)
        return lambda self, indices, values: Tensor.from_data(allocate(), result)

    # A single value at masked positions is a fill; it may be an element of the filled tensor.
    fills = not accumulate and values.numel == 1 and all(spec is None or is_mask(spec) for spec in indices)

    def plan(self: Tensor, indices: Sequence[Tensor | None], values: Tensor) -> Any:
        if move:
            values = values.to(device)
        elif fills and shares_memory(self, values):
            values = values.clone()
        return op.call_with_keys(key_set, (self, tuple(_numbered(indices, device)), values, accumulate))

    return plan


def nonzero(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """Plan ``nonzero(self)``: the indices of nonzero elements, one row for each."""
    spec: TensorSpec = args[0]._spec.detached
    if spec.is_meta:
        raise DataDependentShapeError("nonzero: the result's shape depends on data; Meta has none")
    require_places("nonzero", spec)
    device, rank = spec.device, spec.ndim
    call = StructuredCall("nonzero", {"self": spec}, ("self",), (), None, device, {})
    find = find_kernel("nonzero_stub", device.type, "nonzero")(call).fresh
    assert find is not None

    def plan(self: Tensor) -> Tensor:
        data, count = find(self._data)
        return Tensor.from_data(data, TensorSpec.of((count, rank), (1, max(count, 1)), int64, device))

    return plan


def nonzero_static(meta: MetaBase, self: TensorSpec, size: int, fill_value: int) -> None:
    """Infer the first `size` indices of nonzero elements, one row for each, padded with `fill_value`."""
    if size < 0:
        raise RuntimeError("nonzero_static: 'size' must be an non-negative integer")
    require_places("nonzero_static", self)
    out_spec = meta.maybe_get_output()
    if out_spec is not None and out_spec.dtype is not int64:
        raise RuntimeError(
            "nonzero_static: Expected out tensor to have scalar type Long but got scalar type"
            f"{out_spec.dtype.scalar_name}"
        )
    sizes = (size, self.ndim)
    meta.set_output_raw_strided(0, sizes, contiguous_strides(sizes), dtype=int64, device=self.device)


def masked_fill(meta: MetaBase, self: TensorSpec, mask: TensorSpec, value: PromotedOperand) -> None:
    """Infer `self` with a number where the mask is True; both are broadcast."""
    if mask.dtype is not bool_:
        raise RuntimeError(
            f"masked_fill_ only supports boolean masks, but got mask with dtype {mask.dtype.name}"
        )
    if isinstance(value, TensorSpec) and value.ndim:
        raise RuntimeError(
            f"masked_fill_ only supports a 0-dimensional value tensor, but got tensor with {value.ndim} dimension(s)."
        )
    check_same_device("masked_fill_", self, mask)
    if isinstance(value, TensorSpec) and value.is_meta and not self.is_meta:
        raise RuntimeError("masked_fill_: expected value on cpu or the device of self, but got one on meta")
    sizes = infer_size(self.sizes, mask.sizes)
    meta.set_output_raw_strided(0, sizes, contiguous_strides(sizes), dtype=self.dtype, device=self.device)


def flip(meta: MetaBase, self: TensorSpec, dims: Sequence[int]) -> None:
    """Infer the reversed dimensions."""
    wrapped = [wrap_dim(d, self.ndim) for d in dims]
    for d in wrapped:
        if wrapped.count(d) > 1:
            raise RuntimeError(f"dim {d} appears multiple times in the list of dims")
    meta.extra["dims"] = tuple(wrapped) if self.ndim else ()
    meta.set_output_raw_strided(0, self.sizes, preserved(self), dtype=self.dtype)


def triangle(meta: MetaBase, self: TensorSpec, diagonal: int) -> None:
    """Infer a triangle of each matrix, zero elsewhere."""
    if self.ndim < 2:
        raise RuntimeError(f"{meta.name}: input tensor must have at least 2 dimensions")
    meta.set_output_raw_strided(0, self.sizes, contiguous_strides(self.sizes), dtype=self.dtype)
