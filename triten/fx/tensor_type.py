"""Types of tensors by their sizes, for annotations of traced programs (torch/fx/tensor_type.py)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["Dyn", "TensorType", "is_consistent", "is_more_precise"]


class TensorType:
    """Type of tensors with given sizes; `Dyn` stands for any size.

    Args:
        dim: The sizes. ``TensorType[1, Dyn]`` is the same as ``TensorType((1, Dyn))``.

    Source: torch.fx.tensor_type.TensorType.

    Example:
        >>> from triten.fx.tensor_type import Dyn, TensorType, is_consistent
        >>> TensorType((1, Dyn)), is_consistent(TensorType((1, Dyn)), TensorType[1, 2])
        (TensorType[(1, Dyn)], True)
    """

    def __init__(self, dim: Sequence[Any]) -> None:
        self.__origin__ = TensorType
        self.__args__ = dim

    @property
    def dims(self) -> Sequence[Any]:
        """The sizes."""
        return self.__args__

    def __repr__(self) -> str:
        return f"TensorType[{self.dims}]"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TensorType) and list(self.dims) == list(other.dims)

    def __hash__(self) -> int:
        return hash(tuple(self.dims))

    @staticmethod
    def __class_getitem__(dims: Any) -> TensorType:
        return TensorType(dims if isinstance(dims, tuple) else (dims,))


class _DynType:
    """Type of values about which nothing is known."""

    __name__ = "_DynType"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _DynType)

    def __hash__(self) -> int:
        return hash(_DynType)

    def __repr__(self) -> str:
        return "Dyn"


Dyn = _DynType()
"""Any size, or any type."""


def is_consistent(t1: Any, t2: Any) -> bool:
    """Return whether a value can have both types. The relation is reflexive and symmetric, but not transitive.

    Example:
        >>> from triten.fx.tensor_type import Dyn, TensorType, is_consistent
        >>> is_consistent(TensorType((1, Dyn)), TensorType((Dyn, 2))), is_consistent(TensorType((1,)), int)
        (True, False)
    """
    return Dyn in (t1, t2) or t1 == t2 or _all_dims(is_consistent, t1, t2)


def is_more_precise(t1: Any, t2: Any) -> bool:
    """Return whether every value of the first type is one of the second. The relation is reflexive and transitive.

    Example:
        >>> from triten.fx.tensor_type import Dyn, TensorType, is_more_precise
        >>> is_more_precise(TensorType((1, 2)), TensorType((1, Dyn))), is_more_precise(Dyn, int)
        (True, False)
    """
    return bool(t1 == t2 or t2 == Dyn) or _all_dims(is_more_precise, t1, t2)


def _all_dims(relation: Any, t1: Any, t2: Any) -> bool:
    return (
        isinstance(t1, TensorType)
        and isinstance(t2, TensorType)
        and len(t1.dims) == len(t2.dims)
        and all(map(relation, t1.dims, t2.dims))
    )
