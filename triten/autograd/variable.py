"""`Variable`, which PyTorch had before tensors did all of it (`torch.autograd.variable`)."""

from ..dispatch.autograd.old_variable import (
    Variable,
)

__all__ = [
    "Variable",
]
