"""Functions of many float32 elements are within 0.52 ulp of the true values, in every layout."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import triten as tt
from triten.cpu_fallback.elementwise.wide_functions import SERVED, TAN_RANGE
from triten.cpu_fallback.elementwise.wide_kernels import PART, WIDE_FROM
from triten.tests.compiled_code import needs_llvm

pytestmark = needs_llvm
Array = np.ndarray[Any, Any]


def erfc_exactly(x: Array) -> Array:
    from scipy.special import erfc

    return erfc(x.astype(np.float64))


def erfinv_exactly(x: Array) -> Array:
    from scipy.special import erfinv

    return np.copysign(erfinv(x.astype(np.float64)), x)


EXACT: dict[str, Callable[..., Array]] = {
    "acos": np.arccos,
    "asin": np.arcsin,
    "atan": np.arctan,
    "atan2": np.arctan2,
    "atanh": np.arctanh,
    "cosh": np.cosh,
    "erfc": erfc_exactly,
    "erfinv": erfinv_exactly,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "log10": np.log10,
    "log1p": np.log1p,
    "log2": np.log2,
    "sinh": np.sinh,
    "tan": np.tan,
}
"""In the C library's long double, of 64 bits of mantissa; erfc and erfinv in float64."""
EDGES = np.array(
    [
        *(0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 1e-45, -1e-45, 1.1754944e-38, -1.1754944e-38),
        *(
            0.5,
            2.0,
            8.0,
            1000.0,
            1e-10,
            -1e-10,
            127.0,
            128.0,
            -126.0,
            -149.0,
            -150.0,
            88.72,
            88.73,
            89.41,
            89.42,
        ),
        *(-104.0, 3.4028235e38, -3.4028235e38, 0.99999994, -0.99999994, 1.0000001, math.pi, math.pi / 2, 1e5),
    ],
    np.float32,
)
NAMES = sorted(SERVED - {"special_ndtr"})
COUNT = max(WIDE_FROM, 2 * PART)
"""Random numbers of each kind: a loop computes them in several parts."""


def operands(name: str) -> tuple[Array, ...]:
    """Return random bits, usual numbers and edges, which atan2 combines."""
    rng = np.random.default_rng(7)
    some = rng.integers(0, 1 << 32, COUNT, np.uint64).astype(np.uint32).view(np.float32)
    usual = rng.standard_normal(COUNT, np.float32) * np.exp2(rng.integers(-12, 7, COUNT)).astype(np.float32)
    within = rng.uniform(-1, 1, COUNT).astype(np.float32)
    if name == "tan":
        some = some[~(np.abs(some) > TAN_RANGE)]
    x = np.concatenate([some, usual, within, np.repeat(EDGES, len(EDGES))])
    if name != "atan2":
        return (x,)
    numbers = len(x) - len(EDGES) ** 2
    return (np.concatenate([rng.permutation(x[:numbers]), np.tile(EDGES, len(EDGES))]), x)


@pytest.mark.parametrize("name", NAMES)
def test_results_are_the_nearest_numbers(name: str) -> None:
    inputs = operands(name)
    found = getattr(tt, name)(*map(tt.from_numpy, inputs)).numpy()
    with np.errstate(all="ignore"):
        exact = EXACT[name](*[x.astype(np.longdouble) for x in inputs])
        expected = exact.astype(np.float32)
        ulp = np.spacing(np.abs(expected)).astype(np.longdouble)
        error = np.abs(found.astype(np.longdouble) - exact) / ulp
    is_finite = np.isfinite(expected)
    np.testing.assert_array_equal(found[~is_finite], expected[~is_finite])
    near = is_finite & (np.abs(inputs[0]) <= TAN_RANGE) if name == "tan" else is_finite
    assert error[near].max() < (0.52 if name == "erfc" else 0.51)
    is_zero = is_finite & (expected == 0)
    np.testing.assert_array_equal(np.signbit(found[is_zero]), np.signbit(expected[is_zero]))


@pytest.mark.skipif("tan" not in SERVED, reason="NumPy computes the tangent in vectors")
def test_tangents_of_large_numbers_are_those_of_numpy() -> None:
    x = np.linspace(-2 * TAN_RANGE, 2 * TAN_RANGE, 3 * COUNT, dtype=np.float32)
    x[5], x[77], x[-1] = math.inf, math.nan, 3e38
    found, far = tt.tan(tt.from_numpy(x)).numpy(), np.abs(x) > TAN_RANGE
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(found[far], np.tan(x[far]))
    assert np.isnan(found[[5, 77]]).all()
    np.testing.assert_allclose(found[~far], np.tan(x[~far].astype(np.float64)), 1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_every_layout_has_the_same_bits(name: str) -> None:
    """Compute in place, into strides, of transposes and broadcasts, and on several threads."""
    side = math.isqrt(COUNT) + PART % 100
    given = [tt.from_numpy(x[: side * side].reshape(side, side).copy()) for x in operands(name)]
    function = getattr(tt, name)
    expected = function(*given).numpy().view(np.uint32)

    def require(found: tt.Tensor) -> None:
        made = found.contiguous().numpy()
        np.testing.assert_array_equal(made[~np.isnan(made)].view(np.uint32), expected[~np.isnan(made)])

    require(getattr(given[0].clone(), f"{name}_")(*given[1:]))
    require(function(*[x.t().contiguous().t() for x in given]))
    wide = tt.empty(side, 2 * side)
    require(function(*given, out=wide[:, ::2]))
    before = tt.get_num_threads()
    try:
        tt.set_num_threads(3)
        require(function(*given))
    finally:
        tt.set_num_threads(before)
    if name == "atan2":
        row, column = given[0][:1], given[1][:, :1]
        repeated = tt.atan2(row.expand(side, side).contiguous(), column.expand(side, side).contiguous())
        assert tt.equal(tt.atan2(row, column).nan_to_num(), repeated.nan_to_num())
        target = given[1].clone()
        require(tt.atan2(given[0], target, out=target))


@pytest.mark.parametrize("name", NAMES)
def test_few_elements_are_numpys(name: str) -> None:
    few = [x[: WIDE_FROM - 1] for x in operands(name)]
    found = getattr(tt, name)(*map(tt.from_numpy, few)).numpy()
    with np.errstate(all="ignore"):
        exact = EXACT[name](*[x.astype(np.longdouble) for x in few])
        np.testing.assert_allclose(found, exact.astype(np.float32), 4e-7, 1e-44)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "tan"])
def test_compiled_functions_have_the_same_bits(name: str) -> None:
    given = [tt.from_numpy(x) for x in operands(name)]
    function = getattr(tt, name)
    expected = (function(*given) * 2.0).numpy()
    found = tt.compile(lambda *x: function(*x) * 2.0, fullgraph=True)(*given).numpy()
    number = ~np.isnan(expected)
    np.testing.assert_array_equal(np.isnan(found), ~number)
    np.testing.assert_array_equal(found[number].view(np.uint32), expected[number].view(np.uint32))


def test_many_values_of_ndtr_are_the_nearest_numbers() -> None:
    from scipy.special import ndtr

    (x,) = operands("ndtr")
    x = x[~np.isnan(x)]
    found, exact = tt.special.ndtr(tt.from_numpy(x)).numpy(), ndtr(x.astype(np.float64))
    is_normal = exact >= np.finfo(np.float32).tiny
    error = np.abs(found.astype(np.float64) - exact) / np.spacing(exact.astype(np.float32))
    assert error[is_normal].max() < 0.52
    np.testing.assert_allclose(found[~is_normal], exact[~is_normal], atol=1e-38)
