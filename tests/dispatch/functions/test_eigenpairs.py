"""`lobpcg` agrees with a full factorization."""

from importlib.util import find_spec

import pytest

import triten as tt

needs_triton = pytest.mark.skipif(find_spec("triton") is None, reason="triton has no wheel for this platform")


def symmetric(size, device, *batch, dtype=tt.float64):
    tt.manual_seed(3)
    m = tt.randn(*batch, size, size, dtype=dtype, device=device)
    return m + m.mT + 4 * tt.diag(tt.arange(size, dtype=dtype, device=device))


@pytest.mark.parametrize(
    ("device", "size", "largest", "batch"),
    [
        ("cpu", 12, True, ()),
        ("cpu", 12, False, ()),
        ("cpu", 12, True, (2,)),
        ("cpu", 12, False, (2,)),
        # The same composite, whose steps take long on interpreted CUDA.
        pytest.param("cuda", 6, True, (), marks=needs_triton),
        pytest.param("cuda", 6, False, (2,), marks=needs_triton),
    ],
)
def test_eigenpairs(device, size, largest, batch):
    A = symmetric(size, device, *batch)
    values, vectors = tt.lobpcg(A, k=2, largest=largest)
    known = tt.linalg.eigvalsh(A)
    wanted = known.flip(-1)[..., :2] if largest else known[..., :2]
    assert tt.allclose(values, wanted, rtol=1e-6)
    assert tt.allclose(A @ vectors, vectors * values.unsqueeze(-2), atol=1e-5)
    assert tt.allclose(
        vectors.mT @ vectors, tt.eye(2, dtype=A.dtype, device=device).expand(*batch, 2, 2), atol=1e-9
    )


def test_a_generalized_problem():
    A, C = symmetric(9, "cpu"), tt.randn(9, 9, dtype=tt.float64)
    B = C @ C.mT + 9 * tt.eye(9, dtype=tt.float64)
    start = tt.randn(9, 3, dtype=tt.float64)
    values, vectors = tt.lobpcg(A, B=B, X=start, iK=tt.eye(9, dtype=tt.float64), k=2, tol=1e-10)
    wanted = tt.linalg.eigvals(tt.linalg.solve(B, A)).real.sort(descending=True).values[:2]
    assert tt.allclose(values, wanted, rtol=1e-8)
    assert tt.allclose(A @ vectors, B @ vectors * values, atol=1e-6)


def test_no_step_is_a_projection():
    A = tt.diag(tt.arange(1.0, 7.0))
    values, vectors = tt.lobpcg(A, X=tt.eye(6)[:, 1:2], niter=0)
    assert values.tolist() == [2.0] and vectors.abs().tolist() == tt.eye(6)[:, 1:2].tolist()


def test_the_gradient():
    A = symmetric(6, "cpu").requires_grad_()

    def function(A):
        return tt.lobpcg((A + A.mT) / 2, k=2)[0]

    assert tt.autograd.gradcheck(function, (A,))
    with pytest.raises(RuntimeError, match="without argument 'B' only"):
        tt.lobpcg(A, B=tt.eye(6, dtype=tt.float64))


@pytest.mark.parametrize(
    ("kwargs", "error", "message"),
    [
        ({"k": 3}, ValueError, r"A rows \(=6\) is smaller than 3 x the number"),
        ({"k": 0}, ValueError, "argument 'k'"),
        ({"method": "other"}, RuntimeError, "'ortho' or 'basic', got 'other'"),
    ],
)
def test_refusals(kwargs, error, message):
    with pytest.raises(error, match=message):
        tt.lobpcg(tt.eye(6), **kwargs)


@pytest.mark.parametrize("dtype", [tt.float16, tt.complex64, tt.int64])
def test_other_dtypes_are_refused(dtype):
    with pytest.raises(NotImplementedError, match='"lobpcg" not implemented for'):
        tt.lobpcg(tt.eye(6).to(dtype))


def test_shapes_are_checked():
    for shape in ((3,), (3, 4)):
        with pytest.raises(ValueError, match="must be a square matrix or a batch of them"):
            tt.lobpcg(tt.ones(shape))


def test_a_cluster_of_equal_eigenvalues(device):
    A = tt.diag(tt.tensor([5.0, 5.0, 5.0, 1.0, 2.0, 3.0, 0.0, 0.0, 0.0], device=device, dtype=tt.float64))
    values, vectors = tt.lobpcg(A, k=3)
    assert tt.allclose(values, tt.full_like(values, 5.0)) and tt.allclose(A @ vectors, 5 * vectors, atol=1e-6)


@pytest.mark.parametrize("largest", [True, False])
def test_the_gradient_is_that_of_the_symmetric_part(largest: bool) -> None:
    tt.manual_seed(0)
    A = tt.rand(2, 6, 6, dtype=tt.float64)
    A = ((A @ A.mT) / 10).requires_grad_()
    X = tt.eye(6, 1, dtype=tt.float64).expand(2, 6, 1)

    def values(A: tt.Tensor) -> tt.Tensor:
        return tt.lobpcg(A, 1, X=X, largest=largest)[0]

    assert tt.autograd.gradcheck(values, A, check_batched_grad=False)
