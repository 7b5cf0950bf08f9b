"""Streams (`torch.cuda.Stream`): queues of a device's work, and the current stream of a thread.

Streams come from a pool of 32 for each device and priority, used round-robin and never destroyed, as in c10
(c10/cuda/CUDAStream.h). The caching allocator keeps free blocks by stream, so that memory of a destroyed stream would
be stranded. CUDA also reuses the handle of a destroyed stream, so that a new stream would inherit that memory.
"""

from __future__ import annotations

import ctypes
import threading
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ..device import DeviceLike
from ..device import device as Device
from ..thread_state import inherited
from . import sync_debug
from .device_guard import device_guard
from .devices import device_index
from .driver import Driver, driver
from .faults import raise_faults

if TYPE_CHECKING:
    from .event import Event

STREAMS_PER_POOL = 32
MAX_PRIORITIES = 4
"""Number of distinct priorities, 0 to -3, as many as c10 has pools for."""
CUDA_DEVICE_TYPE = 1
"""CUDA's number in c10::DeviceType."""


class StreamPool:
    """Stream pool of one driver; streams are created on first use.

    A stream's id is c10's: 0 is the default stream, an even number the address of an external stream. An odd number
    encodes pool and index.
    """

    def __init__(self, cuda: Driver) -> None:
        self.driver = cuda
        self._lock = threading.Lock()
        self._next: dict[tuple[int, int], int] = {}
        self._handles: dict[tuple[int, int], int] = {}
        self._ids: dict[tuple[int, int], int] = {}

    def take(self, device: int, priority: int) -> tuple[int, int]:
        """Return (handle, id) of the next stream of a pool; clamp a priority to the valid range."""
        level = -self.clamped(device, priority)
        with self._lock:
            slot = self._next.get((device, level), 0)
            self._next[device, level] = slot + 1
            stream_id = (slot % STREAMS_PER_POOL) << 5 | (level + 1) << 1 | 1
        return self.handle(device, stream_id), stream_id

    def clamped(self, device: int, priority: int) -> int:
        """Clamp a priority to the range of the device and of c10."""
        with device_guard(device) as cuda:
            least, greatest = cuda.stream_priority_range()
        return min(max(priority, greatest, 1 - MAX_PRIORITIES), least)

    def handle(self, device: int, stream_id: int) -> int:
        """Return the handle of a stream id. Raise RuntimeError for an invalid id."""
        if stream_id & 1 == 0:
            return stream_id
        level, slot = (stream_id >> 1 & 0xF) - 1, stream_id >> 5
        with self._lock:
            handle = self._handles.get((device, stream_id))
            if handle is None:
                if not (0 <= level < MAX_PRIORITIES and 0 <= slot < STREAMS_PER_POOL):
                    raise RuntimeError(
                        f"Unrecognized stream id {stream_id}: it names no stream of device {device}"
                    )
                handle = self.driver.create_stream(device, -level)
                self._handles[device, stream_id] = handle
                self._ids[device, handle] = stream_id
        return handle

    def id(self, device: int, handle: int) -> int:
        """Return the id of a stream handle."""
        return self._ids.get((device, handle), handle)


_pool: StreamPool | None = None


def _pool_of(cuda: Driver) -> StreamPool:
    global _pool
    pool = _pool
    if pool is None or pool.driver is not cuda:
        pool = _pool = StreamPool(cuda)
    return pool


