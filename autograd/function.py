"""Functions with a backward of their own (`torch.autograd.function`)."""

from ..dispatch.autograd.function import (
    Function,
)

__all__ = [
    "Function",
]
