"""Counts by a compiled loop have the bits of NumPy's, for any number of bins."""

from __future__ import annotations

import numpy as np
import pytest

import triten as tt
from triten.cpu_fallback.reduction import bincount
from triten.cpu_fallback.reduction.bincount_loop import bincount_loop
from triten.dispatch.core.dispatcher import Dispatcher
from triten.runtime.cpu.background import background
from triten.tests.compiled_code import needs_llvm

pytestmark = needs_llvm
COUNT = 5003


@pytest.fixture(params=["", "float32", "float64"])
def weights(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> tt.Tensor | None:
    """Return weights of each dtype, or None, with their loop compiled."""
    monkeypatch.setattr(bincount._loop(request.param), "loop", bincount_loop(request.param))
    Dispatcher.singleton().forget_all()
    rng = np.random.default_rng(8)
    return tt.from_numpy(rng.standard_normal(COUNT).astype(request.param)) if request.param else None


def expected(integers: np.ndarray, weights: tt.Tensor | None, minlength: int = 0) -> np.ndarray:
    """Add one by one."""
    sums = np.zeros(
        max(int(integers.max()) + 1, minlength), np.int64 if weights is None else weights.numpy().dtype
    )
    np.add.at(sums, integers, 1 if weights is None else weights.numpy())
    return sums


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8"])
@pytest.mark.parametrize("high", [1, 7, 250])
def test_few_bins(high: int, dtype: str, weights: tt.Tensor | None) -> None:
    integers = np.random.default_rng(high).integers(0, high, COUNT).astype(dtype)
    for minlength in (0, 300, bincount.BINS + 3):
        found = tt.bincount(tt.from_numpy(integers), weights, minlength).numpy()
        assert found.tobytes() == expected(integers, weights, minlength).tobytes()


@pytest.mark.parametrize("high", [bincount.BINS, bincount.BINS + 1, 70_000, bincount.MAX_BINS + 5])
def test_many_bins(high: int, weights: tt.Tensor | None) -> None:
    integers = np.random.default_rng(1).integers(0, high, COUNT)
    integers[-1] = high - 1
    found = tt.bincount(tt.from_numpy(integers), weights).numpy()
    assert found.tobytes() == expected(integers, weights).tobytes()


@pytest.mark.parametrize("wrong", [-1, -(1 << 63)])
def test_negative_integers_are_refused(wrong: int, weights: tt.Tensor | None) -> None:
    integers = tt.zeros(COUNT, dtype=tt.int64)
    integers[77] = wrong
    with pytest.raises(RuntimeError, match="bincount only supports 1-d non-negative integral inputs"):
        tt.bincount(integers, weights)


def test_strided_operands(weights: tt.Tensor | None) -> None:
    integers = tt.from_numpy(np.random.default_rng(2).integers(0, 50, (COUNT, 3)))[:, 1]
    if weights is not None:
        weights = tt.stack([weights, weights], 1)[:, 0]
    assert tt.equal(
        tt.bincount(integers, weights),
        tt.bincount(integers.contiguous(), None if weights is None else weights.contiguous()),
    )


def test_a_loop_is_compiled_after_enough_integers(monkeypatch: pytest.MonkeyPatch) -> None:
    deferred = bincount._loop("")
    monkeypatch.setattr(deferred, "loop", None)
    monkeypatch.setattr(deferred, "done", deferred.compile_threshold - 1)
    Dispatcher.singleton().forget_all()
    integers = tt.arange(COUNT) % 100
    first = tt.bincount(integers)
    background.wait()
    assert deferred.loop is not None
    assert tt.equal(tt.bincount(integers), first)
