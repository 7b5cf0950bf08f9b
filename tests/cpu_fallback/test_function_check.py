"""Functions and reductions as instructions are bitwise identical to those of NumPy and eager kernels."""

import math
from typing import Any

import numpy as np
import pytest

from triten.cpu_fallback import function_check
from triten.cpu_fallback.reduction.reduction_source import REDUCTIONS, rows_of
from triten.runtime.cpu import object_code
from triten.runtime.cpu.elementary_functions import FUNCTIONS, RANGED
from triten.tests.compiled_code import needs_llvm

pytestmark = needs_llvm


def has_all_bits() -> bool:
    """Return True if this machine's NumPy and BLAS compute every function as the compiled loops do."""
    return all(map(function_check.has_bits_of_eager, (*FUNCTIONS, *REDUCTIONS)))


needs_all_bits = pytest.mark.skipif(
    object_code.target() is None or not has_all_bits(), reason="NumPy or BLAS compute in other ways here"
)


def stratified() -> Any:
    """Return numbers of every exponent and sign, with the ends of the mantissas and random ones between."""
    rng = np.random.default_rng(0)
    heads = np.arange(512, dtype=np.uint32) << 23
    ends = np.array(
        [0, 1, 2, 0x3FFFFF, 0x400000, 0x7FFFFE, 0x7FFFFF, 0x3504F2, 0x3504F3, 0x3504F4], np.uint32
    )
    some = rng.integers(0, 1 << 23, (512, 500), np.uint32)
    words = np.concatenate([(heads[:, None] | ends).ravel(), (heads[:, None] | some).ravel()])
    return words.astype(np.uint32).view(np.float32)


@needs_all_bits
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_have_the_bits_of_numpy(name: str) -> None:
    given = stratified()
    with np.errstate(all="ignore"):
        wanted = getattr(np, name)(given)
    assert function_check.same_bits(function_check.computed(name, given), wanted)


@pytest.mark.parametrize("name", RANGED)
def test_functions_of_a_range_have_the_bits_of_numpy(name: str) -> None:
    if not function_check.has_bits_of_eager(name):
        # NumPy's algorithm is known for x86-64 vectors with fused multiply-add: there a difference is our
        # fault.
        assert not np._core._multiarray_umath.__cpu_features__.get("FMA3")
        pytest.skip("NumPy computes in another way here")
    given = stratified()
    given = given[~(np.abs(given) > np.float32(RANGED[name][1]))]
    turns = np.arange(0, 70_000, dtype=np.float64) * (np.pi / 4)
    given = np.concatenate([given, turns.astype(np.float32), -turns.astype(np.float32)])
    with np.errstate(all="ignore"):
        wanted = getattr(np, name)(given)
    assert function_check.same_bits(function_check.computed(name, given), wanted)


@needs_all_bits
@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("n", [1, 7, 64, 95, 513, 1024, 1025, 20000])
def test_reductions_have_the_bits_of_eager_kernels(name: str, n: int) -> None:
    a, b = np.random.default_rng(n).standard_normal((2, 5, n), np.float32)
    a[1], a[2], a[3, n // 2] = -0.0, -math.inf, math.nan
    given = (a, b)[: rows_of(name)]
    found = function_check.reduction(name, function_check.dot_width())(*given)
    with np.errstate(all="ignore"):
        wanted = function_check.EAGER[name](*given)
    rounded = function_check.rounded
    np.testing.assert_array_equal(rounded(name, found), rounded(name, wanted))


@pytest.mark.parametrize("name", ["maximum", "minimum"])
@pytest.mark.parametrize("n", [3, 70])
def test_extremes_are_the_first_of_equals(name: str, n: int) -> None:
    rng = np.random.default_rng(0)
    a = rng.choice(np.array([0.0, -0.0, -1.0 if name == "maximum" else 1.0], np.float32), (200, n))
    places = a.argmax(1) if name == "maximum" else a.argmin(1)
    found = function_check.reduction(name, 16)(a)
    assert (np.signbit(found) == np.signbit(a[np.arange(200), places])).all()
