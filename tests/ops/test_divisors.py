"""Greatest common divisors and least common multiples of every integer dtype."""

import math

import numpy as np
import pytest

import triten as tt

INTEGERS = ["int8", "int16", "int32", "int64", "uint8"]


def pairs(dtype, rng):
    """Return random numbers of every size, and each pair of the dtype's edge values."""
    bounds = np.iinfo(dtype)
    edges = np.array([bounds.min, bounds.max, 0, 1, 6, bounds.min + 1], dtype)
    values = rng.integers(bounds.min, bounds.max, (2, 40), dtype, endpoint=True)
    values //= 2 ** rng.integers(0, bounds.bits - 1, values.shape).astype(dtype)
    return np.concatenate([values, [np.repeat(edges, 6), np.tile(edges, 6)]], axis=1)


def wrapped(values, dtype):
    return np.array([v % 2 ** (8 * np.dtype(dtype).itemsize) for v in values], np.uint64).astype(dtype)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_divisors_and_multiples(rng, device, dtype):
    a, b = pairs(dtype, rng)
    x, y = tt.from_numpy(a).to(device), tt.from_numpy(b).to(device)
    divisors = [math.gcd(int(p), int(q)) for p, q in zip(a, b, strict=True)]
    np.testing.assert_array_equal(tt.gcd(x, y).cpu().numpy(), wrapped(divisors, dtype))
    multiples = wrapped([math.lcm(int(p), int(q)) for p, q in zip(a, b, strict=True)], dtype)
    if dtype in ("int32", "int64"):
        multiples = np.abs(multiples)
    np.testing.assert_array_equal(tt.lcm(x, y).cpu().numpy(), multiples)


def test_forms_strides_and_promotion(device):
    x = tt.tensor([[12, 18, 5], [0, 7, 8]], device=device)
    y = tt.tensor([[8, 0], [27, 14], [10, 12]], dtype=tt.int8, device=device).t()
    assert tt.gcd(x, y).tolist() == [[4, 9, 5], [0, 7, 4]] and tt.gcd(x, y).dtype is tt.int64
    assert x.lcm(y[:1]).tolist() == [[24, 54, 10], [0, 189, 40]]
    assert x.clone().gcd_(y).tolist() == tt.gcd(x, y).tolist()
    assert x.clone().lcm_(y).tolist() == tt.lcm(x, y).tolist()
    out = tt.empty(2, 3, device=device)
    assert tt.gcd(x, y, out=out) is out and out.tolist() == [[4.0, 9.0, 5.0], [0.0, 7.0, 4.0]]
    assert tt.gcd(tt.tensor(12, device=device), tt.tensor(18, device=device)).item() == 6
    assert tt.lcm(x[:0], y[:0]).shape == (0, 3)


@pytest.mark.parametrize("name", ["gcd", "lcm"])
@pytest.mark.parametrize("dtype", [tt.bool, tt.float32, tt.complex64])
def test_only_of_integers(device, name, dtype):
    x = tt.ones(2, dtype=dtype, device=device)
    with pytest.raises(NotImplementedError, match=f'"{name}_{device}" not implemented for'):
        getattr(tt, name)(x, x)
