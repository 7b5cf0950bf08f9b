"""Weights in another memory format."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from ...runtime.memory_format import memory_format as MemoryFormat
from ..modules.conv import Conv2d, Conv3d, ConvTranspose2d, ConvTranspose3d
from ..modules.module import Module

if TYPE_CHECKING:
    from ...dispatch.tensor import Tensor

__all__ = ["convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format"]


Made = TypeVar("Made", bound=Module)


def _converted(module: Made, kinds: tuple[type[Module], ...], memory_format: MemoryFormat) -> Made:
    for each in module.modules():
        if isinstance(each, kinds):
            weight: Tensor = each.weight
            weight.data = weight.detach().clone(memory_format=memory_format)
    return module


def convert_conv2d_weight_memory_format(module: Made, memory_format: MemoryFormat) -> Made:
    """Put the weights of a module's convolutions in the plane into a memory format
    (`torch.nn.utils.convert_conv2d_weight_memory_format`).

    Example:
        >>> import triten as tt
        >>> layer = tt.nn.Conv2d(2, 3, 3)
        >>> _ = tt.nn.utils.convert_conv2d_weight_memory_format(layer, tt.channels_last)
        >>> layer.weight.is_contiguous(memory_format=tt.channels_last)
        True
    """
    return _converted(module, (Conv2d, ConvTranspose2d), memory_format)


def convert_conv3d_weight_memory_format(module: Made, memory_format: MemoryFormat) -> Made:
    """`convert_conv2d_weight_memory_format` in space (`torch.nn.utils.convert_conv3d_weight_memory_format`)."""
    return _converted(module, (Conv3d, ConvTranspose3d), memory_format)
