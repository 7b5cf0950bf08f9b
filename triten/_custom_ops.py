"""The former place of `tt.library`'s functions for operators of one's own; programs import it (`torch._custom_ops`)."""

from .library import custom_op as custom_op
from .library import register_fake as impl_abstract

__all__ = ["custom_op", "impl_abstract"]
