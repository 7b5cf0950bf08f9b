"""Compiled distances and their gradients are exact to rounding, with the same bits on any number of threads."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import triten as tt
from triten.cpu_fallback.reduction import compiled_distances
from triten.dispatch.core.dispatcher import Dispatcher
from triten.tests.compiled_code import needs_llvm

pytestmark = needs_llvm
F = tt.nn.functional
ORDERS = [1.0, 2.0, math.inf]
BY_DIFFERENCES = "donot_use_mm_for_euclid_dist"
SHAPES = [((), 5, 7, 3), ((2, 3), 6, 4, 20), ((), 1, 9, 1100), ((), 40, 33, 8)]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Make loops for small tensors, in many parts that threads share."""
    before = tt.get_num_threads()
    for name in ("COMPILE_THRESHOLD", "SHARED_FROM", "WAKING_FROM"):
        monkeypatch.setattr(compiled_distances, name, 0)
    Dispatcher.singleton().forget_all()
    yield
    Dispatcher.singleton().forget_all()
    tt.set_num_threads(before)


@pytest.fixture
def loops(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Return, for each call of a loop, whether it computed gradients."""
    called: list[bool] = []
    fill = compiled_distances.RowLoops.fill

    def noting(self: Any, out: Any, order: float, *operands: Any) -> bool:
        is_served = fill(self, out, order, *operands)
        if is_served:
            called.append(len(operands) > 2)
        return is_served

    monkeypatch.setattr(compiled_distances.RowLoops, "fill", noting)
    return called


def exact(x: Any, y: Any, grad: Any, order: float) -> tuple[Any, Any]:
    """Return distances, and the gradient of the first rows, in float64."""
    gaps = x.astype(np.float64)[..., :, None, :] - y.astype(np.float64)[..., None, :, :]
    made = np.linalg.norm(gaps, order, -1)
    if order == 1:
        slopes = np.sign(gaps)
    elif order == 2:
        slopes = gaps / np.where(made == 0, 1, made)[..., None]
    else:
        slopes = np.sign(gaps) * (np.abs(gaps) == made[..., None])
    return made, (slopes * grad[..., None]).sum(-2)


def drawn(dtype: type, *sizes: int, seed: int) -> Any:
    # Quarters are exact in both dtypes, so that the largest differences are the same.
    return (np.random.default_rng(seed).integers(-40, 40, sizes) / 4).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("batch", "rows", "others", "columns"), SHAPES)
def test_cdist(
    batch: tuple[int, ...], rows: int, others: int, columns: int, order: float, dtype: type, loops: list[bool]
) -> None:
    x, y = drawn(dtype, *batch, rows, columns, seed=1), drawn(dtype, *batch, others, columns, seed=2)
    y[..., 0, :] = x[..., 0, :]
    grad = drawn(dtype, *batch, rows, others, seed=3)
    expected, slopes = exact(x, y, grad, order)
    _, other_slopes = exact(y, x, grad.swapaxes(-1, -2), order)
    bound, runs = 64 * np.finfo(dtype).eps, []
    for threads in (1, 2, 5):
        tt.set_num_threads(threads)
        a, b = (tt.tensor(each).requires_grad_() for each in (x, y))
        made = tt.cdist(a, b, p=order, compute_mode=BY_DIFFERENCES)
        made.backward(tt.from_numpy(grad))
        runs.append([made.detach().numpy(), a.grad.numpy(), b.grad.numpy()])
        for first, other in zip(runs[0], runs[-1], strict=True):
            assert np.array_equal(first, other)
    for found, wanted in zip(runs[0], (expected, slopes, other_slopes), strict=True):
        assert np.abs(found - wanted).max() <= bound * np.abs(wanted).max()
    assert loops == [False, True, True] * 3


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("rows", "columns"), [(2, 3), (9, 20), (33, 5), (3, 1100)])
def test_pdist(rows: int, columns: int, order: float, dtype: type, loops: list[bool]) -> None:
    x = drawn(dtype, rows, columns, seed=4)
    x[-1] = x[0]
    first, second = np.triu_indices(rows, 1)
    grad = drawn(dtype, len(first), seed=5)
    square = np.zeros((rows, rows), dtype)
    square[first, second] = square[second, first] = grad
    expected, slopes = exact(x, x, square, order)
    own = tt.tensor(x).requires_grad_()
    made = F.pdist(own, order)
    made.backward(tt.from_numpy(grad))
    bound = 64 * np.finfo(dtype).eps
    assert np.abs(made.detach().numpy() - expected[first, second]).max() <= bound * max(expected.max(), 1)
    assert np.abs(own.grad.numpy() - slopes).max() <= bound * max(np.abs(slopes).max(), 1)
    assert loops == [False, True]


@pytest.mark.parametrize("order", ORDERS)
def test_special_values(order: float) -> None:
    x, y = np.ones((4, 9), np.float32), np.zeros((3, 9), np.float32)
    x[0, 3], x[1, 8], y[2] = math.nan, math.inf, -0.0
    x[3] = 0.0
    made = tt.cdist(tt.from_numpy(x), tt.from_numpy(y), p=order, compute_mode=BY_DIFFERENCES).numpy()
    assert np.isnan(made[0]).all() and np.isposinf(made[1]).all()
    assert np.array_equal(made[3], np.zeros(3)) and not np.signbit(made[3]).any()


def test_no_gradient_where_a_distance_is_0() -> None:
    x = tt.zeros(3, 4).requires_grad_()
    F.pdist(x).backward(tt.full((3,), math.inf))
    assert x.grad is not None and x.grad.equal(tt.zeros(3, 4))


def test_second_derivatives() -> None:
    x = tt.tensor(drawn(np.float64, 4, 3, seed=6)).requires_grad_()
    y = tt.tensor(drawn(np.float64, 5, 3, seed=7)).requires_grad_()
    assert tt.autograd.gradgradcheck(lambda a, b: tt.cdist(a, b, compute_mode=BY_DIFFERENCES), (x, y))


def test_other_orders_are_those_of_the_composite(loops: list[bool]) -> None:
    x = tt.tensor(drawn(np.float64, 6, 3, seed=8))
    expected = np.linalg.norm(x.numpy()[:, None] - x.numpy()[None], 3, -1)
    np.testing.assert_allclose(tt.cdist(x, x, p=3.0).numpy(), expected, 1e-12)
    assert loops == []
