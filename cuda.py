"""CUDA devices (`torch.cuda`): which there are, which is current, their memory and their random numbers.

A `device` argument is an index, a device, a string, or None for the current device. With
``TRITEN_CUDA=interpret`` the devices are simulated.
"""

from __future__ import annotations

from types import TracebackType

from .dispatch.graphed_callables import make_graphed_callables
from .runtime import generator as generators
from .runtime.cuda import driver as drivers
from .runtime.cuda.caching_allocator import CUDA_ALLOCATOR, DeviceStats
from .runtime.cuda.driver import DeviceProperties
from .runtime.cuda.driver import driver as _driver
from .runtime.cuda.graph import CUDAGraph, graph, graph_pool_handle, is_current_stream_capturing
from .runtime.cuda.graph_capture import raise_faults
from .runtime.device import device as Device
from .runtime.errors import OutOfMemoryError

__all__ = [
    "CUDAGraph",
    "OutOfMemoryError",
    "current_device",
    "device",
    "device_count",
    "empty_cache",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "graph",
    "graph_pool_handle",
    "initial_seed",
    "is_available",
    "is_current_stream_capturing",
    "make_graphed_callables",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "reset_peak_memory_stats",
    "set_device",
    "synchronize",
]

DeviceLike = Device | int | str | None


def _index(device: DeviceLike) -> int:
    if device is None:
        return _driver().current_device()
    found = Device(device)
    if found.type != "cuda":
        raise ValueError(f"Expected a cuda device, but got: {found}")
    return _driver().current_device() if found.index is None else found.index


def is_available() -> bool:
    """Whether a CUDA device can be used."""
    return drivers.is_available()


def device_count() -> int:
    """How many devices there are; 0 where none can be used."""
    return _driver().device_count() if drivers.is_available() else 0


def current_device() -> int:
    """The index of this thread's current device. Raises RuntimeError where there is none."""
    return _driver().current_device()


def set_device(device: DeviceLike) -> None:
    """Make a device current in this thread. Raises RuntimeError for one that does not exist."""
    _driver().set_device(_index(device))


class device:
    """A context in which a device is current.

    Example:
        >>> import triten as tt
        >>> with tt.cuda.device(0):
        ...     tt.cuda.current_device()
        0
    """

    def __init__(self, device: DeviceLike) -> None:
        self.idx = _index(device)
        self.prev_idx = -1

    def __enter__(self) -> None:
        self.prev_idx = _driver().current_device()
        _driver().set_device(self.idx)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        _driver().set_device(self.prev_idx)


def synchronize(device: DeviceLike = None) -> None:
    """Wait for all work on a device. Raises the error that a replayed graph found in its inputs."""
    index = _index(device)
    _driver().synchronize(index)
    raise_faults(_driver(), index)


def get_device_properties(device: DeviceLike = None) -> DeviceProperties:
    """Name, capability, memory and multiprocessors of a device."""
    return _driver().properties(_index(device))


def get_device_name(device: DeviceLike = None) -> str:
    """The name of a device."""
    return get_device_properties(device).name


def get_device_capability(device: DeviceLike = None) -> tuple[int, int]:
    """(major, minor) compute capability of a device."""
    properties = get_device_properties(device)
    return properties.major, properties.minor


def mem_get_info(device: DeviceLike = None) -> tuple[int, int]:
    """(free, total) bytes of a device, as the driver tells."""
    return _driver().memory_info(_index(device))


def _stats(device: DeviceLike) -> DeviceStats:
    return CUDA_ALLOCATOR.stats(_index(device))


def memory_allocated(device: DeviceLike = None) -> int:
    """Bytes that tensors hold on a device."""
    return _stats(device).allocated


def max_memory_allocated(device: DeviceLike = None) -> int:
    """The most bytes that tensors have held since the start or `reset_peak_memory_stats`."""
    return _stats(device).allocated_peak


def memory_reserved(device: DeviceLike = None) -> int:
    """Bytes that the caching allocator has from the device, in use or kept for reuse."""
    return _stats(device).reserved


def max_memory_reserved(device: DeviceLike = None) -> int:
    """The most bytes that the caching allocator has had."""
    return _stats(device).reserved_peak


def reset_peak_memory_stats(device: DeviceLike = None) -> None:
    """Start both peaks afresh from what is in use now."""
    CUDA_ALLOCATOR.reset_peaks(_index(device))


def empty_cache() -> None:
    """Give memory that no tensor holds back to the devices."""
    CUDA_ALLOCATOR.empty_cache()


def manual_seed(seed: int) -> None:
    """Seed the current device's default generator; without a device nothing happens."""
    if drivers.is_available():
        generators.default_generator(Device("cuda", current_device())).manual_seed(seed)


def manual_seed_all(seed: int) -> None:
    """Seed the default generator of every device."""
    for index in range(device_count()):
        generators.default_generator(Device("cuda", index)).manual_seed(seed)


def initial_seed() -> int:
    """The seed of the current device's default generator."""
    return generators.default_generator(Device("cuda", current_device())).initial_seed()
