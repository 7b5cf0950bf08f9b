"""The configuration of a launch, by kernel, device, dtype and shape."""

from __future__ import annotations

from ...runtime.cuda.lazy_kernel import LazyKernel
from ...runtime.device import device as Device
from ..budget import Configuration


def configuration(
    kernel: LazyKernel, device: Device, dtype: str, shape: tuple[int, ...], default: Configuration
) -> Configuration:
    """The configuration that a launch takes: `default`, what the kernel's heuristic says."""
    return default
