"""Losses made of other operators: values by their formulas, reductions, derivatives, refusals."""

import math
from collections.abc import Callable

import numpy as np
import pytest

import triten as tt

F = tt.nn.functional
RNG = np.random.default_rng(0)
A, B = RNG.standard_normal((4, 3)), RNG.standard_normal((4, 3))
C = RNG.standard_normal((4, 3))
P, Q = RNG.random((4, 3)) * 0.8 + 0.1, RNG.random((4, 3)) * 0.8 + 0.1
SIGNS = np.where(RNG.random((4, 3)) < 0.5, -1.0, 1.0)
LABELS = np.array([0, 2, 1, 1])


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def cosine() -> np.ndarray:
    return (A * B).sum(1) / np.linalg.norm(A, axis=1) / np.linalg.norm(B, axis=1)


def hinge(p: int) -> np.ndarray:
    gap = np.maximum(1 - A[np.arange(4), LABELS][:, None] + A, 0) ** p
    gap[np.arange(4), LABELS] = 0
    return gap.sum(1) / 3


def triplet() -> np.ndarray:
    near, far = np.linalg.norm(A - B + 1e-6, axis=1), np.linalg.norm(A - C + 1e-6, axis=1)
    return np.maximum(1 + near - far, 0)


LOSSES: dict[str, tuple[Callable, tuple, Callable]] = {
    "kl_div": (F.kl_div, (A, P), lambda: P * (np.log(P) - A)),
    "hinge_embedding_loss": (
        F.hinge_embedding_loss,
        (A, SIGNS),
        lambda: np.where(SIGNS == 1, A, np.maximum(0, 1 - A)),
    ),
    "margin_ranking_loss": (F.margin_ranking_loss, (A, B, SIGNS), lambda: np.maximum(0, -SIGNS * (A - B))),
    "soft_margin_loss": (F.soft_margin_loss, (A, SIGNS), lambda: np.log1p(np.exp(-SIGNS * A))),
    "poisson_nll_loss": (F.poisson_nll_loss, (A, P), lambda: np.exp(A) - P * A),
    "gaussian_nll_loss": (F.gaussian_nll_loss, (A, B, P), lambda: 0.5 * (np.log(P) + (A - B) ** 2 / P)),
    "binary_cross_entropy": (
        F.binary_cross_entropy,
        (P, Q),
        lambda: -(Q * np.log(P) + (1 - Q) * np.log(1 - P)),
    ),
    "binary_cross_entropy_with_logits": (
        F.binary_cross_entropy_with_logits,
        (A, Q),
        lambda: -(Q * np.log(sigmoid(A)) + (1 - Q) * np.log(1 - sigmoid(A))),
    ),
    "cosine_embedding_loss": (F.cosine_embedding_loss, (A, B, np.ones(4)), lambda: 1 - cosine()),
    "triplet_margin_loss": (F.triplet_margin_loss, (A, B, C), triplet),
    "triplet_margin_with_distance_loss": (F.triplet_margin_with_distance_loss, (A, B, C), triplet),
    "multi_margin_loss": (F.multi_margin_loss, (A, LABELS), lambda: hinge(1)),
    "multilabel_soft_margin_loss": (
        F.multilabel_soft_margin_loss,
        (A, Q),
        lambda: -(Q * np.log(sigmoid(A)) + (1 - Q) * np.log(sigmoid(-A))).mean(1),
    ),
}


@pytest.mark.filterwarnings("ignore:reduction")
@pytest.mark.parametrize("name", LOSSES)
def test_values_and_reductions(name: str, device: str) -> None:
    function, arrays, formula = LOSSES[name]
    given = [tt.from_numpy(a).to(device) for a in arrays]
    expected = formula()
    for reduction, wanted in (("none", expected), ("mean", expected.mean()), ("sum", expected.sum())):
        result = function(*given, reduction=reduction).cpu().numpy()
        np.testing.assert_allclose(result, wanted, rtol=1e-9, atol=1e-9)
    with pytest.raises(ValueError, match=r"not (a )?valid"):
        function(*given, reduction="median")


