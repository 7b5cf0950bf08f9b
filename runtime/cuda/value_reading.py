"""Whether a composite may look at a tensor's values. Programs on the CPU ask too, so the driver is imported late."""

from __future__ import annotations

from ..device import device as Device


def may_read_values(device: Device) -> bool:
    """Whether a composite may look at a tensor's values to refuse them: not on a CUDA device, where that is a wait.

    There the kernels that it calls report what is wrong (`faults`); under launch blocking it looks, as on the CPU.
    """
    if device.type != "cuda":
        return True
    from .driver import driver

    return driver().launch_blocking
