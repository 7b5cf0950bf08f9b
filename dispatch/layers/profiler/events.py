"""Results of a profiler: events, lists of them, and averages (torch/autograd/profiler_util.py).

All times are in microseconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Any, NamedTuple

from ....runtime.scalar_type import dtype as ScalarType


class DeviceType(Enum):
    """Kind of device on which an event happened."""

    CPU = 0
    CUDA = 1


class Interval(NamedTuple):
    """Time interval; `start` counts from the beginning of the recording."""

    start: float
    end: float

    def elapsed_us(self) -> float:
        """Return the length of the interval."""
        return self.end - self.start


class Kernel(NamedTuple):
    """Device work that an event enqueued; `duration` in microseconds."""

    name: str
    device: int
    duration: float


class KernelFunction(NamedTuple):
    """Kernel that an operator ran: its name in PyTorch's errors, and the dtype that it was selected for."""

    name: str
    dtype: ScalarType | None


class _Averages:
    """Values that an event and an average of events have in common."""

    key: str
    count: int
    cpu_time_total: float
    self_cpu_time_total: float
    device_time_total: float
    self_device_time_total: float
    flops: int
    cpu_memory_usage: int
    self_cpu_memory_usage: int
    device_memory_usage: int
    self_device_memory_usage: int

    @property
    def cpu_time(self) -> float:
        """The mean time of a call on the host."""
        return self.cpu_time_total / self.count if self.count else 0.0

    @property
    def device_time(self) -> float:
        """The mean time of a call on the device."""
        return self.device_time_total / self.count if self.count else 0.0


class FunctionEvent(_Averages):
    """One operator call, user range, backward node, launch, or piece of device work.

    `kernels` has the work that the event itself enqueued on devices. `kernel_functions` has the kernels that the
    operator ran, with the dtypes that selected them. `dispatch_keys` has the keys of the call, outermost first. Memory
    is in bytes; freed memory counts negative. `flops` is an estimate for some operators, with ``with_flops``.
    """

    def __init__(
        self,
        id: int,
        name: str,
        time_range: Interval,
        thread: int,
        *,
        device_type: DeviceType = DeviceType.CPU,
        device_index: int = 0,
        device_resource_id: int | None = None,
        overload_name: str = "",
        input_shapes: Sequence[Any] | None = None,
        input_types: Sequence[str] | None = None,
        stack: Sequence[str] = (),
        sequence_nr: int = -1,
        is_user_annotation: bool = False,
        category: str = "cpu_op",
        args: str | None = None,
    ) -> None:
        self.id = id
        self.name = name
        self.time_range = time_range
        self.thread = thread
        self.device_type = device_type
        self.device_index = device_index
        self.device_resource_id = thread if device_resource_id is None else device_resource_id
        self.overload_name = overload_name
        self.input_shapes = [] if input_shapes is None else list(input_shapes)
        self.input_types = [] if input_types is None else list(input_types)
        self.stack = list(stack)
        self.sequence_nr = sequence_nr
        self.is_user_annotation = is_user_annotation
        self.category = category
        self.args = args
        self.count = 1
        self.cpu_parent: FunctionEvent | None = None
        self.cpu_children: list[FunctionEvent] = []
        self.kernels: list[Kernel] = []
        self.kernel_functions: list[KernelFunction] = []
        self.dispatch_keys: list[str] = []
        self.flops = 0
        self.cpu_memory_usage = self.device_memory_usage = 0

    @property
    def key(self) -> str:  # type: ignore[override]
        """Key by which averages group events: the name."""
        return self.name

    @property
    def module_hierarchy(self) -> list[str]:
        """The calls of modules that contain the event, outermost first, with ``with_modules``."""
        above = [] if self.cpu_parent is None else self.cpu_parent.module_hierarchy
        return [*above, self.name] if self.category == "python_function" else above

    @property
    def cpu_time_total(self) -> float:  # type: ignore[override]
        """Host time including called events; 0 for a device's work."""
        return self.time_range.elapsed_us() if self.device_type is DeviceType.CPU else 0.0

    @property
    def self_cpu_time_total(self) -> float:  # type: ignore[override]
        """Host time without called events."""
        return self.cpu_time_total - sum(child.cpu_time_total for child in self.cpu_children)

    @property
    def device_time_total(self) -> float:  # type: ignore[override]
        """Device time of all work that the event and called events enqueued."""
        if self.device_type is not DeviceType.CPU:
            return self.time_range.elapsed_us()
        return self.self_device_time_total + sum(child.device_time_total for child in self.cpu_children)

    @property
    def self_device_time_total(self) -> float:  # type: ignore[override]
        """Device time of the work that the event itself enqueued."""
        if self.device_type is not DeviceType.CPU:
            return self.time_range.elapsed_us()
        return sum(kernel.duration for kernel in self.kernels)

    @property
    def self_cpu_memory_usage(self) -> int:  # type: ignore[override]
        """Net bytes of host memory allocated, without called events."""
        return self.cpu_memory_usage - sum(child.cpu_memory_usage for child in self.cpu_children)

    @property
    def self_device_memory_usage(self) -> int:  # type: ignore[override]
        """Net bytes of device memory allocated, without called events."""
        return self.device_memory_usage - sum(child.device_memory_usage for child in self.cpu_children)

    def __repr__(self) -> str:
        return (
            f"<FunctionEvent id={self.id} name={self.name} overload_name={self.overload_name} "
            f"device_type={self.device_type} cpu_time={self.cpu_time_total:.3f}us start_us={self.time_range.start:.3f} "
            f"end_us={self.time_range.end:.3f} cpu_children={[child.id for child in self.cpu_children]} "
            f"thread={self.thread} input_shapes={self.input_shapes} cpu_memory_usage={self.cpu_memory_usage} "
            f"device_memory_usage={self.device_memory_usage}>"
        )


