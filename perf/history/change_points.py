"""Change points of a series of times: E-divisive with a permutation test, then a strict t-test.

The method is that of MongoDB's and Apache Otava's (Hunter's) performance monitoring:

1. E-divisive (Matteson and James, "A nonparametric approach for multiple change point analysis of multivariate
   data", 2014) splits the series where the energy distance between both sides is largest. A permutation test
   decides whether the split is real, and each side is split again. Daly et al., "The use of change point
   detection to identify software performance regressions in a continuous integration system" (2020), apply it
   to benchmarks.
2. Fleming et al., "Hunter: using change point detection to hunt for performance regressions" (2023), then test
   each split with Student's t and drop the weakest until all pass. The t-test scales to many series: its level
   is divided by the number of series and of possible splits (Bonferroni).

All computations use logarithms, so that a shift is a ratio. Lone outliers are clipped, means are trimmed and
variances winsorized (Yuen), so that rare long runs neither make nor hide a change point. A split never
separates two runs of one commit.

The interval of positions that cannot be excluded is the likelihood-ratio set of a step in Gaussian noise
(Siegmund, "Confidence sets in change-point problems", 1988).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

Array = np.ndarray

SIGNIFICANCE = 0.01
MIN_SHIFT = 0.01
MIN_SEGMENT = 3
PERMUTATIONS = 199
# Level of the permutation test. It only proposes splits; the t-test decides.
PROPOSAL = 0.05
TRIMMED_SHARE = 0.1
SEED = 20140101
# P(likelihood ratio of the true position > x) = 1 - (1 - exp(-x))**2: the x for 0.95.
LIKELIHOOD_RATIO = -math.log(1 - math.sqrt(0.95))
# A value that is farther than this from each of its neighbors, in standard deviations, is a lone outlier.
OUTLIER = 4.0
NEIGHBORS = 2
# Relative noise below which times are regarded as equal: timers and clocks are no better.
MIN_NOISE = 1e-4


@dataclass(frozen=True)
class ChangePoint:
    """A shift of a series between two of its positions.

    Attributes:
        index: Position of the first value after the shift.
        first, last: Smallest and largest `index` that the noise does not exclude (95 %).
        ratio: Level after the shift over the level before; above 1 is slower.
        p_value: Probability of so large a shift by chance, corrected for the number of series and splits.
        noise: Relative standard deviation of single values on both sides.
    """

    index: int
    first: int
    last: int
    ratio: float
    p_value: float
    noise: float


def find_change_points(
    values: Sequence[float],
    groups: Sequence[Hashable] | None = None,
    *,
    series: int = 1,
    significance: float = SIGNIFICANCE,
    least_shift: float = MIN_SHIFT,
) -> list[ChangePoint]:
    """Find the change points of positive values, in order.

    Args:
        values: Times or ratios in the order of the commits.
        groups: Commit of each value; a change point never separates equal neighbors. Default: all differ.
        series: Number of series that are tested together. Default: 1.
        significance: Probability of a false alarm among all of them. Default: 0.01.
        least_shift: Smallest relative shift to report. Default: 0.01.

    Raises:
        ValueError: if a value is not positive, or `groups` has another length.

    Example:
        >>> from triten.perf.history.change_points import find_change_points
        >>> [found] = find_change_points([1.0, 1.01, 0.99, 1.0, 1.02, 1.2, 1.21, 1.19, 1.2])
        >>> found.index, round(found.ratio, 2)
        (5, 1.2)
        >>> find_change_points([1.0, 1.01, 0.99, 1.0, 1.02], ["a"] * 5)
        []
    """
    if groups is not None and len(groups) != len(values):
        raise ValueError(f"groups must have as many elements as values: {len(groups)}, not {len(values)}")
    if any(not 0 < value < math.inf for value in values):
        raise ValueError("values must be positive and finite")
    if len(values) < 2 * MIN_SEGMENT:
        return []
    logarithms = without_outliers(np.log(np.asarray(values, np.float64)))
    allowed = [
        index for index in range(1, len(values)) if groups is None or groups[index] != groups[index - 1]
    ]
    generator = np.random.default_rng(SEED)
    splits = sorted(_proposed(logarithms, 0, len(values), allowed, generator))
    tests = series * max(len(allowed), 1)
    return _significant(logarithms, splits, allowed, significance, least_shift, tests)


def without_outliers(values: Array) -> Array:
    """Clip values that are far from each of their nearest neighbors; a new level of two values is none.

    The standard deviation comes from the median difference of neighbors, which shifts do not affect.

    Example:
        >>> import numpy as np
        >>> from triten.perf.history.change_points import without_outliers
        >>> values = np.array([0.0, 0.02, 0.01, 0.0, 1.0, 0.01, 0.02, 0.5, 0.51, 0.5])
        >>> [int(index) for index in np.flatnonzero(without_outliers(values) != values)]
        [4]
    """
    noise = max(float(np.median(np.abs(np.diff(values)))) / (0.6745 * math.sqrt(2)), MIN_NOISE)
    clipped = values.copy()
    for index, value in enumerate(values):
        near = np.concatenate(
            [values[max(index - NEIGHBORS, 0) : index], values[index + 1 : index + 1 + NEIGHBORS]]
        )
        if np.abs(near - value).min() > OUTLIER * noise:
            middle = float(np.median(near))
            clipped[index] = min(max(value, middle - OUTLIER * noise), middle + OUTLIER * noise)
    return clipped


def energy_statistics(values: Array) -> Array:
    """Return the scaled energy distance of both sides for each split of a row of values; -inf at short sides.

    Args:
        values: Array of shape (..., n).

    Returns:
        Array of shape (..., n + 1). Element k is for the split before element k.
    """
    n = values.shape[-1]
    distances = np.abs(values[..., :, None] - values[..., None, :])
    # Sums over pairs within the first k, and within the last n - k.
    to_earlier = np.tril(distances).sum(-1)
    within_left = np.concatenate([np.zeros((*values.shape[:-1], 1)), np.cumsum(to_earlier, -1)], -1)
    to_later = np.triu(distances).sum(-1)
    within_right = np.concatenate(
        [np.cumsum(to_later[..., ::-1], -1)[..., ::-1], np.zeros((*values.shape[:-1], 1))], -1
    )
    left = np.arange(n + 1, dtype=np.float64)
    right = n - left
    between = within_left[..., -1:] - within_left - within_right
    with np.errstate(divide="ignore", invalid="ignore"):
        distance = (
            2 * between / (left * right)
            - 2 * within_left / (left * (left - 1))
            - 2 * within_right / (right * (right - 1))
        )
        scaled = left * right / n * distance
    return np.where((left >= MIN_SEGMENT) & (right >= MIN_SEGMENT), scaled, -np.inf)


def _proposed(
    values: Array, start: int, stop: int, allowed: Sequence[int], generator: np.random.Generator
) -> Iterator[int]:
    """Yield the splits of values[start:stop], recursively, that pass the permutation test."""
    inside = np.array([index - start for index in allowed if start < index < stop], np.int64)
    if stop - start < 2 * MIN_SEGMENT or not inside.size:
        return
    segment = values[start:stop]
    statistics = energy_statistics(segment)[inside]
    best = int(statistics.argmax())
    if not statistics[best] > 0:
        return
    if _permutation_p(segment, inside, float(statistics[best]), generator) > PROPOSAL:
        return
    split = start + int(inside[best])
    yield split
    yield from _proposed(values, start, split, allowed, generator)
    yield from _proposed(values, split, stop, allowed, generator)


def _permutation_p(segment: Array, inside: Array, statistic: float, generator: np.random.Generator) -> float:
    """Return the p-value of the largest statistic, in batches that end once it exceeds the level."""
    reached, done = 0, 0
    # A batch holds batch * n * n distances: about 4 MB.
    batch = max(1, min(20, 500_000 // len(segment) ** 2))
    while done < PERMUTATIONS:
        count = min(batch, PERMUTATIONS - done)
        shuffled = generator.permuted(np.tile(segment, (count, 1)), axis=1)
        reached += int((energy_statistics(shuffled)[:, inside].max(-1) >= statistic).sum())
        done += count
        if (1 + reached) / (1 + PERMUTATIONS) > PROPOSAL:
            break
    return (1 + reached) / (1 + done)


class _Step(NamedTuple):
    """A tested split: the shift of logarithms, its p-value, and the noise."""

    shift: float
    p_value: float
    noise: float


def _significant(
    values: Array,
    splits: list[int],
    allowed: Sequence[int],
    significance: float,
    least_shift: float,
    tests: int,
) -> list[ChangePoint]:
    """Drop the weakest split and test its neighbors again, until all that are left pass."""
    while splits:
        edges = [0, *splits, len(values)]
        steps = [
            _tested(
                values[edges[index] : edges[index + 1]], values[edges[index + 1] : edges[index + 2]], tests
            )
            for index in range(len(splits))
        ]
        failing = [
            index
            for index, step in enumerate(steps)
            if step.p_value > significance or abs(math.expm1(step.shift)) < least_shift
        ]
        if not failing:
            return [
                ChangePoint(
                    split,
                    *_plausible(values, edges[index], edges[index + 2], split, allowed),
                    math.exp(step.shift), step.p_value, step.noise,
                )
                for index, (split, step) in enumerate(zip(splits, steps, strict=True))
            ]  # fmt: skip
        del splits[max(failing, key=lambda place: (steps[place].p_value, -abs(steps[place].shift)))]
    return []


def _tested(left: Array, right: Array, tests: int) -> _Step:
    """Apply Student's t-test with a pooled variance to trimmed means (Yuen and Dixon, 1973)."""
    from scipy.special import stdtr

    sides = [_trimmed(left), _trimmed(right)]
    freedom = sum(count - 1 for _, _, count in sides)
    squares = sum(square for _, square, _ in sides)
    noise = max(math.sqrt(squares / freedom), MIN_NOISE)
    error = noise * math.sqrt(sum(1 / count for _, _, count in sides))
    shift = sides[1][0] - sides[0][0]
    p_value = 2 * float(stdtr(freedom, -abs(shift) / error))
    return _Step(shift, min(1.0, p_value * tests), noise)


