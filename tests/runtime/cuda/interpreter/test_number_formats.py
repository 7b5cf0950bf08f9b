"""Conversions in interpreted kernels are bitwise identical to a GPU's."""

import ml_dtypes
import numpy as np
import pytest
import triton
import triton.language as tl

BF16 = ml_dtypes.bfloat16
E5M2 = ml_dtypes.float8_e5m2
E4M3 = ml_dtypes.float8_e4m3fn


@triton.jit
def cast_kernel(x, out, BLOCK: tl.constexpr):
    index = tl.arange(0, BLOCK)
    tl.store(out + index, tl.load(x + index).to(out.dtype.element_ty))


@triton.jit
def truncate_kernel(x, out, BLOCK: tl.constexpr):
    index = tl.arange(0, BLOCK)
    tl.store(out + index, tl.load(x + index).to(out.dtype.element_ty, fp_downcast_rounding="rtz"))


@triton.jit
def arithmetic_kernel(x, y, out, OP: tl.constexpr, BLOCK: tl.constexpr):
    index = tl.arange(0, BLOCK)
    a, b = tl.load(x + index), tl.load(y + index)
    if OP == "add":
        result = a + b
    elif OP == "sub":
        result = a - b
    elif OP == "mul":
        result = a * b
    elif OP == "neg":
        result = -a
    elif OP == "abs":
        result = tl.abs(a)
    elif OP == "maximum":
        result = tl.maximum(a, b)
    elif OP == "where":
        result = tl.where(a > b, a, b)
    else:
        tl.static_assert(False, "unknown")
    tl.store(out + index, result)


@pytest.fixture(autouse=True)
def quiet_numpy():
    """Silence NumPy's warnings: the references overflow and compute with NaN on purpose."""
    with np.errstate(all="ignore"):
        yield


def cast(cuda, values, dtype, kernel=cast_kernel):
    return cuda.map(kernel, values, dtype=dtype, BLOCK=values.size)


def same_bits(result, expected):
    """Assert bitwise equality, except for the payload of a NaN."""
    expected = np.asarray(expected).astype(result.dtype)
    nan = np.isnan(expected.astype(np.float64))
    np.testing.assert_array_equal(np.isnan(result.astype(np.float64)), nan)
    width = f"u{result.dtype.itemsize}"
    np.testing.assert_array_equal(result.view(width)[~nan], expected.view(width)[~nan])


def all_bits(dtype):
    dtype = np.dtype(dtype)
    return np.arange(2 ** (8 * dtype.itemsize), dtype=f"u{dtype.itemsize}").view(dtype)


def random_floats(count, seed=0):
    """Return float32 numbers with random bits: every magnitude, subnormals, infinities and NaN."""
    bits = np.random.default_rng(seed).integers(0, 2**32, count, np.uint64).astype(np.uint32)
    bits[:8] = [0, 0x80000000, 0x7F800000, 0xFF800000, 0x7FC00000, 0x00000001, 0x7F7FFFFF, 0x33800000]
    return bits.view(np.float32)


@pytest.mark.parametrize(
    ("source", "dtype"),
    [
        (BF16, np.float16),
        (BF16, np.float32),
        (BF16, np.float64),
        (np.float16, np.float32),
        (np.float16, np.float64),
        (E5M2, np.float16),
        (E5M2, np.float32),
        (E4M3, np.float16),
        (E4M3, np.float32),
    ],
)
def test_every_pattern_of_a_small_float_converts(cuda, source, dtype):
    values = all_bits(source)
    same_bits(cast(cuda, values, dtype), values.astype(np.float64).astype(dtype))


@pytest.mark.interpreter
@pytest.mark.parametrize("dtype", [E5M2, E4M3])
def test_float64_to_float8_is_refused_as_it_does_not_compile(cuda, dtype):
    with pytest.raises(TypeError, match="float64 to float8"):
        cast(cuda, np.zeros(4, np.float64), dtype)


@pytest.mark.parametrize("dtype", [BF16, np.float16], ids=lambda d: np.dtype(d).name)
def test_float32_rounds_to_nearest_even(cuda, dtype):
    values = random_floats(2**16)
    same_bits(cast(cuda, values, dtype), values.astype(dtype))


