"""Session of a running profiler: its wrappers of plans, kernels, nodes, allocators and launches, and their removal.

One runs at a time in a process. It logs the thread that started it, or all threads if requested.
"""

from __future__ import annotations

import sys
import threading
from _thread import get_ident
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from importlib import import_module
from time import perf_counter_ns
from types import FrameType
from typing import TYPE_CHECKING, Any

from ....runtime.cuda.driver import current_driver
from ....runtime.dispatch_key import DispatchKey
from ....runtime.fork_lock import forkable
from ....runtime.profiler_ranges import sessions
from ....runtime.scalar_type import dtype as ScalarType
from ...autograd.node import AccumulateGrad, Node
from ...autograd.node_observation import ObservedNodes
from ...core.dispatcher import Dispatcher
from ...core.kernel_function import Plan
from ...core.operator_entry import OperatorEntry, observers
from ...structured.stub import recorders
from .devices import DeviceRecorder, DeviceWork
from .flops import flops_of
from .log import KernelSite, LaunchSite, MemorySite, OperatorSite, RangeSite, Stack, ThreadLog
from .memory import record_allocations

if TYPE_CHECKING:
    from ....runtime.scalar_type import Number
    from ...tensor import Tensor
    from .profile import record_function

_lock = forkable(threading.RLock())


def active() -> Session | None:
    """Return the session that runs, or None."""
    session: Session | None = sessions[0] if sessions else None
    return session


class _OpenModules(threading.local):
    """Module calls in progress in a thread: log, site, place, start and stack."""

    def __init__(self) -> None:
        self.calls: list[tuple[list[Any] | None, RangeSite, int, int, Stack | None]] = []


