"""Batched programs: the programs of one launch run together, with one NumPy array for each value.

The loads of a batch see memory as it was before the batch. Its stores are executed after its last operation, program
by program. The result is bitwise identical to sequential execution, unless a program loads what it or an earlier one
stores. `Batch.conflicts` detects that; then nothing is written and the programs run one by one. The same holds for
programs with different control flow, for atomics, and for faults (`Unbatchable`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from triton._C.libtriton import interpreter as memory_access

from .formats import Array

MAX_LANES = 1 << 16
"""Lanes of the widest value of a batch: a few megabytes for all values that live at once."""
MAX_RECORDED_BYTES = 64 << 20
FIRST_SIZE = 4
"""Programs of a launch's first batch, which shows how wide their values are."""
DECISIONS_BETWEEN_CHECKS = 256
MAX_FAILURES = 2
"""Batches of a launch that may fail before the rest of its programs runs one by one."""


class Unbatchable(Exception):
    """The programs of a batch must run one after the other."""


@dataclass(frozen=True, slots=True)
class _Access:
    """One load or store of all programs of a batch.

    `pointers` and `active` are None for a load that is too large to keep; `bits` is None for a load.
    """

    event: int
    start: int
    end: int
    itemsize: int
    pointers: Array | None
    active: Array | None
    bits: Array | None = None

    def meets(self, other: _Access) -> bool:
        return self.start < other.end and other.start < self.end

    def bounds(self) -> tuple[Array, Array]:
        """Return the lowest and the highest address of a byte that each program accesses."""
        assert self.pointers is not None
        lowest = highest = self.pointers.reshape(len(self.pointers), -1)
        if self.active is not None:
            active = np.broadcast_to(self.active, self.pointers.shape).reshape(lowest.shape)
            lowest, highest = np.where(active, lowest, ~np.uint64(0)), np.where(active, highest, np.uint64(0))
        return lowest.min(1), highest.max(1) + np.uint64(self.itemsize - 1)


class Batch:
    """The memory accesses of programs that run together.

    Args:
        first: The number of the first program.
        count: How many programs there are.
    """

    def __init__(self, first: int, count: int) -> None:
        self.first = first
        self.count = count
        self._events = 0
        self._recorded = 0
        self._decisions = 0
        self._loads: list[_Access] = []
        self._stores: list[_Access] = []

    def load(self, pointers: Array, active: Array | None, itemsize: int) -> None:
        """Record a load."""
        access = self._access(pointers, active, itemsize, None)
        if access is not None:
            self._loads.append(access)

    def store(self, pointers: Array, active: Array | None, bits: Array) -> None:
        """Record a store, which is carried out by `write`. Raises Unbatchable if there are too many."""
        pointers, bits = for_each_program(pointers, self.count), for_each_program(bits, self.count)
        active = None if active is None else for_each_program(active, self.count)
        access = self._access(pointers, active, bits.dtype.itemsize, bits)
        if access is not None:
            if access.pointers is None:
                raise Unbatchable
            self._stores.append(access)

    def _access(
        self, pointers: Array, active: Array | None, itemsize: int, bits: Array | None
    ) -> _Access | None:
        addresses = pointers if active is None else pointers[active]
        if not addresses.size:
            return None
        start, end = int(addresses.min()), int(addresses.max()) + itemsize
        self._events += 1
        self._recorded += pointers.size * (pointers.itemsize + itemsize)
        if self._recorded > MAX_RECORDED_BYTES:
            return _Access(self._events, start, end, itemsize, None, None)
        return _Access(self._events, start, end, itemsize, pointers, active, bits)

    def decide(self) -> None:
        """Note a decision on control flow.

        A loop that waits for what its program has stored would not end in a batch: Raises Unbatchable then.
        """
        self._decisions += 1
        if self._decisions % DECISIONS_BETWEEN_CHECKS == 0 and self.conflicts():
            raise Unbatchable

    def conflicts(self) -> bool:
        """Return True if a program loads what it or an earlier program has stored before."""
        pairs = [
            (load, store)
            for store in self._stores
            for load in self._loads
            if load.meets(store) and not self._apart(load, store)
        ]
        if not pairs:
            return False
        loads, stores = (
            {access.event: access for access in each}.values() for each in zip(*pairs, strict=True)
        )
        if any(load.pointers is None for load in loads):
            return True
        if len({access.itemsize for pair in pairs for access in pair}) > 1:
            return True
        stored, written = self._ranked(stores)
        loaded, read = self._ranked(loads)
        order = np.lexsort((written, stored))
        stored, written = stored[order], written[order]
        index = np.searchsorted(stored, loaded)  # the earliest store to the address
        is_stored = index < stored.size
        index = index[is_stored]
        return bool(((stored[index] == loaded[is_stored]) & (written[index] < read[is_stored])).any())

    def _apart(self, load: _Access, store: _Access) -> bool:
        """Return True if each program loads before it stores, and only above all earlier programs' stores."""
        if load.pointers is None or len(load.pointers) != self.count or load.event > store.event:
            return False
        lowest, highest = load.bounds()[0], store.bounds()[1]
        return bool((np.maximum.accumulate(highest)[:-1] < lowest[1:]).all())

    def _ranked(self, accesses: Iterable[_Access]) -> tuple[Array, Array]:
        """Return the addresses of accesses, and their positions in sequential program order."""
        addresses, ranks = [], []
        for access in accesses:
            assert access.pointers is not None
            pointers = access.pointers
            programs = np.arange(self.count) if len(pointers) == self.count else np.array([self.count - 1])
            programs = programs.reshape(-1, *[1] * (pointers.ndim - 1))
            rank = np.broadcast_to(programs * (self._events + 1) + access.event, pointers.shape)
            chosen = np.True_ if access.active is None else access.active
            addresses.append(pointers[np.broadcast_to(chosen, pointers.shape)])
            ranks.append(rank[np.broadcast_to(chosen, pointers.shape)])
        return np.concatenate(addresses), np.concatenate(ranks)

    def write(self) -> None:
        """Execute the stores in sequential program order."""
        stores = sorted(self._stores, key=lambda store: store.start)
        if all(before.end <= after.start for before, after in pairwise(stores)):
            for store in stores:
                _write(store, slice(None))
        else:
            for program in range(self.count):
                for store in self._stores:
                    _write(store, slice(program, program + 1))


def _write(store: _Access, programs: slice) -> None:
    assert store.pointers is not None and store.bits is not None
    pointers = store.pointers[programs]
    active = np.True_ if store.active is None else store.active[programs]
    memory_access.store(pointers, store.bits[programs], np.broadcast_to(active, pointers.shape))


def for_each_program(data: Array, count: int) -> Array:
    """Return a value of as many programs. Triton before 3.9 stores through no view of `np.broadcast_to`."""
    return data if len(data) == count else data.repeat(count, 0)


def uniform(values: Array) -> Any:
    """Return the one number of all programs. Raises Unbatchable if they have different ones."""
    first = values[0]
    if len(values) > 1 and not (values == first).all():
        raise Unbatchable
    return first.item()
