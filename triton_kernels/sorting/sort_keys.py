"""A stable sort of integer keys, for sums over equal ones.

Sums over equal keys run over sorted keys, so that their order is the source's own and no atomics are needed.
"""

from __future__ import annotations

from collections.abc import Callable

from ...runtime.data_ptr import DataPtr
from ...runtime.device import device as Device
from ...runtime.scalar_type import dtype as ScalarType
from ..indexing.index_bounds import allocate
from .ordered_keys import WORDS, KeyFormat
from .radix import passes_of, plan_radix
from .rows import LONGEST, plan_rows

Count = Callable[[int], None]
"""Function that writes the keys, and adds up their digits at an address: see `plan_radix`. It counts nothing for
few keys.
"""


def passes_over(n: int, largest: int) -> int:
    """Return the number of counted digits of `n` keys of 0..`largest`: zero for few keys."""
    return 0 if n <= LONGEST else passes_of(largest.bit_length())


def plan_sort(
    device: Device, n: int, largest: int, dtype: ScalarType
) -> Callable[[DataPtr, Count | None], tuple[DataPtr, DataPtr]]:
    """Return the function that sorts `n` contiguous keys of 0..`largest` and returns the keys and their argsort.

    Both have the keys' dtype, int32 or int64. The keys exist already, or a function makes and counts them.
    """
    format_ = KeyFormat(WORDS[dtype.itemsize], 0, False)
    if n <= LONGEST:
        row = plan_rows(device, 1, n, n, format_, dtype)

        def run(keys: DataPtr, out: DataPtr, order: DataPtr, count: Count | None) -> None:
            if count is not None:
                count(0)
            row(keys.address, out.address, order.address)
    else:
        radix = plan_radix(device, 1, n, format_, dtype, bits=largest.bit_length())

        def run(keys: DataPtr, out: DataPtr, order: DataPtr, count: Count | None) -> None:
            radix(keys, out, order, counted_by=count)

    nbytes = n * dtype.itemsize

    def sort(keys: DataPtr, count: Count | None = None) -> tuple[DataPtr, DataPtr]:
        out, order = allocate(nbytes, device), allocate(nbytes, device)
        run(keys, out, order, count)
        return out, order

    return sort
