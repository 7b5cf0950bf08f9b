"""Layers that rearrange channels to pixels, and pixels to channels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import functional as F
from .module import Module

if TYPE_CHECKING:
    from ...dispatch.tensor import Tensor

__all__ = ["PixelShuffle", "PixelUnshuffle"]


class PixelShuffle(Module):
    """(*, C r r, H, W) as (*, C, H r, W r) (`torch.nn.PixelShuffle`).

    Example:
        >>> import triten as tt
        >>> tt.nn.PixelShuffle(2)(tt.ones(1, 8, 3, 3)).shape
        triten.Size([1, 2, 6, 6])
    """

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input: Tensor) -> Tensor:
        """Rearrange channels into larger planes."""
        return F.pixel_shuffle(input, self.upscale_factor)

    def extra_repr(self) -> str:
        return f"upscale_factor={self.upscale_factor}"


class PixelUnshuffle(Module):
    """(*, C, H r, W r) as (*, C r r, H, W) (`torch.nn.PixelUnshuffle`).

    Example:
        >>> import triten as tt
        >>> tt.nn.PixelUnshuffle(2)(tt.ones(1, 2, 6, 6)).shape
        triten.Size([1, 8, 3, 3])
    """

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input: Tensor) -> Tensor:
        """Rearrange planes into more channels."""
        return F.pixel_unshuffle(input, self.downscale_factor)

    def extra_repr(self) -> str:
        return f"downscale_factor={self.downscale_factor}"
