"""`tt.functional`: functions over any number of tensors, as PyTorch's tree has them (`torch.functional`)."""

from .dispatch.functions import variadic as _variadic
from .dispatch.functions.variadic import *  # noqa: F403 - the same names

__all__ = _variadic.__all__


def __getattr__(name: str) -> object:
    if name == "F":  # PyTorch's module imports it under this name, and programs use it
        from .nn import functional

        return functional
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
