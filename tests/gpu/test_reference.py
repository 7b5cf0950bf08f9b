"""The tolerances detect wrong results, and each bound follows from the dtype and the operation."""

import numpy as np
import pytest
from gpu_check.reference import bound, disagreement, gamma, gradient_bound
from gpu_check.samples import MATH, RANDOM, ROUNDED, Sample

import triten as tt

F32 = np.array([1.0, -2.0, np.nan, np.inf, 0.0, -0.0])


def test_equal_arrays_agree_and_nan_equals_nan() -> None:
    assert disagreement(F32.astype(np.float32), F32, None, tt.float32) is None


@pytest.mark.parametrize(
    ("place", "value"), [(0, 1.0001), (0, np.nan), (2, 0.0), (3, -np.inf), (3, 3e38), (1, np.inf)]
)
def test_a_wrong_element_is_found(place: int, value: float) -> None:
    got = F32.astype(np.float32)
    got[place] = value
    told = disagreement(got, F32, 1e-5, tt.float32)
    assert told is not None
    assert f"1 of 6 elements are wrong, first [{place}]" in told


def test_signs_of_zeros_count_where_asked() -> None:
    got = F32.astype(np.float32)
    got[4] = -0.0
    assert disagreement(got, F32, None, tt.float32) is None
    assert disagreement(got, F32, None, tt.float32, zeros=True) is not None


def test_a_value_beyond_the_dtype_is_expected_to_be_infinite() -> None:
    assert disagreement(np.array([np.inf], np.float16), np.array([1e6]), 1.0, tt.float16) is None
    assert disagreement(np.array([65504], np.float16), np.array([1e6]), 1.0, tt.float16) is not None


def test_shapes_and_integers_and_bools() -> None:
    assert (
        disagreement(np.zeros((2, 1)), np.zeros((1, 2)), None, tt.float64) == "shape (2, 1), expected (1, 2)"
    )
    assert disagreement(np.array([1, 2]), np.array([1, 3]), None, tt.int64) is not None
    written = np.array([0, 1, 255], np.uint8).view(bool)
    assert "not written" in (disagreement(written, np.array([False, True, True]), None, tt.bool) or "")


def test_the_bound_follows_from_the_dtype_and_the_terms() -> None:
    one = np.array([1.0])
    once, many = Sample("f", ()), Sample("f", (), roundings=3)

    def at(sample: Sample, dtype: tt.dtype, terms: int = 1) -> float:
        return float(np.asarray(bound(sample, dtype, one, None, terms, 1.0))[0])

    assert at(once, tt.float64) < at(once, tt.float32) < at(once, tt.float16) < at(once, tt.bfloat16)
    assert at(once, tt.bfloat16) < 2.0**-6
    assert at(once, tt.float32) < 2.0**-19
    assert at(many, tt.float32) > at(once, tt.float32)
    assert at(once, tt.float32, 10_000) > at(once, tt.float32, 100) > at(once, tt.float32)
    assert at(once, tt.float32, 64) < 64 * 2.0**-11, "sums in tf32 or float16 must not pass for float32"
    assert gamma(1) == 1
    assert gamma(10**6) == 8 * 10**3
    assert at(Sample("f", (), kind=ROUNDED), tt.float32) < 2.0**-23
    assert at(Sample("f", (), kind=RANDOM), tt.float32) == 0.0
    assert at(Sample("f", (), kind=RANDOM, ulps=2), tt.float32) == 2.0**-22
    assert gradient_bound(once, tt.float32, one, 4) < gradient_bound(once, tt.bfloat16, one, 4) < 0.1
    assert once.kind == MATH


def test_an_element_that_cancels_is_judged_by_what_cancelled() -> None:
    small = np.array([1e-4])
    whole = np.asarray(bound(Sample("f", (), roundings=2), tt.float32, small, None, 1, 2.0))
    alone = np.asarray(bound(Sample("f", ()), tt.float32, small, None, 1, 2.0))
    assert whole[0] > 1000 * alone[0]
