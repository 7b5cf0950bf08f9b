"""Layers that flatten and unflatten dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .module import Module

if TYPE_CHECKING:
    from ...dispatch.tensor import Tensor

__all__ = ["Flatten", "Unflatten"]


class Flatten(Module):
    """Flattening of dimensions `start_dim` to `end_dim` (`torch.nn.Flatten`).

    Example:
        >>> import triten as tt
        >>> tt.nn.Flatten()(tt.ones(2, 3, 4)).shape
        triten.Size([2, 12])
    """

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input: Tensor) -> Tensor:
        """Flatten dimensions `start_dim` to `end_dim` into one."""
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """One dimension as several (`torch.nn.Unflatten`). Raises TypeError for what are no sizes.

    Example:
        >>> import triten as tt
        >>> tt.nn.Unflatten(1, (3, 4))(tt.ones(2, 12)).shape
        triten.Size([2, 3, 4])
    """

    def __init__(self, dim: int, unflattened_size: Sequence[int]) -> None:
        super().__init__()
        if not isinstance(unflattened_size, tuple | list) or not all(
            isinstance(size, int) for size in unflattened_size
        ):
            raise TypeError(f"unflattened_size must be a tuple of ints, but found {unflattened_size!r}")
        self.dim = dim
        self.unflattened_size = unflattened_size

    def forward(self, input: Tensor) -> Tensor:
        """Expand dimension `dim` to `unflattened_size`."""
        return input.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"
