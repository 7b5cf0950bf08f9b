"""Long rows in the registers of a cluster of thread blocks, which read each element once.

A row that exceeds one block's registers is read in blocks by a single program, two or three times. From sm_90 on, up
to eight blocks of a cluster hold the row together and exchange only their partial maxima and sums, through distributed
shared memory (CUDA C++ Programming Guide, "Thread Block Clusters"). Triton compiles the same kernel for a cluster
(``num_ctas``): a program is then a cluster, and its tile is spread over the blocks.
"""

from __future__ import annotations

from ...runtime.cuda.device_properties import design_of
from ...runtime.cuda.driver import driver
from ...runtime.cuda.triton.lazy_gluon import is_triton_from
from ...runtime.device import device as Device
from ..budget import Configuration
from ..launch import interpreted, next_power_of_2

MIN_DESIGN = 90
"""First design whose kernels have clusters."""
OLDEST_TRITON = (3, 9)
"""Oldest Triton that compiles these kernels for clusters: 3.6 and 3.8 fail in the pass that assigns tiles to blocks."""
MAX_CTAS = 8
"""Blocks of a cluster that every device with clusters supports."""
WARPS, MAX_WARPS = 16, 32
"""Warps of a block, and of a block of the longest rows."""
WARP_SIZE = 32


def has_clusters(device: Device) -> bool:
    """Return True if kernels are compiled for a device with clusters; the interpreter ignores them."""
    if interpreted() or not is_triton_from(OLDEST_TRITON):
        return False
    return design_of(driver().properties(device.resolved_index).capability) >= MIN_DESIGN


def cluster_tile(device: Device, body: int, lane: int, max_warps: int = MAX_WARPS) -> Configuration | None:
    """Return a cluster whose registers hold a row, or None if the device has none or the row is too long.

    Args:
        body: Elements of the row.
        lane: Elements of the row that a thread holds.
        max_warps: Warps of a block, 16 or 32. With 32, a thread has 64 registers.
    """
    if not has_clusters(device):
        return None
    reduced = next_power_of_2(body)
    for warps in (WARPS, MAX_WARPS):
        if warps > max_warps:
            break
        ctas = max(reduced // (WARP_SIZE * warps * lane), 2)
        if ctas <= MAX_CTAS:
            return Configuration((1, reduced), warps, ctas=ctas)
    return None
