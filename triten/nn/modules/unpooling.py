"""Layers that undo max pooling."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from .. import functional as F
from .module import Module

if TYPE_CHECKING:
    from ...dispatch.tensor import Tensor

__all__ = ["MaxUnpool1d", "MaxUnpool2d", "MaxUnpool3d"]


class _MaxUnpoolNd(Module):
    function: Callable[..., Tensor]
    rank: int

    def __init__(
        self,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] | None = None,
        padding: int | Sequence[int] = 0,
    ) -> None:
        super().__init__()
        sizes = (kernel_size, kernel_size if stride is None else stride, padding)
        self.kernel_size, self.stride, self.padding = (
            (size,) * self.rank if not isinstance(size, Iterable) else tuple(size) for size in sizes
        )

    def forward(self, input: Tensor, indices: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        """Place maxima (N, C, *) or (C, *) at their indices, with zeros elsewhere."""
        return type(self).function(input, indices, self.kernel_size, self.stride, self.padding, output_size)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpoolNd):
    """The maxima of `MaxPool1d` where they were, zeros elsewhere (`torch.nn.MaxUnpool1d`)."""

    function = staticmethod(F.max_unpool1d)
    rank = 1


class MaxUnpool2d(_MaxUnpoolNd):
    """The maxima of `MaxPool2d` where they were, zeros elsewhere (`torch.nn.MaxUnpool2d`).

    Example:
        >>> import triten as tt
        >>> pool, unpool = tt.nn.MaxPool2d(2, return_indices=True), tt.nn.MaxUnpool2d(2)
        >>> unpool(*pool(tt.arange(4.0).view(1, 2, 2))).tolist()
        [[[0.0, 0.0], [0.0, 3.0]]]
    """

    function = staticmethod(F.max_unpool2d)
    rank = 2


class MaxUnpool3d(_MaxUnpoolNd):
    """The maxima of `MaxPool3d` where they were, zeros elsewhere (`torch.nn.MaxUnpool3d`)."""

    function = staticmethod(F.max_unpool3d)
    rank = 3
