"""The exponential of matrices: against float64's and the eigenvalues', at every degree, in batches of all of them."""

import numpy as np
import pytest

import triten as tt

NORMS = [1e-20, 1e-9, 1e-6, 1e-4, 1e-2, 0.2, 0.5, 1.0, 2.0, 5.0, 40.0]
"""From the polynomial of degree 1 to six squares, in float32 and in float64."""


def anywhere(n: int, norms: list[float], is_complex: bool, seed: int = 0) -> np.ndarray:
    """Return matrices with the given 1-norms."""
    random = np.random.default_rng(seed)
    A = random.standard_normal((len(norms), n, n))
    if is_complex:
        A = A + 1j * random.standard_normal(A.shape)
    return A * (np.array(norms) / np.abs(A).sum(-2).max(-1))[:, None, None]


def by_series(A: np.ndarray) -> np.ndarray:
    """Compute the exponential in extended precision: the series of a scaled-down matrix, repeatedly squared."""
    wide = np.clongdouble if A.dtype.kind == "c" else np.longdouble
    halvings = 12
    scaled = A.astype(wide) / 2**halvings
    term = np.broadcast_to(np.eye(A.shape[-1], dtype=wide), A.shape)
    total = term.copy()
    for k in range(1, 20):
        term = term @ scaled / k
        total = total + term
    for _ in range(halvings):
        total = total @ total
    return total.astype(np.complex128 if A.dtype.kind == "c" else np.float64)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, np.complex128])
def test_a_batch_of_all_degrees(dtype: type, device: str) -> None:
    norms = NORMS if device == "cpu" else [1e-20, 0.2, 40.0]
    A = anywhere(4 if device == "cpu" else 2, norms, np.dtype(dtype).kind == "c")[::-1].astype(dtype)
    made = tt.linalg.matrix_exp(tt.from_numpy(A.copy()).to(device)).cpu().numpy()
    assert made.dtype == dtype
    wanted = by_series(A)
    error = np.abs(made - wanted).max((-1, -2)) / np.abs(wanted).max((-1, -2))
    assert (error <= np.finfo(dtype).eps * 8 * np.maximum(1, A.shape[-1] * np.array(norms[::-1]))).all()
    if device == "cpu":
        one_by_one = [tt.linalg.matrix_exp(tt.from_numpy(a.copy())).numpy() for a in A]
        np.testing.assert_allclose(
            made, np.stack(one_by_one), rtol=0, atol=np.finfo(dtype).eps * np.abs(made).max()
        )


@pytest.mark.parametrize("degree", [2, 4, 8, 12, 18])
def test_polynomials_are_those_of_the_series(degree: int) -> None:
    from triten.dispatch.composite import matrix_exponential as made

    polynomial = {
        2: made._degree_2,
        4: made._degree_4,
        8: made._degree_8,
        12: made._degree_12,
        18: made._degree_18,
    }
    # The powers of a nilpotent shift are the upper diagonals: every coefficient appears in the first row.
    shift = tt.from_numpy(np.eye(21, k=1)[None])
    wanted = [1 / np.prod(np.arange(1.0, k + 1)) if k <= degree else 0.0 for k in range(21)]
    np.testing.assert_allclose(polynomial[degree](shift).numpy()[0, 0], wanted, rtol=2e-12, atol=1e-30)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_spoils_its_matrix_alone(value: float) -> None:
    A = anywhere(3, [1e-9, 5.0, 1.0, 0.1, 30.0], False)
    good = tt.linalg.matrix_exp(tt.from_numpy(A.copy())).numpy()
    A[2, 0, 1] = value
    made = tt.linalg.matrix_exp(tt.from_numpy(A)).numpy()
    assert np.isnan(made[2]).all()
    np.testing.assert_array_equal(made[[0, 1, 3, 4]], good[[0, 1, 3, 4]])


def test_shapes_and_layouts() -> None:
    A = tt.from_numpy(anywhere(3, [1.0] * 6, False).reshape(2, 3, 3, 3))
    assert tt.equal(tt.linalg.matrix_exp(A.mT), tt.linalg.matrix_exp(A.mT.contiguous()))
    assert tt.allclose(tt.linalg.matrix_exp(A.mT).mT, tt.linalg.matrix_exp(A))
    assert tt.linalg.matrix_exp(A).shape == (2, 3, 3, 3)
    assert tt.linalg.matrix_exp(tt.zeros(2, 0, 0)).shape == (2, 0, 0)
    assert tt.linalg.matrix_exp(tt.zeros(0, 3, 3)).shape == (0, 3, 3)
    assert tt.linalg.matrix_exp(tt.full((2, 1, 1), 2.0)).flatten().tolist() == pytest.approx([np.exp(2)] * 2)
    assert tt.linalg.matrix_exp(tt.eye(2, dtype=tt.bfloat16))[0, 0].item() == 2.71875


@pytest.mark.parametrize("is_complex", [False, True])
def test_derivatives(is_complex: bool) -> None:
    for norm in (1e-3, 0.7, 6.0):
        A = tt.from_numpy(anywhere(3, [norm], is_complex)[0]).requires_grad_()
        if not is_complex:
            assert tt.autograd.gradcheck(tt.linalg.matrix_exp, (A,), check_forward_ad=True)
            assert tt.autograd.gradgradcheck(tt.linalg.matrix_exp, (A * 1).detach().requires_grad_())
        direction = tt.from_numpy(anywhere(3, [1.0], is_complex, seed=1)[0])
        step = 1e-6
        plus, minus = (tt.linalg.matrix_exp(A.detach() + s * step * direction) for s in (1, -1))
        wanted = (plus - minus) / (2 * step)
        _, tangent = tt.func.jvp(tt.linalg.matrix_exp, (A.detach(),), (direction,))
        assert tt.allclose(tangent, wanted, rtol=1e-6, atol=1e-7)
        seed = tt.from_numpy(anywhere(3, [1.0], is_complex, seed=2)[0])
        (gradient,) = tt.autograd.grad(tt.linalg.matrix_exp(A), A, seed)
        change = (gradient.conj() * direction).sum()
        assert tt.allclose(change, (seed.conj() * tangent).sum())
