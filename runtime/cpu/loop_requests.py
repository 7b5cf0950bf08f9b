"""Requests of CPU kernels for compiled loops: at once, or after enough work.

A request has the function that compiles the loop, which its family's folder defines. `object_code` and llvmlite are
imported with the first loop, so small programs never import them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from enum import IntEnum
from importlib.util import find_spec
from typing import Any

from .background import background

Loop = Callable[..., None]
"""Function of arrays: the numbers of a part, outputs and inputs."""


@functools.cache
def has_compiler() -> bool:
    """Return True if llvmlite is installed. It is not imported."""
    return find_spec("llvmlite") is not None


class Sharing(IntEnum):
    """Policy for sharing a loop's parts among threads.

    Waking a thread takes 10 us, and it starts some 50 us later.
    """

    ALONE = 0
    AWAKE = 1
    """Threads that spin, or that a program in a burst of work needs again at once."""
    WAKING = 2
    """All threads."""

    @staticmethod
    def of(work: int, least: int, waking: int) -> Sharing:
        """Return the policy for this much work, from the minimum to share it and the minimum to wake threads for it."""
        return Sharing.WAKING if work >= waking else Sharing.AWAKE if work >= least else Sharing.ALONE


class DeferredLoop:
    """Loop that is compiled in the background after enough work.

    Args:
        make: Function that compiles the loop. It returns None if no loop has the bits of NumPy's passes.
        compile_threshold: Amount of work before the loop is compiled, in the kernel's own units.
    """

    __slots__ = ("compile_threshold", "done", "loop", "make")

    def __init__(self, make: Callable[[], Loop | None], compile_threshold: int) -> None:
        self.make, self.compile_threshold, self.done = make, compile_threshold, 0
        self.loop: Loop | None = None

    def beside(self, work: int) -> Loop | None:
        """Return the loop if it is compiled. Otherwise count this much work, which NumPy does."""
        loop = self.loop
        if loop is None and self.done < self.compile_threshold:
            self.done += work
            if self.done >= self.compile_threshold:
                background.ask(self._compile)
        return loop

    def _compile(self) -> None:
        self.loop = _compiled(self.make)


def eager_until_compiled(
    eager: Callable[..., object],
    deferred: DeferredLoop,
    work: int,
    prepare: Callable[[Loop], Callable[..., object]],
) -> Callable[..., None]:
    """Return a plan's kernel: NumPy's passes until the loop is compiled, then the loop.

    Args:
        eager: NumPy's passes, a function of the plan's arrays.
        deferred: The loop.
        work: Work of a call, in the units of `deferred`.
        prepare: Function that returns the plan's kernel, given the compiled loop.
    """
    run: Callable[..., object] | None = None

    def into(*data: Any) -> None:
        nonlocal run
        if run is None:
            loop = deferred.beside(work)
            if loop is None:
                eager(*data)
                return
            run = prepare(loop)
        run(*data)

    return into


@functools.cache
def loop_now(make: Callable[..., Loop | None], *arguments: Any) -> Loop | None:
    """Compile a loop now, for kernels whose results differ from NumPy's: NumPy must not run their first call.

    Args:
        make: Function that compiles the loop. It returns None if the processor lacks an instruction.
        arguments: Arguments of `make`; equal arguments give the same loop.

    Returns:
        The loop, or None if compilation fails, also for lack of memory. The process then never has this loop.
    """
    try:
        with background.busy:
            loop = _compiled(make, *arguments)
            background.is_warm = background.is_warm or loop is not None
            return loop
    except MemoryError:
        return None


def _compiled(make: Callable[..., Loop | None], *arguments: Any) -> Loop | None:
    """Call `make`; return None without llvmlite."""
    from .object_code import target

    return None if target() is None else make(*arguments)


def shared_loop(
    loop: Loop, parts: Sequence[Any], sharing: Sharing, workspace: tuple[int, int] | None
) -> Loop:
    """Return a loop as a function of its arrays other than its workspace (`task_pool.shared_loop`)."""
    from . import task_pool

    return task_pool.shared_loop(loop, parts, sharing, workspace)