class Stream:
    """In-order queue of one device's work; different streams run independently.

    Args:
        device: Device of the stream. Default: None, the current device, as for a negative index.
        priority: 0 or below; lower numbers run first. It is clamped to the device's range.

    As a context manager, it makes itself and its device current. Two streams are equal if they are the same queue. The
    33rd stream of a device and priority is the first again.

    Example:
        >>> import triten as tt
        >>> side = tt.cuda.Stream()
        >>> with tt.cuda.stream(side):
        ...     x = tt.ones(3, device="cuda") + 1
        >>> tt.cuda.current_stream().wait_stream(side)
        >>> x.record_stream(tt.cuda.current_stream())
        >>> x.tolist()
        [2.0, 2.0, 2.0]
    """

    __slots__ = ("__weakref__", "cuda_stream", "device_index", "stream_id")
    cuda_stream: int
    """Handle of the stream, a ``cudaStream_t``; 0 for the default stream."""
    device_index: int
    stream_id: int

    def __new__(cls, device: DeviceLike = None, priority: int = 0, **kwargs: Any) -> Any:
        stream_id = kwargs.pop("stream_id", None)
        index = kwargs.pop("device_index", None)
        kwargs.pop("device_type", None)
        pointer = kwargs.pop("stream_ptr", 0)
        if kwargs:
            raise TypeError(f"Stream() got an unexpected keyword argument '{next(iter(kwargs))}'")
        cuda = driver()
        if index is None:
            index = device_index(device)
            if index < 0:
                index = cuda.current_device()
        cuda.check_device(index)
        pool = _pool_of(cuda)
        if pointer:
            cuda.check_stream(index, pointer)
            handle, stream_id = pointer, pool.id(index, pointer)
        elif stream_id is not None:
            handle = pool.handle(index, stream_id)
            cuda.check_stream(index, handle)
        else:
            if not isinstance(priority, int):
                raise TypeError(f"Stream(): argument 'priority' must be int, not {type(priority).__name__}")
            handle, stream_id = pool.take(index, priority)
        return _stream(cls, handle, index, stream_id)

    @property
    def device(self) -> Device:
        """Device of the stream."""
        return Device("cuda", self.device_index)

    @property
    def device_type(self) -> int:
        """CUDA's device type number, 1."""
        return CUDA_DEVICE_TYPE

    @property
    def priority(self) -> int:
        """Priority of the stream; lower numbers run first."""
        with device_guard(self.device_index) as cuda:
            return cuda.stream_priority(self.cuda_stream)

    @staticmethod
    def priority_range() -> tuple[int, int]:
        """Return the (least, greatest) priority of the current device's streams; the greatest is the lowest number."""
        least, greatest = driver().stream_priority_range()
        return least, max(greatest, 1 - MAX_PRIORITIES)

    def wait_event(self, event: Event) -> None:
        """Make later work of this stream wait for an event, without blocking."""
        event.wait(self)

    def wait_stream(self, stream: Stream) -> None:
        """Make later work of this stream wait for all work that another stream has so far, without blocking."""
        self.wait_event(stream.record_event())

    def record_event(self, event: Event | None = None) -> Event:
        """Record an event after the work that the stream has so far, and return it. Default: a new event."""
        from .event import Event

        if event is None:
            event = Event()
        event.record(self)
        return event

    def query(self) -> bool:
        """Return True if all work is done."""
        with device_guard(self.device_index) as cuda:
            return cuda.query_stream(self.cuda_stream)

    def synchronize(self) -> None:
        """Wait for all work. Raise the error of an input fault that kernels on the device found."""
        if sync_debug.mode:
            sync_debug.report()
        with device_guard(self.device_index) as cuda:
            cuda.synchronize_stream(self.cuda_stream)
            raise_faults(cuda, self.device_index)

    @property
    def _as_parameter_(self) -> ctypes.c_void_p:
        return ctypes.c_void_p(self.cuda_stream)

    def __cuda_stream__(self) -> tuple[int, int]:
        """Return (version, handle) of the CUDA stream protocol."""
        return 0, self.cuda_stream

    def __eq__(self, o: object) -> bool:
        if not isinstance(o, Stream):
            return False
        return self.cuda_stream == o.cuda_stream and self.device_index == o.device_index

    def __hash__(self) -> int:
        return hash((self.cuda_stream, self.device_index))

    def __enter__(self) -> Stream:
        context = StreamContext(self)
        context.__enter__()
        _entered.contexts.append(context)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        _entered.contexts.pop().__exit__(kind, error, traceback)

    def __repr__(self) -> str:
        return f"<triten.cuda.Stream device={self.device} cuda_stream={self.cuda_stream:#x}>"


