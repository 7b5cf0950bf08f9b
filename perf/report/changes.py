"""Changes of the last run against earlier runs, beyond the noise from run to run.

The interval of one run covers the spread inside its processes. Two runs of the same code also differ by
memory layout, clocks and temperature. The noise of a benchmark is therefore estimated from the history: by
the differences between consecutive runs, of which most contain no change. Medians of absolute differences
keep the few real changes out of it.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..suite.compare import THRESHOLD
from ..suite.confidence import Interval
from ..suite.results import RowKey
from .runs import Run

FASTER, SLOWER, SAME, INCONCLUSIVE = "faster", "slower", "no change", "inconclusive"
# Standard deviation of a run's median from run to run, relative: the least, and of a history too short for an estimate.
MIN_NOISE, USUAL_NOISE = 0.005, 0.02
# Differences that a suite's estimate needs; weight, in differences, of the suite's estimate in a benchmark's.
MIN_DIFFERENCES, SUITE_WEIGHT = 8, 5
# Pairs of runs from which on a common shift of a suite's benchmarks counts as noise and not as a change.
MANY_PAIRS = 4
# The median of absolute values of a normal distribution, as a share of its standard deviation.
MEDIAN_OF_NORMAL = 0.6745


@dataclass(frozen=True)
class Change:
    """One benchmark of the last run against the last earlier run that has it."""

    key: RowKey
    base: int
    """Index of the earlier run."""
    base_seconds: float
    new_seconds: float
    ratio: Interval
    """New time over the earlier one. The interval covers the noise, and holds for all benchmarks together."""
    verdict: str


def changes(
    runs: Sequence[Run], named: Sequence[Mapping[RowKey, RowKey]], threshold: float = THRESHOLD
) -> list[Change]:
    """Compare the last run's benchmarks with the last earlier run of the same environment that has them.

    Runs of the same code are compared too, and never differ: the result is `no change`.

    Args:
        runs: History, the oldest first.
        named: For each run, its own key of a benchmark by the benchmark's newest key.
        threshold: Relative change of the time that is tolerated.
    """
    if not runs:
        return []
    last = len(runs) - 1
    earlier = [index for index in range(last) if runs[index].environment == runs[last].environment]
    bases = {
        key: next((index for index in reversed(earlier) if key in named[index]), None) for key in named[last]
    }
    compared = {key: base for key, base in bases.items() if base is not None}
    noises = noise(runs, named, compared)
    compared_rows = []
    for key, base in compared.items():
        before, after = (runs[index].benchmarks[named[index][key]].seconds for index in (base, last))
        interval = _interval(before, after, noises[key], runs[last].confidence, len(compared))
        repeated = runs[last].is_repeat_of(runs[base])
        verdict = SAME if repeated else _verdict(interval, threshold)
        compared_rows.append(Change(key, base, before.estimate, after.estimate, interval, verdict))
    return compared_rows


def noise(
    runs: Sequence[Run], named: Sequence[Mapping[RowKey, RowKey]], keys: Mapping[RowKey, int]
) -> dict[RowKey, float]:
    """Estimate the relative standard deviation of each benchmark's median from run to run.

    The last pair of runs is left out if the history is long enough: it holds the change to be judged.
    """
    pairs = _pairs(runs)
    judged = pairs[:-1] if len(pairs) > MANY_PAIRS else pairs
    own: dict[RowKey, list[float]] = {}
    pooled: dict[str, list[float]] = {}
    for first, second in judged:
        logs = {
            key: math.log(
                runs[second].benchmarks[named[second][key]].seconds.estimate
                / runs[first].benchmarks[named[first][key]].seconds.estimate
            )
            for key in named[second]
            if key in named[first]
        }
        shifts = {} if len(judged) >= MANY_PAIRS or runs[second].is_repeat_of(runs[first]) else _shifts(logs)
        for key, value in logs.items():
            own.setdefault(key, []).append(value)
            pooled.setdefault(key.suite, []).append(value - shifts.get(key.suite, 0.0))
    suites = {
        suite: _deviation(deviations)
        for suite, deviations in pooled.items()
        if len(deviations) >= MIN_DIFFERENCES
    }
    usual = max(statistics.median(suites.values()), MIN_NOISE) if suites else USUAL_NOISE
    deviations = {}
    for key in keys:
        suite = suites.get(key.suite, usual)
        differences = own.get(key, []) if len(judged) >= MANY_PAIRS else []
        count = len(differences)
        squared = count * _deviation(differences) ** 2 if count else 0.0
        deviations[key] = max(
            math.sqrt((squared + SUITE_WEIGHT * suite**2) / (count + SUITE_WEIGHT)), MIN_NOISE
        )
    return deviations


def _pairs(runs: Sequence[Run]) -> list[tuple[int, int]]:
    """Return consecutive runs of the last run's environment."""
    same = [index for index, run in enumerate(runs) if run.environment == runs[-1].environment]
    return list(itertools.pairwise(same))


def _shifts(logs: Mapping[RowKey, float]) -> dict[str, float]:
    """Return the median difference of each suite: in a short history, a shift of the whole suite is a change."""
    suites: dict[str, list[float]] = {}
    for key, value in logs.items():
        suites.setdefault(key.suite, []).append(value)
    return {suite: statistics.median(values) for suite, values in suites.items()}


def _deviation(differences: Sequence[float]) -> float:
    """Return the standard deviation of one run's median, from differences of two."""
    return statistics.median(map(abs, differences)) / MEDIAN_OF_NORMAL / math.sqrt(2)


def _interval(before: Interval, after: Interval, noise: float, confidence: float, compared: int) -> Interval:
    center = math.log(after.estimate / before.estimate)
    normal = statistics.NormalDist()
    inside = 2 * normal.inv_cdf((1 + confidence) / 2)
    variance = 2 * noise**2
    for each in (before, after):
        if each.low is not None and each.high is not None:
            variance += (math.log(each.high / each.low) / inside) ** 2
    reach = normal.inv_cdf(1 - (1 - confidence) / compared / 2) * math.sqrt(variance)
    return Interval(math.exp(center), math.exp(center - reach), math.exp(center + reach))


def _verdict(ratio: Interval, threshold: float) -> str:
    assert ratio.low is not None and ratio.high is not None
    if not ratio.contains(1.0) and abs(ratio.estimate - 1) > threshold:
        return SLOWER if ratio.estimate > 1 else FASTER
    if not ratio.contains(1.0) or (1 - threshold <= ratio.low and ratio.high <= 1 + threshold):
        return SAME
    return INCONCLUSIVE
