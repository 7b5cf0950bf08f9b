"""Norms and distances: values against NumPy's, subgradients, empty tensors, refusals."""

import math

import numpy as np
import pytest

import triten as tt

X = np.random.default_rng(0).standard_normal((3, 4, 5))
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
def test_derivatives_of_norms(rng: np.random.Generator, order: float) -> None:
    x = tt.from_numpy(rng.random((3, 4)) + 0.5).requires_grad_()
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
    for order in (2, 0, 0.5, math.nan):
        assert tt.linalg.vector_norm(tt.ones(0), order).item() == 0.0
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
    with pytest.raises(RuntimeError, match="Order other not supported"):
        tt.norm(tt.ones(2, 2), "other")
    for order, dim in (("fro", (0, 1, 2)), ("nuc", None)):
        with pytest.raises(RuntimeError, match="dim must be a 2-tuple"):
            tt.norm(tt.ones(2, 2, 2), order, dim)
    for order, dim in (("fro", None), ("nuc", None), ("fro", 0)):
        with pytest.raises(RuntimeError, match="The input tensor A must have at least 2 dimensions"):
            tt.linalg.norm(tt.ones(3), order, dim)
    with pytest.raises(RuntimeError, match=r"dim must be a 2-tuple\. Got 1"):
        tt.linalg.norm(tt.ones(2, 2), "fro", 1)
    with pytest.raises(RuntimeError, match="Order 3 not supported"):
        tt.linalg.norm(tt.ones(2, 2), 3.0)


@pytest.mark.parametrize("dtype", [tt.float16, tt.bfloat16])
@pytest.mark.parametrize("order", ["nuc", 2, -2])
def test_norms_by_singular_values_refuse_narrow_floats(dtype: tt.dtype, order: str | int) -> None:
    x = tt.ones(2, 2, dtype=dtype)
    with pytest.raises(RuntimeError, match=r"linalg\.matrix_norm: Low precision dtypes not supported"):
        tt.linalg.matrix_norm(x, order)
    assert tt.linalg.matrix_norm(x, 1).item() == 2.0


@pytest.mark.parametrize("order", [0, 1, 2, math.inf, -math.inf])
@pytest.mark.parametrize("shape", [(7,), (300, 1500), (1500, 300), (2, 3, 70001)])
def test_norms_of_large_tensors_in_every_layout(
    rng: np.random.Generator, order: float, shape: tuple[int, ...]
) -> None:
    x = rng.standard_normal(shape).astype(np.float32)
    x[x < -2] = 0.0
    for layout in (x, np.asfortranarray(x), np.repeat(x, 2, 0)[::2]):
        wide = layout.astype(np.float64)
        for dim in (None, *range(len(shape))):
            expected = (
                np.linalg.norm(wide.ravel(), order) if dim is None else np.linalg.norm(wide, order, dim)
            )
            found = tt.linalg.vector_norm(tt.from_numpy(layout), order, dim)
            np.testing.assert_allclose(found.numpy(), expected, rtol=3e-6)


@pytest.mark.parametrize("order", [0, 1, 2, math.inf, -math.inf])
def test_what_is_not_finite_in_norms(order: float, device: str) -> None:
    for value in (math.nan, math.inf, -math.inf):
        x = tt.tensor([1.0, value, -0.0], device=device)
        expected = {0: 2.0, 1: abs(value), 2: abs(value), math.inf: abs(value), -math.inf: value * 0}[order]
        if order == -math.inf and not math.isnan(value):
            expected = 0.0
        np.testing.assert_equal(tt.linalg.vector_norm(x, order).item(), expected)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_one_pass_gives_norms_in_the_input_s_dtype(dtype: str, device: str) -> None:
    x = tt.tensor([[3.0, -4.0], [0.0, 2.0]], dtype=getattr(tt, dtype), device=device)
    for order, expected in ((0, [2.0, 1.0]), (1, [7.0, 2.0]), (2, [5.0, 2.0]), (math.inf, [4.0, 2.0])):
        found = tt.linalg.vector_norm(x, order, 1)
        assert found.dtype is x.dtype
        assert found.tolist() == expected
