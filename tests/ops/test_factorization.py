"""Factorisations on the CPU and on the interpreted device: products, refusals, flags, edges, batches."""

import math

import numpy as np
import pytest

import triten as tt
from triten.tests.shared import comparison

DTYPES = [tt.float32, tt.float64, tt.complex64, tt.complex128]
SHAPES = [(1, 1), (3, 3), (5, 3), (3, 5), (2, 3, 3), (2, 1, 4, 2), (0, 3, 3), (0, 0), (0, 3), (3, 0)]
DEVICES = ["cpu", "cuda"]
EVERYWHERE = [(s, d, "cpu") for s in SHAPES for d in DTYPES] + [
    (s, d, "cuda") for s, d in (((3, 5), tt.complex128), ((2, 3, 3), tt.float32), ((0, 3), tt.float64))
]
SQUARE_EVERYWHERE = [c for c in EVERYWHERE if c[0][-1] == c[0][-2]] + [((0, 0), tt.complex64, "cuda")]


def matrices(shape, dtype, seed=3, turned=False):
    rng = np.random.default_rng(seed)
    lies = (*shape[:-2], shape[-1], shape[-2]) if turned else shape
    values = rng.standard_normal(lies)
    if dtype.is_complex:
        values = values + 1j * rng.standard_normal(lies)
    made = tt.from_numpy(np.asarray(values)).to(dtype)
    return made.mT if turned else made


def close(got, wanted, factor=100):
    wanted = wanted.cpu().numpy()
    unit = float(np.finfo(wanted.dtype).eps) * max(1.0, np.abs(wanted).max(initial=0))
    comparison.close(got, wanted, rtol=0, atol=factor * unit)


def eye(A):
    n = A.shape[-1]
    return tt.eye(n, dtype=A.dtype, device=A.device).expand(*A.shape[:-2], n, n)


@pytest.mark.parametrize(("shape", "dtype", "device"), EVERYWHERE)
def test_factors_multiply_to_the_matrix(shape, dtype, device):
    A = matrices(shape, dtype, turned=len(shape) == 3).to(device)
    P, L, U = tt.linalg.lu(A)
    close(P @ (L @ U), A)
    for mode in ("reduced", "complete"):
        Q, R = tt.linalg.qr(A, mode)
        close(Q @ R, A)
        close(Q.mH @ Q, eye(Q))
    U, S, Vh = tt.linalg.svd(A, full_matrices=False)
    close((U * S.unsqueeze(-2)) @ Vh, A)
    close(tt.linalg.svdvals(A), S)
    assert bool((S[..., 1:] <= S[..., :-1]).all())
    U, _, Vh = tt.linalg.svd(A)
    close(U.mH @ U, eye(U))
    close(Vh @ Vh.mH, eye(Vh))


@pytest.mark.parametrize(
    ("batch", "right", "strides"),
    [
        ((), (5,), (1,)),
        ((2,), (2, 5), (1, 2)),
        ((2,), (5,), (1, 2)),
        ((2, 3), (2, 3, 5), (15, 1, 3)),
        ((), (5, 3), (1, 5)),
    ],
)
def test_solutions_lie_in_columns_of_their_last_two_dimensions(batch, right, strides, device):
    """PyTorch's strides, for vectors too, whose last two dimensions are a batch and the vector."""
    A, B = tt.eye(5, device=device).expand(*batch, 5, 5), tt.ones(right, device=device)
    X = tt.linalg.solve(A, B)
    assert X.stride() == strides
    close(X, B.expand(X.shape))


