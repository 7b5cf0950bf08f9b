"""Medians, quartiles and confidence intervals, without assumptions about how times are distributed."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Sequence
from typing import NamedTuple

RESAMPLES = 2000


class Summary(NamedTuple):
    """The median of samples, and their quartiles."""

    median: float
    low_quartile: float
    high_quartile: float

    @property
    def interquartile_range(self) -> float:
        """The length of the middle half."""
        return self.high_quartile - self.low_quartile


class Interval(NamedTuple):
    """An estimate and the confidence interval around it; its ends are None where there are too few samples for one."""

    estimate: float
    low: float | None
    high: float | None

    def contains(self, value: float) -> bool:
        """Whether the value cannot be told from the estimate: also where there is no interval."""
        return self.low is None or self.high is None or self.low <= value <= self.high

    @property
    def half_width(self) -> float:
        """Half of the interval's length as a share of the estimate; infinite where there is none."""
        if self.low is None or self.high is None:
            return math.inf
        return (self.high - self.low) / 2 / self.estimate


def summarise(samples: Sequence[float]) -> Summary:
    """Median and quartiles (inclusive method); of one sample all three are itself.

    Example:
        >>> from triten.perf.suite.confidence import summarise
        >>> summarise([1.0, 2.0, 3.0, 4.0, 5.0])
        Summary(median=3.0, low_quartile=2.0, high_quartile=4.0)
    """
    if len(samples) == 1:
        return Summary(samples[0], samples[0], samples[0])
    low, median, high = statistics.quantiles(samples, n=4, method="inclusive")
    return Summary(median, low, high)


def median_ranks(count: int, confidence: float) -> tuple[int, int] | None:
    """Which of `count` sorted samples, from 0, enclose the true median with at least this confidence.

    The number of samples below the median is binomial with probability 1/2, whatever the distribution (Thompson,
    "On confidence ranges for the median", 1936). None where even the extremes do not enclose it: for 0.95 below six.

    Example:
        >>> from triten.perf.suite.confidence import median_ranks
        >>> median_ranks(5, 0.95), median_ranks(6, 0.95), median_ranks(20, 0.95)
        (None, (0, 5), (5, 14))
    """
    outside, rank = 0.0, 0
    while rank < count / 2:
        outside += 2 * math.comb(count, rank) / 2**count
        if outside > 1 - confidence:
            break
        rank += 1
    return (rank - 1, count - rank) if rank else None


def median_interval(samples: Sequence[float], confidence: float) -> Interval:
    """The median with its order-statistic interval.

    Example:
        >>> from triten.perf.suite.confidence import median_interval
        >>> median_interval([1.0, 1.1, 0.9, 1.2, 0.8, 1.3, 0.7], 0.95)
        Interval(estimate=1.0, low=0.7, high=1.3)
    """
    ordered = sorted(samples)
    ranks = median_ranks(len(ordered), confidence)
    low, high = (None, None) if ranks is None else (ordered[ranks[0]], ordered[ranks[1]])
    return Interval(statistics.median(ordered), low, high)


def paired_ratio_interval(ours: Sequence[float], theirs: Sequence[float], confidence: float) -> Interval:
    """The median of ours / theirs round by round, with its order-statistic interval: what both met cancels.

    Raises ValueError for sequences of different lengths.
    """
    return median_interval([our / their for our, their in zip(ours, theirs, strict=True)], confidence)


def bootstrap_ratio_interval(
    new: Sequence[float], base: Sequence[float], confidence: float, seed: int = 0
) -> Interval:
    """The ratio of two medians whose samples are no pairs, with its percentile bootstrap interval.

    Both are resampled on their own (Efron, "Bootstrap methods: another look at the jackknife", 1979); the seed is
    fixed, so that a comparison says the same twice. Fewer than six samples on a side say too little for an interval.
    """
    estimate = statistics.median(new) / statistics.median(base)
    if min(len(new), len(base)) < 6:
        return Interval(estimate, None, None)
    generator = random.Random(seed)
    ratios = sorted(
        statistics.median(generator.choices(new, k=len(new)))
        / statistics.median(generator.choices(base, k=len(base)))
        for _ in range(RESAMPLES)
    )
    tail = round((1 - confidence) / 2 * RESAMPLES)
    return Interval(estimate, ratios[tail], ratios[RESAMPLES - 1 - tail])
