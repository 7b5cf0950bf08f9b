"""Promotion: by the standard's table in the namespace, by PyTorch's ranks outside of it."""

import itertools
import operator

import numpy as np
import pytest

import triten as tt
import triten.array_api as xp
from triten.array_api.promotion import DTYPES, PROMOTED

INTEGERS = [dtype for dtype in DTYPES if dtype.is_integral]
OPERATORS = (
    *(operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod, operator.pow),
    *(operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift),
)


def expected(a: tt.dtype, b: tt.dtype) -> tt.dtype | None:
    """Return the smallest dtype of a pair's family that holds both, found by its limits."""
    if a is b:
        return a
    if a.is_integral and b.is_integral:
        low = min(tt.iinfo(a).min, tt.iinfo(b).min)
        high = max(tt.iinfo(a).max, tt.iinfo(b).max)
        holding = [d for d in INTEGERS if tt.iinfo(d).min <= low and tt.iinfo(d).max >= high]
        return min(holding, key=lambda d: (d.itemsize, d.is_signed), default=None)
    if not all(d.is_floating_point or d.is_complex for d in (a, b)):
        return None
    widest = max(a.to_real().itemsize, b.to_real().itemsize)
    real = xp.float64 if widest == 8 else xp.float32
    return real.to_complex() if a.is_complex or b.is_complex else real


@pytest.mark.parametrize("a", DTYPES, ids=lambda d: d.name)
def test_table(a: tt.dtype) -> None:
    for b in DTYPES:
        assert PROMOTED.get((a, b)) is expected(a, b)
        if expected(a, b) is None:
            with pytest.raises(TypeError, match="do not promote"):
                xp.result_type(a, b)
        else:
            assert xp.result_type(a, b) is xp.result_type(xp.ones((), dtype=b), a) is expected(a, b)
            assert xp.can_cast(a, b) == (expected(a, b) is b)


def test_arrays_without_dimensions_count(device: str) -> None:
    vector = xp.ones(2, dtype=xp.int8, device=device)
    number = xp.asarray(1, dtype=xp.int16, device=device)
    assert xp.add(vector, number).dtype is xp.add(number, vector).dtype is xp.int16
    assert xp.where(vector == 1, vector, number).dtype is xp.int16
    assert xp.maximum(vector, number).dtype is xp.concat([vector, number[None]]).dtype is xp.int16
    # PyTorch's rule, for PyTorch's function and for operators.
    assert tt.add(vector, number).dtype is (vector + number).dtype is xp.int8


def test_python_numbers(device: str) -> None:
    for dtype in DTYPES:
        x = xp.ones(2, dtype=dtype, device=device)
        number = True if dtype is xp.bool else 1 if dtype.is_integral else 1.0
        assert xp.equal(x, number).tolist() == xp.equal(number, x).tolist() == [True, True]
        if dtype is not xp.bool:
            assert xp.add(x, 1).dtype is xp.add(1, x).dtype is xp.multiply(number, x).dtype is dtype
        if dtype.is_floating_point:
            assert xp.subtract(x, 1j).dtype is xp.subtract(1j, x).dtype is dtype.to_complex()
            assert xp.atan2(x, 1).dtype is xp.hypot(1.0, x).dtype is dtype
    big = xp.asarray([1], dtype=xp.uint64, device=device)
    assert xp.add(big, 2**63).tolist() == xp.add(2**63, big).tolist() == [2**63 + 1]
    assert xp.add(xp.ones(2, device=device), np.float64(1.5)).dtype is xp.float32
    assert xp.add(np.int64(1), xp.ones(2, dtype=xp.int8, device=device)).dtype is xp.int8
    assert xp.result_type(xp.float32, 1j) is xp.complex64 and xp.result_type(xp.int8, 1) is xp.int8
    for dtype, number in ((xp.int8, 1.0), (xp.bool, 1), (xp.int8, True)):
        with pytest.raises(TypeError, match="a Python"):
            xp.result_type(dtype, number)


def test_no_array() -> None:
    with pytest.raises(TypeError, match="at least one array, but got int and float"):
        xp.add(1, 2.0)
    with pytest.raises(TypeError, match="expected an array or a Python number, but got str"):
        xp.add(xp.ones(2), "1")
    with pytest.raises(ValueError, match="at least one array or dtype"):
        xp.result_type(1, 2)


@pytest.mark.parametrize("function", OPERATORS, ids=lambda f: f.__name__)
def test_unsigned_integers_promote_outside_too(function, device: str) -> None:
    values, others = [1, 2, 3], [1, 2, 1]
    wanted = [function(a, b) for a, b in zip(values, others, strict=True)]
    unsigned = (xp.uint16, xp.uint32, xp.uint64)
    pairs = [(a, b) for a, b in itertools.product(INTEGERS, INTEGERS) if a in unsigned or b in unsigned]
    for a, b in pairs if device == "cpu" else pairs[::5]:
        x, y = tt.tensor(values, dtype=a, device=device), tt.tensor(others, dtype=b, device=device)
        if expected(a, b) is None:
            with pytest.raises(RuntimeError, match="Promotion for uint16, uint32, uint64 types"):
                function(x, y)
        else:
            out = function(x, y)
            assert out.dtype is expected(a, b) and out.tolist() == wanted


def test_what_pytorch_refuses_stays_refused() -> None:
    x = tt.ones(2, dtype=tt.uint16)
    for other in (tt.ones(2, dtype=tt.bool), tt.ones(2, dtype=tt.complex64)):
        with pytest.raises(RuntimeError, match="Promotion for uint16, uint32, uint64 types"):
            x + other


def test_sums_of_unsigned_integers(device: str) -> None:
    x = xp.asarray([200, 100], dtype=xp.uint8, device=device)
    assert xp.sum(x).dtype is xp.prod(x).dtype is xp.cumulative_sum(x).dtype is xp.uint64
    assert int(xp.sum(x)) == 300 and int(xp.prod(x)) == 20000
    assert xp.sum(x[None, :]).dtype is xp.uint64 and xp.linalg.trace(x[None, :]).dtype is xp.uint64
    assert xp.sum(xp.ones(2, dtype=xp.int8, device=device)).dtype is xp.int64
    # PyTorch's operator gives int64.
    assert x.sum().dtype is tt.int64
