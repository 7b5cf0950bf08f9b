"""Lazy kernels become real ones: interpreted here, compiled in a separate process."""

import importlib.util
import json
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from triten.runtime.cuda.triton.lazy_kernel import LazyKernel
from triten.runtime.cuda.triton.lazy_triton import tl
from triten.runtime.cuda.triton.real_triton import TritonMissingError, _Realization, real, real_constants

CALLED = """
from triten.runtime.cuda.triton.lazy_triton import tl, triton

SHIFT = tl.constexpr(100)

@triton.jit
def shifted(x):
    return x + SHIFT
"""

KERNELS = """
import functools
from triten.runtime.cuda.triton.lazy_triton import libdevice, tl, triton
import called as c
from called import SHIFT as ELSEWHERE

FACTOR = tl.constexpr(3)
WIDE = tl.float64
DEFAULT = tl.constexpr(5)

@triton.jit
def plus(x, more=DEFAULT, TYPE: tl.constexpr = WIDE):
    return (x.to(TYPE) + more).to(tl.float32)

@triton.jit
def doubled(x):
    # as `kernel` wants it: the two name each other
    return x * 2

@triton.jit
def logarithm(x):
    return libdevice.log1p(x)

def made(by):
    @triton.jit
    def times(x):
        return x * by
    return times

@triton.jit
def kernel(x, out, n: tl.constexpr, FUNCTION: tl.constexpr, TYPE: tl.constexpr):
    i = tl.arange(0, n)
    value = FUNCTION(tl.load(x + i))
    tl.store(out + i, (c.shifted(plus(value)) * FACTOR - ELSEWHERE).to(TYPE).to(tl.float32))
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    for name, text in (("called", CALLED), ("kernels", KERNELS)):
        path = tmp_path / f"{name}.py"
        path.write_text(text)
        spec = importlib.util.spec_from_file_location(name, path)
        found = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, name, found)
        spec.loader.exec_module(found)
    return found


X = np.arange(8, dtype=np.float32)


@pytest.mark.parametrize(
    ("function", "expected"), [("doubled", X * 2), ("logarithm", np.log1p(X)), ("times", X * 7)]
)
def test_a_kernel_reaches_all_that_its_module_gives_it(cuda, module, function, expected):
    given = module.made(tl.constexpr(7)) if function == "times" else getattr(module, function)
    got = cuda.map(module.kernel, X, dtype=np.float32, n=8, FUNCTION=given, TYPE=tl.float32)
    np.testing.assert_allclose(got, (expected + 105) * 3 - 100, rtol=1e-6)


def test_a_dtype_is_a_constant(cuda, module):
    got = cuda.map(module.kernel, X, dtype=np.float32, n=8, FUNCTION=module.logarithm, TYPE=tl.int16)
    np.testing.assert_array_equal(got, np.trunc((np.log1p(X) + 105) * 3 - 100))


def test_the_module_stays_as_it_was(module):
    before = dict(vars(module))
    called = dict(vars(module.c))
    real(module.kernel)
    assert vars(module) == before
    assert vars(module.c) == called
    assert module.tl is tl


def test_a_kernel_is_made_once(module):
    assert real(module.kernel) is real(module.kernel)
    assert real(module.plus).fn.__globals__ is not module.plus.fn.__globals__
    assert real(module.kernel).fn.__globals__["plus"] is real(module.plus)
    assert real(module.kernel).fn.__globals__["c"].shifted is real(module.c.shifted)


def test_a_real_kernel_keeps_its_names(module):
    made = real(module.kernel).fn
    ours = module.kernel.fn
    for name in ("__name__", "__qualname__", "__module__", "__doc__", "__code__"):
        assert getattr(made, name) == getattr(ours, name)


def test_threads_see_one_kernel_and_a_whole_one(module):
    seen = []
    barrier = threading.Barrier(8)

    def look(kernel: LazyKernel) -> None:
        barrier.wait()
        made = real(kernel)
        seen.append((made, {name for name in kernel.reached if name not in made.fn.__globals__}))

    threads = [threading.Thread(target=look, args=(module.kernel,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 8
    assert {id(made) for made, _ in seen} == {id(module.kernel.real)}
    assert all(missing == set() for _, missing in seen)


def test_nobody_sees_a_kernel_that_is_not_whole(module, monkeypatch):
    lazy = [kernel for kernel in (*vars(module).values(), module.c.shifted) if isinstance(kernel, LazyKernel)]
    convert = _Realization.convert

    def watched(self: _Realization, value: object) -> object:
        assert [kernel for kernel in lazy if kernel.real is not None] == []
        if value is module.FACTOR:
            raise RuntimeError("half way")
        return convert(self, value)

    monkeypatch.setattr(_Realization, "convert", watched)
    with pytest.raises(RuntimeError, match="half way"):
        real(module.kernel)
    assert [kernel for kernel in lazy if kernel.real is not None] == []


def test_options_reach_triton(module):
    from triten.runtime.cuda.triton.lazy_triton import triton

    kernel = triton.jit(do_not_specialize=["n"])(module.doubled.fn)
    options = getattr(real(kernel), "kwargs", None) or vars(real(kernel))
    assert options["do_not_specialize"] == ["n"]


def test_values_become_tritons():
    import triton.language as real_tl

    constants = {
        "a": tl.int1,
        "b": (1, (tl.float16, None)),
        "c": tl.constexpr(tl.int8),
        "d": "text",
        "e": 1.5,
    }
    made = real_constants(constants)
    assert made["a"] is not tl.int1
    assert made["a"] == real_tl.int1
    assert made["b"] == (1, (real_tl.float16, None))
    assert isinstance(made["c"], real_tl.constexpr)
    assert made["c"].value == real_tl.int8
    assert (made["d"], made["e"]) == ("text", 1.5)
    assert real(real_tl.int8) is real_tl.int8


def test_a_kernel_is_the_one_that_was_imported(cuda, module, tmp_path):
    (tmp_path / "kernels.py").write_text("# edited meanwhile\n" + KERNELS.replace("x * 2", "x * 4"))
    got = cuda.map(module.kernel, X, dtype=np.float32, n=8, FUNCTION=module.doubled, TYPE=tl.float32)
    np.testing.assert_array_equal(got, (X * 2 + 105) * 3 - 100)


def test_a_module_that_is_imported_again_has_its_new_text(cuda, module, tmp_path):
    real(module.doubled)
    (tmp_path / "kernels.py").write_text(KERNELS.replace("return x * 2", "return x * 1024"))
    module.__spec__ = importlib.util.spec_from_file_location("kernels", tmp_path / "kernels.py")
    module.__spec__.loader.exec_module(module)
    got = cuda.map(module.kernel, X, dtype=np.float32, n=8, FUNCTION=module.doubled, TYPE=tl.float32)
    np.testing.assert_array_equal(got, (X * 1024 + 105) * 3 - 100)


def test_a_failure_leaves_nothing_half_made(module, monkeypatch):
    with monkeypatch.context() as blocked:
        blocked.setitem(sys.modules, "triton", None)
        with pytest.raises(TritonMissingError, match=r"cannot be imported .*: pip install 'triton >= 3.6'"):
            real(module.kernel)
    assert module.kernel.real is module.plus.real is None
    assert real(module.kernel).fn.__globals__["plus"] is real(module.plus)


PROGRAM = """
import json, os, sys, threading, warnings
from pathlib import Path

