"""Triton's language as kernels use it: dot, reductions, scans, libdevice, functions as constants."""

import math
import warnings

import ml_dtypes
import numpy as np
import pytest
import scipy.special
import triton
import triton.language as tl
from triton.language.extra import libdevice

import triten as tt
from triten.runtime.cuda.interpreter import semantics

BF16 = ml_dtypes.bfloat16


@triton.jit
def square(x):
    return x * x


@triton.jit
def negate_square(x):
    return -square(x)


@triton.jit
def apply_kernel(x, out, FUNCTION: tl.constexpr, BLOCK: tl.constexpr):
    index = tl.arange(0, BLOCK)
    tl.store(out + index, FUNCTION(tl.load(x + index)))


@triton.jit
def libdevice_kernel(x, out, NAME: tl.constexpr, BLOCK: tl.constexpr):
    index = tl.arange(0, BLOCK)
    a = tl.load(x + index)
    if NAME == "tanh":
        result = libdevice.tanh(a)
    elif NAME == "log1p":
        result = libdevice.log1p(a)
    elif NAME == "expm1":
        result = libdevice.expm1(a)
    elif NAME == "lgamma":
        result = libdevice.lgamma(a)
    elif NAME == "erfinv":
        result = libdevice.erfinv(a)
    elif NAME == "erf":
        result = tl.math.erf(a)
    elif NAME == "atan":
        result = libdevice.atan(a)
    elif NAME == "round":
        result = libdevice.round(a * 4)
    elif NAME == "rint":
        result = libdevice.rint(a * 4)
    elif NAME == "trunc":
        result = libdevice.trunc(a * 4)
    else:
        tl.static_assert(False, "unknown")
    tl.store(out + index, result)


@triton.jit
def binary_libdevice_kernel(x, y, out, NAME: tl.constexpr, BLOCK: tl.constexpr):
    index = tl.arange(0, BLOCK)
    a, b = tl.load(x + index), tl.load(y + index)
    if NAME == "pow":
        result = libdevice.pow(a, b)
    elif NAME == "atan2":
        result = libdevice.atan2(a, b)
    elif NAME == "fmod":
        result = libdevice.fmod(a, b)
    elif NAME == "remainder":
        result = libdevice.remainder(a, b)
    elif NAME == "copysign":
        result = libdevice.copysign(a, b)
    elif NAME == "nextafter":
        result = libdevice.nextafter(a, b)
    elif NAME == "hypot":
        result = libdevice.hypot(a, b)
    elif NAME == "fdim":
        result = libdevice.fdim(a, b)
    else:
        tl.static_assert(False, "unknown")
    tl.store(out + index, result)


@triton.jit
def classify_kernel(x, out, BLOCK: tl.constexpr):
    index = tl.arange(0, BLOCK)
    a = tl.load(x + index)
    code = libdevice.isnan(a).to(tl.int32) * 4 + libdevice.isinf(a).to(tl.int32) * 2
    tl.store(out + index, code + (libdevice.signbit(a) != 0).to(tl.int32))


@triton.jit
def bits_kernel(x, out, BLOCK: tl.constexpr):
    index = tl.arange(0, BLOCK)
    a = tl.load(x + index)
    tl.store(out + index, libdevice.popc(a) + 100 * libdevice.clz(a) + 10000 * libdevice.ffs(a))
    tl.store(out + BLOCK + index, libdevice.brev(a))


@triton.jit
def dot_kernel(
    x, y, out, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, PRECISION: tl.constexpr, ACC: tl.constexpr
):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    a = tl.load(x + m[:, None] * K + k[None, :])
    b = tl.load(y + k[:, None] * N + n[None, :])
    c = tl.dot(a, b, input_precision=PRECISION, out_dtype=ACC)
    tl.store(out + m[:, None] * N + n[None, :], c)


@triton.jit
def welford(mean_a, m2_a, count_a, mean_b, m2_b, count_b):
    delta = mean_b - mean_a
    count = count_a + count_b
    share = count_b / count
    return mean_a + delta * share, m2_a + m2_b + delta * delta * count_a * share, count


