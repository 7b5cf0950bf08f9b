"""Fused multiply-add of arrays, beside exact fractions."""

from fractions import Fraction

import numpy as np
import pytest

from triten.cpu_fallback.random.fused_multiply_add import fma32, fma64


def test_float32_is_rounded_once_at_the_middle_of_two_numbers() -> None:
    unit = 2.0**-23
    # The product is a bit less, or more, than half a unit, which float64 does not tell from it.
    a = np.array([1 + unit, 1 + unit, -1 - unit], np.float32)
    b = np.array([(1 - unit) / 2 * unit, unit / 2, (1 - unit) / 2 * unit], np.float32)
    c = np.array([1 + unit, 1.0, 1 + 2 * unit], np.float32)
    assert fma32(a, b, c).tolist() == [1 + unit, 1 + unit, 1 + 2 * unit]


@pytest.mark.parametrize("scale", [1.0, 2.0**-30, 2.0**60])
def test_float64_is_rounded_once(scale: float) -> None:
    rng = np.random.default_rng(3)
    a = np.concatenate((rng.standard_normal(500), 1 + 2.0**-52 * np.arange(-20, 20)))
    for b, c in ((0.7, 0.3), (-1.1, 1.0), (1 - 2.0**-53, -1.0), (3.0, 2.0**-54), (2.0**-53, 1.0)):
        expected = [float(Fraction(x) * Fraction(b) + Fraction(c * scale)) for x in a.tolist()]
        assert fma64(a, b, c * scale).tolist() == expected


def test_float64_out_of_range_is_infinite() -> None:
    with np.errstate(all="ignore"):
        assert fma64(np.array([1e308, -1e308]), 1e10, 1.0).tolist() == [np.inf, -np.inf]
