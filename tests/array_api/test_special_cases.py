"""Results that the standard asks for and PyTorch's operators do not give, on both devices; PyTorch's stay outside."""

import math

import pytest

import triten as tt
import triten.array_api as xp

inf, nan = math.inf, math.nan


def same(found, expected) -> bool:
    """Equality that tells zeros by their sign and NaN from numbers."""
    return len(found) == len(expected) and all(
        (math.isnan(a) and math.isnan(b)) or (a == b and math.copysign(1, a) == math.copysign(1, b))
        for a, b in zip(found, expected, strict=True)
    )


FLOORS = [  # dividend, divisor, the standard's quotient, PyTorch's
    (inf, 2.0, inf, nan),
    (inf, -2.0, -inf, nan),
    (-inf, 2.0, -inf, nan),
    (-inf, -2.0, inf, nan),
    (1.0, -inf, -0.0, -1.0),
    (-1.0, inf, -0.0, -1.0),
    (1.0, inf, 0.0, 0.0),
    (-1.0, -inf, 0.0, 0.0),
    (inf, inf, nan, nan),
    (0.0, 0.0, nan, nan),
    (-0.0, 3.0, -0.0, -0.0),
    (0.0, -3.0, -0.0, -0.0),
    (5.0, 0.0, inf, inf),
    (5.0, -0.0, -inf, -inf),
    (7.0, -2.0, -4.0, -4.0),
    (nan, 1.0, nan, nan),
]
REMAINDERS = [
    (-0.0, 3.0, 0.0, 0.0),
    (0.0, -3.0, -0.0, -0.0),
    (-4.0, 2.0, 0.0, 0.0),
    (4.0, -2.0, -0.0, -0.0),
    (1.0, -inf, -inf, -inf),
    (1.0, inf, 1.0, 1.0),
    (inf, 1.0, nan, nan),
    (5.0, 0.0, nan, nan),
    (7.0, -3.0, -2.0, -2.0),
]


@pytest.mark.parametrize("dtype", [xp.float32, xp.float64], ids=lambda d: d.name)
@pytest.mark.parametrize(
    ("name", "cases"),
    [("floor_divide", FLOORS), ("remainder", REMAINDERS)],
    ids=["floor_divide", "remainder"],
)
def test_division(name, cases, dtype, device: str) -> None:
    a, b = (xp.asarray([case[i] for case in cases], dtype=dtype, device=device) for i in (0, 1))
    assert same(getattr(xp, name)(a, b).tolist(), [case[2] for case in cases])
    assert same(getattr(tt, name)(a, b).tolist(), [case[3] for case in cases])
    if name == "remainder":
        assert same((a % b).tolist(), [case[2] for case in cases])
        a %= b
        assert same(a.tolist(), [case[2] for case in cases])


def test_sign(device: str) -> None:
    x = xp.asarray([-2.5, 0.0, 7.0, nan, -inf], device=device)
    assert same(xp.sign(x).tolist(), [-1.0, 0.0, 1.0, nan, -1.0])
    assert same(tt.sign(x).tolist(), [-1.0, 0.0, 1.0, 0.0, -1.0])
    z = xp.sign(xp.asarray([3 - 4j, 0j], device=device))
    assert tt.allclose(z.cpu(), tt.tensor([0.6 - 0.8j, 0j]))


def test_round_of_complex(device: str) -> None:
    x = xp.asarray([0.5 - 1.5j, 2.4 + 2.6j], device=device)
    assert xp.round(x).tolist() == [-2j, 2 + 3j]
    assert xp.round(xp.asarray([3], device=device)).tolist() == [3]


def test_square_of_complex_is_exact(device: str) -> None:
    assert xp.square(xp.asarray([-1 + 0j, 3j, 1 + 1j], device=device)).tolist() == [1 + 0j, -9 + 0j, 2j]


COMPLEX = [  # real, imaginary, and both of exp(x) - 1; None is any
    (inf, 0.0, inf, 0.0),
    (nan, 0.0, nan, 0.0),
    (-inf, inf, -1.0, None),
    (inf, inf, None, nan),
    (-inf, nan, -1.0, None),
    (1.0, inf, nan, nan),
    (0.0, 0.0, 0.0, 0.0),
    (-0.0, 0.0, 0.0, 0.0),
]


@pytest.mark.parametrize("dtype", [xp.float32, xp.float64], ids=lambda d: d.name)
def test_expm1_of_complex(dtype, device: str) -> None:
    for real, imaginary, *expected in COMPLEX:
        parts = (tt.tensor(each, dtype=dtype, device=device) for each in (real, imaginary))
        found = xp.expm1(tt.complex(*parts))
        for part, wanted in zip((found.real.item(), found.imag.item()), expected, strict=True):
            assert wanted is None or same([part], [wanted]), (real, imaginary)


def test_clip_keeps_the_dtype(device: str) -> None:
    x = xp.asarray([0, 100, 200], dtype=xp.uint8, device=device)
    for low, high in ((-5, 300), (None, 2**70)):
        assert xp.clip(x, low, high).tolist() == [0, 100, 200]
    bound = xp.asarray(150, dtype=xp.int16, device=device)
    assert xp.clip(x, max=bound).tolist() == [0, 100, 150] and xp.clip(x, max=bound).dtype is xp.uint8
    assert xp.clip(x).tolist() == x.tolist() and xp.clip(x) is not x
    y = xp.asarray([1.0, nan, 3.0], device=device)
    assert same(xp.clip(y, 2.0, 2.5).tolist(), [2.0, nan, 2.5])
    assert all(math.isnan(each) for each in xp.clip(y, nan).tolist())


def test_truths_of_any_dtype_are_bools(device: str) -> None:
    x = xp.asarray([1, 2], dtype=xp.uint8, device=device)
    assert xp.all(x).dtype is xp.any(x, axis=0).dtype is xp.any(x, axis=()).dtype is xp.bool
    # PyTorch's operator keeps uint8.
    assert tt.all(x).dtype is tt.uint8


def test_no_axis_reduces_nothing(device: str) -> None:
    x = xp.asarray([[1.0, -2.0]], device=device)
    for name in ("sum", "prod", "max", "min", "mean"):
        assert getattr(xp, name)(x, axis=()).tolist() == x.tolist()
    assert xp.var(x, axis=()).tolist() == [[0.0, 0.0]] and xp.count_nonzero(x, axis=()).tolist() == [[1, 1]]
    with pytest.raises(ValueError, match="names a dimension twice"):
        xp.sum(x, axis=(0, -2))
    with pytest.raises(IndexError, match="axis 2 is out of bounds for an array with 2 dimensions"):
        xp.sum(x, axis=2)
