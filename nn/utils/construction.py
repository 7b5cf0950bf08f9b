"""Modules without initial values, and weights in another memory format."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from ...runtime.memory_format import memory_format as MemoryFormat
from ..modules.convolution import Conv2d, Conv3d, ConvTranspose2d, ConvTranspose3d
from ..modules.module import Module

if TYPE_CHECKING:
    from ...dispatch.tensor import Tensor

Made = TypeVar("Made", bound=Module)

__all__ = ["convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format", "skip_init"]


def skip_init(module_cls: type[Made], *args: Any, **kwargs: Any) -> Made:
    """A module whose parameters are uninitialised memory (`torch.nn.utils.skip_init`).

    Args:
        module_cls: a class that takes ``device``.
        args, kwargs: what it is made with.

    Raises RuntimeError for another class.

    Example:
        >>> import triten as tt
        >>> tt.nn.utils.skip_init(tt.nn.Linear, 2, 3).weight.shape
        triten.Size([3, 2])
    """
    if not isinstance(module_cls, type) or not issubclass(module_cls, Module):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError("Module must support a 'device' arg to skip initialization")
    device = kwargs.pop("device", "cpu")
    make: Callable[..., Made] = module_cls
    return make(*args, **kwargs, device="meta").to_empty(device=device)


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
