"""The stack of function transforms that a thread is in: vmap and grad levels (functorch/DynamicLayer.h).

Every level has a number, its depth from the outside, starting at 1. Code that runs on behalf of a level sees only the
levels outside it, so that nested transforms unwind from the inside out.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from ...runtime.dispatch_key import AUTOGRAD_BITS, Functionality, functionality_bit
from ...runtime.grad_mode import is_grad_enabled, set_grad_enabled
from ...runtime.local_dispatch_key_set import local
from ...runtime.tensor_impl import TensorImpl
from ...runtime.transform_stack import stack as _stack
from ..autograd.node import root_edge

Result = TypeVar("Result")

_DIFFERENTIATING = AUTOGRAD_BITS | functionality_bit(Functionality.ForwardAD)


class Level:
    """One transform in progress; `number` is its position on the stack."""

    __slots__ = ("number",)

    differentiates = False
    is_old = False

    def __init__(self, number: int) -> None:
        self.number = number


class VmapLevel(Level):
    """A `vmap` in progress: the size of the mapped dimension, and the mode of random operators.

    `is_old` is True for a `vmap` of `old_vmap.py`, which runs the forward of an `autograd.Function` on batched tensors.
    """

    __slots__ = ("batch_size", "is_old", "randomness")

    def __init__(self, number: int, batch_size: int, randomness: str, is_old: bool) -> None:
        super().__init__(number)
        self.batch_size = batch_size
        self.randomness = randomness
        self.is_old = is_old


class GradLevel(Level):
    """A `grad` in progress: the surrounding grad mode, in which outer levels continue to compute.

    `depth` is the number of levels around it when it began. There are more when its backward runs within others.
    `tracked` refers to the tensors that a write has made a part of the graph while it was the innermost. `sources` are
    the tensors by which it differentiates.
    """

    __slots__ = ("depth", "outer_grad_mode", "sources", "tracked")

    differentiates = True

    def __init__(self, number: int, outer_grad_mode: bool, depth: int) -> None:
        super().__init__(number)
        self.outer_grad_mode = outer_grad_mode
        self.depth = depth
        self.tracked: list[weakref.ref[Any]] = []
        self.sources: Sequence[Any] = ()

    def tracks(self, tensor: TensorImpl) -> bool:
        """Return True if the tensor is a source, or its graph leads to one."""
        if not tensor._spec.requires_grad:
            return False
        ends = {root_edge(source)[0] for source in self.sources}
        seen = {root_edge(tensor)[0]}
        stack = list(seen)
        while stack:
            node = stack.pop()
            if node in ends:
                return True
            following = {edge[0] for edge in node.next_edges if edge is not None} - seen
            seen |= following
            stack += following
        return False


@contextmanager
def entered_vmap(batch_size: int, randomness: str, is_old: bool = False) -> Iterator[VmapLevel]:
    """Enter a new innermost vmap level for the block."""
    before = _stack.levels
    level = VmapLevel(len(before) + 1, batch_size, randomness, is_old)
    _stack.levels = (*before, level)
    try:
        yield level
    finally:
        _stack.levels = before


@contextmanager
def entered_grad(depth: int | None = None) -> Iterator[GradLevel]:
    """Enter a new innermost grad level for the block; it stores the grad mode at entry.

    `depth` is that of an earlier level that this one continues.
    """
    before = _stack.levels
    level = GradLevel(len(before) + 1, is_grad_enabled(), len(before) if depth is None else depth)
    _stack.levels = (*before, level)
    try:
        yield level
    finally:
        _stack.levels = before


def current_levels() -> tuple[Level, ...]:
    """Return the levels that are visible to this thread, outermost first."""
    return _stack.levels


def is_visible(level: Level) -> bool:
    """Return True if a level belongs to this thread, and no work on behalf of it or of an outer level hides it."""
    levels = _stack.levels
    return len(levels) >= level.number and levels[level.number - 1] is level


def innermost_vmap() -> VmapLevel | None:
    """Return the innermost visible vmap level."""
    for level in reversed(_stack.levels):
        if isinstance(level, VmapLevel):
            return level
    return None


def vmap_level_of(number: int) -> VmapLevel:
    """Return the visible vmap level with this number. Raises RuntimeError if there is none."""
    levels = _stack.levels
    level = levels[number - 1] if 0 < number <= len(levels) else None
    if not isinstance(level, VmapLevel):
        raise RuntimeError(f"expected the number of a vmap in progress, got {number}")
    return level


def run_below(level: Level, function: Callable[..., Result], *args: Any) -> Result:
    """Call a function on behalf of a level; the function sees only the levels outside it.

    Excluded autograd keys are included again. An operator recorded inside the level may have operands of outer levels,
    which have not recorded it yet. The grad mode is the one around the first grad level within, because only that level
    was entered on behalf of the inner code.
    """
    levels = _stack.levels
    excluded = local.excluded
    _stack.levels = levels[: level.number - 1]
    local.excluded = excluded & ~_DIFFERENTIATING
    try:
        for inner in levels[level.number :]:
            if isinstance(inner, GradLevel) and inner.depth >= level.number:
                before = set_grad_enabled(inner.outer_grad_mode)
                try:
                    return function(*args)
                finally:
                    set_grad_enabled(before)
        return function(*args)
    finally:
        _stack.levels = levels
        local.excluded = excluded


def run_outside(level: Level, function: Callable[..., Result], *args: Any) -> Result:
    """Call a function that sees only the levels outside of `level`; all other state is the caller's."""
    levels = _stack.levels
    _stack.levels = levels[: level.number - 1]
    try:
        return function(*args)
    finally:
        _stack.levels = levels
