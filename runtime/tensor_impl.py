"""`TensorImpl`: one tensor, in slots (c10/core/TensorImpl.h).

- `_data` holds the bytes: an ndarray with the tensor's sizes and strides on the host, else a `DataPtr` at the first
  element.
- `_spec` is the interned metadata.
- `_version_cell` is a list shared by a tensor and its views, created at the first view or write (`version_cell.py`).
- `_autograd` is None until autograd stores something.
- `_view_base` is the tensor of which this one is a differentiable view.
- `_creation`, of views only, is autograd's record of how the view was created.
- `_made_at`, of views only, is the version of the bytes at that time, unless 0.
- `_alias_mark`, of detached tensors only, is the mark of their version cell.

The dict holds attributes that a program sets on a tensor; Python creates it on first use.
"""

from __future__ import annotations

from typing import Any, Self, TypeVar, overload

from . import memory_format as mf
from .device import CPU
from .device import device as Device
from .dispatch_key_set import DispatchKeySet
from .generic_base import GenericBase
from .layout import layout as Layout
from .layout import sparse_coo, strided
from .scalar_type import QUANTIZED
from .scalar_type import dtype as ScalarType
from .size import Size
from .storage import Storage, address_of, root_of, storage_of, view_at
from .tensor_spec import TensorSpec
from .traceback_filter import api_boundary, hide_inner_frames

_Given = TypeVar("_Given")


@api_boundary
def only_name(function: str, own: object, numpy_value: _Given, name: str = "axis") -> _Given:
    """Return the argument that was passed under NumPy's name instead of the method's own.

    Args:
        function: The method's name.
        own: Value of the argument's own name, or None.
        numpy_value: Value of NumPy's name.
        name: NumPy's name. Default: "axis".

    Returns:
        `numpy_value`.

    Raises:
        TypeError: Both were given.
    """
    if own is not None:
        raise TypeError(f"{function}() got an unexpected keyword argument '{name}'")
    return numpy_value


