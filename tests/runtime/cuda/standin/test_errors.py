"""Failures on a GPU machine raise PyTorch's messages, and the runtime keeps working."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
import triton
import triton.language as tl

import triten as tt
from triten.runtime.cuda.driver import driver
from triten.runtime.cuda.triton.compile import KernelBinary, compile_kernel

PROGRAM = """
import triten as tt
assert tt.cuda.is_available() is False
assert tt.cuda.device_count() == 0
assert (tt.ones(3) + 1).tolist() == [2.0, 2.0, 2.0]
for _ in range(2):
    try:
        tt.ones(3, device="cuda")
    except RuntimeError as error:
        print(error)
"""


def made_up(name="made_up", **changes):
    from triten.runtime.cuda.cupy.kernel import CuPyKernel

    values = dict.fromkeys(("num_ctas", "global_scratch_align"), 1) | {"shared": 0, "global_scratch_size": 0}
    values |= {"capability": 90, "cubin": b"standin\0", "asm": {}, "parameter_types": (), "num_warps": 4}
    return CuPyKernel(driver(), KernelBinary(name=name, **(values | changes)), driver().properties(0))


def works():
    """Run a launch, a copy and an allocation, and return True if the values are right."""
    made_up().launch((1, 1, 1), 0)
    address = driver().malloc(0, 4096)
    driver().memset(address, 7, 4, 0)
    target = np.zeros(4, np.uint8)
    driver().copy_device_to_host(target, address, 0)
    driver().free(0, address)
    return target.tolist() == [7, 7, 7, 7]


def test_without_a_driver_the_cpu_works_and_the_gpu_says_why_not(standin):
    """Hide the driver of the machine: the loader finds a libcuda.so.1 that is not a library."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "libcuda.so.1").touch()
        done = subprocess.run(
            [sys.executable, "-P", "-c", PROGRAM],
            env={**os.environ, "LD_LIBRARY_PATH": folder},
            capture_output=True,
            text=True,
        )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("No CUDA GPUs are available (Found no NVIDIA driver on your system") == 2
    assert "TRITEN_CUDA=interpret" in done.stdout


@pytest.mark.standin(driver=11040)
def test_a_driver_too_old_for_cupy_is_named_with_both_versions(standin):
    assert tt.cuda.is_available() is False
    assert tt.cuda.device_count() == 0
    with pytest.raises(
        RuntimeError, match=r"driver on your system is too old: it supports CUDA 11\.4.*CUDA 1[23]\.\d"
    ):
        tt.ones(3, device="cuda")
    assert (tt.ones(3) + 1).tolist() == [2.0, 2.0, 2.0]


@pytest.mark.standin(devices=0)
def test_a_machine_without_devices_has_no_gpu(standin):
    assert tt.cuda.is_available() is False
    with pytest.raises(
        RuntimeError, match=r"No CUDA GPUs are available .*no CUDA-capable device is detected"
    ):
        tt.ones(3, device="cuda")


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (200, "device kernel image is invalid"),
        (209, "no kernel image is available for execution on the device"),
        (222, "the provided PTX was compiled with an unsupported toolchain"),
    ],
)
def test_a_cubin_that_the_driver_does_not_take(standin, code, text):
    standin.fail("cuModuleLoadData", code)
    with pytest.raises(tt.AcceleratorError, match=f"CUDA error: {text}") as refused:
        made_up("too_new")
    message = str(refused.value)
    assert refused.value.error_code == code
    for part in (
        "'too_new'",
        "sm_90",
        "NVIDIA H200",
        "supports CUDA 13.2",
        "Triton 3.",
        "update the NVIDIA driver",
    ):
        assert part in message
    assert works()


@triton.jit
def store_one(out):
    tl.store(out, 1)


def test_a_cubin_of_another_architecture_does_not_load(standin):
    binary = compile_kernel(store_one, {"out": "*i32"}, {}, capability=80)
    with pytest.raises(
        RuntimeError, match=r"no kernel image is available.*compiled for sm_80.*NVIDIA H200 \(sm_90\)"
    ):
        made_up(binary.name, capability=80, cubin=binary.cubin, parameter_types=binary.parameter_types)
    assert works()


