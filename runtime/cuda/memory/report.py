"""Reports: the out-of-memory message and PyTorch's `memory_summary` table."""

from __future__ import annotations

from collections import Counter
from typing import Any

from .block import Block
from .cache import DeviceCache
from .snapshot import requested_bytes

LARGEST = 5
ROWS = (
    ("allocated_bytes", "Allocated memory", True),
    ("active_bytes", "Active memory", True),
    ("requested_bytes", "Requested memory", True),
    ("reserved_bytes", "GPU reserved memory", True),
    ("inactive_split_bytes", "Non-releasable memory", True),
    ("allocation", "Allocations", False),
    ("active", "Active allocs", False),
    ("segment", "GPU reserved segments", False),
    ("inactive_split", "Non-releasable allocs", False),
)
COLUMNS = ("current", "peak", "allocated", "freed")


def readable(nbytes: int) -> str:
    """Format a number of bytes in a suitable unit.

    Example:
        >>> from triten.runtime.cuda.memory.report import readable
        >>> readable(3 * 2**29), readable(100)
        ('1.50 GiB', '100 bytes')
    """
    for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if nbytes >= size:
            return f"{nbytes / size:.2f} {unit}"
    return f"{nbytes} bytes"


def out_of_memory_message(nbytes: int, cache: DeviceCache, free: int, total: int, live: list[Block]) -> str:
    """Return the out-of-memory message: total and used memory, and the largest blocks."""
    allocated = sum(block.counted for block in live)
    reserved = cache.stats.current("reserved_bytes")
    limit = "" if cache.limit is None else f" {readable(cache.limit)} allowed by the memory fraction;"
    sizes = Counter(requested_bytes(block) for block in live)
    largest = [
        readable(size) if count == 1 else f"{count} of {readable(size)}"
        for size, count in sorted(sizes.items(), reverse=True)[:LARGEST]
    ]
    return (
        f"CUDA out of memory. Tried to allocate {readable(nbytes)}. GPU {cache.index} has a total capacity of "
        f"{readable(total)} of which {readable(free)} is free;{limit} {readable(allocated)} is allocated by "
        f"triten, {readable(reserved)} is reserved by triten. Largest live blocks: "
        f"{', '.join(largest) or 'none'}."
    )


def _size(value: int, reference: int) -> str:
    unit = "B  "
    for larger in ("KiB", "MiB", "GiB", "TiB", "PiB"):
        if reference < 768 * 1024:
            break
        unit, value, reference = larger, value // 1024, reference // 1024
    return f"{value:6d} {unit}"


def _count(value: int, reference: int) -> str:
    unit = " "
    for larger in ("K", "M"):
        if reference < 750 * 1000:
            break
        unit, value, reference = larger, value // 1000, reference // 1000
    return f"{value:7d} {unit} "


def summary_table(stats: dict[str, Any], device: int, abbreviated: bool) -> str:
    """Format flat statistics as the table of `torch.cuda.memory_summary`."""
    width = 75
    title = f"triten CUDA memory summary, device ID {device}"
    events = f"CUDA OOMs: {stats['num_ooms']:<12d} | cudaMalloc retries: {stats['num_alloc_retries']:<8d}"
    lines = [
        "=" * width,
        title.center(width),
        "-" * width,
        events.center(width),
        "=" * width,
        "        Metric         | Cur Usage  | Peak Usage | Tot Alloc  | Tot Freed  ",
    ]
    for metric, label, is_size in ROWS:
        lines.append("-" * width)
        show = _size if is_size else _count
        reference = [stats[f"{metric}.all.{column}"] for column in COLUMNS]
        pools = [("all", label)]
        if not abbreviated:
            pools += [("large_pool", "      from large pool"), ("small_pool", "      from small pool")]
        for pool, name in pools:
            cells = (
                show(stats[f"{metric}.{pool}.{column}"], base)
                for column, base in zip(COLUMNS, reference, strict=True)
            )
            lines.append(f" {name:<21} | {' | '.join(cells)} ")
    lines.append("=" * width)
    return "|" + "|\n|".join(lines) + "|\n"
