"""einops backend for triten tensors."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any

from einops._backends import AbstractBackend

from ... import _public as tt
from ...dispatch.tensor import Tensor

__all__ = ["TritenBackend", "register"]

_REDUCTIONS_OF_SEVERAL_DIMENSIONS = {"min": "amin", "max": "amax"}


class TritenBackend(AbstractBackend):  # type: ignore[misc]
    """Tensors for `einops.rearrange`, `reduce`, `repeat`, `pack`, `unpack`, `einsum` and `parse_shape`.

    Example:
        >>> import einops
        >>> import triten as tt
        >>> einops.reduce(tt.arange(6.0), "(a b) -> b", "mean", b=2)
        tensor([2., 3.])
    """

    framework_name = __name__.partition(".")[0]

    def is_appropriate_type(self, tensor: object) -> bool:
        """Return whether an object is a tensor."""
        return isinstance(tensor, Tensor)

    def from_numpy(self, x: Any) -> Tensor:
        """Return a tensor that shares the array's memory."""
        return tt.from_numpy(x)

    def to_numpy(self, x: Tensor) -> Any:
        """Return the tensor as an array; a copy unless the tensor is on the CPU."""
        return x.detach().cpu().numpy()

    def arange(self, start: int, stop: int) -> Tensor:
        """Return the integers from `start` up to `stop`, exclusive."""
        return tt.arange(start, stop)

    def transpose(self, x: Tensor, axes: Sequence[int]) -> Tensor:
        """Return a view with permuted dimensions."""
        return x.permute(*axes)

    def reduce(self, x: Tensor, operation: str, axes: Sequence[int]) -> Tensor:
        """Reduce dimensions by "min", "max", "sum", "mean", "prod", "any" or "all"."""
        if operation == "prod":
            for axis in sorted(axes, reverse=True):
                x = x.prod(axis)
            return x
        reduced: Tensor = getattr(x, _REDUCTIONS_OF_SEVERAL_DIMENSIONS.get(operation, operation))(tuple(axes))
        return reduced

    def stack_on_zeroth_dimension(self, tensors: Sequence[Tensor]) -> Tensor:
        """Stack the tensors along a new first dimension."""
        return tt.stack(tuple(tensors))

    def concat(self, tensors: Sequence[Tensor], axis: int) -> Tensor:
        """Concatenate the tensors along a dimension."""
        return tt.cat(tuple(tensors), axis)

    def tile(self, x: Tensor, repeats: Sequence[int]) -> Tensor:
        """Repeat the tensor along its dimensions."""
        return x.repeat(*repeats)

    def add_axis(self, x: Tensor, new_position: int) -> Tensor:
        """Return a view with a new dimension of size 1."""
        return x.unsqueeze(new_position)

    def add_axes(self, x: Tensor, n_axes: int, pos2len: dict[int, int]) -> Tensor:
        """Return a view expanded along new dimensions."""
        sizes = [-1] * n_axes
        for position, size in pos2len.items():
            x = x.unsqueeze(position)
            sizes[position] = size
        return x.expand(sizes)

    def is_float_type(self, x: Tensor) -> bool:
        """Return whether the tensor has a floating dtype."""
        return x.is_floating_point()

    def layers(self) -> ModuleType:
        """Return the module with the layers."""
        from . import layers

        return layers

    def einsum(self, pattern: str, *x: Tensor) -> Tensor:
        """Compute `tt.einsum`."""
        return tt.einsum(pattern, *x)


def register() -> None:
    """Do nothing: einops finds the backend among the subclasses of its base class."""
