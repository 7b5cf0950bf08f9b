"""CuPy's device queries: properties, and handles of NVIDIA's libraries."""

from __future__ import annotations

import uuid
from typing import Any

from cupy.cuda import device as cupy_device

from ..device_properties import DeviceProperties
from .errors import runtime

LIBRARIES = ("cublas", "cusolver", "cusparse")


def device_properties(device: int) -> DeviceProperties:
    """Return the properties of an existing device."""
    raw = runtime.getDeviceProperties(device)

    def attribute(name: str) -> int:
        # CUDA 13 removed the clocks from its structure of properties, but still has them as attributes.
        return int(runtime.deviceGetAttribute(getattr(runtime, f"cudaDevAttr{name}"), device))

    return DeviceProperties(
        name=raw["name"].decode(),
        major=raw["major"],
        minor=raw["minor"],
        total_memory=raw["totalGlobalMem"],
        multi_processor_count=raw["multiProcessorCount"],
        warp_size=raw["warpSize"],
        max_shared_memory=raw["sharedMemPerBlockOptin"],
        shared_memory_per_block=raw["sharedMemPerBlock"],
        shared_memory_per_multiprocessor=raw["sharedMemPerMultiprocessor"],
        regs_per_multiprocessor=raw["regsPerMultiprocessor"],
        max_threads_per_multi_processor=raw["maxThreadsPerMultiProcessor"],
        max_threads_per_block=raw["maxThreadsPerBlock"],
        L2_cache_size=raw["l2CacheSize"],
        clock_rate=attribute("ClockRate"),
        memory_clock_rate=attribute("MemoryClockRate"),
        memory_bus_width=attribute("GlobalMemoryBusWidth"),
        is_integrated=attribute("Integrated"),
        is_multi_gpu_board=attribute("IsMultiGpuBoard"),
        pci_domain_id=raw["pciDomainID"],
        pci_bus_id=raw["pciBusID"],
        pci_device_id=raw["pciDeviceID"],
        uuid=_uuid_text(raw.get("uuid")),
    )


def _uuid_text(raw: Any) -> str:
    """Return a device's UUID as nvidia-smi prints it, without its prefix; empty if CuPy has none."""
    data = raw if isinstance(raw, bytes) else b""
    return str(uuid.UUID(bytes=data)) if len(data) == 16 else ""


def library_handle(name: str, stream: int) -> int:
    """Return CuPy's handle of a library in this thread, on the current device, set to a stream.

    Raises RuntimeError if the library is not installed, ValueError for another name.
    """
    if name not in LIBRARIES:
        raise ValueError(f"library_handle(): expected one of {LIBRARIES}, got {name!r}")
    try:
        backend = __import__(f"cupy_backends.cuda.libs.{name}", fromlist=[name])
        handle = int(getattr(cupy_device, f"get_{name}_handle")())
    except ImportError as error:
        raise RuntimeError(
            f"library_handle(): {name} is not installed; it comes with the CUDA toolkit: "
            "pip install 'cupy-cuda13x[ctk]'"
        ) from error
    backend.setStream(handle, stream)
    return handle
