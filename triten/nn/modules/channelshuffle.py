"""Shuffle of channels between groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...dispatch.generated import functions as _ops
from .module import Module

if TYPE_CHECKING:
    from ...dispatch.tensor import Tensor

__all__ = ["ChannelShuffle"]


class ChannelShuffle(Module):
    """Shuffle of the channels of `groups` groups (`torch.nn.ChannelShuffle`).

    Example:
        >>> import triten as tt
        >>> tt.nn.ChannelShuffle(2)(tt.arange(4).view(1, 4, 1, 1)).flatten().tolist()
        [0, 2, 1, 3]
    """

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, input: Tensor) -> Tensor:
        """Shuffle the channels of `input` between groups."""
        return _ops.channel_shuffle(input, self.groups)

    def extra_repr(self) -> str:
        return f"groups={self.groups}"
