"""Code for old and new drivers: older drivers load the output of CUDA 12's ptxas, or compile PTX that they
know.
"""

import contextlib
from pathlib import Path

import pytest
import triton
import triton.language as tl

import triten as tt
from triten.runtime.cuda.driver import driver
from triten.runtime.cuda.triton import assembler
from triten.runtime.cuda.triton.compile import compile_kernel

OLD = {"driver": 12080, "runtime": 12080}
FOLDER = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
ADD = {"x": "*fp32", "out": "*fp32", "n": "i32"}


@triton.jit
def add_one(x, out, n, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = index < n
    tl.store(out + index, tl.load(x + index, mask=mask) + 1, mask=mask)


@triton.jit
def add_two(x, out, n, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = index < n
    tl.store(out + index, tl.load(x + index, mask=mask) + 2, mask=mask)


def releases():
    """Return the CUDA versions of the wheel's two assemblers, independent of this process's settings."""
    from triton.knobs import NvidiaTool

    tools = [NvidiaTool.from_path(str(FOLDER / name)) for name in ("ptxas", "ptxas-blackwell")]
    return [assembler._tool(tool)[1] for tool in tools]


def launched(standin, block=128):
    """Compile for the device, load and launch; the call that loaded it."""
    standin.clear()
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("TRITEN_CACHE_MAXSIZE", "0")
        kernel = driver().compile(add_one, ADD, {"BLOCK": block})
    kernel.launch((1, 1, 1), 0, 0x1000, 0x2000, 5)
    (launch,) = standin.launches
    assert [len(value) for value in launch.values] == [8, 8, 4, 8, 8]
    (loaded,) = standin.named("cuModuleLoadData")
    return loaded


@contextlib.contextmanager
def newer_only():
    """Simulate a wheel without an assembler of CUDA 12."""
    from triton import knobs
    from triton.backends.nvidia.compiler import get_ptxas_version

    if max(releases()) < 13000:
        pytest.skip("this Triton has no assembler of CUDA 13")
    newest = str(FOLDER / "ptxas-blackwell")
    with pytest.MonkeyPatch.context() as monkeypatch:
        for name in assembler._TOOLS:
            monkeypatch.setitem(vars(knobs.nvidia), name, newest)
        get_ptxas_version.cache_clear()
        assembler._fitted.cache_clear()
        yield
    get_ptxas_version.cache_clear()
    assembler._fitted.cache_clear()


@pytest.mark.standin(capability=100)
def test_a_driver_of_cuda_13_gets_what_tritons_own_choice_assembles(standin):
    loaded = launched(standin)
    assert (loaded["kind"], loaded["cuda"]) == ("cubin", str(max(releases()) // 1000))


@pytest.mark.parametrize("block", [64, 256])
@pytest.mark.standin(capability=100, **OLD)
def test_a_driver_of_cuda_12_gets_the_older_assemblers_code(standin, block):
    loaded = launched(standin, block)
    assert (loaded["kind"], loaded["cuda"]) == ("cubin", "12")


@pytest.mark.standin(capability=90, **OLD)
def test_a_driver_of_cuda_12_loads_code_for_hopper(standin):
    loaded = launched(standin)
    assert (loaded["kind"], loaded["cuda"], loaded["abi"]) == ("cubin", "12", "7")


@pytest.mark.standin(capability=90, **OLD)
def test_operators_run_with_a_driver_of_cuda_12(standin):
    x = tt.ones(1024, device="cuda")
    tt.softmax(x.view(8, 128), 1)
    assert {call["cuda"] for call in standin.named("cuModuleLoadData")} == {"12"}


@pytest.mark.standin(capability=100, **OLD)
def test_kernels_in_tritons_own_notation_too(standin):
    x = tt.ones(128, device="cuda")
    standin.clear()
    add_two[(1,)](x, x, 128, BLOCK=128)
    assert [call["cuda"] for call in standin.named("cuModuleLoadData")] == ["12"]
    assert len(standin.launches) == 1


@pytest.mark.standin(capability=100, **OLD)
def test_the_older_driver_refuses_what_the_newer_assembler_wrote(standin):
    """Reproduce the avoided fault, so that the tests above are meaningful."""
    from triten.runtime.cuda.cupy.kernel import CuPyKernel

    launched(standin, 32)
    with newer_only():
        binary = compile_kernel(add_one, ADD, {"BLOCK": 512}, capability=100)
    with pytest.raises(
        tt.AcceleratorError,
        match=r"device kernel image is invalid.*'add_one'.*sm_100.*supports CUDA 12\.8.*cubin of CUDA 13\.\d's ptxas",
    ):
        CuPyKernel(driver(), binary, driver().properties(0))


@pytest.mark.standin(capability=90, **OLD)
def test_without_an_older_assembler_the_driver_compiles_ptx_that_it_knows(standin):
    driver().current_device()
    with newer_only():
        loaded = launched(standin, 1024)
        standin.clear()
        binary = compile_kernel(add_one, ADD, {"BLOCK": 2048}, capability=90, cuda=12040)
    assert loaded["kind"] == "ptx"
    assert binary.ptx_version == 84
    assert b".version 8.4\n" in binary.cubin
    assert b"\n.visible .entry add_one(" in binary.cubin
    # By default a PTX compiler may contract a multiply and an add, unless each instruction has a rounding mode.
    assert b"add.rn.f32" in binary.cubin
    assert b"add.f32" not in binary.cubin


@pytest.mark.standin(capability=90, **OLD)
def test_the_driver_refuses_ptx_of_a_later_version(standin):
    from triten.runtime.cuda.cupy.kernel import CuPyKernel

    with newer_only():
        binary = compile_kernel(add_one, ADD, {"BLOCK": 4096}, capability=90, cuda=12090)
    with pytest.raises(
        tt.AcceleratorError, match=r"unsupported toolchain.*supports CUDA 12\.8.*PTX of version 8\.8"
    ):
        CuPyKernel(driver(), binary, driver().properties(0))


@pytest.mark.standin(capability=100, driver=12040, runtime=12040)
def test_a_target_that_the_driver_cannot_know_is_refused_in_words(standin):
    told = (
        r"kernel 'add_one': sm_100 has code from PTX ISA 8\.6 on; the driver supports CUDA 12\.4, which compiles PTX "
        r"up to 8\.4 .*: update the NVIDIA driver"
    )
    with newer_only(), pytest.raises(RuntimeError, match=told):
        driver().compile(add_one, ADD, {"BLOCK": 8192})
