"""The prefix sum of a vector of integers, in one program."""

from __future__ import annotations

from collections.abc import Callable

from ...runtime.device import device as Device
from ...runtime.scalar_type import dtype as ScalarType
from ..launch import Launch, interpreted, next_power_of_2
from .prefix_sum_kernels import running_total

WARPS = 8
SCAN_BLOCK = 4096


def plan_running_total(device: Device, n: int, dtype: ScalarType) -> Callable[[int], None]:
    """Return the launch of an in-place exclusive prefix sum of `n` integers, with the total written after them."""
    block = next_power_of_2(n) if interpreted() else min(max(next_power_of_2(n), 128), SCAN_BLOCK)
    name = dtype.triton_name
    launch = Launch(
        device, running_total, {"x": f"*{name}", "n": str(name)}, {"BLOCK": max(block, 2)}, num_warps=WARPS
    )
    return lambda address: launch((1, 1, 1), address, n)
