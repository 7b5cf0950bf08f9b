"""A user's own kernel, compiled: from ``kernel[grid](tensors)`` to the launch, without a GPU and without
PyTorch.

`test_triton_driver.py` runs it in a process of its own, without the interpreter: Triton compiles for sm_90,
and a driver records the launches.
"""

import ctypes
import gc
import math
import struct
import sys
import threading

import pytest
import triton
import triton.language as tl
from triton.runtime.errors import OutOfResources
from triton.runtime.jit import MockTensor
from triton.tools.tensor_descriptor import TensorDescriptor

import triten as tt
from triten.runtime.cuda import driver as drivers
from triten.tests.runtime.cuda.triton.recording_driver import RecordingDriver

CUDA = drivers._driver = RecordingDriver()
tt.library.use_triton_driver()

CODE = CUDA.code
ADDRESS, SCRATCH = "u64", ("u64", "u64")


@pytest.fixture(autouse=True)
def fresh():
    CODE.launched.clear()
    CUDA.set_device(0)
    yield
    assert "torch" not in sys.modules, "typing an argument imported PyTorch"


def only():
    (launched,) = CODE.launched
    return launched


def on_cuda(*sizes, dtype=tt.float32, device="cuda"):
    return tt.empty(sizes, dtype=dtype, device=device)


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) + tl.load(y + i, mask=i < n), mask=i < n)


@triton.jit
def numbers(out, a, b, c, d, e: tl.float64, f: tl.bfloat16, g: tl.int64, nothing):
    tl.store(out, a + b + c + d + e + f + g)


def test_tensors_go_as_addresses_and_constants_not_at_all():
    x, y, out = (on_cuda(1000) for _ in range(3))
    before = CUDA.launches
    add[(4,)](x, y, out, 1000, BLOCK=256)
    launched = only()
    assert launched.values(ADDRESS, ADDRESS, ADDRESS, "i32", *SCRATCH) == [
        *(t.data_ptr() for t in (x, y, out)),
        1000,
        0,
        0,
    ]
    assert (launched.name, launched.grid, launched.stream, launched.device) == ("add", (4, 1, 1), 0, 0)
    assert launched.shape == (128, 0, 1, False, False)
    assert CUDA.launches == before + 1


def test_a_kernel_is_compiled_and_loaded_once():
    x = on_cuda(64)
    loaded = len(CODE.loaded)
    for n in (32, 48):
        add[(1,)](x, x, x, n, BLOCK=32)
    assert len(CODE.loaded) == loaded + 1
    add[(1,)](x, x, x, 33, BLOCK=32)
    assert len(CODE.loaded) == loaded + 2, "not divisible by 16"
    add[(1,)](x[1:], x, x, 33, BLOCK=32)
    assert len(CODE.loaded) == loaded + 3, "not aligned"


@pytest.mark.parametrize(("n", "offset", "wide"), [(1024, 0, True), (1023, 0, False), (1024, 1, False)])
def test_alignment_is_specialised(n, offset, wide):
    x, y, out = (on_cuda(2000) for _ in range(3))
    kernel = add[(1,)](x[offset:], y[offset:], out[offset:], n, BLOCK=512)
    assert ("ld.global.v4" in kernel.asm["ptx"]) is wide


def test_one_is_a_constant_and_so_is_none():
    out = on_cuda(8)
    numbers[(1,)](out, 1, 7, 2.5, True, 0.1, 1.006, 2**40, None)
    values = only().values(ADDRESS, "i32", "fp32", "u8", "fp64", "u16", "i64", *SCRATCH)
    assert values == [out.data_ptr(), 7, 2.5, 1, 0.1, 0x3F81, 2**40, 0, 0]


@triton.jit
def range_of(out, n):
    tl.store(out + tl.arange(0, n), 1.0)


def test_one_can_be_used_as_a_constant():
    range_of[(1,)](on_cuda(4), 1)
    with pytest.raises(triton.CompilationError):
        range_of[(1,)](on_cuda(4), 2)


@pytest.mark.parametrize(
    ("value", "type_"), [(-5, "i32"), (2**31, "i64"), (-(2**63), "i64"), (2**63, "u64"), (2**64 - 1, "u64")]
)
def test_integers_are_as_wide_as_they_must_be(value, type_):
    out = on_cuda(8)
    numbers[(1,)](out, value, 2, 3.0, False, 0.5, 0.5, 3, None)
    assert only().values(ADDRESS, type_)[1] == value


