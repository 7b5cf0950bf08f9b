"""CUDA devices: their number, the current device, and their properties (torch/cuda/__init__.py).

A `device` argument is an index, a device, a string, or None for the current device.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any

from ..device import DeviceLike
from ..device import device as Device
from . import driver as drivers
from .device_properties import DeviceProperties
from .driver import driver
from .faults import raise_faults

TARGETS = ("sm_80", "sm_90", "sm_100")
"""Architectures that this package's kernels are written for."""


def device_index(device: DeviceLike, optional: bool = True) -> int:
    """Return the index in a device argument without range checks: it may be negative or out of range.

    Raises ValueError for a device of another type and, unless `optional`, for an argument without an index.
    """
    if isinstance(device, int) and not isinstance(device, bool):
        return device
    cuda_device = None if device is None else Device(device)
    if cuda_device is not None and cuda_device.type != "cuda":
        raise ValueError(f"Expected a cuda device, but got: {cuda_device}")
    if cuda_device is None or cuda_device.index is None:
        if not optional:
            raise ValueError(
                f"Expected a triten.device with a specified index or an integer, but got:{device}"
            )
        return driver().current_device()
    return cuda_device.index


def checked_index(device: DeviceLike, noun: str = "device") -> int:
    """Return the index of an existing device; raise AssertionError for any other, as PyTorch does."""
    index = device_index(device)
    if not 0 <= index < driver().device_count():
        raise AssertionError(f"Invalid {noun} id: got {index}, expected 0 to {driver().device_count() - 1}")
    return index


def is_available() -> bool:
    """Return True if a CUDA device is available."""
    return drivers.is_available()


def is_initialized() -> bool:
    """Return True if the driver was chosen by the first use of a device."""
    return drivers.current_driver() is not None


def init() -> None:
    """Choose the driver now instead of at the first use of a device. Raise RuntimeError if there is none."""
    driver()


def device_count() -> int:
    """Return the number of devices; 0 if none is available. No driver is chosen: `is_initialized` stays False."""
    return drivers.device_count()


def current_device() -> int:
    """Return the index of this thread's current device. Raise RuntimeError if there is none."""
    return driver().current_device()


def set_device(device: DeviceLike) -> None:
    """Make a device current in this thread; do nothing for a negative index.

    Raises ValueError without an index, RuntimeError for a device that does not exist.
    """
    index = device_index(device, optional=False)
    if index >= 0:
        driver().set_device(index)


class device:
    """Context manager that makes a device current (`torch.cuda.device`); it does nothing for a negative index.

    Example:
        >>> import triten as tt
        >>> with tt.cuda.device(1):
        ...     tt.cuda.current_device()
        1
        >>> tt.cuda.current_device()
        0
    """

    def __init__(self, device: Any) -> None:
        self.idx = device_index(device)
        self.prev_idx = -1

    def __enter__(self) -> None:
        if self.idx >= 0:
            cuda = driver()
            self.prev_idx = cuda.current_device()
            cuda.set_device(self.idx)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.prev_idx >= 0:
            driver().set_device(self.prev_idx)


_DeviceGuard = device


def _exchange_device(device: int) -> int:
    """Make a device current and return the number of the one before; -1 for a negative number, which does nothing.

    Example:
        >>> import triten as tt
        >>> tt.cuda._exchange_device(1), tt.cuda._exchange_device(0), tt.cuda._exchange_device(-1)
        (0, 1, -1)
    """
    if device < 0:
        return -1
    cuda = driver()
    before = cuda.current_device()
    cuda.set_device(device)
    return before


_maybe_exchange_device = _exchange_device


class device_of(device):
    """Context manager that makes the device of a tensor or storage current; it does nothing for a CPU tensor.

    Example:
        >>> import triten as tt
        >>> with tt.cuda.device_of(tt.zeros(1, device="cuda:1")):
        ...     tt.cuda.current_device()
        1
    """

    def __init__(self, obj: Any) -> None:
        where = obj.device
        super().__init__(where.resolved_index if where.type == "cuda" else -1)


def synchronize(device: DeviceLike = None) -> None:
    """Wait for all work on all streams of a device. Raise the error of an input fault that kernels found."""
    cuda, index = driver(), device_index(device)
    cuda.synchronize(index)
    raise_faults(cuda, index)


def get_device_properties(device: DeviceLike = None) -> DeviceProperties:
    """Return the properties of a device. Raise AssertionError if it does not exist."""
    return driver().properties(checked_index(device))


def get_device_name(device: DeviceLike = None) -> str:
    """Return the name of a device."""
    return get_device_properties(device).name


def get_device_capability(device: DeviceLike = None) -> tuple[int, int]:
    """Return the (major, minor) compute capability of a device."""
    properties = get_device_properties(device)
    return properties.major, properties.minor


def can_device_access_peer(device: DeviceLike, peer_device: DeviceLike) -> bool:
    """Return True if a device can access a peer's memory without the host.

    Raises AssertionError for a device that does not exist, ValueError for a peer without an index.
    """
    device_index(peer_device, optional=False)
    index, peer = checked_index(device), checked_index(peer_device, "peer device")
    return driver().can_access_peer(index, peer)


def current_blas_handle() -> int:
    """Return the address of the current device's cuBLAS handle, set to the current stream.

    Raises RuntimeError without cuBLAS, which comes with the CUDA toolkit; the interpreter has none.
    """
    return driver().library_handle("cublas")


def current_solver_handle() -> int:
    """Return the address of the current device's cuSOLVER handle, set to the current stream.

    Raises RuntimeError without cuSOLVER, like `current_blas_handle`.
    """
    return driver().library_handle("cusolver")


def get_gencode_flags() -> str:
    """Return `get_arch_list` as flags for nvcc (`torch.cuda.get_gencode_flags`).

    Example:
        >>> import triten as tt
        >>> tt.cuda.get_gencode_flags().split()[:2]
        ['-gencode', 'compute=compute_80,code=sm_80']
    """
    versions = [target.split("_")[1] for target in get_arch_list()]
    return " ".join(f"-gencode compute=compute_{each},code=sm_{each}" for each in versions)


def get_arch_list() -> list[str]:
    """Return the architectures that the kernels are written for; empty if no device is available."""
    return list(TARGETS) if drivers.is_available() else []


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Return True if the current device has bfloat16 instructions, from capability 8.0 on.

    `including_emulation` has no effect. In PyTorch it adds devices that convert bfloat16 to float32 and back, but no
    kernel here is written for them.
    """
    return drivers.is_available() and get_device_properties().major >= 8


def is_tf32_supported() -> bool:
    """Return True if the current device has TF32 matmuls."""
    return is_bf16_supported(including_emulation=False)