class TensorImpl(GenericBase):
    """Tensor metadata and bytes; `dispatch.tensor.Tensor` adds the operators.

    The call path uses `dispatch.tensor.blank_tensor` and five stores; other code uses `TensorImpl.from_data`.
    """

    __slots__ = (
        "__dict__",
        "__weakref__",
        "_alias_mark",
        "_autograd",
        "_creation",
        "_data",
        "_made_at",
        "_spec",
        "_version_cell",
        "_view_base",
    )

    _data: Any
    _spec: TensorSpec
    _version_cell: list[Any] | None
    _autograd: Any
    _view_base: TensorImpl | None
    _creation: Any
    _made_at: int
    _alias_mark: object

    @classmethod
    def _blank(cls) -> Self:
        """Return a tensor of the class with empty slots, without calling a constructor."""
        return GenericBase.__new__(cls)

    @property
    def shape(self) -> Size:
        """Sizes of the tensor."""
        return self._spec.shape

    @property
    def dtype(self) -> ScalarType:
        """Element type of the tensor."""
        return self._spec.dtype

    @property
    def device(self) -> Device:
        """Device of the bytes."""
        return self._spec.device

    @property
    def layout(self) -> Layout:
        """Storage layout of the tensor."""
        return self._spec.layout

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return self._spec.ndim

    def dim(self) -> int:
        """Return the number of dimensions (`torch.Tensor.dim`).

        Returns:
            The length of the shape; 0 for a single number.

        Example:
            >>> import triten as tt
            >>> tt.ones(2, 3).dim()
            2
        """
        return self._spec.ndim

    ndimension = dim

    def numel(self) -> int:
        """Return the number of elements (`torch.Tensor.numel`).

        Returns:
            The product of the sizes; 1 for a tensor without dimensions.

        Example:
            >>> import triten as tt
            >>> tt.ones(2, 3).numel()
            6
        """
        return self._spec.numel

    nelement = numel

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self._spec.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements. Raises RuntimeError for a sparse tensor, whose parts have bytes of their own."""
        if self._spec.layout is not strided:
            raise RuntimeError(
                "nbytes is not defined for sparse tensors.  If you want the size of the constituent tensors, add the "
                "nbytes of the indices and values.  If you want the size of the  equivalent dense tensor, multiply "
                "numel() by element_size()"
            )
        return self._spec.nbytes

    def element_size(self) -> int:
        """Return the number of bytes of one element (`torch.Tensor.element_size`).

        Returns:
            The dtype's size in bytes.

        Example:
            >>> import triten as tt
            >>> tt.ones(2, dtype=tt.float64).element_size()
            8
        """
        return self._spec.itemsize

    @overload
    def stride(self, dim: None = None) -> tuple[int, ...]: ...
    @overload
    def stride(self, dim: int | str) -> int: ...
    def stride(self, dim: int | str | None = None, axis: int | str | None = None) -> tuple[int, ...] | int:
        """Return the stride of each dimension, in elements (`torch.Tensor.stride`).

        Args:
            dim: One dimension, as a number or a name; None asks for all.
            axis: NumPy's name of `dim`.

        Returns:
            A tuple of numbers, or with `dim` one number.

        Raises:
            IndexError: `dim` is out of range.
            TypeError: both `dim` and `axis` are given.

        Example:
            >>> import triten as tt
            >>> tt.ones(2, 3).stride(), tt.ones(2, 3).stride(0)
            ((3, 1), 3)
        """
        if axis is not None:
            dim = only_name("stride", dim, axis)
        if dim is None:
            return self._spec.strides
        try: return self._spec.strides[self._wrapped(dim, "stride")]  # fmt: skip
        except BaseException:
            hide_inner_frames()
            raise

    @overload
    def size(self, dim: None = None) -> Size: ...
    @overload
    def size(self, dim: int | str) -> int: ...
    def size(self, dim: int | str | None = None, axis: int | str | None = None) -> Size | int:
        """Return the sizes of the dimensions (`torch.Tensor.size`).

        Args:
            dim: One dimension, as a number or a name; None asks for all.
            axis: NumPy's name of `dim`.

        Returns:
            A `tt.Size`, which is a tuple, or with `dim` one number.

        Raises:
            IndexError: `dim` is out of range.
            TypeError: both `dim` and `axis` are given.

        Example:
            >>> import triten as tt
            >>> tt.ones(2, 3).size(), tt.ones(2, 3).size(-1)
            (triten.Size([2, 3]), 3)
        """
        if axis is not None:
            dim = only_name("size", dim, axis)
        if dim is None:
            return self._spec.shape
        try: return self._spec.sizes[self._wrapped(dim, "size")]  # fmt: skip
        except BaseException:
            hide_inner_frames()
            raise

    def _wrapped(self, dim: int | str, name: str) -> int:
        rank = self._spec.ndim
        try:
            if -rank <= dim < rank:  # type: ignore[operator]
                return dim % rank  # type: ignore[return-value]
        except (TypeError, RuntimeError):
            if isinstance(dim, str):
                from .dimname import position_of

                return position_of(dim, self._spec.names)
        if not hasattr(dim, "__index__") or isinstance(dim, TensorImpl):
            raise TypeError(f"{name}(): argument 'dim' (position 1) must be int, not {type(dim).__name__}")
        if not -(2**63) <= dim < 2**63:  # type: ignore[operator]
            raise ValueError(f"Overflow when unpacking long long: {name}(): argument 'dim' is {dim}")
        if rank == 0 and dim in (0, -1):
            raise IndexError(f"dimension specified as {dim} but tensor has no dimensions")
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got {dim})"
        )

    def is_contiguous(self, memory_format: mf.memory_format = mf.contiguous_format) -> bool:
        """Return True if the tensor is contiguous in a memory format (`torch.Tensor.is_contiguous`).

        Args:
            memory_format: The order that is asked for; by default the last dimension is the innermost.

        Returns:
            A bool.

        Example:
            >>> import triten as tt
            >>> tt.ones(2, 3).is_contiguous(), tt.ones(2, 3).t().is_contiguous()
            (True, False)
        """
        return self._spec.is_contiguous_in(memory_format)

    def is_floating_point(self) -> bool:
        """Return True for a floating-point dtype (`torch.Tensor.is_floating_point`).

        Returns:
            True for float16, bfloat16, float32, float64 and the 8-bit floats; False for complex dtypes and the
            others.

        Example:
            >>> import triten as tt
            >>> tt.ones(1).is_floating_point(), tt.ones(1, dtype=tt.int64).is_floating_point()
            (True, False)
        """
        return self._spec.dtype.is_floating_point

    def is_complex(self) -> bool:
        """Return True for a complex dtype (`torch.Tensor.is_complex`).

        Returns:
            True for complex32, complex64 and complex128.

        Example:
            >>> import triten as tt
            >>> tt.tensor([1j]).is_complex()
            True
        """
        return self._spec.dtype.is_complex

    def is_signed(self) -> bool:
        """Return True if the dtype can hold negative numbers (`torch.Tensor.is_signed`).

        Returns:
            False for unsigned integers and bool, True for the others.

        Example:
            >>> import triten as tt
            >>> tt.tensor([1]).is_signed(), tt.tensor([True]).is_signed()
            (True, False)
        """
        return self._spec.dtype.is_signed

    @property
    def is_cuda(self) -> bool:
        """True if the bytes are on a CUDA device."""
        return self._spec.device.type == "cuda"

    @property
    def is_cpu(self) -> bool:
        """True if the bytes are in host memory."""
        return self._spec.device is CPU

    @property
    def is_meta(self) -> bool:
        """True if the tensor has no bytes."""
        return self._spec.is_meta

    def is_inference(self) -> bool:
        """Return True if the tensor was created in inference mode (`torch.Tensor.is_inference`).

        It then has no version counter and no autograd keys.

        Returns:
            A bool.

        Example:
            >>> import triten as tt
            >>> with tt.inference_mode():
            ...     x = tt.ones(1)
            >>> x.is_inference()
            True
        """
        return self._spec.is_inference

    def key_set(self) -> DispatchKeySet:
        """Return the dispatch keys of the tensor, as in c10.

        Returns:
            A `tt.DispatchKeySet`.

        Example:
            >>> import triten as tt
            >>> tt.ones(1).key_set().has(tt.DispatchKey.CPU)
            True
        """
        return DispatchKeySet.from_raw_repr(self._spec.key_set)

    def get_device(self) -> int:
        """Return the device index (`torch.Tensor.get_device`).

        Returns:
            0 for ``cuda:0``, 1 for ``cuda:1``; -1 on the host.

        Example:
            >>> import triten as tt
            >>> tt.ones(1, device="cpu").get_device()
            -1
        """
        return -1 if self._spec.device is CPU else self._spec.device.resolved_index

    def version_cell(self) -> list[int]:
        """Return the version counter that this tensor shares with its views; create it on first use.

        Returns:
            A list of one number: how often the bytes were written in place.

        Raises:
            RuntimeError: The tensor was made in inference mode.

        Example:
            >>> import triten as tt
            >>> x = tt.ones(2)
            >>> x[0].version_cell() is x.version_cell()
            True
        """
        cell = self._version_cell
        if cell is None:
            if self._spec.is_inference:
                raise RuntimeError("Inference tensors do not track version counter.")
            cell = self._version_cell = [0]
        return cell

    def current_version(self) -> int:
        """Return the number of in-place writes to the bytes (`torch.Tensor._version`).

        Returns:
            The value of the version counter, which views share.

        Raises:
            RuntimeError: The tensor was made in inference mode.

        Example:
            >>> import triten as tt
            >>> tt.ones(2).add_(1).current_version()
            1
        """
        if self._spec.is_inference:
            raise RuntimeError("Inference tensors do not track version counter.")
        return self._version_cell[0] if self._version_cell is not None else 0

    @property
    def _version(self) -> int:
        """Value of `current_version`, under PyTorch's name."""
        return self.current_version()

    def bump_version(self) -> None:
        """Count an in-place write to bytes that were changed without an operator.

        Example:
            >>> import triten as tt
            >>> x = tt.ones(2)
            >>> x.bump_version()
            >>> x.current_version()
            1
        """
        cell = self._version_cell
        if cell is not None:
            cell[0] += 1
        elif not self._spec.is_inference:
            self._version_cell = [1]

    def data_ptr(self) -> int:
        """Return the address of the first element (`torch.Tensor.data_ptr`).

        Returns:
            A number, an address of the tensor's device; 0 for an empty tensor.

        Example:
            >>> import triten as tt
            >>> x = tt.ones(2)
            >>> x[1:].data_ptr() - x.data_ptr()
            4
        """
        if self._spec.layout is not strided:
            raise RuntimeError("Cannot access data pointer of Tensor that doesn't have storage")
        return address_of(self._data) if self._spec.numel else 0

    def storage_offset(self) -> int:
        """Return the tensor's offset in its storage (`torch.Tensor.storage_offset`).

        Returns:
            The number of elements between the storage's first and the tensor's first.

        Example:
            >>> import triten as tt
            >>> tt.ones(5)[2:].storage_offset()
            2
        """
        data = self._data
        if not self._spec.numel or self._spec.layout is not strided:
            return 0
        return (address_of(data) - address_of(root_of(data))) // self._spec.itemsize

    def untyped_storage(self) -> Storage:
        """Return the storage that this tensor shares with its views (`torch.Tensor.untyped_storage`).

        Returns:
            A `tt.UntypedStorage`.

        Example:
            >>> import triten as tt
            >>> tt.ones(5)[2:].untyped_storage().nbytes()
            20
        """
        if self._spec.layout is not strided:
            kind = "SparseTensorImpl" if self._spec.layout is sparse_coo else "SparseCsrTensorImpl"
            raise NotImplementedError(
                f"Cannot access storage of {kind}: the tensor has the layout {self._spec.layout}"
            )
        storage = storage_of(self._data, self._spec.device)
        storage.follow(self._data.ints if self._spec.dtype in QUANTIZED else self)
        return storage

    def is_shared(self) -> bool:
        """Return True if other processes may access the bytes (`torch.Tensor.is_shared`).

        Returns:
            True for a tensor that `share_memory_` was called on, or a view of one, and for any on a GPU.

        Example:
            >>> import triten as tt
            >>> tt.ones(2).is_shared()
            False
        """
        return not self._spec.is_meta and self.untyped_storage().is_shared()

    def share_memory_(self) -> Self:
        """Move the storage to shared memory (`torch.Tensor.share_memory_`).

        Sending a tensor through a queue or a pipe of `multiprocessing` does the same. All tensors over the storage
        follow; NumPy's arrays over it do not. On a GPU it does nothing.

        Returns:
            This tensor.

        Raises:
            RuntimeError: the tensor has no bytes (``meta``), or the system no shared memory.

        Example:
            >>> import triten as tt
            >>> x = tt.ones(2)
            >>> y = x[1:]
            >>> x.share_memory_().is_shared(), y.is_shared()
            (True, True)
        """
        if self._spec.is_meta:
            raise RuntimeError("share_memory_(): only available on CPU and CUDA, got a tensor on meta")
        self.untyped_storage()._share(self._data.ints if self._spec.dtype in QUANTIZED else self)
        return self

    def set_sizes_contiguous(self, sizes: tuple[int, ...]) -> None:
        """Set other sizes over the same storage, contiguous from the first element.

        Args:
            sizes: The new sizes.

        Raises:
            RuntimeError: The storage is too small.

        Example:
            >>> import triten as tt
            >>> x = tt.arange(6)
            >>> x.set_sizes_contiguous((2, 3))
            >>> x
            tensor([[0, 1, 2],
                    [3, 4, 5]])
        """
        self.set_sizes_and_strides(sizes, mf.contiguous_strides(sizes))

    def set_sizes_and_strides(
        self, sizes: tuple[int, ...], strides: tuple[int, ...], storage_offset: int | None = None
    ) -> None:
        """Set other sizes and strides over the same storage.

        Args:
            sizes: The new sizes.
            strides: The new strides, in elements.
            storage_offset: The place of the first element in the storage; None leaves it.

        Raises:
            RuntimeError: An element would lie outside the storage.

        Example:
            >>> import triten as tt
            >>> x = tt.arange(6)
            >>> x.set_sizes_and_strides((3,), (2,))
            >>> x
            tensor([0, 2, 4])
        """
        if self._spec.dtype in QUANTIZED:
            raise RuntimeError(
                "set_sizes_and_strides(): quantized tensors keep their geometry; as_strided gives a view"
            )
        spec = self._spec.replace(sizes=tuple(sizes), strides=tuple(strides))
        offset = self.storage_offset() if storage_offset is None else storage_offset
        self._data = view_at(storage_of(self._data, spec.device), offset * spec.itemsize, spec)
        self._spec = spec

    @classmethod
    def from_data(cls, data: Any, spec: TensorSpec) -> Self:
        """Return a tensor of this class over matching bytes and spec; neither is checked.

        Args:
            data: The bytes, as the device has them: an ndarray on the CPU.
            spec: What the tensor is: sizes, strides, dtype, device, keys.

        Returns:
            The tensor, which shares the bytes.

        Example:
            >>> import triten as tt
            >>> x = tt.ones(2)
            >>> tt.Tensor.from_data(x._data, x._spec)
            tensor([1., 1.])
        """
        out = cls._blank()
        out._data = data
        out._spec = spec
        out._version_cell = None
        out._autograd = None
        out._view_base = None
        return out
