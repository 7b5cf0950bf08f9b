"""Losses agree with the host: reductions, weights, ignored and invalid targets, dtypes, strides, gradients."""

import numpy as np
import pytest

import triten as tt
import triten.nn.functional as F

FLOATS = [tt.float16, tt.bfloat16, tt.float32, tt.float64]
TOLERANCE = {tt.float16: 4e-3, tt.bfloat16: 3e-2, tt.float32: 1e-5, tt.float64: 1e-12}
REDUCTIONS = ["none", "mean", "sum"]


def compared(same, function, tensors, tolerance):
    """Assert that the value and the gradient of each tensor agree on the device and on the host."""
    results = []
    for device in ("cuda", "cpu"):
        leaves = [t.to(device).detach().requires_grad_() for t in tensors]
        value = function(*leaves)
        (value * value).sum().backward()
        results.append([value.detach(), *(leaf.grad for leaf in leaves)])
    for got, expected in zip(*results, strict=True):
        same(got, expected, tolerance)


def classes(rng, shape, count, ignored=-100):
    target = rng.integers(0, count, shape)
    return tt.from_numpy(np.where(rng.random(shape) < 0.2, ignored, target).astype(np.int64))


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: d.name)
def test_mse_loss(random, same, dtype, reduction):
    def loss(a, b):
        return F.mse_loss(a, b, reduction=reduction)

    for shape in ((), (7,), (3, 5), (40, 50)):
        compared(same, loss, [random(shape, dtype), random(shape, dtype)], TOLERANCE[dtype])


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_mse_loss_broadcasts_promotes_and_strides(random, same, reduction):
    def loss(a, b):
        return tt.mse_loss(a, b, {"none": 0, "mean": 1, "sum": 2}[reduction])

    compared(same, loss, [random((4, 1, 6), tt.float64), random((5, 1), tt.float32)], 1e-5)
    compared(same, lambda a, b: loss(a.permute(2, 0, 1)[::2], b), [random((4, 5, 6)), random((4, 5))], 1e-5)
    wide = [random((2, 1) * 4, tt.float64), random((1, 3) * 4, tt.float64)]
    compared(same, loss, wide, 1e-11)
    compared(same, loss, [random((300, 700))] * 2, 1e-5)


def test_mse_loss_of_nothing(same):
    empty = tt.zeros(0, 3)
    for reduction in REDUCTIONS:
        got = F.mse_loss(empty.to("cuda"), empty.to("cuda"), reduction=reduction)
        same(got, F.mse_loss(empty, empty, reduction=reduction))


def test_mse_loss_refuses_integers():
    x = tt.zeros(3, dtype=tt.int64, device="cuda")
    with pytest.raises(NotImplementedError, match=r"mse_cuda.*Long"):
        tt.mse_loss(x, x)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: d.name)
def test_nll_loss(random, rng, same, dtype, weighted, reduction):
    weight = random((7,), dtype).abs() if weighted else None
    for shape in ((7,), (1, 7), (50, 7), (3, 7, 4, 5), (3, 7, 6)):
        for ignored in (-100, 2):
            target = classes(rng, shape[:1] * (len(shape) > 1) + shape[2:], 7, ignored)

            def loss(x, target=target, ignored=ignored):
                own = None if weight is None else weight.to(x.device)
                return F.nll_loss(x, target.to(x.device), own, ignore_index=ignored, reduction=reduction)

            compared(same, loss, [random(shape, dtype)], TOLERANCE[dtype])


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_nll_loss_of_any_strides_and_of_bytes(random, rng, same, reduction):
    target = tt.from_numpy(rng.integers(0, 6, (40, 2)).astype(np.uint8))
    weight = random((12,)).abs()

    def loss(x):
        own = weight.to(x.device)[::2]
        return F.nll_loss(x.t()[::2], target.to(x.device)[:, 1], own, reduction=reduction)

    compared(same, loss, [random((6, 80))], 1e-5)
    image = classes(rng, (2, 5, 4), 3).permute(0, 2, 1)
    compared(
        same,
        lambda x: F.nll_loss(x.permute(0, 3, 2, 1), image.to(x.device), reduction=reduction),
        [random((2, 5, 4, 3))],
        1e-5,
    )


def test_many_samples_and_classes(random, rng, same):
    target = classes(rng, (5000,), 9)
    compared(same, lambda x: F.nll_loss(x, target.to(x.device)), [random((5000, 9))], 1e-5)
    few = classes(rng, (3,), 20_000)
    compared(same, lambda x: F.cross_entropy(x, few.to(x.device)), [random((3, 20_000))], 1e-5)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_nothing_counts(same, reduction):
    target = tt.full((3,), -100, dtype=tt.int64)
    for size in (3, 0):
        x = tt.ones(size, 4)
        got = F.nll_loss(x.to("cuda"), target[:size].to("cuda"), reduction=reduction)
        same(got, F.nll_loss(x, target[:size], reduction=reduction))


@pytest.mark.usefixtures("launch_blocking")
@pytest.mark.parametrize("wrong", [4, -1, 10**10])
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_a_target_out_of_bounds(wrong, reduction):
    x = tt.ones(3, 4, device="cuda")
    target = tt.from_numpy(np.array([1, wrong, -100])).to("cuda")
    with pytest.raises(IndexError, match=f"Target {wrong} is out of bounds"):
        F.nll_loss(x, target, reduction=reduction)


def test_an_ignored_class_may_lie_out_of_bounds(same):
    x = tt.ones(3, 4)
    target = tt.from_numpy(np.array([1, 255, 2]))
    same(
        F.nll_loss(x.to("cuda"), target.to("cuda"), ignore_index=255), F.nll_loss(x, target, ignore_index=255)
    )


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_cross_entropy(random, rng, same, smoothing, reduction):
    target = classes(rng, (6,), 5)

    def loss(x):
        return F.cross_entropy(x, target.to(x.device), label_smoothing=smoothing, reduction=reduction)

    compared(same, loss, [random((6, 5), tt.float64)], 1e-12)


def test_targets_lie_on_the_same_device():
    with pytest.raises(RuntimeError, match="same device"):
        F.nll_loss(tt.ones(3, 4, device="cuda"), tt.zeros(3, dtype=tt.int64))
