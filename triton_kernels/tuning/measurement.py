"""Candidates timed in turns, the hopeless ones dropped, and what counts as better."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import NamedTuple

WARM_UP = 2
TURNS = 5
RUNS = 5
"""Runs of a candidate in each turn: `TURNS * RUNS` of one that stays to the end. Each turn has another order."""
HOPELESS = 1.25
"""A candidate whose quickest run is slower than the best median by this factor is timed no further."""
MIN_GAIN = 0.02
"""The part of the default's time that a candidate must save, however steady the times are."""

Take = Callable[[int, int], list[float]]
"""``take(candidate, runs)``: so many times of a candidate, which it has warmed up."""


class Times(NamedTuple):
    """A candidate's runs, in microseconds."""

    runs: tuple[float, ...]

    @property
    def median(self) -> float:
        """Return the median."""
        return statistics.median(self.runs)

    @property
    def spread(self) -> float:
        """Half of the interquartile range of the runs."""
        if len(self.runs) < 2:
            return 0.0
        low, _, high = statistics.quantiles(self.runs, n=4, method="inclusive")
        return (high - low) / 2


def measure(count: int, take: Take, turns: int = TURNS, runs: int = RUNS) -> list[Times]:
    """Return the times of `count` candidates; the first is always timed to the end."""
    times_of: list[list[float]] = [[] for _ in range(count)]
    staying = list(range(count))
    for turn in range(turns):
        shift = turn % len(staying)
        for candidate in staying[shift:] + staying[:shift]:
            times_of[candidate] += take(candidate, runs)
        best = min(statistics.median(times_of[candidate]) for candidate in staying)
        staying = [each for each in staying if each == 0 or min(times_of[each]) <= best * HOPELESS]
    return [Times(tuple(times)) for times in times_of]


def winner(times: Sequence[Times]) -> int:
    """Return the fastest candidate if it beats the first by more than the noise of both, else the first.

    Example:
        >>> from triten.triton_kernels.tuning.measurement import Times, winner
        >>> winner([Times((10.0, 10.1, 10.2)), Times((8.0, 8.1, 8.3))])
        1
        >>> winner([Times((10.0, 10.1, 10.2)), Times((10.0, 10.0, 10.1))])
        0
    """
    best = min(range(len(times)), key=lambda each: times[each].median)
    gain = times[0].median - times[best].median
    noise = times[0].spread + times[best].spread
    return best if gain > max(noise, MIN_GAIN * times[0].median) else 0
