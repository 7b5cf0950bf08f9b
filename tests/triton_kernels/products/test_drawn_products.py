"""Matmuls of random sizes, layouts and scales with small tiles agree with float64; former failures run by
name.
"""

import math

import numpy as np
import pytest

import triten as tt
from triten.runtime.cuda.driver import driver
from triten.triton_kernels import launch
from triten.triton_kernels.budget import Configuration
from triten.triton_kernels.products import bulk, matmul, matvec, repacked
from triten.triton_kernels.products.product import Tiling

ROUNDING = {
    tt.float16: 2.0**-10,
    tt.bfloat16: 2.0**-7,
    tt.float32: 2.0**-23,
    tt.float64: 2.0**-52,
    tt.complex64: 2.0**-22,
}
DTYPES = (*ROUNDING, tt.int8, tt.int64)
SIDES = (0, 1, 2, 3, 8, 17, 31, 33, 40, 64)


class Drawn:
    """Generator of random tensors on the device, with their values."""

    def __init__(self, rng):
        self.rng = rng

    def one(self, *choices):
        return choices[self.rng.integers(len(choices))]

    def values(self, sizes, dtype):
        if dtype.is_complex:
            return self.rng.standard_normal(sizes) + 1j * self.rng.standard_normal(sizes)
        if dtype.is_floating_point:
            return self.rng.standard_normal(sizes)
        return self.rng.integers(-20, 20, sizes).astype(np.float64)

    def tensor(self, dtype, *sizes):
        """Return a tensor of any dimension order, gaps, steps, expanded dimensions and offsets, with NaN in
        the gaps.
        """
        expanded = [size if self.rng.random() > 0.1 else min(size, 1) for size in sizes]
        order = list(self.rng.permutation(len(sizes)))
        steps = [self.one(1, 1, 1, 2) for _ in sizes]
        gap = self.one(0, 0, 1, 8)
        kept = [expanded[i] for i in order]
        whole = [size * step + gap for size, step in zip(kept, steps, strict=True)]
        offset = self.one(0, 0, 1, 8)
        between = float("nan") if dtype.is_floating_point or dtype.is_complex else 7
        memory = np.full(
            offset + math.prod(whole), between, np.complex128 if dtype.is_complex else np.float64
        )
        cut = tuple(slice(0, size * step, step) for size, step in zip(kept, steps, strict=True))
        memory[offset:].reshape(whole)[cut] = self.values(kept, dtype)
        tensor = tt.from_numpy(memory).to(dtype).to("cuda")[offset:].view(*whole)[cut]
        tensor = tensor.permute(*(order.index(i) for i in range(len(sizes)))).expand(*sizes)
        return tensor, wide(tensor)


def wide(tensor):
    dtype = tensor.dtype
    to = tt.complex128 if dtype.is_complex else tt.float64 if dtype.is_floating_point else tt.int64
    return tensor.cpu().to(to).numpy()


