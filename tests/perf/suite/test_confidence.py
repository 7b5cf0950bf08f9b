"""Intervals hold what they promise, whatever the distribution."""

import math
import random
import statistics

import pytest

from triten.perf.suite.confidence import (
    bootstrap_ratio_interval,
    median_interval,
    median_ranks,
    paired_ratio_interval,
    summarise,
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
    assert bootstrap_ratio_interval([1.0] * 5, [2.0] * 9, 0.95) == (0.5, None, None)


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


def test_the_bootstrap_tells_what_differs_from_what_does_not() -> None:
    generator = random.Random(3)
    base = [generator.gauss(10.0, 0.5) for _ in range(30)]
    same = [generator.gauss(10.0, 0.5) for _ in range(30)]
    slower = [generator.gauss(12.0, 0.5) for _ in range(30)]
    assert bootstrap_ratio_interval(same, base, 0.95).contains(1.0)
    found = bootstrap_ratio_interval(slower, base, 0.95)
    assert found.low is not None and 1.1 < found.low < found.estimate < found.high < 1.3
    assert found == bootstrap_ratio_interval(slower, base, 0.95)


def test_quartiles_enclose_the_middle_half() -> None:
    samples = [float(n) for n in range(101)]
    assert summarise(samples) == (50.0, 25.0, 75.0)
    assert summarise(samples).interquartile_range == 50.0
    assert summarise([3.0]) == (3.0, 3.0, 3.0)
    assert summarise([1.0, 2.0]).median == statistics.median([1.0, 2.0])
