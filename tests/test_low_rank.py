"""Singular values by random projections, principal components, and LU by its old name."""

import numpy as np
import pytest

import triten as tt


def of_rank(rng, *sizes, rank):
    *batch, m, n = sizes
    return rng.standard_normal((*batch, m, rank)) @ rng.standard_normal((*batch, rank, n))


@pytest.mark.parametrize("sizes", [(9, 5), (5, 9), (2, 3, 7, 6)])
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_svd_of_low_rank(rng, sizes, dtype):
    a = of_rank(rng, *sizes, rank=3)
    a = a + 1j * a[..., ::-1, :] if dtype == "complex128" else a
    x = tt.from_numpy(a.astype(dtype))
    U, S, V = tt.svd_lowrank(x, q=5)
    assert (
        U.shape == (*sizes[:-1], 5) and S.shape == (*sizes[:-2], 5) and V.shape == (*sizes[:-2], sizes[-1], 5)
    )
    expected = np.linalg.svd(a, compute_uv=False)[..., :5]
    if dtype == "float64":
        np.testing.assert_allclose(S.numpy(), expected, atol=1e-9)
        back = (U * S.unsqueeze(-2)) @ V.mH
        np.testing.assert_allclose(back.numpy(), a, atol=1e-9)
    identity = (V.mH @ V).numpy()
    np.testing.assert_allclose(identity, np.broadcast_to(np.eye(5), identity.shape), atol=1e-9)


@pytest.mark.parametrize("sizes", [(8, 5), (4, 6)])
def test_a_mean_is_taken_off_and_gradients_flow(rng, sizes):
    a, mean = of_rank(rng, *sizes, rank=2), rng.standard_normal(sizes[-1])
    x = tt.from_numpy(a + mean).requires_grad_()
    S = tt.svd_lowrank(x, q=4, M=tt.from_numpy(mean))[1]
    np.testing.assert_allclose(S.detach().numpy(), np.linalg.svd(a, compute_uv=False)[:4], atol=1e-9)
    tt.svd_lowrank(x, q=2, M=tt.from_numpy(mean))[1].sum().backward()
    u, _, vh = np.linalg.svd(a, full_matrices=False)
    np.testing.assert_allclose(x.grad.numpy(), u[:, :2] @ vh[:2], atol=1e-6)


def test_principal_components(rng):
    a = of_rank(rng, 20, 6, rank=3) + 5.0
    U, S, V = tt.pca_lowrank(tt.from_numpy(a))
    assert U.shape == (20, 6) and V.shape == (6, 6)
    centred = np.linalg.svd(a - a.mean(0), compute_uv=False)
    np.testing.assert_allclose(S.numpy(), centred, atol=1e-9)
    S = tt.pca_lowrank(tt.from_numpy(a), 4, center=False)[1]
    np.testing.assert_allclose(S.numpy(), np.linalg.svd(a, compute_uv=False)[:4], atol=1e-9)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"q": 4}, "q(=4) must be non-negative"), ({"q": -1}, "q(=-1)"), ({"niter": -1}, "niter(=-1) must be")],
)
def test_wrong_counts_are_refused(options, message):
    with pytest.raises(ValueError, match=message.replace("(", r"\(").replace(")", r"\)")):
        tt.pca_lowrank(tt.ones(3, 5), **options)


@pytest.mark.parametrize("sizes", [(3, 3), (2, 4, 3), (3, 5)])
def test_lu_of_old(sizes):
    x = tt.randn(sizes, dtype=tt.float64)
    expected = tt.linalg.lu_factor_ex(x)
    with pytest.warns(UserWarning, match="deprecated"):
        LU, pivots = tt.lu(x)
    assert tt.equal(LU, expected[0]) and tt.equal(pivots, expected[1])
    assert [tt.equal(a, b) for a, b in zip(x.lu(get_infos=True), expected, strict=True)] == [True] * 3
    with pytest.warns(UserWarning):
        out = (tt.empty(0, dtype=tt.float64), tt.empty(0, dtype=tt.int32))
        assert tt.lu(x, out=out) is out and tt.equal(out[0], LU)
        with pytest.raises(TypeError, match="expected tuple of 3 elements but got 2"):
            tt.lu(x, get_infos=True, out=out)
        assert tt.lu(tt.zeros(2, 2), get_infos=True)[2].item() == 1


@pytest.mark.parametrize("layout", ["coo", "csr"])
@pytest.mark.parametrize("shape", [(7, 4), (4, 7)])
def test_components_of_a_sparse_matrix(layout, shape):
    tt.manual_seed(0)
    dense = tt.zeros(shape, dtype=tt.float64)
    dense[1, 2], dense[3, 0], dense[2, 2] = 2.0, -1.0, 4.0
    sparse = dense.to_sparse() if layout == "coo" else dense.to_sparse_csr()
    for center in (True, False):
        U, S, V = tt.pca_lowrank(sparse, 4, center=center)
        expected = dense - dense.mean(0) if center else dense
        tt.testing.assert_close(U * S @ V.mT, expected)


def test_components_of_batched_sparse_matrices_are_refused():
    with pytest.raises(ValueError, match="must have 2 dimensions"):
        tt.pca_lowrank(tt.ones(2, 3, 3).to_sparse())
