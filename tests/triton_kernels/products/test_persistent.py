"""Matmuls by tensor descriptors agree with float64 for every operand layout."""

import numpy as np
import pytest

import triten as tt
from triten.triton_kernels.products import bulk, repacked
from triten.triton_kernels.products.problem import Matrices

ROUNDING = {tt.float16: 2.0**-11, tt.bfloat16: 2.0**-8}
"""The relative error of one rounding to nearest, half a unit in the last place."""
TRANSPOSES = [(False, False), (True, False), (False, True), (True, True)]


@pytest.fixture
def drawn(rng):
    """Return drawn(*sizes, dtype), which makes a CUDA tensor of normal numbers, and its values in float64."""

    def draw(*sizes, dtype=tt.float16):
        host = tt.from_numpy(rng.standard_normal(sizes).astype(np.float32)).to(dtype)
        return host.to("cuda"), host.to(tt.float64).numpy()

    return draw


def close(got, exact, magnitude, k):
    """Assert that a result differs from the exact one only by its rounding and that of float32 sums."""
    bound = ROUNDING[got.dtype] * np.abs(exact) + 2.0**-23 * (k + 4) * magnitude + 2.0**-24
    error = np.abs(got.cpu().to(tt.float64).numpy() - exact)
    assert (error <= bound).all(), f"{error.max()} of {bound.min()}"


def stored(tensor, values, transposed):
    """Exchange a matrix's last two dimensions without a copy, if `transposed`."""
    if not transposed:
        return tensor, values
    return tensor.transpose(-1, -2), values.swapaxes(-1, -2)


