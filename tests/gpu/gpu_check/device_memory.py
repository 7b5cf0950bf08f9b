"""Device memory of a check, straight from the driver, given back at its end."""

from __future__ import annotations

import importlib
from types import TracebackType
from typing import Any

import numpy as np

import triten as tt

from .device_errors import is_fatal

Array = np.ndarray[Any, Any]


class Probes:
    """The kernels of `probe_kernels`; Triton is imported for the first one asked for, not for their names."""

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module(".probe_kernels", __package__), name)


probes = Probes()


class DeviceMemory:
    """Blocks from the driver, outside of the caching allocator."""

    def __init__(self) -> None:
        self.cuda = tt.library.driver()
        self.index = self.cuda.current_device()
        self._held: list[int] = []

    def __enter__(self) -> DeviceMemory:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is not None and is_fatal(error):
            return  # nothing works any more, and it would hide the error
        self.cuda.synchronize()
        for address in self._held:
            self.cuda.note_freed(address, self.index, 0)
            self.cuda.free(self.index, address)

    def empty(self, nbytes: int) -> int:
        """Allocate memory and return its address."""
        address = self.cuda.malloc(self.index, nbytes)
        self.cuda.note_allocated(address, nbytes, self.index, 0)
        self.cuda.synchronize()  # every stream may use it from here on
        self._held.append(address)
        return address

    def put(self, array: Array) -> int:
        """Copy an array to the device and return its address."""
        address = self.empty(array.nbytes)
        self.cuda.copy_host_to_device(address, np.ascontiguousarray(array), 0)
        self.cuda.synchronize()
        return address

    def get(self, address: int, like: Array) -> Array:
        """Synchronize the device and return an array copied from an address."""
        self.cuda.synchronize()
        out = np.empty_like(like)
        self.cuda.copy_device_to_host(out, address, 0)
        return out


def compiled(kernel: Any, signature: dict[str, str], constants: dict[str, object], **options: Any) -> Any:
    """Compile a kernel of `probe_kernels` for the current device with triten's own driver."""
    return tt.library.driver().compile(kernel, signature, constants, **options)