class Session:
    """Observations of one profiler, from `install` to `remove`.

    Args:
        cpu, cuda: If True, record the activity.
        record_shapes, profile_memory, with_stack, with_flops, with_modules: As in `profile`.
        all_threads: If True, record all threads, not only the thread that installs the session.
    """

    def __init__(
        self,
        *,
        cpu: bool,
        cuda: bool,
        record_shapes: bool,
        profile_memory: bool,
        with_stack: bool,
        with_flops: bool,
        with_modules: bool,
        all_threads: bool,
    ) -> None:
        self.cpu = cpu
        self.record_shapes = record_shapes
        self.profile_memory = profile_memory
        self.with_stack = with_stack
        self.with_flops = with_flops
        self.with_modules = with_modules
        self.all_threads = all_threads
        self.logs: dict[int, ThreadLog] = {}
        self.owner = 0
        self.log: list[Any] = []
        self.freed_elsewhere: list[Any] = []
        self.started = self.stopped = 0
        self.clock = perf_counter_ns
        self.devices = DeviceRecorder(self) if cuda else None
        self._nodes: ObservedNodes | None = None
        self._modules: dict[int, tuple[Any, RangeSite]] = {}
        self._open_modules = _OpenModules()
        self._undo = ExitStack()

    def install(self) -> None:
        """Start to observe. Raises RuntimeError while another session runs; a failure leaves nothing installed."""
        with _lock:
            if sessions:
                raise RuntimeError(
                    "Can't start a profiler: another one is running in this process already; stop it first"
                )
            sessions.append(self)
        try:
            self.owner = get_ident()
            own = self.logs[self.owner] = ThreadLog(self.owner)
            self.log = own.entries
            self._undo.callback(Dispatcher.singleton().forget_all)
            if self.cpu:
                observers.append(self._observe)
                self._undo.callback(observers.remove, self._observe)
                recorders.append(self._record)
                self._undo.callback(recorders.remove, self._record)
                self._nodes = ObservedNodes(self._run_node)
                self._undo.callback(self._nodes.close)
                if self.with_modules:
                    self._observe_modules()
            elif self.devices is not None:
                recorders.append(self._find_devices)
                self._undo.callback(recorders.remove, self._find_devices)
            if self.profile_memory:
                record_allocations("cpu", self, self._undo)
                if self.devices is not None:
                    record_allocations("cuda", self, self._undo)
            self._observe_device()
            Dispatcher.singleton().forget_all()
        except BaseException:
            self.remove()
            raise
        self.begin()

    def remove(self) -> None:
        """Stop observing, and restore all wrapped functions even if an error occurs meanwhile."""
        with _lock:
            try:
                self._undo.close()
            finally:
                sessions.remove(self)

    def begin(self) -> None:
        """Discard the log and start again."""
        if self.devices is not None:
            self.devices.clear()
        for log in list(self.logs.values()):
            log.entries.clear()
        self.freed_elsewhere.clear()
        self.started = perf_counter_ns()

    def finish(self) -> tuple[list[tuple[ThreadLog, list[Any]]], list[Any], list[DeviceWork]]:
        """Return the log: each thread's entries, memory freed by other threads, and the devices' work.

        Waits for the devices, so that their times are known.
        """
        self.stopped = perf_counter_ns()
        logs = [(log, log.entries.copy()) for log in list(self.logs.values())]
        work = [] if self.devices is None else self.devices.collect()
        return logs, self.freed_elsewhere.copy(), work

    def log_of_thread(self) -> list[Any] | None:
        """Return this thread's log; None for a thread that is not recorded."""
        ident = get_ident()
        if ident == self.owner:
            return self.log
        if not self.all_threads:
            return None
        thread_log = self.logs.get(ident)
        if thread_log is None:
            thread_log = self.logs[ident] = ThreadLog(ident)
        return thread_log.entries

    def _observe(self, op: OperatorEntry, key: DispatchKey, args: Sequence[Any], plan: Plan) -> Plan:
        """Wrap `plan` so that it logs each call."""
        if self._nodes is not None:
            self._nodes.cover()
        self._observe_device()
        site = OperatorSite(op.name, key, args if self.record_shapes else None)
        if self.with_flops:
            site.flops = flops_of(site.name, args)
        if self.with_stack or self.all_threads:
            return lambda *values: self.run(site, plan, values)
        return written_down(site, plan, len(op.runtime_positions(args)), self.owner, self.log)

    def _record(
        self, name: str, dtype: ScalarType | None, function: Callable[..., Any]
    ) -> Callable[..., Any]:
        """Wrap a kernel's `function` to log each run."""
        site = KernelSite(name, dtype)
        owner, append = self.owner, self.log.append
        if self.all_threads:

            def recorded_anywhere(*data: Any) -> Any:
                log = self.log_of_thread()
                if log is not None:
                    log.append(site)
                return function(*data)

            return recorded_anywhere

        def recorded(*data: Any) -> Any:
            if get_ident() == owner:
                append(site)
            return function(*data)

        return recorded

    def _find_devices(
        self, name: str, dtype: ScalarType | None, function: Callable[..., Any]
    ) -> Callable[..., Any]:
        """Wrap a kernel's `function` to detect only the first use of a device."""
        self._observe_device()
        return function

    def run(self, site: Any, function: Callable[..., Any], values: Sequence[Any]) -> Any:
        """Call and log, in any thread, with a stack if requested."""
        log = self.log_of_thread()
        if log is None:
            return function(*values)
        log_index = len(log)
        stack = stack_of_caller() if self.with_stack else ()
        start = perf_counter_ns()
        try:
            return function(*values)
        finally:
            end = perf_counter_ns()
            log.extend(
                (site, log_index, start, end, stack) if self.with_stack else (site, log_index, start, end)
            )

    def _run_node(self, node: Node, backward: Callable[..., Any], grads: tuple[Any, ...]) -> Any:
        """Run a node and log it, inside the engine's own work for the node."""
        name = node.name() if node.__class__ is not AccumulateGrad else "torch::autograd::AccumulateGrad"
        site = RangeSite(name, "cpu_op", node.sequence)
        evaluated = RangeSite(f"autograd::engine::evaluate_function: {name}", "cpu_op", node.sequence)
        return self.run(evaluated, self.run, (site, backward, (node, *grads)))

    def range(self, name: str) -> record_function:
        """Return a context manager that logs a range."""
        from .profile import record_function

        return record_function(name)

    def _observe_modules(self) -> None:
        """Log the calls of all modules of `nn`, which is a higher layer than the dispatcher."""
        hooks = import_module(f"{_PACKAGE}nn.modules.global_hooks")
        for handle in (
            hooks.register_module_forward_pre_hook(self._enter_module),
            hooks.register_module_forward_hook(self._leave_module, always_call=True),
        ):
            self._undo.callback(handle.remove)

    def _enter_module(self, module: Any, args: Any) -> None:
        """Log that a module's call begins; a forward pre-hook of all modules."""
        log = self.log_of_thread()
        known = self._modules.get(id(module))
        if known is None:
            kind = type(module)
            number = sum(type(other) is kind for other, _ in self._modules.values())
            site = RangeSite(f"nn.Module: {kind.__name__}_{number}", "python_function")
            # Keep the module alive, since a new module may get its id.
            known = self._modules[id(module)] = (module, site)
        stack = stack_of_caller() if self.with_stack else None
        self._open_modules.calls.append(
            (log, known[1], 0 if log is None else len(log), perf_counter_ns(), stack)
        )

    def _leave_module(self, module: Any, args: Any, output: Any) -> None:
        """Log a module's call at its end; a forward hook of all modules."""
        if not self._open_modules.calls:
            return  # The call began before the profiler.
        log, site, log_index, start, stack = self._open_modules.calls.pop()
        if log is not None and start >= self.started:
            end = perf_counter_ns()
            log.extend(
                (site, log_index, start, end) if stack is None else (site, log_index, start, end, stack)
            )

    def _observe_device(self) -> None:
        """Observe launches and copies from now on; runs at the first use of a CUDA device."""
        devices = self.devices
        if devices is not None and not devices.is_installed and current_driver() is not None:
            with _lock:
                if self in sessions:
                    devices.install(self._undo)

    def note_memory(self, site: MemorySite, address: int, nbytes: int) -> bool:
        """Write an allocation down; whether this thread is recorded."""
        log = self.log_of_thread()
        if log is None:
            return False
        log.extend((site, address, perf_counter_ns(), nbytes))
        return True

    def note_freed(self, site: MemorySite, address: int, nbytes: int) -> None:
        """Log that a thread has freed memory; takes no lock."""
        if self not in sessions:
            return
        log = self.log_of_thread()
        (self.freed_elsewhere if log is None else log).extend((site, address, perf_counter_ns(), -nbytes))

    def note_launch(self, site: LaunchSite, number: int, start: int) -> None:
        """Write down that work was enqueued."""
        log = self.log_of_thread()
        if log is not None:
            log.extend((site, number, start, perf_counter_ns()))


