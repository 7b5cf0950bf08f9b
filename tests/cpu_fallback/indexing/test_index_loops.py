"""Compiled gathers and scatters are equal to NumPy's, and refuse what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import triten as tt
from triten.cpu_fallback.indexing import index_loops
from triten.cpu_fallback.indexing.index_loop import index_loop
from triten.dispatch.core.dispatcher import Dispatcher
from triten.runtime.cpu.background import background
from triten.tests.compiled_code import needs_llvm

Key = tuple[str, str, bool, bool, bool]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Key]:
    """Compile the loop of each plan at once, and return the loops that were asked for."""
    keys: list[Key] = []

    def loop(*key: Any) -> Any:
        keys.append(key)
        return SimpleNamespace(beside=lambda work: index_loop(*key))

    monkeypatch.setattr(index_loops, "_loop", loop)
    Dispatcher.singleton().forget_all()  # plans of other tests have their loops already
    return keys


SHAPES = [
    ((70, 67), 1, 90),
    ((70, 67), 0, 120),
    ((7, 31, 67), 1, 40),
    ((5001,), 0, 4444),
    ((3, 1, 2000), 1, 1),
]


@needs_llvm
@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32", "complex64"])
@pytest.mark.parametrize(("sizes", "dim", "picked"), SHAPES)
def test_elements_are_those_of_numpy(
    sizes: tuple[int, ...], dim: int, picked: int, dtype: str, asked: list[Key]
) -> None:
    rng = np.random.default_rng(4)
    array = (rng.standard_normal(sizes) * 100).astype(dtype)
    index = rng.integers(0, sizes[dim], (*sizes[:dim], picked, *sizes[dim + 1 :]))
    x, places = tt.from_numpy(array), tt.from_numpy(index)
    expected = np.take_along_axis(array, index, dim)
    np.testing.assert_array_equal(x.gather(dim, places).numpy(), expected)
    np.testing.assert_array_equal(tt.take_along_dim(x, places, dim).numpy(), expected)
    assert [key[:2] for key in asked] == [("gather", f"{8 * array.itemsize} bits")] * 2


@needs_llvm
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
@pytest.mark.parametrize(("sizes", "dim", "picked"), SHAPES)
def test_values_are_written_and_added_in_order(
    sizes: tuple[int, ...], dim: int, picked: int, dtype: str, asked: list[Key]
) -> None:
    rng = np.random.default_rng(5)
    index = rng.integers(0, sizes[dim], (*sizes[:dim], picked, *sizes[dim + 1 :]))
    values = (rng.standard_normal(index.shape) * 100).astype(dtype)
    array = (rng.standard_normal(sizes) * 100).astype(dtype)
    grid = list(np.indices(index.shape, sparse=True))
    grid[dim] = index
    written, added, filled = array.copy(), array.copy(), array.copy()
    for place in np.ndindex(index.shape):
        at = (*place[:dim], index[place], *place[dim + 1 :])
        written[at], added[at], filled[at] = values[place], added[at] + values[place], 7
    x, places, source = tt.from_numpy(array), tt.from_numpy(index), tt.from_numpy(values)
    np.testing.assert_array_equal(x.scatter(dim, places, source).numpy(), written)
    np.testing.assert_array_equal(x.scatter_add(dim, places, source).numpy(), added)
    np.testing.assert_array_equal(x.scatter(dim, places, 7).numpy(), filled)
    np.testing.assert_array_equal(x.clone().scatter_add_(dim, places, source).numpy(), added)
    assert {key[0] for key in asked} == {"scatter", "scatter_add"}


@needs_llvm
@pytest.mark.parametrize(("sizes", "dim", "picked"), SHAPES)
def test_a_vector_of_places_is_for_all_lines(
    sizes: tuple[int, ...], dim: int, picked: int, asked: list[Key]
) -> None:
    rng = np.random.default_rng(6)
    line = rng.integers(0, sizes[dim], picked)
    array, added, written, filled = (rng.standard_normal(sizes).astype(np.float32) for _ in range(4))
    added[...] = written[...] = filled[...] = array
    values = rng.standard_normal((*sizes[:dim], picked, *sizes[dim + 1 :])).astype(np.float32)
    before = (slice(None),) * dim
    for i, row in enumerate(line):
        added[*before, row] += np.float32(0.5) * values[*before, i]
        written[*before, row], filled[*before, row] = values[*before, i], 7
    x, index, source = tt.from_numpy(array), tt.from_numpy(line), tt.from_numpy(values)
    np.testing.assert_array_equal(x.index_add(dim, index, source, alpha=0.5).numpy(), added)
    np.testing.assert_array_equal(x.index_copy(dim, index, source).numpy(), written)
    np.testing.assert_array_equal(x.index_fill(dim, index, 7).numpy(), filled)
    np.testing.assert_array_equal(x.index_select(dim, index).numpy(), array.take(line, dim))
    names = ["scatter_add", "scatter", "scatter"]
    assert [key[0] for key in asked] == names + ["gather"] * (dim == len(sizes) - 1)


@needs_llvm
def test_places_from_the_end(asked: list[Key]) -> None:
    """Check that a loop refuses negative places, which NumPy then computes."""
    x, line = tt.randn(70, 67), tt.tensor([-1, 3, -67] * 30)
    expected = x.clone()
    expected[:, [0, 3, 66]] = 2.0
    assert tt.equal(x.index_fill(1, line, 2.0), expected)
    places = line.expand(70, 90).contiguous()
    assert tt.equal(tt.take_along_dim(x, places, 1), x[:, [66, 3, 0] * 30])
    assert len(asked) == 2


REFUSED: dict[str, tuple[type[Exception], Callable[[tt.Tensor, tt.Tensor], Any]]] = {
    "gather": (RuntimeError, lambda x, i: x.gather(1, i)),
    "scatter": (RuntimeError, lambda x, i: x.scatter(1, i, tt.ones(70, 91))),
    "scatter of a number": (RuntimeError, lambda x, i: x.scatter(1, i, 2.0)),
    "scatter_add": (RuntimeError, lambda x, i: x.scatter_add(1, i, tt.ones(70, 91))),
    "index_add": (IndexError, lambda x, i: x.index_add(1, i[69], tt.ones(70, 91))),
    "index_copy": (IndexError, lambda x, i: x.index_copy(1, i[69], tt.ones(70, 91))),
}


@needs_llvm
@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("wrong", [67, -1, 1 << 62, -(1 << 63)])
def test_an_index_out_of_bounds_is_refused(wrong: int, name: str, asked: list[Key]) -> None:
    error, function = REFUSED[name]
    x, index = tt.randn(70, 67), tt.zeros(70, 91, dtype=tt.int64)
    index[69, 90] = wrong
    with pytest.raises(error, match=f"index {wrong} is out of bounds for dimension 1 with size 67"):
        function(x, index)
    index[69, 90] = 66
    function(x, index)
    assert asked


@needs_llvm
def test_a_gather_after_a_refused_index(asked: list[Key]) -> None:
    x, index = tt.randn(70, 67), tt.zeros(70, 91, dtype=tt.int64)
    index[69, 90] = 66
    assert tt.equal(x.gather(1, index)[:, 90], tt.cat([x[:69, 0], x[69:, 66]]))


@needs_llvm
def test_a_loop_is_compiled_after_enough_elements(monkeypatch: pytest.MonkeyPatch) -> None:
    deferred = index_loops._loop("gather", "64 bits", True, True, True)
    monkeypatch.setattr(deferred, "loop", None)
    monkeypatch.setattr(deferred, "done", deferred.compile_threshold - 1)
    x, index = tt.randn(80, 81, dtype=tt.float64), tt.randint(0, 81, (80, 83))
    first = x.gather(1, index)
    background.wait()
    assert deferred.loop is not None
    assert tt.equal(x.gather(1, index), first)
