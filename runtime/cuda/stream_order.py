"""Work of one stream after that of another, which may be another library's."""

from __future__ import annotations

from .device_guard import device_guard


def wait_for_stream(device: int, awaited: int, waiting: int | None = None) -> None:
    """Make later work of a stream wait for what another one was given until now.

    Args:
        device: whose streams they are.
        awaited: the stream that is waited for.
        waiting: the stream that waits; None is the device's current one.
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