def written_down(site: OperatorSite, plan: Plan, count: int, owner: int, log: list[Any]) -> Plan:
    """Wrap a `plan` of `count` arguments to log each call by the owning thread; this is the fast path of most plans."""
    clock, extend, ident = perf_counter_ns, log.extend, get_ident
    if count == 1:

        def one(value: Any) -> Any:
            if ident() != owner:
                return plan(value)
            log_index = len(log)
            start = clock()
            try:
                return plan(value)
            finally:
                extend((site, log_index, start, clock()))

        return one
    if count == 2:

        def two(value: Tensor, other: Tensor | Number) -> Any:
            if ident() != owner:
                return plan(value, other)
            log_index = len(log)
            start = clock()
            try:
                return plan(value, other)
            finally:
                extend((site, log_index, start, clock()))

        return two

    def several(*values: Any) -> Any:
        if ident() != owner:
            return plan(*values)
        log_index = len(log)
        start = clock()
        try:
            return plan(*values)
        finally:
            extend((site, log_index, start, clock()))

    return several


_PACKAGE = f"{__name__.partition('.')[0]}."


def stack_of_caller() -> Stack:
    """Return the program's stack: code and line of each frame outside this package, innermost first."""
    frame: FrameType | None = sys._getframe(2)
    stack = []
    while frame is not None:
        if not frame.f_globals.get("__name__", "").startswith(_PACKAGE):
            stack.append((frame.f_code, frame.f_lineno))
        frame = frame.f_back
    return tuple(stack)
