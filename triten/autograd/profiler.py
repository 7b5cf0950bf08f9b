"""The profiler by the names that it had first (`torch.autograd.profiler`), and ranges for NVIDIA's profilers.

`profile` is a `tt.profiler.profile` with the arguments from then. `emit_nvtx` shows operators where another program
records: in Nsight Systems.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from ..cuda import nvtx
from ..dispatch.autograd.node import Node
from ..dispatch.autograd.node_observation import ObservedNodes
from ..dispatch.core.dispatcher import Dispatcher
from ..dispatch.core.operator_entry import observers
from ..dispatch.layers.profiler.events import EventList, FunctionEvent, FunctionEventAvg
from ..dispatch.layers.profiler.log import shape_of
from ..dispatch.layers.profiler.profile import (
    ExperimentalConfig,
    ProfilerActivity,
    record_function,
    supported_activities,
)
from ..dispatch.layers.profiler.profile import profile as _Profile

if TYPE_CHECKING:
    from ..dispatch.core.kernel_function import Plan
    from ..dispatch.core.operator_entry import OperatorEntry
    from ..runtime.dispatch_key import DispatchKey

__all__ = [
    "EventList",
    "FunctionEvent",
    "FunctionEventAvg",
    "emit_itt",
    "emit_nvtx",
    "profile",
    "record_function",
]


class profile:
    """Records what happens in a block (`torch.autograd.profiler.profile`); see `tt.profiler.profile`.

    Args:
        enabled: False records nothing.
        use_cuda: the former name of ``use_device="cuda"``.
        use_device: ``"cuda"`` to record the devices' work too.
        record_shapes: the shapes of operators' arguments.
        with_flops: If True, estimate floating-point operations; see `tt.profiler.profile`.
        with_modules: If True, record the calls of modules.
        profile_memory: If True, record tensors' allocations and frees.
        with_stack: If True, record the Python stack of each call.
        use_kineto: has no effect.
        use_cpu: If True, operators are recorded; False leaves the devices' work. Default: True.
        experimental_config: see `tt.profiler`.

    Raises:
        RuntimeError: it is entered twice, or asked for what it recorded before the block has ended.

    Example:
        >>> import triten as tt
        >>> x = tt.ones(2)
        >>> with tt.autograd.profiler.profile() as prof:
        ...     y = x + x
        >>> [event.name for event in prof.function_events]
        ['aten::add']
    """

    def __init__(
        self,
        enabled: bool = True,
        *,
        use_cuda: bool = False,
        use_device: str | None = None,
        record_shapes: bool = False,
        with_flops: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_modules: bool = False,
        use_kineto: bool = False,
        use_cpu: bool = True,
        experimental_config: ExperimentalConfig | None = None,
    ) -> None:
        self.enabled = enabled
        self.entered = False
        if use_device not in (None, "cuda"):
            raise ValueError(f"profile(): use_device: expected 'cuda' or None, got {use_device!r}")
        activities = [ProfilerActivity.CPU] if use_cpu else []
        if (use_cuda or use_device == "cuda") and ProfilerActivity.CUDA in supported_activities():
            activities.append(ProfilerActivity.CUDA)
        self._profile: _Profile | None = None
        if enabled:
            self._profile = _Profile(
                activities=activities,
                record_shapes=record_shapes,
                profile_memory=profile_memory,
                with_stack=with_stack,
                with_flops=with_flops,
                with_modules=with_modules,
                experimental_config=experimental_config,
            )
        self._ended = False

    def __enter__(self) -> Self | None:
        if self._profile is None:
            return None
        if self.entered:
            raise RuntimeError("Profiler context manager is not reentrant")
        self.entered = True
        self._profile.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._profile is not None:
            self._profile.stop()
            self._ended = True

    def _recorded(self) -> _Profile:
        if self._profile is None or not self._ended:
            raise RuntimeError("Profiler didn't finish running")
        return self._profile

    @property
    def function_events(self) -> EventList:
        """Recorded events in time order."""
        return self._recorded().events()

    def key_averages(self, group_by_input_shape: bool = False, group_by_stack_n: int = 0) -> EventList:
        """Aggregate the events by name."""
        return self._recorded().key_averages(group_by_input_shape, group_by_stack_n)

    def total_average(self) -> FunctionEventAvg:
        """Aggregate all events."""
        return self._recorded().total_average()

    def table(self, sort_by: str | None = None, row_limit: int = 100, **options: Any) -> str:
        """Format the events as a table; see `EventList.table`."""
        return self.function_events.table(sort_by=sort_by, row_limit=row_limit, **options)

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds that the host spent in operators."""
        return self.function_events.self_cpu_time_total

    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Write a file for ``chrome://tracing`` and Perfetto."""
        self._recorded().export_chrome_trace(path)

    def export_stacks(self, path: str | os.PathLike[str], metric: str = "self_cpu_time_total") -> None:
        """Write a file of stacks for flame graphs; needs ``with_stack``."""
        self._recorded().export_stacks(path, metric)

    def __repr__(self) -> str:
        return str(self.function_events) if self._ended else "<unfinished autograd.profile>"


