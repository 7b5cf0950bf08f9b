"""Optimizers' steps as one compiled loop over all parameters (the extra ``triten[jit]``), which threads share.

The loop (`optimizer_loop.py`) has the bits of NumPy's passes. Parameters, gradients and states are apart
in memory: a part of the loop's space says how far its elements lie behind those of the first of each list.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

from ...dispatch.structured.compiled_loops import WARM_COMPILE_THRESHOLD
from ...runtime.cpu.loop_requests import DeferredLoop, Sharing, loop_now, shared_loop
from ...runtime.tensor_spec import TensorSpec
from ..plain_numpy import np

PART = 1 << 14
"""Elements of a part at most."""
SHARED_FROM, WAKING_FROM = 1 << 15, 1 << 18
"""Elements of all parameters from which threads share a step, and from which those that sleep are woken for it."""
Array = np.ndarray[Any, Any]


@functools.cache
def step_loop(kind: str, dtype: str, *flags: str) -> DeferredLoop:
    """Return the loop of an optimizer's step (`optimizer_loop.py`), which all plans share."""

    def make() -> Callable[..., None] | None:
        from .optimizer_loop import optimizer_loop

        return optimizer_loop(kind, dtype, *flags)

    return DeferredLoop(make, WARM_COMPILE_THRESHOLD)


@functools.cache
def addresses_loop() -> Callable[..., None]:
    """Return ``call(out, *arrays)``, which writes the addresses of the arrays' first elements."""
    from .optimizer_loop import addresses

    loop = loop_now(addresses)
    assert loop is not None
    return loop


def no_loop(*_: Any) -> None:
    """Stand in for a loop before the first step."""


class CompiledSteps:
    """The loops of a plan's lists, if one dtype serves them all.

    Args:
        kind: ``sgd`` or ``adam``.
        specs: the parameters'.
    """

    def __init__(self, kind: str, specs: Sequence[TensorSpec]) -> None:
        self.kind = kind
        self.dtypes = {spec.dtype.name for spec in specs}
        self.itemsize = specs[0].itemsize
        sizes = [spec.numel for spec in specs]
        parts = [(i, start) for i, size in enumerate(sizes) for start in range(0, size, PART)]
        self.rows = np.array([i for i, _ in parts], np.intp)
        starts = np.array([start for _, start in parts], np.int64)
        self.counts = np.minimum(np.array(sizes, np.int64)[self.rows] - starts, PART)
        self.starts = starts * self.itemsize
        self.numel = sum(sizes)
        self.sharing = Sharing.of(self.numel, SHARED_FROM, WAKING_FROM)
        # State of the last step: addresses of parameters and states, and a loop that is valid while they
        # stay.
        self.apart = b""
        self.prepared: tuple[Any, Callable[..., None]] = None, no_loop

    def run(
        self, flags: Sequence[str], lists: Sequence[Sequence[Array]], numbers: Array, of_row: Sequence[int]
    ) -> bool:
        """Do a step, if there is a loop for it by now.

        Args:
            flags: what the loop is to do.
            lists: parameters and states, which are written, and last the gradients.
            numbers: (kinds, numbers), the numbers of the call in the type that is computed in.
            of_row: which of them go with each parameter.
        """
        if len(self.dtypes) > 1 or not self.numel:
            return False
        loop = step_loop(self.kind, *self.dtypes, *flags).beside(self.numel)
        if loop is None:
            return False
        addresses = addresses_loop()
        places = np.empty((len(lists), len(lists[0])), np.int64)
        addresses(places, *itertools.chain.from_iterable(lists))
        written = places[:-1].tobytes()
        if written != self.apart:
            if any(len(set(each)) < len(each) for each in places[:-1].tolist()):
                return False  # a parameter is there twice: one step follows the other
            self.apart = written
        key = (places.tobytes(), tuple(of_row), numbers.shape[1], loop)
        known, run = self.prepared
        if key != known:
            run = shared_loop(loop, self.table(places, of_row, numbers), self.sharing, None)
            self.prepared = key, run
        run(*[arrays[0] for arrays in lists], *[numbers] * numbers.shape[1])
        return True

    def table(self, places: Array, of_row: Sequence[int], numbers: Array) -> Array:
        """Return each part's element count, and each operand's offset from the first and its stride."""
        lists, count = len(places), numbers.shape[1]
        table = np.zeros((len(self.rows), 1 + 2 * (lists + count)), np.int64)
        table[:, 0] = self.counts
        for i, each in enumerate(places):
            table[:, 1 + 2 * i] = each[self.rows] - each[0] + self.starts
            table[:, 2 + 2 * i] = self.itemsize
        first = np.array(of_row, np.int64)[self.rows] * numbers.strides[0]
        begin = 1 + 2 * lists
        for j in range(count):
            table[:, begin + 2 * j] = first + j * numbers.itemsize
        return table
