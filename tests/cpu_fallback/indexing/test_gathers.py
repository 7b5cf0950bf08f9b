"""Compiled gathers are equal to NumPy's, and refuse what it refuses."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import triten as tt
from triten.cpu_fallback.indexing import gathers
from triten.cpu_fallback.indexing.gather_loop import gather_loop
from triten.runtime.cpu.background import background
from triten.tests.compiled_code import needs_llvm


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Compile the loop of each plan at once, and return the widths of elements that were asked for."""
    widths: list[int] = []

    def loop(bits: int) -> Any:
        widths.append(bits)
        return SimpleNamespace(beside=lambda work: gather_loop(bits))

    monkeypatch.setattr(gathers, "_loop", loop)
    return widths


@needs_llvm
@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32", "complex64"])
@pytest.mark.parametrize(
    ("sizes", "dim", "picked"),
    [((70, 67), 1, 90), ((70, 67), 0, 120), ((7, 31, 67), 1, 40), ((5001,), 0, 4444), ((3, 1, 2000), 1, 1)],
)
def test_elements_are_those_of_numpy(
    sizes: tuple[int, ...], dim: int, picked: int, dtype: str, asked: list[int]
) -> None:
    rng = np.random.default_rng(4)
    array = (rng.standard_normal(sizes) * 100).astype(dtype)
    index = rng.integers(0, sizes[dim], (*sizes[:dim], picked, *sizes[dim + 1 :]))
    got = tt.from_numpy(array).gather(dim, tt.from_numpy(index)).numpy()
    np.testing.assert_array_equal(got, np.take_along_axis(array, index, dim))
    assert asked == [8 * array.itemsize]


@needs_llvm
@pytest.mark.parametrize("wrong", [67, -1, 1 << 62, -(1 << 63)])
def test_an_index_out_of_bounds_is_refused(wrong: int, asked: list[int]) -> None:
    x, index = tt.randn(70, 67), tt.zeros(70, 91, dtype=tt.int64)
    index[69, 90] = wrong
    with pytest.raises(RuntimeError, match=f"index {wrong} is out of bounds for dimension 1 with size 67"):
        x.gather(1, index)
    index[69, 90] = 66
    assert tt.equal(x.gather(1, index)[:, 90], tt.cat([x[:69, 0], x[69:, 66]]))


@needs_llvm
def test_a_loop_is_compiled_after_enough_elements(monkeypatch: pytest.MonkeyPatch) -> None:
    deferred = gathers._loop(64)
    monkeypatch.setattr(deferred, "loop", None)
    monkeypatch.setattr(deferred, "done", deferred.compile_threshold - 1)
    x, index = tt.randn(80, 81, dtype=tt.float64), tt.randint(0, 81, (80, 83))
    first = x.gather(1, index)
    background.wait()
    assert deferred.loop is not None
    assert tt.equal(x.gather(1, index), first)
