"""`tl.dot_scaled` in the interpreter agrees with exact matmuls of the decoded values."""

import ml_dtypes
import numpy as np
import pytest
import triton
import triton.language as tl

FORMATS = {
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "e2m1": ml_dtypes.float4_e2m1fn,
}
M, N, K = 16, 32, 64


@triton.jit
def scaled_product(
    a, b, scale_a, scale_b, out,
    FORMAT_A: tl.constexpr, FORMAT_B: tl.constexpr, WIDTH_A: tl.constexpr, WIDTH_B: tl.constexpr,
    BLOCKS: tl.constexpr, M: tl.constexpr, N: tl.constexpr,
):  # fmt: skip
    rows, columns = tl.arange(0, M), tl.arange(0, N)
    inner_a, inner_b, blocks = tl.arange(0, WIDTH_A), tl.arange(0, WIDTH_B), tl.arange(0, BLOCKS)
    x = tl.load(a + rows[:, None] * WIDTH_A + inner_a[None, :])
    y = tl.load(b + columns[None, :] * WIDTH_B + inner_b[:, None])
    s = tl.load(scale_a + rows[:, None] * BLOCKS + blocks[None, :])
    t = tl.load(scale_b + columns[:, None] * BLOCKS + blocks[None, :])
    total = tl.full((M, N), 0.5, tl.float32)
    total = tl.dot_scaled(x, s, FORMAT_A, y, t, FORMAT_B, total)
    tl.store(out + rows[:, None] * N + columns[None, :], total)


def codes_of(rng, lines, format_):
    """Return the bytes of finite numbers of every magnitude, and their values."""
    dtype = np.dtype(FORMATS[format_])
    codes = rng.integers(0, 16 if format_ == "e2m1" else 256, (lines, K)).astype(np.uint8)
    values = codes.view(dtype).astype(np.float64)
    codes[~np.isfinite(values)] = 0
    values = codes.view(dtype).astype(np.float64)
    return (codes[:, ::2] | codes[:, 1::2] << 4 if format_ == "e2m1" else codes.view(dtype)), values


def run(cuda, rng, formats, scales, blocks):
    """Return the result, and the reference in float64."""
    (a, x), (b, y) = codes_of(rng, M, formats[0]), codes_of(rng, N, formats[1])
    s, t = scales
    constants = {
        "FORMAT_A": formats[0], "FORMAT_B": formats[1], "WIDTH_A": a.shape[1], "WIDTH_B": b.shape[1],
        "BLOCKS": blocks, "M": M, "N": N,
    }  # fmt: skip
    names = {"uint8": "*u8", "float8_e4m3fn": "*fp8e4nv", "float8_e5m2": "*fp8e5"}
    signature = {
        name: names[array.dtype.name]
        for name, array in zip(("a", "b", "scale_a", "scale_b"), (a, b, s, t), strict=True)
    }
    compiled = cuda.driver.compile(scaled_product, signature | {"out": "*fp32"}, constants)
    destination = cuda.empty(4 * M * N)
    compiled.launch((1, 1, 1), 0, *(cuda.put(array) for array in (a, b, s, t)), destination)
    got = cuda.get(destination, (M, N), np.float32)
    as_numbers = [v.view(ml_dtypes.float8_e8m0fnu) if v.dtype == np.uint8 else v for v in (s, t)]
    u, v = (each.astype(np.float64).repeat(K // blocks, 1) for each in as_numbers)
    exact = (x * u) @ (y * v).T
    return got, exact.astype(np.float32) + np.float32(0.5)


@pytest.mark.parametrize(
    "formats",
    [("e4m3", "e4m3"), ("e5m2", "e4m3"), ("e4m3", "e5m2"), ("e2m1", "e2m1"), ("e2m1", "e4m3")],
    ids="-".join,
)
def test_powers_of_two_scale_blocks_of_32(cuda, rng, formats):
    scales = [rng.integers(100, 150, (lines, K // 32)).astype(np.uint8) for lines in (M, N)]
    got, exact = run(cuda, rng, formats, scales, K // 32)
    np.testing.assert_array_equal(got, exact)


def test_numbers_of_8_bits_scale_blocks_of_16(cuda, rng):
    scales = [
        rng.integers(0, 0x7F, (lines, K // 16)).astype(np.uint8).view(ml_dtypes.float8_e4m3fn)
        for lines in (M, N)
    ]
    got, exact = run(cuda, rng, ("e2m1", "e2m1"), scales, K // 16)
    np.testing.assert_array_equal(got, exact)


def test_the_least_power_the_largest_and_none(cuda, rng):
    scales = [np.full((lines, K // 32), 127, np.uint8) for lines in (M, N)]
    scales[0][0], scales[1][:] = 0, 254
    scales[0][1, 0] = 255
    got, exact = run(cuda, rng, ("e4m3", "e4m3"), scales, K // 32)
    np.testing.assert_array_equal(got, exact)
    assert np.isnan(got[1]).all() and np.isfinite(got[0]).all()
