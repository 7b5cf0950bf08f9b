"""Special functions of many float32 elements agree with SciPy's in float64 to 1 ulp, edges included."""

import numpy as np
import pytest
import scipy.special

import triten as tt
from triten.cpu_fallback.elementwise.vector_passes import LONG
from triten.cpu_fallback.special.float32_functions import FUNCTIONS

LGAMMA = "lgamma"
CALLS = {
    "digamma": tt.digamma,
    "erfc": tt.erfc,
    "i0": tt.i0,
    "lgamma": tt.lgamma,
    "special_i0e": tt.special.i0e,
    "special_i1": tt.special.i1,
    "special_i1e": tt.special.i1e,
    "special_modified_bessel_i0": tt.special.modified_bessel_i0,
    "special_modified_bessel_i1": tt.special.modified_bessel_i1,
    "special_ndtr": tt.special.ndtr,
}


def arguments():
    magnitudes = np.geomspace(1e-44, 3e38, LONG)
    near = [center + np.linspace(-1e-5, 1e-5, 999) for center in (0, 1, 1.4616321, 2, -2.4570247)]
    whole = np.arange(-40, 41) / 2
    edges = [0.0, -0.0, np.inf, -np.inf, np.nan, 10.0542, 88.8, -1e7 - 0.5]
    parts = [
        magnitudes,
        -magnitudes,
        np.linspace(-12, 12, 4 * LONG),
        np.linspace(-110, 110, LONG),
        *near,
        whole,
        edges,
    ]
    return np.concatenate(parts).astype(np.float32)


def test_every_function_has_a_call():
    assert set(CALLS) == {*FUNCTIONS, LGAMMA}


@pytest.mark.parametrize("name", sorted(CALLS))
def test_the_last_place(name):
    a = arguments()
    exact = getattr(scipy.special, "gammaln" if name == LGAMMA else FUNCTIONS[name][1])
    with np.errstate(all="ignore"):
        wanted = exact(a.astype(np.float64))
        if name == LGAMMA:
            wanted[a == -np.inf] = np.inf
        rounded = wanted.astype(np.float32)
        found = CALLS[name](tt.from_numpy(a)).numpy()
        unit = np.spacing(np.abs(rounded)).astype(np.float64)
        off = np.abs(found.astype(np.float64) - wanted) / unit
    same = (found == rounded) | (np.isnan(found) & np.isnan(rounded))
    worst = np.argmax(np.where(same, 0, off))
    assert (same | (off < 0.8)).all(), (a[worst], found[worst], wanted[worst], off[worst])


def test_few_elements_and_many_agree():
    a = arguments()
    for call in CALLS.values():
        many = call(tt.from_numpy(a)).numpy()
        few = call(tt.from_numpy(a[-50:])).numpy()
        np.testing.assert_allclose(many[-50:], few, rtol=3e-7)
