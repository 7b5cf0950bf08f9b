"""Modules without initial values."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from ..modules.module import Module

if TYPE_CHECKING:
    pass
Made = TypeVar("Made", bound=Module)

__all__ = ["skip_init"]


def skip_init(module_cls: type[Made], *args: Any, **kwargs: Any) -> Made:
    """Build a module whose parameters are uninitialized memory (`torch.nn.utils.skip_init`).

    Args:
        module_cls: a class that takes ``device``.
        args, kwargs: The arguments of the class.

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
