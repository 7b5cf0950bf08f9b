"""Triton's lazy placeholders: the supported uses in host code, without an import of the real Triton."""

import ast
import importlib
import inspect
import os
import pickle
import pkgutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import triton.language as real_tl
from triton.language.extra import libdevice as real_libdevice

import triten.triton_kernels
from triten.runtime.cuda.triton.lazy_kernel import LazyKernel, function_source
from triten.runtime.cuda.triton.lazy_triton import libdevice, stand_in, tl, triton
from triten.tests.shared.threads import PATIENCE

REAL = {
    name: value for name, value in vars(real_tl).items() if type(value) is real_tl.dtype and name != "void"
}
ATTRIBUTES = ("name", "primitive_bitwidth", "itemsize")
QUESTIONS = (
    "is_floating",
    "is_standard_floating",
    "is_fp8",
    "is_int",
    "is_int_signed",
    "is_int_unsigned",
    "is_bool",
)


@pytest.mark.parametrize("name", sorted(REAL))
def test_a_dtype_is_as_tritons(name):
    ours, theirs = getattr(tl, name), REAL[name]
    assert [getattr(ours, a) for a in ATTRIBUTES] == [getattr(theirs, a) for a in ATTRIBUTES]
    assert [getattr(ours, q)() for q in QUESTIONS] == [getattr(theirs, q)() for q in QUESTIONS]
    assert str(ours) == str(theirs)
    assert repr(ours) == f"triton.language.{name}"


def test_dtypes_are_one_object_each():
    types = [getattr(tl, name) for name in REAL]
    assert len(set(types)) == len(types) == len(REAL)
    assert len({hash(type_) for type_ in types}) == len(types)
    assert all(isinstance(type_, tl.dtype) for type_ in types)
    assert pickle.loads(pickle.dumps(tl.float32)) is tl.float32


@pytest.mark.parametrize("name", ["i1", "i8", "u8", "i32", "u64", "fp16", "bf16", "fp64", "fp8e5", "fp8e4nv"])
def test_short_names_are_tritons(name):
    assert tl.str_to_ty(name).name == real_tl.str_to_ty(name, None).name


def test_an_unknown_short_name_is_refused():
    with pytest.raises(ValueError, match=r"expected one of .*'fp32'.*, got '\*fp32'"):
        tl.str_to_ty("*fp32")


def test_constants_compare_by_value():
    assert tl.constexpr(3) == tl.constexpr(3) != tl.constexpr(4)
    assert tl.constexpr(3).value == 3
    assert len({tl.constexpr("a"), tl.constexpr("a")}) == 1


@pytest.mark.parametrize(
    ("module", "name"), [(tl, "load"), (libdevice, "log1p"), (triton, "autotune"), (triton, "cdiv")]
)
def test_the_rest_of_triton_exists_inside_kernels_only(module, name):
    with pytest.raises(AttributeError, match=rf"{module.__name__}\.{name} exists inside kernels only"):
        getattr(module, name)


def test_real_types_have_stand_ins():
    assert stand_in(real_tl.float16) is tl.float16
    assert stand_in(real_tl.constexpr) is tl.constexpr
    assert stand_in(tl.float16) is tl.float16
    assert stand_in(real_libdevice) is real_libdevice


def plain(x, out, n, BLOCK: tl.constexpr, *, LAST: tl.constexpr = 3):
    """Documented."""


def test_a_kernel_tells_what_its_function_is():
    kernel = triton.jit(plain)
    assert isinstance(kernel, LazyKernel)
    assert kernel.fn is plain
    assert kernel.arg_names == ["x", "out", "n", "BLOCK", "LAST"]
    assert (kernel.__name__, kernel.__qualname__, kernel.__module__) == ("plain", "plain", __name__)
    assert kernel.__doc__ == "Documented."
    assert repr(kernel) == f"LazyKernel({__name__}:plain)"