@pytest.mark.parametrize("value", [1e300, -1e300, math.inf])
def test_floats_beyond_their_type_are_infinite(value):
    out = on_cuda(8)
    numbers[(1,)](out, 5, 7, value, True, 0.1, 1.006, 2**40, None)
    assert only().values(ADDRESS, "i32", "i32", "fp32")[3] == math.copysign(math.inf, value)


def test_integers_beyond_an_annotated_type_are_refused():
    @triton.jit
    def narrow(out, n: tl.int8):
        tl.store(out, n)

    with pytest.raises(TypeError, match=r"kernel 'narrow'.*\('\*fp32', 'i8'\)"):
        narrow[(1,)](on_cuda(1), 1000)
    assert CODE.launched == []


@pytest.mark.parametrize(
    ("grid", "expected"),
    [
        ((3,), (3, 1, 1)),
        ((3, 4), (3, 4, 1)),
        ([2, 3, 4], (2, 3, 4)),
        (lambda meta: (triton.cdiv(meta["n"], meta["BLOCK"]), 2), (32, 2, 1)),
    ],
)
def test_grids(grid, expected):
    x = on_cuda(1024)
    add[grid](x, x, x, 1024, BLOCK=32)
    assert only().grid == expected


def test_an_empty_grid_launches_nothing_and_too_large_a_one_is_refused():
    x = on_cuda(32)
    add[(0,)](x, x, x, 32, BLOCK=32)
    add[(4, 0)](x, x, x, 32, BLOCK=32)
    assert CODE.launched == []
    with pytest.raises(RuntimeError, match=r"invalid configuration argument: kernel 'add'"):
        add[(1, 65536)](x, x, x, 32, BLOCK=32)
    add[(1,)](x, x, x, 32, BLOCK=32)
    assert only().grid == (1, 1, 1)


def test_the_current_device_and_stream_are_triten_s():
    x = on_cuda(32, device="cuda:1")
    CUDA.set_device(1)
    stream = CUDA.create_stream(1)
    CUDA.set_stream(1, stream)
    try:
        add[(1,)](x, x, x, 32, BLOCK=32)
    finally:
        CUDA.set_stream(1, 0)
    assert (only().device, only().stream) == (1, stream)
    assert CODE.loaded[-1][3] == 1


def test_each_thread_has_its_own_stream():
    x = on_cuda(32)
    add[(1,)](x, x, x, 32, BLOCK=32)

    def work(stream):
        CUDA.set_stream(0, stream)
        add[(1,)](x, x, x, 32, BLOCK=32)

    threads = [threading.Thread(target=work, args=(stream,)) for stream in (7, 8)]
    for thread in threads:
        thread.start()
        thread.join()
    assert [launched.stream for launched in CODE.launched] == [0, 7, 8]


def test_a_launch_within_a_launch_does_not_write_over_its_parameters(monkeypatch):
    """Launch within a launch, as a finalizer may between packing and the driver's call."""
    x, launch = on_cuda(32), CODE.launch

    def nested(*args):
        monkeypatch.setattr(CODE, "launch", launch)
        add[(1,)](x, x, x, 17, BLOCK=32)
        launch(*args)

    add[(1,)](x, x, x, 19, BLOCK=32)
    CODE.launched.clear()
    monkeypatch.setattr(CODE, "launch", nested)
    add[(1,)](x, x, x, 21, BLOCK=32)
    inner, outer = CODE.launched
    assert [launched.values(*[ADDRESS] * 3, "i32")[3] for launched in (inner, outer)] == [17, 21]


@pytest.mark.parametrize("position", [0, 1, 2])
@pytest.mark.parametrize("where", ["cpu", "meta", "cuda:1"])
def test_tensors_out_of_reach_are_refused(where, position):
    tensors = [on_cuda(32) for _ in range(3)]
    tensors[position] = on_cuda(32, device=where)
    words = (
        rf"Pointer argument \(at {position}\) cannot be accessed from Triton \(cpu tensor\?\).*'add'.*{where}"
    )
    with pytest.raises(ValueError, match=words):
        add[(1,)](*tensors, 32, BLOCK=32)
    assert CODE.launched == []
    add[(1,)](*[on_cuda(32)] * 3, 32, BLOCK=32)
    assert len(CODE.launched) == 1


