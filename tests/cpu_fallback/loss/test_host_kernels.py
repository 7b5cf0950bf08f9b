"""Host kernels of losses and distances give what the composites give, which run where gradients are recorded."""

from __future__ import annotations

import numpy as np
import pytest

import triten as tt

F = tt.nn.functional
RANDOM = np.random.default_rng(3)


def matrix(*sizes):
    return tt.tensor(RANDOM.standard_normal(sizes).astype(np.float32))


LABELS = tt.tensor([1, 0, 3, 2, 1])
MANY = tt.tensor([[1, 0, -1, 2], [-1, 0, 1, 2], [3, 2, 1, 0], [0, 0, -1, -1], [2, -1, 2, 2]])
PLACES = tt.tensor(RANDOM.integers(0, 4, (5, 2, 3)))
CASES = {
    "multi_margin_loss": lambda x, r: F.multi_margin_loss(x, LABELS, reduction=r),
    "multi_margin_loss of squares": lambda x, r: F.multi_margin_loss(
        x, LABELS, p=2, margin=0.5, weight=tt.tensor([1.0, 2.0, 3.0, 4.0]), reduction=r
    ),
    "multilabel_margin_loss": lambda x, r: F.multilabel_margin_loss(x, MANY, reduction=r),
    "huber_loss": lambda x, r: F.huber_loss(x, tt.zeros_like(x), reduction=r, delta=0.75),
    "smooth_l1_loss": lambda x, r: F.smooth_l1_loss(x, tt.zeros_like(x), reduction=r, beta=0.5),
    "smooth_l1_loss without a curve": lambda x, r: F.smooth_l1_loss(
        x, tt.zeros_like(x), reduction=r, beta=0.0
    ),
    "cross_entropy": lambda x, r: F.cross_entropy(
        (x.reshape(5, 4, 1, 1) * tt.ones(5, 4, 2, 3)), PLACES, reduction=r
    ),
    "nll_loss": lambda x, r: F.nll_loss((x.reshape(5, 4, 1, 1) * tt.ones(5, 4, 2, 3)), PLACES, reduction=r),
    "nll_loss of rows": lambda x, r: F.nll_loss(x, LABELS, reduction=r),
}
DISTANCES = {
    "cosine_similarity": lambda x, p: F.cosine_similarity(x, x.flip(0), dim=int(p > 1)),
    "pairwise_distance": lambda x, p: F.pairwise_distance(x, x.flip(0), p=p),
    "pdist": lambda x, p: F.pdist(x, p),
}


@pytest.mark.parametrize("special", [None, np.inf, np.nan, 1e30])
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("name", CASES)
def test_losses(name, reduction, special):
    x = matrix(5, 4)
    if special is not None:
        x[1, 2] = special
    expected = CASES[name](x.clone().requires_grad_(), reduction).detach()
    made = CASES[name](x, reduction)
    assert made.shape == expected.shape
    assert made.dtype is expected.dtype
    np.testing.assert_allclose(made.numpy(), expected.numpy(), rtol=3e-6, atol=1e-6)


@pytest.mark.parametrize("p", [2.0, 1.0, 0.0, 3.0, np.inf])
@pytest.mark.parametrize("rows", [5, 60])
@pytest.mark.parametrize("name", DISTANCES)
def test_distances(name, rows, p):
    x = matrix(rows, 4)
    wanted = x.clone().requires_grad_()
    expected = DISTANCES[name](wanted, p)
    assert expected.requires_grad
    np.testing.assert_allclose(DISTANCES[name](x, p).numpy(), expected.detach().numpy(), rtol=3e-6, atol=1e-6)


def test_lengths_below_eps():
    x = tt.tensor([[1e-20, 0.0], [0.0, 0.0], [3e38, 3e38]])
    assert F.cosine_similarity(x, x, dim=1).tolist() == pytest.approx([1e-24, 0.0, 1.0], rel=1e-3)


def test_wrong_classes_are_refused_as_by_the_composition():
    x = matrix(5, 4)
    for function, target in (
        (F.multi_margin_loss, tt.tensor([1, 0, 4, 2, 1])),
        (F.multi_margin_loss, tt.tensor([1, 0, -1, 2, 1])),
        (F.multilabel_margin_loss, tt.where(MANY == 3, 4, MANY)),
        (F.nll_loss, tt.tensor([1, 0, 4, 2, 1])),
    ):
        with pytest.raises((IndexError, RuntimeError)) as there:
            function(x.clone().requires_grad_(), target)
        with pytest.raises(there.type, match=r"bound|range"):
            function(x, target)


def test_ignored_places_and_smoothed_labels():
    x = matrix(5, 4, 2, 3)
    target = tt.where(PLACES == 1, -100, PLACES)
    for named in ({}, {"label_smoothing": 0.25}):
        expected = F.cross_entropy(x.clone().requires_grad_(), target, **named).item()
        assert F.cross_entropy(x, target, **named).item() == pytest.approx(expected, rel=1e-5)


def test_a_mode_sees_the_operator():
    seen = []

    class Seeing(tt.TensorDispatchMode):
        def __tensor_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    x = matrix(5, 4)
    F.huber_loss(x, x)
    with Seeing():
        F.huber_loss(x, x)
    assert seen == ["aten.huber_loss.default"]


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("batched", [False, True])
def test_unpooling(rank, batched):
    pool, unpool = getattr(F, f"max_pool{rank}d"), getattr(F, f"max_unpool{rank}d")
    x = matrix(*((2, 3) if batched else (3,)), *(6, 4, 8)[:rank])
    values, places = pool(x, 2, return_indices=True)
    wanted = values.clone().requires_grad_()
    expected = unpool(wanted, places, 2)
    assert expected.requires_grad
    made = unpool(values, places, 2)
    assert made.shape == x.shape
    np.testing.assert_array_equal(made.numpy(), expected.detach().numpy())
    # If several values have the same index, the last one stays.
    same = unpool(values, tt.zeros_like(places), 2)
    np.testing.assert_array_equal(same.numpy(), unpool(wanted, tt.zeros_like(places), 2).detach().numpy())
    for wrong in (-1, 10**6):
        with pytest.raises(RuntimeError, match=f"Found an invalid max index: {wrong}"):
            unpool(values, tt.full_like(places, wrong), 2)


@pytest.mark.parametrize("weight", [0.25, 1.0, 0.0, -0.5, 2.0])
@pytest.mark.parametrize("count", [7, 5_000])
def test_prelu(weight, count):
    x = tt.tensor(np.resize(np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.5, -1.5], np.float32), count))
    for given in (tt.tensor(weight), tt.tensor([weight])):
        made = F.prelu(x, given).numpy()
        expected = F.prelu(x.clone().requires_grad_(), given).detach().numpy()
        np.testing.assert_array_equal(made, expected)
        np.testing.assert_array_equal(np.signbit(made), np.signbit(expected))