@pytest.fixture
def drawn(monkeypatch, rng):
    """Return random tensors, and use tiles small enough that matmuls have several in each direction."""
    made = Drawn(rng)
    side, inner = made.one(16, 32), made.one(16, 32)

    def configuration(problem):
        return Configuration((side, made.one(16, 32), max(inner, 32 // problem.left.dtype.itemsize)), 4, 1, 1)

    monkeypatch.setattr(bulk, "for_interpreter", configuration)
    monkeypatch.setattr(matmul, "tiling", lambda *_, **__: Tiling(side, made.one(16, 32), 16, 4, 1))
    monkeypatch.setattr(matvec, "tile_for", lambda *_: (made.one(8, 32), made.one(16, 64)))
    monkeypatch.setattr(repacked, "MIN_WORK", made.one(0, 1 << 24))
    monkeypatch.setattr(repacked, "MIN_USES", 1)
    return made


def close(got, exact, magnitude, terms):
    dtype = got.dtype
    if not (dtype.is_floating_point or dtype.is_complex):
        np.testing.assert_array_equal(wide(got), exact.astype(dtype.np).astype(np.int64))
        return
    sums = 2.0**-49 if dtype is tt.float64 else 2.0**-21
    bound = ROUNDING[dtype] * np.abs(exact) + sums * (terms + 4) * magnitude + 2.0**-24
    error = np.abs(wide(got) - exact)
    assert got.shape == exact.shape and (error <= bound).all(), f"{error.max()}"


@pytest.mark.parametrize("limit", [2**31 - 1, 40], ids=["32 bits", "64 bits"])
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.name)
def test_drawn_products(drawn, monkeypatch, dtype, limit):
    monkeypatch.setattr(launch, "INT32_MAX", limit)
    for _ in range(3):
        m, n, k, z = drawn.one(*SIDES), drawn.one(*SIDES), drawn.one(*SIDES, 300), drawn.one(1, 2, 3)
        m, n = drawn.one((m, n), (m, n), (1, n), (m, 1))
        batched = drawn.one(False, True)
        lead = (z,) if batched else ()
        (a, x), (b, y) = drawn.tensor(dtype, *lead, m, k), drawn.tensor(dtype, *lead, k, n)
        exact, magnitude = x @ y, np.abs(x) @ np.abs(y)
        with_addend = drawn.one(False, True)
        if with_addend:
            alpha, beta = drawn.one(1, 2, -3), drawn.one(0, 1, -2)
            c, w = drawn.tensor(dtype, *(drawn.one(1, size) for size in exact.shape))
            exact = alpha * exact + beta * w
            magnitude = abs(alpha) * magnitude + abs(beta) * np.abs(w)
            add = tt.baddbmm if batched else tt.addmm
            got = add(c, a, b, alpha=alpha, beta=beta)
        else:
            got = tt.bmm(a, b) if batched else tt.mm(a, b)
        print(f"{a.stride()} {b.stride()}, {m}x{n}x{k}, batch {z}")
        close(got, exact, magnitude, k)


@pytest.mark.parametrize("rows, columns", [(1, 37), (37, 1), (1, 1)])
@pytest.mark.parametrize("k", [0, 19, 260])
@pytest.mark.parametrize("dtype", [tt.bfloat16, tt.float64, tt.int8], ids=lambda d: d.name)
def test_a_batch_of_rows_or_columns_is_one_of_products_with_vectors(drawn, kernels, rows, columns, k, dtype):
    """Run a batch of matrices with one row or column as matrix-vector products.

    Each operand has its own batch stride, the addend's stride of 0 included. Long rows are split into parts.
    """
    a, b, c = (drawn.values(sizes, dtype) for sizes in ((3, k, rows), (k, 3, columns), (1, rows, columns)))
    a, b, c = (tt.from_numpy(values).to(dtype).to("cuda") for values in (a, b, c))
    a, b = a.mT, b.transpose(0, 1)
    x, y, w = wide(a), wide(b), wide(c)
    kernels.clear()
    close(tt.bmm(a, b), x @ y, np.abs(x) @ np.abs(y), k)
    got = tt.baddbmm(c, a, b, alpha=2, beta=3)
    close(got, 2 * (x @ y) + 3 * w, 2 * (np.abs(x) @ np.abs(y)) + 3 * np.abs(w), k)
    assert set(kernels) == {"matvec"} or k == 0


def test_batches_of_few_tiles_are_cut_into_parts(drawn, kernels):
    (a, x), (b, y) = drawn.tensor(tt.float32, 3, 40, 900), drawn.tensor(tt.float32, 3, 900, 40)
    kernels.clear()
    close(tt.bmm(a, b), x @ y, np.abs(x) @ np.abs(y), 900)
    assert kernels == ["matmul", "add_parts"]


def test_a_matrix_that_a_batch_shares_is_left_to_tiles(drawn, kernels):
    a, b = (tt.from_numpy(drawn.values(s, tt.float64)).to("cuda") for s in ((5, 1, 24), (1, 24, 16)))
    x, y = wide(a), wide(b)
    kernels.clear()
    close(tt.bmm(a, b.expand(5, 24, 16)), x @ y, np.abs(x) @ np.abs(y), 24)
    assert kernels == ["matmul"]


@pytest.mark.parametrize(
    "dtype, kept", [(tt.int8, 0), (tt.uint8, 156), (tt.int16, 156)], ids=lambda v: str(v)
)
def test_integers_wrap_before_relu(dtype, kept):
    """Wrap integers before relu: 156 is -100 as an int8."""
    a, b, c = (tt.full(s, v, dtype=dtype) for s, v in (((2, 3), 13), ((3, 2), 4), ((2,), 0)))
    for device in ("cpu", "cuda"):
        got = tt._addmm_activation(c.to(device), a.to(device), b.to(device))
        assert got.tolist() == [[kept, kept]] * 2


@pytest.mark.parametrize("bias", [False, True])
def test_scaled_products_of_nothing_are_the_bias(bias):
    a, b = (tt.zeros(16, 0, device="cuda").to(tt.float8_e4m3fn) for _ in range(2))
    one, added = tt.ones((), device="cuda"), tt.full((16,), 2.5, dtype=tt.bfloat16, device="cuda")
    got = tt._scaled_mm(a, b.t(), one, one, bias=added if bias else None, out_dtype=tt.bfloat16)
    assert got.tolist() == [[2.5 if bias else 0.0] * 16] * 16


def test_parts_are_added_by_a_grid_of_one_dimension(drawn, kernels):
    """Add the parts in a one-dimensional grid: the other grid dimensions end at 65,535 programs.

    The rows of an unaligned 8-bit matmul can be more.
    """
    grids = []
    before = driver().observe_launches(lambda name, grid, _, run: (grids.append((name, grid)), run())[1])
    a, b = (tt.from_numpy(drawn.values(s, tt.float32)).to("cuda") for s in ((300, 49), (32, 48)))
    a, b = a.to(tt.float8_e4m3fn)[:, 1:], b.to(tt.float8_e4m3fn)
    one = tt.ones((), device="cuda")
    got = tt._scaled_mm(a, b.t(), one, one, out_dtype=tt.float32)
    driver().observe_launches(before)
    x, y = wide(a), wide(b)
    close(got, x @ y.T, np.abs(x) @ np.abs(y.T), 48)
    assert [grid[1:] for name, grid in grids if name == "add_parts"] == [(1, 1)]
