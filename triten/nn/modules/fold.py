"""Layers that extract windows as columns, and sum columns into images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .. import functional as F
from .module import Module

if TYPE_CHECKING:
    from ...dispatch.tensor import Tensor

__all__ = ["Fold", "Unfold"]


class Unfold(Module):
    """Extraction of windows as columns, im2col (`torch.nn.Unfold`).

    Example:
        >>> import triten as tt
        >>> tt.nn.Unfold(2)(tt.ones(1, 2, 3, 3)).shape
        triten.Size([1, 8, 4])
    """

    def __init__(
        self,
        kernel_size: int | Sequence[int],
        dilation: int | Sequence[int] = 1,
        padding: int | Sequence[int] = 0,
        stride: int | Sequence[int] = 1,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def forward(self, input: Tensor) -> Tensor:
        """Extract windows of an input (N, C, H, W) or (C, H, W) as columns."""
        return F.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        return (
            f"kernel_size={self.kernel_size}, dilation={self.dilation}, padding={self.padding}, "
            f"stride={self.stride}"
        )


class Fold(Module):
    """Sum of columns into images, col2im (`torch.nn.Fold`).

    Example:
        >>> import triten as tt
        >>> tt.nn.Fold((3, 3), 2)(tt.ones(1, 8, 4)).shape
        triten.Size([1, 2, 3, 3])
    """

    def __init__(
        self,
        output_size: int | Sequence[int],
        kernel_size: int | Sequence[int],
        dilation: int | Sequence[int] = 1,
        padding: int | Sequence[int] = 0,
        stride: int | Sequence[int] = 1,
    ) -> None:
        super().__init__()
        self.output_size = output_size
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def forward(self, input: Tensor) -> Tensor:
        """Sum columns (N, C * kh * kw, windows) or (C * kh * kw, windows) into images."""
        return F.fold(input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        return (
            f"output_size={self.output_size}, kernel_size={self.kernel_size}, dilation={self.dilation}, "
            f"padding={self.padding}, stride={self.stride}"
        )
