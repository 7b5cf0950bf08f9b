"""Questions about Triton by PyTorch's private names (`torch.utils._triton`)."""

from __future__ import annotations

from functools import cache
from importlib import metadata, util

__all__ = [
    "get_triton_version",
    "has_datacenter_blackwell_tma_device",
    "has_triton",
    "has_triton_package",
    "has_triton_tensor_descriptor_host_tma",
    "has_triton_tma",
    "has_triton_tma_device",
]

HOPPER, BLACKWELL = (9, 0), (10, 0)


@cache
def has_triton_package() -> bool:
    """Return whether Triton is installed."""
    return util.find_spec("triton") is not None


def get_triton_version(fallback: tuple[int, int] = (0, 0)) -> tuple[int, int]:
    """Return Triton's major and minor version; `fallback` if it is not installed.

    Example:
        >>> from triten.utils._triton import get_triton_version
        >>> get_triton_version() >= (3, 0)
        True
    """
    try:
        major, minor, *_ = metadata.version("triton").split(".")
    except metadata.PackageNotFoundError:
        return fallback
    return int(major), int(minor)


def has_triton() -> bool:
    """Return whether Triton is installed and there is a CUDA device, real or simulated."""
    from ..accelerator import is_available

    return has_triton_package() and is_available()


def _capability() -> tuple[int, int]:
    from ..cuda import get_device_capability

    return get_device_capability() if has_triton() else (0, 0)


def has_triton_tma_device() -> bool:
    """Return whether kernels can make tensor descriptors: from compute capability 9.0 on."""
    return _capability() >= HOPPER


def has_triton_tensor_descriptor_host_tma() -> bool:
    """Return whether the host can make tensor descriptors: from compute capability 9.0 on."""
    return _capability() >= HOPPER


def has_triton_tma() -> bool:
    """Return whether the host can make tensor descriptors: from compute capability 9.0 on."""
    return has_triton_tensor_descriptor_host_tma()


def has_datacenter_blackwell_tma_device() -> bool:
    """Return whether the device is of compute capability 10.x."""
    return BLACKWELL <= _capability() < (11, 0)
