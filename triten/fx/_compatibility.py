"""`compatibility`: a mark on functions of PyTorch's, which programs put on theirs (torch/fx/_compatibility.py)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

__all__ = ["compatibility"]

Marked = TypeVar("Marked")


def compatibility(is_backward_compatible: bool) -> Callable[[Marked], Marked]:
    """Return a decorator that returns a function or class unchanged.

    Example:
        >>> from triten.fx._compatibility import compatibility
        >>> @compatibility(is_backward_compatible=False)
        ... def f():
        ...     return 1
        >>> f()
        1
    """
    return lambda marked: marked
