"""Signals (`torch.signal`), as ``tt.signal``: a folder called ``signal`` would stand before Python's module of that
name for programs that run in this one's root.
"""

from . import windows as windows

__all__ = ["windows"]
