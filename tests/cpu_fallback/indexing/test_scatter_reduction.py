"""Scatter reductions of rows are bitwise identical to NumPy's element-by-element ones: the order is the
same.
"""

from __future__ import annotations

import numpy as np
import pytest

import triten as tt
import triten.nn.functional as F
from triten.cpu_fallback.indexing import scatter_reduction, sparse_rows
from triten.runtime.float_errors import quietly

COUNT, SIZE = 700, 90


def sample(rng: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    if np.dtype(dtype).kind in "iu":
        return rng.integers(0, 100, shape).astype(dtype)
    made = rng.standard_normal(shape).astype(dtype)
    return made + 1j * rng.standard_normal(shape).astype(dtype) if np.dtype(dtype).kind == "c" else made


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128", "int8", "uint8", "int64"])
@pytest.mark.parametrize("width", [1, sparse_rows.MIN_WIDTH, 33])
def test_rows_are_added_in_order(rng: np.random.Generator, dtype: str, width: int) -> None:
    target, values = sample(rng, dtype, (SIZE, width)), sample(rng, dtype, (COUNT, width))
    rows = rng.integers(0, SIZE - 1, COUNT)
    if np.dtype(dtype).kind in "fc":
        values[3], values[5, 0], values[8] = np.inf, np.nan, -0.0
        target[SIZE - 1] = -0.0
    want = target.copy()
    with np.errstate(all="ignore"):
        np.add.at(want, rows, values)
    quietly(scatter_reduction.add_rows)(target, rows, values, False)
    np.testing.assert_array_equal(target, want)
    if np.dtype(dtype).kind == "f":
        np.testing.assert_array_equal(np.signbit(target), np.signbit(want))


@pytest.mark.parametrize("numbers", [SIZE, 3, 1], ids="of {} rows".format)
@pytest.mark.parametrize("ufunc", [np.multiply, np.maximum, np.minimum, np.add], ids=lambda f: f.__name__)
@pytest.mark.parametrize("start", [None, 0.5])
def test_rows_are_combined_in_order(
    rng: np.random.Generator, numbers: int, ufunc: np.ufunc, start: float | None
) -> None:
    target, values = sample(rng, "float32", (SIZE, 130)), sample(rng, "float32", (COUNT, 130))
    values[7, 3], values[9, 4] = np.nan, np.inf
    rows = rng.integers(0, numbers, COUNT)
    want = target.copy()
    with np.errstate(all="ignore"):
        if start is not None:
            want[rows] = start
        ufunc.at(want, rows, values)
    quietly(scatter_reduction.combine_rows)(ufunc, target, rows, values, start)
    np.testing.assert_array_equal(target, want)


@pytest.mark.parametrize("shape", [(60, 70), (9, 40, 3), (5, 40, 30), (3, 500, 8)], ids=str)
@pytest.mark.parametrize("dtype", ["float32", "complex64", "bfloat16"])
def test_index_add_along_every_dimension(
    rng: np.random.Generator, shape: tuple[int, ...], dtype: str
) -> None:
    for dim in range(len(shape)):
        given = (*shape[:dim], COUNT // 4, *shape[dim + 1 :])
        kind = "complex64" if dtype == "complex64" else "float32"
        x, source = (tt.from_numpy(sample(rng, kind, s)).to(getattr(tt, dtype)) for s in (shape, given))
        index = rng.integers(0, shape[dim], COUNT // 4)
        got = x.index_add(dim, tt.from_numpy(index), source, alpha=2)
        wide = "complex64" if dtype == "complex64" else "float32"
        want = x.to(getattr(tt, wide)).numpy().copy()
        moved = np.moveaxis(source.to(getattr(tt, wide)).numpy(), dim, 0)
        np.add.at(np.moveaxis(want, dim, 0), index, 2 * moved)
        tolerance = 1e-2 if dtype == "bfloat16" else 1e-6
        np.testing.assert_allclose(got.to(getattr(tt, wide)).numpy(), want, tolerance, tolerance * 10)


@pytest.mark.parametrize("mode", ["sum", "mean"])
@pytest.mark.parametrize("padding", [None, 2])
@pytest.mark.parametrize("last", [False, True])
def test_bags_of_many_rows(rng: np.random.Generator, mode: str, padding: int | None, last: bool) -> None:
    table = sample(rng, "float32", (SIZE, 24))
    indices = rng.integers(0, SIZE, COUNT)
    offsets = np.sort(np.concatenate([[0, 0, 5, 5], rng.integers(0, COUNT, 40), [COUNT]]))
    bags = len(offsets) - last
    weights = sample(rng, "float32", (COUNT,)) if mode == "sum" else None
    got = F.embedding_bag(
        tt.from_numpy(indices),
        tt.from_numpy(table),
        tt.from_numpy(offsets),
        mode=mode,
        padding_idx=padding,
        per_sample_weights=None if weights is None else tt.from_numpy(weights),
        include_last_offset=last,
    ).numpy()
    ends = [*offsets[1:], COUNT][:bags]
    for bag, (first, end) in enumerate(zip(offsets[:bags], ends, strict=True)):
        some = [i for i in range(first, end) if indices[i] != padding]
        rows = table[indices[some]].astype(np.float64)
        want = (rows if weights is None else rows * weights[some, None]).sum(0)
        want = want / max(len(some), 1) if mode == "mean" else want
        np.testing.assert_allclose(got[bag], want, 1e-5, 1e-5)
