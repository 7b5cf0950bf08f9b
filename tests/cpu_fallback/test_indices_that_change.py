"""Native loops stay in bounds if another thread changes indices after their check.

The test's check changes the indices after it has read them. A loop without bounds of its own would read or
write the margin of a larger array.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import triten as tt
from triten.compiler.host import picks
from triten.cpu_fallback.indexing import (
    embedding,
    index_bounds,
    indexing,
    masks,
    placement,
    scatter_gather,
    searching,
    sparse_rows,
)
from triten.cpu_fallback.sparse import products, structure, triangular
from triten.runtime import lapack
from triten.tests.compiled_code import needs_llvm

Array = np.ndarray[Any, Any]
ROWS, WIDTH, MARGIN, COUNT = 8, 8, 8, 256
WRONG = ROWS + 3
"""A row within the margin."""


def within_margin(fill: float) -> tuple[Array, Array]:
    """Return a table of `ROWS`, and the larger one that it lies in, whose other rows are of one number."""
    whole = np.full((ROWS + 2 * MARGIN, WIDTH), fill)
    table = whole[MARGIN : MARGIN + ROWS]
    table[...] = 1.0
    return table, whole


@pytest.fixture
def changing(monkeypatch: pytest.MonkeyPatch) -> Callable[[Array], Array]:
    """Return a function that registers indices, which every check of bounds changes once it has seen them."""
    registered: list[Array] = []
    greatest = index_bounds.greatest

    def seen(*given: Any) -> Any:
        found = greatest(*given)
        for each in registered:
            each[::2], each[1::2] = WRONG, -2
        return found

    monkeypatch.setattr(index_bounds, "greatest", seen)

    def register(indices: Array) -> Array:
        registered.append(indices)
        return indices

    return register


def test_rows_are_added_where_they_were_checked(changing: Callable[[Array], Array]) -> None:
    target, whole = within_margin(5.0)
    numbers = changing(np.arange(COUNT) % ROWS)
    sparse_rows.add_at(target, numbers, np.ones((COUNT, WIDTH)))
    assert (target == 1 + COUNT // ROWS).all()
    assert (whole[:MARGIN] == 5).all() and (whole[MARGIN + ROWS :] == 5).all()
    with pytest.raises(IndexError, match="out of range"):
        sparse_rows.add_at(target, numbers, np.ones((COUNT, WIDTH)))


def test_bags_are_of_rows_that_were_checked(changing: Callable[[Array], Array]) -> None:
    table, _ = within_margin(np.nan)
    numbers, target = changing(np.arange(COUNT) % ROWS), np.zeros((2, WIDTH))
    sparse_rows.add_bags(target, np.array([0, 100, COUNT]), numbers, table, None)
    assert (target[0] == 100).all() and (target[1] == COUNT - 100).all()
    with pytest.raises(IndexError, match="bags of 300 rows were given 256 numbers"):
        sparse_rows.add_bags(target, np.array([0, 100, 300]), np.zeros(COUNT, np.int64), table, None)


OPERATORS: dict[str, Callable[[tt.Tensor, tt.Tensor], Any]] = {
    "index_add": lambda x, i: tt.zeros(ROWS, WIDTH, dtype=tt.float64).index_add(
        0, i, tt.ones(COUNT, WIDTH).double()
    ),
    "index_reduce": lambda x, i: x.index_reduce(0, i, tt.ones(COUNT, WIDTH, dtype=tt.float64), "mean"),
    "index_put": lambda x, i: x.index_put((i,), tt.ones(COUNT, WIDTH, dtype=tt.float64), accumulate=True),
    "embedding_bag": lambda x, i: tt.nn.functional.embedding_bag(i, x, tt.tensor([0, 100]), mode="sum"),
    "embedding_backward": lambda x, i: tt.ops.aten.embedding_dense_backward(x[i % ROWS], i, ROWS, -1, True),
    "bincount": lambda x, i: tt.bincount(i),
    "take": lambda x, i: x[i],
    "gather": lambda x, i: x.gather(0, i.reshape(-1, WIDTH)),
    "scatter_add": lambda x, i: x.scatter_add(0, i.reshape(-1, WIDTH)[:ROWS], x),
}


@pytest.mark.parametrize("operator", OPERATORS)
def test_operators(operator: str, changing: Callable[[Array], Array]) -> None:
    """Return a result, or raise an error for the changed index."""
    table, whole = within_margin(np.nan)
    numbers = changing(np.arange(COUNT) % ROWS)
    try:
        found = OPERATORS[operator](tt.from_numpy(table), tt.from_numpy(numbers))
    except (IndexError, RuntimeError, ValueError) as error:
        assert type(error) is not RuntimeError or "index" in str(error)
    else:
        assert not found.double().isnan().any()
    assert np.isnan(whole[:MARGIN]).all() and np.isnan(whole[MARGIN + ROWS :]).all()


ONES = tt.ones(COUNT, dtype=tt.float64)
AFTER_COPY: dict[str, Callable[[tt.Tensor, tt.Tensor], Any]] = {
    "two indices": lambda x, i: x[i, i.clone()],
    "two indices of two sizes": lambda x, i: x[i[:, None], i[:4].clone()],
    "index_put": lambda x, i: x[0].clone().index_put_((i,), ONES),
    "index_put of rows": lambda x, i: x.clone().index_put_((i,), ONES[:, None]),
    "index_put of two indices": lambda x, i: x.clone().index_put_((i, i.clone()), ONES),
    "scatter": lambda x, i: x[0].scatter(0, i, ONES),
    "scatter of a number": lambda x, i: x[0].scatter(0, i, 2.0),
    "scatter with multiply": lambda x, i: x[0].scatter(0, i, ONES * 2, reduce="multiply"),
    "scatter_add": lambda x, i: x[0].scatter_add(0, i, ONES),
    "scatter_reduce": lambda x, i: x[0].scatter_reduce(0, i, ONES, "amax", include_self=False),
    "index_add": lambda x, i: x[0].index_add(0, i, ONES),
    "index_copy": lambda x, i: x[0].index_copy(0, i, ONES * 2),
    "index_copy of columns": lambda x, i: x.index_copy(1, i, ONES.expand(ROWS, -1) * 2),
    "index_fill": lambda x, i: x.index_fill(1, i, 3.0),
    "index_reduce": lambda x, i: x[0].index_reduce(0, i, ONES, "amax", include_self=False),
    "index_reduce of rows": lambda x, i: x.index_reduce(
        0, i, ONES[:, None] * x[0], "prod", include_self=False
    ),
    "put": lambda x, i: x[0].put(i, ONES * 2),
    "put with accumulate": lambda x, i: x[0].put(i, ONES, accumulate=True),
    "searchsorted": lambda x, i: tt.searchsorted(ONES[:ROWS], ONES[:3], sorter=i[:ROWS]),
    "embedding_backward": lambda x, i: tt.ops.aten.embedding_dense_backward(ONES[:, None], i, ROWS, -1, True),
    "nonzero": lambda x, i: i.nonzero(),
    "nonzero_static": lambda x, i: tt.nonzero_static(i, size=COUNT),
    "mask of rows": lambda x, i: ONES[:, None].expand(-1, 3)[i.view(tt.bool)[::8]],
    "mask": lambda x, i: ONES[i.view(tt.bool)[:COUNT]],
    "mask and index": lambda x, i: ONES[:, None][i.view(tt.bool)[:COUNT], 0],
}


@pytest.mark.parametrize("operator", AFTER_COPY)
def test_indices_are_read_once(operator: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Change the indices and masks once they have been copied: NumPy would check them and read them again."""
    numbers = np.arange(COUNT) % ROWS
    table, index = tt.arange(1.0, ROWS * WIDTH + 1).reshape(ROWS, WIDTH).double(), tt.from_numpy(numbers)
    expected = AFTER_COPY[operator](table, index).tolist()
    copies = []

    def copied(given: Array) -> Array:
        copies.append(given.copy())
        numbers[...] = WRONG + 256 * WRONG
        return copies[-1]

    for module in (embedding, indexing, masks, placement, scatter_gather, searching):
        monkeypatch.setattr(module, "own", copied)
    assert AFTER_COPY[operator](table, index).tolist() == expected
    assert copies


