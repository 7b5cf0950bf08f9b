"""Medians, quartiles, and confidence intervals that rare long samples do not upset."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

MIN_SAMPLES = 6  # below, the median has no interval of 0.95, and a t interval leans on its assumptions alone
TRIMMED_SHARE = 0.2


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
        """Return True if the interval contains the value, or if there is no interval."""
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
    """Return the ranks, from 0, of the sorted samples that enclose the true median with at least this
    confidence.

    The number of samples below the median is binomial with probability 1/2, whatever the distribution
    (Thompson, "On confidence ranges for the median", 1936). Return None if even the minimum and maximum do
    not enclose it: for 0.95, with fewer than six samples.

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
    """Return the median with its order-statistic interval.

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
    """Return the median of ours / theirs per round, with its order-statistic interval; common disturbances
    cancel.

    Raise ValueError for sequences of different lengths.
    """
    return median_interval([our / their for our, their in zip(ours, theirs, strict=True)], confidence)


def trimmed_ratio_interval(new: Sequence[float], base: Sequence[float], confidence: float) -> Interval:
    """Return the ratio of two unpaired sets of samples, by Yuen's test on their logarithms.

    The means omit a fifth at each end, and the variances are winsorized (Yuen, "The two-sample trimmed t for
    unequal population variances", 1974). Rare long samples therefore neither shift the ratio nor hide a
    difference. Few samples get a wide interval. With fewer than six samples on a side, there is no interval.

    Example:
        >>> from triten.perf.suite.confidence import trimmed_ratio_interval
        >>> found = trimmed_ratio_interval([2.0, 2.1, 1.9, 2.2, 1.8, 9.0], [1.0, 1.1, 0.9, 1.2, 0.8, 1.0], 0.95)
        >>> round(found.estimate, 1), found.contains(1.0), found.contains(2.0)
        (2.1, False, True)
    """
    after, before = _Trimmed.of(new), _Trimmed.of(base)
    return _t_interval(
        after.mean - before.mean,
        [(after.squared_error, after.kept - 1), (before.squared_error, before.kept - 1)],
        confidence,
        min(len(new), len(base)),
    )


def trimmed_paired_interval(ours: Sequence[float], theirs: Sequence[float], confidence: float) -> Interval:
    """Return the ratio of paired samples: the trimmed mean of their ratios' logarithms.

    Unlike ranks, this method has an interval at any confidence, however few the pairs; a comparison of many
    rows needs high confidence. Raise ValueError for sequences of different lengths.

    Example:
        >>> from triten.perf.suite.confidence import trimmed_paired_interval
        >>> found = trimmed_paired_interval([2.0, 4.1, 5.9, 8.0, 10.1, 12.0], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 0.999)
        >>> round(found.estimate, 1), found.contains(1.0)
        (2.0, False)
    """
    ratios = _Trimmed.of([our / their for our, their in zip(ours, theirs, strict=True)])
    return _t_interval(ratios.mean, [(ratios.squared_error, ratios.kept - 1)], confidence, len(ours))


class _Trimmed(NamedTuple):
    """Trimmed mean of log samples, without a fifth at each end; its squared standard error; the number of
    kept samples.
    """

    mean: float
    squared_error: float
    kept: int

    @classmethod
    def of(cls, samples: Sequence[float]) -> _Trimmed:
        logarithms = sorted(map(math.log, samples))
        count = len(logarithms)
        cut = int(TRIMMED_SHARE * count)
        central = logarithms[cut : count - cut]
        drawn_in = [central[0]] * cut + central + [central[-1]] * cut
        if len(central) < 2:
            return cls(math.fsum(central) / len(central), 0.0, len(central))
        spread = statistics.variance(drawn_in) * (count - 1)
        return cls(
            math.fsum(central) / len(central), spread / (len(central) * (len(central) - 1)), len(central)
        )


def _t_interval(
    difference: float, errors: Sequence[tuple[float, int]], confidence: float, samples: int
) -> Interval:
    """Around exp(difference); `errors` are squared standard errors with their degrees of freedom (Welch)."""
    if samples < MIN_SAMPLES:
        return Interval(math.exp(difference), None, None)
    from scipy.special import stdtrit  # of all that this file does, the one that needs it

    squared = math.fsum(error for error, _ in errors)
    if squared == 0:
        return Interval(math.exp(difference), math.exp(difference), math.exp(difference))
    freedom = squared**2 / math.fsum(error**2 / degrees for error, degrees in errors)
    reach = float(stdtrit(freedom, (1 + confidence) / 2)) * math.sqrt(squared)
    return Interval(math.exp(difference), math.exp(difference - reach), math.exp(difference + reach))
