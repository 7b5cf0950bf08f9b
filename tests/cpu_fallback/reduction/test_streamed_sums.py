"""Sums of what comes from memory and reductions of short rows and lines, with the limits lowered."""

from __future__ import annotations

import math

import numpy as np
import pytest

import triten as tt
from triten.cpu_fallback.reduction import blocks as reduced_blocks
from triten.cpu_fallback.reduction import extremes
from triten.cpu_fallback.reduction.blocks import STREAM_RUN, over_streamed, side_by_side
from triten.cpu_fallback.reduction.sums import SMALL

SEED = 21
RUN = STREAM_RUN


@pytest.fixture(autouse=True)
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reduced_blocks, "SHARED_BYTES", 1 << 12)
    monkeypatch.setattr(reduced_blocks, "STREAM_GRAIN", 1 << 10)
    monkeypatch.setattr(extremes, "HANDED_OVER", 1 << 14)
    monkeypatch.setattr(extremes, "KEPT_FROM", 1 << 10)


SHAPES = [(3, 2 * RUN), (2, 5 * RUN + 7), (50, RUN + 1), (33, 700), (400, 17), (7, 3, RUN - 1), (40013,)]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", SHAPES)
def test_last_dimensions_against_float64(shape: tuple[int, ...], dtype: type) -> None:
    x = np.random.default_rng(SEED).standard_normal(shape).astype(dtype)
    t = tt.from_numpy(x)
    for d in range(len(shape)):
        dims = tuple(range(d, len(shape)))
        assert over_streamed(t._spec, dims, np.dtype(dtype)) is not None
        for got, want in (
            (t.sum(dims), x.sum(dims, np.float64)),
            (t.mean(dims), x.mean(dims, np.float64)),
            (t.sum(dims, keepdim=True), x.sum(dims, np.float64, keepdims=True)),
        ):
            assert tuple(got.shape) == want.shape
            np.testing.assert_allclose(got.double().numpy(), want, 1e-5, 1e-4, err_msg=f"{dims} seed {SEED}")
    if x.size > SMALL:  # fewer are one block, whichever limits hold
        turned = t.permute(*reversed(range(len(shape))))
        assert turned.sum().item() == t.sum().item()


@pytest.mark.parametrize("shape", [(1 << 18,), (3, (1 << 16) + 5), (1 << 11, 40)])
def test_the_error_is_pairwise(shape: tuple[int, ...]) -> None:
    x = np.full(shape, 0.1, np.float32)
    for dims in ((0,), tuple(range(len(shape)))):
        got = tt.from_numpy(x).sum(dims).double().numpy()
        # One after another they would be off by 1e-3 and more.
        np.testing.assert_allclose(got, x.astype(np.float64).sum(dims), 2e-6)


def test_results_are_those_of_one_thread() -> None:
    x = tt.from_numpy(np.random.default_rng(SEED).standard_normal((37, 5003)).astype(np.float32))
    before, found = tt.get_num_threads(), []
    try:
        for threads in (1, 2, 5):
            tt.set_num_threads(threads)
            results = [
                x.sum(),
                x.sum(1),
                x.double().sum(1),
                x[:, :40].contiguous().sum(0),
                x.argmax(1),
                x.amax(),
            ]
            found.append([r.numpy().copy() for r in results])
    finally:
        tt.set_num_threads(before)
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_no_number(value: float) -> None:
    for place in (0, RUN - 1, RUN, 2 * RUN, 2 * RUN + 4):
        x = np.random.default_rng(SEED).standard_normal((5, 2 * RUN + 5)).astype(np.float32)
        x[3, place] = value
        want = x.astype(np.float64).sum(1)
        got = tt.from_numpy(x).sum(1).numpy()
        np.testing.assert_allclose(got, want, 1e-4, 1e-4)
        assert tt.from_numpy(x).amax().item() == x.max() or math.isnan(x.max())
        assert math.isnan(tt.from_numpy(x).amax().item()) == math.isnan(value)


@pytest.mark.parametrize("length", [1, 3, 40, 255, 256])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "bfloat16"])
def test_rows_of_any_length_over_the_first_dimensions(length: int, dtype: str) -> None:
    rng = np.random.default_rng(SEED)
    for count in (8191 // length + 1, 40009 // length):
        t = tt.from_numpy(rng.integers(-8, 9, (count, length))).to(getattr(tt, dtype))
        x = t.double().numpy()
        np.testing.assert_array_equal(t.amax(0).double().numpy(), x.max(0), f"{count}")
        if dtype != "bfloat16":
            np.testing.assert_array_equal(t.sum(0).double().numpy(), x.sum(0), f"{count}")


def test_short_rows_side_by_side() -> None:
    seen = []

    def reduce_rows(rows: np.ndarray) -> np.ndarray:
        seen.append(rows.shape)
        return rows.sum(0, keepdims=True)

    rows = np.arange(3 * 1001).reshape(1001, 3)
    np.testing.assert_array_equal(side_by_side(reduce_rows, 3)(rows), rows.sum(0, keepdims=True))
    assert seen == [(2, 3 * 342), (342 + 1001 - 684, 3)]


@pytest.mark.parametrize("function", ["argmax", "argmin"])
def test_places_of_extrema_are_the_first_and_a_nan_s(function: str) -> None:
    x = np.random.default_rng(SEED).integers(0, 5, (300, 41)).astype(np.float32)
    x[7, 30] = x[7, 33] = math.nan
    t = tt.from_numpy(x)
    for keepdim in (False, True):
        got = getattr(t, function)(-1, keepdim)
        np.testing.assert_array_equal(got.numpy(), getattr(np, function)(x, 1, keepdims=keepdim))
    out = tt.empty(600, dtype=tt.int64)[::2]
    getattr(tt, function)(t, 1, out=out)
    np.testing.assert_array_equal(out.numpy(), getattr(np, function)(x, 1))