@pytest.mark.parametrize(("shape", "dtype", "device"), SQUARE_EVERYWHERE)
def test_square_matrices_are_solved_with(shape, dtype, device):
    A = matrices(shape, dtype).to(device)
    A = A + 4 * eye(A)
    B = matrices((*shape[:-1], 2), dtype, seed=4).to(device)
    close(A @ tt.linalg.solve(A, B), B)
    close(tt.linalg.solve(A, B.mT, left=False) @ A, B.mT)
    close(A @ tt.linalg.inv(A), eye(A))
    close(A.mH @ tt.linalg.lu_solve(*tt.linalg.lu_factor(A), B, adjoint=True), B)
    close(tt.linalg.lu_solve(*tt.linalg.lu_factor(A), B.mT, left=False, adjoint=True) @ A.mH, B.mT)
    positive = A @ A.mH
    for upper in (False, True):
        L = tt.linalg.cholesky(positive, upper=upper)
        close(L.mH @ L if upper else L @ L.mH, positive)
        close(positive @ tt.cholesky_solve(B, L, upper=upper), B, 1000)
        triangle = A.triu() if upper else A.tril()
        close(triangle @ tt.linalg.solve_triangular(A, B, upper=upper), B)
        close(tt.linalg.solve_triangular(A, B.mT, upper=upper, left=False) @ triangle, B.mT)
    values, V = tt.linalg.eigh(positive)
    close((V * values.unsqueeze(-2)) @ V.mH, positive)
    w, V = tt.linalg.eig(A)
    close(A.to(V.dtype) @ V, V * w.unsqueeze(-2))
    close(tt.linalg.det(A), tt.from_numpy(np.asarray(np.linalg.det(A.cpu().numpy()))), 1000)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            tt.linalg.inv,
            r"linalg.inv: {}The diagonal element 1 is zero, the inversion could not be completed",
        ),
        (
            lambda A: tt.linalg.solve(A, A),
            r"torch.linalg.solve: {}The solver failed because the input matrix is sing",
        ),
        (
            tt.linalg.cholesky,
            r"linalg.cholesky: {}The factorization could not be completed because the input is not",
        ),
    ],
)
def test_what_is_singular_is_told_of(call, message, device):
    zeros = tt.zeros(2, 2, device=device)
    with pytest.raises(tt.linalg.LinAlgError, match=message.format("")):
        call(zeros)
    with pytest.raises(tt.linalg.LinAlgError, match=message.format(r"\(Batch element 1\): ")):
        call(tt.stack([tt.eye(2, device=device), zeros]))


def test_flags_are_results_of_the_forms_that_do_not_check():
    both = tt.stack([tt.eye(2), tt.zeros(2, 2), tt.tensor([[1.0, 1.0], [1.0, 1.0]])])
    assert tt.linalg.inv_ex(both).info.tolist() == [0, 1, 2]
    assert tt.linalg.solve_ex(both, both).info.tolist() == [0, 1, 2]
    assert tt.linalg.lu_factor_ex(both).info.tolist() == [0, 1, 2]
    assert tt.linalg.cholesky_ex(both).info.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: tt.linalg.inv(tt.zeros(3, 4)),
            RuntimeError,
            "linalg.inv: A must be batches of square matrices, but t",
        ),
        (
            lambda: tt.linalg.inv(tt.zeros(3)),
            RuntimeError,
            "linalg.inv: The input tensor A must have at least 2 dimen",
        ),
        (
            lambda: tt.linalg.inv(tt.ones(2, 2).long()),
            RuntimeError,
            "linalg.inv: Expected a floating point or complex",
        ),
        (
            lambda: tt.linalg.inv(tt.zeros(2, 2).half()),
            RuntimeError,
            "linalg.inv: Low precision dtypes not supported",
        ),
        (
            lambda: tt.linalg.eigh(tt.zeros(2, 2).half()),
            NotImplementedError,
            '"linalg_eigh_cpu" not implemented for',
        ),
        (
            lambda: tt.linalg.svd(tt.full((2, 2), np.nan)),
            tt.linalg.LinAlgError,
            "input matrix contained non-finite v",
        ),
        (
            lambda: tt.linalg.eig(tt.full((2, 2), np.nan)),
            RuntimeError,
            "input tensor should not contain infs or NaNs",
        ),
        (
            lambda: tt.linalg.lu_factor(tt.eye(2), pivot=False),
            RuntimeError,
            "without pivoting is not implemented on",
        ),
        (lambda: tt.linalg.qr(tt.eye(2), "x"), RuntimeError, "qr received unrecognized mode 'x'"),
        (lambda: tt.linalg.solve(tt.eye(3), tt.zeros(4)), RuntimeError, r"AX = B \(3x3 and 4x1\)"),
        (
            lambda: tt.cdist(tt.zeros(3, 2), tt.zeros(3, 3)),
            RuntimeError,
            "X1 and X2 must have the same number of colu",
        ),
        (
            lambda: tt.cdist(tt.zeros(3, 2), tt.zeros(3, 2), p=-1),
            RuntimeError,
            "only supports non-negative p values",
        ),
    ],
)
def test_refusals_have_pytorchs_text(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("sizes", [(2, 3), (3, 2), (0, 1), (1, 0)])
def test_gradients_of_arbitrary_vectors_count_for_nothing(sizes):
    A = tt.arange(1.0 * math.prod(sizes)).reshape(sizes).requires_grad_()
    k = min(sizes)

    def gradient(U, S, Vh):
        return tt.autograd.grad((U, S, Vh), A, [tt.ones_like(x) for x in (U, S, Vh)])[0]

    U, S, Vh = tt.linalg.svd(A)
    whole = gradient(U, S, Vh)
    U, S, Vh = tt.linalg.svd(A)
    close(whole, gradient(U[:, :k], S, Vh[:k]))


def test_cubes_are_multiplied_from_the_left():
    A = tt.randn(4, 4, generator=tt.Generator().manual_seed(0)).bfloat16()
    assert tt.equal(tt.linalg.matrix_power(A, 3), A @ A @ A)


@pytest.mark.parametrize("rank", [0, 1, 2])
def test_the_gradient_of_a_singular_determinant_is_its_cofactors(rank):
    A = tt.diag(tt.tensor([2.0] * rank + [0.0] * (2 - rank), dtype=tt.float64)).requires_grad_()
    tt.linalg.det(A).backward()
    diagonal = A.detach().diagonal()
    close(A.grad, tt.diag(diagonal.flip(0)))


@pytest.mark.parametrize(
    ("values", "first", "second"),
    [
        ([[1.0, 2.0], [2.0, 4.0]], [[4.0, -2.0], [-2.0, 1.0]], [[2.0, 4.0], [4.0, 8.0]]),
        (
            [[1.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 2.0]],
            [[0.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 0.0]],
            [[8.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 4.0]],
        ),
    ],
)
def test_second_derivatives_of_a_singular_determinant(values, first, second, device):
    regular = tt.diag(tt.arange(1.0, len(values) + 1)).double()
    for batch in (tt.tensor(values).double(), tt.stack([regular, tt.tensor(values).double()])):
        A = batch.to(device).requires_grad_()
        (cofactors,) = tt.autograd.grad(tt.linalg.det(A).sum(), A, create_graph=True)
        (found,) = tt.autograd.grad((cofactors * cofactors).sum(), A)
        close(cofactors.detach().reshape(-1, *A.shape[-2:])[-1], tt.tensor(first).double())
        close(found.reshape(-1, *A.shape[-2:])[-1], tt.tensor(second).double())
    tt.autograd.gradgradcheck(tt.linalg.det, tt.tensor(values, dtype=tt.float64, requires_grad=True))


@pytest.mark.parametrize(
    ("driver", "device"),
    [*((d, "cpu") for d in (None, "gels", "gelsy", "gelsd", "gelss")), ("gels", "cuda"), ("gelsd", "cuda")],
)
@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (2, 4, 4)])
def test_least_squares(shape, driver, device):
    A, B = matrices(shape, tt.float64), matrices((*shape[:-1], 2), tt.float64, seed=5)
    solution, residuals, rank, values = tt.linalg.lstsq(A.to(device), B.to(device), driver=driver)
    wanted = tt.linalg.pinv(A) @ B
    close(solution, wanted, 1000)
    if shape == (5, 3) and driver in ("gels", "gelsd", "gelss"):
        close(residuals, ((A @ wanted - B) ** 2).sum(-2), 1000)
    if driver in ("gelsd", "gelss"):
        close(values, tt.linalg.svdvals(A))
        assert rank.tolist() == tt.linalg.matrix_rank(A).tolist()


