"""Program that records the small matmuls inside operators where llvmlite is missing, for `test_small_matmuls.py`."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy

import triten as tt
from triten.runtime import blas_threads

F = tt.nn.functional


def _step(f: Callable[..., tt.Tensor], *sizes: tuple[int, ...], **options: object) -> None:
    f(*[tt.randn(size, requires_grad=True) for size in sizes], **options).sum().backward()


OPERATORS: dict[str, Callable[[], object]] = {
    "rows of images": lambda: _step(F.conv2d, (16, 16, 8, 9), (16, 16, 3, 3), padding=1),
    "columns": lambda: _step(F.conv1d, (3, 32, 101), (32, 32, 3), padding=1),
    "transposed": lambda: _step(F.conv_transpose2d, (2, 32, 14, 13), (32, 16, 3, 3), stride=2),
    "images": lambda: _step(F.conv2d, (5, 64, 14, 13), (64, 64, 1, 1)),
    "one image": lambda: _step(F.conv2d, (1, 64, 14, 13), (64, 64, 1, 1)),
    "vectors": lambda: _step(F.conv2d, (101, 64, 1, 1), (64, 64, 1, 1)),
    "few matrices": lambda: _step(tt.bmm, (2, 70, 101), (2, 101, 70)),
    "many matrices": lambda: _step(tt.bmm, (40, 70, 101), (40, 101, 70)),
    "einsum": lambda: _step(lambda x, y: tt.einsum("bij,bjk->bik", x, y), (2, 71, 101), (2, 101, 70)),
    "baddbmm": lambda: tt.baddbmm(tt.randn(71), tt.randn(3, 70, 101), tt.randn(3, 101, 71)),
    "cdist": lambda: tt.cdist(tt.randn(101, 100), tt.randn(99, 100)),
    "GRU": lambda: _step(lambda x: tt.nn.GRU(64, 101)(x)[0], (7, 16, 64)),
    "RNN": lambda: _step(lambda x: tt.nn.RNN(64, 203)(x)[0], (7, 16, 64)),
    "LSTM": lambda: _step(lambda x: tt.nn.LSTM(64, 101)(x)[0], (7, 16, 64)),
}
"""Operators whose matmuls have from 2 ** 18 to 2 ** 21 multiplications."""


class Watch:
    """Record of matmuls: multiplications of the small ones while BLAS has one thread, and of the others."""

    def __init__(self) -> None:
        self.depth, self.lock = 0, threading.Lock()
        self.held: list[int] = []
        self.free: list[int] = []

    def count(self, by: int) -> None:
        """Count a hold or a restoration."""
        with self.lock:
            self.depth += by

    def spy(self, multiply: Callable[..., Any]) -> Callable[..., Any]:
        """Return a matmul that is recorded."""

        def run(a: Any, b: Any, *args: Any, **options: Any) -> Any:
            work = a.size * b.shape[-1] // max(1, int(numpy.prod(a.shape[:-2])))
            if blas_threads.is_small(work):
                (self.held if self.depth > 0 else self.free).append(work)
            return multiply(a, b, *args, **options)

        return run


def main() -> None:
    """Print the record of each operator as JSON."""
    sys.modules["llvmlite"] = None  # type: ignore[assignment]
    watch = Watch()
    blas_threads.numpy_threads = lambda: 2
    blas_threads.hold = lambda threads: watch.count(1)
    blas_threads.restore = lambda threads: watch.count(-1)
    from triten.cpu_fallback import plain_numpy

    for function in ("matmul", "dot"):
        setattr(plain_numpy.np, function, watch.spy(getattr(plain_numpy.np, function)))
    found = {}
    for name, run in OPERATORS.items():
        watch.held, watch.free = [], []
        run()
        assert watch.depth == 0
        found[name] = {"held": watch.held, "free": watch.free}
    print(json.dumps(found))