def test_memory_of_others_is_asked_for():
    class Array:
        dtype = tt.float32

        def __init__(self, address):
            self.address = address

        def data_ptr(self):
            return self.address

    CODE.reachable.add(0x7000)
    x = on_cuda(32)
    add[(1,)](x, Array(0x7000), x, 32, BLOCK=32)
    assert only().values(ADDRESS, ADDRESS)[1] == 0x7000
    with pytest.raises(ValueError, match=r"Pointer argument \(at 1\) cannot be accessed"):
        add[(1,)](x, Array(0x9000), x, 32, BLOCK=32)


def test_an_empty_tensor_is_a_null_pointer():
    x = on_cuda(32)
    add[(1,)](x, tt.empty(0), x, 32, BLOCK=32)
    assert only().values(ADDRESS, ADDRESS)[1] == 0


@pytest.mark.parametrize(
    ("args", "kwargs", "error"),
    [
        ((4,), {}, TypeError),
        ((4,), {"BLOCK": 4, "unknown": 2}, KeyError),
        (("4",), {"BLOCK": 4}, TypeError),
        ((2**64,), {"BLOCK": 4}, OverflowError),
    ],
)
def test_arguments_that_do_not_fit(args, kwargs, error):
    x = on_cuda(32)
    with pytest.raises(error):
        add[(1,)](x, x, x, *args, **kwargs)
    assert CODE.launched == []


DTYPES = {
    tt.float16: "fp16",
    tt.bfloat16: "bf16",
    tt.float32: "fp32",
    tt.float64: "fp64",
    tt.int8: "i8",
    tt.uint8: "u8",
    tt.int16: "i16",
    tt.int32: "i32",
    tt.int64: "i64",
    tt.uint16: "u16",
    tt.uint32: "u32",
    tt.uint64: "u64",
    tt.bool: "u1",
    tt.float8_e5m2: "fp8e5",
    tt.float8_e4m3fn: "fp8e4nv",
}


@triton.jit
def copy(x, out):
    tl.store(out, tl.load(x))


@pytest.mark.parametrize("dtype", DTYPES, ids=repr)
def test_dtypes(dtype):
    kernel = copy[(1,)](on_cuda(4, dtype=dtype), on_cuda(4, dtype=dtype))
    assert kernel.src.signature == {"x": f"*{DTYPES[dtype]}", "out": f"*{DTYPES[dtype]}"}


def test_the_same_memory_as_another_dtype():
    x = on_cuda(4, dtype=tt.uint8)
    kernel = copy[(1,)](triton.reinterpret(x, tl.float8e5), triton.reinterpret(x, tl.float8e5))
    assert kernel.src.signature["x"] == "*fp8e5"
    assert only().values(ADDRESS)[0] == x.data_ptr()
    with pytest.raises(ValueError, match="cpu tensor"):
        copy[(1,)](
            triton.reinterpret(tt.ones(4, dtype=tt.uint8), tl.float8e5), triton.reinterpret(x, tl.float8e5)
        )


@triton.jit
def from_tuple(pair, out):
    tl.store(out, tl.load(pair[0]) + pair[1][0] + pair[1][1])


def test_tuples_are_taken_apart():
    x, out = on_cuda(4), on_cuda(4)
    from_tuple[(1,)]((x, (1, 5)), out)
    assert only().values(ADDRESS, "i32", ADDRESS, *SCRATCH) == [x.data_ptr(), 5, out.data_ptr(), 0, 0]
    with pytest.raises(ValueError, match=r"\(at 0\) cannot be accessed"):
        from_tuple[(1,)]((tt.ones(4), (1, 5)), out)


@triton.jit
def apply(x, FUNCTION: tl.constexpr):
    tl.store(x, FUNCTION(tl.load(x)))


@triton.jit
def square(x):
    return x * x


def test_a_function_is_an_argument():
    x = on_cuda(4)
    apply[(1,)](x, square)
    assert only().values(ADDRESS, *SCRATCH) == [x.data_ptr(), 0, 0]


def test_heuristics():
    @triton.heuristics({"EVEN": lambda args: args["n"] % 2 == 0})
    @triton.jit
    def halves(x, n, EVEN: tl.constexpr):
        tl.store(x, 1.0 if EVEN else n * 1.0)

    x = on_cuda(4)
    kernel = halves[(1,)](x, 6)
    assert kernel.src.constants == {(2,): True}


