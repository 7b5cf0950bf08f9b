"""Parameters and buffers whose shape is not known yet: they have a dtype and a device, and wait for an input."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Never, Self

from ...dispatch.core.tensor_function import DisableTensorFunctionSubclass
from ...dispatch.generated import functions as _ops
from ...dispatch.tensor import Tensor
from .parameter import Buffer, Parameter

if TYPE_CHECKING:
    from ...runtime.device import DeviceLike
    from ...runtime.scalar_type import dtype as ScalarType

__all__ = ["UninitializedBuffer", "UninitializedParameter", "UninitializedTensorMixin", "is_lazy"]

ALLOWED = {
    *("__get__", "__set__", "__hash__", "get_device", "is_complex", "is_floating_point", "requires_grad_"),
    *("bfloat16", "cpu", "cuda", "double", "float", "half", "to"),
}
"""What needs no shape."""


class UninitializedTensorMixin(Tensor):
    """Mixin of uninitialized parameters and buffers (`torch.nn.parameter.UninitializedTensorMixin`).

    A subclass sets `cls_to_become` to the class of its initialized tensors.
    """

    cls_to_become: type

    def materialize(
        self, shape: Sequence[int], device: DeviceLike = None, dtype: ScalarType | None = None
    ) -> None:
        """Become an ordinary tensor of this shape, uninitialized; device and dtype stay by default.

        Example:
            >>> import triten as tt
            >>> waiting = tt.nn.UninitializedParameter(dtype=tt.float64)
            >>> waiting.materialize((2, 3))
            >>> type(waiting).__name__, waiting.shape, waiting.dtype
            ('Parameter', triten.Size([2, 3]), triten.float64)
        """
        own = self.data
        made = _ops.empty(shape, device=device or own.device, dtype=dtype or own.dtype)
        self.__class__ = self.cls_to_become
        self.data = made

    @property
    def data(self) -> Tensor:
        """A plain tensor without elements, of this dtype and device; setting it brings new ones."""
        return Tensor.from_data(self._data, self._spec.detached.replace(keys=_ops.empty(0)._spec.keys))

    @data.setter
    def data(self, value: Tensor) -> None:
        with DisableTensorFunctionSubclass():
            made = self._make_subclass(type(self), value, self._spec.requires_grad)
        self._data, self._spec = made._data, made._spec

    @property
    def shape(self) -> Never:
        """There is none. Raises RuntimeError."""
        raise RuntimeError(
            "Can't access the shape of an uninitialized parameter or buffer. This error usually happens in "
            "`load_state_dict` when trying to load an uninitialized parameter into an initialized one. Call `forward` "
            "to initialize the parameters before accessing their attributes."
        )

    def share_memory_(self) -> Never:
        """Raise RuntimeError: the tensor has no memory to share yet."""
        raise RuntimeError(
            "Can't share memory on an uninitialized parameter or buffer. Call `forward` to initialize the parameters "
            "before calling `module.share_memory()`."
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    @classmethod
    def __tensor_function__(
        cls,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Raise ValueError for functions that need a shape."""
        if getattr(func, "__name__", "") in ALLOWED:
            with DisableTensorFunctionSubclass():
                return func(*args, **(kwargs or {}))
        raise ValueError(
            f"Attempted to use an uninitialized parameter in {func}. This error happens when you are using a "
            f"`LazyModule` or explicitly manipulating `triten.nn.parameter.{cls.__name__}` objects. When using "
            "LazyModules Call `forward` with a dummy batch to initialize the parameters before calling functions"
        )


class UninitializedParameter(UninitializedTensorMixin, Parameter):  # type: ignore[misc]
    """A parameter whose shape is not known yet (`torch.nn.UninitializedParameter`).

    It has a dtype and a device, which `Module.to` changes, and nothing else before `materialize`.

    Example:
        >>> import triten as tt
        >>> tt.nn.UninitializedParameter()
        <UninitializedParameter>
    """

    cls_to_become = Parameter

    def __new__(
        cls, requires_grad: bool = True, device: DeviceLike = None, dtype: ScalarType | None = None
    ) -> Self:
        return cls._make_subclass(cls, _ops.empty(0, device=device, dtype=dtype), requires_grad)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        made: Self | None = memo.get(id(self))
        if made is None:
            own = self.data
            made = memo[id(self)] = type(self)(self._spec.requires_grad, own.device, own.dtype)
        return made

    def __reduce_ex__(self, protocol: Any) -> Any:
        own = self.data
        return type(self), (self._spec.requires_grad, str(own.device), own.dtype)


class UninitializedBuffer(UninitializedTensorMixin, Buffer):  # type: ignore[misc]
    """A buffer whose shape is not known yet (`torch.nn.UninitializedBuffer`).

    Example:
        >>> import triten as tt
        >>> tt.nn.UninitializedBuffer()
        <UninitializedBuffer>
    """

    cls_to_become = Buffer

    def __new__(
        cls,
        requires_grad: bool = False,
        device: DeviceLike = None,
        dtype: ScalarType | None = None,
        persistent: bool = True,
    ) -> Self:
        made = cls._make_subclass(cls, _ops.empty(0, device=device, dtype=dtype), requires_grad)
        made.persistent = persistent
        return made

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        made: Self | None = memo.get(id(self))
        if made is None:
            own = self.data
            options = self._spec.requires_grad, own.device, own.dtype, self.persistent
            made = memo[id(self)] = type(self)(*options)
        return made

    def __reduce_ex__(self, protocol: Any) -> Any:
        own = self.data
        return type(self), (self._spec.requires_grad, str(own.device), own.dtype, self.persistent)


def is_lazy(param: object) -> bool:
    """Return whether a parameter or a buffer has no shape yet (`torch.nn.parameter.is_lazy`).

    Example:
        >>> import triten as tt
        >>> tt.nn.parameter.is_lazy(tt.nn.LazyLinear(2).weight), tt.nn.parameter.is_lazy(tt.ones(1))
        (True, False)
    """
    return isinstance(param, UninitializedTensorMixin)
