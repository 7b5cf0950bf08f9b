"""A stable radix sort of integer keys on the device, and the prefix sum that it stands on.

Sums over equal keys run over sorted keys, so that their order is the source's own and no atomics are needed.
"""

from __future__ import annotations

from collections.abc import Callable

from ...runtime.cuda.lazy_triton import tl
from ...runtime.data_ptr import DataPtr
from ...runtime.device import device as Device
from ...runtime.scalar_type import dtype as ScalarType
from ..indexing.index_bounds import allocate
from ..launch import Launch, cdiv, interpreted, next_power_of_2
from .sorting_kernels import count_digits, move_by_digit, running_total

BLOCK = 512
DIGIT_BITS = 4
WARPS = 8
SCAN_BLOCK = 4096
INTERPRETED_CELLS = 1 << 20
"""Keys times buckets of a program in the interpreter."""


def plan_running_total(device: Device, n: int, dtype: ScalarType) -> Callable[[int], None]:
    """The launch that replaces `n` integers by the sum of those before each, and writes the sum of all after them."""
    block = next_power_of_2(n) if interpreted() else min(max(next_power_of_2(n), 128), SCAN_BLOCK)
    name = dtype.triton_name
    launch = Launch(
        device, running_total, {"x": f"*{name}", "n": str(name)}, {"BLOCK": max(block, 2)}, num_warps=WARPS
    )
    return lambda address: launch((1, 1, 1), address, n)


def plan_sort(
    device: Device, n: int, largest: int, dtype: ScalarType
) -> Callable[[DataPtr], tuple[DataPtr, DataPtr]]:
    """The function that sorts `n` contiguous keys of 0..`largest`, and gives them and the places they came from.

    Both are of the keys' dtype, int32 or int64. The keys given are overwritten.
    """
    bits = DIGIT_BITS
    block = BLOCK
    if interpreted():
        block = min(max(next_power_of_2(n), 16), 1 << 16)
        bits = 8 if block << 8 <= INTERPRETED_CELLS else DIGIT_BITS
    bits = min(bits, max(largest.bit_length(), 1))
    buckets = 1 << bits
    passes = cdiv(max(largest.bit_length(), 1), bits)
    programs = cdiv(n, block)
    name = str(dtype.triton_name)
    pointer = f"*{name}"
    constants: dict[str, object] = {
        "BUCKETS": buckets,
        "INDEX": tl.int32 if name == "i32" else tl.int64,
        "BLOCK": block,
    }
    numbers = {"n": name, "programs": name, "shift": name}
    count = Launch(
        device, count_digits, {"keys": pointer, "counts": pointer, **numbers}, constants, num_warps=WARPS
    )
    tail = {"sorted_keys": pointer, "sorted_order": pointer, "starts": pointer, **numbers}
    first = Launch(
        device, move_by_digit, {"keys": pointer, **tail}, {**constants, "order": None}, num_warps=WARPS
    )
    move = Launch(
        device, move_by_digit, {"keys": pointer, "order": pointer, **tail}, constants, num_warps=WARPS
    )
    total = plan_running_total(device, buckets * programs, dtype)
    itemsize = dtype.itemsize
    grid = (programs, 1, 1)

    def sort(keys: DataPtr) -> tuple[DataPtr, DataPtr]:
        counts = allocate((buckets * programs + 1) * itemsize, device)
        other = allocate(n * itemsize, device)
        order, other_order = allocate(n * itemsize, device), allocate(n * itemsize, device)
        for i in range(passes):
            shift = i * bits
            count(grid, keys.address, counts.address, n, programs, shift)
            total(counts.address)
            places = (other.address, other_order.address, counts.address, n, programs, shift)
            if i == 0:
                first(grid, keys.address, *places)
            else:
                move(grid, keys.address, order.address, *places)
            keys, other = other, keys
            order, other_order = other_order, order
        return keys, order

    return sort