def test_autotuning_takes_the_fastest_by_the_events_of_triten(monkeypatch):
    @triton.autotune(
        [triton.Config({"BLOCK": block}, num_warps=warps) for block, warps in ((32, 1), (64, 2), (128, 4))],
        key=["n"],
    )
    @triton.jit
    def tuned(x, n, BLOCK: tl.constexpr):
        i = tl.arange(0, BLOCK)
        tl.store(x + i, n, mask=i < n)

    monkeypatch.setattr(CUDA, "cost", lambda launched: {32: 3.0, 64: 0.5, 128: 2.0}[launched.shape.threads])
    x = on_cuda(64)
    before = len(CUDA.memset_calls)
    tuned[(1,)](x, 50)
    assert tuned.best_config.kwargs == {"BLOCK": 64}
    assert CODE.launched[-1].shape.threads == 64
    flushes = CUDA.memset_calls[before:]
    assert len(flushes) > 10 and all(nbytes >= 2**28 for _, _, nbytes, _ in flushes)
    timed = len(CODE.launched)
    tuned[(1,)](x, 50)
    assert len(CODE.launched) == timed + 1, "remembered"


def test_tuning_restores_and_zeroes_arguments():
    @triton.autotune(
        [triton.Config({"BLOCK": 32}), triton.Config({"BLOCK": 64})],
        key=[],
        reset_to_zero=["x"],
        restore_value=["y"],
    )
    @triton.jit
    def tuned(x, y, BLOCK: tl.constexpr):
        tl.store(x, tl.load(y) + BLOCK)

    tuned[(1,)](on_cuda(4), on_cuda(4))
    assert tuned.best_config is not None


def test_configurations_that_want_too_much_are_passed_over(monkeypatch):
    monkeypatch.setattr(CUDA, "max_threads", 128)

    @triton.autotune([triton.Config({}, num_warps=8), triton.Config({}, num_warps=4)], key=[])
    @triton.jit
    def greedy(x):
        tl.store(x, 1.0)

    greedy[(1,)](on_cuda(4))
    assert greedy.best_config.num_warps == 4

    @triton.jit
    def refused(x):
        tl.store(x, 2.0)

    with pytest.raises(OutOfResources, match="threads"):
        refused[(1,)](on_cuda(4), num_warps=8)


def test_do_bench_times_by_events():
    x = on_cuda(32)
    assert triton.testing.do_bench(lambda: add[(1,)](x, x, x, 32, BLOCK=32), warmup=2, rep=5) == 1.0
    before = len(CUDA.events)
    gc.collect()
    assert len(CUDA.events) <= before, "events are given back"


def test_hooks_surround_the_launch():
    seen = []

    def enter(metadata):
        seen.append(("enter", metadata.get()["name"], len(CODE.launched)))

    def leave(metadata):
        seen.append(("leave", metadata.get()["name"], len(CODE.launched)))

    x = on_cuda(32)
    triton.knobs.runtime.launch_enter_hook.add(enter)
    triton.knobs.runtime.launch_exit_hook.add(leave)
    try:
        add[(1,)](x, x, x, 32, BLOCK=32)
    finally:
        triton.knobs.runtime.launch_enter_hook.remove(enter)
        triton.knobs.runtime.launch_exit_hook.remove(leave)
    assert seen == [("enter", "add", 0), ("leave", "add", 1)]


def test_options_reach_the_launch():
    x = on_cuda(32)
    add[(3,)](x, x, x, 32, BLOCK=32, num_warps=2, num_ctas=2, launch_cooperative_grid=True, launch_pdl=True)
    assert (only().grid, only().shape) == ((3, 1, 1), (64, only().shape.shared, 2, True, True))


@triton.jit
def device_descriptor(x, M, N, BLOCK: tl.constexpr):
    made = tl.make_tensor_descriptor(x, [M, N], [N, 1], [BLOCK, BLOCK])
    made.store([0, 0], made.load([0, 0]) * 2)


def test_scratch_comes_from_the_caching_allocator():
    x = on_cuda(64, 64)
    before = tt.cuda.memory_allocated(), tt.cuda.max_memory_allocated()
    kernel = device_descriptor[(2, 3)](x, 64, 64, BLOCK=32)
    address = only().values(ADDRESS, "i32", "i32", "u64")[3]
    assert kernel.metadata.global_scratch_size > 0
    assert address % 128 == 0 and address != 0
    assert tt.cuda.memory_allocated() == before[0], "given back after the launch"


