"""Large reductions: all layouts and dimensions, pairwise error, identical bits for any threads, small
temporaries.
"""

from __future__ import annotations

import itertools
import math
import tracemalloc

import numpy as np
import pytest

import triten as tt
from triten.cpu_fallback.reduction import sums
from triten.cpu_fallback.reduction.blocks import FLAT_FROM, KEPT_FROM, SEQUENTIAL_ELEMENTS

SHAPE = (67, 31, 83)
assert math.prod(SHAPE) > KEPT_FROM > FLAT_FROM
DIMS = [d for n in (1, 2, 3) for d in itertools.combinations(range(3), n)]
LAYOUTS = ["plain", "permuted", "steps", "expanded"]


def layout(name: str, dtype: str) -> tt.Tensor:
    rng = np.random.default_rng(11)
    a, b, c = SHAPE
    if name == "permuted":
        x = tt.from_numpy(rng.standard_normal((c, a, b))).to(getattr(tt, dtype))
        return x.permute(1, 2, 0)
    if name == "steps":
        x = tt.from_numpy(rng.standard_normal((a, b, 2 * c))).to(getattr(tt, dtype))
        return x[..., ::2]
    if name == "expanded":
        x = tt.from_numpy(rng.standard_normal((a, 1, c))).to(getattr(tt, dtype))
        return x.expand(SHAPE)
    return tt.from_numpy(rng.standard_normal(SHAPE)).to(getattr(tt, dtype))


def wide(x: tt.Tensor) -> np.ndarray:
    return x.double().numpy()


FUNCTIONS = {
    "sum": lambda x, dims: x.sum(dims),
    "mean": lambda x, dims: x.mean(dims),
    "amax": lambda x, dims: x.amax(dims),
    "amin": lambda x, dims: x.amin(dims),
    "var": lambda x, dims: x.var(dims, correction=1),
    "std": lambda x, dims: x.std(dims, correction=1),
    "logsumexp": lambda x, dims: tt.logsumexp(x, dims),
    "norm": lambda x, dims: tt.linalg.vector_norm(x, 2, dims),
}
REFERENCES = {
    "sum": np.sum,
    "mean": np.mean,
    "amax": np.max,
    "amin": np.min,
    "var": lambda x, axis: np.var(x, axis, ddof=1),
    "std": lambda x, axis: np.std(x, axis, ddof=1),
    "logsumexp": lambda x, axis: np.log(np.exp(x).sum(axis)),
    "norm": lambda x, axis: np.sqrt(np.square(x).sum(axis)),
}


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_against_float64(function: str, name: str, dtype: str) -> None:
    x = layout(name, dtype)
    tolerance = {"float32": 3e-6, "float64": 1e-13, "bfloat16": 8e-3}[dtype]
    for dims in DIMS:
        got = FUNCTIONS[function](x, dims)
        want = REFERENCES[function](wide(x), axis=dims)
        assert tuple(got.shape) == want.shape
        np.testing.assert_allclose(wide(got), want, rtol=tolerance, atol=tolerance * 50, err_msg=f"{dims}")


def test_kept_dimensions_products_and_several_results() -> None:
    x = layout("permuted", "float32")
    y = wide(x)
    for dims in DIMS:
        assert tuple(x.sum(dims, keepdim=True).shape) == np.sum(y, axis=dims, keepdims=True).shape
        np.testing.assert_allclose(
            x.sum(dims, keepdim=True).numpy(), y.sum(dims, keepdims=True), rtol=1e-5, atol=1e-4
        )
        spread, mean = tt.var_mean(x, dims, correction=0)
        np.testing.assert_allclose(spread.numpy(), y.var(dims), rtol=1e-5)
        np.testing.assert_allclose(mean.numpy(), y.mean(dims), rtol=1e-5, atol=1e-6)
    near_one = 1 + x * 1e-3
    np.testing.assert_allclose(near_one.prod().item(), np.prod(wide(near_one)), rtol=1e-4)
    np.testing.assert_allclose(near_one.prod(1).numpy(), np.prod(wide(near_one), 1), rtol=1e-4)
    out = tt.empty((83, 67)).t()
    tt.sum(x, 1, out=out)
    np.testing.assert_array_equal(out.numpy(), x.sum(1).numpy())


