"""Large scans agree with float64: all layouts and dimensions, NaN anywhere, any number of threads."""

from __future__ import annotations

import itertools
import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import triten as tt
from triten.cpu_fallback.reduction import line_scans
from triten.cpu_fallback.reduction.scan import BLOCK, SHARED_FROM
from triten.cpu_fallback.reduction.scan_loop import scan_loop
from triten.runtime.cpu.background import background
from triten.tests.compiled_code import needs_llvm
from triten.tests.shared import comparison

RUN = 16
SHAPES = [
    (3, SHARED_FROM // 3 + 77),  # several blocks to a line
    (SHARED_FROM // 33 + 5, 35),  # short lines
    (SHARED_FROM // 16, RUN),
    (SHARED_FROM // 8, 9),
    (131, 67, 41),
    (BLOCK + 9,),
    (128, 64),
]
SCANS = {"cumsum": np.add, "cumprod": np.multiply, "logcumsumexp": np.logaddexp}


def close(got: tt.Tensor, want: np.ndarray, tolerance: float) -> None:
    scale = np.nanmax(np.abs(want[np.isfinite(want)]), initial=1.0)
    comparison.close(got, want, tolerance, tolerance * scale * 1e-3)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "bfloat16"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.usefixtures("threads")
def test_against_numpy(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> None:
    x = tt.from_numpy(rng.uniform(-3, 3, shape)).to(getattr(tt, dtype))
    tolerance = {"float32": 2e-7, "float64": 1e-13, "int32": 0, "bfloat16": 4e-3}[dtype]
    for dim in range(len(shape)):
        y = x.numpy() if dtype == "int32" else x.double().numpy()
        close(x.cumsum(dim), np.cumsum(y, dim, np.int64 if dtype == "int32" else None), tolerance)
        steps = x[..., ::2] if dim == 0 else x[::2]
        wide = np.int64 if dtype == "int32" else np.float64
        close(steps.cumsum(dim), np.cumsum(y[..., ::2] if dim == 0 else y[::2], dim, wide), tolerance)
        if dtype != "int32":
            near = 1 + x.double() * 1e-4
            close(
                near.to(x.dtype).cumprod(dim), np.cumprod(near.to(x.dtype).double().numpy(), dim), tolerance
            )


@pytest.mark.parametrize("name", SCANS)
def test_in_place_turned_and_into_another_dtype(name: str) -> None:
    x = np.random.default_rng(4).uniform(-1, 1, (257, 1025)).astype(np.float32)
    for dim in (0, 1):
        want = SCANS[name].accumulate(x.astype(np.float64), dim).astype(np.float32)
        scan = getattr(tt, name)
        plain = tt.from_numpy(x)
        got = scan(plain, dim)
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-6, atol=1e-6)
        turned = tt.from_numpy(np.ascontiguousarray(x.T)).t()
        np.testing.assert_allclose(scan(turned, dim).numpy(), want, rtol=1e-6, atol=1e-6)
        out = tt.empty(1025, 257).t()
        scan(plain, dim, out=out)
        np.testing.assert_array_equal(out.numpy(), got.numpy())
        if name != "logcumsumexp":
            same = tt.from_numpy(x.copy())
            getattr(same, name + "_")(dim)
            np.testing.assert_array_equal(same.numpy(), got.numpy())


@pytest.mark.parametrize(
    "values",
    [(math.nan,), (math.inf,), (-math.inf,), (math.inf, -math.inf), (3e38, 3e38), (3e38, 3e38, -3e38)],
    ids=str,
)
def test_what_is_no_number_reaches_what_follows(values: tuple[float, ...]) -> None:
    length = BLOCK // 2 + 3
    for first, gap in itertools.product((0, 1, RUN - 1, RUN, length // 2, length - 40), (1, RUN + 1)):
        x = np.zeros((4, length), np.float32)
        for i, value in enumerate(values):
            x[1, first + i * gap] = value
        with np.errstate(all="ignore"):
            want = np.add.accumulate(x.astype(np.float64), 1).astype(np.float32)
        for got in (tt.from_numpy(x).cumsum(1), tt.from_numpy(np.ascontiguousarray(x.T)).cumsum(0).t()):
            np.testing.assert_array_equal(got.numpy(), want)


def test_float64_overflows_where_its_sum_does() -> None:
    x = np.zeros((8, BLOCK), np.float64)
    x[:, 3], x[:, RUN], x[:, RUN + 1] = -1.7e308, 1.7e308, 1.7e308
    assert np.isfinite(tt.from_numpy(x).cumsum(1).numpy()).all()
    y = np.zeros((8, BLOCK), np.float32)
    y[:, RUN : 2 * RUN] = 3e38
    assert not tt.from_numpy(y).cumprod(1).numpy().any()  # zero times what would overflow in float64


@pytest.mark.parametrize("shape", [(3, 2), (64, 2 * RUN + 1 + BLOCK // 64), (BLOCK + 1,)], ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sums_begin_at_a_zero_without_a_sign(shape: tuple[int, ...], dtype: type) -> None:
    x = tt.from_numpy(np.full(shape, -0.0, dtype))
    for dim in range(len(shape)):
        assert not np.signbit(x.cumsum(dim).numpy()).any()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sums_do_not_depend_on_the_number_of_threads(dtype: type) -> None:
    before = tt.get_num_threads()
    x = tt.from_numpy(np.random.default_rng(8).standard_normal((777, 1234)).astype(dtype))
    try:
        found = []
        for threads in (1, 2, 5):
            tt.set_num_threads(threads)
            found.append(x.cumsum(1).numpy())
    finally:
        tt.set_num_threads(before)
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])


@pytest.mark.parametrize("name", ["cummax", "cummin"])
@pytest.mark.usefixtures("threads")
def test_running_extrema(name: str) -> None:
    x = np.random.default_rng(6).integers(-30, 30, (401, 499)).astype(np.float32)
    x[5, 7] = x[7, 100] = x[7, 200] = math.nan
    x[9, 0], x[9, 3] = -math.inf, math.inf
    ufunc = np.maximum if name == "cummax" else np.minimum
    for t, y in ((tt.from_numpy(x), x), (tt.from_numpy(x).to(tt.bfloat16), x)):
        values, indices = getattr(tt, name)(t, 1)
        want = ufunc.accumulate(y, 1)
        np.testing.assert_array_equal(values.float().numpy(), want)
        attained = (y == want) | np.isnan(y)
        places = np.maximum.accumulate(np.where(attained, np.arange(y.shape[1]), 0), 1)
        np.testing.assert_array_equal(indices.numpy(), places)


def test_float32_accumulates_in_float64() -> None:
    x = np.full((2, 3 * BLOCK), 0.1, np.float32)
    want = np.add.accumulate(x.astype(np.float64), 1).astype(np.float32)
    for got in (tt.from_numpy(x).cumsum(1), tt.from_numpy(np.ascontiguousarray(x.T)).cumsum(0).t()):
        np.testing.assert_allclose(got.numpy(), want, rtol=1.2e-7)


UFUNCS = {"cumsum": np.add, "cumprod": np.multiply, "cummax": np.maximum, "cummin": np.minimum}


@pytest.mark.parametrize("name", UFUNCS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
@pytest.mark.parametrize(
    "sizes", [(7,), (63, 61), (5, 127), (3, 21, 39), (2, 1, 4), (9, 71_001), (300, 303), (71_001,)], ids=str
)
@needs_llvm
def test_loops_have_the_bits_of_eager_scans(
    name: str, dtype: str, sizes: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    array = (np.random.default_rng(3).standard_normal(sizes) * 3).astype(dtype)
    if dtype != "int64":
        array.reshape(-1)[[0, 3, 5]] = -0.0, math.nan, math.inf
    asked: list[str] = []

    def loop(name: str, dtype: str, adjacent: bool) -> Any:
        asked.append(name)
        return SimpleNamespace(beside=lambda work: scan_loop(name, dtype, adjacent))

    monkeypatch.setattr(line_scans, "_loop", loop)
    ufunc, x = UFUNCS[name], tt.from_numpy(array)
    for dim, length in enumerate(sizes):
        asked.clear()
        results = getattr(tt, name)(x, dim)
        assert asked == [ufunc.__name__]
        with np.errstate(all="ignore"):
            if isinstance(results, tt.Tensor):
                wide = np.float64 if dtype == "float32" else array.dtype.type
                want = ufunc.accumulate(array, dim, wide)
                want = (want + wide(0) if name == "cumsum" else want).astype(dtype)
                values = results.numpy()
            else:
                want, values = ufunc.accumulate(array, dim), results.values.numpy()
                attained = (array == want) | (array != array)
                steps = np.arange(length).reshape(-1, *(1,) * (array.ndim - dim - 1))
                places = np.maximum.accumulate(attained * steps, dim)
                np.testing.assert_array_equal(results.indices.numpy(), places)
        np.testing.assert_array_equal(values, want)
        numbers = want == want
        np.testing.assert_array_equal(np.signbit(values[numbers]), np.signbit(want[numbers]))


@needs_llvm
def test_a_scan_is_compiled_after_enough_elements(monkeypatch: pytest.MonkeyPatch) -> None:
    x = tt.randn(67, 71)
    deferred = line_scans._loop("add", "float32", False)
    monkeypatch.setattr(deferred, "loop", None)
    monkeypatch.setattr(deferred, "done", deferred.compile_threshold - 1)
    first = x.cumsum(1)
    background.wait()
    assert deferred.loop is not None
    assert tt.equal(x.cumsum(1), first)
    same = x.clone()
    assert tt.equal(same.cumsum_(1), first)
