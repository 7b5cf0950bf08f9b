"""A launch over the stand-in: its driver calls, and every byte that it passes."""

import dataclasses
import struct
import threading

import pytest
import triton
import triton.language as tl

import triten as tt
from triten.runtime.cuda.driver import driver
from triten.runtime.cuda.triton.compile import KernelBinary, compile_kernel
from triten.tests.gpu.gpu_check.probe_kernels import increment_after_dependency

MADE_UP = b"standin\0"
LAUNCH = ["cuLaunchKernel"]


@triton.jit
def add_kernel(x, y, out, n, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = index < n
    tl.store(out + index, tl.load(x + index, mask=mask) + tl.load(y + index, mask=mask), mask=mask)


@triton.jit
def every_type_kernel(out, a, b, c, d, e, f, g, h, i):
    tl.store(out, a + b + c + d + e.to(tl.float32) + f.to(tl.float32) + g + h + i)


@triton.jit
def descriptor_kernel(x, out, n, BLOCK: tl.constexpr):
    source = tl.make_tensor_descriptor(x, [n, BLOCK], [BLOCK, 1], [BLOCK, BLOCK])
    target = tl.make_tensor_descriptor(out, [n, BLOCK], [BLOCK, 1], [BLOCK, BLOCK])
    target.store([tl.program_id(0) * BLOCK, 0], source.load([tl.program_id(0) * BLOCK, 0]))


ADD = {"x": "*fp32", "y": "*fp32", "out": "*fp32", "n": "i32"}
EVERY = {
    "out": "*fp64",
    "a": "i32",
    "b": "i64",
    "c": "fp32",
    "d": "fp64",
    "e": "bf16",
    "f": "fp16",
    "g": "i8",
    "h": "u64",
    "i": "i16",
}


def compiled_add(**options):
    return driver().compile(add_kernel, ADD, {"BLOCK": 128}, **options)


def made_up(name="made_up", types=("*fp32", "i32"), **changes):
    """Return a kernel whose code does not exist."""
    from triten.runtime.cuda.cupy.kernel import CuPyKernel

    binary = KernelBinary(name, 90, MADE_UP, {}, types, 4, 1, 0, 0, 1)
    return CuPyKernel(driver(), dataclasses.replace(binary, **changes), driver().properties(0))


def packed(code, value):
    return struct.pack(code, value)


def test_a_kernel_is_loaded_once_and_each_call_is_one_launch(standin):
    driver().current_device()
    standin.clear()
    kernel = driver().compile(add_kernel, ADD, {"BLOCK": 256})
    assert standin.sequence == ["cuModuleLoadData", "cuModuleGetFunction", "cuFuncGetAttribute"]
    assert standin.named("cuModuleGetFunction")[0]["function"] == "add_kernel"
    standin.clear()
    for _ in range(3):
        kernel.launch((8, 1, 1), 0, 0x1000, 0x2000, 0x3000, 1000)
    assert [call.name for call in standin.calls] == 3 * LAUNCH
    assert driver().compile(add_kernel, ADD, {"BLOCK": 256}) is kernel


def test_a_launch_passes_grid_block_shared_memory_stream_and_arguments(standin):
    kernel = compiled_add(num_warps=8)
    stream = driver().create_stream(0)
    standin.clear()
    kernel.launch((7, 5, 3), stream, 0x7F0000001000, 0x2000, 0x3000, -2)
    (call,) = standin.launches
    assert call["function"] == "add_kernel"
    assert call.triple("grid") == (7, 5, 3)
    assert call.triple("block") == (256, 1, 1)
    assert call.integer("shared") == 0
    assert call.integer("stream") == stream
    # The stand-in took the sizes of the parameters from the cubin: the two scratch pointers are there too.
    addresses = [packed("Q", address) for address in (0x7F0000001000, 0x2000, 0x3000)]
    assert call.values == [*addresses, packed("i", -2), packed("Q", 0), packed("Q", 0)]


def test_every_scalar_type_arrives_in_its_own_bytes(standin):
    kernel = driver().compile(every_type_kernel, EVERY, {})
    kernel.launch((1, 1, 1), 0, 0x1000, -(2**31), 2**62 + 1, 0.1, 0.1, 1.01, 1.1, -128, 2**64 - 1, -5)
    (call,) = standin.launches
    expected = [
        packed("Q", 0x1000),
        packed("i", -(2**31)),
        packed("q", 2**62 + 1),
        packed("f", 0.1),
        packed("d", 0.1),
        bytes.fromhex("813f"),  # 1.01 to the nearest bfloat16 is 1.0078125
        packed("e", 1.1),
        packed("b", -128),
        packed("Q", 2**64 - 1),
        packed("h", -5),
        packed("Q", 0),
        packed("Q", 0),
    ]
    assert call.values == expected


@pytest.mark.parametrize("grid", [(0, 1, 1), (4, 0, 1), (4, 1, 0)])
def test_an_empty_grid_launches_nothing(standin, grid):
    before = driver().launches
    made_up().launch(grid, 0, 0, 0)
    assert standin.launches == []
    assert driver().launches == before


@pytest.mark.parametrize("grid", [(-1, 1, 1), (2**31, 1, 1), (2**32 + 1, 1, 1), (1, 65536, 1), (1, 1, 65536)])
def test_a_grid_beyond_the_limits_is_refused_and_the_next_launch_runs(standin, grid):
    kernel = made_up("limits")
    with pytest.raises(RuntimeError, match=r"invalid configuration argument.*limits.*expected a grid"):
        kernel.launch(grid, 0, 0, 0)
    kernel.launch((1, 1, 1), 0, 0, 0)
    assert standin.launches[-1].triple("grid") == (1, 1, 1)


@pytest.mark.parametrize("values", [(), (0,), (0, 0, 0), (0, 2**31), (0, 1.5), (0, "1"), (None, 1), (-1, 1)])
def test_values_that_do_not_fit_are_refused_and_the_next_launch_runs(standin, values):
    kernel = made_up("misfit")
    with pytest.raises(TypeError, match="misfit"):
        kernel.launch((1, 1, 1), 0, *values)
    assert standin.launches == []
    kernel.launch((1, 1, 1), 0, 8, 9)
    assert len(standin.launches) == 1


def test_more_than_48_kib_of_shared_memory_are_asked_for_when_the_kernel_is_loaded(standin):
    kernel = made_up("large", shared=100_000)
    (call,) = standin.named("cuFuncSetAttribute")
    assert (call["attribute"], call["value"]) == ("8", "100000")
    kernel.launch((1, 1, 1), 0, 0, 0)
    assert standin.launches[0].integer("shared") == 100_000
    standin.clear()
    made_up("small", shared=48 * 1024).launch((1, 1, 1), 0, 0, 0)
    assert standin.named("cuFuncSetAttribute") == []


def test_scratch_of_a_descriptor_kernel_comes_from_the_stream(standin):
    signature = {"x": "*fp16", "out": "*fp16", "n": "i32"}
    kernel = driver().compile(descriptor_kernel, signature, {"BLOCK": 64}, divisible=frozenset({"x", "out"}))
    stream = driver().create_stream(0)
    standin.clear()
    kernel.launch((5, 1, 1), stream, 0x1000, 0x2000, 300)
    (call,) = standin.launches
    assert struct.unpack("Q", call.values[3])[0] % 128 == 0
    assert struct.unpack("Q", call.values[3])[0] != 0
    assert call.values[4] == packed("Q", 0)
    kernel.launch((5, 1, 1), stream, 0x1000, 0x2000, 300)
    # The first launch's scratch is dropped when it is enqueued: work on the same stream may have it next.
    assert standin.launches[1].values[3] == call.values[3]
    kernel.launch((5, 1, 1), 0, 0x1000, 0x2000, 300)
    assert standin.launches[2].values[3] != call.values[3]


def attributes(call):
    """Return the attributes of a launch and their values."""
    rows = (row.split(":") for row in call["attributes"].split(",") if row)
    return {int(number): tuple(map(int, value)) for number, *value in rows}


def test_clusters_are_launched_as_triton_does(standin):
    made_up("clusters", num_ctas=2).launch((3, 2, 1), 0, 0, 0)
    (call,) = standin.launches
    assert call.name == "cuLaunchKernelEx"
    assert call.triple("grid") == (6, 2, 1)
    assert attributes(call) == {4: (2, 1, 1), 5: (1, 0, 0)}
    assert standin.named("cuFuncSetAttribute") == []
    made_up("wide", num_ctas=16)
    assert standin.named("cuFuncSetAttribute")[0]["attribute"] == "14"


def test_programmatic_and_cooperative_launches_set_their_attributes(standin):
    stream = driver().create_stream(0)
    made_up("dependent", launch_pdl=True, shared=50_000).launch((3, 2, 1), stream, 0, 0)
    made_up("cooperative", launch_cooperative_grid=True).launch((3, 2, 1), 0, 0, 0)
    first, second = standin.launches
    assert attributes(first) == {6: (1, 0, 0)}
    assert attributes(second) == {2: (1, 0, 0)}
    assert (first.triple("grid"), first.triple("block")) == ((3, 2, 1), (128, 1, 1))
    assert (first.integer("stream"), first.integer("shared")) == (stream, 50_000)
    with pytest.raises(RuntimeError, match="invalid configuration argument"):
        made_up("negative", launch_pdl=True).launch((-3, 1, 1), 0, 0, 0)


def test_the_compiler_says_which_launch_a_kernel_wants(standin):
    plain = compile_kernel(add_kernel, ADD, {"BLOCK": 128}, capability=90)
    assert (plain.launch_pdl, plain.launch_cooperative_grid) == (False, False)
    options = {"launch_pdl": True, "launch_cooperative_grid": True}
    types = {"x": "*fp32", "n": "i32"}
    asked = compile_kernel(increment_after_dependency, types, {"BLOCK": 128}, capability=90, options=options)
    assert (asked.launch_pdl, asked.launch_cooperative_grid) == (True, True)


def test_threads_launch_at_the_same_time_with_their_own_arguments(standin):
    kernel = compiled_add()
    errors = []

    def work(number):
        try:
            driver().set_device(0)
            for i in range(200):
                kernel.launch((1, 1, 1), 0, number << 32, number << 32, number << 32, i)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(1, 7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    by_thread = {}
    for call in standin.launches:
        x, y, out, n = (int.from_bytes(value, "little") for value in call.values[:4])
        assert x == y == out
        by_thread.setdefault((call.thread, x), []).append(n)
    assert len(by_thread) == 6
    assert all(numbers == list(range(200)) for numbers in by_thread.values())


def test_a_finaliser_that_launches_in_between_leaves_the_arguments_alone(standin):
    kernel = made_up("finalised", types=("i64", "i64"))
    standin.tell("finalised", [8, 8, 8, 8])
    kernel = made_up("finalised", types=("i64", "i64"))

    class Late:
        """Number whose conversion launches the same kernel, as a finalizer inside an allocation could."""

        def __index__(self):
            kernel.launch((1, 1, 1), 0, 3, 4)
            return 2

    kernel.launch((1, 1, 1), 0, 1, Late())
    inner, outer = standin.launches
    assert [int.from_bytes(v, "little") for v in inner.values] == [3, 4, 0, 0]
    assert [int.from_bytes(v, "little") for v in outer.values] == [1, 2, 0, 0]


def test_a_thread_that_never_chose_a_device_launches_on_device_0(standin):
    kernel = made_up("newcomer")
    thread = threading.Thread(target=kernel.launch, args=((1, 1, 1), 0, 0, 0))
    thread.start()
    thread.join()
    assert standin.launches[-1].device == 0


def test_a_launch_reaches_its_device_though_cupy_chose_another(standin):
    import cupy

    kernel = made_up("own_device")
    with cupy.cuda.Device(1):
        kernel.launch((1, 1, 1), 0, 0, 0)
        assert cupy.cuda.runtime.getDevice() == 1
    assert standin.launches[-1].device == 0


def test_the_driver_counts_what_was_launched(standin):
    kernel = made_up("counted")
    before = driver().launches
    kernel.launch((1, 1, 1), 0, 0, 0)
    standin.fail("cuLaunchKernel", 1)
    with pytest.raises(RuntimeError, match="CUDA error"):
        kernel.launch((1, 1, 1), 0, 0, 0)
    assert driver().launches == before + 1


def test_launches_can_be_observed_and_left_out(standin):
    a, b = tt.ones(16, device="cuda"), tt.ones(16, device="cuda")
    a + b
    seen = []

    def observe(name, grid, stream, launch):
        seen.append((name, grid, stream))
        if len(seen) == 1:
            launch()

    assert driver().observe_launches(observe) is None
    try:
        calls = standin.during(lambda: (a + b, a * b))
    finally:
        assert driver().observe_launches(None) is observe
    assert [name for name, *_ in seen] == ["dense"] * len(seen)
    assert all(stream == 0 and min(grid) > 0 for _, grid, stream in seen)
    assert sum(call.name == "cuLaunchKernel" for call in calls) == 1, "the others were left out"
    assert len(standin.during(lambda: a + b)) == 1
    assert len(seen) == 2


@pytest.mark.parametrize("change", ["missing", "another signature"])
def test_ctypes_launches_where_cupys_function_is_not_what_it_was(standin, change):
    from cupy.cuda import driver as cupy_driver

    from triten.runtime.cuda.cupy import kernel as cupy_kernel
    from triten.runtime.cuda.cupy.libcuda import choose_launch_kernel

    def launch(f, grid_dim_x, stream):
        """Stand in for launchKernel(f, grid_dim_x, stream)."""

    with pytest.MonkeyPatch.context() as patch:
        if change == "missing":
            patch.delattr(cupy_driver, "launchKernel")
        else:
            patch.setattr(cupy_driver, "launchKernel", launch)
        chosen = choose_launch_kernel()
        patch.setattr(cupy_kernel, "launch_kernel", lambda: chosen)
        standin.tell(f"fallen_back_{change[0]}", [8, 4, 8, 8])
        kernel = made_up(f"fallen_back_{change[0]}")
    stream = driver().create_stream(0)
    kernel.launch((7, 5, 3), stream, 0x7F0000001000, -2)
    (call,) = standin.launches
    assert (call.triple("grid"), call.triple("block")) == ((7, 5, 3), (128, 1, 1))
    assert call.integer("stream") == stream
    assert call.values == [packed("Q", 0x7F0000001000), packed("i", -2), packed("Q", 0), packed("Q", 0)]
    for grid in ((-1, 1, 1), (2**32 + 1, 1, 1)):
        with pytest.raises(RuntimeError, match="invalid configuration argument"):
            kernel.launch(grid, 0, 0, 0)
    standin.fail("cuLaunchKernel", 719)
    with pytest.raises(RuntimeError, match="CUDA error: unspecified launch failure"):
        kernel.launch((1, 1, 1), 0, 0, 0)


def test_cupys_function_is_what_it_was(standin):
    from cupy.cuda import driver as cupy_driver

    from triten.runtime.cuda.cupy.libcuda import choose_launch_kernel

    assert choose_launch_kernel() is cupy_driver.launchKernel