class emit_itt:
    """A block whose operators would be ranges of Intel's ITT (`torch.autograd.profiler.emit_itt`).

    Args:
        enabled: False emits nothing. Default: True.
        record_shapes: If True, the ranges' names would have the shapes. Default: False.

    Raises:
        RuntimeError: At entry, if it is enabled: ITT is not used here.

    Example:
        >>> import triten as tt
        >>> with tt.autograd.profiler.emit_itt(enabled=False):
        ...     y = tt.ones(2) + 1
    """

    def __init__(self, enabled: bool = True, record_shapes: bool = False) -> None:
        self.enabled = enabled
        self.record_shapes = record_shapes

    def __enter__(self) -> Self | None:
        if self.enabled:
            raise RuntimeError("emit_itt: ITT functions not installed. Use emit_nvtx, or profile.")
        return None

    def __exit__(self, *error: object) -> None:
        pass


class emit_nvtx:
    """A block whose operators and nodes of backward are ranges of NVTX (`torch.autograd.profiler.emit_nvtx`).

    To be seen by ``nsys profile``; a node's range names the sequence number of the call that made it.

    Args:
        enabled: False emits nothing.
        record_shapes: put the shapes of the arguments into the ranges' names.

    Raises:
        RuntimeError: it is entered twice, or CuPy, which brings NVTX, is not installed.

    Example:
        >>> import triten as tt
        >>> with tt.cuda.profiler.profile(), tt.autograd.profiler.emit_nvtx():
        ...     y = tt.ones(2) + 1
    """

    def __init__(self, enabled: bool = True, record_shapes: bool = False) -> None:
        self.enabled = enabled
        self.entered = False
        self.record_shapes = record_shapes
        self._undo = ExitStack()
        self._nodes: ObservedNodes | None = None

    def __enter__(self) -> Self | None:
        if not self.enabled:
            return None
        if self.entered:
            raise RuntimeError("NVTX annotation context manager is not reentrant")
        self.entered = True
        nvtx.mark("emit_nvtx")  # raises where there is no NVTX
        self._undo.callback(Dispatcher.singleton().forget_all)
        observers.append(self._observe)
        self._undo.callback(observers.remove, self._observe)
        self._nodes = ObservedNodes(self._run_node)
        self._undo.callback(self._nodes.close)
        Dispatcher.singleton().forget_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._undo.close()

    def _observe(self, op: OperatorEntry, key: DispatchKey, args: Sequence[Any], plan: Plan) -> Plan:
        """Wrap `plan` in an NVTX range; a plan observer."""
        if self._nodes is not None:
            self._nodes.cover()
        name = op.name.partition(".")[0]
        if self.record_shapes:
            name += f", sizes = {[shape_of(value) for value in args]}"

        def ranged(*values: Any) -> Any:
            nvtx.range_push(name)
            try:
                return plan(*values)
            finally:
                nvtx.range_pop()

        return ranged

    def _run_node(self, node: Node, backward: Callable[..., Any], grads: tuple[Any, ...]) -> Any:
        """Run a node's backward inside an NVTX range; a node observer."""
        nvtx.range_push(f"{node.name()}, seq = {node.sequence}")
        try:
            return backward(node, *grads)
        finally:
            nvtx.range_pop()
