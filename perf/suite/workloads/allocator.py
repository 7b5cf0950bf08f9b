"""Host time of the CUDA caching allocator, over addresses without memory: no device is needed."""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Callable, Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

from ...interleaved import Slice, statement_slice
from ..libraries import Library
from ..results import OURS, Bar
from ..workload import Scale, Workload

ROOT = __package__.partition(".")[0]
SECONDS_OF_A_CACHED_SIZE = 1e-6
TOTAL = 80 * 2**30
DISTINCT_SIZES = 997


def address_driver() -> Any:
    """Return a driver that only allocates addresses: work on its streams is always complete."""
    drivers = importlib.import_module(f"{ROOT}.runtime.cuda.driver")

    class AddressDriver(drivers.Driver):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.addresses = itertools.count(2**40, 2**36)
            self.mallocs = 0

        def device_count(self) -> int:
            return 1

        def malloc(self, device: int, nbytes: int) -> int:
            self.mallocs += 1
            return next(self.addresses)

        def memory_info(self, device: int) -> tuple[int, int]:
            return TOTAL, TOTAL

        def create_event(self, timing: bool = False, blocking: bool = False) -> int:
            return 1

        def query_event(self, event: int) -> bool:
            return True

    AddressDriver.__abstractmethods__ = frozenset()  # what an allocator does not call
    return AddressDriver()


def prepared(**more: object) -> dict[str, Any]:
    """Return a new allocator with some allocated blocks, and the functions that statements call on it."""
    allocators = importlib.import_module(f"{ROOT}.runtime.cuda.memory.caching_allocator")
    device = importlib.import_module(f"{ROOT}.runtime.device").device("cuda", 0)
    allocator = allocators.CachingAllocator(address_driver())
    held = [allocator.allocate(700 * k, device) for k in range(1, 40)]
    return {
        "a": allocator.allocate,
        "d": device,
        "held": held,
        "record": allocator.record_stream,
        "next": next,
        **more,
    }


def prepared_pool() -> dict[str, Any]:
    """Return `prepared()` with the pool of small blocks."""
    split = prepared()
    pool = split["a"].__self__.cache(0).pool(0, 1024)
    return split | {"pool": pool, "split": SimpleNamespace()}


def prepared_sizes() -> dict[str, Any]:
    """Return `prepared()` with a cycle of many sizes."""
    sizes = itertools.cycle(512 * (1 + 389 * k % DISTINCT_SIZES) for k in range(DISTINCT_SIZES))
    return prepared(sizes=sizes)


def prepared_pointer() -> dict[str, Any]:
    """Return the pointer class of allocations."""
    pointers = importlib.import_module(f"{ROOT}.runtime.data_ptr")
    return {"P": pointers.DataPtr, "d": prepared()["d"], "f": lambda data: None}


CALLS: tuple[tuple[str, str, Callable[[], dict[str, Any]], float | None], ...] = (
    ("malloc + free of a cached size", "a(1000, d)", prepared, SECONDS_OF_A_CACHED_SIZE),
    ("the pointer alone", "P(4096, 1000, d, None, f, None)", prepared_pointer, None),
    ("malloc + free of a cached large size", "a(5000000, d)", prepared, None),
    ("best fit with a split, and the merge",
     "b = pool.take(1024, None); b.home.append(b)\nfor w in pool.merge(): pool.file(w)", prepared_pool, None),
    (f"malloc + free of {DISTINCT_SIZES} sizes in turn", "a(next(sizes), d)", prepared_sizes, None),
    ("malloc + record_stream + free", "p = a(1000, d); record(p, 5); del p", prepared, None),
)  # fmt: skip


def workloads(scale: Scale) -> Iterator[Workload]:
    """Yield a row for each call; none has a baseline."""
    for name, statement, names, seconds in CALLS:
        yield Workload(
            "allocator", "caching allocator", name, "", "", threads=1, host=True, compared=False,
            bar=None if seconds is None else Bar(None, seconds), prepare=partial(_prepare, statement, names),
        )  # fmt: skip


def _prepare(statement: str, names: Callable[[], dict[str, Any]], library: Library) -> Slice | None:
    return statement_slice(statement, names()) if library.name == OURS else None
