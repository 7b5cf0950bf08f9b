"""Reductions of 16-bit floats by words agree with float64, with NaN and infinities in every half and block."""

from __future__ import annotations

import math

import numpy as np
import pytest

import triten as tt
from triten.cpu_fallback.reduction import half_words

SEED = 20
SHAPES = [(1 << 13,), (67, 130), (5, 7, 258), (2, 9000), (1, 1 << 12), (4099, 2), (700, 3, 6)]
FUNCTIONS = {"sum": np.sum, "mean": np.mean, "amax": np.max, "amin": np.min}


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use blocks of a few hundred words, shared among threads."""
    monkeypatch.setattr(half_words, "WORDS", 300)
    monkeypatch.setattr(half_words, "SHARED_WORDS", 300)
    monkeypatch.setattr(half_words, "HANDED_OVER", 1)


def sample(shape: tuple[int, ...], dtype: str) -> tuple[tt.Tensor, np.ndarray]:
    x = tt.from_numpy(np.random.default_rng(SEED).standard_normal(shape)).to(getattr(tt, dtype))
    return x, x.double().numpy()


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.usefixtures("small_blocks")
def test_against_float64(shape: tuple[int, ...], dtype: str) -> None:
    x, wide = sample(shape, dtype)
    tolerance = {"bfloat16": 2**-8, "float16": 2**-10}[dtype]
    leading = [tuple(range(d)) for d in range(1, len(shape))]
    for dims in [tuple(range(d, len(shape))) for d in range(len(shape))] + leading:
        for name, reference in FUNCTIONS.items():
            got = getattr(x, name)(dims)
            want = reference(wide, axis=dims)
            np.testing.assert_allclose(got.double().numpy(), want, tolerance, 1e-4, err_msg=f"{name} {dims}")
        exact = tt.sum(x, dims, dtype=tt.float32)
        np.testing.assert_allclose(exact.numpy(), wide.sum(dims), 1e-5, 1e-3, err_msg=f"seed {SEED}")


def test_words_are_taken_where_lines_are_even_and_lie_side_by_side() -> None:
    def applies(x: tt.Tensor, dims: tuple[int, ...]) -> bool:
        return half_words.over_half_words(x._spec, dims, np.add) is not None

    x = tt.zeros(64, 128, dtype=tt.bfloat16)
    assert applies(x, (1,)) and applies(x, (0, 1)) and applies(x.half(), (1,))
    assert applies(x, (0,)) and not applies(x.t(), (1,)) and not applies(x[:, :127], (1,))
    assert not applies(tt.zeros(128, 63, dtype=tt.bfloat16), (1,)) and not applies(x.float(), (1,))


def test_an_odd_storage_offset() -> None:
    x, wide = sample((8193,), "bfloat16")
    assert x[1:].float().sum().item() == pytest.approx(wide[1:].sum(), abs=1e-3)
    np.testing.assert_allclose(tt.sum(x[1:], dtype=tt.float32).item(), wide[1:].sum(), atol=1e-3)


def test_sums_of_subnormal_halves_are_exact() -> None:
    steps = np.random.default_rng(SEED).integers(-900, 900, 1 << 13)
    x = tt.from_numpy(np.ldexp(steps.astype(np.float64), -24)).half()
    assert tt.sum(x, dtype=tt.float32).item() == math.ldexp(int(steps.sum()), -24)
    assert x.amax().item() == math.ldexp(int(steps.max()), -24)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("value", [math.nan, -math.nan, math.inf, -math.inf])
@pytest.mark.usefixtures("small_blocks")
def test_what_is_no_number_reaches_its_line_alone(value: float, dtype: str) -> None:
    for place in (0, 1, 898, 899, 900, 901, 2999):
        x, wide = sample((3, 3000), dtype)
        x[1, place] = value
        if math.isnan(value):  # the sign, which a conversion may have lost
            x.view(tt.int16)[1, place] |= -(1 << 15) if math.copysign(1, value) < 0 else 0
        wide[1, place] = value
        columns, of_columns = x.view(1500, 6), wide.reshape(1500, 6)
        for name, reference in FUNCTIONS.items():
            got, want = getattr(x, name)(1).double().numpy(), reference(wide, axis=1)
            np.testing.assert_allclose(got, want, 2**-7, 0.2, err_msg=f"{name} {place}")
            got, want = getattr(columns, name)(0).double().numpy(), reference(of_columns, axis=0)
            np.testing.assert_allclose(got, want, 2**-7, 0.2, err_msg=f"{name} {place}")


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.usefixtures("small_blocks")
def test_results_are_those_of_one_thread(dtype: str) -> None:
    x, _ = sample((31, 4006), dtype)
    before, found = tt.get_num_threads(), []
    try:
        for threads in (1, 3):
            tt.set_num_threads(threads)
            found.append([tt.sum(x, dims, dtype=tt.float32).numpy() for dims in ((1,), (0, 1), (0,))])
    finally:
        tt.set_num_threads(before)
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)
