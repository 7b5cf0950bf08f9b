"""Memory of CUDA devices (`torch.cuda.memory`): statistics, snapshots, limits, private pools and other allocators.

All of it is reached through `tt.cuda` too. Before the first use of a device there are no statistics.
"""

from __future__ import annotations

import pickle
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import get_ident
from typing import TYPE_CHECKING, Any

from ..runtime.allocator import Allocator, set_allocator
from ..runtime.cuda.device_guard import device_index
from ..runtime.cuda.driver import driver
from ..runtime.cuda.memory import inspection
from ..runtime.cuda.memory.block import PoolId
from ..runtime.cuda.memory.cache import new_pool_id
from ..runtime.cuda.memory.caching_allocator import CUDA_ALLOCATOR
from ..runtime.cuda.memory.report import summary_table
from ..runtime.cuda.memory.statistics import flattened
from ..runtime.device import DeviceLike
from ..runtime.device import device as Device

if TYPE_CHECKING:
    import cupy

    from ..runtime.cuda.stream import Stream

__all__ = [
    "MemPool",
    "caching_allocator_alloc",
    "caching_allocator_delete",
    "change_current_allocator",
    "cupy_allocator",
    "empty_cache",
    "get_allocator_backend",
    "get_per_process_memory_fraction",
    "max_memory_allocated",
    "max_memory_cached",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_cached",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "memory_summary",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
    "reset_max_memory_cached",
    "reset_peak_memory_stats",
    "set_per_process_memory_fraction",
    "use_mem_pool",
]


def mem_get_info(device: DeviceLike = None) -> tuple[int, int]:
    """Return the (free, total) bytes of a device's memory, as the driver reports them."""
    return driver().memory_info(device_index(device))


def memory_stats_as_nested_dict(device: DeviceLike = None) -> dict[str, Any]:
    """Return `memory_stats` as nested dictionaries: metric, pool, kind of count."""
    if not CUDA_ALLOCATOR.is_attached:
        return {}
    return inspection.nested_stats(CUDA_ALLOCATOR, device_index(device))


def memory_stats(device: DeviceLike = None) -> dict[str, Any]:
    """Return a device's allocator statistics under PyTorch's keys, plus `num_hits` and `hit_rate`.

    ``{allocated_bytes,requested_bytes,active_bytes,inactive_split_bytes,reserved_bytes,allocation,active,
    inactive_split,segment}.{all,small_pool,large_pool}.{current,peak,allocated,freed}``, and ``num_alloc_retries``,
    ``num_ooms``, ``num_sync_all_streams``, ``num_device_alloc``, ``num_device_free``, ``max_split_size`` (-1: blocks
    of all sizes are split). A hit is a request that a cached block of its size served without a search.

    Example:
        >>> import triten as tt
        >>> x = tt.ones(1000, device="cuda")
        >>> stats = tt.cuda.memory_stats()
        >>> stats["allocated_bytes.small_pool.current"] >= 4096, 0 <= stats["hit_rate"] <= 1
        (True, True)
    """
    return flattened(memory_stats_as_nested_dict(device))


def memory_allocated(device: DeviceLike = None) -> int:
    """Return the bytes of live tensors on a device."""
    return int(memory_stats(device).get("allocated_bytes.all.current", 0))


def max_memory_allocated(device: DeviceLike = None) -> int:
    """Return the peak bytes of live tensors since the start or `reset_peak_memory_stats`."""
    return int(memory_stats(device).get("allocated_bytes.all.peak", 0))


def memory_reserved(device: DeviceLike = None) -> int:
    """Return the bytes that the caching allocator has reserved on a device, in use or cached."""
    return int(memory_stats(device).get("reserved_bytes.all.current", 0))


def max_memory_reserved(device: DeviceLike = None) -> int:
    """Return the peak bytes reserved by the caching allocator."""
    return int(memory_stats(device).get("reserved_bytes.all.peak", 0))


def reset_peak_memory_stats(device: DeviceLike = None) -> None:
    """Reset all peaks to the current values."""
    inspection.reset_peaks(CUDA_ALLOCATOR, device_index(device))


def reset_accumulated_memory_stats(device: DeviceLike = None) -> None:
    """Reset all accumulated sums and event counters to 0."""
    inspection.reset_accumulated(CUDA_ALLOCATOR, device_index(device))


def memory_cached(device: DeviceLike = None) -> int:
    """Return `memory_reserved`. Deprecated name; issues a FutureWarning."""
    warnings.warn(
        "`cuda.memory_cached` has been renamed to `cuda.memory_reserved`",
        FutureWarning,
        stacklevel=2,
    )
    return memory_reserved(device)


