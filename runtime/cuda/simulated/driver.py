"""Simulated driver, except for its kernels: devices, memory, streams, events and graphs.

It is stricter than a GPU. Work runs only when something waits for it, memory outside live blocks is inaccessible,
uninitialized memory holds poison, and a kernel cannot access another device's memory. ``CUDA_LAUNCH_BLOCKING=1`` runs
every launch immediately, so that a failure has the traceback of its caller. Tests use `hold`, `release` and `step` to
decide when a stream runs.
"""

from __future__ import annotations

import ctypes
import itertools
import math
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..device_properties import DeviceProperties
from ..driver import Driver, Grid, HostArray
from ..fourier import FourierTransform, NoPlans, PlanCache
from ..solver import Solver
from ..tensor_map import DescribedTensor
from .capture import CapturedRecord, refuse_waiting
from .graph import SimulatedCapture
from .memory import DeviceMemory, HostMemory, LiveBlocks
from .solver import SimulatedSolver
from .stream import Event, EventRecord, Scheduler, Stream, most_urgent

DEVICE_COUNT = 2
PRIORITIES = (0, -5)
"""Least and greatest priority of a stream, as on a GPU."""
OF_ONE_PROCESS = "CUDA error: operation not supported: simulated devices belong to one process"
MAX_RANK, MAX_EXTENT, MAX_PITCH = 5, 2**32, 2**40
"""Limits of a tensor map: dimensions, elements of a dimension, stride in bytes."""
DIVISIBILITY = 16


