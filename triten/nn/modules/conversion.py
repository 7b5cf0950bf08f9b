"""Moving a module's tensors to another device or dtype."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self, overload

from ...dispatch.functions.queries import _has_compatible_shallow_copy_type
from ...dispatch.generated import functions as _ops
from ...dispatch.tensor import Tensor
from ...runtime import scalar_type
from ...runtime.device import device as Device
from ...runtime.scalar_type import dtype as ScalarType
from ...utils.swapping import swap_tensors
from .conversion_settings import (
    get_overwrite_module_params_on_conversion,
    get_swap_module_params_on_conversion,
)
from .parameter import Parameter
from .uninitialized import is_lazy

if TYPE_CHECKING:
    from ...autograd import no_grad
    from ...runtime.device import DeviceLike
    from ...runtime.memory_format import memory_format as MemoryFormat


class ConversionMixin:
    """The methods of `Module` that convert its parameters and buffers."""

    _parameters: dict[str, Any]
    _buffers: dict[str, Any]

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Apply `fn` to each parameter, its gradient and each buffer, and store the results."""
        if recurse:
            for module in self.children():  # type: ignore[attr-defined]
                module._apply(fn)
        with _no_grad():
            for name, parameter in self._parameters.items():
                if parameter is None:
                    continue
                self._parameters[name] = _converted_parameter(parameter, fn)
            for name, buffer in self._buffers.items():
                if is_lazy(buffer):
                    buffer.data = fn(buffer.data)
                elif buffer is not None:
                    self._buffers[name] = fn(buffer)
        return self

    @overload
    def to(
        self,
        device: DeviceLike = None,
        dtype: ScalarType | None = None,
        non_blocking: bool = False,
        *,
        memory_format: MemoryFormat | None = None,
    ) -> Self: ...
    @overload
    def to(
        self, dtype: ScalarType, non_blocking: bool = False, *, memory_format: MemoryFormat | None = None
    ) -> Self: ...
    @overload
    def to(
        self, tensor: Tensor, non_blocking: bool = False, *, memory_format: MemoryFormat | None = None
    ) -> Self: ...
    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Move to a device, a dtype of floats, a memory format, or those of a tensor (`torch.nn.Module.to`).

        Tensors of integers keep their dtype; only those of four dimensions take a memory format.

        Raises:
            TypeError: The dtype is neither floating point nor complex, or an argument has another type.
            RuntimeError: `copy` is given, which only `Tensor.to` has.

        Example:
            >>> import triten as tt
            >>> tt.nn.Linear(2, 2).to(tt.float64).weight.dtype
            triten.float64
        """
        if "copy" in kwargs or len(args) == (3 if args and isinstance(args[0], Tensor | ScalarType) else 4):
            raise RuntimeError(".to() does not accept copy argument")
        device, dtype, non_blocking, memory_format = destination_of(*args, **kwargs)
        if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
            raise TypeError(
                f"nn.Module.to only accepts floating point or complex dtypes, but got desired dtype={dtype}"
            )

        def convert(tensor: Tensor) -> Tensor:
            inexact = tensor.dtype.is_floating_point or tensor.dtype.is_complex
            options: dict[str, Any] = {"non_blocking": non_blocking}
            if memory_format is not None and tensor.dim() in (4, 5):
                options["memory_format"] = memory_format
            own = tensor.dtype if dtype is None or not inexact else dtype
            return tensor.to(device or tensor.device, own, **options)

        return self._apply(convert)

    def to_empty(self, *, device: DeviceLike, recurse: bool = True) -> Self:
        """Move to a device without the values."""
        return self._apply(lambda tensor: _ops.empty_like(tensor, device=device), recurse)

    def cpu(self) -> Self:
        """Move to the CPU."""
        return self._apply(lambda tensor: tensor.cpu())

    def cuda(self, device: Device | int | None = None) -> Self:
        """Move to a CUDA device, by default the current one."""
        return self._apply(lambda tensor: tensor.cuda(device))

    def type(self, dst_type: ScalarType) -> Self:
        """Convert every parameter and buffer to a dtype."""
        return self._apply(lambda tensor: tensor.to(dst_type))

    def _floats_to(self, dtype: ScalarType) -> Self:
        return self._apply(lambda tensor: tensor.to(dtype) if tensor.dtype.is_floating_point else tensor)

    def float(self) -> Self:
        """Convert floating-point tensors to float32."""
        return self._floats_to(scalar_type.float32)

    def double(self) -> Self:
        """Convert floating-point tensors to float64."""
        return self._floats_to(scalar_type.float64)

    def half(self) -> Self:
        """Convert floating-point tensors to float16."""
        return self._floats_to(scalar_type.float16)

    def bfloat16(self) -> Self:
        """Convert floating-point tensors to bfloat16."""
        return self._floats_to(scalar_type.bfloat16)


def _converted_parameter(parameter: Parameter, fn: Callable[[Tensor], Tensor]) -> Parameter:
    """Return a parameter with `fn` of its values and gradient: itself, unless its new data are of another kind.

    The settings of `triten.__future__` make it a new one, or exchange the contents.
    """
    if is_lazy(parameter):
        parameter.data = fn(parameter.data)
        return parameter
    converted = fn(parameter)
    grad = parameter.grad
    converted_grad = None if grad is None else fn(grad)
    if get_swap_module_params_on_conversion():
        parameter.grad = None
        swap_tensors(parameter, Parameter(converted, parameter.requires_grad))
        if grad is not None and converted_grad is not None:
            swap_tensors(grad, converted_grad._set_requires_grad(grad.requires_grad))
            parameter.grad = grad
        return parameter
    if _keeps_object(parameter, converted):
        parameter.grad = None
        parameter.data = converted
        made = parameter
    else:
        made = Parameter(converted, parameter.requires_grad)
    if grad is not None and converted_grad is not None:
        if _keeps_object(grad, converted_grad):
            grad.data = converted_grad
        else:
            grad = converted_grad._set_requires_grad(grad.requires_grad)
        made.grad = grad
    return made


def _keeps_object(tensor: Tensor, converted: Tensor) -> bool:
    """Return whether a conversion replaces the data of a tensor rather than the tensor."""
    return (
        _has_compatible_shallow_copy_type(tensor, converted)
        and not get_overwrite_module_params_on_conversion()
    )


def _no_grad() -> no_grad:
    from ...autograd import no_grad

    return no_grad()


def destination_of(
    *args: Any, **kwargs: Any
) -> tuple[Device | None, ScalarType | None, bool, MemoryFormat | None]:
    """Parse the arguments of `Tensor.to`: return the device, dtype, non_blocking and memory format.

    Raises:
        TypeError: An argument is unknown, given twice, or of another type.
    """
    names = ["device", "dtype", "non_blocking"]
    if args and isinstance(args[0], Tensor):
        kwargs = {"device": args[0].device, "dtype": args[0].dtype, **kwargs}
        args, names = args[1:], ["non_blocking"]
    elif args and isinstance(args[0], ScalarType):
        names = ["dtype", "non_blocking"]
    elif "tensor" in kwargs:
        other = kwargs.pop("tensor")
        kwargs = {"device": other.device, "dtype": other.dtype, **kwargs}
    if len(args) > len(names):
        raise TypeError(f"to() received an invalid combination of arguments: {args}")
    for name, value in zip(names, args, strict=False):
        if name in kwargs:
            raise TypeError(f"to() got multiple values for argument '{name}'")
        kwargs[name] = value
    unknown = set(kwargs) - {"device", "dtype", "non_blocking", "memory_format", "copy"}
    if unknown:
        raise TypeError(f"to() got an unexpected keyword argument '{min(unknown)}'")
    device, dtype = kwargs.get("device"), kwargs.get("dtype")
    if not isinstance(device, Device | str | int | None) or isinstance(device, bool):
        raise TypeError(f"to(): argument 'device' must be a device, not {type(device).__name__}")
    if not isinstance(dtype, ScalarType | None):
        raise TypeError(f"to(): argument 'dtype' must be a dtype, not {type(dtype).__name__}")
    return (
        None if device is None else Device(device) if not isinstance(device, Device) else device,
        dtype,
        bool(kwargs.get("non_blocking", False)),
        kwargs.get("memory_format"),
    )
