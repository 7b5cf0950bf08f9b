"""`tt.functional`: functions over any number of tensors, as PyTorch's tree has them (`torch.functional`)."""

from .dispatch.functions import variadic as _variadic
from .dispatch.functions.variadic import *  # noqa: F403 - the same names

__all__ = _variadic.__all__
