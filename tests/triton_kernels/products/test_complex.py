"""Complex matmuls on CUDA, over pairs of reals, agree with complex128."""

import numpy as np
import pytest

import triten as tt
from triten.tests.shared import comparison

TOLERANCE = {tt.complex64: 2e-5, tt.complex128: 1e-12}
TRANSPOSES = [(False, False), (True, False), (False, True), (True, True)]


@pytest.fixture
def drawn(rng):
    """Return drawn(*sizes, dtype), which makes a CUDA tensor of complex normal numbers, and its values."""

    def draw(*sizes, dtype=tt.complex128):
        values = np.asarray(rng.standard_normal(sizes) + 1j * rng.standard_normal(sizes)).astype(dtype.np)
        return tt.from_numpy(values).to("cuda"), values.astype(np.complex128)

    return draw


def close(got, exact, dtype):
    assert got.dtype is dtype and got.is_cuda
    comparison.close(got, exact, TOLERANCE[dtype], 10 * TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", TOLERANCE, ids=lambda d: d.name)
@pytest.mark.parametrize("transposed", TRANSPOSES, ids=str)
@pytest.mark.parametrize("sizes", [(1, 1, 1), (5, 7, 3), (33, 17, 65), (3, 0, 4), (0, 2, 3)], ids=str)
def test_mm(drawn, launches, sizes, transposed, dtype):
    m, k, n = sizes
    a, x = drawn(*((k, m) if transposed[0] else (m, k)), dtype=dtype)
    b, y = drawn(*((n, k) if transposed[1] else (k, n)), dtype=dtype)
    if transposed[0]:
        a, x = a.t(), x.T
    if transposed[1]:
        b, y = b.t(), y.T
    before = launches.count
    close(tt.mm(a, b), x @ y, dtype)
    assert launches.count - before == (1 if m * n else 0)


@pytest.mark.parametrize("scales", [(1, 1), (2, 0.5), (0, 3), (1 + 2j, 1), (0.5j, -2j)], ids=str)
@pytest.mark.parametrize("shape", [(6,), (5, 1), (5, 6), ()], ids=str)
def test_product_sums(drawn, shape, scales):
    beta, alpha = scales
    (c, z), (a, x), (b, y) = drawn(*shape), drawn(5, 7), drawn(7, 6)
    expected = beta * z + alpha * (x @ y)
    close(tt.addmm(c, a, b, beta=beta, alpha=alpha), np.broadcast_to(expected, (5, 6)), tt.complex128)


def test_batches_vectors_and_their_sums(drawn):
    (a, x), (b, y), (v, w), (u, t) = drawn(3, 4, 5), drawn(3, 5, 6), drawn(5), drawn(4)
    close(tt.bmm(a, b), x @ y, tt.complex128)
    close(tt.bmm(a, b[:1].expand(3, 5, 6)), x @ y[:1], tt.complex128)
    close(tt.mv(a[1], v), x[1] @ w, tt.complex128)
    close(tt.addmv(u, a[1], v, beta=2j), 2j * t + x[1] @ w, tt.complex128)
    close(tt.dot(v, a[1, 2]), w @ x[1, 2], tt.complex128)
    close(tt.vdot(v, a[1, 2]), np.vdot(w, x[1, 2]), tt.complex128)
    (c, z) = drawn(4, 6)
    close(tt.addbmm(c, a, b, beta=3), 3 * z + (x @ y).sum(0), tt.complex128)
    (c, z) = drawn(3, 4, 6)
    close(tt.baddbmm(c, a, b, alpha=1j), z + 1j * (x @ y), tt.complex128)


def test_a_beta_of_zero_drops_nan_and_a_real_scale_makes_none_of_infinity(drawn):
    (a, x), (b, y) = drawn(2, 3), drawn(3, 2)
    nan = tt.from_numpy(np.full((2, 2), np.nan + 0j)).to("cuda")
    close(tt.addmm(nan, a, b, beta=0), x @ y, tt.complex128)
    old = tt.from_numpy(np.full((2, 2), complex(np.inf, 1.0))).to("cuda")
    got = tt.addmm(old, a, b, beta=2).cpu().numpy()
    assert np.isposinf(got.real).all() and np.isfinite(got.imag).all()


def test_empty_inner_sides(drawn):
    (c, z), (a, _), (b, _) = drawn(4), drawn(3, 0), drawn(0, 4)
    close(tt.addmm(c, a, b, beta=2j), np.broadcast_to(2j * z, (3, 4)), tt.complex128)
