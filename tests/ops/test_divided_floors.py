"""Floors of quotients of float32: those of exact arithmetic, with the edges of PyTorch's `floor_divide`."""

import math
from fractions import Fraction

import numpy as np
import pytest

import triten as tt

INF, NAN = float("inf"), float("nan")


@pytest.mark.parametrize("span", [1e-30, 1.0, 1e4, 3e8])
def test_floors_are_exact(rng, span):
    a = (rng.standard_normal(400) * span).astype(np.float32)
    b = rng.standard_normal(400).astype(np.float32)
    # Multiples, and numbers next to them, whose quotients lie next to whole numbers.
    a[:100] = b[:100] * rng.integers(-1000, 1000, 100).astype(np.float32)
    a[100:200] = np.nextafter(a[:100], np.float32(INF))
    expected = [
        np.float32(math.floor(Fraction(float(x)) / Fraction(float(y)))) for x, y in zip(a, b, strict=True)
    ]
    got = tt.floor_divide(tt.from_numpy(a), tt.from_numpy(b)).numpy()
    np.testing.assert_array_equal(got, np.array(expected))


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (1.0, 0.0, INF),
        (-1.0, 0.0, -INF),
        (0.0, 0.0, NAN),
        (INF, 2.0, NAN),
        (1.0, INF, 0.0),
        (-1.0, INF, -1.0),
        (1.0, -INF, -1.0),
        (NAN, 1.0, NAN),
        (1.0, NAN, NAN),
        (-0.0, 2.0, -0.0),
        (0.0, -2.0, -0.0),
        (-1e-45, 2.0, -1.0),
    ],
)
def test_edges(a, b, expected):
    for shape in ((), (5,)):
        x, y = (tt.full(shape, value, dtype=tt.float32) for value in (a, b))
        got = tt.floor_divide(x, y).numpy()
        np.testing.assert_array_equal(got, np.full(shape, expected, np.float32))
        assert (np.signbit(got) == np.signbit(np.float32(expected))).all() or math.isnan(expected)