def _trimmed(values: Array) -> tuple[float, float, int]:
    """Return the trimmed mean, the winsorized sum of squares, and the number of kept values."""
    ordered = np.sort(values)
    # At least one at each end, unless too few would be left.
    cut = max(int(TRIMMED_SHARE * len(ordered)), 1) if len(ordered) >= 5 else 0
    central = ordered[cut : len(ordered) - cut]
    drawn_in = np.clip(ordered, central[0], central[-1])
    return float(central.mean()), float(((drawn_in - drawn_in.mean()) ** 2).sum()), len(central)


def _plausible(values: Array, start: int, stop: int, split: int, allowed: Sequence[int]) -> tuple[int, int]:
    """Return the first and last position whose likelihood is not far below that of the split."""
    segment = values[start:stop]
    low, high = np.quantile(segment[: split - start], 0.5), np.quantile(segment[split - start :], 0.5)
    middle = (low + high) / 2
    # Beyond three standard deviations, a value says no more about the position.
    noise = max(_tested(segment[: split - start], segment[split - start :], 1).noise, MIN_NOISE)
    reach = abs(high - low) / 2 + 3 * noise
    segment = np.clip(segment, middle - reach, middle + reach)
    squares = {
        index: float(
            ((segment[: index - start] - low) ** 2).sum() + ((segment[index - start :] - high) ** 2).sum()
        )
        for index in allowed
        if start < index < stop
    }
    least = min(squares.values())
    plausible = [
        index for index, total in squares.items() if (total - least) / (2 * noise**2) <= LIKELIHOOD_RATIO
    ]
    return min(*plausible, split), max(*plausible, split)