def test_scratch_comes_from_the_allocator_of_the_user():
    x, asked = on_cuda(64, 64), []

    def allocate(nbytes, alignment, stream):
        asked.append((nbytes, alignment, stream))
        return tt.empty(nbytes, dtype=tt.int8, device="cuda")

    triton.set_allocator(allocate)
    try:
        kernel = device_descriptor[(2, 3)](x, 64, 64, BLOCK=32)
    finally:
        from triton.runtime import _allocation

        _allocation._allocator.set(_allocation._NULL_ALLOCATOR)
    assert asked == [(6 * kernel.metadata.global_scratch_size, 128, 0)]
    assert only().values(ADDRESS, "i32", "i32", "u64")[3] != 0


@triton.jit
def host_descriptor(n, source, target, out, BLOCK: tl.constexpr):
    tile = source.load([0, BLOCK])
    target.store([0, 0], tile * n)
    tl.store(out, n)


class MapEncoder:
    """Fake of the driver's library that records what it would encode, and writes a pattern."""

    def __init__(self, version=13020, status=0):
        self.version, self.status, self.calls = version, status, []

    def cuTensorMapEncodeTiled(self, target, type_, rank, address, sizes, strides, box, steps, *rest):
        self.calls.append(
            {
                "type": type_,
                "address": address.value,
                "sizes": sizes[:rank],
                "strides": strides[: rank - 1],
                "box": box[:rank],
                "steps": steps[:rank],
                "rest": rest,
            }
        )
        assert target.value % 64 == 0
        ctypes.memset(target, 0xFF, 128)
        return self.status

    def cuDriverGetVersion(self, version):
        version._obj.value = self.version
        return 0


@pytest.fixture
def encoder(monkeypatch):
    made = MapEncoder()
    monkeypatch.setattr(CODE, "library", lambda: made)
    return made


def described():
    source, target = on_cuda(100, 256, dtype=tt.float16), on_cuda(64, 64, dtype=tt.float16)
    return (
        source,
        target,
        TensorDescriptor.from_tensor(source, [64, 64]),
        TensorDescriptor(target, [64, 64], [64, 1], [64, 64]),
    )


def test_a_descriptor_is_a_tensor_map_with_its_sizes_and_strides(encoder):
    source, target, first, second = described()
    out = on_cuda(1)
    host_descriptor[(1,)](3, first, second, out, BLOCK=64)
    values = only().values(
        "i32", 128, "i32", "i32", "i64", "i64", 128, "i32", "i32", "i64", "i64", ADDRESS, *SCRATCH
    )
    assert values[:6] == [3, b"\xff" * 128, 100, 256, 256, 1]
    assert values[6:] == [b"\xff" * 128, 64, 64, 64, 1, out.data_ptr(), 0, 0]
    call = encoder.calls[0]
    assert (call["address"], call["sizes"], call["strides"]) == (source.data_ptr(), [256, 100], [512])
    assert (call["type"], call["steps"]) == (6, [1, 1])
    assert call["box"][-1] <= 64 and call["rest"][0] == 0 and call["rest"][2:] == (2, 0)
    assert encoder.calls[1]["address"] == target.data_ptr()


@pytest.mark.parametrize(("version", "cleared"), [(13010, True), (13020, False)])
def test_small_maps_are_mended_for_old_drivers(encoder, version, cleared):
    encoder.version = version
    _, _, first, second = described()
    host_descriptor[(1,)](3, first, second, on_cuda(1), BLOCK=64)
    (small,) = only().values("i32", 128)[1:]
    assert struct.unpack("16Q", small)[1] == (2**64 - 1 - 2**21 if cleared else 2**64 - 1)


def test_a_map_that_the_driver_refuses(encoder):
    encoder.status = 1
    _, _, first, second = described()
    with pytest.raises(RuntimeError, match=r"status 1: cuTensorMapEncodeTiled of sizes \[100, 256\]"):
        host_descriptor[(1,)](3, first, second, on_cuda(1), BLOCK=64)
    assert CODE.launched == []


