"""Conversion of a session's log to events: nested, with redispatches merged and memory and device work attributed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ....runtime.dispatch_key import DispatchKey
from .devices import DeviceWork
from .events import DeviceType, EventList, FunctionEvent, Interval, Kernel, KernelFunction
from .log import KernelSite, LaunchSite, MemorySite, OperatorSite, RangeSite, Stack, ThreadLog
from .session import Session


class MemoryEvent(NamedTuple):
    """Bytes allocated (positive) or freed (negative), at a time in microseconds."""

    time: float
    thread: int
    device: Any
    address: int
    nbytes: int


class Recording(NamedTuple):
    """Finished recording: events by start, memory changes by time, the threads, and device work."""

    events: EventList
    memory: list[MemoryEvent]
    threads: list[ThreadLog]
    work: list[tuple[FunctionEvent, DeviceWork]]
    launches: dict[int, FunctionEvent]
    began: int
    ended: int


class _Item(NamedTuple):
    """An entry of a thread's log, which begins at `log_index`; its caller becomes its parent."""

    log_index: int
    event: FunctionEvent | None
    key: DispatchKey | None
    kernel: KernelFunction | None
    memory: MemoryEvent | None


class _Builder:
    def __init__(self, session: Session) -> None:
        self.zero = session.started
        self.width = 5 if session.with_stack else 4
        self.events: list[FunctionEvent] = []
        self.memory: list[MemoryEvent] = []
        self.launches: dict[int, FunctionEvent] = {}
        self.merged: set[int] = set()

    def microseconds(self, nanoseconds: int) -> float:
        return (nanoseconds - self.zero) / 1e3

    def event(self, name: str, start: int, end: int, thread: int, **more: Any) -> FunctionEvent:
        made = FunctionEvent(
            0, name, Interval(self.microseconds(start), self.microseconds(end)), thread, **more
        )
        self.events.append(made)
        return made

    def read(self, entries: Sequence[Any], thread: int) -> None:
        """Make events of one thread's list."""
        pending: list[_Item] = []
        i = 0
        while i < len(entries):
            site, log_index = entries[i], i
            if site.__class__ is KernelSite:
                pending.append(_Item(i, None, None, KernelFunction(site.name, site.dtype), None))
                i += 1
            elif site.__class__ is MemorySite:
                _, address, time, nbytes = entries[i : i + 4]
                self.memory.append(MemoryEvent(self.microseconds(time), thread, site.device, address, nbytes))
                pending.append(_Item(i, None, None, None, self.memory[-1]))
                i += 4
            elif site.__class__ is LaunchSite:
                _, number, start, end = entries[i : i + 4]
                launch = self.event(site.name, start, end, thread, category="cuda_runtime")
                self.launches[number] = launch
                pending.append(_Item(i, launch, None, None, None))
                i += 4
            else:
                log_index = entries[i + 1]
                event = self.call(site, entries[i + 2 : i + self.width], thread)
                inside: list[_Item] = []
                while pending and pending[-1].log_index >= log_index:
                    inside.append(pending.pop())
                key = site.key if site.__class__ is OperatorSite else None
                self.fill(event, key, inside[::-1])
                pending.append(_Item(log_index, event, key, None, None))
                i += self.width
        for item in pending:
            if item.memory is not None:
                self.unattributed(item.memory)

    def call(self, site: Any, rest: Sequence[Any], thread: int) -> FunctionEvent:
        stack = stack_lines(rest[2]) if len(rest) == 3 else []
        if isinstance(site, OperatorSite):
            event = self.event(
                site.name,
                rest[0],
                rest[1],
                thread,
                overload_name=site.overload,
                input_shapes=site.shapes,
                input_types=site.dtypes,
                stack=stack,
            )
            event.dispatch_keys = [str(site.key)]
            event.flops = site.flops
            return event
        assert isinstance(site, RangeSite)
        return self.event(
            site.name,
            rest[0],
            rest[1],
            thread,
            stack=stack,
            sequence_nr=site.sequence,
            is_user_annotation=site.category == "user_annotation",
            category=site.category,
            args=site.args,
        )

    def fill(self, event: FunctionEvent, key: DispatchKey | None, inside: Sequence[_Item]) -> None:
        """Add children to an event. A redispatch of the same call is not an event of its own."""
        for item in inside:
            child = item.event
            if child is None:
                if item.kernel is not None:
                    event.kernel_functions.append(item.kernel)
                elif item.memory is not None:
                    _count(event, item.memory)
            elif is_redispatch(event, key, child, item.key):
                self.merged.add(id(child))
                event.dispatch_keys += child.dispatch_keys
                event.kernel_functions += child.kernel_functions
                event.cpu_memory_usage += child.cpu_memory_usage
                event.device_memory_usage += child.device_memory_usage
                for grandchild in child.cpu_children:
                    _adopt(event, grandchild)
            else:
                _adopt(event, child)
                event.cpu_memory_usage += child.cpu_memory_usage
                event.device_memory_usage += child.device_memory_usage

    def unattributed(self, memory: MemoryEvent) -> None:
        """Add events for memory that changed outside every call, as PyTorch does."""
        instant = Interval(memory.time, memory.time)
        event = FunctionEvent(0, "[memory]", instant, memory.thread, category="memory")
        _count(event, memory)
        self.events.append(event)

    def device_work(self, work: Sequence[DeviceWork]) -> list[tuple[FunctionEvent, DeviceWork]]:
        """Return the device events, and add their times to the events that enqueued them."""
        made = []
        for each in work:
            event = self.event(
                each.name,
                each.start,
                each.end,
                each.stream,
                device_type=DeviceType.CUDA,
                device_index=each.device,
                device_resource_id=each.stream,
                category=each.category,
            )
            launch = self.launches.get(each.number)
            if launch is not None:
                cause = launch.cpu_parent or launch
                cause.kernels.append(Kernel(each.name, each.device, event.time_range.elapsed_us()))
            made.append((event, each))
        return made


