"""CUDA devices (`torch.cuda`): which there are, which is current, their memory and their random numbers.

A `device` argument is an index, a device, a string, or None for the current device. With
``TRITEN_CUDA=interpret`` the devices are simulated.
"""

from __future__ import annotations

from types import TracebackType

from . import cuda_memory as memory
from .cuda_memory import *  # noqa: F403 - its names are declared there
from .cuda_memory import __all__ as _memory_names
from .runtime import generator as generators
from .runtime.cuda import driver as drivers
from .runtime.cuda.device_guard import DeviceLike
from .runtime.cuda.device_guard import device_index as _index
from .runtime.cuda.driver import DeviceProperties
from .runtime.cuda.driver import driver as _driver
from .runtime.device import device as Device
from .runtime.errors import OutOfMemoryError

__all__ = [
    "OutOfMemoryError",
    "current_device",
    "device",
    "device_count",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "initial_seed",
    "is_available",
    "manual_seed",
    "manual_seed_all",
    "memory",
    "set_device",
    "synchronize",
    *_memory_names,
]


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
    """Wait for all work on a device."""
    _driver().synchronize(_index(device))


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