@pytest.mark.parametrize("where", ["launch", "synchronize", "copy", "event", "stream", "malloc"])
def test_a_kernel_that_touched_foreign_memory_is_reported_by_every_call_that_follows(standin, where):
    kernel, address, event = made_up(), driver().malloc(0, 4096), driver().create_event(timing=True)
    target = np.zeros(4, np.uint8)
    calls = {
        "launch": ("cuLaunchKernel", lambda: kernel.launch((1, 1, 1), 0)),
        "synchronize": ("cuCtxSynchronize", tt.cuda.synchronize),
        "copy": ("cuStreamSynchronize", lambda: driver().copy_device_to_host(target, address, 0)),
        "event": ("cuEventQuery", lambda: driver().query_event(event)),
        "stream": ("cuStreamQuery", lambda: driver().query_stream(0)),
        "malloc": ("cuMemAlloc", lambda: driver().malloc(0, 2**22)),
    }
    function, call = calls[where]
    standin.fail(function, 700)
    for _, later in [(function, call), *calls.values()]:
        with pytest.raises(tt.AcceleratorError) as lost:
            later()
        assert str(lost.value).startswith("CUDA error: an illegal memory access was encountered")
        assert "CUDA_LAUNCH_BLOCKING=1" in str(lost.value)
        assert lost.value.error_code == 700
    # Tensors on the CPU go on; so does the device in a process that has not lost it.
    assert (tt.ones(3) + 1).tolist() == [2.0, 2.0, 2.0]
    standin.begin()
    assert works()


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (1, "invalid argument"),
        (701, "too many resources requested for launch"),
        (716, "misaligned address"),
        (719, "unspecified launch failure"),
    ],
)
def test_a_launch_that_fails(standin, code, text):
    kernel = made_up("failing")
    standin.fail("cuLaunchKernel", code)
    with pytest.raises(RuntimeError, match=f"CUDA error: {text}: kernel 'failing'") as failed:
        kernel.launch((1, 1, 1), 0)
    assert type(failed.value).__module__.startswith("triten")
    standin.begin()
    assert works()


def test_a_stream_that_is_gone(standin):
    from cupy.cuda import runtime

    kernel, stream = made_up("late"), driver().create_stream(0)
    runtime.streamDestroy(stream)
    for call in (
        lambda: kernel.launch((1, 1, 1), stream),
        lambda: driver().synchronize_stream(stream),
        lambda: driver().query_stream(stream),
        lambda: driver().memset(0, 0, 16, stream),
    ):
        with pytest.raises(RuntimeError, match=r"CUDA error: invalid (resource handle|argument)"):
            call()
    assert works()


def test_an_event_that_is_gone(standin):
    event = driver().create_event()
    driver().destroy_event(event)
    for call in (driver().query_event, driver().synchronize_event, driver().destroy_event):
        with pytest.raises(RuntimeError, match="CUDA error: invalid resource handle"):
            call(event)
    assert works()


def test_more_shared_memory_than_the_device_has(standin):
    with pytest.raises(
        RuntimeError, match=r"'huge' needs 300000 bytes of shared memory, NVIDIA H200 has 232448"
    ):
        made_up("huge", shared=300_000)
    assert standin.counts["cuModuleLoadData"] == 0
    assert works()


def test_more_shared_memory_than_the_driver_allows(standin):
    standin.fail("cuFuncSetAttribute", 1)
    with pytest.raises(RuntimeError, match="CUDA error: invalid argument: kernel 'static'"):
        made_up("static", shared=200_000)
    assert standin.counts["cuModuleUnload"] == 1, "what was loaded is given back"
    assert works()


def test_more_threads_than_the_registers_allow(standin):
    standin.set("THREADS", 64)
    with pytest.raises(RuntimeError, match=r"'crowded' wants 256 threads in a block, its registers allow 64"):
        made_up("crowded", num_warps=8)
    assert standin.counts["cuModuleUnload"] == 1
    made_up("fitting", num_warps=2).launch((1, 1, 1), 0)
    assert len(standin.launches) == 1


def test_no_memory_for_a_launchs_scratch(standin):
    unused, total = driver().memory_info(0)
    standin.set("MEMORY", total - unused + 64 * 2**20)
    kernel = made_up("scratchy", global_scratch_size=2**20)
    with pytest.raises(tt.cuda.OutOfMemoryError, match="CUDA out of memory"):
        kernel.launch((100, 1, 1), 0)
    assert standin.launches == []
    kernel.launch((1, 1, 1), 0)
    assert len(standin.launches) == 1


@pytest.mark.standin(capability=75)
def test_an_architecture_that_triton_does_not_compile_for(standin):
    assert tt.cuda.get_device_capability() == (7, 5)
    a = tt.empty(3, device="cuda")
    for _ in range(2):
        with pytest.raises(NotImplementedError, match=r"not implemented for sm_75.*sm_80.*and later"):
            a + a
    host = np.zeros(3, np.float32)
    driver().copy_device_to_host(host, a.data_ptr(), 0)


def test_pytorchs_exception_has_a_public_name(standin):
    error = tt.AcceleratorError("CUDA error: out of luck", 999)
    assert isinstance(error, RuntimeError)
    assert error.error_code == 999


def test_a_factorisation_without_cusolver_says_what_to_install(standin):
    try:
        import cupy_backends.cuda.libs.cusolver  # noqa: F401
    except ImportError:
        pass
    else:
        pytest.skip("cuSOLVER is installed")
    with pytest.raises(RuntimeError, match=r"cusolver is not installed.*pip install"):
        driver().solver()