@pytest.mark.parametrize("dtype", ROUNDING, ids=lambda d: d.name)
@pytest.mark.parametrize("transposed", TRANSPOSES, ids=str)
@pytest.mark.parametrize("size", [(8, 8, 8), (24, 16, 40), (264, 136, 136), (65, 129, 72)], ids=str)
def test_mm(drawn, kernels, size, transposed, dtype):
    m, k, n = ((side + 7) // 8 * 8 for side in size)
    a, x = drawn(*((k, m) if transposed[0] else (m, k)), dtype=dtype)
    b, y = drawn(*((n, k) if transposed[1] else (k, n)), dtype=dtype)
    a, x = stored(a, x, transposed[0])
    b, y = stored(b, y, transposed[1])
    close(tt.mm(a, b), x @ y, np.abs(x) @ np.abs(y), k)
    assert kernels == ["matmul_persistent"]


def test_rows_of_the_output_that_are_no_whole_vectors_are_stored_by_pointers(drawn, kernels):
    (a, x), (w, y) = drawn(40, 64), drawn(37, 64)
    close(tt.mm(a, w.t()), x @ y.T, np.abs(x) @ np.abs(y.T), 64)
    assert kernels == ["matmul_persistent"]


@pytest.mark.parametrize("layout", ["batches", "left expanded", "right expanded", "interleaved", "one"])
@pytest.mark.parametrize("transposed", TRANSPOSES, ids=str)
def test_bmm(drawn, kernels, layout, transposed):
    z, m, k, n = (1 if layout == "one" else 3), 24, 32, 16
    left, right = (k, m) if transposed[0] else (m, k), (n, k) if transposed[1] else (k, n)
    if layout == "interleaved":
        (a, x), (b, y) = drawn(left[0], z, left[1]), drawn(right[0], z, right[1])
        a, x, b, y = a.transpose(0, 1), x.swapaxes(0, 1), b.transpose(0, 1), y.swapaxes(0, 1)
    else:
        (a, x), (b, y) = drawn(z, *left), drawn(z, *right)
    if layout == "left expanded":
        a, x = a[:1].expand(z, *left), np.broadcast_to(x[:1], x.shape)
    if layout == "right expanded":
        b, y = b[:1].expand(z, *right), np.broadcast_to(y[:1], y.shape)
    a, x = stored(a, x, transposed[0])
    b, y = stored(b, y, transposed[1])
    close(tt.bmm(a, b), x @ y, np.abs(x) @ np.abs(y), k)
    assert kernels == ["matmul_persistent"]


@pytest.mark.parametrize("shape", [(16,), (24, 16), (1, 16), (24, 1), (1, 1), ()], ids=str)
@pytest.mark.parametrize("scales", [(1, 1), (2.5, -0.5), (0, 3), (-1, 0)], ids=str)
def test_addmm(drawn, kernels, shape, scales):
    beta, alpha = scales
    (c, z), (a, x), (b, y) = drawn(*shape), drawn(24, 32), drawn(32, 16)
    got = tt.addmm(c, a, b, beta=beta, alpha=alpha)
    magnitude = abs(alpha) * (np.abs(x) @ np.abs(y)) + abs(beta) * np.abs(z)
    close(got, alpha * (x @ y) + beta * z, magnitude, 32)
    by_columns = shape == (24, 1) or shape == ()
    assert kernels in (["matmul_persistent"], ["matmul"]) and (by_columns or kernels[0] != "matmul")


def test_an_addend_that_is_the_output_too(drawn, kernels):
    (c, z), (a, x), (b, y) = drawn(264, 136), drawn(264, 72), drawn(72, 136)
    assert c.addmm_(a, b, beta=0.5) is c
    close(c, x @ y + 0.5 * z, np.abs(x) @ np.abs(y) + np.abs(z), 72)
    assert kernels == ["matmul_persistent"]


def test_baddbmm(drawn, kernels):
    (c, z), (a, x), (b, y) = drawn(2, 24, 16), drawn(2, 24, 32), drawn(2, 32, 16)
    close(tt.baddbmm(c, a, b, alpha=2), 2 * (x @ y) + z, 2 * (np.abs(x) @ np.abs(y)) + np.abs(z), 32)
    (row, z) = drawn(2, 1, 16)
    close(tt.baddbmm(row, a, b), x @ y + z, np.abs(x) @ np.abs(y) + np.abs(z), 32)
    assert kernels == ["matmul_persistent"] * 2


@pytest.mark.parametrize("dtype", ROUNDING, ids=lambda d: d.name)
@pytest.mark.parametrize("m", [2, 33, 80])
def test_few_tiles_are_cut_into_parts_that_are_added_in_order(drawn, kernels, m, dtype):
    (c, z), (a, x), (b, y) = drawn(40, dtype=dtype), drawn(m, 1096, dtype=dtype), drawn(40, 1096, dtype=dtype)
    got = tt.addmm(c, a, b.t(), beta=2, alpha=0.5)
    close(got, 0.5 * (x @ y.T) + 2 * z, np.abs(x) @ np.abs(y.T) + 2 * np.abs(z), 1096)
    assert kernels == (["matmul_stream_k"] if m <= 64 else ["matmul_persistent", "add_parts"])
    again = tt.addmm(c, a, b.t(), beta=2, alpha=0.5)
    assert tt.equal(got.cpu(), again.cpu())


def test_operands_off_their_vectors_take_the_way_through_pointers(drawn, kernels):
    a, x = drawn(24 * 32 + 1)
    b, y = drawn(32, 16)
    close(tt.mm(a[:-1].view(24, 32), b), x[:-1].reshape(24, 32) @ y, np.abs(x).max() * np.abs(y).sum(0), 32)
    kernels.clear()
    close(tt.mm(a[1:].view(24, 32), b), x[1:].reshape(24, 32) @ y, np.abs(x).max() * np.abs(y).sum(0), 32)
    assert kernels == ["matmul"]


@pytest.mark.parametrize("at", [(0, 0), (3, 5), (23, 31)], ids=str)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf], ids=str)
def test_what_is_not_finite_stays_in_its_row(drawn, value, at):
    (a, x), (b, y) = drawn(24, 32), drawn(32, 16)
    a[at], x[at] = value, value
    expected = x @ y
    got = tt.mm(a, b).cpu().to(tt.float64).numpy()
    assert np.array_equal(np.isfinite(got), np.isfinite(expected))
    assert np.array_equal(got[at[0]], expected[at[0]], equal_nan=True)


