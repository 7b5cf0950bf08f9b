"""Faults of executed work are found, with the code that hardware gives and the emulator's description."""

import ctypes
import gc
import threading

import numpy as np
import pytest

import triten as tt
from triten.runtime.cuda.driver import driver
from triten.runtime.cuda.triton.compile import compile_kernel

pytestmark = pytest.mark.standin(execute=1)
N = 1024


def add_kernel():
    from triten.tests.gpu.gpu_check.probe_kernels import add

    return driver().compile(add, {"a": "*fp32", "b": "*fp32", "out": "*fp32", "n": "i32"}, {"BLOCK": 256})


def operands():
    return [tt.ones(N, device="cuda") for _ in range(3)]


def lost(standin, error, *words):
    """Assert that a wait and every later call fail as the device did; the finding has the given words."""
    with pytest.raises(tt.AcceleratorError, match=error):
        tt.cuda.synchronize()
    with pytest.raises(tt.AcceleratorError, match=error):
        tt.cuda.synchronize()
    (finding,) = standin.take_findings()
    assert all(word in finding for word in words), finding


def test_arguments_in_a_wrong_order(standin):
    a, b, _ = operands()
    add_kernel().launch((N // 256, 1, 1), 0, a.data_ptr(), b.data_ptr(), N, 1000)
    lost(
        standin,
        "an illegal memory access was encountered",
        "kernel 'add'",
        "store of 4 bytes at 0x400",
        "PTX line",
    )


def test_an_argument_that_is_packed_at_a_wrong_place(standin):
    a, b, out = operands()
    kernel = add_kernel()
    arguments = (N // 256, 1, 1), 0, a.data_ptr(), b.data_ptr(), out.data_ptr(), N
    kernel.launch(*arguments)
    tt.cuda.synchronize()
    taken = kernel._names["take"]()
    table = (ctypes.c_uint64 * 6).from_address(taken[1])
    table[0] += 4  # half of one address and half of the next
    kernel._names["give_back"](taken)
    try:
        kernel.launch(*arguments)
    finally:
        table[0] -= 4
    lost(standin, "(misaligned address|an illegal memory access)", "kernel 'add'", "load of 4 bytes")


def test_a_store_behind_a_block_within_its_segment(standin):
    a, b, out = operands()
    grid = (N // 256 + 1, 1, 1)
    add_kernel().launch(grid, 0, a.data_ptr(), b.data_ptr(), out.data_ptr(), N + 1)
    # The access is the last program's load or, if the next block is live, its store.
    lost(standin, "an illegal memory access", " of 4 bytes", "0 bytes past the end of the block", "of 4096")


def test_memory_that_was_given_back_within_its_segment(standin):
    a, b, out = operands()
    kept = a.data_ptr()
    del a
    gc.collect()
    add_kernel().launch((N // 256, 1, 1), 0, kept, b.data_ptr(), out.data_ptr(), N)
    lost(standin, "an illegal memory access", "load of 4 bytes", f"{kept:#x}")


def test_memory_that_was_never_written(standin):
    _, b, out = operands()
    a = tt.empty(N, device="cuda")
    add_kernel().launch((N // 256, 1, 1), 0, a.data_ptr(), b.data_ptr(), out.data_ptr(), N)
    lost(standin, "unspecified launch failure", "memory that was never written was read")


def test_a_copy_of_what_was_never_written_is_not_written(standin):
    _, b, out = operands()
    a, copied = tt.empty(N, device="cuda"), tt.empty(N, device="cuda")
    driver().copy_device_to_device(copied.data_ptr(), a.data_ptr(), 4 * N, 0)
    add_kernel().launch((N // 256, 1, 1), 0, copied.data_ptr(), b.data_ptr(), out.data_ptr(), N)
    lost(standin, "unspecified launch failure", "memory that was never written was read")


def test_an_address_that_is_not_aligned(standin):
    a, b, out = operands()
    add_kernel().launch((1, 1, 1), 0, a.data_ptr() + 2, b.data_ptr(), out.data_ptr(), 256)
    lost(standin, "misaligned address", "kernel 'add'", "load of 4 bytes")


def test_memory_of_the_host_that_is_not_pinned(standin):
    _, b, out = operands()
    host = tt.ones(N)
    add_kernel().launch((N // 256, 1, 1), 0, host.data_ptr(), b.data_ptr(), out.data_ptr(), N)
    lost(standin, "an illegal memory access", f"{host.data_ptr():#x}")


def test_pinned_memory_is_reached(standin):
    _, b, out = operands()
    host = tt.full((N,), 3.0, pin_memory=True)
    add_kernel().launch((N // 256, 1, 1), 0, host.data_ptr(), b.data_ptr(), out.data_ptr(), N)
    assert (out.cpu().numpy() == 4).all()


def test_pinned_memory_that_is_given_back_before_its_copy(standin):
    cuda = driver()
    address = cuda.malloc_host(4 * N)
    out = tt.zeros(N, device="cuda")
    host = np.ctypeslib.as_array((ctypes.c_float * N).from_address(address))
    host[:] = 1
    cuda.copy_host_to_device(out.data_ptr(), host, 0)
    cuda.free_host(address)
    lost(standin, "an illegal memory access", "page-locked memory", "given back before")


def test_the_devices_work_again_in_the_next_test(standin):
    a, b, _ = operands()
    assert ((a + b).cpu().numpy() == 2).all()
    assert standin.take_findings() == []


@pytest.mark.parametrize("threads", [64, 256])
def test_a_block_of_another_size_than_the_kernel_was_compiled_for_is_refused(standin, threads):
    kernel = add_kernel()
    kernel._names["threads"] = threads
    try:
        with pytest.raises(RuntimeError, match=r"CUDA error: (invalid argument|too many resources)"):
            kernel.launch((1, 1, 1), 0, 0, 0, 0, 0)
    finally:
        kernel._names["threads"] = 128


def test_a_cubin_without_its_ptx_does_not_load(standin):
    from triten.tests.gpu.gpu_check.probe_kernels import add

    types = {"a": "*fp32", "b": "*fp32", "out": "*fp32", "n": "i32"}
    cubin = compile_kernel(add, types, {"BLOCK": 256}, capability=80).cubin
    name = b".nv_debug_ptx_txt"
    from cupy.cuda import driver as driver_api

    with pytest.raises(driver_api.CUDADriverError, match="INVALID_IMAGE"):
        driver_api.moduleLoadData(cubin.replace(name, name[::-1]))
    (finding,) = standin.take_findings()
    assert "has no PTX to execute" in finding


def test_threads_launch_and_wait_at_the_same_time(standin):
    kernel = add_kernel()
    wrong = []

    def work(number):
        driver().set_device(0)
        stream = tt.cuda.Stream()
        with tt.cuda.stream(stream):
            x = tt.full((N,), float(number), device="cuda")
            for _ in range(5):
                kernel.launch((N // 256, 1, 1), stream.cuda_stream, *[x.data_ptr()] * 3, N)
            if not (x.cpu().numpy() == number * 32).all():
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_cooperative_launch_fits_the_device_or_is_refused(standin):
    from triten.runtime.cuda.cupy.kernel import CuPyKernel
    from triten.tests.gpu.gpu_check.probe_kernels import add

    types = {"a": "*fp32", "b": "*fp32", "out": "*fp32", "n": "i32"}
    options = {"launch_cooperative_grid": True}
    binary = compile_kernel(add, types, {"BLOCK": 256}, capability=80, options=options)
    kernel = CuPyKernel(driver(), binary, driver().properties(0))
    a, b, out = operands()
    kernel.launch((N // 256, 1, 1), 0, a.data_ptr(), b.data_ptr(), out.data_ptr(), N)
    assert (out.cpu().numpy() == 2).all()
    assert standin.launches[-1].name == "cuLaunchKernelEx"
    with pytest.raises(RuntimeError, match="too many blocks in cooperative launch"):
        kernel.launch((4 * 16 + 1, 1, 1), 0, a.data_ptr(), b.data_ptr(), out.data_ptr(), N)
    assert (out.cpu().numpy() == 2).all(), "a refused launch does not lose the device"


def test_a_cluster_is_refused(standin):
    kernel = add_kernel()
    from triten.runtime.cuda.cupy.libcuda import launch_attributes, launch_kernel_ex

    launch = launch_kernel_ex(launch_attributes(2, False, False))
    buffer, pointers = kernel._names["new_buffer"]()
    with pytest.raises(RuntimeError, match="operation not supported"):
        launch(kernel._function, 2, 1, 1, 128, 1, 1, 0, 0, pointers, 0)
    del buffer  # which holds what `pointers` is the address of
