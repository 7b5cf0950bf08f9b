"""Ordering of one stream's work after another's, which may belong to another library."""

from __future__ import annotations

from .device_guard import device_guard


def wait_for_stream(device: int, awaited: int, waiting: int | None = None) -> None:
    """Make later work of a stream wait for all work that another stream has so far.

    Args:
        device: Device of both streams.
        awaited: Stream to wait for.
        waiting: Stream that waits. Default: None, the device's current stream.
    """
    with device_guard(device) as cuda:
        waiting = cuda.current_stream(device) if waiting is None else waiting
        if waiting == awaited:
            return
        event = cuda.create_event()
        try:
            cuda.record_event(event, awaited)
            cuda.wait_event(waiting, event)
        finally:
            cuda.destroy_event(event)
