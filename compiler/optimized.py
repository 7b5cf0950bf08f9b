"""A compiled function: its graphs by the look of the arguments, and the function itself for what no graph serves."""

from __future__ import annotations

import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..dispatch.core.dispatcher import Dispatcher
from ..dispatch.layers.pytree import tree_flatten
from ..runtime import determinism
from ..runtime.device import get_default_device
from ..runtime.grad_mode import grad_disabled, inference_enabled, is_grad_enabled
from ..runtime.local_dispatch_key_set import local, modes
from ..runtime.scalar_type import get_default_dtype
from ..runtime.storage import root_of
from ..runtime.traceback_filter import hide_inner_frames
from .backends import Backend
from .call_key import SPEC, is_plain_call, signature
from .capture.recording import record
from .capture.unsupported import Unsupported, is_own
from .compilation import Compilation, compiled
from .debug_files import write_debug_files
from .dynamic_shapes.sizes_seen import SizesSeen, look_without_sizes
from .options import PLAIN_OPTIONS, Options
from .stances import state as stance

LIMIT = 8
"""Graphs of one function, after which calls that none serves run eagerly (`torch._dynamo.config.recompile_limit`)."""
SIZES = 64
"""Graphs of one function for other sizes than were captured; the oldest is dropped, and made again if it is wanted."""
CAPTURED_SIZES = 16
"""Those of them that may be captured as CUDA graphs, each of which has memory of its own."""
ATTEMPTS = 3
"""How often a call that could not be captured is tried: what a first call sets up does not change in the next."""

every: weakref.WeakSet[OptimizedFunction] = weakref.WeakSet()
"""All compiled functions, for `reset`."""


@dataclass
class Attempt:
    """A call that could not be captured: why, and how often it was tried."""

    reason: Unsupported
    count: int = 1


