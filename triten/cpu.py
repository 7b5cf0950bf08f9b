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

from collections.abc import Callable
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
    """Event of the CPU, which is always complete (`torch.cpu.Event`)."""

    def query(self) -> bool:
        """Return True: work on the CPU is always complete."""
        return True

    def record(self, stream: Stream | None = None) -> None:
        """Do nothing: CPU work is synchronous."""

    def synchronize(self) -> None:
        """Do nothing: the event is complete."""

    def wait(self, stream: Stream | None = None) -> None:
        """Do nothing: the event is complete."""


class Stream:
    """Stream of the CPU, whose work is synchronous (`torch.cpu.Stream`)."""

    def __init__(self, priority: int = -1) -> None:
        pass

    def wait_stream(self, stream: Stream) -> None:
        """Do nothing: CPU work is synchronous."""

    def record_event(self) -> None:
        """Do nothing: CPU work is synchronous."""

    def wait_event(self, event: Event) -> None:
        """Do nothing: events are always complete."""


_stream = Stream()


class StreamContext:
    """Context manager that sets the current stream (`torch.cpu.StreamContext`).

    Args:
        stream: The stream; None keeps the current one.
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
    """Return a context manager that sets the current stream (`torch.cpu.stream`)."""
    return StreamContext(stream)


def current_stream(device: DeviceLike = None) -> Stream:
    """Return the current stream (`torch.cpu.current_stream`)."""
    return _stream


def current_device() -> str:
    """Return ``"cpu"`` (`torch.cpu.current_device`)."""
    return "cpu"


def device_count() -> int:
    """Return 1, the number of CPU devices (`torch.cpu.device_count`)."""
    return 1


def is_available() -> bool:
    """Return True (`torch.cpu.is_available`)."""
    return True


def is_initialized() -> bool:
    """Return True (`torch.cpu.is_initialized`)."""
    return True


def set_device(device: DeviceLike) -> None:
    """Do nothing: there is one CPU device (`torch.cpu.set_device`)."""


def synchronize(device: DeviceLike = None) -> None:
    """Do nothing: CPU work is synchronous (`torch.cpu.synchronize`)."""


def _instructions(name: str) -> Callable[[], bool]:
    """Return a function that returns whether the processor has a set of instructions, as NumPy detects them."""

    def is_supported() -> bool:
        from .backends.cpu import instruction_sets

        return instruction_sets().get(name, False)

    return is_supported


# Packages choose kernels by these private names of PyTorch. No kernel here uses AMX, which NumPy does not detect.
_is_amx_fp16_supported = _instructions("amx_fp16")
_is_amx_tile_supported = _instructions("amx_tile")
_is_avx2_supported = _instructions("avx2")
_is_avx512_bf16_supported = _instructions("avx512bf16")
_is_avx512_supported = _instructions("avx512f")
_is_vnni_supported = _instructions("avx512vnni")


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
