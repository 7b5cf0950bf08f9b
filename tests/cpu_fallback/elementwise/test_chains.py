"""Activations as chains of NumPy calls: edge values, small and blocked, with parameters that vary by call."""

from __future__ import annotations

import numpy as np
import pytest

import triten as tt

F = tt.nn.functional
EDGES = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 0.5, -0.5, 5e37, -5e37, 20.5, 2.0, -2.0]


def _elu(x, alpha=1.0, scale=1.0, slope=1.0):
    return np.where(x < 0, np.expm1(np.minimum(x, 0) * slope) * (alpha * scale), x * scale)


CASES = {
    "leaky_relu 0.01": (lambda x: F.leaky_relu(x), lambda x: np.where(x > 0, x, x * 0.01)),
    "leaky_relu 0": (lambda x: F.leaky_relu(x, 0.0), lambda x: np.where(x > 0, x, x * 0.0)),
    "leaky_relu -0": (lambda x: F.leaky_relu(x, -0.0), lambda x: np.where(x > 0, x, x * -0.0)),
    "leaky_relu 3": (lambda x: F.leaky_relu(x, 3.0), lambda x: np.where(x > 0, x, x * 3.0)),
    "leaky_relu -2": (lambda x: F.leaky_relu(x, -2.0), lambda x: np.where(x > 0, x, x * -2.0)),
    "hardshrink": (lambda x: F.hardshrink(x), lambda x: np.where((x >= -0.5) & (x <= 0.5), 0.0, x)),
    "hardshrink -0.5": (lambda x: F.hardshrink(x, -0.5), lambda x: x),
    "softshrink": (
        lambda x: F.softshrink(x),
        lambda x: np.where(x > 0.5, x - 0.5, np.where(x < -0.5, x + 0.5, x * 0)),
    ),
    "softshrink 0": (lambda x: F.softshrink(x, 0.0), lambda x: np.where(x == 0, x * 0, x)),
    "threshold": (lambda x: F.threshold(x, 0.5, -7.0), lambda x: np.where(x <= 0.5, -7.0, x)),
    "threshold -0": (lambda x: F.threshold(x, 0.5, -0.0), lambda x: np.where(x <= 0.5, -0.0, x)),
    "elu": (lambda x: F.elu(x), _elu),
    "elu 0.5": (lambda x: F.elu(x, 0.5), lambda x: _elu(x, 0.5)),
    "elu -1": (lambda x: F.elu(x, -1.0), lambda x: _elu(x, -1.0)),
    "celu 2": (lambda x: F.celu(x, 2.0), lambda x: _elu(x, 2.0, 1.0, 0.5)),
    "selu": (lambda x: F.selu(x), lambda x: _elu(x, 1.6732632423543772, 1.0507009873554805)),
    "hardswish": (lambda x: F.hardswish(x), lambda x: x * np.clip(x + 3, 0, 6) / 6),
    "hardsigmoid": (lambda x: F.hardsigmoid(x), lambda x: np.clip(x + 3, 0, 6) / 6),
    "silu": (lambda x: F.silu(x), lambda x: x / (1 + np.exp(-x))),
    "softplus": (
        lambda x: F.softplus(x, 2.0, 3.0),
        lambda x: np.where(x * 2 > 3, x, np.log1p(np.exp(np.minimum(x * 2, 4))) / 2),
    ),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("count", [1, 200, 20_000])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_edges(name, count, dtype):
    ours, theirs = CASES[name]
    x = np.tile(np.array(EDGES, dtype), count)
    before = x.copy()
    made = ours(tt.tensor(x)).numpy()
    with np.errstate(all="ignore"):
        expected = theirs(x.astype(np.float64)).astype(dtype)
    np.testing.assert_array_equal(x, before)
    tolerance = 1e-6 if dtype is np.float32 else 1e-14
    np.testing.assert_allclose(made, expected, rtol=tolerance, atol=1e-45)
    here = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(made[here]), np.signbit(expected[here]))


@pytest.mark.parametrize("name", ["leaky_relu_", "elu_", "threshold_", "hardswish_", "silu_"])
@pytest.mark.parametrize("count", [10, 5_000])
def test_in_place(name, count):
    function = getattr(F, name[:-1])
    numbers = (0.3, 4.0) if name == "threshold_" else ()
    x = tt.linspace(-4.0, 4.0, count)
    expected = function(x, *numbers)
    given = x.clone()
    assert function(given, *numbers, inplace=True) is given
    np.testing.assert_array_equal(given.numpy(), expected.numpy())


def test_numbers_of_each_call_count():
    x = tt.tensor([-2.0, 2.0])
    for slope in (0.5, 0.25, 0.0, 0.5, 2.0):
        assert F.leaky_relu(x, slope).tolist() == [-2.0 * slope, 2.0]
    for slope in [k / 512 for k in range(1, 300)]:
        assert F.leaky_relu(x, slope).tolist() == [-2.0 * slope, 2.0]


@pytest.mark.parametrize("layout", ["transposed", "strided", "bfloat16"])
def test_other_layouts_and_dtypes(layout):
    x = tt.linspace(-4.0, 4.0, 60).reshape(6, 10)
    given = {"transposed": x.t(), "strided": x[::2, ::3], "bfloat16": x.bfloat16()}[layout]
    for function in (F.leaky_relu, F.elu, F.softshrink, F.hardshrink, F.mish, F.softplus, F.silu):
        expected = function(given.float().contiguous())
        made = function(given)
        np.testing.assert_array_equal(made.float().numpy(), expected.to(given.dtype).float().numpy())
