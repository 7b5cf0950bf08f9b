"""Copies between host and device through CuPy, and the page-locked memory that they need not stage."""

from __future__ import annotations

from ...errors import OutOfMemoryError
from ..driver import Driver, HostArray
from .errors import runtime

INVALID_VALUE = 1
MEMORY_ALLOCATION = 2


class CuPyCopies(Driver):
    """The part of the CuPy driver that moves bytes."""

    def copy_host_to_device(self, dst: int, src: HostArray, stream: int) -> None:
        address = src.__array_interface__["data"][0]
        runtime.memcpyAsync(dst, address, src.nbytes, runtime.memcpyHostToDevice, stream)

    # CUDA stages pageable memory itself, before the call returns (CUDA Runtime API, "API synchronization behavior").
    stage_host_to_device = copy_host_to_device

    def copy_device_to_host_async(self, dst: HostArray, src: int, stream: int) -> None:
        address = dst.__array_interface__["data"][0]
        runtime.memcpyAsync(address, src, dst.nbytes, runtime.memcpyDeviceToHost, stream)

    def copy_device_to_host(self, dst: HostArray, src: int, stream: int) -> None:
        self.copy_device_to_host_async(dst, src, stream)
        runtime.streamSynchronize(stream)

    def copy_device_to_device(self, dst: int, src: int, nbytes: int, stream: int) -> None:
        # "Default" lets the driver tell devices apart by address, so that copies between two of them work; where one
        # cannot reach the other's memory it goes through the host.
        runtime.memcpyAsync(dst, src, nbytes, runtime.memcpyDefault, stream)

    def memset(self, dst: int, value: int, nbytes: int, stream: int) -> None:
        runtime.memsetAsync(dst, value, nbytes, stream)

    def malloc_host(self, nbytes: int) -> int:
        self.current_device()
        try:
            return int(runtime.hostAlloc(nbytes, runtime.hostAllocPortable))
        except runtime.CUDARuntimeError as error:
            if error.status != MEMORY_ALLOCATION:
                raise
            raise OutOfMemoryError(
                f"CUDA error: out of memory: the host could not give {nbytes} bytes of page-locked memory"
            ) from error

    def free_host(self, address: int) -> None:
        runtime.freeHost(address)

    def register_host(self, address: int, nbytes: int, flags: int) -> None:
        runtime.hostRegister(address, nbytes, flags)

    def unregister_host(self, address: int) -> None:
        runtime.hostUnregister(address)

    def is_page_locked(self, address: int) -> bool:
        try:
            found = runtime.pointerGetAttributes(address)
        except runtime.CUDARuntimeError as error:
            if error.status != INVALID_VALUE:
                raise
            return False
        return bool(found.type == runtime.memoryTypeHost)

    def device_of_address(self, address: int) -> int:
        found = runtime.pointerGetAttributes(address)
        if found.type not in (runtime.memoryTypeDevice, runtime.memoryTypeManaged):
            raise RuntimeError(f"CUDA error: invalid argument: {address:#x} is no address of device memory")
        return int(found.device)
