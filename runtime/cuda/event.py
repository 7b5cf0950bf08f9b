"""Events (`torch.cuda.Event`): positions in a stream to wait for, to query, and to measure time between."""

from __future__ import annotations

import ctypes
import sys
from typing import Any

from ..device import DeviceLike
from ..device import device as Device
from .device_guard import device_guard
from .devices import checked_index
from .driver import driver
from .faults import raise_faults
from .stream import Stream, current_stream


class Event:
    """Position in a stream, created at its first `record` on the stream's device.

    Args:
        enable_timing: If True, `elapsed_time` is available.
        blocking: If True, a thread in `synchronize` sleeps instead of spinning.
        interprocess: If True, `ipc_handle` can export the event to another process; it then has no timing.
        external: If True, recording and waiting become nodes of their own in a captured graph.

    Only streams of the event's device record it; streams of any device wait for it.

    Example:
        >>> import triten as tt
        >>> start, end = tt.cuda.Event(enable_timing=True), tt.cuda.Event(enable_timing=True)
        >>> start.record(); x = tt.ones(3, device="cuda") + 1; end.record()
        >>> end.synchronize(); start.elapsed_time(end) > 0
        True
    """

    __slots__ = (
        "__weakref__",
        "_device",
        "_driver",
        "blocking",
        "cuda_event",
        "enable_timing",
        "external",
        "interprocess",
    )
    cuda_event: int
    """Handle of the event, a ``cudaEvent_t``; 0 until it is first recorded."""

    def __init__(
        self,
        enable_timing: bool = False,
        blocking: bool = False,
        interprocess: bool = False,
        external: bool = False,
    ) -> None:
        self.cuda_event = 0
        self._device = -1
        self._driver: Any = None
        self.enable_timing = bool(enable_timing)
        self.blocking = bool(blocking)
        self.interprocess = bool(interprocess)
        self.external = bool(external)

    @classmethod
    def from_ipc_handle(cls, device: DeviceLike, handle: bytes) -> Event:
        """Return the event that another process exported, on a device.

        Raises RuntimeError if the driver does not know it.
        """
        made = cls(interprocess=True)
        index = checked_index(device)
        with device_guard(index) as cuda:
            made.cuda_event = cuda.import_event(handle)
        made._device, made._driver = index, cuda
        return made

    @property
    def device(self) -> Device | None:
        """Device of the event; None before it is first recorded."""
        return None if self._device < 0 else Device("cuda", self._device)

    def _create(self, index: int) -> None:
        with device_guard(index) as cuda:
            self.cuda_event = cuda.create_event(self.enable_timing, self.blocking, self.interprocess)
        self._device, self._driver = index, cuda

    def record(self, stream: Stream | None = None) -> None:
        """Record the event after the work that a stream has been given so far. Default: the current stream.

        Raises RuntimeError for a stream of another device than the event's.
        """
        if stream is None:
            stream = current_stream()
        index = stream.device_index
        if not self.cuda_event:
            self._create(index)
        if index != self._device:
            raise RuntimeError(
                f"Event device {self._device} does not match recording stream's device {index}."
            )
        with device_guard(index) as cuda:
            cuda.record_event(self.cuda_event, stream.cuda_stream)

    def wait(self, stream: Stream | None = None) -> None:
        """Make later work of a stream wait for the event, without blocking. Default: the current stream.

        Does not wait for an event that was never recorded.
        """
        if stream is None:
            stream = current_stream()
        if self.cuda_event:
            with device_guard(stream.device_index) as cuda:
                cuda.wait_event(stream.cuda_stream, self.cuda_event)

    def query(self) -> bool:
        """Return True if the work before the event is done, or if it was never recorded."""
        return not self.cuda_event or bool(self._driver.query_event(self.cuda_event))

    def synchronize(self) -> None:
        """Wait for the work before the event. Raise the error of an input fault that kernels found."""
        if self.cuda_event:
            self._driver.synchronize_event(self.cuda_event)
            raise_faults(self._driver, self._device)

    def elapsed_time(self, end_event: Event) -> float:
        """Return the milliseconds from this event to another one.

        Raises ValueError unless both were created with ``enable_timing=True`` and recorded, RuntimeError unless the
        work before both is done.
        """
        if not (self.enable_timing and end_event.enable_timing):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if not (self.cuda_event and end_event.cuda_event):
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        if not (self.query() and end_event.query()):
            raise RuntimeError("Both events must be completed before calculating elapsed time.")
        with device_guard(self._device) as cuda:
            return cuda.elapsed(self.cuda_event, end_event.cuda_event)

    def ipc_handle(self) -> bytes:
        """Return a handle for `from_ipc_handle` in another process; create the event if necessary.

        Raises RuntimeError unless the event was created with ``interprocess=True``.
        """
        if not self.interprocess:
            raise RuntimeError("ipc_handle(): the event must be created with argument 'interprocess=True'")
        if not self.cuda_event:
            self._create(driver().current_device())
        exported: bytes = self._driver.export_event(self.cuda_event)
        return exported

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_ipc_handle, (self._device, self.ipc_handle())

    @property
    def _as_parameter_(self) -> ctypes.c_void_p:
        return ctypes.c_void_p(self.cuda_event)

    def __del__(self) -> None:
        # At exit CUDA destroys its events itself, and may already be unloaded.
        if self.cuda_event and not sys.is_finalizing():
            self._driver.destroy_event(self.cuda_event)

    def __repr__(self) -> str:
        if not self.cuda_event:
            return "<triten.cuda.Event uninitialized>"
        return f"<triten.cuda.Event {self.cuda_event:#x}>"
