"""Conversions between tensors and Python objects: numbers, lists, NumPy arrays, text."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ...runtime.device import CPU
from ...runtime.device import device as Device
from ...runtime.dispatch_key import Functionality, functionality_bit
from ...runtime.errors import NotComplexError
from ...runtime.grad_mode import is_grad_enabled
from ...runtime.layout import strided
from ...runtime.local_dispatch_key_set import effective, modes
from ...runtime.memory_format import memory_format as MemoryFormat
from ...runtime.memory_format import preserve_format
from ...runtime.quantized_data import QUANTIZED_BIT
from ...runtime.tensor_impl import TensorImpl
from ...runtime.traceback_filter import api_boundary, hide_inner_frames
from ...runtime.user_frame import levels_to_user
from ...runtime.version_cell import LENT, lend
from ..core.factory_options import check_flags
from ..core.op_overload import find_overload
from ..generated.functions.views import t_plans
from ..scalars import readable
from .pickling import copied, reduced

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from ...runtime.device import DeviceLike
    from ...runtime.scalar_type import Number
    from ...runtime.scalar_type import dtype as ScalarType
    from ..tensor import Tensor

    _Base = TensorImpl
else:
    _Base = object

PYTHON_BIT = functionality_bit(Functionality.Python)
_UNREADABLE = PYTHON_BIT | QUANTIZED_BIT


def _warn_of_transposed(ndim: int, name: str) -> None:
    """Warn of the deprecated transposes of a tensor that is no matrix: `T` of any rank, `H` and `mT` of a scalar."""
    if ndim == 0:
        remedy = (
            "Consider using x.conj()." if name == "H" else "This function is the identity in these cases."
        )
        warnings.warn(f"Tensor.{name} is deprecated on 0-D tensors. {remedy}", stacklevel=levels_to_user())
    elif name == "T":
        warnings.warn(
            "The use of `x.T` on tensors of dimension other than 2 to reverse their shape is deprecated and it will "
            "throw an error in a future release. Consider `x.mT` to transpose batches of matrices or "
            "`x.permute(*torch.arange(x.ndim - 1, -1, -1))` to reverse the dimensions of a tensor.",
            stacklevel=levels_to_user(),
        )


class ConversionMethods(_Base):
    """Mixin of `Tensor`."""

    __slots__ = ()

    def numpy(self, *, force: bool = False) -> NDArray[Any]:
        """Return the tensor as an ndarray that shares its memory (`torch.Tensor.numpy`).

        Args:
            force: If True, a tensor on another device, or one that requires grad, is detached and copied to host
                memory first.

        Returns:
            An ndarray of the same shape and dtype; writes to one are seen in the other. The tensor's storage can no
            longer be resized.

        Raises:
            TypeError: The tensor is not in host memory, and `force` is False.
            RuntimeError: The tensor requires grad while grad mode is on, and `force` is False, or its class has a
                handler of operators.

        Example:
            >>> import triten as tt
            >>> tt.arange(3).numpy()
            array([0, 1, 2])
        """
        tensor: Tensor = self  # type: ignore[assignment]
        if force:
            tensor = tensor.detach().cpu()
        spec = tensor._spec
        if spec.layout is not strided:
            raise TypeError(f"can't convert {spec.layout} tensor to numpy. Use Tensor.to_dense() first.")
        if spec.device is not CPU:
            raise TypeError(
                f"can't convert {spec.device} device type tensor to numpy. Use Tensor.cpu() to copy the "
                "tensor to "
                "host memory first."
            )
        if spec.requires_grad and is_grad_enabled():
            raise RuntimeError(
                "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead."
            )
        if spec.keys & _UNREADABLE:
            _refuse_handled(tensor, "numpy")
        if spec.keys & QUANTIZED_BIT:
            raise TypeError(
                f"Got unsupported ScalarType {spec.dtype.scalar_name}: dequantize() or int_repr() give tensors that "
                "NumPy has dtypes for"
            )
        cell = tensor._version_cell
        if cell is None or cell[-1] is not LENT:
            lend(tensor)
        return tensor._data  # type: ignore[no-any-return]

    def new_tensor(
        self,
        data: Any,
        *,
        dtype: ScalarType | None = None,
        device: DeviceLike = None,
        requires_grad: bool = False,
    ) -> Tensor:
        """Return a new tensor with a copy of the given data and this tensor's dtype and device
        (`torch.Tensor.new_tensor`).

        Args:
            data: Numbers, nested sequences of them, an array or a tensor, as `tt.tensor` takes them.
            dtype: The dtype; by default this tensor's.
            device: The device; by default this tensor's.
            requires_grad: If True, autograd records operations on the result.

        Returns:
            A tensor of `data`'s shape.

        Example:
            >>> import triten as tt
            >>> tt.ones(1, dtype=tt.float64).new_tensor([1, 2])
            tensor([1., 2.], dtype=triten.float64)
        """
        from ..tensor_data import tensor

        check_flags("new_tensor", requires_grad=requires_grad)
        spec = self._spec
        made = tensor(data, dtype=dtype or spec.dtype, device=spec.device if device is None else device)
        return made._set_requires_grad() if requires_grad else made

    def item(self) -> Any:
        """Return the only element as a Python number (`torch.Tensor.item`). On a GPU, this synchronizes with its
        kernels.

        Returns:
            A bool, int, float or complex, as the dtype has it.

        A dispatch mode, or the tensor's class if it has a handler, sees ``aten::_local_scalar_dense``.

        Raises:
            RuntimeError: The tensor has no element or several, or is a meta tensor.

        Example:
            >>> import triten as tt
            >>> tt.tensor([[2.5]]).item()
            2.5
        """
        spec = self._spec
        if spec.is_host_number and not modes:
            return self._data.item()
        if spec.numel != 1:
            raise RuntimeError(f"a Tensor with {spec.numel} elements cannot be converted to Scalar")
        if effective(spec.key_set) & PYTHON_BIT and _dispatches_reads(self):
            return find_overload("aten::_local_scalar_dense")(self)
        if spec.is_meta:
            raise RuntimeError("Tensor.item() cannot be called on meta tensors")
        # Classes that store their values elsewhere, or forbid reads, override `host_array`.
        return number_of(self.host_array())

    def host_array(self) -> NDArray[Any]:
        """Return the elements in host memory from any device; memory is shared if it is on the host already.

        Returns:
            An ndarray.

        Example:
            >>> import triten as tt
            >>> tt.ones(2, requires_grad=True).host_array()
            array([1., 1.], dtype=float32)
        """
        tensor: Tensor = self  # type: ignore[assignment]
        if self._spec.layout is not strided:
            tensor = tensor.detach().to_dense()
        elif self._spec.keys & QUANTIZED_BIT:
            tensor = tensor.dequantize()
        if self._spec.device is CPU:
            return tensor._data  # type: ignore[no-any-return]
        return tensor.detach().to("cpu")._data  # type: ignore[no-any-return]

    def tolist(self) -> Any:
        """Return the elements as nested lists of Python numbers (`torch.Tensor.tolist`).

        Returns:
            A list for each dimension in the other; of a tensor without dimensions the number itself.

        Example:
            >>> import triten as tt
            >>> tt.eye(2).tolist()
            [[1.0, 0.0], [0.0, 1.0]]
        """
        if self._spec.keys & PYTHON_BIT:
            _refuse_handled(self, "tolist")
        return readable(self.host_array()).tolist()

    def __bool__(self) -> bool:
        spec = self._spec
        if spec.numel != 1:
            if spec.numel == 0:
                raise RuntimeError("Boolean value of Tensor with no values is ambiguous")
            raise RuntimeError("Boolean value of Tensor with more than one value is ambiguous")
        return bool(self.item())

    def _only_number(self, kind: str) -> Any:
        """Return `item` for Python's conversions: ValueError for several elements, RuntimeError for lost imaginary
        parts.
        """
        spec = self._spec
        if spec.numel != 1:
            raise ValueError(
                f"only one element tensors can be converted to Python scalars, got {spec.numel} elements"
            )
        number = self.item()
        if number.__class__ is complex and kind != "complex":
            if number.imag:
                raise RuntimeError(f"value cannot be converted to type {kind} without overflow")
            return number.real
        return number

    def __float__(self) -> float:
        return float(self._only_number("double"))

    def __int__(self) -> int:
        return int(self._only_number("int64_t"))

    def __complex__(self) -> complex:
        return complex(self._only_number("complex"))

    def __index__(self) -> int:
        spec = self._spec
        if spec.numel != 1 or not (spec.dtype.is_integral or spec.dtype.name == "bool"):
            raise TypeError("only integer tensors of a single element can be converted to an index")
        return int(self.item())

    def __len__(self) -> int:
        if self._spec.ndim == 0:
            raise TypeError("len() of a 0-d tensor")
        return self._spec.sizes[0]

    def __iter__(self) -> Iterator[Tensor]:
        if self._spec.ndim == 0:
            raise TypeError("iteration over a 0-d tensor")
        tensor: Tensor = self  # type: ignore[assignment]
        return iter(tensor.unbind(0))

    def __contains__(self, element: Any) -> bool:
        tensor: Any = self
        if not isinstance(element, TensorImpl | int | float | complex | np.number | np.bool_):
            raise RuntimeError(
                f"Tensor.__contains__ only supports Tensor or scalar, but you passed in a {type(element)}."
            )
        return bool((element == tensor).any().item())

    def __reversed__(self) -> Tensor:
        tensor: Tensor = self  # type: ignore[assignment]
        return tensor if self._spec.ndim == 0 else tensor.flip(0)

    if TYPE_CHECKING:
        # A subclass may define it without the argument.
        def __repr__(self, *args: Any, **named: Any) -> str: ...
    else:

        def __repr__(self, *, tensor_contents: str | None = None) -> str:
            from .printing import tensor_text

            return tensor_text(self, tensor_contents)

    @api_boundary
    def _repr_html_(self) -> str:
        """Return the HTML view of the tensor for notebooks, which look up this name."""
        from .notebook import notebook_view

        return notebook_view(self)

    def __format__(self, spec: str) -> str:
        if self._spec.ndim == 0 and not self._spec.is_meta:
            return format(self.item(), spec)
        return object.__format__(self, spec)

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        if self._spec.keys & QUANTIZED_BIT:
            from .quantized_pickling import copied_quantized

            return copied_quantized(self, memo)  # type: ignore[no-any-return]
        return copied(self, memo)  # type: ignore[arg-type]

    def __reduce_ex__(self, protocol: Any) -> Any:
        if self._spec.keys & QUANTIZED_BIT:
            from .quantized_pickling import reduced_quantized

            return reduced_quantized(self)
        return reduced(self)  # type: ignore[arg-type]

    @property
    def T(self) -> Tensor:
        """The tensor with its dimensions reversed."""
        tensor: Tensor = self  # type: ignore[assignment]
        spec = self._spec
        if spec.ndim != 2:
            _warn_of_transposed(spec.ndim, "T")
            return tensor.permute(tuple(range(spec.ndim - 1, -1, -1)))
        if not modes:
            try:
                plan: Callable[..., Tensor] = t_plans[spec]
            except KeyError:
                return tensor.t()
            return plan(tensor)
        from ..layers.python_key import sees_whole

        return tensor.permute((1, 0)) if sees_whole() else tensor.t()

    @property
    def mT(self) -> Tensor:
        """The tensor with its last two dimensions swapped. Raises RuntimeError for a vector."""
        tensor: Tensor = self  # type: ignore[assignment]
        self._check_matrix("mT")
        _warn_of_transposed(self._spec.ndim, "mT")
        return tensor.transpose(-2, -1) if self._spec.ndim else tensor

    @property
    def H(self) -> Tensor:
        """The conjugate transpose of a matrix. Raises RuntimeError for anything but a matrix or a number."""
        tensor: Tensor = self  # type: ignore[assignment]
        if self._spec.ndim not in (0, 2):
            raise RuntimeError(
                f"tensor.H is only supported on matrices (2-D tensors). Got {self._spec.ndim}-D tensor. "
                "For batches of "
                "matrices, consider using tensor.mH"
            )
        _warn_of_transposed(self._spec.ndim, "H")
        return tensor.adjoint()

    @property
    def mH(self) -> Tensor:
        """The conjugate transpose of the last two dimensions. Raises RuntimeError for a vector."""
        tensor: Tensor = self  # type: ignore[assignment]
        self._check_matrix("mH")
        return tensor.adjoint()

    def _check_matrix(self, name: str) -> None:
        if self._spec.ndim == 1:
            raise RuntimeError(
                f"tensor.{name} is only supported on matrices or batches of matrices. Got 1-D tensor."
            )

    @property
    def real(self) -> Tensor:
        """The real part, a view; the tensor itself if it is real."""
        from ..generated.functions import real

        tensor: Tensor = self  # type: ignore[assignment]
        return real(tensor)

    @real.setter
    def real(self, value: Tensor | Number) -> None:
        _assign(self.real, value)

    @property
    def imag(self) -> Tensor:
        """The imaginary part of a complex tensor, a view."""
        from ..generated.functions import imag

        tensor: Tensor = self  # type: ignore[assignment]
        if not modes and not self._spec.dtype.is_complex:
            raise NotComplexError("imag is not implemented for tensors with non-complex dtypes.")
        return imag(tensor)

    @imag.setter
    def imag(self, value: Tensor | Number) -> None:
        _assign(self.imag, value)

    def cpu(self, memory_format: MemoryFormat = preserve_format) -> Tensor:
        """Return the tensor in host memory (`torch.Tensor.cpu`).

        Args:
            memory_format: The order of the result's dimensions in memory; by default the tensor's own.

        Returns:
            A copy; the tensor itself if it is there already.

        Example:
            >>> import triten as tt
            >>> tt.ones(2).cpu().device
            device(type='cpu')
        """
        try:
            tensor: Tensor = self  # type: ignore[assignment]
            return tensor.to(device="cpu", memory_format=memory_format)
        except BaseException:
            hide_inner_frames()
            raise

    def cuda(
        self,
        device: Device | str | int | None = None,
        non_blocking: bool = False,
        memory_format: MemoryFormat = preserve_format,
    ) -> Tensor:
        """Return the tensor on a CUDA device (`torch.Tensor.cuda`).

        Args:
            device: The device, as its ordinal or its name; None means the current one.
            non_blocking: If True, a copy from pinned memory is only enqueued, and the call does not wait for it.
            memory_format: The order of the result's dimensions in memory; by default the tensor's own.

        Returns:
            A copy; the tensor itself if it is there already.

        Raises:
            RuntimeError: `device` is not a CUDA device, or none is available.

        Example:
            >>> import triten as tt
            >>> tt.ones(2).cuda("cpu")
            Traceback (most recent call last):
            RuntimeError: Invalid device, must be cuda device, got 'cpu'
        """
        try:
            tensor: Tensor = self  # type: ignore[assignment]
            where = Device("cuda") if device is None else Device(device)
            if where.type != "cuda":
                raise RuntimeError(f"Invalid device, must be cuda device, got '{where}'")
            return tensor.to(device=where, non_blocking=non_blocking, memory_format=memory_format)
        except BaseException:
            hide_inner_frames()
            raise

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Version 3 of the CUDA array interface, with the current stream, for other libraries.

        Raises AttributeError for a tensor that is not on a CUDA device, RuntimeError for one that requires grad.
        """
        spec = self._spec
        if spec.device.type != "cuda":
            raise AttributeError(
                f"Can't get __cuda_array_interface__ on a tensor of device '{spec.device}'. If CUDA data is required "
                "use tensor.cuda() to copy tensor to device memory."
            )
        if spec.requires_grad:
            raise RuntimeError(
                "Can't get __cuda_array_interface__ on Variable that requires grad. If gradients aren't required, use "
                "var.detach() to get Variable that doesn't require grad."
            )
        from ...runtime.cuda.array_interface import exported

        return exported(self._data, spec)


