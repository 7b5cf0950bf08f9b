"""Vectorized functions agree with NumPy's own, element by element."""

import numpy as np
import pytest

import triten as tt
from triten.cpu_fallback.elementwise.vector_passes import LONG, PASSES

EDGES = [0.0, -0.0, 1.0, -1.0, 2.5, -7.0, np.inf, -np.inf, np.nan, 1e-40, -1e-45, 1e30, -1e38, 2.0**30 + 3]
UNARY = {"logical_not", "sgn", "sign"}
ROUNDED = {"hypot": 1, "logaddexp": 6, "logaddexp2": 6}
"""Functions that may round otherwise, and by how many units in the last place of the larger operand or the result."""


def operands(dtype):
    random = np.random.default_rng(0)
    a, b = (x.ravel() for x in np.meshgrid(np.array(EDGES, dtype), np.array(EDGES, dtype)))
    spread = random.standard_normal(LONG) * 10 ** random.uniform(-6, 6, LONG)
    whole = random.integers(-20, 20, LONG)
    near = random.standard_normal(LONG) * 9
    a = np.concatenate([a, spread, whole, near, near]).astype(dtype)
    b = np.concatenate([b, near, whole[::-1], spread, np.full(LONG, 2.5)]).astype(dtype)
    return a, b


def expected(name, a, b):
    with np.errstate(all="ignore"):
        if name in ("sgn", "sign"):
            return np.where(np.isnan(a), 0, np.sign(a)).astype(a.dtype)
        if name == "logical_not":
            return np.logical_not(a)
        return getattr(np, name)(a, b)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", sorted(PASSES))
def test_passes_give_what_numpy_gives(name, dtype):
    a, b = operands(dtype)
    inputs = (a,) if name in UNARY else (a, b)
    found = getattr(tt, name)(*map(tt.from_numpy, inputs)).numpy()
    wanted = expected(name, a, b)
    assert found.dtype == wanted.dtype
    if name in ROUNDED and dtype is np.float32:
        with np.errstate(all="ignore"):
            unit = np.spacing(np.maximum(np.maximum(np.abs(a), np.abs(b)), np.abs(wanted)))
            near = np.abs(found.astype(np.float64) - wanted) <= ROUNDED[name] * unit.astype(np.float64)
        assert (near | (found == wanted) | (np.isnan(found) & np.isnan(wanted))).all()
    else:
        np.testing.assert_array_equal(found, wanted)
        if dtype == found.dtype:
            numbers = ~np.isnan(wanted)
            np.testing.assert_array_equal(np.signbit(found[numbers]), np.signbit(wanted[numbers]))


@pytest.mark.parametrize("number", [2.5, 0.0, -0.0, np.nan, np.inf])
@pytest.mark.parametrize("name", ["copysign", "fmax", "fmin", "maximum", "minimum", "nextafter", "remainder"])
def test_a_number_beside_many_elements(name, number):
    a, _ = operands(np.float32)
    a = np.concatenate([a, a])[: (1 << 15) + 7]
    one = np.array(number, np.float32)
    for first, second in ((a, one), (one, a)):
        found = getattr(tt, name)(tt.from_numpy(first), tt.from_numpy(second)).numpy()
        wanted = expected(name, *np.broadcast_arrays(first, second))
        np.testing.assert_array_equal(found, wanted)


def test_in_place_beside_a_number():
    a, _ = operands(np.float32)
    a = np.concatenate([a, a])
    t = tt.from_numpy(a.copy())
    assert tt.clamp(t, min=tt.tensor(0.5)).numpy().tobytes() == np.maximum(a, np.float32(0.5)).tobytes()
    t.clamp_(min=tt.tensor(0.5))
    np.testing.assert_array_equal(t.numpy(), np.maximum(a, np.float32(0.5)))


def test_bounds_that_are_arrays():
    a, b = operands(np.float32)
    low, high = np.fmin(b, 1), np.fmax(b, -1)
    t = tt.from_numpy(a.copy())
    wanted = np.minimum(np.maximum(a, low), high)
    np.testing.assert_array_equal(tt.clamp(t, tt.from_numpy(low), tt.from_numpy(high)).numpy(), wanted)
    # A bound may be what is written to.
    t.clamp_(tt.from_numpy(low), t)
    np.testing.assert_array_equal(t.numpy(), np.minimum(np.maximum(a, low), a))