class SimulatedDriver(Driver, SimulatedCapture):
    """Simulated devices of one kind. One lock lets a single thread at a time run work.

    Args:
        properties: Properties of each device.
        device_count: Number of devices.
    """

    guard_bytes = 256

    def __init__(self, properties: DeviceProperties, device_count: int = DEVICE_COUNT) -> None:
        super().__init__()
        self._properties = properties
        self.scheduler = Scheduler()
        self._lock = self.scheduler.lock
        self._memories = [self.new_memory(properties.total_memory) for _ in range(device_count)]
        self._plans: dict[int, NoPlans] = {}
        self.host_memory = HostMemory(properties.total_memory)
        self._mapped: set[int] = set()
        self._default_streams = [Stream(device, self.scheduler) for device in range(device_count)]
        self._streams: dict[int, Stream] = {}
        self._destroyed: list[Stream] = []
        """Streams that were destroyed before their work was done."""
        self.peers = {(a, b) for a in range(device_count) for b in range(device_count) if a != b}
        """Pairs of devices of which the first can access the second one's memory."""
        self._peer_access: set[tuple[int, int]] = set()
        self._events: dict[int, Event] = {}
        self._handles = itertools.count(0x1000)

    def new_memory(self, total: int) -> DeviceMemory:
        """Return the memory of a new device."""
        return DeviceMemory(total)

    def device_count(self) -> int:
        return len(self._memories)

    def properties(self, device: int) -> DeviceProperties:
        self.check_device(device)
        return self._properties

    def memory(self, device: int) -> DeviceMemory:
        """Return the memory of a device."""
        self.check_device(device)
        return self._memories[device]

    def stream(self, handle: int, device: int | None = None) -> Stream:
        """Return the stream of a handle; 0 is the default stream of `device`, or of the current device."""
        if handle == 0:
            return self._default_streams[self._thread.device if device is None else device]
        stream = self._streams.get(handle)
        if stream is None:
            raise RuntimeError(f"CUDA error: invalid resource handle: stream {handle:#x}")
        return stream

    def new_handle(self) -> int:
        return next(self._handles)

    def _streams_of(self, device: int) -> list[Stream]:
        self._destroyed = [s for s in self._destroyed if not s.is_idle]
        other_streams = [s for s in (*list(self._streams.values()), *self._destroyed) if s.device == device]
        return [self._default_streams[device], *other_streams]

    def hold(self, stream: int, device: int | None = None, releaser: threading.Thread | None = None) -> None:
        """Block a stream until `release`, as if its work took that long.

        A thread that waits for the stream waits for `releaser` to release it. Default: None, the calling thread. The
        wait raises RuntimeError if `releaser` waits itself, directly or through other holds, if it has ended, or
        after ``scheduler.patience`` seconds. Queries find the stream busy.
        """
        self.scheduler.hold(self.stream(stream, device), releaser or threading.current_thread())

    def release(self, stream: int, device: int | None = None) -> None:
        """End a hold; any thread may. The stream's work runs when something waits for it."""
        self.scheduler.release(self.stream(stream, device))

    def step(self, stream: int | None = None, device: int | None = None) -> bool:
        """Run one operation: the oldest of a stream, held or not, or the most urgent of a device.

        Returns True if an operation was ready.
        """
        if stream is not None:
            return self.scheduler.step(self.stream(stream, device))
        with self._lock:
            next_stream = most_urgent(self._streams_of(self._thread.device if device is None else device))
            return next_stream is not None and self.scheduler.step(next_stream)

    def malloc(self, device: int, nbytes: int) -> int:
        self.refuse_unsafe(f"memory of {nbytes} bytes is taken from device {device}")
        with self._lock:
            return self.memory(device).malloc(nbytes)

    def free(self, device: int, address: int) -> None:
        self.refuse_unsafe(f"memory is given back to device {device}")
        with self._lock:
            self.scheduler.run_all(self._streams_of(device))
            self.memory(device).free(address)

    def memory_info(self, device: int) -> tuple[int, int]:
        memory = self.memory(device)
        return memory.total - memory.reserved, memory.total

    def note_allocated(self, address: int, nbytes: int, device: int, stream: int) -> None:
        blocks = self._memories[device].blocks
        on = self.stream(stream, device)
        capture = on.capture
        if capture is not None:
            capture.note(on, blocks, address, nbytes)
        else:
            on.enqueue_now(lambda: blocks.add(address, nbytes))

    def note_freed(self, address: int, device: int, stream: int) -> None:
        blocks = self._memories[device].blocks
        on = self._default_streams[device] if stream == 0 else self._streams.get(stream)
        if on is None:
            on = next((s for s in self._destroyed if s.handle == stream), self._default_streams[device])
        capture = on.capture
        if capture is not None:
            capture.note(on, blocks, address, None)
        else:
            on.enqueue_now(lambda: blocks.give_back(address))

    def check_range(self, operation: str, address: int, nbytes: int) -> None:
        """Raise RuntimeError for memory outside a device's live blocks."""
        if not any(memory.blocks.holds(address, nbytes) for memory in self._memories):
            descriptions = "; ".join(
                f"device {i}: {memory.blocks.describe(address)}" for i, memory in enumerate(self._memories)
            )
            raise RuntimeError(
                "CUDA error: an illegal memory access was encountered: "
                f"{operation} of {nbytes} bytes at {address:#x}: {descriptions}"
            )

    def note_written(self, address: int, nbytes: int) -> None:
        """Note that work other than a kernel wrote to device or host memory."""
        for memory in self._memories:
            if memory.blocks.holds(address, nbytes):
                memory.note_written(address, nbytes)

    def copy_host_to_device(self, dst: int, src: HostArray, stream: int) -> None:
        def copy() -> None:
            self.check_range("copy from host to device", dst, src.nbytes)
            ctypes.memmove(dst, src.__array_interface__["data"][0], src.nbytes)
            self.note_written(dst, src.nbytes)

        _check_contiguous("copy_host_to_device", src)
        on = self.stream(stream)
        address, nbytes = src.__array_interface__["data"][0], src.nbytes
        if self.host_memory.holds(address, nbytes):
            # Copy by address, so that page-locked memory that was freed too early is detected.
            copy_page_locked = partial(self._copy_page_locked, dst, address, address, nbytes)
            on.enqueue(copy_page_locked, "copy", "from host to device")
        elif nbytes:
            on.enqueue(copy, "copy", "from host to device")

    def _copy_page_locked(self, dst: int, src: int, host: int, nbytes: int) -> None:
        operation = "copy from host to device" if host == src else "copy from device to host"
        self.check_range(operation, dst if host == src else src, nbytes)
        if not self.host_memory.holds(host, nbytes):
            raise RuntimeError(
                f"CUDA error: an illegal memory access was encountered: {operation} of {nbytes} bytes: page-locked "
                f"memory at {host:#x} was given back before"
            )
        ctypes.memmove(dst, src, nbytes)
        self.note_written(dst, nbytes)

    def stage_host_to_device(self, dst: int, src: HostArray, stream: int) -> None:
        self.copy_host_to_device(dst, src.copy(order="K"), stream)

    def copy_device_to_host_async(self, dst: HostArray, src: int, stream: int) -> None:
        _check_contiguous("copy_device_to_host_async", dst)
        on = self.stream(stream)
        address, nbytes = dst.__array_interface__["data"][0], dst.nbytes
        if nbytes == 0:
            return
        if not self.host_memory.holds(address, nbytes):
            raise RuntimeError(
                f"copy_device_to_host_async(): expected page-locked host memory, got {address:#x} of {nbytes} bytes"
            )
        copy = partial(self._copy_page_locked, address, src, address, nbytes)
        on.enqueue(copy, "copy", "from device to host")

    def malloc_host(self, nbytes: int) -> int:
        self.refuse_unsafe(f"{nbytes} bytes of page-locked memory are taken")
        with self._lock:
            return self.host_memory.malloc(nbytes)

    def malloc_mapped(self, nbytes: int) -> int:
        address = self.malloc_host(nbytes)
        with self._lock:
            for memory in self._memories:
                memory.blocks.add(address, nbytes)
            self._mapped.add(address)
        return address

    def free_host(self, address: int) -> None:
        self.refuse_unsafe("page-locked memory is given back")
        with self._lock:
            self.host_memory.free(address)
            if address in self._mapped:
                self._mapped.discard(address)
                for memory in self._memories:
                    memory.blocks.remove(address)

    def register_host(self, address: int, nbytes: int, flags: int) -> None:
        with self._lock:
            self.host_memory.register(address, nbytes)

    def unregister_host(self, address: int) -> None:
        with self._lock:
            self.host_memory.unregister(address)

    def is_page_locked(self, address: int) -> bool:
        return self.host_memory.holds(address, 1)

    def device_of_address(self, address: int) -> int:
        for device, memory in enumerate(self._memories):
            if memory.owns(address):
                return device
        raise RuntimeError(f"CUDA error: invalid argument: {address:#x} is no address of device memory")

    def can_access_peer(self, device: int, peer: int) -> bool:
        self.check_device(device)
        self.check_device(peer)
        return (device, peer) in self.peers

    def enable_peer_access(self, device: int, peer: int) -> None:
        if not self.can_access_peer(device, peer):
            raise RuntimeError(
                f"CUDA error: peer access is not supported between these two devices: {device} and {peer}"
            )
        self._peer_access.add((device, peer))

    def library_handle(self, name: str) -> int:
        if name not in ("cublas", "cusolver", "cusparse"):
            raise ValueError(f"library_handle(): expected 'cublas', 'cusolver' or 'cusparse', got {name!r}")
        raise RuntimeError(f"library_handle(): simulated devices have no {name}; it needs a GPU")

    def solver(self) -> Solver:
        return SimulatedSolver(self)

    def copy_device_to_host(self, dst: HostArray, src: int, stream: int) -> None:
        def copy() -> None:
            self.check_range("copy from device to host", src, dst.nbytes)
            ctypes.memmove(dst.__array_interface__["data"][0], src, dst.nbytes)

        _check_contiguous("copy_device_to_host", dst)
        on = self.stream(stream)
        refuse_waiting(on, "a copy from device to host waits for the stream")
        if dst.nbytes:
            on.enqueue(copy, "copy", "from device to host")
        on.run()

    def copy_device_to_device(self, dst: int, src: int, nbytes: int, stream: int) -> None:
        def copy() -> None:
            self.check_range("copy into device", dst, nbytes)
            self.check_range("copy from device", src, nbytes)
            ctypes.memmove(dst, src, nbytes)
            self.note_written(dst, nbytes)

        if nbytes:
            self.stream(stream).enqueue(copy, "copy", "from device to device")

    def fourier_plans(self, device: int) -> PlanCache:
        """Return an empty cache: transforms on the host need no plans."""
        self.check_device(device)
        return self._plans.setdefault(device, NoPlans())

    def transform(self, dst: int, src: int, transform: FourierTransform, stream: int) -> None:
        """Enqueue a Fourier transform by `scipy.fft` on the host."""
        from scipy import fft

        def run() -> None:
            data = _array_at(src, transform.sizes, transform.dtype)
            self.check_range("Fourier transform of device memory", src, data.nbytes)
            target = _array_at(dst, transform.out_sizes, transform.out_dtype)
            self.check_range("Fourier transform into device memory", dst, target.nbytes)
            target[...] = transform.compute(fft, data)
            self.note_written(dst, target.nbytes)

        self.stream(stream).enqueue(run, "library", "Fourier transform")

    def memset(self, dst: int, value: int, nbytes: int, stream: int) -> None:
        def fill() -> None:
            self.check_range("memset", dst, nbytes)
            ctypes.memset(dst, value, nbytes)
            self.note_written(dst, nbytes)

        if nbytes:
            self.stream(stream).enqueue(fill, "memset")

    def create_stream(self, device: int, priority: int = 0) -> int:
        self.check_device(device)
        handle = next(self._handles)
        least, greatest = PRIORITIES
        clamped = min(max(priority, greatest), least)
        self._streams[handle] = Stream(device, self.scheduler, handle, clamped)
        return handle

    def destroy_stream(self, stream: int) -> None:
        if stream == 0:
            raise RuntimeError("CUDA error: invalid resource handle: the default stream cannot be destroyed")
        on = self.stream(stream)
        if not on.is_idle:
            self._destroyed.append(on)
        del self._streams[stream]

    def check_stream(self, device: int, stream: int) -> None:
        self.check_device(device)
        on = self.stream(stream, device)
        if on.device != device:
            raise RuntimeError(f"CUDA error: invalid resource handle: {on} was given for device {device}")

    def stream_priority_range(self) -> tuple[int, int]:
        return PRIORITIES

    def stream_priority(self, stream: int) -> int:
        return self.stream(stream).priority

    def query_stream(self, stream: int) -> bool:
        """Return True if the stream is idle; otherwise let it run one step, so that polling terminates."""
        on = self.stream(stream)
        refuse_waiting(on, "the stream is queried")
        if on.is_idle:
            return True
        self.scheduler.poll(on)
        return False

    def synchronize_stream(self, stream: int) -> None:
        on = self.stream(stream)
        refuse_waiting(on, "the stream is waited for")
        on.run()

    def synchronize(self, device: int | None = None) -> None:
        if device is None:
            device = self._thread.device
        self.check_device(device)
        self.refuse_on_device(device, f"device {device} is waited for")
        self.scheduler.run_all(self._streams_of(device))

    def run_device(self, device: int) -> None:
        """Run all work of a device, even during a capture."""
        self.scheduler.run_all(self._streams_of(device))

    def create_event(self, timing: bool = False, blocking: bool = False, interprocess: bool = False) -> int:
        if timing and interprocess:
            raise RuntimeError("CUDA error: invalid argument: an interprocess event has no timing")
        handle = next(self._handles)
        self._events[handle] = Event(timing, self._thread.device)
        return handle

    def export_event(self, event: int) -> bytes:
        self._event(event)
        raise RuntimeError(OF_ONE_PROCESS)

    def import_event(self, name: bytes) -> int:
        raise RuntimeError(OF_ONE_PROCESS)

    def export_memory(self, device: int, address: int) -> bytes:
        raise RuntimeError(OF_ONE_PROCESS)

    def import_memory(self, device: int, name: bytes) -> int:
        raise RuntimeError(OF_ONE_PROCESS)

    def close_memory(self, device: int, address: int) -> None:
        raise RuntimeError(OF_ONE_PROCESS)

    def _event(self, handle: int) -> Event:
        event = self._events.get(handle)
        if event is None:
            raise RuntimeError(f"CUDA error: invalid resource handle: event {handle:#x}")
        return event

    def record_event(self, event: int, stream: int) -> None:
        event_object, on = self._event(event), self.stream(stream)
        if event_object.device != on.device:
            raise RuntimeError(
                f"CUDA error: invalid resource handle: event {event:#x} of device {event_object.device} was recorded "
                f"on {on}"
            )
        event_object.record = on.record()

    def wait_event(self, stream: int, event: int) -> None:
        record, on = self._event(event).record, self.stream(stream)
        if record is not None:
            on.wait_for(record)

    def query_event(self, event: int) -> bool:
        """Return True if the event has happened; otherwise let its stream run one step, so that polling terminates."""
        record = self._event(event).record
        if isinstance(record, CapturedRecord):
            raise record.refuse("the event is queried")
        self.refuse_unsafe("an event is queried")
        if record is None or record.done:
            return True
        self.scheduler.poll(record.stream)
        return False

    def synchronize_event(self, event: int) -> None:
        record = self._event(event).record
        if isinstance(record, CapturedRecord):
            raise record.refuse("the event is waited for")
        self.refuse_unsafe("an event is waited for")
        if record is not None:
            record.wait()

    def elapsed(self, start: int, end: int) -> float:
        first, last = self._event(start), self._event(end)
        if first.device != last.device:
            raise RuntimeError(
                f"CUDA error: invalid resource handle: events of devices {first.device} and {last.device} have no time "
                "between them"
            )
        if not (first.timing and last.timing):
            raise RuntimeError("Both events must be created with argument 'enable_timing=True'.")
        begin, finish = first.record, last.record
        for record in (begin, finish):
            if isinstance(record, CapturedRecord):
                raise record.refuse("the time of an event is asked for")
        if begin is None or finish is None:
            raise RuntimeError("Both events must be recorded before calculating elapsed time.")
        assert isinstance(begin, EventRecord) and isinstance(finish, EventRecord)
        if not (begin.done and finish.done):
            raise RuntimeError("CUDA error: device not ready: both events must have happened")
        return (finish.seconds - begin.seconds) * 1e3

    def destroy_event(self, event: int) -> None:
        self._event(event)
        del self._events[event]

    def launch_kernel(
        self,
        name: str,
        grid: Grid,
        stream: int,
        work: Callable[[LiveBlocks], None],
        counts: bool = True,
    ) -> None:
        """Enqueue a kernel, through the observer if there is one.

        `work` receives the device's live blocks. Without `counts` the caller counts the launch.
        """
        if self.launch_observer is None:
            self._enqueue_kernel(name, stream, work, counts)
        else:
            enqueue = partial(self._enqueue_kernel, name, stream, work, counts)
            self.launch_observer(name, (grid[0], grid[1], grid[2]), stream, enqueue)

    def _enqueue_kernel(
        self, name: str, stream: int, work: Callable[[LiveBlocks], None], counts: bool
    ) -> None:
        on = self.stream(stream)
        if on.device != self.current_device():
            raise RuntimeError(
                f"CUDA error: invalid resource handle: kernel '{name}' on device {self.current_device()} was "
                f"launched on {on}"
            )
        blocks = self.memory(on.device).blocks
        if on.is_full:
            on.run()
        on.enqueue(partial(work, blocks), "kernel", name)
        self.launches += counts
        if self.launch_blocking and on.capture is None:
            on.run()


