"""Launches: arguments, grids, counts, and the driver's errors."""

import numpy as np
import pytest
import triton
import triton.language as tl

from triten.runtime.cuda.driver import constexpr_key, driver, is_available


@triton.jit
def add_kernel(x, y, out, n, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = index < n
    tl.store(out + index, tl.load(x + index, mask=mask) + tl.load(y + index, mask=mask), mask=mask)


@triton.jit
def scalars_kernel(out, a, b, c, d):
    tl.store(out, a.to(tl.float64))
    tl.store(out + 1, b.to(tl.float64))
    tl.store(out + 2, c.to(tl.float64))
    tl.store(out + 3, d.to(tl.float64))


@triton.jit
def grid_kernel(out):
    x, y, z = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    nx, ny = tl.num_programs(0), tl.num_programs(1)
    tl.store(out + x + nx * (y + ny * z), x + 10 * y + 100 * z)


ADD = {"x": "*fp32", "y": "*fp32", "out": "*fp32", "n": "i32"}


def compile_add(cuda, **options):
    return cuda.driver.compile(add_kernel, ADD, {"BLOCK": 128}, **options)


@pytest.mark.parametrize("n", [1, 128, 1000])
def test_vector_add(cuda, n):
    rng = np.random.default_rng(n)
    x, y = rng.standard_normal((2, n), np.float32)
    out = cuda.empty(x.nbytes)
    kernel = compile_add(cuda)
    kernel.launch((triton.cdiv(n, 128), 1, 1), 0, cuda.put(x), cuda.put(y), out, n)
    np.testing.assert_array_equal(cuda.get(out, n, np.float32), x + y)
    assert kernel.name == "add_kernel"


def test_the_grid_numbers_programs_in_three_dimensions(cuda):
    out = cuda.empty(4 * 24)
    cuda.driver.compile(grid_kernel, {"out": "*i32"}, {}).launch((4, 3, 2), 0, out)
    expected = [x + 10 * y + 100 * z for z in range(2) for y in range(3) for x in range(4)]
    assert cuda.get(out, 24, np.int32).tolist() == expected


def test_scalars_arrive_in_the_exact_type_of_the_signature(cuda):
    signature = {"out": "*fp64", "a": "i64", "b": "fp32", "c": "fp64", "d": "bf16"}
    out = cuda.empty(32)
    cuda.driver.compile(scalars_kernel, signature, {}).launch((1, 1, 1), 0, out, -(2**40), 0.1, 0.1, 1.01)
    expected = [-(2.0**40), float(np.float32(0.1)), 0.1, 1.0078125]
    assert cuda.get(out, 4, np.float64).tolist() == expected


@pytest.mark.parametrize("grid", [(0, 1, 1), (4, 0, 1), (4, 1, 0)])
def test_an_empty_grid_launches_nothing(cuda, grid):
    out = cuda.put(np.zeros(4, np.float32))
    before = cuda.driver.launches
    compile_add(cuda).launch(grid, 0, out, out, out, 4)
    assert cuda.driver.launches == before
    assert cuda.get(out, 4, np.float32).tolist() == [0.0] * 4


def test_launches_are_counted(cuda):
    x = cuda.put(np.ones(4, np.float32))
    before = cuda.driver.launches
    for _ in range(3):
        compile_add(cuda).launch((1, 1, 1), 0, x, x, x, 4)
    assert cuda.driver.launches == before + 3
    assert cuda.get(x, 4, np.float32).tolist() == [8.0] * 4


@pytest.mark.parametrize("grid", [(-1, 1, 1), (2**31, 1, 1), (1, 65536, 1), (1, 1, 65536)])
def test_a_grid_beyond_the_limits_is_refused(cuda, grid):
    with pytest.raises(RuntimeError, match=r"invalid configuration argument.*add_kernel"):
        compile_add(cuda).launch(grid, 0, 0, 0, 0, 0)


@pytest.mark.parametrize(
    "values", [(), (0, 0, 0), (0, 0, 0, 0, 0), (0, 0, 0, 2**31), (0, 0, 0, 1.5), (0, 0, 0, "1")]
)
def test_arguments_that_do_not_fit_the_signature_are_refused(cuda, values):
    with pytest.raises(TypeError, match="add_kernel"):
        compile_add(cuda).launch((1, 1, 1), 0, *values)


def test_a_kernel_is_compiled_once_for_each_key(cuda):
    first = compile_add(cuda)
    assert compile_add(cuda) is first
    assert compile_add(cuda, divisible=frozenset({"x"})) is not first
    assert compile_add(cuda, num_warps=8) is not first
    assert cuda.driver.compile(add_kernel, {**ADD, "n": "i64"}, {"BLOCK": 128}) is not first
    assert cuda.driver.compile(add_kernel, ADD, {"BLOCK": 64}) is not first


@pytest.mark.parametrize(("one", "other"), [(1, True), (1, 1.0), (0.0, -0.0), ((1,), (True,))])
def test_constants_that_compare_equal_have_different_keys(one, other):
    assert constexpr_key(one) != constexpr_key(other)
    assert constexpr_key(float("nan")) == constexpr_key(float("nan"))


@pytest.mark.parametrize(
    ("signature", "constexprs", "divisible", "message"),
    [
        (ADD, {}, (), "'BLOCK' missing"),
        ({**ADD, "BLOCK": "i32"}, {"BLOCK": 128}, (), "'BLOCK' given in both"),
        (ADD, {"BLOCK": 128, "WIDTH": 1}, (), "'WIDTH' not among"),
        (ADD, {"BLOCK": 128}, ("BLOCK",), "'BLOCK' declared divisible"),
    ],
)
def test_a_signature_must_cover_the_parameters(cuda, signature, constexprs, divisible, message):
    with pytest.raises(TypeError, match=f"add_kernel.*{message}"):
        cuda.driver.compile(add_kernel, signature, constexprs, divisible=frozenset(divisible))


def test_unsupported_argument_types_are_refused(cuda):
    with pytest.raises(ValueError, match="tensordesc"):
        cuda.driver.compile(grid_kernel, {"out": "tensordesc_im2col<fp16[64, 64]>"}, {})


def test_there_is_one_driver(cuda):
    assert is_available()
    assert driver() is cuda.driver
    properties = cuda.driver.properties(0)
    assert properties.warp_size == 32
    assert properties.capability >= 75
    assert properties.max_shared_memory >= 48 * 1024


@pytest.mark.parametrize("device", [-1, 1000])
def test_a_device_that_does_not_exist_is_refused(cuda, device):
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        cuda.driver.set_device(device)
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        cuda.driver.properties(device)


def test_launches_can_be_observed_and_left_out(cuda):
    x = cuda.put(np.ones(4, np.float32))
    seen = []

    def observe(name, grid, stream, launch):
        seen.append((name, grid, stream))
        if len(seen) == 1:
            launch()

    kernel = compile_add(cuda)
    assert cuda.driver.observe_launches(observe) is None
    try:
        for _ in range(2):
            kernel.launch((1, 1, 1), 0, x, x, x, 4)
    finally:
        assert cuda.driver.observe_launches(None) is observe
    assert seen == [("add_kernel", (1, 1, 1), 0)] * 2
    kernel.launch((1, 1, 1), 0, x, x, x, 4)
    assert len(seen) == 2
    assert cuda.get(x, 4, np.float32).tolist() == [4.0] * 4, "the second launch was left out"