@pytest.mark.filterwarnings("ignore:reduction")
@pytest.mark.parametrize("name", sorted(set(LOSSES) - {"multi_margin_loss"}))
def test_derivatives(name: str) -> None:
    function, arrays, _ = LOSSES[name]
    given = tuple(tt.from_numpy(a).requires_grad_(i == 0) for i, a in enumerate(arrays))
    assert tt.autograd.gradcheck(function, given)


def test_options() -> None:
    x, p = tt.from_numpy(A), tt.from_numpy(P)
    batch = F.kl_div(x, p, reduction="batchmean")
    np.testing.assert_allclose(batch.item(), (P * (np.log(P) - A)).sum() / 4)
    logs = F.kl_div(x, p.log(), reduction="none", log_target=True)
    np.testing.assert_allclose(logs.numpy(), P * (np.log(P) - A))
    full = F.poisson_nll_loss(x, p * 5, full=True, reduction="none").numpy()
    t = P * 5
    stirling = np.where(t > 1, t * np.log(t) - t + 0.5 * np.log(2 * np.pi * t), 0)
    np.testing.assert_allclose(full, np.exp(A) - t * A + stirling)
    weighted = F.binary_cross_entropy_with_logits(x, p, pos_weight=tt.tensor(3.0, dtype=tt.float64))
    expected = -(3 * P * np.log(sigmoid(A)) + (1 - P) * np.log(1 - sigmoid(A)))
    np.testing.assert_allclose(weighted.item(), expected.mean())
    squared = F.multi_margin_loss(x, tt.from_numpy(LABELS), p=2, reduction="none")
    np.testing.assert_allclose(squared.numpy(), hinge(2))


def test_extremes() -> None:
    assert F.binary_cross_entropy(tt.tensor([0.0]), tt.tensor([1.0])).item() == 100.0
    assert F.binary_cross_entropy_with_logits(tt.tensor([-1e4]), tt.tensor([1.0])).item() == 1e4
    assert F.soft_margin_loss(tt.tensor([-1e4]), tt.tensor([1.0])).item() == 1e4
    assert F.kl_div(tt.zeros(1), tt.zeros(1), reduction="sum").item() == 0.0


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("target", ["int64", "float32", "float64", "complex64", "complex128"])
def test_soft_margin_loss_has_the_dtype_of_its_input(dtype: str, target: str) -> None:
    x, signs = tt.tensor(A).to(getattr(tt, dtype)), tt.tensor(SIGNS).to(getattr(tt, target))
    if dtype.startswith("complex"):
        x = x + 1j * tt.tensor(B).to(x.dtype)
    elif target.startswith("complex"):
        with pytest.raises(RuntimeError, match="can't be cast to the desired output type"):
            F.soft_margin_loss(x, signs)
        return
    found = F.soft_margin_loss(x, signs, reduction="none")
    assert found.dtype is x.dtype
    near = {"float16": 2e-3, "bfloat16": 2e-2}.get(dtype, 1e-5)
    exact = np.log1p(np.exp(-SIGNS * x.to(tt.complex128).numpy()))
    np.testing.assert_allclose(found.to(tt.complex128).numpy(), exact, rtol=near, atol=near)


def test_gradient_of_a_complex_soft_margin_loss() -> None:
    x = tt.tensor(np.stack([A, B], -1), requires_grad=True)

    def parts(x: tt.Tensor) -> tt.Tensor:
        return tt.view_as_real(F.soft_margin_loss(tt.view_as_complex(x), tt.tensor(SIGNS), reduction="none"))

    assert tt.autograd.gradcheck(parts, x)


