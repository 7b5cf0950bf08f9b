"""The host as a device, for device-agnostic programs (`torch.cpu`).

Work on the host is synchronous, so its streams and events never wait.

Example:
    >>> import triten as tt
    >>> with tt.cpu.stream(tt.cpu.Stream()):
    ...     y = tt.ones(2) + 1
    >>> tt.cpu.synchronize(); tt.cpu.device_count(), tt.cpu.current_device()
    (1, 'cpu')
"""

from __future__ import annotations

from typing import Any

from .runtime.device import DeviceLike

__all__ = [
    "Event",
    "Stream",
    "StreamContext",
    "current_device",
    "current_stream",
    "device_count",
    "get_capabilities",
    "is_available",
    "is_initialized",
    "set_device",
    "stream",
    "synchronize",
]


class Event:
    """A point in the host's work, which it has always reached (`torch.cpu.Event`)."""

    def query(self) -> bool:
        """Return True: work on the host is always complete."""
        return True

    def record(self, stream: Stream | None = None) -> None:
        """Put it behind what a stream was given."""

    def synchronize(self) -> None:
        """Wait for it."""

    def wait(self, stream: Stream | None = None) -> None:
        """Have a stream wait for it."""


class Stream:
    """An order of work on the host, of which there is one (`torch.cpu.Stream`)."""

    def __init__(self, priority: int = -1) -> None:
        pass

    def wait_stream(self, stream: Stream) -> None:
        """Wait for another stream."""

    def record_event(self) -> None:
        """Nothing: whatever came before is done."""

    def wait_event(self, event: Event) -> None:
        """Wait for an event."""


_stream = Stream()


class StreamContext:
    """A block in which a stream is the current one (`torch.cpu.StreamContext`).

    Args:
        stream: the stream; None changes nothing.
    """

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream
        self._before: Stream | None = None

    def __enter__(self) -> None:
        global _stream
        if self.stream is not None:
            self._before, _stream = _stream, self.stream

    def __exit__(self, *error: object) -> None:
        global _stream
        if self._before is not None:
            _stream, self._before = self._before, None


def stream(stream: Stream | None) -> StreamContext:
    """Make a stream the current one for a block (`torch.cpu.stream`)."""
    return StreamContext(stream)


def current_stream(device: DeviceLike = None) -> Stream:
    """Return the current stream (`torch.cpu.current_stream`)."""
    return _stream


def current_device() -> str:
    """``"cpu"`` (`torch.cpu.current_device`)."""
    return "cpu"


def device_count() -> int:
    """1: there is one host (`torch.cpu.device_count`)."""
    return 1


def is_available() -> bool:
    """True (`torch.cpu.is_available`)."""
    return True


def is_initialized() -> bool:
    """True (`torch.cpu.is_initialized`)."""
    return True


def set_device(device: DeviceLike) -> None:
    """Nothing: there is one host (`torch.cpu.set_device`)."""


def synchronize(device: DeviceLike = None) -> None:
    """Nothing: the host has done what it was given (`torch.cpu.synchronize`)."""


def get_capabilities() -> dict[str, Any]:
    """Return the processor's capabilities by name, as NumPy detects them (`torch.cpu.get_capabilities`).

    Returns:
        ``architecture``, and for each set of instructions, ``avx2`` for example, whether there is one.

    Example:
        >>> import triten as tt
        >>> isinstance(tt.cpu.get_capabilities()["architecture"], str)
        True
    """
    import platform

    from .backends.cpu import instruction_sets

    return {"architecture": platform.machine()} | instruction_sets()
