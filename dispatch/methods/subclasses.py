"""Methods of `Tensor` that make tensors of a user's own class."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from ...runtime.device import device as Device
from ...runtime.scalar_type import dtype as ScalarType
from ...runtime.tensor_impl import TensorImpl
from ...runtime.traceback_filter import api_boundary
from ..core.tensor_function import DisableTensorFunctionSubclass, plain_classes
from ..layers.overrides.subclass_attributes import default_nowrap_functions
from .autograd import require_grad_of_new

Subclass = TypeVar("Subclass", bound=TensorImpl)


class SubclassMethods:
    """Mixin of `Tensor`."""

    __slots__ = ()

    @classmethod
    def __tensor_function__(
        cls,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Handle a public call that got a tensor of a subclass: call it, and have its tensors be of this class.

        A subclass overrides it, as a class method, to handle calls itself, and calls ``super().__tensor_function__``
        for the rest; `tt.overrides` says which calls there are.

        Args:
            func: the function, method, or a property's ``__get__``, as the public namespace has it.
            types: the classes among the arguments that take part.
            args: positional arguments, as the caller wrote them.
            kwargs: keyword arguments, as the caller wrote them.

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
        """This tensor's bytes as a tensor of `cls`, in the graph as `alias` is (`torch.Tensor.as_subclass`).

        Public calls with such a tensor go to `__tensor_function__` of its class. If `cls` defines
        ``__tensor_dispatch__(func, types, args, kwargs)``, a class method, that handles every operator below autograd
        which gets such a tensor; what it returns is the result, plain tensors included.

        Args:
            cls: A subclass of `tt.Tensor`.

        Returns:
            A tensor of `cls` over the same memory.

        Raises:
            TypeError: `cls` is no subclass of Tensor.

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
    def _make_subclass(cls: type[Subclass], data: TensorImpl, require_grad: bool = False) -> Subclass:
        """A tensor of `cls` over the bytes of `data`, in no graph (`torch.Tensor._make_subclass`)."""
        from ..layers.python_key import detached_subclass

        made = detached_subclass(data, cls)
        if require_grad:
            require_grad_of_new(made)
        return made

    @staticmethod
    def _make_wrapper_subclass(
        cls: type[Subclass],
        size: Sequence[int],
        strides: Sequence[int] | None = None,
        *,
        dtype: ScalarType | None = None,
        device: Device | str | None = None,
        requires_grad: bool = False,
    ) -> Subclass:
        """A tensor of `cls` with metadata and no bytes (`torch.Tensor._make_wrapper_subclass`).

        Raises:
            TypeError: `cls` defines no ``__tensor_dispatch__``.
        """
        from ..layers.python_key import wrapper_subclass

        made = wrapper_subclass(cls, size, strides, dtype, device)
        if requires_grad:
            require_grad_of_new(made)
        return made


def _convert(result: Any, cls: Any) -> Any:
    """A result with its tensors of `cls`, those in lists and tuples too; tensors of a subclass of it stay."""
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
