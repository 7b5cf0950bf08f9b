"""Check before composites read a tensor's values. CPU programs call it too, so the driver is imported late."""

from __future__ import annotations

from ..device import device as Device


def may_read_values(device: Device) -> bool:
    """Return True if a composite may read values to validate them: on a CUDA device, reading would wait.

    There the kernels that it calls report errors (`faults`). Under launch blocking it validates, as on the CPU.
    """
    if device.type != "cuda":
        return True
    from .driver import driver

    return driver().launch_blocking
