"""A user's ``kernel[grid](tensors)`` over the stand-in: Triton compiles, and the driver gets the expected
calls.
"""

import gc
import struct

import pytest
import triton
import triton.language as tl

import triten as tt
from triten.runtime.cuda.driver import driver


@triton.jit
def add(x, y, out, n, scale, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + i, mask=i < n) + scale * tl.load(y + i, mask=i < n)
    tl.store(out + i, value, mask=i < n)


@triton.jit
def total(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out, tl.sum(tl.sum(tl.load(x + i[:, None] * N + i[None, :]), 1), 0))


@triton.jit
def tile(x, n, BLOCK: tl.constexpr):
    made = tl.make_tensor_descriptor(x, [n, BLOCK], [BLOCK, 1], [BLOCK, BLOCK])
    made.store([tl.program_id(0) * BLOCK, 0], made.load([0, 0]))


def prepared(n=64):
    tt.library.use_triton_driver()
    return [tt.empty(n, device="cuda") for _ in range(3)]


def test_triten_is_in_charge_by_itself(standin):
    tt.empty(1, device="cuda")
    assert type(triton.runtime.driver.active).__name__ == "TritonDriver"


def test_a_kernel_is_loaded_once_and_each_call_is_one_launch(standin):
    x, y, out = prepared()
    standin.clear()
    add[(4,)](x, y, out, 64, 0.5, BLOCK=16)
    assert standin.sequence[:2] == ["cuModuleLoadData", "cuModuleGetFunction"]
    assert standin.named("cuModuleGetFunction")[0]["function"] == "add"
    assert standin.sequence[-1] == "cuLaunchKernel"
    standin.clear()
    for _ in range(3):
        add[(4,)](x, y, out, 64, 0.5, BLOCK=16)
    assert [call.name for call in standin.calls] == ["cuLaunchKernel"] * 3


def test_a_launch_passes_grid_block_stream_and_arguments(standin):
    x, y, out = prepared()
    cuda = driver()
    stream = cuda.create_stream(0)
    cuda.set_stream(0, stream)
    try:
        add[(4, 3, 2)](x, y, out, 63, 0.5, BLOCK=16, num_warps=2)
    finally:
        cuda.set_stream(0, 0)
    (call,) = standin.launches
    assert (call["function"], call.triple("grid"), call.triple("block")) == ("add", (4, 3, 2), (64, 1, 1))
    assert call.integer("stream") == stream
    addresses = [struct.pack("Q", tensor.data_ptr()) for tensor in (x, y, out)]
    assert call.values == [*addresses, struct.pack("i", 63), struct.pack("f", 0.5), bytes(8), bytes(8)]


@pytest.mark.standin(devices=2)
def test_it_runs_on_the_current_device(standin):
    prepared()
    with tt.cuda.device(1):
        x = tt.empty(64, device="cuda")
        add[(1,)](x, x, x, 64, 1.5, BLOCK=64)
    (call,) = standin.launches
    assert call.device == 1


@pytest.mark.parametrize(
    "options", [{"num_ctas": 2}, {"launch_pdl": True}, {"launch_cooperative_grid": True}]
)
def test_what_a_plain_launch_cannot_do_goes_another_way(standin, options):
    x, y, out = prepared()
    add[(4,)](x, y, out, 64, 0.25, BLOCK=16, **options)
    (call,) = standin.launches
    assert call.name == "cuLaunchKernelEx"
    assert call.triple("grid") == (4 * options.get("num_ctas", 1), 1, 1)
    assert call.values[3:5] == [struct.pack("i", 64), struct.pack("f", 0.25)]


def test_memory_that_a_kernel_asks_for_is_the_allocator_s(standin):
    tt.library.use_triton_driver()
    x = tt.empty(32, 32, device="cuda")
    before = tt.cuda.memory_allocated()
    tile[(3,)](x, 32, BLOCK=32)
    (call,) = standin.launches
    (scratch,) = struct.unpack("Q", call.values[-2])
    assert scratch and scratch % 128 == 0
    assert tt.cuda.memory_allocated() == before


@pytest.mark.parametrize("name", ["cuModuleLoadData", "cuModuleGetFunction", "cuFuncGetAttribute"])
def test_a_kernel_that_does_not_load_is_refused_and_loads_later(standin, name):
    @triton.jit
    def fresh(out, NAME: tl.constexpr):
        tl.store(out, 1.0)

    _, _, out = prepared()
    standin.fail(name, 209)
    with pytest.raises(RuntimeError, match=r"CUDA error: .*kernel 'fresh'"):
        fresh[(1,)](out, name)
    assert standin.launches == []

    fresh[(1,)](out, name)
    fresh[(2,)](out, name)
    assert [call.triple("grid") for call in standin.launches] == [(1, 1, 1), (2, 1, 1)]
    assert len(standin.named("cuModuleLoadData")) == 2


def test_a_launch_that_cuda_refuses(standin):
    x, y, out = prepared()
    add[(1,)](x, y, out, 64, 0.5, BLOCK=16)
    standin.fail("cuLaunchKernel", 701)
    with pytest.raises(RuntimeError, match="CUDA error: too many resources requested"):
        add[(1,)](x, y, out, 64, 0.5, BLOCK=16)
    before = driver().launches
    add[(1,)](x, y, out, 64, 0.5, BLOCK=16)
    assert driver().launches == before + 1


def test_memory_of_others_is_asked_for(standin):
    class Array:
        dtype = tt.float32

        def __init__(self, address):
            self.address = address

        def data_ptr(self):
            return self.address

    x, y, out = prepared()
    add[(1,)](x, Array(y.data_ptr()), out, 64, 0.5, BLOCK=16)
    assert standin.launches[-1].values[1] == struct.pack("Q", y.data_ptr())
    with pytest.raises(ValueError, match=r"Pointer argument \(at 1\) cannot be accessed from Triton"):
        add[(1,)](x, Array(tt.empty(64).data_ptr()), out, 64, 0.5, BLOCK=16)


def test_modules_are_unloaded_with_the_next_load_and_not_by_the_collector(standin):
    x, _, out = prepared()

    @triton.jit
    def first(out):
        tl.store(out, 1.0)

    first[(1,)](out)
    triton.runtime.driver.active.utils.unload_module(0)
    triton.runtime.driver.active.code._given_up.clear()
    module = triton.runtime.driver.active.utils.load_binary("first", first[(1,)](out).kernel, 0, 0)[0]
    standin.clear()
    triton.runtime.driver.active.utils.unload_module(module)
    gc.collect()
    assert standin.named("cuModuleUnload") == []
    total[(1,)](x, out, 8)
    unloaded = [int(call["module"], 16) for call in standin.named("cuModuleUnload")]
    assert unloaded.count(module) == 1, "among those of other tests, which the collector found"


def test_programs_may_ask_about_the_device(standin):
    tt.library.use_triton_driver()
    properties = triton.runtime.driver.active.utils.get_device_properties(0)
    assert properties["max_shared_mem"] == tt.cuda.get_device_properties(0).max_shared_memory
    assert {"max_num_regs", "sm_clock_rate", "mem_clock_rate", "mem_bus_width"} <= set(properties)
