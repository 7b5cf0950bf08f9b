"""NVIDIA Management Library (NVML) queries of a running device: utilization, temperature, power, clocks, processes.

The queries call NVML through ``pynvml``, which ``pip install nvidia-ml-py`` installs. NVML's device indices differ from
CUDA's, so devices are looked up by their PCI bus id. Source: NVML API Reference, "Device Queries".
"""

from __future__ import annotations

import importlib
from typing import Any

from ..runtime.cuda.devices import checked_index
from ..runtime.cuda.driver import driver
from ..runtime.device import DeviceLike

__all__ = [
    "clock_rate",
    "device_memory_used",
    "list_gpu_processes",
    "memory_usage",
    "power_draw",
    "temperature",
    "utilization",
]

_CLOCK_SM, _TEMPERATURE_GPU = 1, 0
"""``NVML_CLOCK_SM`` and ``NVML_TEMPERATURE_GPU``."""


def _library() -> Any:
    """Return the initialized `pynvml`.

    Raises:
        ModuleNotFoundError: ``pynvml`` is not installed.
        RuntimeError: There is no NVIDIA driver.
    """
    try:
        library = importlib.import_module("pynvml")
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "nvidia-ml-py does not seem to be installed or it can't be imported: pip install nvidia-ml-py"
        ) from error
    try:
        library.nvmlInit()
    except library.NVMLError as error:
        raise RuntimeError(f"cuda driver can't be loaded, is cuda enabled? {error}") from error
    return library


def _handle(library: Any, device: DeviceLike) -> Any:
    """Return NVML's handle of a device. Raise RuntimeError for a simulated device."""
    index = checked_index(device)
    properties = driver().properties(index)
    if properties.pci_bus_id < 0:
        raise RuntimeError(f"cuda:{index} is simulated: NVIDIA's management library knows nothing of it")
    bus_id = f"{properties.pci_domain_id:08X}:{properties.pci_bus_id:02X}:{properties.pci_device_id:02X}.0"
    return library.nvmlDeviceGetHandleByPciBusId(bus_id.encode())


def utilization(device: DeviceLike = None) -> int:
    """Return the percentage of the last sample period in which a kernel ran (`torch.cuda.utilization`).

    Raises:
        ModuleNotFoundError: ``pynvml`` is not installed.
        RuntimeError: There is no NVIDIA driver, or the devices are simulated.
    """
    library = _library()
    return int(library.nvmlDeviceGetUtilizationRates(_handle(library, device)).gpu)


def memory_usage(device: DeviceLike = None) -> int:
    """Return the percentage of the last sample period in which memory was accessed (`torch.cuda.memory_usage`).

    Raises:
        ModuleNotFoundError: ``pynvml`` is not installed.
        RuntimeError: There is no NVIDIA driver, or the devices are simulated.
    """
    library = _library()
    return int(library.nvmlDeviceGetUtilizationRates(_handle(library, device)).memory)


def device_memory_used(device: DeviceLike = None) -> int:
    """Return the bytes of device memory that all processes use (`torch.cuda.device_memory_used`).

    Raises:
        ModuleNotFoundError: ``pynvml`` is not installed.
        RuntimeError: There is no NVIDIA driver, or the devices are simulated.
    """
    library = _library()
    return int(library.nvmlDeviceGetMemoryInfo(_handle(library, device)).used)


def temperature(device: DeviceLike = None) -> int:
    """Return the temperature of a device's chip in degrees Celsius (`torch.cuda.temperature`).

    Raises:
        ModuleNotFoundError: ``pynvml`` is not installed.
        RuntimeError: There is no NVIDIA driver, or the devices are simulated.
    """
    library = _library()
    return int(library.nvmlDeviceGetTemperature(_handle(library, device), _TEMPERATURE_GPU))


def power_draw(device: DeviceLike = None) -> int:
    """Return the power consumption of a device in milliwatts (`torch.cuda.power_draw`).

    Raises:
        ModuleNotFoundError: ``pynvml`` is not installed.
        RuntimeError: There is no NVIDIA driver, or the devices are simulated.
    """
    library = _library()
    return int(library.nvmlDeviceGetPowerUsage(_handle(library, device)))


def clock_rate(device: DeviceLike = None) -> int:
    """Return the clock rate of a device's multiprocessors in megahertz (`torch.cuda.clock_rate`).

    Raises:
        ModuleNotFoundError: ``pynvml`` is not installed.
        RuntimeError: There is no NVIDIA driver, or the devices are simulated.
    """
    library = _library()
    return int(library.nvmlDeviceGetClockInfo(_handle(library, device), _CLOCK_SM))


def list_gpu_processes(device: DeviceLike = None) -> str:
    """Return the compute processes on a device and their memory as text (`torch.cuda.list_gpu_processes`).

    If ``pynvml`` or the driver is missing, the text says so.
    """
    try:
        library = _library()
    except ModuleNotFoundError:
        return "pynvml module not found, please install nvidia-ml-py"
    except RuntimeError:
        return "cuda driver can't be loaded, is cuda enabled?"
    index = checked_index(device)
    processes = library.nvmlDeviceGetComputeRunningProcesses(_handle(library, index))
    lines = [f"GPU:{index}"]
    if not processes:
        lines.append("no processes are running")
    for process in processes:
        # NVML returns None if a container hides the process's memory.
        used = (process.usedGpuMemory or 0) / 2**20
        lines.append(f"process {process.pid:>10d} uses {used:>12.3f} MB GPU memory")
    return "\n".join(lines)
