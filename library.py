"""`tt.library`: operators of your own (`torch.library`)."""

from .dispatch.core.library import Library, fallthrough_kernel
from .dispatch.schema import infer_schema

__all__ = ["Library", "fallthrough_kernel", "infer_schema"]
