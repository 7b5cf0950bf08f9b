"""Methods of `Tensor` that make tensors of a user-defined class."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from ...runtime.device import device as Device
from ...runtime.layout import layout as Layout
from ...runtime.layout import strided
from ...runtime.memory_format import memory_format as MemoryFormat
from ...runtime.scalar_type import dtype as ScalarType
from ...runtime.tensor_impl import TensorImpl
from ...runtime.traceback_filter import api_boundary
from ..core.tensor_function import DisableTensorFunctionSubclass, plain_classes
from ..layers.overrides.subclass_attributes import default_nowrap_functions
from .autograd import require_grad_of_new

Subclass = TypeVar("Subclass", bound=TensorImpl)


class SubclassMethods:
    """Mixin of `Tensor`."""

    __slots__: tuple[str, ...] = ()

    @classmethod
    def __tensor_function__(
        cls,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Handle a public call on a tensor of a subclass: call the function, and convert its tensors to this class.

        A subclass overrides this class method to handle calls itself, and calls ``super().__tensor_function__`` for
        the rest. `tt.overrides` lists the calls.

        Args:
            func: The function, method, or a property's ``__get__``, as in the public namespace.
            types: The classes among the arguments that take part.
            args: Positional arguments, as the caller wrote them.
            kwargs: Keyword arguments, as the caller wrote them.

        Returns:
            the result; NotImplemented where `types` has a class that is no superclass of this one.

        Source: torch.Tensor.__torch_function__.

        Example:
            >>> import triten as tt
            >>> class Metres(tt.Tensor):
            ...     @classmethod
            ...     def __tensor_function__(cls, func, types, args=(), kwargs=None):
            ...         if func in (tt.exp, tt.Tensor.exp):
            ...             raise TypeError("exp of metres")
            ...         return super().__tensor_function__(func, types, args, kwargs)
            >>> x = tt.ones(2).as_subclass(Metres)
            >>> type(x + x).__name__, type(x.T).__name__, type(tt.cat([x, x])).__name__
            ('Metres', 'Metres', 'Metres')
            >>> tt.exp(x)
            Traceback (most recent call last):
            TypeError: exp of metres
        """
        if not all(issubclass(cls, t) for t in types):
            return NotImplemented
        with DisableTensorFunctionSubclass():
            result = func(*args, **(kwargs or {}))
            return result if func in default_nowrap_functions() else _convert(result, cls)

    @api_boundary
    def as_subclass(self, cls: type[Subclass]) -> Subclass:
        """Return this tensor as one of class `cls` that shares its memory, in the graph like `alias`
        (`torch.Tensor.as_subclass`).

        Public calls with this tensor go to `__tensor_function__` of its class. If `cls` defines the class method
        ``__tensor_dispatch__(func, types, args, kwargs)``, it handles every operator below autograd that receives the
        tensor. Its return value is the result, plain tensors included.

        Args:
            cls: A subclass of `tt.Tensor`.

        Returns:
            A tensor of `cls` over the same memory.

        Raises:
            TypeError: `cls` is not a subclass of Tensor.

        Example:
            >>> import triten as tt
            >>> class Loud(tt.Tensor):
            ...     __tensor_function__ = tt._C._disabled_tensor_function_impl
            ...     @classmethod
            ...     def __tensor_dispatch__(cls, func, types, args=(), kwargs=None):
            ...         print(func.name())
            ...         plain = [a.as_subclass(tt.Tensor) if isinstance(a, Loud) else a for a in args]
            ...         return func(*plain, **(kwargs or {}))
            >>> tt.ones(2).as_subclass(Loud) + 1
            aten::add.Tensor
            tensor([2., 2.])
        """
        from ..layers.python_key import as_subclass

        return as_subclass(self, cls)  # type: ignore[arg-type]

    @staticmethod
    def _make_subclass(
        cls: type[Subclass],
        data: TensorImpl,
        require_grad: bool = False,
        *,
        dispatch_sizes_strides_policy: str | None = None,
        dispatch_device: bool = False,
        dispatch_layout: bool = False,
    ) -> Subclass:
        """Return a tensor of `cls` that shares the memory of `data`, in no graph (`torch.Tensor._make_subclass`).

        Args:
            cls: A subclass of `Tensor`.
            data: The tensor whose memory is shared.
            require_grad: If True, the tensor requires grad. Default: False.
            dispatch_sizes_strides_policy: See `_make_wrapper_subclass`.
            dispatch_device: See `_make_wrapper_subclass`.
            dispatch_layout: See `_make_wrapper_subclass`.

        Raises:
            TypeError: `cls` is not a subclass of Tensor.
            ValueError: `dispatch_sizes_strides_policy` is unknown.
        """
        from ..layers.python_key import detached_subclass

        made = detached_subclass(data, cls)
        if dispatch_sizes_strides_policy is not None or dispatch_device or dispatch_layout:
            from ..layers.dispatched_metadata import dispatch_metadata

            dispatch_metadata(made, dispatch_sizes_strides_policy, dispatch_device, dispatch_layout)
        if require_grad:
            require_grad_of_new(made)
        return made

    @staticmethod
    def _make_wrapper_subclass(
        cls: type[Subclass],
        size: Sequence[int],
        strides: Sequence[int] | None = None,
        storage_offset: int | None = None,
        memory_format: MemoryFormat | None = None,
        *,
        dtype: ScalarType | None = None,
        layout: Layout = strided,
        device: Device | str | None = None,
        pin_memory: bool = False,
        requires_grad: bool = False,
        dispatch_sizes_strides_policy: str | None = None,
        dispatch_device: bool = False,
        dispatch_layout: bool = False,
        storage_size: int | None = None,
    ) -> Subclass:
        """Return a tensor of `cls` with metadata and no storage (`torch.Tensor._make_wrapper_subclass`).

        Args:
            cls: A subclass of `Tensor` that defines ``__tensor_dispatch__``.
            size: The sizes.
            strides: The strides. Default: contiguous, or those of `memory_format`.
            storage_offset: The storage offset, in elements; only with `strides`.
            memory_format: Determines the strides if `strides` is not given.
            dtype: The dtype. Default: the default dtype.
            layout: The layout.
            device: The device. Default: the CPU.
            pin_memory: Has no effect, since there are no bytes.
            requires_grad: If True, the tensor requires grad.
            dispatch_sizes_strides_policy: ``"strides"`` to have ``__tensor_dispatch__`` compute strides and contiguity,
                ``"sizes"`` to have it compute sizes, dimensions and the number of elements too. Default: None, which
                reads them from the metadata that is given here.
            dispatch_device: If True, ``__tensor_dispatch__`` computes the device (`tt.ops.prim.device`).
            dispatch_layout: If True, ``__tensor_dispatch__`` computes the layout (`tt.ops.prim.layout`).
            storage_size: Has no effect, since there are no bytes.

        Raises:
            TypeError: `cls` defines no ``__tensor_dispatch__``.
            ValueError: `dispatch_sizes_strides_policy` is unknown.
            RuntimeError: There is a storage offset without strides.
        """
        from ..layers.python_key import wrapper_subclass

        if storage_offset is not None and strides is None:
            raise RuntimeError("setting storage offset without stride not supported")
        made = wrapper_subclass(cls, size, strides, dtype, device, storage_offset or 0, memory_format, layout)
        if dispatch_sizes_strides_policy is not None or dispatch_device or dispatch_layout:
            from ..layers.dispatched_metadata import dispatch_metadata

            dispatch_metadata(made, dispatch_sizes_strides_policy, dispatch_device, dispatch_layout)
        if requires_grad:
            require_grad_of_new(made)
        return made


def _convert(result: Any, cls: Any) -> Any:
    """Convert a result's tensors to `cls`, also in lists and tuples; tensors of its subclasses stay."""
    if cls in plain_classes:
        return result
    if isinstance(result, TensorImpl):
        tensor: Any = result
        return tensor if isinstance(tensor, cls) else tensor.as_subclass(cls)
    if isinstance(result, tuple) and hasattr(result, "_make"):
        return result._make([_convert(each, cls) for each in result])
    if isinstance(result, list | tuple):
        return type(result)([_convert(each, cls) for each in result])
    return result
