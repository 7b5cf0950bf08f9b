"""Layers that move elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...dispatch.generated import functions as _ops
from .. import functional as F
from .module import Module

if TYPE_CHECKING:
    from ...dispatch.tensor import Tensor

__all__ = ["ChannelShuffle", "Flatten", "PixelShuffle", "PixelUnshuffle", "Unflatten"]


class Flatten(Module):
    """Dimensions `start_dim` to `end_dim` as one (`torch.nn.Flatten`).

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
        """The input with fewer dimensions."""
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
        """The input with more dimensions."""
        return input.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"


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
        """Fewer channels of larger planes."""
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
        """More channels of smaller planes."""
        return F.pixel_unshuffle(input, self.downscale_factor)

    def extra_repr(self) -> str:
        return f"downscale_factor={self.downscale_factor}"


class ChannelShuffle(Module):
    """Channels of `groups` groups, those of each group apart from one another (`torch.nn.ChannelShuffle`).

    Example:
        >>> import triten as tt
        >>> tt.nn.ChannelShuffle(2)(tt.arange(4).view(1, 4, 1, 1)).flatten().tolist()
        [0, 2, 1, 3]
    """

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, input: Tensor) -> Tensor:
        """The channels in another order."""
        return _ops.channel_shuffle(input, self.groups)

    def extra_repr(self) -> str:
        return f"groups={self.groups}"