@pytest.mark.parametrize("operator", ["csr_mm", "csr_mv", "csr_csr", "to_csc", "triangular"])
def test_sparse_operators(operator: str, monkeypatch: pytest.MonkeyPatch) -> None:
    crow, col = np.arange(ROWS + 1), np.arange(ROWS)
    dense, _ = within_margin(np.nan)
    sparse = tt.sparse_csr_tensor(
        tt.from_numpy(crow), tt.from_numpy(col), tt.ones(ROWS, dtype=tt.float64), (ROWS, ROWS)
    )
    check = products.check_columns

    def seen(*given: Any) -> None:
        check(*given)
        col[...], crow[1:] = WRONG, ROWS + 2

    for module in (products, structure, triangular):
        monkeypatch.setattr(module, "check_columns", seen)
    x = tt.from_numpy(dense)
    if operator == "to_csc":
        found = sparse.to_sparse_csc().values()
    elif operator == "csr_csr":
        found = (sparse @ sparse).values()
    elif operator == "triangular":
        found = tt.triangular_solve(x, sparse, upper=False).solution
    else:
        found = sparse @ (x if operator == "csr_mm" else x[:, 0])
    assert (found == 1).all()


@pytest.mark.parametrize("routine", ["getrs", "sytrs"])
def test_pivots(routine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give LAPACK the pivots that were checked."""

    class Pivots(np.ndarray[Any, Any]):
        """Array of pivots that change when they are read."""

        def max(self, *given: Any, **options: Any) -> Any:
            found = super().max(*given, **options)
            self[...] = WRONG
            return found

        def astype(self, *given: Any, **options: Any) -> Any:
            found = super().astype(*given, **options).view(np.ndarray)
            self[...] = WRONG
            return found

    received: list[Array] = []

    def solve(lu: Array, pivots: Array, b: Array, **options: Any) -> tuple[Array, int]:
        received.append(np.array(pivots))
        return b, 0

    monkeypatch.setattr(lapack, "_routine", lambda *names: solve)
    pivots = np.arange(1, 4, dtype=np.int32).view(Pivots)
    option = {"getrs": "N", "sytrs": False}[routine]
    getattr(lapack, routine)(np.eye(3), pivots, np.ones((3, 1)), option)
    assert received and all((each <= 3).all() for each in received)


def picked(x: tt.Tensor, numbers: tt.Tensor) -> tt.Tensor:
    return x.gather(1, numbers) * 2


def selected(x: tt.Tensor, numbers: tt.Tensor) -> tt.Tensor:
    return x.index_select(-1, numbers[0]) * 2


def indexed(x: tt.Tensor, numbers: tt.Tensor) -> tt.Tensor:
    return x[..., numbers[0]] * 2


def of_rows(x: tt.Tensor, numbers: tt.Tensor) -> tt.Tensor:
    return (x * 2).amax(-1, keepdim=True) - (x * 2).gather(1, numbers)


@needs_llvm
@pytest.mark.parametrize("function", [picked, selected, indexed, of_rows])
@pytest.mark.parametrize("wrong", [WRONG, -1 - ROWS, -(1 << 63), (1 << 63) - 1])
def test_compiled_loops_read_no_element_outside(
    function: Callable[..., tt.Tensor], wrong: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pass unchecked indices to the loops."""
    monkeypatch.setattr(picks, "check_of", lambda call: lambda numbers: None)
    whole = np.full(ROWS * WIDTH + 2 * 64, np.nan, np.float32)
    table = whole[64:-64].reshape(ROWS, WIDTH)
    table[...] = np.arange(1, WIDTH + 1)
    numbers = np.full((ROWS, 1 if function is of_rows else 4), wrong)
    found = tt.compile(function, fullgraph=True)(tt.from_numpy(table), tt.from_numpy(numbers))
    assert not found.isnan().any()
    numbers[...] = WIDTH - 1
    expected = function(tt.from_numpy(table), tt.from_numpy(numbers))
    assert (found == expected).all() or wrong == -1 - ROWS
