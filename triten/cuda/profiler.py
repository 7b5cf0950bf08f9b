"""Control of NVIDIA's profilers (`torch.cuda.profiler`), as with ``nsys profile -c cudaProfilerApi``.

For triten's own profiler see `tt.profiler`. Source: CUDA Runtime API, "Profiler Control".
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from .runtime_api import check_error, cudart

__all__ = ["profile", "start", "stop"]


def start() -> None:
    """Have the profiler that is attached collect from here on. Raises `CudaError` where it cannot."""
    check_error(cudart().cudaProfilerStart())


def stop() -> None:
    """End what `start` began. Raises `CudaError` where it cannot."""
    check_error(cudart().cudaProfilerStop())


@contextmanager
def profile() -> Iterator[None]:
    """Collect a profile of the block.

    Example:
        >>> import triten as tt
        >>> x = tt.ones(3, device="cuda")
        >>> with tt.cuda.profiler.profile():
        ...     y = x + x
    """
    try:
        start()
        yield
    finally:
        stop()