def _assign(part: Tensor, value: Tensor | Number) -> None:
    """Write a tensor or a number to a view."""
    if isinstance(value, int | float):
        part.fill_(value)
    else:
        part.copy_(value)


def _dispatches_reads(tensor: TensorImpl) -> bool:
    """Return whether a mode or the tensor's class handles the operator that reads an element."""
    from ..layers.python_key import active_modes, sees_whole

    return sees_whole() if active_modes() else not _reads_itself(tensor)


def _reads_itself(tensor: TensorImpl) -> bool:
    """Return whether a class reads its own elements, as classes of this package that store them elsewhere do."""
    return type(tensor).host_array is not ConversionMethods.host_array  # type: ignore[attr-defined]


def _refuse_handled(tensor: TensorImpl, name: str) -> None:
    """Raise RuntimeError for a class whose operators go to its handler: its memory may not hold its elements."""
    if tensor._spec.keys & PYTHON_BIT and not _reads_itself(tensor):
        raise RuntimeError(
            f".{name}() is not supported for tensor subclasses, got {type(tensor).__name__}: read the tensors that it "
            "wraps"
        )


def number_of(array: NDArray[Any]) -> Any:
    """Return the only element of an array as a Python bool, int, float or complex."""
    array = readable(array)
    kind = array.dtype.kind
    if kind == "b":
        return bool(array.reshape(-1)[0])
    if kind in "iu":
        return int(array.reshape(-1)[0])
    if kind == "c":
        return complex(array.reshape(-1)[0])
    return float(array.reshape(-1)[0])
