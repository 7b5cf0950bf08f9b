"""Methods of `Tensor` that make tensors of a user's own class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..runtime.device import device as Device
from ..runtime.scalar_type import dtype as ScalarType


class SubclassMethods:
    """Mixin of `Tensor`."""

    __slots__ = ()

    def as_subclass(self, cls: type) -> Any:
        """This tensor's bytes as a tensor of `cls` (`torch.Tensor.as_subclass`).

        If `cls` defines ``__tensor_dispatch__(func, types, args, kwargs)``, a class method, it handles every operator
        that gets such a tensor; what it returns is the result, plain tensors included.

        Raises:
            TypeError: `cls` is no subclass of Tensor.

        Example:
            >>> import triten as tt
            >>> class Loud(tt.Tensor):
            ...     @classmethod
            ...     def __tensor_dispatch__(cls, func, types, args=(), kwargs=None):
            ...         print(func.name())
            ...         plain = [a.as_subclass(tt.Tensor) if isinstance(a, Loud) else a for a in args]
            ...         return func(*plain, **(kwargs or {}))
            >>> tt.ones(2).as_subclass(Loud) + 1
            aten::add.Tensor
            tensor([2., 2.])
        """
        from .functional.python_key import as_subclass

        return as_subclass(self, cls)  # type: ignore[arg-type]

    @staticmethod
    def _make_subclass(cls: type, data: Any, require_grad: bool = False) -> Any:
        """A tensor of `cls` over the bytes of `data` (`torch.Tensor._make_subclass`)."""
        from .functional.python_key import as_subclass

        made = as_subclass(data, cls)
        return made.requires_grad_() if require_grad else made

    @staticmethod
    def _make_wrapper_subclass(
        cls: type,
        size: Sequence[int],
        strides: Sequence[int] | None = None,
        *,
        dtype: ScalarType | None = None,
        device: Device | str | None = None,
        requires_grad: bool = False,
    ) -> Any:
        """A tensor of `cls` with metadata and no bytes (`torch.Tensor._make_wrapper_subclass`).

        Raises:
            TypeError: `cls` defines no ``__tensor_dispatch__``.
        """
        from .functional.python_key import wrapper_subclass

        made = wrapper_subclass(cls, size, strides, dtype, device)
        return made.requires_grad_() if requires_grad else made
