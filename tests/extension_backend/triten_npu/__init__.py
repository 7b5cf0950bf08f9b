"""A backend for triten in a package of its own: two simulated devices, ``npu:0`` and ``npu:1``.

Importing it registers all there is: the name, an allocator, a device guard, kernels, and the CPU for the rest. It uses
public names of triten alone.
"""

from __future__ import annotations

import sys

import triten as tt

from .memory import NpuAllocator, NpuGuard, current_device, device_count, memory_allocated, set_device

__all__ = ["current_device", "device_count", "is_available", "memory_allocated", "set_device"]


def is_available() -> bool:
    """Whether there are devices."""
    return True


tt.utils.rename_privateuse1_backend("npu")
tt.library.set_allocator("npu", NpuAllocator())
tt.library.register_device_guard("npu", NpuGuard())
tt.utils.generate_methods_for_privateuse1_backend()
tt._register_device_module("npu", sys.modules[__name__])

from . import kernels  # noqa: E402, F401  registers kernels for the device that now has its name