class _Entered(threading.local):
    """Stack of this thread's stream contexts, innermost last."""

    def __init__(self) -> None:
        self.contexts: list[StreamContext] = []


_entered = inherited(_Entered())


def _stream(cls: type[Stream], handle: int, device: int, stream_id: int) -> Any:
    made = object.__new__(cls)
    made.cuda_stream, made.device_index, made.stream_id = handle, device, stream_id
    return made


class ExternalStream(Stream):
    """External stream, by its handle; its creator keeps it alive and destroys it.

    Raises RuntimeError for a handle that is no stream of the device, as far as the driver can tell.

    Example:
        >>> import triten as tt
        >>> side = tt.cuda.Stream()
        >>> tt.cuda.ExternalStream(side.cuda_stream) == side
        True
    """

    __slots__ = ()

    def __new__(cls, stream_ptr: int, device: DeviceLike = None, **kwargs: Any) -> Any:
        if isinstance(stream_ptr, bool) or not isinstance(stream_ptr, int):
            raise TypeError(
                f"ExternalStream(): argument 'stream_ptr' must be int, not {type(stream_ptr).__name__}"
            )
        return (
            super().__new__(cls, device, stream_ptr=stream_ptr, **kwargs)
            if stream_ptr
            else _default(cls, device)
        )


def _default(cls: type[Stream], device: DeviceLike) -> Any:
    index = device_index(device)
    driver().check_device(index)
    return _stream(cls, 0, index, 0)


def get_stream_from_external(data_ptr: int, device: DeviceLike = None) -> Stream:
    """Return an `ExternalStream`."""
    stream: Stream = ExternalStream(data_ptr, device)
    return stream


def default_stream(device: DeviceLike = None) -> Stream:
    """Return a device's default stream, which is current until another is set."""
    stream: Stream = _default(Stream, device)
    return stream


def current_stream(device: DeviceLike = None) -> Stream:
    """Return this thread's current stream on a device."""
    cuda = driver()
    index = device_index(device)
    cuda.check_device(index)
    handle = cuda.current_stream(index)
    stream: Stream = _stream(Stream, handle, index, _pool_of(cuda).id(index, handle))
    return stream


def set_stream(stream: Stream | None) -> None:
    """Make a stream and its device current in this thread; do nothing for None.

    Raises RuntimeError for a stream that has been destroyed.
    """
    if stream is None:
        return
    cuda = driver()
    index, handle = stream.device_index, stream.cuda_stream
    cuda.check_stream(index, handle)
    if cuda.current_device() != index:
        cuda.set_device(index)
    cuda.set_stream(index, handle)


class StreamContext:
    """Context manager that makes a stream and its device current; it does nothing for None.

    On exit it restores the streams of both devices and the device itself, whatever the block set.
    """

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream
        self.idx = -1
        self.src_prev_stream: Stream | None = None
        self.dst_prev_stream: Stream | None = None

    def __enter__(self) -> None:
        stream = self.stream
        if stream is None:
            return
        self.idx = driver().current_device()
        source, target = current_stream(self.idx), current_stream(stream.device_index)
        set_stream(stream)
        self.src_prev_stream, self.dst_prev_stream = source, target

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        source, target = self.src_prev_stream, self.dst_prev_stream
        if source is None or target is None:
            return
        cuda = driver()
        # Unchecked: a destroyed stream becomes current again, and refuses work.
        for stream in (target, source):
            cuda.set_stream(stream.device_index, stream.cuda_stream)
        cuda.set_device(source.device_index)


def stream(stream: Stream | None) -> StreamContext:
    """Return a `StreamContext`, under PyTorch's other name."""
    return StreamContext(stream)
