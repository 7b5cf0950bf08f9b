"""Questions about devices that PyTorch's code generator answers (`torch._inductor.utils`)."""

from __future__ import annotations

from ..runtime.device import DeviceLike
from ..runtime.parallel import get_num_threads
from ..utils._triton import has_triton

__all__ = ["GPU_TYPES", "is_big_gpu", "is_gpu", "parallel_num_threads"]

GPU_TYPES = ["cuda"]
BIG_GPU_PROCESSORS = 68
"""Streaming multiprocessors of the smallest GPU for which PyTorch tunes products."""


def is_gpu(device: str | None) -> bool:
    """Return whether a device type is one of GPUs."""
    return device in GPU_TYPES


def is_big_gpu(index_or_device: DeviceLike = 0) -> bool:
    """Return whether a GPU has at least 68 streaming multiprocessors.

    Args:
        index_or_device: The device. Default: 0.

    Source: torch._inductor.utils.is_big_gpu.
    """
    from ..cuda import get_device_properties

    return has_triton() and get_device_properties(index_or_device).multi_processor_count >= BIG_GPU_PROCESSORS


def parallel_num_threads() -> int:
    """Return the number of threads that kernels of the CPU share."""
    return get_num_threads()
