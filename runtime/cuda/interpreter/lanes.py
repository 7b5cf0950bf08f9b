"""Reads and read-modify-writes of memory by the lanes of a block: arrays of addresses that have been checked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from triton._C.libtriton import interpreter as memory_access
from triton._C.libtriton import ir

from .formats import FLOAT32, Array, extremum

FLOAT_CHANGES: dict[Any, Callable[[Array, Array], Array]] = {
    ir.ATOMIC_OP.XCHG: lambda there, value: value,
    ir.ATOMIC_OP.FADD: lambda there, value: there.astype(FLOAT32) + value.astype(FLOAT32),
    ir.ATOMIC_OP.MIN: lambda there, value: extremum(np.fmin, there, value),
    ir.ATOMIC_OP.MAX: lambda there, value: extremum(np.fmax, there, value),
}
"""By the atomic operation, what is written where a float is, for a lane's value."""


class _Memory:
    """Memory as NumPy's array interface shows it."""

    def __init__(self, start: int, count: int, dtype: np.dtype[Any]) -> None:
        self.__array_interface__ = {
            "data": (start, True),
            "shape": (count,),
            "typestr": dtype.str,
            "version": 3,
        }


def gather(pointers: Array, active: Array | None, rest: Array, dtype: np.dtype[Any]) -> Array:
    """Return what aligned pointers point to, and `rest` in the lanes that are not active."""
    addresses = pointers if active is None else pointers[active]
    if not addresses.size:
        return np.broadcast_to(rest, pointers.shape).copy()
    start, end = int(addresses.min()), int(addresses.max())
    memory = np.asarray(_Memory(start, (end - start) // dtype.itemsize + 1, dtype))
    index = (pointers - np.uint64(start)).view(np.int64) >> (dtype.itemsize.bit_length() - 1)
    if active is None:
        return memory.take(index)
    return np.where(active, memory.take(np.where(active, index, 0)), rest)


def modify(
    pointers: Array,
    values: Array,
    active: Array,
    storage: np.dtype[Any],
    change: Callable[[Array, Array], Array],
) -> Array:
    """Change memory by each lane's value, lane after lane, and return what each found there; 0 without activity.

    Args:
        pointers: Aligned addresses; several lanes may have the same.
        values: Values of the lanes.
        active: Lanes that take part.
        storage: The integer type with which memory is read and written.
        change: Function from what is there and the values to what is written.
    """
    found = np.zeros(pointers.shape, values.dtype)
    flat, addresses, operands = found.reshape(-1), pointers.reshape(-1), values.reshape(-1)
    left = np.flatnonzero(active)
    while left.size:
        # The first lane of each address; lanes with the same address follow in their order.
        _, first = np.unique(addresses[left], return_index=True)
        now, left = left[first], np.delete(left, first)
        there = gather(addresses[now], None, np.zeros((), storage), storage).view(values.dtype)
        written = change(there, operands[now]).astype(values.dtype)
        memory_access.store(addresses[now], written.view(storage), np.ones(now.size, bool))
        flat[now] = there
    return found