def _adopt(parent: FunctionEvent, child: FunctionEvent) -> None:
    child.cpu_parent = parent
    parent.cpu_children.append(child)


def _count(event: FunctionEvent, memory: MemoryEvent) -> None:
    if memory.device.type == "cpu":
        event.cpu_memory_usage += memory.nbytes
    else:
        event.device_memory_usage += memory.nbytes


def is_redispatch(
    event: FunctionEvent, key: DispatchKey | None, child: FunctionEvent, below: DispatchKey | None
) -> bool:
    """Return True if `child` is a hop of the same call at a lower key, rather than a call of its own."""
    if key is None or below is None or event.name != child.name or event.overload_name != child.overload_name:
        return False
    return key.priority > below.priority


def stack_lines(stack: Stack) -> list[str]:
    """Return the frames, innermost first, as ``file(line): function``."""
    return [f"{code.co_filename}({line}): {code.co_name}" for code, line in stack]


def recording_of(session: Session) -> Recording:
    """Return the events of a session from its `begin` to now."""
    logs, freed, work = session.finish()
    builder = _Builder(session)
    for log, entries in logs:
        builder.read(entries, log.system_id)
    for i in range(0, len(freed), 4):
        site, address, time, nbytes = freed[i : i + 4]
        memory = MemoryEvent(builder.microseconds(time), 0, site.device, address, nbytes)
        builder.memory.append(memory)
        builder.unattributed(memory)
    done = builder.device_work(work)
    if not session.cpu:
        builder.events = [event for event, _ in done]
    else:
        builder.events = [event for event in builder.events if id(event) not in builder.merged]
    builder.events.sort(key=lambda event: (event.time_range.start, -event.time_range.end))
    builder.memory.sort(key=lambda memory: memory.time)
    for number, event in enumerate(builder.events, 1):
        event.id = number
    return Recording(
        EventList(builder.events, profile_memory=session.profile_memory),
        builder.memory,
        [log for log, _ in logs],
        done,
        builder.launches,
        session.started,
        session.stopped,
    )
