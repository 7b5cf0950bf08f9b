"""Compiled gradients of layer_norm and rms_norm are the exact ones, on any number of threads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import triten as tt
from triten.cpu_fallback.normalization import compiled_gradients
from triten.dispatch.core.dispatcher import Dispatcher
from triten.tests.compiled_code import needs_llvm

pytestmark = needs_llvm

F = tt.nn.functional
SIZES = [(300, 33), (3, 5000), (70, 2, 9), (1, 7), (129, 64)]
"""Among them rows of more than a piece, and parts whose rows are no whole number of what is added in the dtype."""


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Make loops for small tensors, in many parts that threads share."""
    before = tt.get_num_threads()
    for name in ("COMPILE_THRESHOLD", "SHARED_FROM", "WAKING_FROM", "PART"):
        monkeypatch.setattr(compiled_gradients, name, 1)
    Dispatcher.singleton().forget_all()
    yield
    Dispatcher.singleton().forget_all()
    tt.set_num_threads(before)


def drawn(dtype: type, *sizes: int, seed: int = 0) -> Any:
    """Return numbers around a mean that no row has."""
    rng = np.random.default_rng(seed)
    return (rng.standard_normal(sizes) * 2 + 3).astype(dtype)


def exact(x: Any, g: Any, weight: Any, centred: bool, eps: float) -> list[Any]:
    """Return the gradients of input, weight and bias in float64."""
    x, g = (each.reshape(-1, each.shape[-1]).astype(np.float64) for each in (x, g))
    gap = x - x.mean(1, keepdims=True) if centred else x
    rstd = 1 / np.sqrt((gap**2).mean(1, keepdims=True) + eps)
    of_weight, of_bias = (g * gap * rstd).sum(0), g.sum(0)
    g = g if weight is None else g * weight.astype(np.float64)
    to = rstd * g - gap * rstd**3 * (g * gap).mean(1, keepdims=True)
    if centred:
        to -= rstd * g.mean(1, keepdims=True)
    return [to, *([] if weight is None else [of_weight, of_bias][: 1 + centred])]


def gradients(x: Any, g: Any, parameters: list[Any], centred: bool, wanted: list[int]) -> list[Any]:
    """Return the wanted gradients of input, weight and bias."""
    leaves = [
        tt.from_numpy(each).clone().requires_grad_(i in wanted) for i, each in enumerate([x, *parameters])
    ]
    norm = F.layer_norm if centred else F.rms_norm
    out = norm(leaves[0], x.shape[-1:], *leaves[1:])
    found = tt.autograd.grad(out, [leaves[i] for i in wanted], tt.from_numpy(g))
    return [each.numpy() for each in found]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("affine", [True, False], ids=["affine", "plain"])
@pytest.mark.parametrize("centred", [True, False], ids=["layer_norm", "rms_norm"])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_gradients_are_the_exact_ones(sizes: Any, centred: bool, affine: bool, dtype: type) -> None:
    x, g = drawn(dtype, *sizes), drawn(dtype, *sizes, seed=1)
    parameters = [drawn(dtype, sizes[-1], seed=2 + i) for i in range((1 + centred) * affine)]
    eps = 1e-5 if centred else float(np.finfo(dtype).eps)
    wanted = exact(x, g, parameters[0] if affine else None, centred, eps)
    runs = []
    for threads in (1, 2, 5):
        tt.set_num_threads(threads)
        runs.append(gradients(x, g, parameters, centred, list(range(1 + len(parameters)))))
        for a, b in zip(runs[0], runs[-1], strict=True):
            assert np.array_equal(a, b), "the order of additions is that of the sizes"
    tolerance = 64 * np.finfo(dtype).eps
    for found, want in zip(runs[0], wanted, strict=True):
        assert np.abs(found.reshape(want.shape) - want).max() <= tolerance * np.abs(want).max()


@pytest.mark.parametrize("wanted", [[0], [1], [2], [1, 2], [0, 2]], ids=str)
def test_what_is_not_wanted_is_not_made(wanted: list[int]) -> None:
    every_size = ((40, 24), (40, 24), (24,), (24,))
    x, g, weight, bias = (drawn(np.float32, *sizes, seed=i) for i, sizes in enumerate(every_size))
    every = gradients(x, g, [weight, bias], True, [0, 1, 2])
    for i, found in zip(wanted, gradients(x, g, [weight, bias], True, wanted), strict=True):
        assert np.array_equal(found, every[i])


def test_input_and_gradient_may_have_any_strides() -> None:
    x, g, weight = (
        drawn(np.float32, 24, 40).T,
        np.broadcast_to(np.float32(0.5), (40, 24)),
        drawn(np.float32, 24),
    )
    found = gradients(x, g, [weight, weight], True, [0, 1, 2])
    for a, b in zip(found, gradients(x.copy(), g.copy(), [weight, weight], True, [0, 1, 2]), strict=True):
        assert np.array_equal(a, b)
    for a, b in zip(found, exact(x, g, weight, True, 1e-5), strict=True):
        assert np.abs(a - b).max() <= 1e-5 * max(1, np.abs(b).max())


def test_nan_and_infinity_stay_in_their_row() -> None:
    x, weight = drawn(np.float32, 40, 24), drawn(np.float32, 24)
    g = np.ones_like(x)
    x[3, 5], g[7, 2] = np.nan, np.inf
    (found,) = gradients(x, g, [weight, weight], True, [0])
    assert np.isnan(found[3]).all() and not np.isfinite(found[7]).any()
    assert np.isfinite(np.delete(found, (3, 7), 0)).all()
