"""Norms and distances: values against NumPy's, subgradients, empty tensors, refusals."""

import math

import numpy as np
import pytest

import triten as tt

RNG = np.random.default_rng(0)
X = RNG.standard_normal((3, 4, 5))
ORDERS = [0, 0.5, 1, 2, 3, -1, -2, math.inf, -math.inf]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("dim", [0, -1])
def test_vector_norms(order: float, dim: int, device: str) -> None:
    x = tt.from_numpy(X).to(device)
    expected = np.linalg.norm(X, order, dim)
    np.testing.assert_allclose(tt.linalg.vector_norm(x, order, dim).cpu().numpy(), expected, rtol=1e-12)
    kept = tt.linalg.vector_norm(x, order, dim, keepdim=True)
    assert kept.shape == np.expand_dims(expected, dim).shape
    whole = tt.linalg.vector_norm(x, order)
    np.testing.assert_allclose(whole.item(), np.linalg.norm(X.ravel(), order), rtol=1e-12)


@pytest.mark.parametrize("order", ["fro", 1, -1, math.inf, -math.inf])
def test_matrix_norms(order: object, device: str) -> None:
    x = tt.from_numpy(X).to(device)
    expected = np.linalg.norm(X, order, (1, 2))
    np.testing.assert_allclose(tt.linalg.matrix_norm(x, order).cpu().numpy(), expected, rtol=1e-12)
    np.testing.assert_allclose(
        tt.linalg.norm(x, order, (0, 2)).cpu().numpy(), np.linalg.norm(X, order, (0, 2)), rtol=1e-12
    )


@pytest.mark.parametrize("order", ORDERS)
def test_derivatives_of_norms(order: float) -> None:
    x = tt.from_numpy(RNG.random((3, 4)) + 0.5).requires_grad_()
    assert tt.autograd.gradcheck(lambda x: tt.linalg.vector_norm(x, order, 1), (x,))


@pytest.mark.parametrize("order", [1, 1.5, 2, 3, math.inf])
def test_the_subgradient_at_zero_is_finite(order: float) -> None:
    x = tt.zeros(3, requires_grad=True)
    tt.linalg.vector_norm(x, order).backward()
    assert not bool(x.grad.isnan().any())
    if order < math.inf:
        assert x.grad.tolist() == [0.0] * 3


def test_an_extremum_shares_its_gradient() -> None:
    x = tt.tensor([2.0, -2.0, 1.0], requires_grad=True)
    tt.linalg.vector_norm(x, math.inf).backward()
    assert x.grad.tolist() == [0.5, -0.5, 0.0]


def test_narrow_floats_are_summed_in_float32(device: str) -> None:
    x = tt.full((4096,), 3.0, dtype=tt.float16, device=device)
    assert tt.linalg.vector_norm(x).item() == 192.0, "3 ** 2 * 4096 is beyond float16"
    assert tt.norm(x, dtype=tt.float32).dtype is tt.float32


def test_norms_of_nothing() -> None:
    assert tt.linalg.vector_norm(tt.ones(0)).item() == 0.0
    with pytest.raises(RuntimeError, match="does not have an identity"):
        tt.linalg.vector_norm(tt.ones(0), math.inf)


def test_distances(device: str) -> None:
    a, b = X[0], X[1]
    x, y = (tt.from_numpy(v).to(device) for v in (a, b))
    np.testing.assert_allclose(tt.dist(x, y, 3).item(), np.linalg.norm((a - b).ravel(), 3))
    np.testing.assert_allclose(
        tt.nn.functional.pairwise_distance(x, y).cpu().numpy(), np.linalg.norm(a - b + 1e-6, axis=-1)
    )
    cosine = (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
    np.testing.assert_allclose(tt.cosine_similarity(x, y).cpu().numpy(), cosine, rtol=1e-12)
    unit = tt.nn.functional.normalize(x, dim=1)
    np.testing.assert_allclose(unit.cpu().numpy(), a / np.linalg.norm(a, axis=1, keepdims=True), rtol=1e-12)


def test_the_cosine_of_large_vectors_does_not_overflow() -> None:
    x = tt.full((1, 4), 1e25)
    assert math.isclose(tt.cosine_similarity(x / 1e20, x / 1e20).item(), 1.0, rel_tol=1e-6)


def test_refusals() -> None:
    with pytest.raises(RuntimeError, match="Expected a floating point or complex tensor"):
        tt.linalg.vector_norm(tt.ones(2, dtype=tt.int64))
    with pytest.raises(RuntimeError, match="at least 2 dimensions"):
        tt.linalg.matrix_norm(tt.ones(2))
    with pytest.raises(RuntimeError, match="dims must be different"):
        tt.linalg.matrix_norm(tt.ones(2, 2), dim=(0, 0))
    with pytest.raises(RuntimeError, match="not supported"):
        tt.linalg.matrix_norm(tt.ones(2, 2), 5)
    with pytest.raises(RuntimeError, match="must be 1D or 2D"):
        tt.linalg.norm(tt.ones(1, 1, 1), 2)
    with pytest.raises(ValueError, match="only valid string values"):
        tt.norm(tt.ones(2), "other")