def check_tensor_map(
    kernel: str, name: str, tensor: DescribedTensor, block: Sequence[int], itemsize: int, address: int
) -> None:
    """Raise RuntimeError for a tensor descriptor that `cuTensorMapEncodeTiled` refuses."""
    pitches = [stride * itemsize for stride in tensor.strides[:-1]]
    if (
        not (len(tensor.sizes) == len(tensor.strides) == len(block) <= MAX_RANK)
        or tensor.strides[-1] != 1
        or any(pitch % DIVISIBILITY or not 0 <= pitch < MAX_PITCH for pitch in pitches)
        or any(not 0 < size <= MAX_EXTENT for size in tensor.sizes)
        or address % DIVISIBILITY
    ):
        raise RuntimeError(
            f"CUDA error: invalid argument: kernel '{kernel}': tensor descriptor '{name}' of {tensor}, block "
            f"{tuple(block)}, {itemsize} bytes an element, at {address:#x}"
        )


def check_divisible(kernel: str, name: str, value: int) -> None:
    """Raise RuntimeError for an argument that was declared divisible but is not."""
    if value % DIVISIBILITY:
        raise RuntimeError(
            f"CUDA error: misaligned address: kernel '{kernel}': argument '{name}' was declared divisible by "
            f"{DIVISIBILITY}, got {value:#x}"
        )


def _array_at(address: int, sizes: tuple[int, ...], dtype: str) -> np.ndarray[Any, Any]:
    """Return device memory as an array."""
    count = math.prod(sizes) * np.dtype(dtype).itemsize
    memory: Any = (ctypes.c_char * count).from_address(address)
    made: np.ndarray[Any, Any] = np.frombuffer(memory, dtype)
    return made.reshape(sizes)


def _check_contiguous(operation: str, array: HostArray) -> None:
    if not (array.flags.c_contiguous or array.flags.f_contiguous):
        raise ValueError(f"{operation}(): expected a contiguous array, got strides {array.strides}")
