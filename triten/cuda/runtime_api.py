"""Calls of the CUDA runtime that programs make by hand (`torch.cuda.cudart`), and its errors.

Source: CUDA Runtime API, "Profiler Control", "Memory Management", "Error Handling".
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum

from ..runtime.cuda.driver import Driver, driver
from ..runtime.errors import AcceleratorError

__all__ = ["CudaError", "DeferredCudaCallError", "check_error", "cudaStatus", "cudart"]


class cudaStatus:
    """Statuses of the driver, by PyTorch's names."""

    SUCCESS = 0
    ERROR_NOT_READY = 34


class cudaError(IntEnum):
    """Statuses of the runtime: ``cudart().cudaError``."""

    success = 0
    invalidValue = 1
    memoryAllocation = 2
    invalidDevice = 101
    notReady = 600
    hostMemoryAlreadyRegistered = 712
    hostMemoryNotRegistered = 713


_TEXTS = {
    cudaError.success: "no error",
    cudaError.invalidValue: "invalid argument",
    cudaError.memoryAllocation: "out of memory",
    cudaError.invalidDevice: "invalid device ordinal",
    cudaError.notReady: "device not ready",
    cudaError.hostMemoryAlreadyRegistered: "part or all of the requested memory range is already mapped",
    cudaError.hostMemoryNotRegistered: "pointer does not correspond to a registered memory region",
}


class CudaError(RuntimeError):
    """A call of the runtime returned a status other than success (`torch.cuda.CudaError`)."""

    def __init__(self, code: int) -> None:
        super().__init__(f"{_Runtime.cudaGetErrorString(code)} ({int(code)})")


class DeferredCudaCallError(Exception):
    """PyTorch raises it where a call that waited for CUDA's start fails. Nothing waits here, so nothing raises it."""


class _Runtime:
    """The functions of ``libcudart`` that PyTorch binds. Each returns a status, which `check_error` looks at."""

    cudaError = cudaError

    def __init__(self, cuda: Driver) -> None:
        self._driver = cuda

    @staticmethod
    def cudaGetErrorString(error: int) -> str:
        """Return the description of a status code."""
        text = _TEXTS.get(error)  # type: ignore[call-overload]
        return text if text is not None else driver().error_text(int(error))

    def cudaProfilerStart(self) -> int:
        """Start the attached profiler's collection."""
        return _status(self._driver.start_profiler)

    def cudaProfilerStop(self) -> int:
        """Stop the attached profiler's collection."""
        return _status(self._driver.stop_profiler)

    def cudaHostRegister(self, address: int, nbytes: int, flags: int) -> int:
        """Page-lock existing host memory; `flags` is from 0 to 3, the sum of 1 for portable and 2 for mapped."""
        return _status(lambda: self._driver.register_host(address, nbytes, flags))

    def cudaHostUnregister(self, address: int) -> int:
        """Undo `cudaHostRegister`."""
        return _status(lambda: self._driver.unregister_host(address))

    def cudaMemGetInfo(self, device: int) -> tuple[int, int]:
        """Return the (free, total) bytes of a device."""
        return self._driver.memory_info(device)


def _status(call: Callable[[], None]) -> int:
    """Run a driver call and return its status code; the driver raises where the runtime returns a code."""
    try:
        call()
    except AcceleratorError as error:
        return error.error_code
    return cudaError.success


def cudart() -> _Runtime:
    """Return the CUDA runtime: profiler control, page-locking, memory and error texts (`torch.cuda.cudart`).

    Raises:
        RuntimeError: there is no CUDA device.

    Example:
        >>> import triten as tt
        >>> free, total = tt.cuda.cudart().cudaMemGetInfo(0)
        >>> 0 < free <= total
        True
    """
    return _Runtime(driver())


def check_error(res: int) -> None:
    """Raise `CudaError` for a status other than success (`torch.cuda.check_error`).

    Example:
        >>> import triten as tt
        >>> tt.cuda.check_error(0)
        >>> tt.cuda.check_error(2)
        Traceback (most recent call last):
        triten.cuda.runtime_api.CudaError: out of memory (2)
    """
    if res != cudaError.success:
        raise CudaError(res)