@pytest.mark.parametrize("place", [0, 1, SEQUENTIAL_ELEMENTS * SEQUENTIAL_ELEMENTS, -1])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_reaches_the_result(value: float, place: int) -> None:
    for n in (FLAT_FROM - 1, FLAT_FROM, FLAT_FROM + 1, (1 << 17) + 77):
        x = np.random.default_rng(1).standard_normal(n).astype(np.float32)
        x[place] = value
        for function, reference in (
            (tt.sum, np.sum),
            (tt.amax, np.max),
            (tt.amin, np.min),
            (tt.prod, np.prod),
        ):
            if function is tt.prod and not math.isnan(value):
                continue  # with numbers so small that their product is zero
            with np.errstate(all="ignore"):
                want = reference(x.astype(np.float64))
            got = function(tt.from_numpy(x)).item()
            assert math.isnan(want) == math.isnan(got)
            assert math.isnan(value) or got == pytest.approx(want, rel=1e-5)


@pytest.mark.parametrize("dims", [(0,), (1,), (0, 1)])
@pytest.mark.parametrize("turned", [False, True])
def test_sums_of_float32_have_pairwise_error(turned: bool, dims: tuple[int, ...]) -> None:
    shape = (1 << 12, 1 << 9)
    x = np.full(shape, 0.1, np.float32)
    t = tt.from_numpy(np.full(shape[::-1], 0.1, np.float32)).t() if turned else tt.from_numpy(x)
    got, want = t.sum(dims).double().numpy(), x.astype(np.float64).sum(dims)
    # One after another would be off by 1e-4 and more.
    np.testing.assert_allclose(got, want, rtol=4e-6)


def test_results_are_those_of_one_thread() -> None:
    x = tt.from_numpy(np.random.default_rng(2).standard_normal((1031, 1033)).astype(np.float32))
    before = tt.get_num_threads()
    found = []
    try:
        for threads in (1, 2, 5):
            tt.set_num_threads(threads)
            found.append(
                [
                    r.numpy().copy()
                    for y in (x, x.t(), x.bfloat16())
                    for r in (
                        y.sum(),
                        y.sum(0),
                        y.mean(1),
                        y.var(0),
                        y.amax(1),
                        tt.logsumexp(y, 0),
                        y.float().exp(),
                    )
                ]
            )
    finally:
        tt.set_num_threads(before)
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(a.reshape(-1).view(np.uint8), b.reshape(-1).view(np.uint8))


@pytest.mark.parametrize("function", ["sum", "mean", "amax", "var", "logsumexp"])
def test_temporaries_are_small(function: str) -> None:
    x = tt.ones(2048, 2048)
    for dims in ((0,), (1,)):
        for y in (x, x.t(), x.bfloat16()):
            FUNCTIONS[function](y, dims)
            tracemalloc.start()
            FUNCTIONS[function](y, dims)
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            assert peak < 12 << 20, (dims, peak)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "shape", [(sums.BLOCK * 3 + 7, 40), (5, 200, 24), (2, 2 * sums.BLOCK, 3, 17), (9, 1000)], ids=str
)
def test_rows_are_added_by_products(shape, dtype):
    x = np.random.default_rng(11).standard_normal(shape).astype(dtype)
    flat = x.reshape(-1, shape[-1])
    flat[3, 1], flat[4, 2], flat[7, 3], flat[8, 3], flat[:, 5] = np.nan, np.inf, np.inf, -np.inf, -0.0
    before, found = tt.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            tt.set_num_threads(threads)
            found.append([tt.from_numpy(x).sum(d).numpy() for d in range(x.ndim)])
    finally:
        tt.set_num_threads(before)
    with np.errstate(all="ignore"):
        for d, got in enumerate(found[0]):
            want = np.add.reduce(x, d, np.float64)
            np.testing.assert_allclose(got, want, 1e-6 if dtype is np.float32 else 1e-13, 1e-4)
            assert not np.signbit(got[got == 0]).any()
    for others in found[1:]:
        for one, other in zip(found[0], others, strict=True):
            np.testing.assert_array_equal(one, other)


def test_a_sum_of_runs_that_overflows_says_nothing():
    x = tt.zeros(2, 10_001)
    x[:, 0] = x[:, -1] = 3e38
    with np.errstate(all="raise"):
        assert tt.sum(x, 1).tolist() == [math.inf] * 2
        assert tt.sum(x, 1, keepdim=True).tolist() == [[math.inf]] * 2