def max_memory_cached(device: DeviceLike = None) -> int:
    """Return `max_memory_reserved`. Deprecated name; issues a FutureWarning."""
    warnings.warn(
        "`cuda.max_memory_cached` has been renamed to `cuda.max_memory_reserved`",
        FutureWarning,
        stacklevel=2,
    )
    return max_memory_reserved(device)


def reset_max_memory_allocated(device: DeviceLike = None) -> None:
    """Call `reset_peak_memory_stats`, with a FutureWarning. Deprecated."""
    warnings.warn(
        "cuda.reset_max_memory_allocated now calls cuda.reset_peak_memory_stats, which resets /all/ peak memory stats.",
        FutureWarning,
        stacklevel=2,
    )
    reset_peak_memory_stats(device)


def reset_max_memory_cached(device: DeviceLike = None) -> None:
    """Call `reset_peak_memory_stats`, with a FutureWarning. Deprecated."""
    warnings.warn(
        "cuda.reset_max_memory_cached now calls cuda.reset_peak_memory_stats, which resets /all/ peak memory stats.",
        FutureWarning,
        stacklevel=2,
    )
    reset_peak_memory_stats(device)


def memory_summary(device: DeviceLike = None, abbreviated: bool = False) -> str:
    """Format a device's memory statistics as a table; `abbreviated` omits the pools."""
    index = device_index(device)
    stats = flattened(inspection.nested_stats(CUDA_ALLOCATOR, index))
    return summary_table(stats, index, abbreviated)


def memory_snapshot(mempool_id: PoolId | None = None) -> list[dict[str, Any]]:
    """Return all segments of all devices with their blocks, or those of one private pool.

    A segment has its device, address, total_size, allocated_size, active_size, requested_size, stream, segment_type,
    segment_pool_id, frames and blocks. A block has its address, size, requested_size, state and frames.
    """
    if not CUDA_ALLOCATOR.is_attached:
        return []
    return inspection.snapshot_segments(CUDA_ALLOCATOR, mempool_id)


def empty_cache() -> None:
    """Return cached memory that no tensor uses to the devices."""
    CUDA_ALLOCATOR.empty_cache()


def set_per_process_memory_fraction(fraction: float, device: DeviceLike = None) -> None:
    """Limit the allocator to a fraction of a device's total memory. A request beyond it is an out-of-memory error.

    Args:
        fraction: A float in [0, 1].
        device: The device. Default: the current one.

    Raises:
        TypeError: `fraction` is not a float.
        ValueError: `fraction` is not in [0, 1].
    """
    if not isinstance(fraction, float):
        raise TypeError("Invalid type for fraction argument, must be `float`")
    if not 0 <= fraction <= 1:
        raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1")
    inspection.set_fraction(CUDA_ALLOCATOR, device_index(device), fraction)


def get_per_process_memory_fraction(device: DeviceLike = None) -> float:
    """Return the fraction of a device's memory that the allocator may use."""
    return CUDA_ALLOCATOR.cache(device_index(device)).fraction


def caching_allocator_alloc(size: int, device: DeviceLike = None, stream: Stream | int | None = None) -> int:
    """Allocate `size` bytes on a stream for another library; free them with `caching_allocator_delete`.

    Args:
        size: The number of bytes.
        device: The device. Default: the current one.
        stream: A stream, its handle as an int, or None for the device's current stream.

    Returns:
        The address.

    Raises:
        TypeError: `stream` is something else.
    """
    index = device_index(device)
    if stream is None:
        stream = driver().current_stream(index)
    stream = getattr(stream, "cuda_stream", stream)
    if not isinstance(stream, int):
        raise TypeError(
            "Invalid type for stream argument, must be `tt.cuda.Stream` or `int` representing a pointer to an "
            "existing stream"
        )
    return CUDA_ALLOCATOR.raw_allocate(size, Device("cuda", index), stream)


def caching_allocator_delete(mem_ptr: int) -> None:
    """Free memory that `caching_allocator_alloc` allocated.

    Raises:
        RuntimeError: `caching_allocator_alloc` did not allocate the address.
    """
    CUDA_ALLOCATOR.raw_delete(mem_ptr)


def get_allocator_backend() -> str:
    """Return the name of the allocator's backend: ``"native"``, the caching allocator."""
    return "native"


