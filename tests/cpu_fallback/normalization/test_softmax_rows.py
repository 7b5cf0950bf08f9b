"""Softmax along contiguous rows is the same for all blocks of rows, threads and row lengths."""

import itertools

import numpy as np
import pytest

import triten as tt
from triten.cpu_fallback.normalization import softmax as whole
from triten.cpu_fallback.normalization import softmax_rows as module

FUNCTIONS = {"softmax": tt.softmax, "log_softmax": tt.log_softmax}
_rows = itertools.count(3)


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(whole, "ONE_CALL", 0)
    monkeypatch.setattr(whole, "MIN_ROW", 2)
    for name in ("BLOCK", "WIDENED_BLOCK", "GRAIN"):
        monkeypatch.setattr(module, name, 40)


def reference(name, a):
    shifted = a - a.max(-1, keepdims=True)
    p = np.exp(shifted) / np.exp(shifted).sum(-1, keepdims=True)
    return p if name == "softmax" else shifted - np.log(np.exp(shifted).sum(-1, keepdims=True)), p


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("n", [2, 7, 39, 41, 513, 4096, 4097])
@pytest.mark.parametrize("dtype", [tt.float32, tt.float64, tt.float16], ids=lambda d: d.name)
def test_values_and_gradients(rng, small, name, n, dtype):
    sizes = (next(_rows), 2, n)  # plans are kept by shape
    x = tt.from_numpy(4 * rng.standard_normal(sizes)).to(dtype).requires_grad_()
    y = FUNCTIONS[name](x, -1)
    expected, p = reference(name, x.detach().to(tt.float64).numpy())
    eps = {"float16": 1e-3, "float32": 2.0**-23, "float64": 2.0**-52}[dtype.name]
    got = y.detach().to(tt.float64).numpy()
    # Near 0 the difference of log_softmax cancels; the least float16 is 6e-8.
    atol = 40 * eps if name == "log_softmax" else 6e-8 if dtype is tt.float16 else 0
    # Two units in the last place, and what the rounding of x - max does to the exponential.
    np.testing.assert_allclose(got, expected, rtol=40 * eps, atol=atol)
    g = tt.from_numpy(rng.standard_normal(sizes)).to(dtype)
    y.backward(g)
    g = g.to(tt.float64).numpy()
    total = (g * p if name == "softmax" else g).sum(-1, keepdims=True)
    expected = p * (g - total) if name == "softmax" else g - p * total
    np.testing.assert_allclose(
        x.grad.to(tt.float64).numpy(), expected, rtol=0, atol=60 * eps * (1 + np.abs(total).max())
    )


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_row_depends_on_no_other(rng, small, name):
    a = rng.standard_normal((29, 600)).astype(np.float32)
    before = tt.get_num_threads()
    made = []
    try:
        for threads in (1, 3):
            tt.set_num_threads(threads)
            made.append(FUNCTIONS[name](tt.from_numpy(a), 1).numpy())
    finally:
        tt.set_num_threads(before)
    made.append(np.concatenate([FUNCTIONS[name](tt.from_numpy(a[i : i + 1]), 1).numpy() for i in range(29)]))
    np.testing.assert_array_equal(made[0], made[1])
    np.testing.assert_array_equal(made[0], made[2])


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("place", [0, 5, 99])
def test_nan_and_infinity_stay_in_their_row(small, name, place):
    a = np.zeros((next(_rows) + 3, 100), np.float32)
    a[0, place], a[1, place], a[2, place], a[3] = np.nan, np.inf, -np.inf, -np.inf
    y = FUNCTIONS[name](tt.from_numpy(a), 1).numpy()
    assert np.isnan(y[0]).all() and np.isnan(y[3]).all()
    assert np.isnan(y[1]).all()
    assert y[2, place] == (0 if name == "softmax" else -np.inf)
    assert np.isfinite(y[4:]).all() and np.isfinite(np.delete(y[2], place)).all()


def test_the_result_may_be_written_over_the_operand(rng, small):
    a = rng.standard_normal((next(_rows), 300)).astype(np.float32)
    x = tt.from_numpy(a.copy())
    tt.ops.aten._log_softmax.out(x, 1, False, out=x)
    np.testing.assert_allclose(
        x.numpy(), reference("log_softmax", a.astype(np.float64))[0], rtol=1e-5, atol=1e-6
    )
