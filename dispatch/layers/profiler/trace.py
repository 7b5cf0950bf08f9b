"""A recording as files: Chrome's trace format, which chrome://tracing and Perfetto open, and stacks for flame graphs.

Source: "Trace Event Format" (Google); the categories and arguments are those of PyTorch's traces.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from .events import DeviceType, FunctionEvent
from .tree import Recording

METRICS = ("self_cpu_time_total", "self_cuda_time_total")
_CPU, _CUDA = 0, 1


def write_trace(path: str, recording: Recording, metadata: Mapping[str, Any]) -> None:
    """Write the trace, compressed if `path` ends in ``.gz``."""
    import gzip
    import json

    trace = {
        "schemaVersion": 1,
        "displayTimeUnit": "ms",
        **metadata,
        "traceEvents": list(trace_events(recording)),
    }
    opened = gzip.open(path, "wt") if path.endswith(".gz") else open(path, "w")  # noqa: SIM115
    with opened as file:
        json.dump(trace, file)


def trace_events(recording: Recording) -> Iterator[dict[str, Any]]:
    """Yield the entries of ``traceEvents``; times are in microseconds of the host's monotonic clock."""
    pid, zero = os.getpid(), recording.began / 1e3
    yield _metadata("process_name", pid, 0, name="python")
    yield _metadata("process_labels", pid, 0, labels="CPU")
    for log in recording.threads:
        yield _metadata("thread_name", pid, log.system_id, name=f"thread {log.system_id} ({log.name})")
    for device in sorted({work.device for _, work in recording.work}):
        yield _metadata("process_name", device, 0, name="python")
        yield _metadata("process_labels", device, 0, labels=f"GPU {device}")
        for stream in sorted({work.stream for _, work in recording.work if work.device == device}):
            yield _metadata("thread_name", device, stream, name=f"stream {stream}")
    for event in recording.events:
        if event.category != "memory" and event.device_type is DeviceType.CPU:
            yield _complete(event, zero, pid, event.thread, _arguments(event))
    for event, work in recording.work:
        arguments: dict[str, Any] = {"device": work.device, "stream": work.stream, "correlation": work.number}
        if work.grid is not None:
            arguments["grid"] = list(work.grid)
        yield _complete(event, zero, work.device, work.stream, arguments)
        launch = recording.launches.get(work.number)
        if launch is not None:
            flow = {"cat": "ac2g", "name": "ac2g", "id": work.number}
            yield {"ph": "s", "pid": pid, "tid": launch.thread, "ts": zero + launch.time_range.start, **flow}
            start = zero + event.time_range.start
            yield {"ph": "f", "bp": "e", "pid": work.device, "tid": work.stream, "ts": start, **flow}
    yield from _memory(recording, pid, zero)


def _memory(recording: Recording, pid: int, zero: float) -> Iterator[dict[str, Any]]:
    """Yield an instant for each change, as PyTorch does, and a counter of the live memory of each device."""
    held: dict[str, int] = {}
    for event in recording.memory:
        name = str(event.device)
        held[name] = held.get(name, 0) + event.nbytes
        on_host = event.device.type == "cpu"
        timestamp = {"pid": pid, "tid": event.thread, "ts": zero + event.time}
        arguments = {
            "Device Type": _CPU if on_host else _CUDA,
            "Device Id": -1 if on_host else event.device.index,
            "Addr": event.address,
            "Bytes": event.nbytes,
            "Total Allocated": held[name],
        }
        yield {
            "ph": "i",
            "s": "t",
            "cat": "cpu_instant_event",
            "name": "[memory]",
            **timestamp,
            "args": arguments,
        }
        yield {"ph": "C", "name": f"memory {name}", **timestamp, "args": {"allocated": held[name]}}


def _metadata(kind: str, pid: int, tid: int, **arguments: str) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": pid, "tid": tid, "ts": 0, "args": arguments}


def _complete(
    event: FunctionEvent, zero: float, pid: int, tid: int, arguments: Mapping[str, Any]
) -> dict[str, Any]:
    return {
        "ph": "X",
        "cat": event.category,
        "name": event.name,
        "pid": pid,
        "tid": tid,
        "ts": zero + event.time_range.start,
        "dur": event.time_range.elapsed_us(),
        "args": arguments,
    }


def _arguments(event: FunctionEvent) -> dict[str, Any]:
    arguments: dict[str, Any] = {"External id": event.id}
    if event.args is not None:
        arguments["args"] = event.args
    if event.sequence_nr >= 0:
        arguments["Sequence number"] = event.sequence_nr
    if event.dispatch_keys:
        arguments["Dispatch keys"] = event.dispatch_keys
    if event.kernel_functions:
        arguments["Kernel functions"] = [f"{name}<{dtype}>" for name, dtype in event.kernel_functions]
    if event.input_shapes:
        arguments["Input Dims"] = event.input_shapes
        arguments["Input type"] = event.input_types
    if event.stack:
        arguments["Call stack"] = ";".join(event.stack)
    return arguments


def write_stacks(path: str, recording: Recording, metric: str) -> None:
    """Write a line ``outermost;...;innermost value`` for each stack, for flame graphs.

    Raises ValueError for another metric than `METRICS`.
    """
    if metric not in METRICS:
        raise ValueError(f"metric should be one of: {list(METRICS)}")
    attribute = metric.replace("cuda", "device")
    separators = str.maketrans(" ;\t\n", "____")
    totals: dict[str, float] = {}
    for event in recording.events:
        value = getattr(event, attribute)
        if event.stack and int(value) > 0:
            frames = ";".join(entry.translate(separators) for entry in reversed(event.stack))
            totals[frames] = totals.get(frames, 0.0) + value
    with open(path, "w") as file:
        file.writelines(f"{frames} {int(value)}\n" for frames, value in totals.items())