class OptimizedFunction:
    """A function that runs as a graph wherever one serves the call, and otherwise as it is.

    Args:
        function: what is compiled.
        backend: a built-in one's name, or a function.
        fullgraph: raise `Unsupported` for a call that cannot be captured.
        limit: the most graphs; None for `LIMIT`.
        options: how graphs are compiled.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        backend: str | Backend,
        fullgraph: bool,
        limit: int | None = None,
        options: Options = PLAIN_OPTIONS,
    ) -> None:
        self.function = function
        self.backend = backend
        self.fullgraph = fullgraph
        self.own_limit = limit
        self.options = options
        self.name = getattr(function, "__name__", type(function).__name__)
        self._lock = threading.RLock()
        self.forget()
        every.add(self)

    def forget(self) -> None:
        """Drop all graphs."""
        self.compilations: dict[Any, list[Compilation]] = {}
        self.quick: dict[Any, list[Compilation]] = {}
        self.failures: dict[Any, Attempt] = {}
        self.sizes: dict[Any, SizesSeen] = {}
        self.made_for_sizes: dict[Any, None] = {}
        self.count = 0
        self.recompilations: list[str] = []
        self._is_told = False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run a graph, captured now if there is none for such arguments, or the function."""
        if not kwargs and not modes and not inference_enabled:
            # Tensors alone, in a thread without modes, as in most calls: they are not walked through.
            try:
                state = not grad_disabled or is_grad_enabled(), get_default_dtype(), get_default_device()
                key = (*state, *map(SPEC, args))
                known = self.quick.get(key) if len(args) == 1 or len({*map(id, args)}) == len(args) else None
            except AttributeError:
                known = None
            if known is not None and stance.stance == "default":
                for each in known:
                    held = each.hold()
                    if held is not None and not each.written:
                        try: return each.finish(each.run((*args, *held)))  # fmt: skip
                        except BaseException:
                            hide_inner_frames()
                            raise
        return self._call(args, kwargs)

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self.backend == "eager" or stance.stance == "force_eager" or not_for_graphs():
            return self.function(*args, **kwargs)
        try:
            leaves, spec = tree_flatten((args, kwargs))
            tensors, key = signature(leaves, spec)
            if tensors is None:
                return self.function(*args, **kwargs)
            for each in self.compilations.get(key, ()):
                held = each.hold()
                if held is not None:
                    inputs = [*tensors, *held]
                    if not each.written or not overlapping(inputs, each.written):
                        return each.finish(each.run(inputs))
                    return self.function(*args, **kwargs)
            return self._miss(args, kwargs, leaves, spec, tensors, key)
        except BaseException:
            hide_inner_frames()
            raise

    def _miss(self, args: Any, kwargs: Any, leaves: Any, spec: Any, tensors: Any, key: Any) -> Any:
        failed = self.failures.get(key)
        if failed is not None and failed.count >= ATTEMPTS:
            if self.fullgraph:
                raise Unsupported(
                    f"{self.name} cannot be captured: {failed.reason.reason}", failed.reason.place
                )
            return self.function(*args, **kwargs)
        if self.options.dynamic is not False and self._made_for_sizes(leaves, spec, tensors, key):
            return self(*args, **kwargs)
        if self._may_compile(key):
            with self._lock:
                made = self._capture(leaves, spec, tensors, key)
            if made is not None:
                return self(*args, **kwargs)
        return self.function(*args, **kwargs)

    def _made_for_sizes(self, leaves: Any, spec: Any, tensors: Any, key: Any) -> bool:
        """Whether a graph was made for a call that differs in sizes from earlier ones, without capturing it."""
        if self.backend != "triten" or key in self.compilations or stance.stance != "default":
            return False
        look = look_without_sizes(key)
        if look is None or not tensors:
            return False
        with self._lock:
            seen = self.sizes.setdefault(look, SizesSeen())
            recording = seen.recording(self.function, leaves, spec, tensors)
            if recording is None or recording.guards.hold() is None:
                return False
            is_captured = self.options.cudagraphs and len(self.made_for_sizes) < CAPTURED_SIZES
            options = replace(self.options, tunes=False, cudagraphs=is_captured)
            try:
                made = compiled(recording, self.backend, tensors, options)
            except Unsupported:
                return False
            self._add(made, leaves, spec, tensors, key)
            self.made_for_sizes[key] = None
            if len(self.made_for_sizes) > SIZES:
                oldest = next(iter(self.made_for_sizes))
                del self.made_for_sizes[oldest]
                gone = self.compilations.pop(oldest, None)
                self.quick = {quick: known for quick, known in self.quick.items() if known is not gone}
        return True

    def _add(self, made: Compilation, leaves: Any, spec: Any, tensors: Any, key: Any) -> None:
        same_look = self.compilations.setdefault(key, [])
        same_look.insert(0, made)
        if is_plain_call(leaves, spec, tensors):
            state = is_grad_enabled(), get_default_dtype(), get_default_device()
            self.quick[(*state, *map(SPEC, leaves))] = same_look

    def _may_compile(self, key: Any) -> bool:
        if self.count and stance.stance == "fail_on_recompile":
            raise RuntimeError(f"{self.name}: {self._why(key)}, and the stance is 'fail_on_recompile'")
        if self.count and stance.stance == "eager_on_recompile":
            return False
        if self.count >= (LIMIT if self.own_limit is None else self.own_limit):
            if not self._is_told:
                self._is_told = True
                warnings.warn(
                    f"compile: {self.name} has {self.count} graphs, which is recompile_limit; calls that none of them "
                    f"serves run eagerly. The last one was made because {self._why(key)}",
                    stacklevel=levels_to_the_user(),
                )
            return False
        return True

    def _why(self, key: Any) -> str:
        """Why a call needs another graph."""
        known = self.compilations.get(key)
        if not known:
            return "arguments of another look came"
        return known[-1].recording.guards.broken() or "its inputs share memory"

    def _capture(self, leaves: Any, spec: Any, tensors: Any, key: Any) -> Compilation | None:
        if self.count:
            self.recompilations.append(self._why(key))
        try:
            recording = record(self.function, leaves, spec)
            made = compiled(recording, stance.backend or self.backend, tensors, self.options)
        except Unsupported as error:
            failed = self.failures.get(key)
            if failed is None:
                self.failures[key] = Attempt(error)
            else:
                failed.reason, failed.count = error, failed.count + 1
            if self.fullgraph:
                raise Unsupported(f"{self.name} cannot be captured: {error.reason}", error.place) from error
            return None
        self.failures.pop(key, None)
        write_debug_files(self.name, self.count, made.recording, made.schedules)
        self._add(made, leaves, spec, tensors, key)
        self.count += 1
        return made


def levels_to_the_user() -> int:
    """The `stacklevel` of a warning that its caller gives, such that it names the user's line."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and is_own(frame.f_code.co_filename):
        frame, level = frame.f_back, level + 1
    return level


def not_for_graphs() -> bool:
    """Whether this thread's operators go through keys that a graph passes by: modes, tracers, vmap, the profiler."""
    return bool(modes) and bool(local.included or local.excluded)


def overlapping(inputs: Sequence[Any], written: Sequence[int]) -> bool:
    """Whether a tensor that is written to shares memory with another input."""
    roots = [id(root_of(tensor._data)) for tensor in inputs]
    return any(roots.count(roots[i]) > 1 for i in written)


def forget_all() -> None:
    """Drop every graph of every compiled function."""
    for each in list(every):
        each.forget()


Dispatcher.singleton().on_change.append(forget_all)
determinism.on_change.append(forget_all)