class FunctionEventAvg(_Averages):
    """Events of one key, added up."""

    def __init__(self, key: str = "Total") -> None:
        self.key = key
        self.count = 0
        self.flops = 0
        self.cpu_time_total = self.self_cpu_time_total = 0.0
        self.device_time_total = self.self_device_time_total = 0.0
        self.cpu_memory_usage = self.self_cpu_memory_usage = 0
        self.device_memory_usage = self.self_device_memory_usage = 0
        self.device_type = DeviceType.CPU
        self.is_user_annotation = False
        self.cpu_parent: FunctionEvent | None = None
        self.input_shapes: list[Any] = []
        self.stack: list[str] = []
        self.kernel_functions: list[KernelFunction] = []

    def add(self, other: FunctionEvent | FunctionEventAvg) -> FunctionEventAvg:
        """Add an event, or another average."""
        self.count += other.count
        self.flops += other.flops
        self.cpu_time_total += other.cpu_time_total
        self.self_cpu_time_total += other.self_cpu_time_total
        self.device_time_total += other.device_time_total
        self.self_device_time_total += other.self_device_time_total
        self.cpu_memory_usage += other.cpu_memory_usage
        self.self_cpu_memory_usage += other.self_cpu_memory_usage
        self.device_memory_usage += other.device_memory_usage
        self.self_device_memory_usage += other.self_device_memory_usage
        for function in other.kernel_functions:
            if function not in self.kernel_functions:
                self.kernel_functions.append(function)
        return self

    def __repr__(self) -> str:
        return (
            f"<FunctionEventAvg key={self.key} self_cpu_time={self.self_cpu_time_total:.3f}us "
            f"cpu_time={self.cpu_time:.3f}us self_cuda_time={self.self_device_time_total:.3f}us "
            f"cuda_time={self.device_time:.3f}us input_shapes={self.input_shapes} "
            f"cpu_memory_usage={self.cpu_memory_usage} cuda_memory_usage={self.device_memory_usage}>"
        )


class EventList(list[Any]):
    """Events or averages, with the tables over them."""

    def __init__(self, events: Iterable[Any] = (), *, profile_memory: bool = False) -> None:
        super().__init__(events)
        self.profile_memory = profile_memory

    def key_averages(self, group_by_input_shape: bool = False, group_by_stack_n: int = 0) -> EventList:
        """Sum the events by name.

        Args:
            group_by_input_shape: If True, also group by shapes, which were recorded with ``record_shapes=True``.
            group_by_stack_n: Also group by this many of the innermost entries of the stack, from ``with_stack=True``.
        """
        averages: dict[Any, FunctionEventAvg] = {}
        for event in self:
            key = (
                event.key,
                event.device_type,
                event.is_user_annotation,
                str(event.input_shapes) if group_by_input_shape else "",
                tuple(event.stack[:group_by_stack_n]),
            )
            average = averages.get(key)
            if average is None:
                average = averages[key] = FunctionEventAvg(event.key)
                average.device_type = event.device_type
                average.is_user_annotation = event.is_user_annotation
                if group_by_input_shape:
                    average.input_shapes = event.input_shapes
                average.stack = event.stack[:group_by_stack_n]
            average.add(event)
        return EventList(averages.values(), profile_memory=self.profile_memory)

    def total_average(self) -> FunctionEventAvg:
        """Return the sum of all events, as one row ``Total``."""
        total = FunctionEventAvg()
        for event in self:
            total.add(event)
        return total

    @property
    def self_cpu_time_total(self) -> float:
        """Host time of all events, each counted once."""
        return float(sum(event.self_cpu_time_total for event in self))

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_src_column_width: int = 75,
        max_name_column_width: int = 55,
        max_shapes_column_width: int = 80,
        header: str | None = None,
        top_level_events_only: bool = False,
        time_unit: str | None = None,
    ) -> str:
        """Return a table of the list, in PyTorch's columns.

        Args:
            sort_by: Sort descending by ``cpu_time``, ``cuda_time``, ``cpu_time_total``, ``cuda_time_total``,
                ``cpu_memory_usage``, ``cuda_memory_usage``, the same with ``self_`` before it, or ``count``; None keeps
                the order of the list. ``device`` may stand for ``cuda``.
            row_limit: Maximum number of rows; -1 for all.
            max_src_column_width, max_name_column_width, max_shapes_column_width: Truncate longer entries.
            header: Line above the table.
            top_level_events_only: If True, only list events without a caller.
            time_unit: ``s``, ``ms`` or ``us`` for all times. Default: a suitable unit for each.

        Raises:
            AttributeError: for another `sort_by`.
            ValueError: for another `time_unit`.
        """
        from .table import table

        return table(
            self,
            sort_by=sort_by,
            row_limit=row_limit,
            widths=(max_name_column_width, max_shapes_column_width, max_src_column_width),
            header=header,
            top_level_events_only=top_level_events_only,
            time_unit=time_unit,
        )

    def __str__(self) -> str:
        return self.table()


_TOTALS = ("cpu_time_total", "device_time_total", "cpu_memory_usage", "device_memory_usage")

SORT_KEYS = frozenset({"cpu_time", "device_time", "count", *_TOTALS, *[f"self_{name}" for name in _TOTALS]})
"""What a table can be sorted by."""
