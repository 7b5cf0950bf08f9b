"""Copies between host and device through CuPy, and page-locked memory."""

from __future__ import annotations

from collections import deque

from ...errors import OutOfMemoryError
from ..driver import Driver, HostArray, ThreadState
from .errors import runtime

INVALID_VALUE = 1
MEMORY_ALLOCATION = 2
NOT_READY = 600


class CuPyCopies(Driver):
    """Part of the CuPy driver that copies bytes."""

    def __init__(self, thread_state: ThreadState | None = None) -> None:
        super().__init__(thread_state)
        self._reads_pageable: dict[int, bool] = {}
        self._held: deque[tuple[int, HostArray]] = deque()
        """Copies of arrays that a device reads directly, each with the event that ends the read."""

    def copy_host_to_device(self, dst: int, src: HostArray, stream: int) -> None:
        address = src.__array_interface__["data"][0]
        runtime.memcpyAsync(dst, address, src.nbytes, runtime.memcpyHostToDevice, stream)

    def stage_host_to_device(self, dst: int, src: HostArray, stream: int) -> None:
        """Enqueue a copy of pageable memory that the caller may change on return.

        CUDA stages pageable memory itself, before the call returns (CUDA Runtime API, "API synchronization
        behavior"). A device that reads pageable memory directly gets a copy, which is kept until the device has read
        it.
        """
        self._give_back_read()
        device = self.current_device()
        direct = self._reads_pageable.get(device)
        if direct is None:
            number = runtime.cudaDevAttrPageableMemoryAccess
            direct = self._reads_pageable[device] = bool(runtime.deviceGetAttribute(number, device))
        if not direct:
            self.copy_host_to_device(dst, src, stream)
            return
        own = src.copy(order="K")
        self.copy_host_to_device(dst, own, stream)
        if self.captures_underway and self.is_capturing(stream):
            return
        event = int(runtime.eventCreateWithFlags(runtime.eventDisableTiming))
        runtime.eventRecord(event, stream)
        self._held.append((event, own))

    def _give_back_read(self) -> None:
        """Release the oldest copies that have been read."""
        while self._held:
            try:
                oldest = self._held.popleft()
            except IndexError:  # another thread took it
                return
            if runtime.eventQuery(oldest[0]) == NOT_READY:
                self._held.appendleft(oldest)
                return
            runtime.eventDestroy(oldest[0])

    def copy_device_to_host_async(self, dst: HostArray, src: int, stream: int) -> None:
        address = dst.__array_interface__["data"][0]
        runtime.memcpyAsync(address, src, dst.nbytes, runtime.memcpyDeviceToHost, stream)

    def copy_device_to_host(self, dst: HostArray, src: int, stream: int) -> None:
        self.copy_device_to_host_async(dst, src, stream)
        runtime.streamSynchronize(stream)

    def copy_device_to_device(self, dst: int, src: int, nbytes: int, stream: int) -> None:
        # "Default" lets the driver infer the devices from the addresses, so that copies between two devices work. If
        # one device cannot access the other's memory, the copy goes through the host.
        runtime.memcpyAsync(dst, src, nbytes, runtime.memcpyDefault, stream)

    def memset(self, dst: int, value: int, nbytes: int, stream: int) -> None:
        runtime.memsetAsync(dst, value, nbytes, stream)

    def malloc_host(self, nbytes: int) -> int:
        return self._page_locked(nbytes, runtime.hostAllocPortable)

    def malloc_mapped(self, nbytes: int) -> int:
        address = self._page_locked(nbytes, runtime.hostAllocPortable | runtime.hostAllocMapped)
        if runtime.pointerGetAttributes(address).devicePointer != address:
            runtime.freeHost(address)
            raise RuntimeError("CUDA error: operation not supported: the device has no unified addresses")
        return address

    def _page_locked(self, nbytes: int, flags: int) -> int:
        self.current_device()
        try:
            return int(runtime.hostAlloc(nbytes, flags))
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
            attributes = runtime.pointerGetAttributes(address)
        except runtime.CUDARuntimeError as error:
            if error.status != INVALID_VALUE:
                raise
            return False
        return bool(attributes.type == runtime.memoryTypeHost)

    def device_of_address(self, address: int) -> int:
        attributes = runtime.pointerGetAttributes(address)
        if attributes.type not in (runtime.memoryTypeDevice, runtime.memoryTypeManaged):
            raise RuntimeError(f"CUDA error: invalid argument: {address:#x} is no address of device memory")
        return int(attributes.device)
