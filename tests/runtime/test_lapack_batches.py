"""Batched CPU linear algebra agrees with the loop over matrices, for every algorithm, and reports each
failure.
"""

import itertools

import numpy as np
import pytest

import triten as tt
from triten.runtime import batched_lapack, lapack

DTYPES = ["f", "d", "F", "D"]
BATCH = 30


def numbers(*shape: int, dtype: str, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    made = random.standard_normal(shape)
    return (made + 1j * random.standard_normal(shape) if dtype in "FD" else made).astype(dtype)


def in_columns(a: np.ndarray) -> np.ndarray:
    return np.array(a.swapaxes(-1, -2), order="C").swapaxes(-1, -2)


def both_ways(monkeypatch: pytest.MonkeyPatch, run) -> list:
    """Return the results in batch and matrix by matrix through SciPy alone."""
    found = []
    for at_once in (True, False):
        with monkeypatch.context() as patch:
            patch.setattr(batched_lapack, "in_steps_pays", lambda *_, way=at_once: way)
            if not at_once:
                patch.setattr(batched_lapack, "by_loop_in_c", lambda *_, **__: None)
            found.append(run())
    return found


def assert_close(a: np.ndarray, b: np.ndarray, factor: float = 50) -> None:
    bound = factor * np.finfo(b.dtype).eps * max(1.0, np.abs(b).max(initial=0))
    np.testing.assert_allclose(a, b, rtol=0, atol=bound)


def test_numpy_has_the_loops() -> None:
    for name in (
        *("cholesky_lo", "cholesky_up", "eigh_lo", "eigh_up", "eigvalsh_lo", "eigvalsh_up", "eig", "eigvals"),
        *("svd", "svd_f", "svd_s", "qr_r_raw", "qr_reduced", "qr_complete"),
    ):
        assert hasattr(np.linalg._umath_linalg, name)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 1), (3, 3), (5, 3), (3, 5)])
