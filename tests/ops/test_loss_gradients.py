"""Derivatives of reductions, softmax and losses against central differences, first and second."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import triten as tt
import triten.nn
from triten.dispatch.autograd.gradients import grad

F = triten.nn.functional
STEP = 1e-6


def numerical(function: Callable[[Any], float], array: Any) -> Any:
    """Compute the gradient of a scalar function of an array by central differences."""
    out = np.zeros_like(array)
    for place in np.ndindex(array.shape):
        shifted = array.copy()
        shifted[place] += STEP
        above = function(shifted)
        shifted[place] -= 2 * STEP
        out[place] = (above - function(shifted)) / (2 * STEP)
    return out


def weighed(result: Any) -> Any:
    """Reduce any result to a scalar: the sum of its elements times fixed, distinct weights."""
    results = result if isinstance(result, tuple) else (result,)
    total = None
    for part in results:
        if not part.is_floating_point():
            continue
        factors = np.cos(np.arange(part.numel()) + 1.0).reshape(tuple(part.shape))
        term = (part * tt.from_numpy(np.asarray(factors))).sum()
        total = term if total is None else total + term
    return total


def check(function: Callable[[Any], Any], array: Any, second: bool = True) -> None:
    """Compare the first derivative, and that of a function of it, with central differences."""

    def value(a: Any) -> float:
        return float(weighed(function(tt.from_numpy(np.array(a)))).item())

    def slope(a: Any, create_graph: bool) -> tuple[Any, Any]:
        x = tt.from_numpy(np.array(a)).requires_grad_()
        return x, grad(weighed(function(x)), (x,), create_graph=create_graph)[0]

    _, first = slope(array, False)
    np.testing.assert_allclose(first.numpy(), numerical(value, array), rtol=1e-5, atol=1e-7)
    if second:
        x, graph = slope(array, True)
        (found,) = grad(weighed(graph), (x,))
        want = numerical(lambda a: float(weighed(slope(a, False)[1]).item()), array)
        np.testing.assert_allclose(found.numpy(), want, rtol=1e-4, atol=1e-6)


X = np.random.default_rng(3).permutation(np.linspace(-1.5, 1.7, 12)).reshape(3, 4)

REDUCTIONS: dict[str, Callable[[Any], Any]] = {
    "mean": lambda x: (x * x).mean(),
    "mean.dim": lambda x: (x * x).mean(1, keepdim=True),
    "prod": lambda x: x.prod(),
    "prod.dim": lambda x: x.prod(1),
    "amax": lambda x: (x * x).amax((0, 1)),
    "amin": lambda x: (x * x * x).amin(0, True),
    "max": lambda x: (x * x).max(),
    "max.dim": lambda x: (x * x).max(1),
    "min.dim": lambda x: (x * x).min(0, True),
    "var": lambda x: x.var(),
    "var.dim": lambda x: (x * x).var(1, False),
    "var.correction": lambda x: x.var((0, 1), correction=2, keepdim=True),
    "std": lambda x: x.std(0),
    "var_mean": lambda x: tt.var_mean(x, 1, correction=0),
    "std_mean": lambda x: tt.std_mean(x, 0, keepdim=True),
    "logsumexp": lambda x: x.logsumexp(1),
    "cumsum": lambda x: (x * x).cumsum(1),
    "aminmax": lambda x: tt.aminmax(x * x, dim=1),
    "sum.float64": lambda x: (x * x).sum((0, 1), keepdim=True),
    "softmax": lambda x: x.softmax(1),
    "log_softmax": lambda x: x.log_softmax(0),
}


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name: str) -> None:
    check(REDUCTIONS[name], X)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_losses(reduction: str) -> None:
    labels, weight = tt.tensor([0, 3, 1]), tt.tensor([1.0, 2.0, 0.5, 1.5], dtype=tt.float64)
    soft = tt.from_numpy(np.full((3, 4), 0.25))
    other = tt.from_numpy(X[::-1].copy())
    options = {"reduction": reduction}
    check(lambda x: F.cross_entropy(x, labels, weight=weight, **options), X)
    check(lambda x: F.cross_entropy(x, labels, ignore_index=3, label_smoothing=0.1, **options), X)
    check(lambda x: F.cross_entropy(x, soft, **options), X)
    check(lambda x: F.nll_loss(x * x, labels, **options), X)
    check(lambda x: F.mse_loss(x * x, other, **options), X)
    check(lambda x: F.mse_loss(other, x * x, **options), X)
    check(lambda x: F.smooth_l1_loss(x, other, **options), X)
    spatial = tt.from_numpy(np.zeros((3, 2, 1), np.int64))
    check(lambda x: F.nll_loss((x * x).reshape((3, 2, 2, 1)), spatial, **options), X)


def test_mse_of_a_broadcast_target() -> None:
    x = tt.from_numpy(X[0].copy()).requires_grad_()
    with pytest.warns(UserWarning, match="Using a target size"):
        loss = F.mse_loss(tt.from_numpy(X), x)
    (found,) = grad(loss, (x,))
    np.testing.assert_allclose(found.numpy(), 2 * (X[0] - X).sum(0) / 12, atol=1e-15)


def test_ties_share_the_gradient_of_an_extremum() -> None:
    for function in (lambda x: x.amax(), lambda x: x.max(), lambda x: x.amax(0)):
        x = tt.tensor([1.0, 3.0, 3.0]).requires_grad_()
        assert grad(function(x), (x,))[0].tolist() == [0, 0.5, 0.5]
    x = tt.tensor([1.0, 3.0, 3.0]).requires_grad_()
    assert grad(x.max(0).values, (x,))[0].tolist() == [0, 1, 0]


def test_product_with_zeros() -> None:
    for zeros in (1, 2):
        array = np.array([2.0, 0.0, 3.0, 4.0])
        array[:zeros] = 0 if zeros == 2 else array[:zeros]
        check(lambda x: x.prod(), array, second=False)


def test_indices_and_truth_carry_no_gradient() -> None:
    x = tt.tensor([[1.0, 2.0]]).requires_grad_()
    for result in (x.argmax(), x.max(1).indices, x.any(), x.all(0)):
        assert not result.requires_grad
    assert x.max(1).values.requires_grad


def test_ignored_targets_have_no_gradient() -> None:
    x = tt.zeros(2, 3).requires_grad_()
    (found,) = grad(F.cross_entropy(x, tt.tensor([-100, 1]), reduction="sum"), (x,))
    assert found[0].tolist() == [0, 0, 0]
    np.testing.assert_allclose(found[1].numpy(), [1 / 3, -2 / 3, 1 / 3], rtol=1e-6)
