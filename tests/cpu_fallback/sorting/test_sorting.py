"""Packed sort keys: stable orders, ranks and selections of every dtype, with NaN, zeros of both signs, and
ties.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import triten as tt
from triten.cpu_fallback.sorting import sorting

DTYPES = ["float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool"]
SHAPES = [(1, 1), (3, 2), (5, 257), (1, 65537), (200, 200)]


def lines_of(shape: tuple[int, int], dtype: str) -> tt.Tensor:
    rng = np.random.default_rng(7)
    if "float" in dtype:
        values = rng.integers(-40, 40, shape) / 8
        values[rng.random(shape) < 0.05] = np.nan
        values[rng.random(shape) < 0.05] = -np.nan
        values[rng.random(shape) < 0.05] = np.inf
        values[rng.random(shape) < 0.05] = -np.inf
        values[rng.random(shape) < 0.1] = -0.0
        return tt.from_numpy(values).to(getattr(tt, dtype))
    if dtype == "int64":
        # Far apart: a key leaves no room for a place.
        return tt.from_numpy(rng.choice([-(1 << 63), (1 << 63) - 1, 0, 5, -5], shape))
    return tt.from_numpy(rng.integers(0, 120, shape)).to(getattr(tt, dtype))


def plain(tensor: tt.Tensor) -> np.ndarray:
    return (tensor.to(tt.float64) if tensor.dtype.is_floating_point else tensor).numpy()


def stable(values: np.ndarray, descending: bool) -> np.ndarray:
    """Return the indices of a stable sort, with NaN above all numbers."""
    rank = values.astype(np.float64 if values.dtype.kind == "f" else np.int64)
    dense = np.unique(rank, return_inverse=True)[1].reshape(rank.shape)
    return np.argsort(-dense if descending else dense, 1, kind="stable")


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_sort_is_stable(dtype: str, shape: tuple[int, int], descending: bool) -> None:
    lines = lines_of(shape, dtype)
    order = stable(plain(lines), descending)
    values, places = lines.sort(1, descending)
    np.testing.assert_array_equal(places.numpy(), order)
    want = np.take_along_axis(plain(lines), order, 1)
    np.testing.assert_array_equal(plain(values), want)
    if "float" in dtype:
        np.testing.assert_array_equal(np.signbit(plain(values))[want == 0], np.signbit(want)[want == 0])


@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", DTYPES[:-1])
def test_topk_takes_the_first_of_equals(dtype: str, shape: tuple[int, int], largest: bool) -> None:
    lines = lines_of(shape, dtype)
    order = stable(plain(lines), largest)
    for k in {0, 1, min(7, shape[1]), shape[1]}:
        assert lines.topk(k, 1, largest)[1].numpy().tolist() == order[:, :k].tolist()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", DTYPES[:-1])
def test_ranks(dtype: str, shape: tuple[int, int]) -> None:
    lines = lines_of(shape, dtype)
    order = stable(plain(lines), False)
    n = shape[1]
    for k in {1, (n + 1) // 2, n}:
        assert lines.kthvalue(k, 1)[1].numpy().tolist() == order[:, k - 1].tolist()
    missing = np.isnan(plain(lines)).sum(1) if "float" in dtype else np.zeros(shape[0], int)
    rank = np.where(missing > 0, n - missing, (n - 1) // 2)
    assert lines.median(1)[1].numpy().tolist() == order[np.arange(len(order)), rank].tolist()


def test_keys_that_leave_no_room_are_not_packed() -> None:
    wide = np.array([[0, (1 << 64) - 1, 3]], np.uint64)
    assert sorting.packed(wide) is None
    close = wide[:, [0, 2, 0]] + np.uint64(1 << 63)
    joined, mask = sorting.packed(close)
    assert (joined & mask).tolist() == [[0, 1, 2]]
    assert sorting.stable_order(wide).tolist() == [[0, 2, 1]]


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_lines_are_shared_among_threads(threads: int) -> None:
    before = tt.get_num_threads()
    tt.set_num_threads(threads)
    try:
        lines = lines_of((61, 1009), "float32")
        np.testing.assert_array_equal(lines.sort(1)[1].numpy(), stable(plain(lines), False))
        columns = lines.t().contiguous()
        np.testing.assert_array_equal(columns.sort(0)[1].numpy().T, stable(plain(lines), False))
    finally:
        tt.set_num_threads(before)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
@pytest.mark.parametrize("largest", [True, False])
def test_topk_of_long_lines(rng: np.random.Generator, dtype: str, largest: bool) -> None:
    for (count, length), k, spread in itertools.product(
        ((1, 3001), (40, 333), (9, 1024)), (1, 3, 20), (2, 1e4)
    ):
        x = np.rint(spread * rng.standard_normal((count, length))).astype(dtype)
        if x.dtype.kind == "f":
            x[:, rng.integers(0, length, 5)] = rng.choice([math.nan, math.inf, -math.inf, 0.0, -0.0], 5)
            x[count // 2, rng.random(length) < rng.choice([0.01, 0.5, 0.99])] = rng.choice(
                [math.nan, math.inf]
            )
        ranked = np.where(np.isnan(x), np.inf, x), np.isnan(x), np.broadcast_to(np.arange(length), x.shape)
        for line, (value, missing, place) in enumerate(zip(*ranked, strict=True)):
            signed = -value.astype(np.float64) if largest else value.astype(np.float64)
            order = np.lexsort((place, signed, ~missing if largest else missing))[:k]
            values, places = tt.from_numpy(x).topk(k, 1, largest)
            np.testing.assert_array_equal(places.numpy()[line], order, err_msg=f"{count, length, k, spread}")
            np.testing.assert_array_equal(values.numpy()[line], x[line, order])