def test_halves_between_bfloat16_numbers_go_to_the_even_one(cuda):
    low = all_bits(BF16)[: 2**15 - 2**7 - 1]
    halves = (low.view(np.uint16).astype(np.uint32) << 16 | 0x8000).view(np.float32)
    even = (low.view(np.uint16) + (low.view(np.uint16) & 1)).astype(np.uint16)
    padded = np.zeros(2**15, np.float32)
    padded[: halves.size] = halves
    np.testing.assert_array_equal(cast(cuda, padded, BF16).view(np.uint16)[: halves.size], even)


@pytest.mark.parametrize("dtype", [E5M2, E4M3], ids=lambda d: np.dtype(d).name)
def test_float8_rounds_to_nearest_even_and_saturates(cuda, dtype):
    limit = float(ml_dtypes.finfo(dtype).max)
    steps = all_bits(dtype).astype(np.float32)
    steps = np.sort(steps[np.isfinite(steps)])
    between = (steps[1:] + steps[:-1]) / 2
    values = np.resize(np.concatenate([steps, between, random_floats(2**10)]), 2**11)
    same_bits(cast(cuda, values, dtype), np.clip(values, -limit, limit).astype(dtype))


@pytest.mark.parametrize("dtype", [BF16, np.float16], ids=lambda d: np.dtype(d).name)
def test_rounding_toward_zero_never_grows(cuda, dtype):
    values = random_floats(2**12)
    values = values[np.isfinite(values)]
    values = np.resize(values, 2**12)
    result = cast(cuda, values, dtype, truncate_kernel)
    if dtype is BF16:
        same_bits(result, (values.view(np.uint32) & 0xFFFF0000).view(np.float32))
    assert np.all(np.abs(result.astype(np.float64)) <= np.abs(values.astype(np.float64)))


def test_float64_to_bfloat16_rounds_once(cuda):
    # Just above the half between 1 and the next bfloat16: rounding to float32 first would lose the excess.
    values = np.array([1 + 2**-8 + 2**-40, 1 + 2**-8 - 2**-40, 1 + 2**-8, 1 + 3 * 2**-8], np.float64)
    assert cast(cuda, values, BF16).astype(np.float64).tolist() == [1 + 2**-7, 1.0, 1.0, 1 + 2**-6]


@pytest.mark.parametrize("dtype", [np.int16, np.int32, np.int64, np.uint32], ids=lambda d: np.dtype(d).name)
def test_floats_become_integers_by_truncation_and_saturation(cuda, dtype):
    values = np.array([1.9, -1.9, 1e30, -1e30, np.inf, -np.inf, 0.0, 127.5], np.float32)
    limits = np.iinfo(dtype)
    expected = [1, max(-1, limits.min), limits.max, limits.min, limits.max, limits.min, 0, 127]
    assert cast(cuda, values, dtype).tolist() == expected


def test_nan_becomes_zero_in_32_bits_and_the_lowest_number_in_64(cuda):
    values = np.full(4, np.nan, np.float32)
    assert cast(cuda, values, np.int32).tolist() == [0] * 4
    assert cast(cuda, values, np.int64).tolist() == [np.iinfo(np.int64).min] * 4


@pytest.mark.parametrize("dtype", [BF16, np.float16, np.float32, np.float64], ids=lambda d: np.dtype(d).name)
def test_integers_become_floats(cuda, dtype):
    values = np.array([0, 1, -1, 255, -256, 257, 2**20 + 1, -(2**31)], np.int32)
    same_bits(cast(cuda, values, dtype), values.astype(np.float32 if dtype is BF16 else dtype).astype(dtype))


def test_integers_wrap(cuda):
    values = np.array([300, -129, 2**31 - 1, -1], np.int32)
    assert cast(cuda, values, np.int8).tolist() == [44, 127, -1, -1]
    assert cast(cuda, values, np.uint8).tolist() == [44, 127, 255, 255]


OPERATIONS = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "neg": lambda a, b: -a,
    "abs": lambda a, b: np.abs(a),
    "maximum": lambda a, b: np.fmax(a, b),
    "where": lambda a, b: np.where(a > b, a, b),
}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_bfloat16_arithmetic_rounds_once(cuda, operation):
    rng = np.random.default_rng(1)
    x, y = (rng.standard_normal((2, 4096), np.float32) * 100).astype(BF16)
    expected = OPERATIONS[operation](x.astype(np.float32), y.astype(np.float32))
    result = cuda.map(arithmetic_kernel, x, y, dtype=BF16, OP=operation, BLOCK=4096)
    same_bits(result, expected.astype(BF16))
