"""Whole-tensor reductions as loops read every element once, and are bitwise identical for any number of
threads.
"""

from typing import Any

import numpy as np
import pytest

import triten as tt
from triten.compiler.host import reduction_loops
from triten.tests.compiler.beside_eager import same
from triten.tests.compiler.test_loops import needs_llvm
from triten.tests.compiler.test_row_loops import runs_as

RUN = 32 * 512
"""Elements of a run of the longest kind."""
LENGTHS = [40_000, 3 * RUN, 3 * RUN + 1, 3 * RUN + 31, 3 * RUN + 32, 3 * RUN + 97, 20 * RUN - 33, 262_145]
INTEGERS = [tt.float32, tt.float64, tt.bfloat16, tt.int32, tt.int64]


def integers(*shape: int, dtype: Any = tt.float32, seed: int = 0) -> tt.Tensor:
    """Return small integers, whose sums are exact in any order."""
    found = np.random.default_rng([seed, *shape]).integers(-8, 9, shape)
    return tt.tensor(found).to(dtype)


def everything(a: tt.Tensor, b: tt.Tensor) -> Any:
    c = a * b
    return c.double().sum(), (c - 1).amax(), c.amin(), (c > 60).any(), (c < 100).all(), c


@needs_llvm
@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("n", LENGTHS)
def test_every_element_is_met_once(n: int, dtype: Any) -> None:
    a, b = (integers(n, dtype=dtype, seed=seed) for seed in range(2))
    same(tt.compile(everything)(a, b), everything(a, b))
    assert "one compiled loop" in runs_as(everything, a, b)[0]


@needs_llvm
@pytest.mark.parametrize("shape", [(12, 33_333), (2, 50_001), (3, 5, 40_000)], ids=str)
def test_long_rows(shape: tuple[int, ...]) -> None:
    def f(a: tt.Tensor, b: tt.Tensor) -> Any:
        c = a * b
        return c.sum((0, -1)), c.amax(0), c.sum(-1), c.var(-1)

    a, b = (integers(*shape, seed=seed) for seed in range(2))
    *found, spread = tt.compile(f)(a, b)
    *expected, other = f(a, b)
    same(found, expected)
    tt.testing.assert_close(spread, other)


@needs_llvm
@pytest.mark.parametrize("n", [40_000, 3 * RUN + 97, 700_001])
def test_sums_are_those_of_float64(n: int) -> None:
    rng = np.random.default_rng(n)
    a, b = (tt.tensor(rng.standard_normal(n, np.float32)) for _ in range(2))

    def f(a: tt.Tensor, b: tt.Tensor) -> Any:
        return ((a - b) ** 2).mean(), (a - b).sum(), (a * 2).std()

    gaps = a.numpy() - b.numpy()
    squares = (gaps * gaps).astype(np.float64).mean()
    spread = (a.numpy() * 2).astype(np.float64).std(ddof=1)
    wanted = [squares, gaps.astype(np.float64).sum(), spread]
    found = [x.numpy() for x in tt.compile(f)(a, b)]
    np.testing.assert_array_equal(np.array(found), np.array(wanted).astype(np.float32))


@needs_llvm
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_threads_change_no_bit(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reduction_loops, "SHARED_FROM", 0)
    rng = np.random.default_rng(3)
    a, b = (tt.tensor(rng.standard_normal(900_001)) for _ in range(2))

    def f(a: tt.Tensor, b: tt.Tensor) -> Any:
        return (a * b).sum(), ((a - b) ** 2).mean(), (a + b).amax(), a.float().var()

    before = tt.get_num_threads()
    try:
        tt.set_num_threads(1)
        expected = tt.compile(f)(a, b)
        tt.set_num_threads(threads)
        same(tt.compile(f)(a, b), expected)
    finally:
        tt.set_num_threads(before)


@needs_llvm
@pytest.mark.parametrize("place", [0, 31, 32, RUN - 1, RUN, 3 * RUN, 3 * RUN + 96])
@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf")])
def test_numbers_that_are_not_finite_anywhere(number: float, place: int) -> None:
    a, b = integers(3 * RUN + 97), integers(3 * RUN + 97, seed=1)
    a[place] = number
    b[place] = 2

    def f(a: tt.Tensor, b: tt.Tensor) -> Any:
        c = a * b
        return c.sum(), c.amax(), c.amin(), (c == c).all()

    same(tt.compile(f)(a, b), f(a, b))