def test_descriptors_of_cpu_tensors_are_refused(encoder):
    _, _, _, second = described()
    wrong = TensorDescriptor.from_tensor(tt.ones(64, 64, dtype=tt.float16), [64, 64])
    with pytest.raises(ValueError, match=r"Pointer argument \(at 1\) cannot be accessed"):
        host_descriptor[(1,)](3, wrong, second, on_cuda(1), BLOCK=64)


def test_warmup_compiles_and_launches_nothing():
    loaded = len(CODE.loaded)
    kernel = add.warmup(tt.float16, tt.float16, MockTensor(tt.float16), 64, BLOCK=64, grid=(1,))
    assert kernel.src.signature["x"] == "*fp16"
    assert CODE.launched == [] and len(CODE.loaded) == loaded
    x = on_cuda(64, dtype=tt.float16)
    add[(1,)](x, x, x, 64, BLOCK=64)
    assert len(CODE.launched) == 1


def test_a_compiled_kernel_launches_again():
    x = on_cuda(32)
    kernel = add[(1,)](x, x, x, 32, BLOCK=32)
    kernel[(5, 1, 1)](x, x, x, 32, 32, stream=9)
    assert (CODE.launched[-1].grid, CODE.launched[-1].stream) == ((5, 1, 1), 9)


def test_a_compiled_kernel_launches_without_its_constants():
    @triton.jit
    def between(x, BLOCK: tl.constexpr, y, n):
        i = tl.arange(0, BLOCK)
        tl.store(y + i, tl.load(x + i, mask=i < n), mask=i < n)

    x, y = on_cuda(32), on_cuda(32)
    kernel = between[(1,)](x, 32, y, 30)
    kernel[(1, 1, 1)](x, y, 30)
    first, second = (launched.values(ADDRESS, ADDRESS, "i32", *SCRATCH) for launched in CODE.launched)
    assert first == second == [x.data_ptr(), y.data_ptr(), 30, 0, 0]
    for wrong in ((x, y), (x, 32, y, 30, 1)):
        with pytest.raises(
            TypeError, match=f"takes 4 arguments, or 3 without its constants, got {len(wrong)}"
        ):
            kernel[(1, 1, 1)](*wrong)


def test_programs_may_ask_about_the_device():
    active = triton.runtime.driver.active
    assert active.get_current_target() == triton.backends.compiler.GPUTarget("cuda", 90, 32)
    properties = active.utils.get_device_properties(0)
    assert (properties["multiprocessor_count"], properties["max_shared_mem"]) == (132, 232_448)
    assert (properties["warpSize"], properties["max_num_regs"]) == (32, 65536)
    assert tt.empty(3, device=active.get_active_torch_device()).device == tt.device("cuda:0")


def test_more_shared_memory_than_there_is_is_refused(monkeypatch):
    @triton.jit
    def total(x, N: tl.constexpr):
        tl.store(x, tl.sum(tl.load(x + tl.arange(0, N))))

    ask = triton.compiler.compiler.max_shared_mem  # remembers its answers
    ask.cache_clear()
    monkeypatch.setattr(CUDA, "max_shared", 4)
    with pytest.raises(OutOfResources, match="shared memory"):
        total[(1,)](on_cuda(256), N=256)
    ask.cache_clear()
    assert CODE.launched == []


def test_a_kernel_that_did_not_load_loads_at_its_next_launch(monkeypatch):
    @triton.jit
    def late(x):
        tl.store(x, 3.0)

    def refuse(name, cubin, shared):
        raise RuntimeError(f"kernel '{name}' does not load")

    x, load = on_cuda(4), CODE.load
    monkeypatch.setattr(CODE, "load", refuse)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="kernel 'late' does not load"):
            late[(1,)](x)
    monkeypatch.setattr(CODE, "load", load)
    loaded = len(CODE.loaded)
    late[(1,)](x)
    late[(1,)](x)
    assert [launched.name for launched in CODE.launched] == ["late", "late"]
    assert len(CODE.loaded) == loaded + 1


def test_the_driver_can_be_given_back():
    ours = triton.runtime.driver._active
    with tt.library.use_triton_driver(False):
        assert triton.runtime.driver._active is None
        with pytest.raises(ZeroDivisionError), tt.library.use_triton_driver():
            assert triton.runtime.driver._active is not ours
            raise ZeroDivisionError
        assert triton.runtime.driver._active is None
    assert triton.runtime.driver._active is ours
