"""The profiler: operators, kernels, memory and device times of a stretch of a program (torch/profiler/profiler.py).

It wraps plans, kernels and nodes only while it runs: plans are rebuilt at its start and end, and calls pay nothing
otherwise. The dispatch key ``Profiler`` is not part of it. That key remains for kernels that users register. A call
reaches them if the key is included, with or without a profiler.
"""

from __future__ import annotations

import functools
import os
import warnings
from collections.abc import Callable, Iterable
from enum import Enum
from types import TracebackType
from typing import Any

from ....runtime.cuda import driver as drivers
from .events import DeviceType, EventList, FunctionEventAvg
from .log import RangeSite
from .session import Session, active, stack_of_caller
from .tree import Recording, recording_of

__all__ = [
    "DeviceType",
    "ExperimentalConfig",
    "ProfilerAction",
    "ProfilerActivity",
    "profile",
    "record_function",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]


class ProfilerActivity(Enum):
    """Recorded activity: the host's operators, or the CUDA devices' work."""

    CPU = 0
    CUDA = 2


class ProfilerAction(Enum):
    """Action of a profiler during a step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


def supported_activities() -> set[ProfilerActivity]:
    """Return the activities that can be recorded on this machine."""
    activities = {ProfilerActivity.CPU}
    if drivers.is_available():
        activities.add(ProfilerActivity.CUDA)
    return activities


def kineto_available() -> bool:
    """Return True: device times are recorded if there is a device (`torch.profiler.kineto_available`)."""
    return True


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0, skip_first_wait: int = 0
) -> Callable[[int], ProfilerAction]:
    """Return a schedule for `profile`: skip some steps, then in cycles wait, warm up, and record.

    Args:
        wait, warmup, active: Number of steps of each phase of a cycle. The warm-up creates plans, so that planning is
            not measured.
        repeat: Number of cycles; 0 for no limit.
        skip_first: Number of steps before the first cycle.
        skip_first_wait: If true, the first cycle has no wait phase.

    Raises:
        AssertionError: for negative numbers, or nothing to record.

    Example:
        >>> import triten as tt
        >>> when = tt.profiler.schedule(wait=1, warmup=1, active=2, repeat=1)
        >>> [when(step).name for step in range(5)]
        ['NONE', 'WARMUP', 'RECORD', 'RECORD_AND_SAVE', 'NONE']
    """
    if min(wait, warmup, repeat, skip_first) < 0 or active <= 0:
        raise AssertionError(
            f"Invalid profiler schedule arguments. Got wait={wait} (need >= 0), warmup={warmup} (need >= 0), "
            f"active={active} (need > 0), repeat={repeat} (need >= 0), skip_first={skip_first} (need >= 0)."
        )
    if warmup == 0:
        warnings.warn("Profiler won't be using warmup, this can skew profiler results", stacklevel=2)
    steps = wait + warmup + active

    def action(step: int) -> ProfilerAction:
        step -= skip_first
        if step < 0:
            return ProfilerAction.NONE
        if skip_first_wait:
            step += wait
        if repeat and step // steps >= repeat:
            return ProfilerAction.NONE
        step %= steps
        if step < wait:
            return ProfilerAction.NONE
        if step < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD if step < steps - 1 else ProfilerAction.RECORD_AND_SAVE

    return action


def is_recording() -> bool:
    """Return True while a profiler records (`torch.autograd._profiler_enabled`)."""
    return active() is not None


def _always(step: int) -> ProfilerAction:
    return ProfilerAction.RECORD


class ExperimentalConfig:
    """Settings outside PyTorch's stable API.

    Args:
        verbose: Accepted because PyTorch needs it for `export_stacks`; `with_stack` alone records the stacks here.
        profile_all_threads: If True, record every thread, each with its own tid. Default: False.
    """

    def __init__(self, *, verbose: bool = False, profile_all_threads: bool = False) -> None:
        self.profile_all_threads = profile_all_threads


class profile:
    """Profiler of operators, kernels, memory and device times (`torch.profiler.profile`).

    It records the thread that starts it, and backward, which runs in the thread that calls it. One profiler runs at a
    time in a process. Its first call of each kind makes a plan, which takes time: a schedule with warm-up keeps that
    out of the measurement.

    Args:
        activities: `ProfilerActivity.CPU` and `CUDA`. Default: None, all activities of the machine. Without `CPU` only
            the devices' work is recorded. With `TRITEN_CUDA=interpret` device times are those of Triton's interpreter.
        schedule: Function from a step number to a `ProfilerAction`; see `schedule`. Default: None, record throughout.
        on_trace_ready: Function that is called with the profiler when a recording is complete.
        record_shapes: If True, record the shapes and dtypes of operators' arguments.
        profile_memory: If True, record tensors' allocations and frees, attributed to the operators. NumPy's own
            allocation of small results is off meanwhile, as it is with a user's allocator, which makes them slower.
        with_stack: If True, record the stack of each call.
        with_flops: If True, estimate the floating-point operations of matmuls, 2-D convolutions, sums and products.
        with_modules: If True, also record each call of a module, as an event ``nn.Module: Linear_0``.
        experimental_config: see `ExperimentalConfig`.

    Raises:
        AssertionError: for no activities.
        ValueError: for a value that is not an activity.
        TypeError: for a schedule or `on_trace_ready` that cannot be called.

    Example:
        >>> import triten as tt
        >>> from triten.profiler import ProfilerActivity, profile, record_function
        >>> a = tt.ones(4, 4)
        >>> with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as prof:
        ...     with record_function("model"):
        ...         y = tt.relu(a @ a)
        >>> [(e.name, e.cpu_parent and e.cpu_parent.name) for e in prof.events()]
        [('model', None), ('aten::matmul', 'model'), ('aten::mm', 'aten::matmul'), ('aten::relu', 'model')]
        >>> prof.events()[2].input_shapes, prof.events()[2].kernel_functions
        ([[4, 4], [4, 4]], [KernelFunction(name='mm_cpu', dtype=triten.float32)])
        >>> print(prof.key_averages().table(sort_by="cpu_time_total", row_limit=3))  # doctest: +SKIP
    """

    def __init__(
        self,
        *,
        activities: Iterable[ProfilerActivity] | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[[profile], Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: ExperimentalConfig | None = None,
    ) -> None:
        chosen = supported_activities() if activities is None else list(activities)
        for each in chosen:
            if not isinstance(each, ProfilerActivity):
                raise ValueError(f"profile(): activities: expected ProfilerActivity, got {each!r}")
        if not chosen:
            raise AssertionError("No valid profiler activities found")
        for name, function in (("schedule", schedule), ("on_trace_ready", on_trace_ready)):
            if function is not None and not callable(function):
                raise TypeError(
                    f"profile(): {name}: expected a callable or None, got {type(function).__name__}"
                )
        self.activities = set(chosen)
        self.schedule = _always if schedule is None else schedule
        self.on_trace_ready = on_trace_ready
        self.record_shapes = record_shapes
        self.profile_memory = profile_memory
        self.with_stack = with_stack
        self.with_flops = with_flops
        self.with_modules = with_modules
        self.all_threads = experimental_config is not None and experimental_config.profile_all_threads
        self.step_num = 0
        self.current_action = ProfilerAction.NONE
        self._record_steps = schedule is not None
        self._step: record_function | None = None
        self._session: Session | None = None
        self._recording: Recording | None = None
        self._metadata: dict[str, Any] = {}

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Begin with the schedule's first step. Raises RuntimeError while a profiler runs."""
        if self._session is not None:
            raise RuntimeError("profile.start(): this profiler is running already")
        self._go_to(self._action_of(self.step_num))
        self._begin_step()

    def stop(self) -> None:
        """End; a recording under way is complete."""
        self._end_step()
        before, self.current_action = self.current_action, ProfilerAction.NONE
        self._leave(before, is_complete=before is not ProfilerAction.WARMUP)

    def step(self) -> None:
        """Begin the next step. Without a schedule, steps only have numbers."""
        self._end_step()
        action = self._action_of(self.step_num + 1)
        self.step_num += 1
        self._go_to(action)
        self._begin_step()

    def _action_of(self, step: int) -> ProfilerAction:
        action = self.schedule(step)
        if not isinstance(action, ProfilerAction):
            raise TypeError(f"profile(): schedule({step}): expected a ProfilerAction, got {action!r}")
        return action

    def _begin_step(self) -> None:
        if self._record_steps and self._session is not None:
            self._step = record_function(f"ProfilerStep#{self.step_num}")
            self._step.__enter__()

    def _end_step(self) -> None:
        step, self._step = self._step, None
        if step is not None:
            step.__exit__(None, None, None)

    def _go_to(self, action: ProfilerAction) -> None:
        """Switch from the last step's action to another one."""
        before, self.current_action = self.current_action, action
        none, warmup, record, save = ProfilerAction
        if before is save:
            self._leave(before, is_complete=True)
        elif before in (warmup, record) and action in (none, warmup) and before is not action:
            warnings.warn(f"Incorrect schedule: {before.name} followed by {action.name}", stacklevel=3)
            self._leave(before, is_complete=False)
        if action is none:
            return
        if self._session is None:
            self._install()
        elif before is warmup and action in (record, save):
            self._session.begin()

    def _install(self) -> None:
        session = Session(
            cpu=ProfilerActivity.CPU in self.activities,
            cuda=ProfilerActivity.CUDA in self.activities,
            record_shapes=self.record_shapes,
            profile_memory=self.profile_memory,
            with_stack=self.with_stack,
            with_flops=self.with_flops,
            with_modules=self.with_modules,
            all_threads=self.all_threads,
        )
        session.install()
        self._session = session

    def _leave(self, action: ProfilerAction, is_complete: bool) -> None:
        """Stop observing; keep the recording, and report it if it is complete."""
        session, self._session = self._session, None
        if session is None:
            return
        try:
            if action is not ProfilerAction.WARMUP:
                self._recording = recording_of(session)
        finally:
            session.remove()
        if is_complete and self.on_trace_ready is not None:
            self.on_trace_ready(self)

    @property
    def profiler(self) -> profile | None:
        """The profiler itself, once it has started: PyTorch has the events of `torch.autograd.profiler` here."""
        return None if self._session is None and self._recording is None else self

    @property
    def function_events(self) -> EventList:
        """The events of the last recording, as `events` gives them."""
        return self.events()

    def _recorded(self, operation: str) -> Recording:
        if self._recording is None:
            raise AssertionError(f"Profiler must be initialized before {operation}")
        return self._recording

    def events(self) -> EventList:
        """Return the events of the last recording by their start, including operators and device work."""
        return self._recorded("accessing events").events

    def key_averages(self, group_by_input_shape: bool = False, group_by_stack_n: int = 0) -> EventList:
        """Return `EventList.key_averages` of the last recording's events. Its `table` gives the overview."""
        return self._recorded("getting key averages").events.key_averages(
            group_by_input_shape, group_by_stack_n
        )

    def total_average(self) -> FunctionEventAvg:
        """Return all events of the last recording as one."""
        return self._recorded("getting the total average").events.total_average()

    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Write the last recording as JSON for chrome://tracing and Perfetto; compressed for ``.gz``."""
        from .trace import write_trace

        settings = {
            name: int(getattr(self, name))
            for name in ("record_shapes", "profile_memory", "with_stack", "with_flops", "with_modules")
        }
        recording = self._recorded("exporting chrome trace")
        write_trace(os.fspath(path), recording, {**settings, **self._metadata})

    def export_stacks(self, path: str | os.PathLike[str], metric: str = "self_cpu_time_total") -> None:
        """Write the stacks of the last recording, made with `with_stack`, in the format of flame graphs.

        Args:
            path: The output file.
            metric: ``self_cpu_time_total`` or ``self_cuda_time_total``.

        Raises:
            ValueError: for another metric.
        """
        from .trace import write_stacks

        write_stacks(os.fspath(path), self._recorded("exporting stacks"), metric)

    def add_metadata(self, key: str, value: str) -> None:
        """Put a string into the trace file."""
        self._metadata[key] = str(value)

    def add_metadata_json(self, key: str, value: str) -> None:
        """Add a value, given as JSON, to the trace file. Raises ValueError for invalid JSON."""
        import json

        self._metadata[key] = json.loads(value)


