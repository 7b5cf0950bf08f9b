"""Tensors that belong to a module: what is trained, and what is only kept."""

from __future__ import annotations

from typing import Any, Self

from ...dispatch.autograd.node import hold_leaf
from ...dispatch.core.tensor_function import disabled_tensor_function, plain_classes
from ...dispatch.generated import functions as _ops
from ...dispatch.tensor import Tensor
from ...dispatch.tensor_meta import TensorMeta
from ...runtime.data_of_tensors import followed, followers

__all__ = ["Buffer", "Parameter"]


class _ParameterMeta(TensorMeta):
    """Has a tensor that consists of others be a parameter while it stays of its own class."""

    def __instancecheck__(cls, instance: Any) -> bool:
        if type.__instancecheck__(cls, instance):
            return True
        return (
            cls is Parameter
            and isinstance(instance, Tensor)
            and getattr(instance, "_is_param", False) is True
        )


class Parameter(Tensor, metaclass=_ParameterMeta):
    """A tensor that a module trains: assigned to an attribute of a `Module`, it is among its parameters.

    It shares the memory of `data`, is a leaf, and in calls it is a plain tensor. A tensor whose class handles operators
    (`__tensor_dispatch__`) stays of its class; ``isinstance(x, Parameter)`` knows it by an attribute.

    Args:
        data: any tensor; an empty one where there is none.
        requires_grad: If True, autograd records operations on it. Default: True.

    Source: torch.nn.Parameter.

    Example:
        >>> import triten as tt
        >>> w = tt.nn.Parameter(tt.ones(2))
        >>> w.requires_grad, w.is_leaf, type(w * 2).__name__
        (True, True, 'Tensor')
    """

    __tensor_function__ = disabled_tensor_function  # type: ignore[assignment]

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Self:
        if data is not None and type(data) is not Tensor and not issubclass(type(data), Parameter | Buffer):
            return _of_its_class(data, requires_grad)  # type: ignore[no-any-return]
        return cls._make_subclass(cls, _ops.empty(0) if data is None else data, requires_grad)

    def __del__(self) -> None:
        hold_leaf(self)

    @property
    def data(self) -> Tensor:
        """The plain tensor over the same bytes, without history; setting it exchanges them."""
        data: Tensor | None = followed(self) if followers else None
        if data is not None:
            return data
        return Tensor.from_data(self._data, self._spec.detached)

    @data.setter
    def data(self, value: Tensor) -> None:
        Tensor.data.fset(self, value)  # type: ignore[attr-defined]

    def __repr__(self) -> str:
        return f"Parameter containing:\n{super().__repr__()}"

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        made: Self | None = memo.get(id(self))
        if made is None:
            made = memo[id(self)] = type(self)(self.detach().clone(), self.requires_grad)
        return made

    def __reduce_ex__(self, protocol: Any) -> Any:
        args = type(self), self.detach().as_subclass(Tensor), self.requires_grad
        return _rebuilt, args, self.__dict__ or None


def _of_its_class(data: Any, requires_grad: bool) -> Any:
    """Return a parameter that stays of the class of `data`, a subclass of `Tensor`.

    Raises:
        AttributeError: `data` is no tensor.
        RuntimeError: ``data.detach()`` is of another class.
    """
    kind = type(data).__name__
    if not isinstance(data, Tensor):
        raise AttributeError(
            f"Parameter(): argument 'data' must be Tensor, not {kind}; convert it with tensor(data)"
        )
    made: Any = data.detach()  # a subclass may override it
    if type(made) is not type(data):
        raise RuntimeError(
            f"Creating a Parameter from an instance of type {kind} requires that detach() returns an instance of the "
            f"same type, but return type {type(made).__name__} was found instead. To use the type as a Parameter, "
            "please correct the detach() semantics defined by its __torch_dispatch__() implementation."
        )
    made._is_param = True  # type: ignore[attr-defined]  # as `isinstance(x, Parameter)` knows it
    if made.requires_grad != requires_grad:
        made._set_requires_grad(requires_grad)
    return made


def _rebuilt(cls: type[Parameter], data: Tensor, requires_grad: bool) -> Parameter:
    return cls(data, requires_grad)


class Buffer(Tensor):
    """A tensor that a module keeps and does not train: assigned to an attribute of a `Module`, it is a buffer.

    Args:
        data: any tensor; an empty one where there is none.
        persistent: If True, include it in the module's `state_dict`. Default: True.

    Source: torch.nn.Buffer.

    Example:
        >>> import triten as tt
        >>> class Counter(tt.nn.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.count = tt.nn.Buffer(tt.zeros(()))
        >>> list(Counter().state_dict())
        ['count']
    """

    __tensor_function__ = disabled_tensor_function  # type: ignore[assignment]

    persistent: bool

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Self:
        made = cls._make_subclass(cls, _ops.empty(0) if data is None else data, False)
        made.persistent = persistent
        return made


plain_classes.update((Parameter, Buffer))
