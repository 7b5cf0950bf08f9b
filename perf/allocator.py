"""Host time of the CUDA caching allocator, over addresses without memory: no device is needed."""

from __future__ import annotations

import argparse
import importlib
import itertools
import statistics
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from .interleaved import measure, statement_slice
from .machine import write_report

BAR_NS = 1000
CACHED = "malloc + free of a cached size"
TOTAL = 80 * 2**30
DISTINCT_SIZES = 997


def address_driver() -> Any:
    """A driver that gives out addresses: work on its streams is always done."""
    drivers = importlib.import_module("..runtime.cuda.driver", __package__)

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


def contests() -> dict[str, dict[str, Any]]:
    """The statements, each with an allocator of its own; beside them the pointer alone, made and dropped."""
    allocators = importlib.import_module("..runtime.cuda.caching_allocator", __package__)
    devices = importlib.import_module("..runtime.device", __package__)
    pointers = importlib.import_module("..runtime.data_ptr", __package__)
    device = devices.device("cuda", 0)

    def prepared(**more: object) -> dict[str, object]:
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

    sizes = itertools.cycle(512 * (1 + 389 * k % DISTINCT_SIZES) for k in range(DISTINCT_SIZES))
    split = prepared()
    cache = split["a"].__self__.cache(0)  # type: ignore[attr-defined]
    pool = cache.pool(0, 1024)
    split |= {"pool": pool, "split": SimpleNamespace()}
    pointer = {"P": pointers.DataPtr, "d": device, "f": lambda data: None}
    return {
        CACHED: {
            "triten": statement_slice("a(1000, d)", prepared()),
            "the pointer alone": statement_slice("P(4096, 1000, d, None, f, None)", pointer),
        },
        "malloc + free of a cached large size": {
            "triten": statement_slice("a(5000000, d)", prepared()),
        },
        "best fit with a split, and the merge": {
            "triten": statement_slice(
                "b = pool.take(1024, None); b.home.append(b)\nfor w in pool.merge(): pool.file(w)", split
            ),
        },
        f"malloc + free of {DISTINCT_SIZES} sizes in turn": {
            "triten": statement_slice("a(next(sizes), d)", prepared(sizes=sizes)),
        },
        "malloc + record_stream + free": {
            "triten": statement_slice("p = a(1000, d); record(p, 5); del p", prepared()),
        },
    }


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `python -m triten.perf allocator`."""
    parser.add_argument("--rounds", type=int, default=40, help="slices of each statement")
    parser.add_argument("--slice-ms", type=float, default=4.0, help="length of a slice")
    parser.add_argument("--json", type=Path, metavar="PATH", help="also write the result to this file")


def run(arguments: argparse.Namespace) -> int:
    """Measure and print nanoseconds, the least and the median of the rounds, with the bar."""
    seconds = measure(contests(), rounds=arguments.rounds, slice_seconds=arguments.slice_ms / 1e3)
    rows: dict[str, dict[str, float]] = {}
    print(f"{'':<44}{'':<20}{'least':>10}{'median':>10}")
    for name, rivals in seconds.items():
        for rival, times in rivals.items():
            least, median = min(times) * 1e9, statistics.median(times) * 1e9
            rows[f"{name}: {rival}"] = {"least_ns": least, "median_ns": median}
            barred = name == CACHED and rival == "triten"
            verdict = f"  bar {BAR_NS}: {'met' if median <= BAR_NS else 'MISSED'}" if barred else ""
            print(f"{name:<44}{rival:<20}{least:>7.0f} ns{median:>7.0f} ns{verdict}")
    if arguments.json:
        write_report(arguments.json, "allocator", rows, {})
    return 0
