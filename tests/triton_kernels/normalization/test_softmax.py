"""Softmax and log_softmax agree with the host: dimensions, dtypes, long rows, strides, infinities,
gradients.
"""

import math

import numpy as np
import pytest

import triten as tt
from triten.triton_kernels.normalization import softmax as module

FLOATS = [tt.float16, tt.bfloat16, tt.float32, tt.float64]
TOLERANCE = {tt.float16: 1e-3, tt.bfloat16: 8e-3, tt.float32: 3e-6, tt.float64: 1e-13}
FUNCTIONS = [tt.softmax, tt.log_softmax]
SHAPES = [(), (1,), (7,), (0, 3), (3, 0), (3, 5), (4, 1, 6), (2, 3, 4, 5), (3, 3000), (3000, 3)]


@pytest.fixture(params=["whole rows", "rows in blocks"])
def tile(request, monkeypatch):
    """Run both bodies of the programs, the second with small blocks."""
    if request.param == "rows in blocks":
        monkeypatch.setattr(module, "INTERPRETED_TILE", 4)
    return request.param


def both(function, a, dim):
    """Return the result and the gradient of its weighted sum, on the device and on the host."""
    weights = tt.from_numpy(
        np.random.default_rng(3).standard_normal(a.shape or (1,)).astype(a.dtype.np)
    ).view(a.shape)
    results = []
    for device in ("cuda", "cpu"):
        x = a.to(device).requires_grad_()
        y = function(x, dim)
        y.backward(weights.to(device))
        results.append((y.detach(), x.grad))
    return results


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: d.name)
def test_values_and_gradients(random, same, function, dtype):
    for shape in SHAPES:
        for dim in range(max(len(shape), 1)):
            (y, gradient), (expected, expected_gradient) = both(function, random(shape, dtype), dim)
            same(y, expected, TOLERANCE[dtype])
            same(gradient, expected_gradient, 8 * TOLERANCE[dtype])


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_rows_of_many_blocks(random, same, monkeypatch, function):
    for size, tile in ((70_001, module.INTERPRETED_TILE), (37, 4), (64, 8)):
        # Another shape each time, so that no earlier plan is found.
        monkeypatch.setattr(module, "INTERPRETED_TILE", tile)
        (y, gradient), (expected, expected_gradient) = both(function, random((2, size)), 1)
        same(y, expected, 3e-6)
        same(gradient, expected_gradient, 3e-5)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_any_strides(random, same, function):
    a = random((4, 6, 10))
    for view in (
        lambda t: t.permute(2, 0, 1),
        lambda t: t[:, ::2, 1::3],
        lambda t: t[:, :1].expand(4, 5, 10),
    ):
        for dim in range(3):
            same(function(view(a.to("cuda")), dim), function(view(a), dim), 3e-6)
    out = tt.empty(10, 6, 4, device="cuda").permute(2, 1, 0)
    name = "_" + function.__name__
    getattr(tt, name)(a.to("cuda"), 1, False, out=out)
    same(out, function(a, 1), 3e-6)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_more_dimensions_than_the_program_has(random, same, function):
    order = (9, 1, 8, 2, 7, 3, 6, 4, 5, 0)
    a = random((2, 1, 2, 2, 2, 3, 2, 1, 2, 2), tt.float64)
    same(function(a.to("cuda").permute(order), 3), function(a.permute(order), 3), 1e-13)


@pytest.mark.parametrize("size", [3, 11])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_infinities_and_nan(same, tile, function, size):
    inf, nan = math.inf, math.nan
    size += 100 * (tile == "whole rows")  # Plans are kept by shape.
    starts = [[1, 2, 3], [inf, 1, 2], [-inf, 1, 2], [-inf] * size, [inf] * 3, [nan, 1, 2], [-inf, -inf, nan]]
    rows = np.array([start + [0.5] * (size - len(start)) for start in starts], np.float32)
    a = tt.from_numpy(rows)
    same(function(a.to("cuda"), 1), function(a, 1), 3e-6)


def test_large_scores_do_not_overflow(same):
    a = tt.from_numpy(np.array([[1e4, 1e4, -1e4], [3e38, -3e38, 0]], np.float32))
    for function in FUNCTIONS:
        same(function(a.to("cuda"), 1), function(a, 1), 1e-7)


def test_float32_from_float16(random, same):
    a = random((3, 5), tt.float16)
    for function in FUNCTIONS:
        x = a.to("cuda")
        same(function(x, 1, dtype=tt.float32), function(a, 1, dtype=tt.float32), 1e-6)


def test_integers_are_refused():
    with pytest.raises(NotImplementedError, match="softmax_cuda"):
        tt.zeros(3, dtype=tt.int64, device="cuda").softmax(0)


def test_probabilities_are_rounded_as_quotients():
    """Compare with rounded quotients: the sum of two elements is the same in any order of additions."""
    smaller = np.random.default_rng(5).uniform(-60, 0, 20_000).astype(np.float32)
    rows = tt.from_numpy(np.stack([smaller, np.zeros_like(smaller)], 1)).to("cuda")
    shares = rows.exp().cpu().numpy()
    expected = shares / shares.sum(1, keepdims=True)
    off = np.abs(rows.softmax(1).cpu().numpy() - expected) / np.spacing(expected)
    assert off.max() <= 1
    assert np.count_nonzero(off) <= 1, "a quotient may lie within 2**-22 of the middle between two numbers"
