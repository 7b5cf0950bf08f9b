"""The zeta function of one integer order agrees with Cephes' to a few ulps, edges included."""

import numpy as np
import pytest
import scipy.special

from triten.cpu_fallback.special import special_math


@pytest.mark.parametrize("order", range(2, special_math.HIGHEST_ORDER + 2))
@pytest.mark.parametrize("low, high", [(1e-3, 1.0), (0.5, 5.0), (5.0, 1e3), (1e3, 1e10)])
def test_it_is_the_series(rng, order, low, high):
    q = rng.uniform(low, high, special_math.SERIES_FROM)
    got = special_math.zeta_of_order(order, q)
    expected = scipy.special.zeta(float(order), q)
    np.testing.assert_allclose(got, expected, rtol=2e-15)


def test_poles_and_numbers_below_zero_are_as_in_the_general_function():
    q = np.linspace(-5.25, 3.0, special_math.SERIES_FROM)
    q[:6] = [0.0, -0.0, -3.0, np.inf, -np.inf, np.nan]
    q[6] = 1e20
    with np.errstate(all="ignore"):
        got = special_math.zeta_of_order(3, q)
        expected = special_math.zeta(np.array(3.0), q)
    np.testing.assert_allclose(got, expected, rtol=1e-14)
