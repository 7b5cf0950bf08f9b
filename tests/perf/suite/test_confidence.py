"""Confidence intervals have the promised coverage for every distribution."""

import math
import random
import statistics

import pytest

from triten.perf.suite.confidence import (
    median_interval,
    median_ranks,
    paired_ratio_interval,
    summarise,
    trimmed_paired_interval,
    trimmed_ratio_interval,
)


@pytest.mark.parametrize("count", [6, 7, 8, 15, 31, 40])
@pytest.mark.parametrize("confidence", [0.9, 0.95])
def test_ranks_enclose_the_median_with_the_confidence_and_no_more_than_needed(
    count: int, confidence: float
) -> None:
    def coverage(low: int) -> float:
        return 1 - 2 * sum(math.comb(count, below) for below in range(low + 1)) / 2**count

    ranks = median_ranks(count, confidence)
    assert ranks is not None
    low, high = ranks
    assert low + high == count - 1
    assert coverage(low) >= confidence
    assert coverage(low + 1) < confidence


def test_too_few_samples_have_no_interval() -> None:
    found = median_interval([1.0, 2.0, 3.0], 0.95)
    assert found == (2.0, None, None)
    assert found.contains(17.0)
    assert found.half_width == math.inf
    assert trimmed_ratio_interval([1.0] * 5, [2.0] * 9, 0.95) == (0.5, None, None)
    assert trimmed_paired_interval([1.0] * 5, [2.0] * 5, 0.95) == (0.5, None, None)


def test_the_interval_covers_the_true_median_as_often_as_it_says() -> None:
    seed = random.randrange(2**32)
    generator = random.Random(seed)
    covered = sum(
        median_interval([generator.expovariate(1.0) for _ in range(15)], 0.95).contains(math.log(2))
        for _ in range(1000)
    )
    assert covered >= 930, f"seed {seed}"


def test_drift_that_both_met_cancels_in_pairs() -> None:
    drift = [1.0, 5.0, 2.0, 9.0, 3.0, 7.0, 4.0, 8.0]
    found = paired_ratio_interval([0.5 * d for d in drift], drift, 0.95)
    assert found == (0.5, 0.5, 0.5)
    assert not found.contains(1.0)
    with pytest.raises(ValueError, match="zip"):
        paired_ratio_interval([1.0], [1.0, 2.0], 0.95)


def test_the_trimmed_ratio_tells_what_differs_from_what_does_not() -> None:
    generator = random.Random(3)
    base = [generator.gauss(10.0, 0.5) for _ in range(30)]
    same = [generator.gauss(10.0, 0.5) for _ in range(30)]
    slower = [generator.gauss(12.0, 0.5) for _ in range(30)]
    assert trimmed_ratio_interval(same, base, 0.95).contains(1.0)
    found = trimmed_ratio_interval(slower, base, 0.95)
    assert found.low is not None and 1.1 < found.low < found.estimate < found.high < 1.3
    outliers = trimmed_ratio_interval([*slower[:-3], 90.0, 80.0, 70.0], base, 0.95)
    assert outliers.estimate == pytest.approx(found.estimate, rel=0.03)
    wide = trimmed_ratio_interval(slower, base, 0.9999)
    assert wide.low < found.low < found.high < wide.high
    assert trimmed_ratio_interval([2.0] * 6, [1.0] * 6, 0.9999) == pytest.approx((2.0, 2.0, 2.0))


@pytest.mark.parametrize("paired", [True, False])
@pytest.mark.parametrize("count", [6, 7, 14])
def test_trimmed_intervals_of_equal_programs_contain_1_as_often_as_they_say(count: int, paired: bool) -> None:
    generator, rows, missed = random.Random(count), 1500, 0
    interval = trimmed_paired_interval if paired else trimmed_ratio_interval

    def times() -> list[float]:
        return [
            generator.lognormvariate(0, 0.05) * (2 if generator.random() < 0.05 else 1) for _ in range(count)
        ]

    for _ in range(rows):
        missed += not interval(times(), times(), 0.95).contains(1.0)
    assert missed / rows <= 0.065


def test_quartiles_enclose_the_middle_half() -> None:
    samples = [float(n) for n in range(101)]
    assert summarise(samples) == (50.0, 25.0, 75.0)
    assert summarise(samples).interquartile_range == 50.0
    assert summarise([3.0]) == (3.0, 3.0, 3.0)
    assert summarise([1.0, 2.0]).median == statistics.median([1.0, 2.0])
