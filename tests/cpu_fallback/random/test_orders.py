"""Orders of random numbers are those of a stable argsort, by NumPy and by a compiled radix sort."""

from __future__ import annotations

import numpy as np
import pytest

import triten as tt
from triten.cpu_fallback.random import choices
from triten.cpu_fallback.random.race import firsts
from triten.cpu_fallback.random.radix_loop import radix_loop
from triten.runtime.cpu.background import background
from triten.tests.compiled_code import needs_llvm


@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=needs_llvm)])
@pytest.mark.parametrize("count", [1, 2, 5, 1000, 70_001])
@pytest.mark.parametrize("bits", [64, 40, 33, 2])
def test_orders(bits: int, count: int, compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys of few bits are equal in their upper halves, or everywhere."""
    monkeypatch.setattr(choices.RADIX_PASS, "loop", radix_loop() if compiled else None)
    keys = np.random.default_rng(bits).integers(0, 1 << 64, count, np.uint64) >> np.uint64(64 - bits)
    for shift in (0, 64 - bits):
        shifted = keys << np.uint64(shift)
        np.testing.assert_array_equal(choices.order_of(shifted), np.argsort(shifted, kind="stable"))


@needs_llvm
def test_a_permutation_does_not_change_with_its_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choices.RADIX_PASS, "loop", None)
    monkeypatch.setattr(choices.RADIX_PASS, "done", choices.RADIX_PASS.compile_threshold - 1)
    made = []
    for _ in range(2):
        tt.manual_seed(4)
        made.append(tt.randperm(50_000))
        background.wait()
    assert choices.RADIX_PASS.loop is not None
    assert tt.equal(*made) and tt.equal(made[0].sort().values, tt.arange(50_000))


@pytest.mark.parametrize(("sizes", "count"), [((50, 100), 7), ((50, 100), 60), ((3, 1000), 1), ((1, 5), 1)])
def test_first_ones_of_a_race(sizes: tuple[int, int], count: int) -> None:
    rng = np.random.default_rng(count)
    with_nan = rng.random(sizes)
    with_nan[0, -3:] = np.nan
    for race in (rng.random(sizes), rng.integers(0, 9, sizes) / 3, np.full(sizes, np.inf), with_nan):
        expected = np.argsort(race, 1, kind="stable")[:, :count]
        np.testing.assert_array_equal(firsts(race, count), expected)
