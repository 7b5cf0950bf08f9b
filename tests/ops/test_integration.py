"""Differences, gradients and integrals along a dimension, against NumPy's."""

import numpy as np
import pytest

import triten as tt

X = np.random.default_rng(0).standard_normal((3, 6))


@pytest.mark.parametrize("n", [0, 1, 2, 5, 9])
@pytest.mark.parametrize("dim", [0, -1])
def test_diff(n: int, dim: int, device: str) -> None:
    result = tt.diff(tt.from_numpy(X).to(device), n, dim).cpu().numpy()
    np.testing.assert_allclose(result, np.diff(X, min(n, X.shape[dim]), dim), atol=1e-12)


def test_diff_of_joined_tensors_and_of_bools() -> None:
    x = tt.from_numpy(X)
    expected = np.diff(X, 1, -1, prepend=X[:, :2], append=X[:, :1])
    np.testing.assert_allclose(tt.diff(x, prepend=x[:, :2], append=x[:, :1]).numpy(), expected)
    assert tt.diff(tt.tensor([True, False, False])).tolist() == [True, False]


def test_diff_refuses() -> None:
    with pytest.raises(RuntimeError, match="at least one-dimensional"):
        tt.diff(tt.tensor(1.0))
    with pytest.raises(RuntimeError, match="order must be non-negative"):
        tt.diff(tt.ones(3), -1)
    with pytest.raises(RuntimeError, match="same dimension as input"):
        tt.diff(tt.ones(3), prepend=tt.ones(1, 1))


@pytest.mark.parametrize("edge_order", [1, 2])
@pytest.mark.parametrize("spacing", [1, 0.5, [2.0, 0.25], "coordinates"])
def test_gradient(rng: np.random.Generator, edge_order: int, spacing: object, device: str) -> None:
    x = tt.from_numpy(X).to(device)
    points = [np.cumsum(rng.random(n) + 0.1) for n in X.shape]
    if spacing == "coordinates":
        expected = np.gradient(X, *points, edge_order=edge_order)
        given: object = [tt.from_numpy(p).to(device) for p in points]
    else:
        expected = np.gradient(
            X, *(spacing if isinstance(spacing, list) else [spacing]), edge_order=edge_order
        )
        given = spacing
    results = tt.gradient(x, spacing=given, edge_order=edge_order)
    for result, wanted in zip(results, expected, strict=True):
        np.testing.assert_allclose(result.cpu().numpy(), wanted, rtol=1e-9)


def test_gradient_refuses() -> None:
    with pytest.raises(RuntimeError, match="edge_order=1 and edge_order=2"):
        tt.gradient(tt.ones(5), edge_order=3)
    with pytest.raises(RuntimeError, match="at least edge_order"):
        tt.gradient(tt.ones(1))


@pytest.mark.parametrize("dim", [0, 1])
def test_trapezoid(rng: np.random.Generator, dim: int, device: str) -> None:
    y = tt.from_numpy(X).to(device)
    points = np.cumsum(rng.random(X.shape[dim]))
    x = tt.from_numpy(points).to(device)
    np.testing.assert_allclose(
        tt.trapezoid(y, dx=0.5, dim=dim).cpu().numpy(), np.trapezoid(X, dx=0.5, axis=dim)
    )
    np.testing.assert_allclose(tt.trapezoid(y, x, dim=dim).cpu().numpy(), np.trapezoid(X, points, axis=dim))
    pieces = tt.cumulative_trapezoid(y, x, dim=dim)
    np.testing.assert_allclose(pieces.select(dim, -1).cpu().numpy(), np.trapezoid(X, points, axis=dim))
    assert pieces.shape[dim] == X.shape[dim] - 1
