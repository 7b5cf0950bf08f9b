"""Padding layers: a class is a mode and a number of spatial dimensions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from .. import functional as F
from .module import Module

if TYPE_CHECKING:
    from ...dispatch.tensor import Tensor

__all__ = [
    "CircularPad1d",
    "CircularPad2d",
    "CircularPad3d",
    "ConstantPad1d",
    "ConstantPad2d",
    "ConstantPad3d",
    "ReflectionPad1d",
    "ReflectionPad2d",
    "ReflectionPad3d",
    "ReplicationPad1d",
    "ReplicationPad2d",
    "ReplicationPad3d",
    "ZeroPad1d",
    "ZeroPad2d",
    "ZeroPad3d",
]


class _Pad(Module):
    """Base class of padding of the last `rank` dimensions."""

    rank: int
    mode: str

    def __init__(self, padding: int | Sequence[int]) -> None:
        super().__init__()
        self.padding = (padding,) * (2 * self.rank) if not isinstance(padding, Iterable) else tuple(padding)

    def forward(self, input: Tensor) -> Tensor:
        """Pad an input (N, C, *) or (C, *)."""
        return F.pad(input, self.padding, self.mode)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ConstantPadNd(_Pad):
    mode = "constant"

    def __init__(self, padding: int | Sequence[int], value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        """Pad `input`, which has at least as many dimensions as `padding` covers."""
        return F.pad(input, self.padding, self.mode, self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class _ZeroPad(_ConstantPadNd):
    def __init__(self, padding: int | Sequence[int]) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _CircularPadNd(_Pad):
    mode = "circular"

    def forward(self, input: Tensor) -> Tensor:
        """Pad an input (N, C, *) or (C, *).

        Raises:
            ValueError: The input has another number of dimensions.
        """
        if input.dim() not in (self.rank + 1, self.rank + 2):
            raise ValueError(
                f"expected {self.rank + 1}D or {self.rank + 2}D input (got {input.dim()}D input)"
            )
        return super().forward(input)


class _ReflectionPadNd(_Pad):
    """Reflections of the input, without its edges."""


class _ReplicationPadNd(_Pad):
    """Copies of the edges."""


class CircularPad1d(_CircularPadNd):
    """1D circular padding (`torch.nn.CircularPad1d`).

    Example:
        >>> import triten as tt
        >>> tt.nn.CircularPad1d((1, 2))(tt.tensor([[1.0, 2.0, 3.0]])).tolist()
        [[3.0, 1.0, 2.0, 3.0, 1.0, 2.0]]
    """

    rank = 1


class CircularPad2d(_CircularPadNd):
    """2D circular padding (`torch.nn.CircularPad2d`)."""

    rank = 2


class CircularPad3d(_CircularPadNd):
    """3D circular padding (`torch.nn.CircularPad3d`)."""

    rank = 3


class ConstantPad1d(_ConstantPadNd):
    """1D padding by a constant (`torch.nn.ConstantPad1d`).

    Example:
        >>> import triten as tt
        >>> tt.nn.ConstantPad1d((1, 2), 5.0)(tt.tensor([[1.0, 2.0, 3.0]])).tolist()
        [[5.0, 1.0, 2.0, 3.0, 5.0, 5.0]]
    """

    rank = 1


class ConstantPad2d(_ConstantPadNd):
    """2D padding by a constant (`torch.nn.ConstantPad2d`)."""

    rank = 2


class ConstantPad3d(_ConstantPadNd):
    """3D padding by a constant (`torch.nn.ConstantPad3d`)."""

    rank = 3


class ReflectionPad1d(_ReflectionPadNd):
    """1D reflection padding (`torch.nn.ReflectionPad1d`).

    Example:
        >>> import triten as tt
        >>> tt.nn.ReflectionPad1d((1, 2))(tt.tensor([[1.0, 2.0, 3.0]])).tolist()
        [[2.0, 1.0, 2.0, 3.0, 2.0, 1.0]]
    """

    rank = 1
    mode = "reflect"


class ReflectionPad2d(_ReflectionPadNd):
    """2D reflection padding (`torch.nn.ReflectionPad2d`)."""

    rank = 2
    mode = "reflect"


class ReflectionPad3d(_ReflectionPadNd):
    """3D reflection padding (`torch.nn.ReflectionPad3d`)."""

    rank = 3
    mode = "reflect"


class ReplicationPad1d(_ReplicationPadNd):
    """1D replication padding (`torch.nn.ReplicationPad1d`).

    Example:
        >>> import triten as tt
        >>> tt.nn.ReplicationPad1d((1, 2))(tt.tensor([[1.0, 2.0, 3.0]])).tolist()
        [[1.0, 1.0, 2.0, 3.0, 3.0, 3.0]]
    """

    rank = 1
    mode = "replicate"


class ReplicationPad2d(_ReplicationPadNd):
    """2D replication padding (`torch.nn.ReplicationPad2d`)."""

    rank = 2
    mode = "replicate"


class ReplicationPad3d(_ReplicationPadNd):
    """3D replication padding (`torch.nn.ReplicationPad3d`)."""

    rank = 3
    mode = "replicate"


class ZeroPad1d(_ZeroPad):
    """1D zero padding (`torch.nn.ZeroPad1d`).

    Example:
        >>> import triten as tt
        >>> tt.nn.ZeroPad1d((1, 2))(tt.tensor([[1.0, 2.0, 3.0]])).tolist()
        [[0.0, 1.0, 2.0, 3.0, 0.0, 0.0]]
    """

    rank = 1


class ZeroPad2d(_ZeroPad):
    """2D zero padding (`torch.nn.ZeroPad2d`)."""

    rank = 2


class ZeroPad3d(_ZeroPad):
    """3D zero padding (`torch.nn.ZeroPad3d`)."""

    rank = 3