class record_function:
    """Named range in the profile and in its trace (`torch.profiler.record_function`).

    It is a context manager and a decorator. Without a running profiler it does nothing.

    Example:
        >>> import triten as tt
        >>> @tt.profiler.record_function("twice")
        ... def twice(x):
        ...     return x + x
        >>> with tt.profiler.profile(activities=[tt.profiler.ProfilerActivity.CPU]) as prof:
        ...     y = twice(tt.ones(2))
        >>> [e.name for e in prof.events() if e.is_user_annotation]
        ['twice']
    """

    def __init__(self, name: str, args: str | None = None) -> None:
        if not isinstance(name, str):
            raise TypeError(f"record_function(): name: expected str, got {type(name).__name__}")
        self.name = name
        self.args = args
        self._open: list[tuple[Session, list[Any], int, int, Any] | None] = []

    def __enter__(self) -> record_function:
        session = active()
        log = None if session is None else session.log_of_thread()
        if session is None or log is None:
            self._open.append(None)
        else:
            stack = stack_of_caller() if session.with_stack else None
            self._open.append((session, log, len(log), session.clock(), stack))
        return self

    def __exit__(self, *error: object) -> None:
        opened = self._open.pop()
        if opened is None:
            return
        session, log, log_index, start, stack = opened
        if session is active() and start >= session.started:
            site = RangeSite(self.name, args=self.args)
            end = session.clock()
            log.extend(
                (site, log_index, start, end) if stack is None else (site, log_index, start, end, stack)
            )

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        name, args = self.name, self.args

        @functools.wraps(function)
        def recorded(*values: Any, **named: Any) -> Any:
            with record_function(name, args):
                return function(*values, **named)

        return recorded


def tensorboard_trace_handler(
    dir_name: str, worker_name: str | None = None, use_gzip: bool = False
) -> Callable[[profile], None]:
    """Return an `on_trace_ready` that writes each trace into a folder, which TensorBoard can show."""

    def write(prof: profile) -> None:
        import socket
        import time

        os.makedirs(dir_name, exist_ok=True)
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        ending = "json.gz" if use_gzip else "json"
        prof.export_chrome_trace(os.path.join(dir_name, f"{worker}.{time.time_ns()}.pt.trace.{ending}"))

    return write
