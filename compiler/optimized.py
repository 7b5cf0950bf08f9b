"""Compiled functions: graphs by cache key, and the function in parts for calls without a graph."""

from __future__ import annotations

import sys
import threading
import warnings
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from types import CellType, FunctionType, MethodType
from typing import Any

from ..dispatch.core.dispatcher import Dispatcher
from ..dispatch.layers.pytree import tree_flatten
from ..nn.modules.container import Sequential
from ..nn.modules.module import Module
from ..runtime import determinism
from ..runtime.device import get_default_device
from ..runtime.fork_lock import forkable
from ..runtime.grad_mode import grad_disabled, inference_enabled, is_grad_enabled
from ..runtime.local_dispatch_key_set import local, modes
from ..runtime.scalar_type import get_default_dtype
from ..runtime.size import Size
from ..runtime.storage import root_of
from ..runtime.tensor_impl import TensorImpl
from ..runtime.traceback_filter import hide_inner_frames
from .backends import Backend
from .call_key import SPEC, flat_looks, is_plain_call, signature
from .capture.frames import Watch
from .capture.objects import containers_in
from .capture.reachable import NUMBERS
from .capture.recording import record
from .capture.side_effects import is_users
from .capture.unsupported import Unsupported, is_own
from .compilation import Compilation, compiled
from .debug_files import write_debug_files
from .dynamic_shapes.sizes_seen import SizesSeen, look_without_sizes
from .options import PLAIN_OPTIONS, Options
from .splitting.residual import PartTree
from .splitting.source import GENERATORS, FunctionSource
from .splitting.split import Split, Splitter, python_function
from .stances import state as stance
from .uncompiled_calls import AsItIs, InParts

LIMIT = 8
"""Maximum number of graphs of a function; further calls run eagerly (`torch._dynamo.config.recompile_limit`)."""
SIZES = 64
"""Graphs of one function for other sizes than were captured; the oldest is dropped, and made again if it is wanted."""
CAPTURED_SIZES = 16
"""Those of them that may be captured as CUDA graphs, each of which has memory of its own."""
ATTEMPTS = 3
"""Capture attempts for a failing call: a first call may set up state that the next call does not change."""

VARIETY = 3
"""So many values of one argument of a part have graphs of their own."""
MAX_MEMBERS = 1000
"""The most functions that are compiled since a split function calls them."""

every: weakref.WeakSet[OptimizedFunction] = weakref.WeakSet()
"""All compiled functions, for `reset`."""


@dataclass
class Attempt:
    """A call that could not be captured: why, and how often it was tried."""

    reason: Unsupported
    count: int = 1
    split: Split | None = None