def test_options_are_those_of_triton():
    theirs = set(inspect.signature(importlib.import_module("triton").jit).parameters)
    assert set(inspect.signature(triton.jit).parameters) == theirs
    kernel = triton.jit(do_not_specialize=["n"], noinline=True)(plain)
    assert kernel.kwargs == {"do_not_specialize": ["n"], "noinline": True}
    with pytest.raises(TypeError, match="num_warps"):
        triton.jit(num_warps=4)


def test_a_kernel_cannot_be_called():
    with pytest.raises(RuntimeError, match="kernel 'plain' cannot be called outside of another kernel"):
        triton.jit(plain)(1, 2)


@pytest.mark.parametrize(
    "what", [print, plain.__code__, 3, LazyKernel(plain, {})], ids=lambda x: type(x).__name__
)
def test_only_functions_are_kernels(what):
    with pytest.raises(TypeError, match=rf"expected a function, got {type(what).__name__}"):
        triton.jit(what)


KERNELS = {
    f"{module.name}.{name}": value
    for module in pkgutil.walk_packages(triten.triton_kernels.__path__, "triten.triton_kernels.")
    for name, value in vars(importlib.import_module(module.name)).items()
    if isinstance(value, LazyKernel)
}


def test_every_kernel_is_lazy():
    assert len(KERNELS) > 200


def test_the_text_of_every_kernel_is_that_of_inspect():
    different = {
        name
        for name, kernel in KERNELS.items()
        if kernel.source.rstrip() != inspect.getsource(kernel.fn).rstrip()
    }
    assert different == set()


@pytest.mark.parametrize(
    "body",
    [
        "    return x",
        '    """A text\nwithout indentation.\n"""\n    return x',
        "    x = [\n1,\n]\n    return x",
        "    return (\n        x\n    )",
        "    if x:\n        return x\n\n    y: int",
        "    return x\n    # a comment at the end",
        "    pass",
        "    if 0:\n        return 1",
    ],
)
@pytest.mark.parametrize(
    "behind", ["", "y = 2\n", "@mark\ndef g(): ...\n", "\n\n# of another\nclass C: ...\n"]
)
@pytest.mark.parametrize("head", ["def f(x):\n", "@mark\ndef f(\n    x,\n):\n"])
def test_the_text_of_a_function_ends_with_it(head, body, behind):
    text = f"{head}{body}\n{behind}"
    namespace = {"mark": lambda function: function}
    exec(compile(text, "somewhere.py", "exec"), namespace)
    assert function_source(namespace["f"], text) == f"{head}{body}\n"


def test_a_function_without_a_file_has_no_text():
    namespace = {"triton": triton}
    exec(compile("@triton.jit\ndef f(x): ...", "<nowhere>", "exec"), namespace)
    with pytest.raises(
        ValueError, match="kernel 'f': a kernel must be defined in a Python file, '<nowhere>'"
    ):
        namespace["f"].source  # noqa: B018


def test_importing_the_kernels_does_not_import_triton():
    program = """
        import sys
        sys.modules["triton"] = None
        from triten.dispatch.structured.kernel_packages import KernelPackage
        KernelPackage("triten.triton_kernels", "cuda").load()
        print(sorted(name for name in sys.modules if name.startswith(("triton", "cupy"))))
    """
    environment = {k: v for k, v in os.environ.items() if k not in ("TRITEN_CUDA", "TRITON_INTERPRET")}
    done = subprocess.run(
        [sys.executable, "-P", "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        env=environment,
        timeout=PATIENCE,
    )
    assert done.stdout.strip() == "['triton']", done.stderr


def test_no_kernel_module_imports_triton_itself():
    files = sorted(Path(triten.triton_kernels.__file__).parent.rglob("*.py"))
    assert len(files) > 100
    for path in files:
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [node.module]
            assert [name for name in names if name.partition(".")[0] == "triton"] == [], path
