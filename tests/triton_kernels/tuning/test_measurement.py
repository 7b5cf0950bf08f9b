"""Timing of candidates in alternating rounds, and the winner; results that differ only by rounding."""

import numpy as np
import pytest

import triten as tt
from triten.triton_kernels.tuning.agreement import disagreement
from triten.triton_kernels.tuning.measurement import HOPELESS, Times, measure, winner


def steady(*medians):
    return [Times((m, m, m)) for m in medians]


def test_the_quickest_wins_if_it_is_ahead_of_the_noise():
    assert winner(steady(10.0, 9.0, 8.0)) == 2
    assert winner(steady(10.0, 11.0)) == 0
    assert winner(steady(10.0)) == 0
    assert winner(steady(10.0, 9.9)) == 0  # less than what counts
    assert winner(steady(10.0, 9.7)) == 1
    noisy = Times((8.0, 10.0, 12.0, 10.0, 8.0))
    assert winner([noisy, Times((9.5, 9.5, 9.5))]) == 0
    assert winner([noisy, Times((5.0, 5.0, 5.0))]) == 1


def test_the_median_and_the_spread():
    assert Times((1.0, 100.0, 2.0)).median == 2.0
    assert Times((1.0,)).spread == 0.0
    assert Times((1.0, 2.0, 3.0, 4.0, 5.0)).spread == 1.0


def test_hopeless_candidates_are_dropped_and_the_default_stays():
    speeds = [50.0, 10.0, 10.0 * HOPELESS + 0.1, 10.0 * HOPELESS - 0.1]
    order = []

    def take(candidate, runs):
        order.append(candidate)
        return [speeds[candidate]] * runs

    times = measure(4, take, turns=4, runs=3)
    assert [len(t.runs) for t in times] == [12, 12, 3, 12]
    assert order[:4] == [0, 1, 2, 3]
    assert order[4:7] == [1, 3, 0]  # in another order each turn
    assert winner(times) == 1


def test_a_slow_first_run_drops_nobody():
    runs = iter([30.0, 10.0, 10.0] * 20)
    times = measure(2, lambda candidate, n: [next(runs) for _ in range(n)], turns=3, runs=3)
    assert [len(t.runs) for t in times] == [9, 9]


EPS = {tt.float32: 2.0**-23, tt.float16: 2.0**-10, tt.bfloat16: 2.0**-7, tt.float64: 2.0**-52}


@pytest.mark.parametrize("dtype", EPS, ids=lambda d: d.name)
def test_rounding_is_no_disagreement(dtype):
    a = tt.tensor([1.0, -2.0, 0.0, float("nan"), float("inf"), -float("inf")], dtype=tt.float64)
    for units, agrees in ((0, True), (8, True), (200, False)):
        b = a.clone()
        b[1] = -2.0 * (1 + units * EPS[dtype])
        assert (disagreement(a.to(dtype), b.to(dtype)) is None) == agrees
    for place, value in ((3, 0.0), (4, 1e4), (4, -float("inf")), (0, float("nan")), (0, float("inf"))):
        b = a.clone()
        b[place] = value
        assert disagreement(a.to(dtype), b.to(dtype)) == "1 of 6 elements differ by more than rounding"


def test_cancellation_is_measured_by_the_largest_element():
    assert disagreement(tt.tensor([1e6, 1e-3]), tt.tensor([1e6, 2e-3])) is None
    assert disagreement(tt.tensor([1.0, 1e-3]), tt.tensor([1.0, 2e-3])) is not None


def test_what_is_no_float_must_be_the_same():
    for a, b in (([1, 2], [1, 3]), ([True, False], [True, True])):
        assert disagreement(tt.tensor(a), tt.tensor(a)) is None
        assert disagreement(tt.tensor(a), tt.tensor(b)) is not None
    assert disagreement(tt.ones(2), tt.ones(3)) is not None
    assert disagreement(tt.ones(2), tt.ones(2, dtype=tt.float64)) is not None
    assert disagreement(tt.ones(0), tt.ones(0)) is None
    assert disagreement(None, None) is None
    assert disagreement(3, 4) == "it gives 4 instead of 3"
    assert disagreement(tt.ones(2), None) is not None
    a = tt.from_numpy(np.array([1 + 2j, 3], np.complex64))
    assert disagreement(a, a.clone()) is None
    assert disagreement(a, a.conj().clone()) is not None