class OptimizedFunction:
    """Function that runs as a graph if one matches the call, and otherwise in parts, or eagerly.

    Args:
        function: The function to compile.
        backend: The name of a built-in backend, or a function.
        fullgraph: If True, raise `Unsupported` for a call that cannot be captured.
        limit: Maximum number of graphs. Default: None, which means `LIMIT`.
        options: Compilation options.
        family: The family of compiled functions that this one belongs to; None for a function of the program.
        source: For a part, its syntax tree.
        tree: For a part, its inputs and outputs.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        backend: str | Backend,
        fullgraph: bool,
        limit: int | None = None,
        options: Options = PLAIN_OPTIONS,
        family: Family | None = None,
        source: FunctionSource | None = None,
        tree: PartTree | None = None,
    ) -> None:
        self.function = function
        self.backend = backend
        self.fullgraph = fullgraph
        self.own_limit = limit
        self.options = options
        self.name = getattr(function, "__name__", type(function).__name__)
        self.is_root = family is None
        self.family = Family(backend, limit, options) if family is None else family
        self.source, self.tree = source, tree
        self.cell: CellType | None = None
        self._lock = forkable(threading.RLock())
        self.forget()
        every.add(self)

    def forget(self) -> None:
        """Drop all graphs."""
        self.compilations: dict[Any, list[Compilation]] = {}
        self.quick: dict[Any, list[Any]] = {}
        self.failures: dict[Any, Attempt] = {}
        self.sizes: dict[Any, SizesSeen] = {}
        self.made_for_sizes: dict[Any, None] = {}
        self.count = 0
        self.recompilations: list[str] = []
        self.splitter: Splitter | None = None
        self.last_split: Split | None = None
        self.variety: dict[str, set[Any]] = {}
        self._is_told = False
        if self.is_root:
            self.family = Family(self.backend, self.own_limit, self.options)

    @property
    def graph_count(self) -> int:
        """How many graphs it has that compute something."""
        return len(self.graphs())

    def graphs(self) -> list[Compilation]:
        """Return the compilations with operators."""
        return [each for same_look in self.compilations.values() for each in same_look if each.has_operators]

    @property
    def can_be_split(self) -> bool:
        """True if the function has source that can be split by its syntax tree."""
        return self._splitter().source is not None

    def members(self) -> Iterator[OptimizedFunction]:
        """Yield this function, its parts if it is split, and for a function of the program, their callees."""
        yield self
        for split in () if self.splitter is None else list(self.splitter.splits.values()):
            for part in split.parts.values():
                if isinstance(part, OptimizedFunction):
                    yield from part.members()
        if self.is_root:
            for member in list(self.family.members.values()):
                yield from member.members()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run a graph, captured now if none matches the arguments, or the function."""
        if not kwargs and not modes and not inference_enabled:
            # Tensors alone, in a thread without modes, as in most calls: they are not walked through.
            try:
                state = not grad_disabled or is_grad_enabled(), get_default_dtype(), get_default_device()
                key = (*state, *map(SPEC, args))
                count = len(args)
                if count == 1 or (args[0] is not args[1] if count == 2 else len({*map(id, args)}) == count):
                    known = self.quick.get(key)
                else:
                    known = None
            except AttributeError:
                known = []  # leave this handler before the function runs, or its `raise` would find this error
            if known is not None and stance.stance == "default":
                for each in known:
                    held = each.hold()
                    if held is None:
                        continue
                    inputs = (*args, *held)
                    if each.written and overlapping(inputs, each.written):
                        break
                    try: return each.finish(each.run(inputs))  # fmt: skip
                    except BaseException:
                        hide_inner_frames()
                        raise
                if not known:
                    return self._with_numbers(args)
        return self._call(args, kwargs)

    def _with_numbers(self, args: tuple[Any, ...]) -> Any:
        """Call the function when some arguments are not tensors."""
        looks = flat_looks(args)
        if looks is not None and stance.stance == "default":
            tensors = [each for each in args if isinstance(each, TensorImpl)]
            key = (is_grad_enabled(), get_default_dtype(), get_default_device(), *looks)
            for each in self.quick.get(key, ()) if len({*map(id, tensors)}) == len(tensors) else ():
                held = each.hold()
                if held is None:
                    continue
                inputs = (*tensors, *held)
                if each.written and overlapping(inputs, each.written):
                    break
                try: return each.finish(each.run(inputs))  # fmt: skip
                except BaseException:
                    hide_inner_frames()
                    raise
        return self._call(args, {})

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self.backend == "eager" or stance.stance == "force_eager" or not_for_graphs():
            return self.function(*args, **kwargs)
        try:
            leaves, spec = tree_flatten((args, kwargs))
            tensors, key = signature(leaves, spec)
            if tensors is None or (self.tree is not None and has_same_twice(args)):
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
                    f"{self.name} cannot be captured: {failed.reason.reason}", failed.reason.position
                )
            if len(tensors) == len(leaves) and is_plain_call(leaves, spec, tensors):
                quick_call = (
                    AsItIs(self.function) if failed.split is None else InParts(failed.split, self.splitter)
                )
                self.quick[self._quick_key(leaves)] = [quick_call]
            return self._run(failed.split, args, kwargs)
        if not self.is_root and not self.fullgraph and not self._is_worth_while(args, leaves, tensors):
            return self._run(self.last_split, args, kwargs)
        if failed is None and len(self.failures) >= LIMIT and not self.fullgraph:
            return self._run(self.last_split, args, kwargs)
        if self.options.dynamic is not False and self._made_for_sizes(leaves, spec, tensors, key):
            return self(*args, **kwargs)
        if self._may_compile(key):
            with self._lock:
                made = self._capture(leaves, spec, tensors, key)
            if made is not None:
                return self(*args, **kwargs)
            return self._run(self.failures[key].split, args, kwargs)
        return self._run(self.last_split, args, kwargs)

    def _run(self, split: Split | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run the function in parts, or eagerly."""
        if split is None or self.splitter is None or not self.splitter.is_current():
            return self.function(*args, **kwargs)
        return split(*self.splitter.prefix, *args, **kwargs)

    def _is_worth_while(self, args: tuple[Any, ...], leaves: Sequence[Any], tensors: Sequence[Any]) -> bool:
        """Return True if a part, or a callee of the program's code, is worth compiling.

        A part whose numbers or objects change in every call would need a graph for each, so their readers are split
        off.
        """
        if self.tree is None:
            return bool(tensors) or not all(isinstance(leaf, NUMBERS) for leaf in leaves)
        for name, value in zip(self.tree.inputs, args, strict=True):
            looks = self.variety.setdefault(name, set())
            if len(looks) <= VARIETY and not isinstance(value, TensorImpl):
                looks.add(look_of(value))
            if len(looks) > VARIETY:
                reason = Unsupported(f"{name} has another value in every call")
                self.last_split = self._splitter().at_reader(name, reason) or self.last_split
                if self.cell is not None and self.last_split is not None:
                    # From here on, all calls are those of the part's own parts.
                    self.cell.cell_contents = self.last_split
                return False
        return True

    def _splitter(self) -> Splitter:
        if self.splitter is None:
            self.splitter = Splitter(self.function, self._part, self.family.callee, self.source)
        return self.splitter

    def _part(self, function: FunctionType, source: FunctionSource, tree: PartTree) -> OptimizedFunction:
        made = OptimizedFunction(
            function, self.backend, False, self.own_limit, self.options, self.family, source, tree
        )
        made.name = self.name
        return made

    def _split(self, error: Unsupported, leaves: Any, spec: Any) -> Split | None:
        """Split the function at the statement that cannot be captured."""
        splitter = self._splitter()
        if splitter.source is None:
            return None
        line = None
        if splitter.span(error) is None and error.element is None and splitter.code is not None:
            watch = Watch(splitter.code)
            with suppress(Unsupported):
                record(self.function, leaves, spec, watch)
            line = watch.line
        self.last_split = splitter.at(error, line) or self.last_split
        return self.last_split

    def _quick_key(self, leaves: Sequence[Any]) -> tuple[Any, ...]:
        """Return the cache key of a call of tensors and numbers."""
        looks = flat_looks(leaves)
        assert looks is not None
        return (is_grad_enabled(), get_default_dtype(), get_default_device(), *looks)

    def _made_for_sizes(self, leaves: Any, spec: Any, tensors: Any, key: Any) -> bool:
        """Make a graph without capture for a call that differs from earlier calls in sizes. Return True on success."""
        if self.backend != "triten" or key in self.compilations or stance.stance != "default":
            return False
        look = look_without_sizes(key)
        if look is None or not tensors:
            return False
        with self._lock:
            sizes_seen = self.sizes.setdefault(look, SizesSeen())
            recording = sizes_seen.recording(self.function, leaves, spec, tensors)
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
            self.quick[self._quick_key(leaves)] = same_look

    def _may_compile(self, key: Any) -> bool:
        if self.count and stance.stance == "fail_on_recompile":
            raise RuntimeError(f"{self.name}: {self._why(key)}, and the stance is 'fail_on_recompile'")
        if self.count and stance.stance == "eager_on_recompile":
            return False
        if self.count >= (LIMIT if self.own_limit is None else self.own_limit):
            if not self._is_told and self.graph_count:
                self._is_told = True
                warnings.warn(
                    f"compile: {self.name} has {self.count} graphs, which is recompile_limit; calls that none of them "
                    f"serves run eagerly. The last one was made because {self._why(key)}",
                    stacklevel=levels_to_the_user(),
                )
            return False
        return True

    def _why(self, key: Any) -> str:
        """Return the reason why a call needs another graph."""
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
            # A copy: the error has the frames that it went through, with all that is in them.
            reason = Unsupported(error.reason, error.position, error.trail, error.element)
            failed = self.failures.setdefault(key, Attempt(reason, 0))
            failed.reason, failed.count = reason, failed.count + 1
            if self.fullgraph:
                raise Unsupported(
                    f"{self.name} cannot be captured: {error.reason}", error.position
                ) from error
            failed.split = self._split(reason, leaves, spec)
            return None
        self.failures.pop(key, None)
        write_debug_files(self.name, self.count, made.recording, made.schedules)
        self._add(made, leaves, spec, tensors, key)
        self.count += 1
        return made


class Family:
    """Family of compiled functions: the callees of a split function's statements are compiled, too.

    Args:
        backend: Their backend.
        limit: Maximum number of graphs of each.
        options: Compilation options.
    """

    def __init__(self, backend: str | Backend, limit: int | None, options: Options) -> None:
        self.backend, self.limit, self.options = backend, limit, options
        self.members: dict[Any, OptimizedFunction] = {}

    def callee(self, target: Any) -> Any:
        """Return the compiled version of a callee if it is user code; otherwise return the callee."""
        if not isinstance(target, FunctionType | MethodType | Module):
            return target
        function_and_prefix = python_function(target)
        if function_and_prefix is None or function_and_prefix[0].__code__.co_flags & GENERATORS:
            return target
        function, prefix = function_and_prefix
        if not is_users(function.__code__.co_filename) and type(target) is not Sequential:
            return target
        if prefix and not isinstance(prefix[0], Module):
            target = function  # an object is an ordinary argument
        else:
            prefix = ()
        key = (id(target.__self__), function) if isinstance(target, MethodType) else target
        known = self.members.get(key)
        if known is None:
            if len(self.members) >= MAX_MEMBERS:
                return function_and_prefix[0].__get__(prefix[0]) if prefix else target
            known = self.members[key] = OptimizedFunction(
                target, self.backend, False, self.limit, self.options, self
            )
        return partial(known, *prefix) if prefix else known


def has_same_twice(args: tuple[Any, ...]) -> bool:
    """Return True if a part's arguments contain a list or dict twice: capture would see two objects."""
    ids = [id(each) for each in containers_in(args)]
    return len(set(ids)) < len(ids)


def look_of(value: Any) -> Any:
    """Return a key that distinguishes values of an argument, ignoring tensors."""
    leaves, spec = tree_flatten(value)
    looks = [
        None
        if isinstance(leaf, TensorImpl)
        else (type(leaf), leaf)
        if isinstance(leaf, int | float | complex | str | bytes | Size)
        else id(leaf)
        for leaf in leaves
    ]
    return (spec, *looks)


def levels_to_the_user() -> int:
    """Return the `stacklevel` with which the caller's warning names the user's line."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and is_own(frame.f_code.co_filename):
        frame, level = frame.f_back, level + 1
    return level


def not_for_graphs() -> bool:
    """Return True if this thread has dispatch keys active that a graph bypasses: modes, tracers, vmap, the profiler."""
    return bool(modes) and bool(local.included or local.excluded)


def overlapping(inputs: Sequence[Any], written: Sequence[int]) -> bool:
    """Return True if a tensor that is written to shares memory with another input."""
    roots = [id(root_of(tensor._data)) for tensor in inputs]
    if len(set(roots)) == len(roots):
        return False
    shared = Counter(roots)
    return any(shared[roots[i]] > 1 for i in written)


def forget_all() -> None:
    """Drop every graph of every compiled function."""
    for each in list(every):
        each.forget()


Dispatcher.singleton().on_change.append(forget_all)
determinism.on_change.append(forget_all)
