"""`TensorImpl`: one tensor, six slots (c10/core/TensorImpl.h).

`_data` holds the bytes: an ndarray with the tensor's own sizes and strides on the host, a `DataPtr` at the
first element elsewhere. `_spec` is the interned rest. `_version_cell` is a one-element list shared by a tensor
and its views, made at the first view or write. `_autograd` is None until autograd has something to keep;
`_view_base` the tensor of which this one is a differentiable view, `_creation`, of views alone, what autograd
must know of how it was made.
"""

from __future__ import annotations

from typing import Any, Self, overload

from . import memory_format as mf
from .device import CPU
from .device import device as Device
from .dispatch_key_set import DispatchKeySet
from .layout import layout as Layout
from .scalar_type import dtype as ScalarType
from .size import Size
from .storage import Storage, address_of, root_of, storage_of, view_at
from .tensor_spec import TensorSpec


class TensorImpl:
    """A tensor's metadata and bytes; `dispatch.tensor.Tensor` adds the operators.

    Built by ``cls()`` and five stores on the call path; `TensorImpl.from_data` elsewhere.
    """

    __slots__ = ("__weakref__", "_autograd", "_creation", "_data", "_spec", "_version_cell", "_view_base")

    _data: Any
    _spec: TensorSpec
    _version_cell: list[int] | None
    _autograd: Any
    _view_base: TensorImpl | None
    _creation: Any

    @property
    def shape(self) -> Size:
        """The sizes."""
        return self._spec.shape

    @property
    def dtype(self) -> ScalarType:
        """The element type."""
        return self._spec.dtype

    @property
    def device(self) -> Device:
        """Where the bytes live."""
        return self._spec.device

    @property
    def layout(self) -> Layout:
        """The storage layout."""
        return self._spec.layout

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self._spec.ndim

    def dim(self) -> int:
        """The number of dimensions."""
        return self._spec.ndim

    ndimension = dim

    def numel(self) -> int:
        """The number of elements."""
        return self._spec.numel

    nelement = numel

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self._spec.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self._spec.nbytes

    def element_size(self) -> int:
        """Bytes of one element."""
        return self._spec.itemsize

    @overload
    def stride(self, dim: None = None) -> tuple[int, ...]: ...
    @overload
    def stride(self, dim: int | str) -> int: ...
    def stride(self, dim: int | str | None = None) -> tuple[int, ...] | int:
        """All strides in elements, or the one of `dim`, a number or a name. Raises IndexError out of range."""
        if dim is None:
            return self._spec.strides
        return self._spec.strides[self._wrapped(dim)]

    @overload
    def size(self, dim: None = None) -> Size: ...
    @overload
    def size(self, dim: int | str) -> int: ...
    def size(self, dim: int | str | None = None) -> Size | int:
        """All sizes, or the one of `dim`, a number or a name. Raises IndexError out of range."""
        if dim is None:
            return self._spec.shape
        return self._spec.sizes[self._wrapped(dim)]

    def _wrapped(self, dim: int | str) -> int:
        rank = self._spec.ndim
        try:
            if -rank <= dim < rank:  # type: ignore[operator]
                return dim % rank  # type: ignore[return-value]
        except TypeError:
            if not isinstance(dim, str):
                raise
            from .dimname import position_of

            return position_of(dim, self._spec.names)
        if rank == 0 and dim in (0, -1):
            raise IndexError(f"dimension specified as {dim} but tensor has no dimensions")
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got {dim})"
        )

    def is_contiguous(self, memory_format: mf.memory_format = mf.contiguous_format) -> bool:
        """Whether the elements lie in this memory format's order without gaps."""
        return self._spec.is_contiguous_in(memory_format)

    def is_floating_point(self) -> bool:
        """Whether the dtype is a floating one."""
        return self._spec.dtype.is_floating_point

    def is_complex(self) -> bool:
        """Whether the dtype is complex."""
        return self._spec.dtype.is_complex

    def is_signed(self) -> bool:
        """Whether the dtype can hold negative numbers."""
        return self._spec.dtype.is_signed

    @property
    def is_cuda(self) -> bool:
        """Whether the bytes live on a CUDA device."""
        return self._spec.device.type == "cuda"

    @property
    def is_cpu(self) -> bool:
        """Whether the bytes live in host memory."""
        return self._spec.device is CPU

    @property
    def is_meta(self) -> bool:
        """Whether there are no bytes."""
        return self._spec.is_meta

    def is_inference(self) -> bool:
        """Whether the tensor was made in inference mode, without version counter and autograd keys."""
        return self._spec.is_inference

    def key_set(self) -> DispatchKeySet:
        """The dispatch keys of the tensor, as c10 has them."""
        return DispatchKeySet.from_raw_repr(self._spec.key_set)

    def get_device(self) -> int:
        """The device's ordinal, -1 on the host."""
        return -1 if self._spec.device is CPU else self._spec.device.resolved_index

    def version_cell(self) -> list[int]:
        """The version counter that this tensor shares with its views, made when first needed."""
        cell = self._version_cell
        if cell is None:
            if self._spec.is_inference:
                raise RuntimeError("Inference tensors do not track version counter.")
            cell = self._version_cell = [0]
        return cell

    def current_version(self) -> int:
        """How often the bytes were written in place."""
        if self._spec.is_inference:
            raise RuntimeError("Inference tensors do not track version counter.")
        return self._version_cell[0] if self._version_cell is not None else 0

    @property
    def _version(self) -> int:
        """`current_version`, by PyTorch's name."""
        return self.current_version()

    def bump_version(self) -> None:
        """Count one write in place."""
        cell = self._version_cell
        if cell is not None:
            cell[0] += 1
        elif not self._spec.is_inference:
            self._version_cell = [1]

    def data_ptr(self) -> int:
        """The address of the first element; 0 for an empty tensor."""
        return address_of(self._data) if self._spec.numel else 0

    def storage_offset(self) -> int:
        """Elements between the storage's first and the tensor's first."""
        data = self._data
        if not self._spec.numel:
            return 0
        return (address_of(data) - address_of(root_of(data))) // self._spec.itemsize

    def untyped_storage(self) -> Storage:
        """The bytes that this tensor shares with its views."""
        storage = storage_of(self._data, self._spec.device)
        storage.follow(self)
        return storage

    def set_sizes_contiguous(self, sizes: tuple[int, ...]) -> None:
        """Give the tensor other sizes over the same storage, contiguous from its first element."""
        self.set_sizes_and_strides(sizes, mf.contiguous_strides(sizes))

    def set_sizes_and_strides(
        self, sizes: tuple[int, ...], strides: tuple[int, ...], storage_offset: int | None = None
    ) -> None:
        """Give the tensor other geometry over the same storage. Raises RuntimeError out of its bounds."""
        spec = self._spec.replace(sizes=tuple(sizes), strides=tuple(strides))
        offset = self.storage_offset() if storage_offset is None else storage_offset
        self._data = view_at(storage_of(self._data, spec.device), offset * spec.itemsize, spec)
        self._spec = spec

    @classmethod
    def from_data(cls, data: Any, spec: TensorSpec) -> Self:
        """A tensor of this class over bytes and a spec that fit each other."""
        out = cls()
        out._data = data
        out._spec = spec
        out._version_cell = None
        out._autograd = None
        out._view_base = None
        return out