@pytest.mark.parametrize("norm", [1e-3, 1.0, 30.0])
def test_the_exponential_is_that_of_the_eigenvalues(norm):
    A = matrices((2, 4, 4), tt.float64)
    A = (A + A.mT) * norm / 4
    values, V = tt.linalg.eigh(A)
    wanted = (V * values.exp().unsqueeze(-2)) @ V.mT
    close(tt.linalg.matrix_exp(A), wanted, 1000)
    assert bool(tt.linalg.matrix_exp(tt.full((2, 2), np.inf)).isnan().all())


@pytest.mark.parametrize("p", [0.0, 0.5, 1.0, 2.0, 3.0, np.inf])
def test_distances(p):
    x, y = matrices((2, 4, 3), tt.float64), matrices((5, 3), tt.float64, seed=6)
    wanted = [[[float(np.linalg.norm(a - b, p)) for b in y.numpy()] for a in rows] for rows in x.numpy()]
    if p == 0:
        wanted = np.full((2, 4, 5), 3.0)
    close(tt.cdist(x, y, p), tt.tensor(wanted, dtype=tt.float64) if p else tt.from_numpy(wanted))
    whole = tt.cdist(y, y, p).numpy()
    np.testing.assert_array_equal(tt.nn.functional.pdist(y, p).numpy(), whole[np.triu_indices(5, 1)])