def change_current_allocator(allocator: Allocator) -> None:
    """Replace the CUDA allocator (`tt.library.Allocator`). `tt.library.set_allocator` also replaces one in use.

    Raises:
        RuntimeError: The caching allocator has been used.
    """
    if CUDA_ALLOCATOR.is_used:
        raise RuntimeError("Can't swap an already initialized allocator")
    set_allocator("cuda", allocator)


def cupy_allocator(nbytes: int) -> cupy.cuda.MemoryPointer:
    """Allocate memory for CuPy on its current device and stream, from the pool of triten's tensors.

        cupy.cuda.set_allocator(tt.cuda.cupy_allocator)

    Raises:
        RuntimeError: The devices are simulated.
        OutOfMemoryError: The device has not enough free memory.
    """
    from ..runtime.cuda.cupy.allocator import allocate_for_cupy

    return allocate_for_cupy(nbytes)


class MemPool:
    """A pool of memory apart from the rest, for `use_mem_pool`. Its memory outlives it where tensors hold it.

    Example:
        >>> import triten as tt
        >>> pool = tt.cuda.MemPool()
        >>> with tt.cuda.use_mem_pool(pool):
        ...     x = tt.zeros(4, device="cuda")
        >>> [segment["segment_pool_id"] == pool.id for segment in pool.snapshot()]
        [True]
    """

    __slots__ = ("__weakref__", "_device", "id")

    def __init__(self) -> None:
        self._device = device_index(None)
        self.id = new_pool_id()
        CUDA_ALLOCATOR.retain_pool(self._device, self.id)

    @property
    def device(self) -> int:
        """The index of the device that was current as it was made."""
        return self._device

    def use_count(self) -> int:
        """Return the pool's reference count: this object, and each active `use_mem_pool`."""
        return CUDA_ALLOCATOR.pool_uses(self._device, self.id)

    def snapshot(self) -> list[dict[str, Any]]:
        """Return the `memory_snapshot` of this pool."""
        return memory_snapshot(self.id)

    def __del__(self) -> None:
        # By the queue: a lock might be held by the very thread that garbage collection interrupted.
        if hasattr(self, "id"):
            CUDA_ALLOCATOR.release_pool_later(self._device, self.id)


@contextmanager
def use_mem_pool(pool: MemPool, device: DeviceLike = None) -> Iterator[None]:
    """Allocate this thread's memory on a device from a pool inside the block.

    Raises:
        RuntimeError: The pool is already in use on that device.
    """
    index, thread = device_index(device), get_ident()
    CUDA_ALLOCATOR.begin_allocate_to_pool(index, pool.id, lambda stream: get_ident() == thread)
    try:
        yield
    finally:
        CUDA_ALLOCATOR.end_allocate_to_pool(index, pool.id)
        CUDA_ALLOCATOR.release_pool(index, pool.id)


def _record_memory_history(
    enabled: str | None = "all",
    context: str | None = "all",
    stacks: str = "all",
    max_entries: int = sys.maxsize,
    device: DeviceLike = None,
    clear_history: bool = False,
    compile_context: bool = False,
    global_record_annotations: bool = False,
    skip_actions: Iterable[str] | None = None,
) -> None:
    """Record where memory is taken and given back, for `_snapshot`; frames are those of Python.

    Args:
        enabled: ``"state"`` keeps the frames of live blocks, ``"all"`` all events too; None ends it.
        context: whose frames are kept: None, ``"state"`` (live blocks), ``"alloc"`` or ``"all"`` events.
        stacks: ``"python"`` or ``"all"``; there are no others than Python's.
        max_entries: The number of latest events to keep.
        clear_history: forget what was recorded before.
        skip_actions: events to leave out: ``"alloc"``, ``"free_requested"``, ``"free_completed"``,
            ``"segment_alloc"``, ``"segment_free"``, ``"oom"``, ``"snapshot"``.
    """
    if compile_context or global_record_annotations:
        raise RuntimeError("_record_memory_history: compile_context and annotations are not recorded")
    inspection.record_history(
        CUDA_ALLOCATOR, enabled, context, stacks, max_entries, clear_history, skip_actions
    )


def _snapshot(device: DeviceLike = None) -> dict[str, Any]:
    """Return the memory state of all devices and the recorded events, in the format of pytorch.org/memory_viz."""
    return inspection.snapshot(CUDA_ALLOCATOR)


def _dump_snapshot(filename: str | Path = "dump_snapshot.pickle") -> None:
    """Write `_snapshot()` to a file that pytorch.org/memory_viz opens."""
    with open(filename, "wb") as file:
        pickle.dump(_snapshot(), file)
