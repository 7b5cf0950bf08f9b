r"""Triton's operations on values with a leading dimension of programs.

The array of a block of shape S has the shape (P, *S), that of a scalar (P,). P is the number of programs of the
batch, or 1 for a value that all programs share. Elementwise operations of Triton's interpreter broadcast by
themselves. The methods here are the operations that depend on axes or shapes.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter
from triton.runtime.interpreter import InterpreterBuilder, TensorHandle

from ..driver import Grid
from .batch import Batch, Unbatchable, for_each_program
from .formats import Array


class BatchedBuilder(InterpreterBuilder):  # type: ignore[misc]
    """Carries out operations that move axes, for one program or for a batch of them."""

    def __init__(self) -> None:
        super().__init__()
        self.grid_idx: Grid = (0, 0, 0)
        self.batch: Batch | None = None
        self.widest = 1
        self._program_ids: list[Array] = []

    def begin(self, batch: Batch) -> None:
        """Run the programs of a batch from now on."""
        nx, ny, _ = self.grid_dim
        numbers = np.arange(batch.first, batch.first + batch.count)
        self.batch, self.widest = batch, 1
        self._program_ids = []
        for ids in (numbers % nx, numbers // nx % ny, numbers // (nx * ny)):
            same = (ids == ids[0]).all()
            self._program_ids.append((ids[:1] if same else ids).astype(np.int32))
        self.grid_idx = tuple(int(ids[0]) for ids in self._program_ids)  # type: ignore[assignment]

    def needs_one_program(self) -> None:
        """Raise Unbatchable in a batch."""
        if self.batch is not None:
            raise Unbatchable

    def _note_width(self, shape: Any) -> None:
        self.widest = max(self.widest, math.prod(shape))

    def create_get_program_id(self, axis: int) -> Any:
        if self.batch is None:
            return super().create_get_program_id(axis)
        return TensorHandle(self._program_ids[axis], tl.int32)

    def create_make_range(self, ret_ty: Any, start: int, stop: int) -> Any:
        return TensorHandle(np.arange(start, stop, dtype=np.int32)[None], tl.int32)

    def create_splat(self, ret_ty: Any, arg: Any) -> Any:
        # Triton's goes by the handle's type, which for a comparison is that of its operands.
        shape, data = tuple(ret_ty.shape), arg.data
        self._note_width(shape)
        value = data.reshape(len(data), *[1] * len(shape))
        return TensorHandle(np.full((len(data), *shape), value, data.dtype), arg.dtype.scalar)

    def create_unsplat(self, arg: Any) -> Any:
        return TensorHandle(arg.data.reshape(len(arg.data)), arg.dtype.scalar)

    def create_reshape(self, arg: Any, shape: Any, allow_reorder: bool) -> Any:
        return TensorHandle(arg.data.reshape(len(arg.data), *shape), arg.dtype.scalar)

    def create_trans(self, arg: Any, perm: Any) -> Any:
        return TensorHandle(np.transpose(arg.data, (0, *(axis + 1 for axis in perm))), arg.dtype.scalar)

    def create_expand_dims(self, arg: Any, axis: int) -> Any:
        return TensorHandle(np.expand_dims(arg.data, axis + 1 if axis >= 0 else axis), arg.dtype.scalar)

    def create_broadcast(self, arg: Any, shape: Any) -> Any:
        self._note_width(shape)
        return TensorHandle(np.broadcast_to(arg.data, (len(arg.data), *shape)), arg.dtype.scalar)

    def create_cat(self, lhs: Any, rhs: Any) -> Any:
        return TensorHandle(np.concatenate(aligned(lhs.data, rhs.data), 1), lhs.dtype.scalar)

    def create_join(self, lhs: Any, rhs: Any) -> Any:
        return TensorHandle(np.stack(aligned(lhs.data, rhs.data), -1), lhs.dtype.scalar)

    def create_gather(self, src: Any, indices: Any, axis: int) -> Any:
        data, gathered_indices = aligned(src.data, indices.data)
        return TensorHandle(
            np.take_along_axis(data, gathered_indices, axis + 1 if axis >= 0 else axis), src.dtype.scalar
        )

    def create_histogram(self, data: Any, bins: int, mask: Any) -> Any:
        arrays = [data.data] if mask is None else aligned(data.data, mask.data)
        rows = []
        for row in zip(*arrays, strict=True):
            handles = [
                TensorHandle(array, handle.dtype) for array, handle in zip(row, (data, mask), strict=False)
            ]
            rows.append(
                super().create_histogram(handles[0], bins, handles[1] if mask is not None else None).data
            )
        return TensorHandle(np.stack(rows), tl.int32)

    def create_print(self, prefix: Any, hex: Any, values: Any, isSigned: Any) -> None:
        self.needs_one_program()
        shown = [
            TensorHandle(each.data[0] if each.data.ndim > 1 else each.data, each.dtype) for each in values
        ]
        super().create_print(prefix, hex, shown, isSigned)

    def create_assume(self, condition: Any) -> None:
        if not condition:
            self.needs_one_program()
        super().create_assume(condition)

    def create_make_tensor_descriptor(
        self, base: Any, shape: Any, strides: Any, tensor_shape: Any, *more: Any
    ) -> Any:
        if any(len(handle.data) > 1 for handle in (base, *shape, *strides)):
            raise Unbatchable
        return super().create_make_tensor_descriptor(base, shape, strides, tensor_shape, *more)

    def create_descriptor_gather(self, desc: Any, x_offsets: Any, y_offset: Any, type: Any) -> Any:
        self.needs_one_program()
        rows = TensorHandle(x_offsets.data[0], x_offsets.dtype)
        gathered = super().create_descriptor_gather(desc, rows, y_offset, type)
        return TensorHandle(gathered.data[None], gathered.dtype)

    def create_descriptor_scatter(self, desc: Any, value: Any, x_offsets: Any, y_offset: Any) -> Any:
        self.needs_one_program()
        rows = TensorHandle(x_offsets.data[0], x_offsets.dtype)
        return super().create_descriptor_scatter(
            desc, TensorHandle(value.data[0], value.dtype), rows, y_offset
        )

    def create_advance(self, ptr: Any, offsets: Any) -> Any:
        """Move a block pointer, which Triton has before 3.8."""
        moved = [
            TensorHandle(old.data + step.data, old.dtype)
            for old, step in zip(ptr.offsets, offsets, strict=True)
        ]
        kind = interpreter.BlockPointerHandle
        return kind(ptr.base, ptr.shape, ptr.strides, moved, ptr.block_shape, ptr.order)


def aligned(*arrays: Array) -> list[Array]:
    """Return arrays of the same number of programs."""
    count = max(len(array) for array in arrays)
    return [for_each_program(array, count) for array in arrays]


def _pointers_of(handle: Any, offsets: Any, checked: Any) -> tuple[Any, Any]:
    """Return the pointers of a block with strides, and which of them are inside along the checked dimensions."""
    itemsize = handle.base.dtype.element_ty.primitive_bitwidth // 8
    sizes = handle.block_shape
    unit_shape = [1] * len(sizes)
    bases = handle.base.data.reshape(-1, *unit_shape)
    pointers = np.broadcast_to(bases, (len(bases), *sizes))
    inside = np.ones((1, *sizes), bool)
    for axis, size in enumerate(sizes):
        along = [*unit_shape[:axis], size, *unit_shape[axis + 1 :]]
        index = offsets[axis].data.reshape(-1, *unit_shape) + np.arange(size).reshape(1, *along)
        stride, extent = (each[axis].data.reshape(-1, *unit_shape) for each in (handle.strides, handle.shape))
        pointers = pointers + (itemsize * index * stride).astype(np.uint64)
        if axis in checked:
            inside = inside & (index >= 0) & (index < extent)
    return TensorHandle(pointers, handle.base.dtype.scalar), TensorHandle(inside, tl.int1)


def _pointers_of_descriptor(self: Any, offsets: Any) -> tuple[Any, Any]:
    itemsize = self.base.dtype.element_ty.primitive_bitwidth // 8
    assert not ((offsets[-1].data * itemsize) % 16).any(), "block offset start must be 16-byte aligned"
    return _pointers_of(self, offsets, range(self.ndim))


def _pointers_of_block(self: Any, boundary_check: Any) -> tuple[Any, Any]:
    return _pointers_of(self, self.offsets, boundary_check)


def install() -> None:
    """Give descriptors and block pointers a leading dimension of programs, for the rest of the process."""
    interpreter.TensorDescHandle.materialize_pointers = _pointers_of_descriptor
    if hasattr(interpreter, "BlockPointerHandle"):  # Triton before 3.8
        interpreter.BlockPointerHandle.materialize_pointers = _pointers_of_block
