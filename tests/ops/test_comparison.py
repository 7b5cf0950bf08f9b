"""Closeness, equality and predicates."""

import math

import numpy as np
import pytest

import triten as tt

X = [1.0, math.nan, math.inf, -math.inf, 1e10]


def test_isclose(device: str) -> None:
    x = tt.tensor(X, device=device)
    y = tt.tensor([1.000005, math.nan, math.inf, math.inf, 1.000005e10], device=device)
    assert tt.isclose(x, y).tolist() == [True, False, True, False, True]
    assert tt.isclose(x, y, equal_nan=True).tolist() == [True, True, True, False, True]
    assert tt.isclose(x, y, rtol=0.0, atol=0.0).tolist() == [False, False, True, False, False]
    assert tt.isclose(tt.tensor([100]), tt.tensor([101]), rtol=0.01).tolist() == [True]
    assert tt.isclose(tt.tensor([True]), tt.tensor([False])).tolist() == [False]


def test_allclose_and_equal(device: str) -> None:
    x = tt.tensor(X, device=device)
    assert tt.allclose(x, x, equal_nan=True) is True
    assert x.allclose(x) is False
    assert tt.equal(x[2:], x[2:].clone()) is True
    assert tt.equal(x, x) is False
    assert tt.equal(x[2:], x[2:4]) is False
    assert tt.equal(tt.ones(0, device=device), tt.ones(0, device=device)) is True


def test_infinities(device: str) -> None:
    x = tt.tensor(X, device=device)
    assert tt.isposinf(x).tolist() == [False, False, True, False, False]
    assert tt.isneginf(x).tolist() == [False, False, False, True, False]
    assert tt.isposinf(tt.ones(2, dtype=tt.int64)).tolist() == [False, False]
    out = tt.empty(0, dtype=tt.bool, device=device)
    assert tt.isposinf(x, out=out) is out
    assert out.tolist() == [False, False, True, False, False]


def test_isreal() -> None:
    assert tt.isreal(tt.tensor([1 + 1j, 2 + 0j])).tolist() == [False, True]
    assert tt.isreal(tt.ones(2)).tolist() == [True, True]


def test_refusals() -> None:
    x = tt.ones(2)
    with pytest.raises(RuntimeError, match="Float did not match Double"):
        tt.isclose(x, x.double())
    with pytest.raises(RuntimeError, match="rtol must be greater"):
        tt.isclose(x, x, rtol=-1.0)
    with pytest.raises(RuntimeError, match="atol must be greater"):
        tt.allclose(x, x, atol=-1.0)
    with pytest.raises(RuntimeError, match="does not support complex"):
        tt.isneginf(tt.ones(1, dtype=tt.complex64))


@pytest.mark.parametrize("name", ["bitwise_xor", "eq", "ge", "gt", "le", "logical_xor", "lt", "ne"])
def test_every_byte_but_zero_is_true(name: str) -> None:
    a, b = np.divmod(np.arange(35), 7)
    (x, y), (p, q) = [
        tuple(tt.tensor(v.astype(np.uint8)).view(tt.bool) for v in (a * k, b * k)) for k in (1, 60)
    ]
    reference = getattr(np, NUMPY_NAMES.get(name, name))
    truth, with_true = (reference(a != 0, c).tolist() for c in (b != 0, True))
    function = getattr(tt, name)
    for left, right in ((x, y), (p, q), (x, q)):
        assert function(left, right[6]).tolist() == function(left, right[6:7]).tolist() == with_true
        assert function(left.view(5, 7)[::2], right[6:7]).flatten().tolist() == [
            *with_true[:7],
            *with_true[14:21],
            *with_true[28:],
        ]
        assert function(left, right).tolist() == truth
        assert function(left, right, out=tt.empty(35, dtype=tt.bool)).tolist() == truth
        assert getattr(left.clone(), f"{name}_")(right).tolist() == truth
        assert function(left[::2], right[::2]).tolist() == truth[::2]


NUMPY_NAMES = {
    "eq": "equal",
    "ge": "greater_equal",
    "gt": "greater",
    "le": "less_equal",
    "lt": "less",
    "ne": "not_equal",
}
