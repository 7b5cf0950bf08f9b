"""Total bytes of a small tensor, by `tracemalloc` over many tensors."""

from __future__ import annotations

import argparse
import gc
import importlib
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np

from .machine import write_report
from .refusal import require_writable

BAR = 400
COUNT = 10_000


def bytes_each(make: Callable[[], object], count: int = COUNT) -> float:
    """Return the bytes that stay allocated per result of `make`, including NumPy's data buffers.

    Example:
        >>> from triten.perf.memory import bytes_each
        >>> 4096 <= bytes_each(lambda: bytearray(4096), 100) < 4300
        True
    """
    results: list[object] = [None] * count
    make()  # what is made once in a process does not count
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for index in range(count):
            results[index] = make()
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return (after - before) / count


def small_tensors() -> dict[str, Callable[[], object]]:
    """Ways by which a program gets a small tensor; all hold 16 bytes of data or share it."""
    tt = importlib.import_module("..", __package__)
    a, w = tt.ones(4), tt.ones(4).requires_grad_()
    return {
        "zeros(4)": lambda: tt.zeros(4),
        "tensor([1., 2., 3., 4.])": lambda: tt.tensor([1.0, 2.0, 3.0, 4.0]),
        "a + a": lambda: a + a,
        "a.view(2, 2)": lambda: a.view(2, 2),
        "w + a (with its node)": lambda: w + a,
    }


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `python -m triten.perf memory`."""
    parser.add_argument("--json", type=Path, metavar="PATH", help="also write the result to this file")


def run(arguments: argparse.Namespace) -> int:
    """Measure, print with the target, and write where `--json` says."""
    require_writable(arguments.json)
    sizes = {"numpy.zeros(4)": bytes_each(lambda: np.zeros(4, np.float32))}
    sizes |= {name: bytes_each(make) for name, make in small_tensors().items()}
    for name, size in sizes.items():
        # A node of the graph is not part of the tensor, and NumPy is there to compare with.
        barred = not name.startswith(("numpy", "w "))
        verdict = f"  target {BAR}: {'met' if size <= BAR else 'missed'}" if barred else ""
        print(f"{name:<28}{size:8.0f} bytes{verdict}")
    if arguments.json:
        write_report(arguments.json, "memory", sizes, {"numpy": np.__version__})
    return 0