@triton.jit
def welford_kernel(x, out, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    row, column = tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    a = tl.load(x + row[:, None] * COLUMNS + column[None, :])
    mean, m2, count = tl.reduce((a, tl.zeros_like(a), tl.full(a.shape, 1.0, tl.float32)), 1, welford)
    tl.store(out + row, mean)
    tl.store(out + ROWS + row, m2 / count)


@triton.jit
def reduce_kernel(x, out, AXIS: tl.constexpr, NAME: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    row, column = tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    a = tl.load(x + row[:, None] * COLUMNS + column[None, :])
    if NAME == "sum":
        result = tl.sum(a, AXIS)
    elif NAME == "max":
        result = tl.max(a, AXIS)
    elif NAME == "argmax":
        result = tl.argmax(a, AXIS).to(a.dtype)
    elif NAME == "argmin":
        result = tl.argmin(a, AXIS).to(a.dtype)
    else:
        tl.static_assert(False, "unknown")
    if AXIS == 0:
        tl.store(out + column, result)
    else:
        tl.store(out + row, result)


@triton.jit
def later(a_decay, a_value, b_decay, b_value):
    return a_decay * b_decay, b_decay * a_value + b_value


@triton.jit
def recurrence_kernel(decay, value, out, REVERSE: tl.constexpr, BLOCK: tl.constexpr):
    index = tl.arange(0, BLOCK)
    pair = (tl.load(decay + index), tl.load(value + index))
    _, result = tl.associative_scan(pair, 0, later, reverse=REVERSE)
    tl.store(out + index, result)


@triton.jit
def cumsum_kernel(x, out, BLOCK: tl.constexpr):
    index = tl.arange(0, BLOCK)
    tl.store(out + index, tl.cumsum(tl.load(x + index), 0))


@triton.jit
def sort_kernel(x, out, BLOCK: tl.constexpr):
    index = tl.arange(0, BLOCK)
    tl.store(out + index, tl.sort(tl.load(x + index)))


@triton.jit
def loop_kernel(x, out, TIMES: tl.constexpr, UNROLL: tl.constexpr, BLOCK: tl.constexpr):
    index = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    if UNROLL:
        for i in tl.static_range(TIMES):
            total += tl.load(x + index) * i
    else:
        for i in tl.range(0, TIMES, num_stages=2):
            total += tl.load(x + index) * i
    tl.store(out + index, total)


@triton.jit
def boolean_kernel(x, y, out, FLAG: tl.constexpr, BLOCK: tl.constexpr):
    index = tl.arange(0, BLOCK)
    a, b = tl.load(x + index), tl.load(y + index)
    both = a > 0 and b > 0
    either = FLAG and (a > 0 or b > 0)
    neither = not (a > 0 or b > 0)
    tl.store(out + index, both.to(tl.int32) + 2 * either.to(tl.int32) + 4 * neither.to(tl.int32))


@triton.jit
def scalar_condition_kernel(x, out, BLOCK: tl.constexpr):
    first = tl.load(x)
    count = 0
    while first > 0:
        first -= 1
        count += 1
    if count == 3 and not first > 0:
        count = count * 10 if BLOCK == 4 else count
    tl.store(out, count)


@triton.jit
def ambiguous_kernel(x, out, BLOCK: tl.constexpr):
    index = tl.arange(0, BLOCK)
    a = tl.load(x + index)
    if a > 0:
        a = a + 1
    tl.store(out + index, a)


@triton.jit
def masked_by_a_scalar_kernel(x, out, LIMIT: tl.constexpr, BLOCK: tl.constexpr):
    index = tl.arange(0, BLOCK)
    wanted = (index < BLOCK) & (tl.program_id(0) > LIMIT)
    tl.store(out + index, tl.load(x + index, mask=wanted, other=7))


@triton.jit
def philox_kernel(out, seed, BLOCK: tl.constexpr):
    index = tl.arange(0, BLOCK)
    a, b, c, d = tl.randint4x(seed, index)
    tl.store(out + index * 4, a)
    tl.store(out + index * 4 + 1, b)
    tl.store(out + index * 4 + 2, c)
    tl.store(out + index * 4 + 3, d)


@pytest.mark.parametrize(("function", "sign"), [(square, 1), (negate_square, -1)])
def test_a_jit_function_can_be_a_constant(cuda, function, sign):
    x = np.arange(16, dtype=np.float32)
    result = cuda.map(apply_kernel, x, dtype=np.float32, FUNCTION=function, BLOCK=16)
    np.testing.assert_array_equal(result, sign * x * x)


@pytest.mark.parametrize(("limit", "expected"), [(-1, [0, 1, 2, 3]), (0, [7, 7, 7, 7])])
def test_a_mask_may_be_broadcast_from_a_scalar_comparison(cuda, limit, expected):
    x = np.arange(4, dtype=np.float32)
    result = cuda.map(masked_by_a_scalar_kernel, x, dtype=np.float32, BLOCK=4, LIMIT=limit)
    np.testing.assert_array_equal(result, expected)


UNARY = {
    "tanh": np.tanh,
    "log1p": np.log1p,
    "expm1": np.expm1,
    "lgamma": scipy.special.gammaln,
    "erfinv": scipy.special.erfinv,
    "erf": scipy.special.erf,
    "atan": np.arctan,
    "round": lambda x: np.sign(x) * np.floor(np.abs(4 * x) + 0.5),
    "rint": lambda x: np.rint(4 * x),
    "trunc": lambda x: np.trunc(4 * x),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", UNARY)
def test_libdevice_functions_of_one_argument(cuda, name, dtype):
    x = (np.random.default_rng(2).random(256) * 1.8 - 0.9).astype(dtype)
    x[:3] = [0.125, -0.375, 0.625]
    result = cuda.map(libdevice_kernel, x, dtype=dtype, NAME=name, BLOCK=256)
    tolerance = 1e-5 if dtype == np.float32 else 1e-12
    np.testing.assert_allclose(result, UNARY[name](x.astype(np.float64)), rtol=tolerance, atol=tolerance / 10)


BINARY = {
    "pow": lambda x, y: np.power(np.abs(x), y),
    "atan2": np.arctan2,
    "fmod": np.fmod,
    "remainder": np.vectorize(math.remainder),
    "copysign": np.copysign,
    "nextafter": None,
    "hypot": np.hypot,
    "fdim": lambda x, y: np.maximum(x - y, 0),
}


@pytest.mark.parametrize("name", BINARY)
def test_libdevice_functions_of_two_arguments(cuda, name):
    x, y = (np.random.default_rng(3).standard_normal((2, 256)) * 10).astype(np.float32)
    if name == "pow":
        x = np.abs(x)
    expected = (
        np.nextafter(x, y)
        if name == "nextafter"
        else BINARY[name](x.astype(np.float64), y.astype(np.float64))
    )
    result = cuda.map(binary_libdevice_kernel, x, y, dtype=np.float32, NAME=name, BLOCK=256)
    np.testing.assert_allclose(result, expected, rtol=2e-6 if name != "nextafter" else 0)


def test_libdevice_classifies(cuda):
    x = np.array([np.nan, np.inf, -np.inf, 1.0, -1.0, 0.0, -0.0, 1e-45], np.float32)
    result = cuda.map(classify_kernel, x, dtype=np.int32, BLOCK=8) & ~np.array([1] + [0] * 7)
    assert result.tolist() == [4, 2, 3, 0, 1, 0, 1, 0]


def test_libdevice_works_on_bits(cuda):
    x = np.array([1, 6, -1, 2**30], np.int32)
    result = cuda.map(bits_kernel, x, dtype=np.int32, size=8, BLOCK=4)
    assert result[:4].tolist() == [1 + 3100 + 10000, 2 + 2900 + 20000, 32 + 10000, 1 + 100 + 310000]
    assert result[4:].tolist() == [-(2**31), 0x60000000, -1, 2]


@pytest.mark.interpreter
@triton.jit
def instruction_kernel(x, out, ASSEMBLY: tl.constexpr, BLOCK: tl.constexpr):
    index = tl.arange(0, BLOCK)
    result = tl.inline_asm_elementwise(
        ASSEMBLY, "=f,f", [tl.load(x + index)], dtype=tl.float32, is_pure=True, pack=1
    )
    tl.store(out + index, result)


@pytest.mark.parametrize(("name", "function"), [("ex2", np.exp2), ("rcp", np.reciprocal)])
def test_instructions_flush_what_is_below_the_normal_numbers(cuda, name, function):
    x = np.array([0.5, -2.0, 3.0, -126.5, 1e-40, -1e-40, 3e38, np.inf], np.float32)
    assembly = f"{name}.approx.ftz.f32 $0, $1;"
    found = cuda.map(instruction_kernel, x, dtype=np.float32, ASSEMBLY=assembly, BLOCK=8)
    with np.errstate(all="ignore"):
        expected = function(np.where(np.abs(x) < 2.0**-126, np.copysign(np.float32(0), x), x))
    expected = np.where(np.abs(expected) < 2.0**-126, np.copysign(np.float32(0), expected), expected)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("count", [1, 64, 1024])
def test_other_instructions_are_emulated(cuda, count):
    x = np.linspace(-3, 3, count, dtype=np.float32)
    found = cuda.map(instruction_kernel, x, dtype=np.float32, ASSEMBLY="tanh.approx.f32 $0, $1;", BLOCK=count)
    np.testing.assert_allclose(found, np.tanh(x), atol=1e-3)


@pytest.mark.parametrize(
    ("assembly", "reason"),
    [
        ("sqrt.sideways.f32 $0, $1;", "sideways"),
        ("ld.global.f32 $0, [4096]; add.f32 $0, $0, $1;", "illegal memory access"),
    ],
)
def test_assembly_that_cannot_be_emulated_is_refused(cuda, assembly, reason):
    x = np.ones(4, np.float32)
    with pytest.raises(
        NotImplementedError, match=f"(?s)cannot execute the assembly.*{reason}.*TRITEN_CUDA=emulate"
    ):
        cuda.map(instruction_kernel, x, dtype=np.float32, ASSEMBLY=assembly, BLOCK=4)


@triton.jit
def dependent_kernel(x, out, BLOCK: tl.constexpr):
    index = tl.arange(0, BLOCK)
    tl.extra.cuda.gdc_wait()
    value = tl.load(x + index)
    tl.extra.cuda.gdc_launch_dependents()
    tl.store(out + index, (value.to(tl.bfloat16) * 2.5).to(tl.float32) + tl.extra.cuda.num_warps())


@pytest.mark.parametrize("warps", [4, 8])
def test_functions_of_cuda(warps):
    x, out = tt.arange(8.0, device="cuda"), tt.zeros(8, device="cuda")
    dependent_kernel[(1,)](x, out, BLOCK=8, num_warps=warps)
    assert out.tolist() == (x * 2.5 + warps).tolist()


@pytest.mark.skipif(not hasattr(tl, "atomic_poll"), reason="Triton before 3.9 has no atomic_poll")
def test_a_poll_ends_with_its_time_or_is_refused():
    flags, out = tt.tensor([1, 2], dtype=tt.int32, device="cuda"), tt.zeros(3, dtype=tt.int32, device="cuda")
    poll_kernel[(1,)](flags, out, False)
    assert out.tolist() == [1, 0, 0]
    poll_kernel[(1,)](flags, out, True)
    with pytest.raises(RuntimeError, match=r"an atomic polls 2 at .*program waits for another one"):
        tt.cuda.synchronize()


@triton.jit
def poll_kernel(flags, out, FOREVER: tl.constexpr):
    tl.store(out, tl.atomic_poll(flags, 1).to(tl.int32))
    if FOREVER:
        tl.store(out + 1, tl.atomic_poll(flags + 1, 1).to(tl.int32))
    else:
        tl.store(out + 1, tl.atomic_poll(flags + 1, 1, timeout_ns=1000).to(tl.int32))


@triton.jit
def add_kernel(x, index, out, BLOCK: tl.constexpr):
    lane = tl.arange(0, BLOCK)
    tl.atomic_add(out + tl.load(index + lane), tl.load(x + lane))


def test_lanes_with_the_same_address_add_one_after_another():
    x = tt.tensor([1.0, 2.0, 4.0, 8.0, 256.0, 1.0, 1.0, 1.0], device="cuda").bfloat16()
    index = tt.tensor([0, 1, 0, 1, 2, 2, 2, 2], dtype=tt.int32, device="cuda")
    out = tt.zeros(3, dtype=tt.bfloat16, device="cuda")
    add_kernel[(2,)](x, index, out, BLOCK=8)
    assert out.tolist() == [10.0, 20.0, 512.0]  # each sum is rounded: 256 + 1 is 256


def test_libdevice_refuses_what_a_compiled_kernel_would(cuda):
    x = np.zeros(4, BF16)
    with pytest.raises(KeyError):
        cuda.map(libdevice_kernel, x, dtype=BF16, NAME="tanh", BLOCK=4)


def dot(cuda, x, y, out_dtype, acc=tl.float32, precision="ieee"):
    (m, k), n = x.shape, y.shape[1]
    shapes = {"M": m, "N": n, "K": k, "PRECISION": precision, "ACC": acc}
    return cuda.map(dot_kernel, x, y, dtype=out_dtype, size=m * n, **shapes).reshape(m, n)


@pytest.mark.parametrize("dtype", [np.float16, BF16, ml_dtypes.float8_e5m2, ml_dtypes.float8_e4m3fn])
def test_dot_of_small_floats_is_exact_in_float32(cuda, dtype):
    # Small integers: every product and sum is exact, in any order.
    rng = np.random.default_rng(4)
    x, y = (rng.integers(-8, 9, (32, 32)).astype(np.float32) for _ in range(2))
    result = dot(cuda, x.astype(dtype), y.astype(dtype), np.float32)
    np.testing.assert_array_equal(result, x @ y)


def test_dot_of_bfloat16_agrees_with_float32(cuda):
    x, y = np.random.default_rng(5).standard_normal((2, 32, 32), np.float32).astype(BF16)
    result = dot(cuda, x, y, np.float32)
    np.testing.assert_allclose(result, x.astype(np.float32) @ y.astype(np.float32), rtol=1e-5, atol=1e-5)


def test_dot_of_integers_is_exact(cuda):
    x, y = np.random.default_rng(6).integers(-128, 128, (2, 32, 32)).astype(np.int8)
    result = dot(cuda, x, y, np.int32, tl.int32)
    np.testing.assert_array_equal(result, x.astype(np.int32) @ y.astype(np.int32))


def test_dot_in_tf32_rounds_its_inputs(cuda):
    x = np.zeros((16, 16), np.float32)
    x[0, 0] = 1 + 2**-11 + 2**-20
    y = np.eye(16, dtype=np.float32)
    assert dot(cuda, x, y, np.float32, precision="ieee")[0, 0] == x[0, 0]
    assert dot(cuda, x, y, np.float32, precision="tf32")[0, 0] == 1 + 2**-10


def test_dot_of_float64(cuda):
    x, y = np.random.default_rng(7).standard_normal((2, 16, 16))
    np.testing.assert_allclose(dot(cuda, x, y, np.float64, tl.float64), x @ y, rtol=1e-12, atol=1e-13)


def test_a_reduction_of_several_tensors(cuda):
    x = np.random.default_rng(8).standard_normal((8, 64), np.float32)
    result = cuda.map(welford_kernel, x.ravel(), dtype=np.float32, size=16, ROWS=8, COLUMNS=64)
    np.testing.assert_allclose(result[:8], x.mean(1), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(result[8:], x.var(1), rtol=1e-5)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("name", ["sum", "max", "argmax", "argmin"])
@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_reductions_along_an_axis(cuda, dtype, name, axis):
    x = np.random.default_rng(9).integers(-50, 50, (8, 16)).astype(dtype)
    expected = getattr(np, name)(x, axis)
    constants = {"AXIS": axis, "NAME": name, "ROWS": 8, "COLUMNS": 16}
    result = cuda.map(reduce_kernel, x.ravel(), dtype=dtype, size=expected.size, **constants)
    np.testing.assert_array_equal(result, expected)


def test_max_passes_over_nan(cuda):
    x = np.array([[np.nan, 1.0], [3.0, np.nan]], np.float32)
    constants = {"AXIS": 1, "NAME": "max", "ROWS": 2, "COLUMNS": 2}
    assert cuda.map(reduce_kernel, x.ravel(), dtype=np.float32, size=2, **constants).tolist() == [1.0, 3.0]


@pytest.mark.parametrize("reverse", [False, True])
def test_a_scan_of_a_recurrence(cuda, reverse):
    decay, value = np.random.default_rng(10).random((2, 32), np.float32)
    expected, state = np.empty(32), 0.0
    for i in range(31, -1, -1) if reverse else range(32):
        state = expected[i] = decay[i] * state + value[i]
    result = cuda.map(recurrence_kernel, decay, value, dtype=np.float32, REVERSE=reverse, BLOCK=32)
    np.testing.assert_allclose(result, expected, rtol=1e-5)


@pytest.mark.parametrize("dtype", [np.int32, np.float32])
def test_cumulative_sum(cuda, dtype):
    x = np.arange(-20, 44).astype(dtype)
    np.testing.assert_array_equal(cuda.map(cumsum_kernel, x, dtype=dtype, BLOCK=64), np.cumsum(x))


def test_sort(cuda):
    x = np.random.default_rng(11).permutation(64).astype(np.int32)
    assert cuda.map(sort_kernel, x, dtype=np.int32, BLOCK=64).tolist() == list(range(64))


@pytest.mark.parametrize("unroll", [False, True])
def test_loops_and_conditions_on_constants(cuda, unroll):
    x = np.ones(4, np.float32)
    result = cuda.map(loop_kernel, x, dtype=np.float32, TIMES=5, UNROLL=unroll, BLOCK=4)
    assert result.tolist() == [10.0] * 4


def test_boolean_operators_work_lane_by_lane(cuda):
    x, y = np.array([0, 0, 1, 1], np.int32), np.array([0, 1, 0, 1], np.int32)
    result = cuda.map(boolean_kernel, x, y, dtype=np.int32, FLAG=True, BLOCK=4)
    assert result.tolist() == [4, 2, 2, 3]


def test_conditions_on_scalars(cuda):
    result = cuda.map(scalar_condition_kernel, np.full(4, 3, np.int32), dtype=np.int32, size=1, BLOCK=4)
    assert result.tolist() == [30]


@pytest.mark.interpreter
def test_a_condition_on_a_block_is_refused_as_it_does_not_compile(cuda):
    with pytest.raises(ValueError, match="ambiguous"):
        cuda.map(ambiguous_kernel, np.zeros(4, np.int32), dtype=np.int32, BLOCK=4)


def ask_python(value):
    return 1 if value else 0


@triton.jit
def refused_kernel(x, out, CASE: tl.constexpr):
    i, n = tl.arange(0, 4), tl.load(x)
    if CASE == "helper":
        tl.store(out + i, ask_python(n > 0))
    elif CASE == "abs":
        tl.store(out + i, abs(n))
    elif CASE == "in":
        tl.store(out + i, n in (1, 2))
    elif CASE == "int":
        tl.store(out + i, int(n))
    elif CASE == "float":
        tl.store(out + i, float(n))
    elif CASE == "static_range":
        for _ in tl.static_range(n):
            tl.store(out + i, 1)
    elif CASE == "static_assert":
        tl.static_assert(n > 0)
    elif CASE == "string":
        tl.store(out + i, 1 if CASE else 2)
    elif CASE == "block":
        tl.store(out + i, min(i, n) if i > 2 else i)


@pytest.mark.interpreter
@pytest.mark.parametrize(
    ("case", "error", "message"),
    [
        ("helper", TypeError, r"test_language\.py:\d+: a tensor of type int1 has no truth value"),
        ("abs", NameError, "abs is not defined"),
        ("in", SyntaxError, "'In' is not"),
        ("int", TypeError, "not 'tensor'"),
        ("float", TypeError, "not 'tensor'"),
        ("static_range", TypeError, "cannot be interpreted as an integer"),
        ("static_assert", NotImplementedError, "could not be determined"),
        ("string", TypeError, "only accept values of type .* not objects of type str"),
        ("block", ValueError, "ambiguous"),
    ],
)
def test_what_the_compiler_refuses_is_refused(cuda, case, error, message):
    with pytest.raises(error, match=message):
        cuda.map(refused_kernel, np.full(1, 3, np.int32), dtype=np.int32, size=4, CASE=case)


def test_philox_is_random123s(cuda):
    # Random123's known answer for key 0 and counter 0.
    out = cuda.empty(16 * 4)
    cuda.driver.compile(philox_kernel, {"out": "*i32", "seed": "i64"}, {"BLOCK": 4}).launch(
        (1, 1, 1), 0, out, 0
    )
    first = cuda.get(out, 16, np.uint32)[:4].tolist()
    assert first == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]


@pytest.mark.interpreter
def test_no_numpy_warning_reaches_the_user(cuda):
    x = np.array([-1.0, 0.0, np.inf, 1e38], np.float32)
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        result = cuda.map(libdevice_kernel, x, dtype=np.float32, NAME="log1p", BLOCK=4)
        squares = cuda.map(apply_kernel, x, dtype=np.float32, FUNCTION=square, BLOCK=4)
    assert result[0] == -np.inf
    assert squares[3] == np.inf


@pytest.mark.interpreter
def test_an_error_names_its_kernel_and_program(cuda):
    with pytest.raises(NotImplementedError, match="libdevice") as caught:
        cuda.map(unsupported_kernel, np.zeros(4, np.float32), dtype=np.float32, BLOCK=4)
    assert "unsupported_kernel" in caught.value.__notes__[0]


@triton.jit
def unsupported_kernel(x, out, BLOCK: tl.constexpr):
    index = tl.arange(0, BLOCK)
    tl.store(out + index, libdevice.add_rd(tl.load(x + index), 1.0))


@triton.jit
def wait_for_a_later_program(flag, out):
    pid = tl.program_id(0)
    if pid == 0:
        while tl.atomic_cas(flag, 1, 1) != 1:
            pass
        tl.store(out, 1)
    else:
        tl.atomic_xchg(flag, 1)


def test_a_program_that_waits_for_a_later_one_is_refused(monkeypatch):
    monkeypatch.setattr(semantics, "MAX_REPEATS", 100)
    flag, out = tt.zeros(1, dtype=tt.int32, device="cuda"), tt.zeros(1, device="cuda")
    wait_for_a_later_program[(2,)](flag, out)
    with pytest.raises(RuntimeError, match=r"program waits for another one.*TRITEN_CUDA=emulate"):
        tt.cuda.synchronize()


@triton.jit
def count_programs(out):
    tl.atomic_max(out, 1)


def test_equal_results_of_many_programs_are_no_wait(monkeypatch):
    monkeypatch.setattr(semantics, "MAX_REPEATS", 10)
    out = tt.ones(1, dtype=tt.int32, device="cuda")
    count_programs[(50,)](out)
    assert out.item() == 1
