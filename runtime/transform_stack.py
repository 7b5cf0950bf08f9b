"""The function transforms that a thread is in, and the operations that they refuse (ATen/FuncTorchTLS.h).

`dispatch/layers/levels.py` enters and leaves the levels. They are stored here because `Tensor` methods and
`autograd.Function`, which are below the layers, read them.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence
from textwrap import indent
from typing import Any

from .thread_state import inherited


class _Stack(threading.local):
    """The levels that are visible in this thread, outermost first."""

    levels: tuple[Any, ...] = ()


stack = inherited(_Stack())

OR_FUNCTIONAL = "(or perhaps using torch.autograd.functional.* APIs) "
"""Part of the message for `requires_grad_`, which `tt.autograd.functional` calls too."""


def is_differentiating() -> bool:
    """Return True if this thread is inside a function that `grad`, `vjp`, `jvp` or a similar transform calls."""
    return any(level.differentiates for level in stack.levels)


def is_transforming() -> bool:
    """Return True if this thread is inside a transform other than the old `vmap`, which knows no `Function`."""
    return not all(level.is_old for level in stack.levels)


def note_tracked(tensor: Any) -> None:
    """Tell the innermost transform that differentiates of a tensor that a write has made a part of its graph."""
    for level in reversed(stack.levels):
        if level.differentiates:
            level.tracked.append(weakref.ref(tensor))
            return


def refuse_inside_transform(called: str, also: str = "") -> None:
    """Raise RuntimeError if this thread is inside a function that a transform differentiates.

    Inside `vmap` alone, autograd works as outside of it.

    Args:
        called: Name of the refused method, without parentheses.
        also: Text after the first mention of the method. Default: empty.
    """
    if is_differentiating():
        raise RuntimeError(
            f"You are attempting to call Tensor.{called}() {also}inside of a function being transformed by a functorch "
            "transform. This is unsupported, please attempt to use the functorch transforms (e.g. grad, vjp, jacrev, "
            f"jacfwd, hessian) or call {called}() outside of a function being transformed instead."
        )


def tracking_levels(tensor: Any) -> list[int]:
    """Return the numbers of the transforms that differentiate a tensor, outermost first."""
    return [each.number for each in stack.levels if each.differentiates and each.tracks(tensor)]


def tracked_text(text: str, levels: Sequence[int]) -> str:
    """Return the text of a tensor in that of each transform that differentiates it."""
    for number in levels:
        text = f"GradTrackingTensor(lvl={number}, value=\n{indent(text, ' ' * 4)}\n)"
    return text
