"""`TensorIterator`: common shape, dtypes and iteration order of all operands, and loops over host memory.

Kernels of every device read its `shape` and each operand's `stride_bytes`. On the host, `for_each` and
`parallel_reduce` pass on NumPy views. Source: ATen/TensorIterator.cpp, ATen/native/TensorIteratorReduce.cpp.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...runtime.allocator import empty_array, get_allocator, storage_size
from ...runtime.device import CPU
from ...runtime.named_spec import named
from ...runtime.parallel import GRAIN_SIZE, get_num_threads, in_parallel_region, parallel_for
from ...runtime.scalar_type import bool_
from ...runtime.tensor_impl import TensorImpl
from ...runtime.tensor_spec import TensorSpec
from .operand_info import Operand, OperandInfo
from .strided_views import Loop, serial_for_each, strided_view
from .tensor_iterator_base import TensorIteratorBase
from .tensor_iterator_config import TensorIteratorConfig, config_for

__all__ = ["OperandInfo", "TensorIterator", "TensorIteratorConfig", "config_for", "review_reduce_result"]

INT32_MAX = (1 << 31) - 1

_NULLARY = config_for("nullary")
_UNARY = config_for("unary")
_UNARY_FLOAT = config_for("unary_float")
_FORCE_BOOLEAN = config_for("unary_force_boolean")
_BINARY = config_for("binary")
_BINARY_FLOAT = config_for("binary_float")
_COMPARISON = config_for("comparison")
_COMPARISON_NEW = config_for("comparison").declare_static_dtype(bool_)
_COMPARISON_CAST = config_for("comparison").cast_common_dtype_to_outputs(True)
_TERNARY = config_for("ternary")
_REDUCE = config_for("reduce")
_REDUCE_TWO = config_for("reduce_two")


class TensorIterator(TensorIteratorBase):
    """Iteration over broadcast operands, built by a config or by one of the builders below.

    Builders take specs, tensors, or classes of Python numbers; `out` may be None.

    Example:
        >>> from triten.runtime.device import CPU
        >>> from triten.runtime.scalar_type import float32
        >>> a = TensorSpec.of((2, 3), (1, 2), float32, CPU)
        >>> iterator = TensorIterator.binary_op(None, a, float)
        >>> iterator.output_specs(), iterator.shape, [o.stride_bytes for o in iterator.operands]
        ([TensorSpec([2, 3], [1, 2], float32, cpu)], [6], [[4], [4], [0]])
    """

    __slots__ = ("_buffers",)

    _buffers: list[Any]

    @staticmethod
    def nullary_op(out: Operand) -> TensorIterator:
        """Build an iterator that writes an output of any dtype; the output is required."""
        return _build(_NULLARY, (out,), ())

    @staticmethod
    def unary_op(out: Operand, a: Operand) -> TensorIterator:
        """Build an iterator with one input; the output has its dtype."""
        return _build(_UNARY, (out,), (a,))

    @staticmethod
    def unary_float_op(out: Operand, a: Operand) -> TensorIterator:
        """Build an iterator with one input; integral and bool inputs are computed in the default dtype."""
        return _build(_UNARY_FLOAT, (out,), (a,))

    @staticmethod
    def unary_force_boolean_op(out: Operand, a: Operand) -> TensorIterator:
        """Build an iterator with one input of any dtype; a new output is bool."""
        return _build(_FORCE_BOOLEAN, (out,), (a,))

    @staticmethod
    def binary_op(out: Operand, a: Operand, b: Operand) -> TensorIterator:
        """Build an iterator with two inputs, computed in their common dtype."""
        return _build(_BINARY, (out,), (a, b))

    borrowing_binary_op = binary_op

    @staticmethod
    def binary_float_op(out: Operand, a: Operand, b: Operand) -> TensorIterator:
        """Build an iterator with two inputs; an integral or bool common dtype is replaced by the default dtype."""
        return _build(_BINARY_FLOAT, (out,), (a, b))

    @staticmethod
    def comparison_op(out: Operand, a: Operand, b: Operand) -> TensorIterator:
        """Build an iterator that compares two inputs in their common dtype. A new output is bool;
        another is cast to.
        """
        if out is None:
            return _build(_COMPARISON_NEW, (out,), (a, b))
        dtype = getattr(out, "dtype", None)
        return _build(_COMPARISON if dtype is bool_ else _COMPARISON_CAST, (out,), (a, b))

    @staticmethod
    def ternary_op(out: Operand, a: Operand, b: Operand, c: Operand) -> TensorIterator:
        """Build an iterator with three inputs, computed in their common dtype."""
        return _build(_TERNARY, (out,), (a, b, c))

    @staticmethod
    def reduce_op(out: Operand, a: Operand, *, second_out: Operand = None) -> TensorIterator:
        """Build an iterator that reduces `a` into one or two outputs, of size 1 along reduced dimensions.

        See `review_reduce_result`. Raises RuntimeError if the output is missing.
        """
        if out is None:
            raise RuntimeError("reduce_op: the output must be defined")
        if second_out is None:
            return _build(_REDUCE, (out,), (a,))
        return _build(_REDUCE_TWO, (out, second_out), (a,))

    def set_output_raw_strided(self, index: int, sizes: tuple[int, ...], strides: tuple[int, ...]) -> None:
        """Set an output's final spec; for tensors, also allocate or resize the tensor."""
        super().set_output_raw_strided(index, sizes, strides)
        out = self.operands[index]
        final = self._output_specs[index]
        if final is None:
            return
        if not out.will_resize:
            if self.names is not None and out.tensor is not None:
                out.tensor._spec = final
            return
        if out.tensor is not None:
            _resize(out.tensor, final)
            out.tensor._spec = out.tensor._spec if self.names is None else named(out.tensor._spec, self.names)
        elif any(operand.tensor is not None for operand in self.operands):
            out.tensor = _empty(final)

    def output(self, index: int = 0) -> TensorImpl:
        """Return the tensor of an output. Raises RuntimeError for an iterator built from specs."""
        tensor = self.operands[index].tensor
        if index >= self.noutputs or tensor is None:
            raise RuntimeError(f"TensorIterator: output {index} has no tensor; it was built from specs")
        return tensor

    def buffers(self) -> list[Any]:
        """Return a host array for each operand: the tensor's own, or a temporary of the dtype it is cast to.

        Raises RuntimeError for operands without values, and for other devices.
        """
        try:
            return self._buffers
        except AttributeError:
            self._buffers = [self._buffer(operand) for operand in self.operands]
            return self._buffers

    def _buffer(self, operand: OperandInfo) -> Any:
        if operand.number is not None and operand.value is not None and operand.target_dtype is not None:
            return np.asarray(operand.value).astype(operand.target_dtype.np)
        tensor, spec = operand.tensor, operand.spec
        if tensor is None or spec is None:
            raise RuntimeError(
                "TensorIterator: loops need tensors and numbers, but an operand is only a spec"
            )
        if tensor._spec.device is not CPU:
            raise RuntimeError(
                f"TensorIterator: loops run over host memory, but an operand is on {spec.device}"
            )
        if not operand.is_cast:
            return tensor._data
        buffer = empty_array(spec.sizes, spec.strides, spec.np_dtype, spec.is_contiguous)
        np.copyto(buffer, tensor._data, casting="unsafe")
        return buffer

    def views(self) -> list[Any]:
        """Return a view of each operand over the whole iteration, last dimension fastest; const inputs are read-only.

        A reduction's outputs have size 1 along the reduced dimensions.
        """
        views = []
        for operand, buffer in zip(self.operands, self.buffers(), strict=True):
            shape: Sequence[int] = self.shape
            if self.is_reduction and operand.is_output:
                shape = [
                    1 if stride == 0 else size
                    for size, stride in zip(shape, operand.stride_bytes, strict=True)
                ]
            view = strided_view(buffer, shape, operand.stride_bytes, operand.offset_bytes)
            if operand.is_const:
                view.flags.writeable = False
            views.append(view)
        return views

    def cast_outputs(self) -> None:
        """Copy outputs that were computed in temporaries to the given tensors."""
        buffers = self.buffers()
        for operand, buffer in zip(self.outputs, buffers, strict=False):
            if operand.is_cast and operand.tensor is not None:
                with np.errstate(all="ignore"):
                    np.copyto(operand.tensor._data, buffer, casting="unsafe")

    def serial_for_each(self, loop: Loop, begin: int = 0, end: int | None = None) -> None:
        """Call ``loop(*views)``, outputs first, over a range of the elements in this thread.

        Views have one dimension, or two if `ndim` is 2 or more. Outputs that need a cast stay in their temporaries
        until `cast_outputs`.
        """
        serial_for_each(self.shape, self.views(), loop, begin, self.numel if end is None else end)

    def for_each(self, loop: Loop, grain_size: int = GRAIN_SIZE) -> None:
        """Call ``loop(*views)`` over all elements, on several threads if there are more than `grain_size`.

        Example:
            >>> import triten as tt
            >>> x = tt.arange(6, dtype=tt.float32).reshape(2, 3).t()
            >>> iterator = TensorIterator.unary_op(None, x)
            >>> iterator.for_each(lambda out, a: np.multiply(a, 2, out=out))
            >>> iterator.output().stride()
            (1, 3)
        """
        numel = self.numel
        if numel == 0:
            return
        shape, views = self.shape, self.views()
        parallel_for(0, numel, grain_size, lambda begin, end: serial_for_each(shape, views, loop, begin, end))
        self.cast_outputs()

    def parallel_reduce(self, loop: Loop) -> None:
        """Call ``loop(out, a)`` so that every output element receives all of its inputs.

        `out` holds the partial reduction and has size 1 along reduced dimensions. The loop reduces `a` along those
        and combines, as in ``out += a.sum(axis, keepdims=True)``. It must be associative, and the output must
        initially hold its identity: a single element may be reduced in parts that the loop itself combines. Parts do
        not depend on the number of threads.

        Raises RuntimeError unless there are one output and one input.
        """
        if self.ntensors != 2 or self.noutputs != 1:
            raise RuntimeError("parallel_reduce only supports one input and one output")
        numel = self.numel
        if numel < GRAIN_SIZE:
            self.serial_for_each(loop)
        elif self._output_is_single():
            self._two_pass_reduction(loop, -(-numel // GRAIN_SIZE))
        elif get_num_threads() == 1 or in_parallel_region():
            self.serial_for_each(loop)
        else:
            dim = self._dim_to_distribute()

            def reduce_slice(begin: int, end: int) -> None:
                part = self.copy()
                part.narrow(dim, begin, end - begin)
                part.serial_for_each(loop)

            parallel_for(0, self.shape[dim], 1, reduce_slice)
        self.cast_outputs()

    def _output_is_single(self) -> bool:
        return all(
            stride == 0 or size == 1
            for size, stride in zip(self.shape, self.operands[0].stride_bytes, strict=True)
        )

    def _two_pass_reduction(self, loop: Loop, parts: int) -> None:
        shape, (out, *inputs) = self.shape, self.views()
        partial = np.empty((parts, *out.shape), out.dtype)
        partial[...] = out

        def reduce_parts(first: int, last: int) -> None:
            for i in range(first, last):
                begin = i * GRAIN_SIZE
                end = min(begin + GRAIN_SIZE, self.numel)
                serial_for_each(shape, [partial[i], *inputs], loop, begin, end)

        parallel_for(0, parts, 1, reduce_parts)
        loop(out.reshape(1), partial.reshape(parts))

    def _dim_to_distribute(self) -> int:
        """Return the slowest dimension that is not reduced and long enough, else the longest of those."""
        strides = self.operands[0].stride_bytes
        kept_dims = [dim for dim in range(self.ndim - 1, -1, -1) if strides[dim] != 0]
        threads = get_num_threads()
        return next(
            (dim for dim in kept_dims if self.shape[dim] >= threads),
            max(kept_dims, key=lambda dim: self.shape[dim]),
        )

    def copy(self) -> TensorIterator:
        """Return an iterator over the same memory that may be narrowed."""
        new = TensorIterator.__new__(TensorIterator)
        for name in TensorIteratorBase.__slots__:
            setattr(new, name, getattr(self, name))
        new.operands = [operand.copy() for operand in self.operands]
        new.shape = list(self.shape)
        if any(
            operand.tensor is not None and operand.tensor._spec.device is CPU for operand in self.operands
        ):
            new._buffers = self.buffers()
        return new

    def narrow(self, dim: int, start: int, size: int) -> None:
        """Restrict the iteration to ``start <= index < start + size`` of a dimension."""
        if not 0 <= start <= start + size <= self.shape[dim]:
            raise IndexError(f"narrow: [{start}, {start + size}) is outside dimension {dim} of {self.shape}")
        self.shape[dim] = size
        for operand in self.operands:
            operand.offset_bytes += operand.stride_bytes[dim] * start
        if size == 1 and not self.is_reduction:
            self.coalesce_dimensions()

    def split(self, dim: int) -> TensorIterator:
        """Split a dimension: return a new iterator over the first half, and keep the second.

        If the dimension is reduced, the second half `accumulates` onto the first's results, and the first's results
        are not final (`is_final_output`).
        """
        first = self.copy()
        reduced = self.is_dim_reduced(dim)
        half = self.shape[dim] // 2
        first.narrow(dim, 0, half)
        first.is_final_output = first.is_final_output and not reduced
        self.narrow(dim, half, self.shape[dim] - half)
        self.accumulates = self.accumulates or reduced
        return first

    def is_dim_reduced(self, dim: int) -> bool:
        """Return whether several elements along this dimension reduce to one output element."""
        return self.shape[dim] > 1 and any(operand.stride_bytes[dim] == 0 for operand in self.outputs)

    def dim_to_split(self) -> int:
        """Return the dimension with the largest extent in any operand."""
        extents = [
            max((size - 1) * abs(operand.stride_bytes[dim]) for operand in self.operands)
            for dim, size in enumerate(self.shape)
        ]
        return max(range(self.ndim - 1, -1, -1), key=lambda dim: (extents[dim], self.shape[dim]))

    def can_use_32bit_indexing(self, limit: int = INT32_MAX) -> bool:
        """Return whether the number of elements and every operand's byte offsets fit into `limit`."""
        if self.numel > limit:
            return False
        return all(
            1 + sum((size - 1) * s for size, s in zip(self.shape, operand.stride_bytes, strict=True)) <= limit
            for operand in self.operands
        )

    def with_32bit_indexing(self, limit: int = INT32_MAX) -> Iterator[TensorIterator]:
        """Yield iterators that together cover this one, in order, each small enough for 32-bit offsets.

        Each operand's `offset_bytes` is the start of its part. `limit` is for tests.
        """
        pending = [self.copy()]
        while pending:
            part = pending.pop()
            while not part.can_use_32bit_indexing(limit):
                first = part.split(part.dim_to_split())
                pending.append(part)
                part = first
            yield part


def _build(
    config: TensorIteratorConfig, outputs: Sequence[Operand], inputs: Sequence[Operand]
) -> TensorIterator:
    return TensorIterator(
        config, [OperandInfo(o, True) for o in outputs], [OperandInfo(i, False, True) for i in inputs]
    )


def review_reduce_result(
    result: TensorSpec | TensorImpl, ndim: int, dims: Sequence[int], keepdim: bool
) -> TensorSpec | TensorImpl:
    """Return a reduction's result viewed with a dimension of size 1 and stride 0 for each reduced dimension.

    Args:
        result: The spec or tensor of the result.
        ndim: The input's number of dimensions.
        dims: The reduced dimensions; none means all.

    Example:
        >>> from triten.runtime.device import CPU
        >>> from triten.runtime.scalar_type import float32
        >>> review_reduce_result(TensorSpec.contiguous((4,), float32, CPU), 2, [0], keepdim=False)
        TensorSpec([1, 4], [0, 1], float32, cpu)
    """
    if keepdim:
        return result
    spec = result._spec if isinstance(result, TensorImpl) else result
    reduced = {dim % ndim for dim in dims} if dims else set(range(ndim))
    sizes, strides = list(spec.sizes), list(spec.strides)
    for dim in sorted(reduced):
        sizes.insert(dim, 1)
        strides.insert(dim, 0)
    viewed = spec.replace(sizes=tuple(sizes), strides=tuple(strides))
    if isinstance(result, TensorSpec):
        return viewed
    data = result._data
    if spec.device is CPU:
        data = np.lib.stride_tricks.as_strided(data, sizes, [s * spec.itemsize for s in strides])
    view: TensorImpl = TensorImpl.from_data(data, viewed)
    return view


def _empty(spec: TensorSpec) -> TensorImpl:
    """Return a new tensor of a spec."""
    from ..tensor import Tensor

    if spec.device is CPU:
        data = empty_array(spec.sizes, spec.strides, spec.np_dtype, spec.is_contiguous)
    else:
        nbytes = storage_size(spec.sizes, spec.strides) * spec.itemsize
        data = get_allocator(spec.device.type).allocate(nbytes, spec.device)
    made: TensorImpl = Tensor.from_data(data, spec.detached)
    return made


def _resize(tensor: TensorImpl, spec: TensorSpec) -> None:
    """Set a tensor's geometry to a spec, and enlarge its memory if needed."""
    storage, offset = tensor.untyped_storage(), tensor.storage_offset()
    needed = (offset + storage_size(spec.sizes, spec.strides)) * spec.itemsize
    if needed > storage.nbytes():
        storage.resize_(needed)
    tensor.set_sizes_and_strides(spec.sizes, spec.strides, offset)
