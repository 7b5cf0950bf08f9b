"""Device arguments, and `device_guard`: a context manager that makes a device current."""

from __future__ import annotations

from ..device import DeviceLike
from ..device import device as Device
from .driver import Driver, driver


def device_index(device: DeviceLike) -> int:
    """Return the index of a CUDA device; None or a device without index is the current device.

    Raises ValueError for a device of another type.
    """
    if device is None:
        return driver().current_device()
    cuda_device = Device(device)
    if cuda_device.type != "cuda":
        raise ValueError(f"Expected a cuda device, but got: {cuda_device}")
    return driver().current_device() if cuda_device.index is None else cuda_device.index


class device_guard:
    """Context manager that makes a device current in this thread and restores the previous one.

    Example:
        >>> from triten.runtime.cuda.device_guard import device_guard
        >>> with device_guard(0) as cuda:
        ...     cuda.current_device()
        0
    """

    __slots__ = ("_before", "_driver", "_index")

    def __init__(self, index: int) -> None:
        self._index = index
        self._driver = driver()

    def __enter__(self) -> Driver:
        self._before = self._driver.current_device()
        if self._before != self._index:
            self._driver.set_device(self._index)
        return self._driver

    def __exit__(self, *_: object) -> None:
        if self._before != self._index:
            self._driver.set_device(self._before)
