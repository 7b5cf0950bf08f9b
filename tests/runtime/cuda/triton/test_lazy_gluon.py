"""Gluon kernels: lazy as all others, compiled, keyed and stored; and the versions of Triton that have them."""

import os
import subprocess
import sys

import pytest

from triten.runtime.cuda.driver import Driver
from triten.runtime.cuda.interpreter.driver import InterpreterDriver
from triten.runtime.cuda.tensor_map import descriptor_type
from triten.runtime.cuda.triton import lazy_gluon
from triten.runtime.cuda.triton.compile import ParameterLayout
from triten.runtime.cuda.triton.kernel_key import digest
from triten.runtime.cuda.triton.lazy_gluon import gl, gluon, is_supported, shared_descriptor
from triten.runtime.cuda.triton.lazy_kernel import GLUON, LazyKernel
from triten.runtime.cuda.triton.lazy_triton import tl, triton

PROGRAM = """
import sys
from triten.runtime.cuda.triton.cubin_store import find_or_compile
from triten.runtime.cuda.triton.lazy_gluon import gl, gluon, hopper

assert "triton" not in sys.modules

FACTOR = gl.constexpr(3)

@gluon.jit
def scaled(x):
    return x * FACTOR

@gluon.jit
def kernel(x, out, n, FUNCTION: gl.constexpr, BLOCK: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([4], [32], [4], [0])
    i = gl.program_id(0) * BLOCK + gl.arange(0, BLOCK, layout)
    gl.store(out + i, FUNCTION(gl.load(x + i, mask=i < n)), mask=i < n)

@gluon.jit
def copied(x, out, BLOCK: gl.constexpr):
    tile = gl.allocate_shared_memory(x.dtype, x.block_shape, x.layout)
    ready = hopper.mbarrier.allocate_mbarrier()
    hopper.mbarrier.init(ready, 1)
    hopper.mbarrier.expect(ready, x.nbytes_per_cta)
    hopper.tma.async_load(x, [0, 0], ready, tile)
    hopper.mbarrier.wait(ready, 0)
    hopper.tma.async_store(out, [0, 0], tile)
    hopper.tma.store_wait(0)

for capability in (80, 90):
    made = find_or_compile(
        kernel, {"x": "*fp32", "out": "*fp32", "n": "i32"}, {"FUNCTION": scaled, "BLOCK": 512},
        frozenset(("x", "out", "n")), capability,
    )
    print(made.name, made.capability, made.num_warps, len(made.cubin) > 0)
type_ = "tensordesc<bf16[64, 64],NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=16, rank=2)>"
made = find_or_compile(copied, {"x": type_, "out": type_}, {"BLOCK": 64}, capability=90)
print(made.name, made.tensor_maps[0]["block_size"], made.tensor_maps[0]["swizzle"])
print("triton" in sys.modules)
"""


def run(tmp_path, text):
    path = tmp_path / "program.py"
    path.write_text(text)
    clean = {k: v for k, v in os.environ.items() if k not in ("TRITEN_CUDA", "TRITON_INTERPRET")}
    clean |= {"TRITEN_CACHE_DIR": str(tmp_path / "own"), "TRITON_CACHE_DIR": str(tmp_path / "tritons")}
    done = subprocess.run([sys.executable, "-P", str(path)], capture_output=True, text=True, env=clean)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.splitlines()


@pytest.mark.skipif(not is_supported(), reason="this Triton has no such Gluon")
def test_kernels_are_compiled_once_and_kept(tmp_path):
    expected = ["kernel 80 4 True", "kernel 90 4 True", "copied [64, 64] 3"]
    assert run(tmp_path, PROGRAM) == [*expected, "True"]
    assert run(tmp_path, PROGRAM) == [*expected, "False"], "a warm process imports no Triton"


def plain(x, BLOCK: gl.constexpr):
    """Documented."""


def test_the_language_is_in_the_key():
    in_gluon, in_triton = gluon.jit(plain), triton.jit(plain)
    assert isinstance(in_gluon, LazyKernel)
    assert in_gluon.language == GLUON != in_triton.language
    assert gl.constexpr is tl.constexpr
    assert gl.float16 is tl.float16
    assert digest(in_gluon) != digest(in_triton)


def test_options_are_kept_and_functions_asked_for():
    assert gluon.jit(noinline=True)(plain).kwargs == {"noinline": True}
    with pytest.raises(TypeError, match=r"gluon\.jit\(\): expected a function, got int"):
        gluon.jit(3)
    with pytest.raises(AttributeError, match=r"gluon\.language\.load exists inside kernels only"):
        gl.load  # noqa: B018


@pytest.mark.parametrize(
    ("version", "supported"),
    [("3.6.0", False), ("3.8.1", False), ("3.9.0", True), ("3.10.0+git", True), ("4.0", True), ("", False)],
)
def test_which_versions_are_supported(monkeypatch, version, supported):
    monkeypatch.setattr(lazy_gluon, "triton_identity", lambda: (version, "hash"))
    assert is_supported() == supported
    monkeypatch.setattr(lazy_gluon, "triton_identity", lambda: None)
    assert not is_supported()


def test_the_interpreter_has_none():
    assert Driver.has_gluon
    assert not InterpreterDriver.has_gluon


def test_descriptors_name_their_layout_in_shared_memory():
    type_ = shared_descriptor("bf16", 1, 1, 64, 128)
    assert descriptor_type(type_) == ("bf16", (1, 1, 64, 128))
    plain_type = "tensordesc<bf16[1, 1, 64, 128]>"
    assert ParameterLayout((type_, "i32")).offsets == ParameterLayout((plain_type, "i32")).offsets
    assert descriptor_type("tensordesc<bf16[64],>") is None