sys.path.insert(0, sys.argv[1])
import kernels, called
from triten.runtime.cuda.triton import cubin_store
from triten.runtime.cuda.triton.compile import compile_kernel
from triten.runtime.cuda.triton.lazy_triton import tl, triton as lazy

compiled = []
def counting(kernel, *rest):
    compiled.append(kernel.fn.__name__)
    return compile_kernel(kernel, *rest)
cubin_store.compile_kernel = counting

def find(kernel=kernels.kernel, capability=80, **constants):
    given = {"n": 32, "FUNCTION": kernels.logarithm, "TYPE": tl.float32} | constants
    return cubin_store.find_or_compile(
        kernel, {"x": "*fp32", "out": "*fp32"}, given, frozenset({"x", "out"}), capability, {"num_warps": 1}
    )

report = {}
report["imported before"] = "triton" in sys.modules
found, failed = [], []
def one(function):
    try:
        found.append(find(FUNCTION=function))
    except Exception as error:
        failed.append(repr(error))
functions = (kernels.logarithm, kernels.doubled, kernels.made(tl.constexpr(7)))
threads = [threading.Thread(target=one, args=(f,)) for f in functions]
for thread in threads: thread.start()
for thread in threads: thread.join()
report["failed"] = failed
report["different"] = len({binary.cubin for binary in found})
report["ptx"] = all(".entry kernel" in binary.asm["ptx"] for binary in found)
compiled.clear()
first, again = find(), find()
report["hits"] = (compiled == [], first == again, first.asm, first.name)
directory = cubin_store.store().directory
for path in directory.iterdir():
    path.write_bytes(path.read_bytes()[:-7])
mended = find()
report["mended"] = (compiled == ["kernel"], mended.cubin == first.cubin, find() == first, len(compiled))
compiled.clear()

import triton, user
real = [find(user.kernel, FUNCTION=user.half) for _ in range(2)]
report["user"] = (compiled == ["kernel"], real[0].cubin == real[1].cubin, real[1].asm)
lazily = find(user.kernel, FUNCTION=user.half, TYPE=triton.language.float32)
report["either dtype"] = len(compiled)
user.ADDED = triton.language.constexpr(4.0)
try:
    find(user.kernel, FUNCTION=user.half)
except RuntimeError as error:
    report["changed"] = str(error)
try:
    find(TYPE=tl.float8e4nv)
except NotImplementedError as error:
    report["architecture"] = str(error)
print(json.dumps(report))
"""

USER = """
import triton
import triton.language as tl

ADDED = tl.constexpr(3.0)

@triton.jit
def half(x):
    return x * 0.5 + ADDED

@triton.jit
def kernel(x, out, n: tl.constexpr, FUNCTION: tl.constexpr, TYPE: tl.constexpr):
    i = tl.arange(0, n)
    tl.store(out + i, FUNCTION(tl.load(x + i)).to(TYPE).to(tl.float32))
"""


def test_compiled_kernels_are_kept_and_found(tmp_path):
    for name, text in (("called", CALLED), ("kernels", KERNELS), ("user", USER)):
        (tmp_path / f"{name}.py").write_text(text)
    environment = {k: v for k, v in os.environ.items() if not k.startswith("TRIT")}
    environment |= {
        "TRITEN_CACHE_DIR": str(tmp_path / "ours"),
        "TRITON_CACHE_DIR": str(tmp_path / "theirs"),
    }
    done = subprocess.run(
        [sys.executable, "-P", "-c", PROGRAM, str(tmp_path)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "imported before": False,
        "failed": [],
        "different": 3,
        "ptx": True,
        "hits": [True, True, {}, "kernel"],
        "mended": [True, True, True, 1],
        "user": [True, True, {}],
        "either dtype": 1,
        "changed": "compile_kernel(): kernel 'half': global variable 'ADDED' has changed since it was first compiled, "
        "from constexpr[3.0] to constexpr[4.0]",
        "architecture": "kernel 'kernel' is not implemented for 'float8_e4m3fn' on sm_80: it needs sm_89 or later; "
        "sm_80 has float8_e5m2, float16, bfloat16, float32, float64",
    }
