"""Floors of quotients: those of exact arithmetic, with the edges of PyTorch's `floor_divide`, and of ``//``."""

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


INFINITE = [
    *((INF, 2.0, INF), (-INF, 2.0, -INF), (INF, -2.0, -INF), (-INF, -2.0, INF)),
    *((1.0, INF, 0.0), (-1.0, INF, -0.0), (1.0, -INF, -0.0), (-1.0, -INF, 0.0)),
    *((INF, INF, NAN), (NAN, INF, NAN), (5.0, 2.0, 2.0), (-5.0, 2.0, -3.0), (1.0, 0.0, INF)),
]


@pytest.mark.parametrize("dtype", [tt.float32, tt.float64, tt.bfloat16], ids=str)
def test_the_operator_follows_the_array_api_at_infinities(device, dtype):
    a, b, expected = (tt.tensor(column, dtype=dtype, device=device) for column in zip(*INFINITE, strict=True))
    in_place = a.clone()
    in_place //= b
    numbers = tt.stack([x // float(y) for x, y in zip(a, b, strict=True)])
    reflected = tt.stack([float(x) // y for x, y in zip(a, b, strict=True)])
    for got in (a // b, in_place, numbers, reflected, tt.compile(lambda x, y: x // y)(a, b)):
        assert got.dtype is dtype
        assert tt.equal(got.nan_to_num(7.5, 99.0, -99.0), expected.nan_to_num(7.5, 99.0, -99.0))
        assert tt.equal(got.signbit() & ~got.isnan(), expected.signbit() & ~expected.isnan())


def test_the_operator_of_integers_and_its_errors_are_as_they_were():
    x = tt.tensor([7, -7])
    assert (x // 2).tolist() == [3, -4] and (x // 2).dtype is tt.int64
    with pytest.raises(RuntimeError, match="can't be cast"):
        x //= 2.5
    with pytest.raises(RuntimeError, match="leaf Variable"):
        leaf = tt.ones(2, requires_grad=True)
        leaf //= 2
    with pytest.raises(RuntimeError):
        narrow = tt.ones(2)
        narrow //= tt.ones(3, 2)