def test_lu(shape: tuple[int, int], dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    a = numbers(BATCH, *shape, dtype=dtype)
    a[3], a[4, :, 0] = 0, 0

    def run():
        lu, pivots, info = in_columns(a), np.zeros((BATCH, min(shape)), np.int32), np.zeros(BATCH, np.int32)
        lapack.getrf(lu, pivots, info)
        return lu, pivots, info

    (lu, pivots, info), (wanted, order, flags) = both_ways(monkeypatch, run)
    assert_close(lu, wanted)
    np.testing.assert_array_equal(pivots, order)
    np.testing.assert_array_equal(info, flags)
    assert info[3] == 1 and info[4] > 0 and not info[5:].any()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("transpose", ["N", "T", "C"])
def test_equations(transpose: str, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = numbers(BATCH, 4, 4, dtype=dtype), numbers(BATCH, 4, 2, dtype=dtype, seed=1)

    def run():
        lu, pivots, x = in_columns(a), np.zeros((BATCH, 4), np.int32), in_columns(b)
        lapack.getrf(lu, pivots, np.zeros(BATCH, np.int32))
        lapack.getrs(lu, pivots, x, transpose)
        return x

    one, other = both_ways(monkeypatch, run)
    assert_close(one, other, 2000)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("left", "upper", "unit"), list(itertools.product((True, False), repeat=3)))
def test_triangular_equations(
    left: bool, upper: bool, unit: bool, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = numbers(BATCH, 4, 4, dtype=dtype), numbers(BATCH, 4, 2, dtype=dtype, seed=1)
    for transpose in "NTC":

        def substitute(transpose=transpose):
            x = in_columns(b if left else b.swapaxes(-1, -2))
            lapack.trsm(in_columns(a + 3 * np.eye(4, dtype=dtype)), x, left, upper, transpose, unit)
            return x

        assert_close(*both_ways(monkeypatch, substitute), 500)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("upper", [False, True])
def test_cholesky_tells_of_each_matrix(upper: bool, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    a = numbers(2, 3, 4, 4, dtype=dtype)
    a = a @ a.conj().swapaxes(-1, -2) + np.eye(4, dtype=dtype)
    a[0, 1, 2, 2], a[1, 0, 0, 0], a[1, 2, 1, 1] = -9, 0, np.nan

    def run():
        factor, info = in_columns(a), np.zeros((2, 3), np.int32)
        lapack.potrf(factor, upper, info)
        return factor, info

    (one, flags), (other, wanted) = both_ways(monkeypatch, run)
    np.testing.assert_array_equal(flags, [[0, 3, 0], [1, 0, 2]])
    np.testing.assert_array_equal(flags, wanted)
    good = flags == 0
    assert_close(one[good], other[good])
    np.testing.assert_array_equal(np.isnan(one), np.isnan(other))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("shape", "columns"), [((1, 1), 1), ((3, 3), 3), ((5, 3), 3), ((5, 3), 5), ((3, 5), 3)]
)
def test_orthogonal_factors(
    shape: tuple[int, int], columns: int, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    a = numbers(BATCH, *shape, dtype=dtype)

    def run():
        packed, tau = in_columns(a), np.zeros((BATCH, min(shape)), dtype)
        lapack.geqrf(packed, tau)
        q = in_columns(np.zeros((BATCH, shape[0], columns), dtype))
        shared = min(columns, shape[1])
        q[..., :shared] = packed[..., :shared]
        lapack.orgqr(q, tau)
        return packed, tau, q

    for one, other in zip(*both_ways(monkeypatch, run), strict=True):
        assert_close(one, other)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("vectors", [True, False])
@pytest.mark.parametrize("other", [True, False])
def test_values_and_vectors(other: bool, vectors: bool, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compute values and vectors; `other` is the upper triangle of Hermitian matrices, or all bases of
    others.
    """
    a = numbers(5, 4, 3, dtype=dtype)
    square = a[:, :3]
    real, wide = dtype.lower(), {"f": "F", "d": "D"}.get(dtype, dtype)

    def hermitian():
        v, w = in_columns(square + square.conj().swapaxes(-1, -2)), np.zeros((5, 3), real)
        lapack.syevd(v, w, vectors, other, np.zeros(5, np.int32))
        return (w, (v * w[:, None]) @ v.conj().swapaxes(-1, -2)) if vectors else (w,)

    def singular():
        side = (4, 4) if other else (4, 3)
        u, s, vh = np.zeros((5, *side), dtype), np.zeros((5, 3), real), np.zeros((5, 3, 3), dtype)
        lapack.gesvd(in_columns(a), u, s, vh, other, vectors, np.zeros(5, np.int32))
        return (s, (u[..., :3] * s[:, None]) @ vh) if vectors else (s,)

    def general():
        w, v = np.zeros((5, 3), wide), np.zeros((5, 3, 3), wide)
        lapack.geev(in_columns(square), w, v, vectors, np.zeros(5, np.int32))
        return (np.sort(np.abs(w), -1), np.sort(np.abs(v), -1)) if vectors else (np.sort(np.abs(w), -1),)

    for run in (hermitian, singular, general):
        for one, two in zip(*both_ways(monkeypatch, run), strict=True):
            assert_close(one, two, 500)


@pytest.mark.parametrize("batch", [(40,), (4, 10), (3,)])
def test_an_error_names_the_matrix(batch: tuple[int, ...]) -> None:
    A = tt.from_numpy(numbers(*batch, 3, 3, dtype="d"))
    whole = A @ A.mT + tt.eye(3, dtype=tt.float64)
    bad = whole.clone()
    bad.view(-1, 3, 3)[2] = 0
    for call, text in (
        (tt.linalg.inv, r"linalg.inv: \(Batch element 2\): The diagonal element 1 is zero"),
        (lambda x: tt.linalg.solve(x, x), r"torch.linalg.solve: \(Batch element 2\)"),
        (tt.linalg.cholesky, r"linalg.cholesky: \(Batch element 2\)"),
    ):
        assert call(whole).shape == (*batch, 3, 3)
        with pytest.raises(tt.linalg.LinAlgError, match=text):
            call(bad)
    assert tt.linalg.inv_ex(bad).info.flatten().tolist() == [int(i == 2) for i in range(A.numel() // 9)]
    assert tt.linalg.det(bad).flatten()[2].item() == 0
    mirrored = tt.linalg.inv(whole.mT.flip(-3).mT)
    assert tt.allclose(mirrored.flip(-3) @ whole, tt.eye(3, dtype=tt.float64).expand(*batch, 3, 3))


@pytest.mark.parametrize("driver", ["gels", "gelsy", "gelsd", "gelss"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_least_squares_of_what_is_not_finite_ends(value: float, driver: str) -> None:
    a, b = numbers(3, 4, 2, dtype="d"), numbers(3, 4, 1, dtype="d", seed=1)
    a[1, 2, 0] = value
    with pytest.raises(RuntimeError, match=r"torch.linalg.lstsq: \(Batch element 1\): .* non-finite"):
        tt.linalg.lstsq(tt.from_numpy(a), tt.from_numpy(b), driver=driver)


def test_singular_values_beside_infinity() -> None:
    a = numbers(3, 4, 2, dtype="d")
    a[1, 2, 0] = np.inf
    A = tt.from_numpy(a)
    wanted = np.linalg.svd(a[[0, 2]], compute_uv=False)
    values = tt.linalg.svdvals(A).numpy()
    np.testing.assert_allclose(values[[0, 2]], wanted)
    assert np.isnan(values[1]).all()
    assert tt.linalg.svd(A).U[1].isnan().all()
    assert tt.linalg.matrix_rank(A).tolist() == [2, 0, 2]
    assert tt.linalg.pinv(A).isnan().flatten(1).any(1).tolist() == [False, True, False]
    assert tt.linalg.cond(A).isnan().tolist() == [False, True, False]
    a[2, 0, 0] = np.nan
    with pytest.raises(tt.linalg.LinAlgError, match=r"\(Batch element 2\): .* non-finite values"):
        tt.linalg.svdvals(tt.from_numpy(a))


def test_the_unread_triangle_of_ldl_is_zero() -> None:
    a = numbers(2, 3, 3, dtype="d")
    for device in ("cpu", "cuda"):
        LD, _ = tt.linalg.ldl_factor(tt.from_numpy(a + a.swapaxes(-1, -2)).to(device))
        assert not LD.triu(1).any()


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (
            lambda: tt.linalg.norm(tt.zeros(2, 0), -2, -1),
            RuntimeError,
            "the -2 norm on the dimension -1",
        ),
        (
            lambda: tt.linalg.norm(tt.zeros(2), "nuc", -1),
            RuntimeError,
            "linalg.matrix_norm: The input tensor A must have at least 2 dimensions",
        ),
        (lambda: tt.linalg.matrix_norm(tt.zeros(2, 0), -2), IndexError, "Expected reduction dim -1"),
        (lambda: tt.linalg.cond(tt.zeros(2, 0), "fro"), RuntimeError, "must be batches of square"),
        (
            *(lambda: tt.linalg.solve(tt.ones(2, 1, 1), tt.ones(3, 1, 1)), RuntimeError),
            r"tensor a \(3\) must match the size of tensor b \(2\)",
        ),
    ],
)
def test_refusals(call, kind, text) -> None:
    with pytest.raises(kind, match=text):
        call()


def test_the_condition_of_nothing_is_zero() -> None:
    assert tt.linalg.cond(tt.zeros(2, 0, 3), 1).tolist() == [0.0, 0.0]
