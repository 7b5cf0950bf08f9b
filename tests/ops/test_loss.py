"""nll_loss, cross_entropy, mse_loss and similar losses: values against plain NumPy, shapes, weights, errors."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import triten as tt
import triten.nn

F = triten.nn.functional
SHAPES = [(5,), (4, 5), (4, 5, 3), (2, 5, 3, 4), (2, 5, 2, 3, 2)]
REDUCTIONS = ["none", "mean", "sum"]


def log_softmax(x: Any) -> Any:
    axis = 0 if x.ndim == 1 else 1
    shifted = x - x.max(axis, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis, keepdims=True))


def class_samples(shape: tuple[int, ...]) -> tuple[Any, Any, Any]:
    """Return logits, class indices and class weights."""
    rng = np.random.default_rng(0)
    target_shape = shape[2:] if len(shape) == 1 else (shape[0], *shape[2:])
    target = rng.integers(0, 5, target_shape if len(shape) > 1 else ())
    return rng.standard_normal(shape), np.asarray(target), rng.uniform(0.5, 2, 5)


def nll(log_probabilities: Any, target: Any, weight: Any, ignore_index: int, reduction: str) -> Any:
    """Compute the loss one sample at a time, by its definition."""
    moved = log_probabilities if log_probabilities.ndim == 1 else np.moveaxis(log_probabilities, 1, -1)
    losses, weights = np.zeros(target.shape), np.zeros(target.shape)
    for place in np.ndindex(target.shape):
        label = target[place]
        if label != ignore_index:
            weights[place] = 1 if weight is None else weight[label]
            losses[place] = -weights[place] * moved[(*place, label)]
    if reduction == "none":
        return losses
    return losses.sum() if reduction == "sum" else losses.sum() / weights.sum()


@pytest.mark.parametrize("ignore_index", [-100, 2])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("shape", SHAPES)
def test_class_indices(shape: tuple[int, ...], reduction: str, weighted: bool, ignore_index: int) -> None:
    x, target, weight = class_samples(shape)
    if shape == (5,):
        target = np.asarray(1)
    given = tt.from_numpy(weight) if weighted else None
    want = nll(log_softmax(x), target, weight if weighted else None, ignore_index, reduction)
    options = {"weight": given, "ignore_index": ignore_index, "reduction": reduction}
    logits, labels = tt.from_numpy(x), tt.from_numpy(target)
    np.testing.assert_allclose(F.cross_entropy(logits, labels, **options).numpy(), want)
    axis = 0 if x.ndim == 1 else 1
    np.testing.assert_allclose(F.nll_loss(logits.log_softmax(axis), labels, **options).numpy(), want)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("wrong", [None, -1, 5])
def test_many_labels_of_images(reduction: str, wrong: int | None) -> None:
    rng = np.random.default_rng(0)
    x, target = rng.standard_normal((3, 5, 60, 70)), rng.integers(0, 5, (3, 60, 70))
    logits = tt.from_numpy(x).requires_grad_()
    if wrong is not None:
        target[1, 2, 3] = wrong
        with pytest.raises(IndexError, match=f"Target {wrong} is out of bounds"):
            F.cross_entropy(logits, tt.from_numpy(target), reduction=reduction)
        return
    loss = F.cross_entropy(logits, tt.from_numpy(target), reduction=reduction)
    losses = -np.take_along_axis(log_softmax(x), target[:, None], 1)[:, 0]
    want = losses if reduction == "none" else getattr(losses, reduction)()
    np.testing.assert_allclose(loss.detach().numpy(), want)
    loss.sum().backward()
    one_hot = np.moveaxis(np.eye(5)[target], -1, 1)
    scale = 1 / target.size if reduction == "mean" else 1.0
    np.testing.assert_allclose(logits.grad.numpy(), (np.exp(log_softmax(x)) - one_hot) * scale, atol=1e-12)


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("shape", [(5,), (4, 5), (2, 5, 3, 4)])
def test_probabilities_and_smoothing(
    shape: tuple[int, ...], reduction: str, weighted: bool, smoothing: float
) -> None:
    x, target, weight = class_samples(shape)
    axis = 0 if x.ndim == 1 else 1
    one_hot = np.moveaxis(np.eye(5)[target], -1, axis)
    broad = (weight if weighted else np.ones(5)).reshape([5 if d == axis else 1 for d in range(x.ndim)])
    terms = -(log_softmax(x) * (one_hot * (1 - smoothing) + smoothing / 5) * broad).sum(axis)
    given = tt.from_numpy(weight) if weighted else None
    options = {"weight": given, "reduction": reduction, "label_smoothing": smoothing}
    logits = tt.from_numpy(x)
    soft = F.cross_entropy(logits, tt.from_numpy(np.ascontiguousarray(one_hot)), **options)
    hard = F.cross_entropy(logits, tt.from_numpy(target), **options)
    per_sample = {"none": terms, "sum": terms.sum(), "mean": terms.sum() / terms.size}
    np.testing.assert_allclose(soft.numpy(), per_sample[reduction])
    weighed = (weight if weighted else np.ones(5))[target].sum()
    per_weight = {**per_sample, "mean": terms.sum() / weighed}
    np.testing.assert_allclose(hard.numpy(), per_weight[reduction])


@pytest.mark.parametrize("weight", [None, tt.ones(0)])
def test_an_ignored_target_is_one_of_no_classes_too(weight: tt.Tensor | None) -> None:
    targets = tt.tensor([0, 0])
    losses = tt.nn.functional.nll_loss(tt.ones(2, 0), targets, weight, ignore_index=0, reduction="none")
    assert losses.tolist() == [0.0, 0.0]
    assert math.isnan(tt.nn.functional.nll_loss(tt.ones(2, 0), targets, weight, ignore_index=0).item())
    with pytest.raises(IndexError, match="Target 0 is out of bounds"):
        tt.nn.functional.nll_loss(tt.ones(2, 0), targets, weight)


def test_smoothing_leaves_ignored_targets_out() -> None:
    x, target, _ = class_samples((4, 5))
    kept = F.cross_entropy(tt.from_numpy(x[:2]), tt.from_numpy(target[:2]), label_smoothing=0.2)
    target[2:] = -100
    got = F.cross_entropy(tt.from_numpy(x), tt.from_numpy(target), label_smoothing=0.2)
    np.testing.assert_allclose(got.numpy(), kept.numpy())


def test_nothing_counts() -> None:
    x, ignored = tt.zeros(2, 3), tt.tensor([-100, -100])
    assert math.isnan(F.cross_entropy(x, ignored).item())
    assert F.cross_entropy(x, ignored, reduction="sum").item() == 0
    assert math.isnan(F.nll_loss(tt.zeros(0, 3), tt.zeros(0, dtype=tt.int64)).item())


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_dtype_of_the_result_is_the_inputs(dtype: str) -> None:
    x = tt.zeros(2, 4).to(getattr(tt, dtype))
    got = F.cross_entropy(x, tt.tensor([0, 3]))
    assert got.dtype is x.dtype
    assert got.item() == pytest.approx(math.log(4), rel=1e-3)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_regression_losses(reduction: str) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((3, 4)) * 2, rng.standard_normal((3, 4))
    gap = np.abs(a - b)
    reduce: Callable[[Any], Any] = {"none": lambda v: v, "mean": np.mean, "sum": np.sum}[reduction]
    x, y = tt.from_numpy(a), tt.from_numpy(b)
    for function, want in [
        (F.mse_loss, gap**2),
        (F.l1_loss, gap),
        (F.smooth_l1_loss, np.where(gap < 1, gap**2 / 2, gap - 0.5)),
        (F.huber_loss, np.where(gap < 1, gap**2 / 2, gap - 0.5)),
    ]:
        np.testing.assert_allclose(function(x, y, reduction=reduction).numpy(), reduce(want))
    want = np.where(gap < 0.5, gap**2, gap - 0.25)
    np.testing.assert_allclose(F.smooth_l1_loss(x, y, reduction=reduction, beta=0.5).numpy(), reduce(want))


def test_mse_promotes_and_broadcasts() -> None:
    with pytest.warns(UserWarning, match="Using a target size"):
        got = F.mse_loss(tt.ones(2, 3), tt.tensor([1, 2, 3]))
    assert got.item() == pytest.approx(5 / 3)
    assert math.isnan(F.mse_loss(tt.empty(0), tt.empty(0)).item())


def test_weighted_regression_losses() -> None:
    x, y, w = tt.tensor([1.0, 4.0]), tt.tensor([0.0, 0.0]), tt.tensor([3.0, 1.0])
    assert F.mse_loss(x, y, weight=w).item() == pytest.approx((3 + 16) / 4)
    assert F.l1_loss(x, y, weight=w, reduction="sum").item() == pytest.approx(7)


def test_deprecated_flags_name_a_reduction() -> None:
    x, y = tt.tensor([1.0, 4.0]), tt.tensor([0.0, 0.0])
    for (average, reduce), want in zip(
        itertools.product([True, False], [True, False]), ["mean", "none", "sum", "none"], strict=True
    ):
        with pytest.warns(UserWarning, match=f"please use reduction='{want}'"):
            got = F.mse_loss(x, y, size_average=average, reduce=reduce)
        np.testing.assert_array_equal(got.numpy(), F.mse_loss(x, y, reduction=want).numpy())


LABELS = [0, 1]


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda x: F.nll_loss(x, tt.tensor([0, 5])), IndexError, "Target 5 is out of bounds"),
        (lambda x: F.nll_loss(x, tt.tensor([0, -1])), IndexError, "Target -1 is out of bounds"),
        (
            lambda x: F.nll_loss(x, tt.tensor([0])),
            ValueError,
            r"batch_size \(2\) to match target batch_size \(1\)",
        ),
        (lambda x: F.nll_loss(x, tt.tensor([0.0, 1.0])), RuntimeError, "to be Long or Byte, but got Float"),
        (lambda x: F.nll_loss(x, tt.tensor([[0], [1]])), RuntimeError, "multi-target not supported"),
        (
            lambda x: F.nll_loss(x, tt.tensor(LABELS), weight=tt.ones(2)),
            RuntimeError,
            "all 3 classes or no classes",
        ),
        (lambda x: F.nll_loss(x, tt.tensor(LABELS), reduction="max"), ValueError, "max is not a valid value"),
        (lambda x: F.nll_loss(tt.tensor(1.0), tt.tensor(0)), ValueError, "Expected 1 or more dimensions"),
        (lambda x: F.cross_entropy(x, x, ignore_index=1), RuntimeError, "ignore_index is not supported"),
        (lambda x: F.cross_entropy(x, x.to(tt.int64)), RuntimeError, "with class probabilities, got Long"),
        (
            lambda x: F.cross_entropy(x, tt.tensor(LABELS), label_smoothing=1.5),
            RuntimeError,
            "between 0.0 and 1.0",
        ),
        (
            lambda x: F.mse_loss(x.to(tt.int64), x.to(tt.int64)),
            NotImplementedError,
            "not implemented for 'Long'",
        ),
        (lambda x: F.smooth_l1_loss(x, x, beta=-1.0), RuntimeError, "negative values for beta"),
        (lambda x: F.huber_loss(x, x, delta=0.0), RuntimeError, "non-positive values for delta"),
    ],
)
def test_errors(call: Callable[[Any], Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call(tt.ones(2, 3))


def test_meta() -> None:
    x, target = tt.empty(4, 5).to("meta"), tt.zeros(4, dtype=tt.int64).to("meta")
    assert F.cross_entropy(x, target).shape == ()
    assert F.cross_entropy(x, target, reduction="none").shape == (4,)
    assert F.mse_loss(x, x).is_meta


@pytest.mark.parametrize(
    ("dtype", "other"), [(tt.float32, tt.float64), (tt.float16, tt.float32), (tt.float64, tt.int64)]
)
def test_huber_loss_is_of_the_inputs_dtype(device, dtype, other):
    found = tt.nn.functional.huber_loss(
        tt.ones(2, dtype=dtype, device=device), tt.zeros(2, dtype=other, device=device), reduction="none"
    )
    assert found.dtype is dtype and found.tolist() == [0.5, 0.5]