def test_a_beta_of_zero_drops_what_is_not_finite(drawn):
    (a, x), (b, y) = drawn(24, 32), drawn(32, 16)
    c = tt.full((24, 16), float("nan"), dtype=tt.float16, device="cuda")
    close(tt.addmm(c, a, b, beta=0), x @ y, np.abs(x) @ np.abs(y), 32)


@pytest.mark.parametrize("beta", [0, 2])
def test_an_inner_side_of_nothing(drawn, beta):
    c, _ = drawn(24, 16)
    a, b = (tt.empty(*sizes, dtype=tt.float16, device="cuda") for sizes in ((24, 0), (0, 16)))
    assert tt.equal(tt.addmm(c, a, b, beta=beta).cpu(), (beta * c).cpu())
    assert np.count_nonzero(tt.mm(a, b).cpu().numpy()) == 0


@pytest.mark.parametrize("transposed", TRANSPOSES, ids=str)
def test_large_products_of_odd_lines_are_repacked(drawn, kernels, transposed, monkeypatch):
    monkeypatch.setattr(repacked, "MIN_WORK", 0)
    m, k, n = 129, 37, 131
    a, x = drawn(*((k, m) if transposed[0] else (m, k)))
    b, y = drawn(*((n, k) if transposed[1] else (k, n)))
    a, x = stored(a, x, transposed[0])
    b, y = stored(b, y, transposed[1])
    close(tt.mm(a, b), x @ y, np.abs(x) @ np.abs(y), k)
    assert kernels[-1] == "matmul_persistent" and len(kernels) == 3
    kernels.clear()
    with_one, z = drawn(n)
    close(tt.addmm(with_one, a, b), x @ y + z, np.abs(x) @ np.abs(y) + np.abs(z), k)
    assert kernels[-1] == "matmul_persistent"


def test_batches_of_odd_lines_are_repacked_and_expanded_ones_once(drawn, kernels, monkeypatch):
    monkeypatch.setattr(repacked, "MIN_WORK", 0)
    (a, x), (b, y) = drawn(2, 128, 33), drawn(1, 33, 136)
    b, y = b.expand(2, 33, 136), np.broadcast_to(y, (2, 33, 136))
    close(tt.bmm(a, b), x @ y, np.abs(x) @ np.abs(y), 33)
    assert kernels[-1] == "matmul_persistent" and len(kernels) == 2


@pytest.mark.parametrize("rows, columns", [(1, 300), (300, 1), (1, 1)])
@pytest.mark.parametrize("transposed", TRANSPOSES, ids=str)
@pytest.mark.parametrize("dtype", [tt.float16, tt.bfloat16], ids=lambda d: d.name)
def test_a_row_or_a_column_is_a_product_with_a_vector(drawn, kernels, rows, columns, transposed, dtype):
    k = 33
    a, x = drawn(*((k, rows) if transposed[0] else (rows, k)), dtype=dtype)
    b, y = drawn(*((columns, k) if transposed[1] else (k, columns)), dtype=dtype)
    (c, z), (d, w) = drawn(1, columns, dtype=dtype), drawn(rows, 1, dtype=dtype)
    a, x = stored(a, x, transposed[0])
    b, y = stored(b, y, transposed[1])
    magnitude = np.abs(x) @ np.abs(y)
    close(tt.mm(a, b), x @ y, magnitude, k)
    close(tt.addmm(c, a, b, beta=2, alpha=3), 3 * (x @ y) + 2 * z, 3 * magnitude + 2 * np.abs(z), k)
    close(tt.addmm(d, a, b, beta=0.5), x @ y + 0.5 * w, magnitude + np.abs(w), k)
    close(tt.bmm(a[None], b[None]), (x @ y)[None], magnitude[None], k)
    assert set(kernels) == {"matvec"}


@pytest.fixture
def tf32():
    tt.backends.cuda.matmul.allow_tf32 = True
    yield
    tt.backends.cuda.matmul.allow_tf32 = False


