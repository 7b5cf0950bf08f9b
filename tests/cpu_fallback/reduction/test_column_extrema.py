"""Compiled searches of columns find the elements and indices that NumPy finds."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import triten as tt
from triten.cpu_fallback.reduction import column_extrema
from triten.cpu_fallback.reduction.column_extremum_loop import TILE, column_extremum_loop
from triten.dispatch.core.dispatcher import Dispatcher
from triten.tests.compiled_code import needs_llvm

pytestmark = needs_llvm


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Compile the loop of each plan at once, and return the loops that were asked for."""
    keys: list[tuple[str, str]] = []

    def loop(*key: str) -> Any:
        keys.append(key)  # type: ignore[arg-type]
        return SimpleNamespace(beside=lambda work: column_extremum_loop(*key))

    monkeypatch.setattr(column_extrema, "_loop", loop)
    Dispatcher.singleton().forget_all()  # plans of other tests have their loops already
    return keys


def numbers(sizes: tuple[int, ...], dtype: str) -> np.ndarray[Any, Any]:
    """Return small integers, with many equal ones; floats also have zeros of both signs, infinities and NaN."""
    rng = np.random.default_rng(3)
    made = rng.integers(-4, 5, sizes).astype(dtype)
    if dtype.startswith("float"):
        made[made == 0] *= np.where(rng.random(int((made == 0).sum())) < 0.5, -1, 1)
        made[rng.random(sizes) < 0.001] = np.nan
        made[rng.random(sizes) < 0.01] = np.inf
        made[rng.random(sizes) < 0.01] = -np.inf
    return made


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
@pytest.mark.parametrize(
    ("sizes", "dim"),
    [((300, 500), 0), ((131, TILE + 77), 0), ((40, 70, 67), 1), ((5, 31, 17, 60), 1), ((90, 2, 1000), 0)],
)
def test_elements_and_indices_are_those_of_numpy(
    sizes: tuple[int, ...], dim: int, dtype: str, asked: list[tuple[str, str]]
) -> None:
    array = numbers(sizes, dtype)
    x, before = tt.from_numpy(array), tt.get_num_threads()
    try:
        for threads in (1, 3):
            tt.set_num_threads(threads)
            for name in ("max", "min"):
                indices = getattr(array, f"arg{name}")(dim)
                expected = np.take_along_axis(array, np.expand_dims(indices, dim), dim).squeeze(dim)
                found = getattr(tt, name)(x, dim)
                np.testing.assert_array_equal(found.indices.numpy(), indices)
                assert found.values.numpy().tobytes() == expected.tobytes()
                np.testing.assert_array_equal(getattr(tt, f"arg{name}")(x, dim).numpy(), indices)
                kept = getattr(tt, name)(x, dim, keepdim=True)
                np.testing.assert_array_equal(kept.indices.numpy(), np.expand_dims(indices, dim))
    finally:
        tt.set_num_threads(before)
    assert set(asked) == {("argmax", dtype), ("argmin", dtype)}


def test_outputs_with_strides(asked: list[tuple[str, str]]) -> None:
    x = tt.from_numpy(numbers((300, 500), "float32"))
    expected = tt.max(x, 0)
    values, indices = tt.empty(500, 2)[:, 0], tt.empty(500, 3, dtype=tt.int64)[:, 1]
    tt.max(x, 0, out=(values, indices))
    assert tt.equal(indices, expected.indices)
    assert values.contiguous().numpy().tobytes() == expected.values.numpy().tobytes()