@pytest.mark.parametrize(
    "call",
    [
        tt.linalg.inv,
        tt.linalg.det,
        lambda A: tt.linalg.solve(A, A[0]),
        lambda A: tt.linalg.solve(A, A.mT, left=False),
        lambda A: tt.linalg.svdvals(A),
        lambda A: tt.linalg.qr(A)[1].abs(),
        lambda A: tt.linalg.cholesky(A @ A.mT + tt.eye(3)),
        lambda A: tt.linalg.eigvalsh(A @ A.mT),
        lambda A: tt.linalg.pinv(A),
        lambda A: tt.linalg.solve_triangular(A, A, upper=True),
        lambda A: tt.linalg.lu_solve(*tt.linalg.lu_factor(A), A),
        lambda A: tt.linalg.matrix_exp(A),
        lambda A: tt.linalg.slogdet(A)[1],
        lambda A: tt.cdist(A, A),
    ],
)
def test_under_vmap(call):
    A = matrices((4, 3, 3), tt.float64) + 3 * tt.eye(3, dtype=tt.float64)
    close(tt.vmap(call)(A), tt.stack([call(a) for a in A]))
    close(tt.vmap(call, in_dims=2)(A.permute(1, 2, 0)), tt.stack([call(a) for a in A]))


@pytest.mark.parametrize("dtype", [tt.float16, tt.bfloat16, tt.int64])
def test_ranks_without_a_relative_tolerance_need_a_precision_to_derive_it_from(dtype):
    x = tt.ones(2, 2, dtype=dtype)
    for options in ({}, {"atol": 1.0}, {"atol": tt.ones(())}):
        with pytest.raises(RuntimeError, match="doesn't handle types other than float and double"):
            tt.linalg.matrix_rank(x, **options)


def test_resized_outputs_lie_as_the_results_do(device):
    A = tt.tensor([[4.0, 1.0, 0.0], [1.0, 3.0, 1.0], [0.0, 1.0, 2.0]], device=device)
    for solve in (tt.linalg.inv, tt.linalg.cholesky, lambda A, out: tt.linalg.solve(A, A[:, :2], out=out)):
        out = tt.empty(0, device=device)
        solve(A, out=out)
        assert out.stride() == (1, 3)
        given = tt.empty(*out.shape, device=device)
        solve(A, out=given)
        assert given.is_contiguous() and given.tolist() == out.tolist()


def test_an_output_of_reflectors_that_is_resized_is_contiguous():
    a, tau = tt.ones(2, 1, 2, 2), tt.ones(2, 1, 1)
    with pytest.warns(UserWarning, match="resized"):
        assert tt.linalg.householder_product(a, tau, out=tt.ones(1)).is_contiguous()
    assert tt.linalg.householder_product(a, tau).mT.is_contiguous()
    assert tt.linalg.householder_product(a, tau, out=tt.ones(0)).mT.is_contiguous()


BATCHES = [((n, n), (b, n, k)) for n in (1, 2, 3) for b in (1, 2, 3) for k in (1, 2, 3)]
BATCHES += [(right, left) for left, right in BATCHES if right[-1] == right[-2]] + [((2, 1, 2, 2), (2, 2, 1))]


@pytest.mark.parametrize(("square", "other"), BATCHES)
def test_solvers_broadcast_batches_as_large_as_the_matrix(square, other, rng) -> None:
    n = square[-1]
    A = rng.standard_normal(square) + 4 * np.eye(n)
    B = rng.standard_normal((*other[:-2], n, other[-1]))
    a, b = tt.from_numpy(A), tt.from_numpy(B)
    lower = np.tril(A)
    comparison.close(tt.linalg.solve_triangular(a, b, upper=False), np.linalg.solve(lower, B), rtol=1e-10)
    comparison.close(tt.triangular_solve(b, a, upper=True)[0], np.linalg.solve(np.triu(A), B), rtol=1e-10)
    whole = lower @ lower.swapaxes(-1, -2)
    comparison.close(tt.cholesky_solve(b, tt.from_numpy(lower)), np.linalg.solve(whole, B), rtol=1e-10)
    LU, pivots = tt.linalg.lu_factor(a)
    comparison.close(tt.linalg.lu_solve(LU, pivots, b), np.linalg.solve(A, B), rtol=1e-10)
    right = b.mT
    comparison.close(
        tt.linalg.solve_triangular(a, right, upper=False, left=False).mT,
        np.linalg.solve(lower.swapaxes(-1, -2), B),
        rtol=1e-10,
    )
    LD, order = tt.linalg.ldl_factor(tt.from_numpy(whole))
    comparison.close(tt.linalg.ldl_solve(LD, order, b), np.linalg.solve(whole, B), rtol=1e-10)