def test_refusals() -> None:
    x = tt.ones(2, 3)
    with pytest.raises(ValueError, match="Using a target size"):
        F.binary_cross_entropy(x, tt.ones(3))
    with pytest.raises(RuntimeError, match="between 0 and 1"):
        F.binary_cross_entropy(x * 2, x)
    with pytest.raises(ValueError, match="must be the same as input size"):
        F.binary_cross_entropy_with_logits(x, tt.ones(3))
    with pytest.raises(ValueError, match="margin must be greater than 0"):
        F.triplet_margin_loss(x, x, x, margin=0.0)
    with pytest.raises(RuntimeError, match="same number of dimensions"):
        F.triplet_margin_loss(x, x, tt.ones(3))
    with pytest.raises(RuntimeError, match="1D target tensor expects 2D"):
        F.cosine_embedding_loss(tt.ones(3), tt.ones(3), tt.ones(1))
    with pytest.raises(ValueError, match="negative"):
        F.gaussian_nll_loss(x, x, -x)
    with pytest.raises(ValueError, match="incorrect size"):
        F.gaussian_nll_loss(x, x, tt.ones(7))
    with pytest.raises(ValueError, match="p == 1 and p == 2"):
        F.multi_margin_loss(x, tt.zeros(2, dtype=tt.int64), p=3)
    with pytest.raises(RuntimeError, match=r"Expected target size \[\d+\], but got \[\d+\]"):
        F.multi_margin_loss(x, tt.zeros(3, dtype=tt.int64))
    assert math.isfinite(F.multi_margin_loss(x, tt.zeros(2, dtype=tt.int64)).item())


MULTILABELS = np.array([[2, 0, -1], [1, -1, 0], [-1, 0, 0], [0, 0, -1]])
"""Target classes up to the first -1; the last row lists a class twice."""


@pytest.mark.parametrize("reduction", [0, 1, 2])
def test_multilabel_margin_loss_forward_returns_the_loss_and_the_targets(device: str, reduction: int) -> None:
    x, labels = tt.tensor(A, device=device), tt.tensor(MULTILABELS, device=device)
    loss, is_target = tt.ops.aten.multilabel_margin_loss_forward(x, labels, reduction)
    assert tt.equal(loss, tt.ops.aten.multilabel_margin_loss(x, labels, reduction))
    assert is_target.tolist() == [[1, 0, 1], [0, 1, 0], [0, 0, 0], [1, 0, 0]]
    assert is_target.dtype is x.dtype


@pytest.mark.parametrize("reduction", [0, 1, 2])
@pytest.mark.parametrize("rank", [1, 2])
@pytest.mark.parametrize(
    "name, args",
    [
        ("multilabel_margin_loss", (MULTILABELS,)),
        ("multi_margin_loss", (LABELS, 1, 0.7, None)),
        ("multi_margin_loss", (LABELS, 2, 0.7, np.array([0.5, 2.0, 1.0]))),
    ],
)
def test_backward_operators_of_margin_losses_agree_with_autograd(
    device: str, name: str, args: tuple, rank: int, reduction: int
) -> None:
    row = 0 if rank == 1 else slice(None)
    x = tt.tensor(A[row], device=device, requires_grad=True)
    target, *options = [tt.tensor(a, device=device) if isinstance(a, np.ndarray) else a for a in args]
    target = target[row]
    loss = getattr(tt.ops.aten, name)(x, target, *options, reduction)
    grad = tt.arange(1.0, loss.numel() + 1, dtype=loss.dtype, device=device).reshape(loss.shape)
    (expected,) = tt.autograd.grad(loss, x, grad)
    last = tt.ops.aten.multilabel_margin_loss_forward(x, target, reduction)[1:] if not options else ()
    with tt.no_grad():
        made = getattr(tt.ops.aten, f"{name}_backward")(grad, x, target, *options, reduction, *last)
    tt.testing.assert_close(made, expected)


def test_multilabel_margin_loss_under_vmap_equals_a_loop() -> None:
    x, labels = tt.tensor(A), tt.tensor(MULTILABELS)
    made = tt.vmap(F.multilabel_margin_loss)(x, labels)
    assert tt.equal(made, F.multilabel_margin_loss(x, labels, reduction="none"))
    with pytest.raises(RuntimeError, match="out of range"):
        tt.vmap(F.multilabel_margin_loss)(x, labels - 1)
