"""Base of wrapper subclasses, which consist of other tensors: copying, printing and conversion."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any, ClassVar, Self

from ..core.tensor_function import disabled_tensor_function
from ..tensor import Tensor


class TensorOfParts(Tensor):
    """Tensor without bytes, over the tensors that `PARTS` names.

    A subclass declares its other settings in `SETTINGS`, and independent attributes in `STATE`. `like` makes another
    tensor from other parts. Its ``__tensor_dispatch__`` serves operators.
    """

    __tensor_function__ = disabled_tensor_function  # type: ignore[assignment]

    sees_parts = True

    PARTS: ClassVar[tuple[str, ...]] = ()
    SETTINGS: ClassVar[tuple[str, ...]] = ()
    STATE: ClassVar[tuple[str, ...]] = ()

    _is_param: bool

    @property
    def parts(self) -> tuple[Any, ...]:
        """The tensors that it consists of; None for an absent part."""
        return tuple(getattr(self, name) for name in self.PARTS)

    @property
    def settings(self) -> tuple[Any, ...]:
        """Settings in addition to the tensors."""
        return tuple(getattr(self, name) for name in self.SETTINGS)

    def like(self, parts: Sequence[Any] | None = None) -> Self:
        """Return the same tensor with other parts."""
        raise NotImplementedError(f"{type(self).__name__} does not say how it is made")

    @property
    def data(self) -> Tensor:
        """The same without history; setting it exchanges the parts."""
        return self.detach()

    @data.setter
    def data(self, value: Tensor) -> None:
        if type(value) is not type(self):
            raise RuntimeError(
                f"{type(self).__name__}.data: expected a {type(self).__name__}, got a {type(value).__name__}"
            )
        for name in (*self.PARTS, *self.SETTINGS, *self.STATE):
            setattr(self, name, getattr(value, name))
        self._spec, self._data = value._spec, value._data

    def __str__(self) -> str:
        return repr(self)

    def __format__(self, spec: str) -> str:
        return format(repr(self), spec)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        made: Self | None = memo.get(id(self))
        if made is None:
            made = memo[id(self)] = self.like([deepcopy(part, memo) for part in self.parts])
            if getattr(self, "_is_param", False):
                made._is_param = True
        return made