@pytest.mark.parametrize("transposed", TRANSPOSES, ids=str)
def test_tf32_is_taken_from_the_next_call_on(drawn, kernels, transposed):
    a, x = drawn(*((36, 24) if transposed[0] else (24, 36)), dtype=tt.float32)
    b, y = drawn(*((40, 36) if transposed[1] else (36, 40)), dtype=tt.float32)
    a, x = stored(a, x, transposed[0])
    b, y = stored(b, y, transposed[1])
    exact, magnitude = x @ y, np.abs(x) @ np.abs(y)

    def error():
        return (np.abs(tt.mm(a, b).cpu().to(tt.float64).numpy() - exact) / magnitude).max()

    assert error() < 1e-6
    for allowed in (True, False, True):
        try:
            tt.backends.cuda.matmul.allow_tf32 = allowed
            assert error() < (2.0**-9 if allowed else 1e-6)
        finally:
            tt.backends.cuda.matmul.allow_tf32 = False
    assert kernels == ["matmul", "matmul_persistent", "matmul", "matmul_persistent"]


def test_tf32_with_an_addend_in_parts_and_through_pointers(drawn, kernels, tf32):
    for rows in (8, 72):
        (c, z), (a, x), (b, y) = (
            drawn(*sizes, dtype=tt.float32) for sizes in ((16,), (rows, 1100), (16, 1100))
        )
        got = tt.addmm(c, a, b.t()).cpu().to(tt.float64).numpy()
        assert (np.abs(got - x @ y.T - z) <= 2.0**-9 * (np.abs(x) @ np.abs(y.T) + np.abs(z))).all()
    (a, x), (b, y) = drawn(24, 35, dtype=tt.float32), drawn(35, 17, dtype=tt.float32)
    got = tt.mm(a, b).cpu().to(tt.float64).numpy()
    assert (np.abs(got - x @ y) <= 2.0**-9 * (np.abs(x) @ np.abs(y))).all()
    assert kernels == ["matmul_stream_k", "matmul_persistent", "add_parts", "matmul"]


@pytest.mark.parametrize("transposed", TRANSPOSES, ids=str)
def test_tf32_operands_across_the_inner_side_are_turned_over_once(
    drawn, kernels, tf32, transposed, monkeypatch
):
    """Transpose TF32 operands once; otherwise warpgroups would transpose them in each tile."""
    monkeypatch.setattr(repacked, "MIN_WORK", 0)
    a, x = drawn(*((40, 132) if transposed[0] else (132, 40)), dtype=tt.float32)
    b, y = drawn(*((136, 40) if transposed[1] else (40, 136)), dtype=tt.float32)
    a, x = stored(a, x, transposed[0])
    b, y = stored(b, y, transposed[1])
    got = tt.mm(a, b).cpu().to(tt.float64).numpy()
    assert (np.abs(got - x @ y) <= 2.0**-9 * (np.abs(x) @ np.abs(y))).all()
    assert kernels[-1] == "matmul_persistent" and len(kernels) == 1 + transposed[0] + (not transposed[1])


@pytest.mark.parametrize(
    "sizes, strides, found",
    [
        ((1, 5, 16), (0, 16, 1), (False, False)),
        ((1, 5, 16), (0, 24, 1), (False, False)),
        ((1, 16, 5), (0, 1, 16), (True, False)),
        ((4, 5, 16), (80, 16, 1), (False, True)),
        ((4, 5, 16), (0, 16, 1), (False, False)),  # expanded: one matrix for all
        ((4, 5, 16), (16, 64, 1), (False, True)),  # batches between the rows
        ((1, 1, 7), (0, 3, 1), (False, False)),  # one line may be of any length
        ((1, 5, 17), (0, 17, 1), None),
        ((1, 5, 16), (0, 32, 2), None),
        ((4, 5, 16), (81, 16, 1), None),
        ((1, 5, 16), (0, 0, 1), None),  # rows that are one row
    ],
    ids=str,
)
def test_which_operands_a_map_describes(sizes, strides, found):
    description = bulk.describe(Matrices(sizes, strides, tt.float16))
    assert (description and (description.transposed, description.batched)) == found
    if description is not None:
        assert all(stride * 2 % 16 == 0 for stride in description.tensor.strides[:-1])
