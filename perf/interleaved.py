"""Interleaved timing of statements, so that a change of the machine's speed affects all of them alike."""

from __future__ import annotations

import gc
import math
import statistics
import time
import timeit
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

Key = TypeVar("Key")
# One slice of work: how often to repeat it, to the seconds that all the repetitions took.
Slice = Callable[[int], float]


def statement_slice(statement: str, namespace: dict[str, object], *, collect_garbage: bool = False) -> Slice:
    """Return a slice that repeats `statement` inline, without a call around it.

    `timeit` disables garbage collection within a slice; `collect_garbage` leaves it enabled, as in a program.

    Example:
        >>> from triten.perf.interleaved import statement_slice
        >>> statement_slice("x + x", {"x": 1})(1000) > 0
        True
    """
    setup = "import gc; gc.enable()" if collect_garbage else "pass"
    return timeit.Timer(statement, setup, globals=namespace).timeit


def calibrate(work: Slice, seconds: float) -> int:
    """Return the number of repetitions that take about `seconds`, at least one."""
    work(3)  # first calls compile, allocate and fill caches: they would pass for a slow statement
    repetitions = 1
    while (elapsed := work(repetitions)) < seconds / 2:
        repetitions *= 2
    return max(1, math.ceil(repetitions * seconds / elapsed))


def rotated(keys: Sequence[Key], turn: int) -> list[Key]:
    """Rotate the keys by the turn, so that no key is always first.

    Example:
        >>> from triten.perf.interleaved import rotated
        >>> [rotated("abc", turn) for turn in range(2)]
        [['a', 'b', 'c'], ['b', 'c', 'a']]
    """
    start = turn % len(keys) if keys else 0
    return [*keys[start:], *keys[:start]]


def measure(
    contests: Mapping[str, Mapping[str, Slice]], *, rounds: int, slice_seconds: float
) -> dict[str, dict[str, list[float]]]:
    """Seconds of one repetition, once for each round, by contest and rival.

    A contest is one statement as its rivals have it: they run one after the other, in another order each
    round. A round goes through all of the contests.
    """
    repetitions = {
        name: {rival: calibrate(work, slice_seconds) for rival, work in rivals.items()}
        for name, rivals in contests.items()
    }
    seconds: dict[str, dict[str, list[float]]] = {
        name: {rival: [] for rival in rivals} for name, rivals in contests.items()
    }
    for turn in range(rounds):
        gc.collect()
        for name, rivals in contests.items():
            for rival in rotated(list(rivals), turn):
                count = repetitions[name][rival]
                seconds[name][rival].append(rivals[rival](count) / count)
    return seconds


def timed_without_collector(run: Callable[[], object]) -> float:
    """Seconds of one call of `run`, with the garbage collector off meanwhile."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        start = time.perf_counter()
        run()
        return time.perf_counter() - start
    finally:
        if was_enabled:
            gc.enable()


def paired_ratio(ours: Iterable[float], theirs: Iterable[float]) -> float:
    """Median over the rounds of ours / theirs: drift between rounds cancels.

    Example:
        >>> from triten.perf.interleaved import paired_ratio
        >>> paired_ratio([1.0, 2.0, 9.0], [2.0, 4.0, 6.0])
        0.5
    """
    return statistics.median(our / their for our, their in zip(ours, theirs, strict=True))
