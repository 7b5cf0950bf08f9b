"""`tt.signal`: windows of signals (`torch.signal`)."""

from . import windows as windows

__all__ = ["windows"]
