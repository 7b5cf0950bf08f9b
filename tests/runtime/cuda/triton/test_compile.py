"""Ahead-of-time compilation, in processes without the interpreter."""

import os
import subprocess
import sys
import textwrap

import pytest

from triten.runtime.cuda.driver import is_available
from triten.runtime.cuda.triton.compile import ParameterLayout, compile_kernel, format_of

PROGRAM = """
import triton
import triton.language as tl
from triton.language.extra import libdevice
from triten.runtime.cuda.triton.compile import compile_kernel

@triton.jit
def scale(x):
    return libdevice.log1p(x) * 2

@triton.jit
def apply_kernel(x, out, n, factor, stride, FUNCTION: tl.constexpr, BLOCK: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * BLOCK
    index = start + tl.arange(0, BLOCK)
    if start + BLOCK <= n:
        tl.store(out + index, FUNCTION(tl.load(x + index * stride)) * factor)
    else:
        tl.store(out + index, FUNCTION(tl.load(x + index * stride, mask=index < n)) * factor, mask=index < n)

for capability, divisible in ((80, ("x", "out", "n")), (80, ()), (90, ("x", "out", "n"))):
    binary = compile_kernel(
        apply_kernel,
        {"x": "*fp32", "out": "*fp32", "n": "i64", "factor": "fp32"},
        {"stride": 1, "FUNCTION": scale, "BLOCK": 1024},
        frozenset(divisible),
        capability,
        {"num_warps": 4},
    )
    ptx = binary.asm["ptx"]
    print(binary.name, binary.capability, len(binary.cubin), binary.num_warps, binary.num_ctas, binary.shared)
    print(binary.parameter_types)
    print(".entry apply_kernel" in ptx, f".target sm_{capability}" in ptx)
    print("ld.global.v4" in ptx, "st.global.v4" in ptx, ".ftz" in ptx)
"""


def run(program, **environment):
    clean = {k: v for k, v in os.environ.items() if k not in ("TRITEN_CUDA", "TRITON_INTERPRET")}
    return subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=environment.pop("cwd", None),
        env={**clean, **environment},
    )


def run_file(tmp_path, program, **environment):
    # Triton reads a kernel's source from its file.
    path = tmp_path / "program.py"
    path.write_text(program)
    return run(f"import runpy; runpy.run_path({str(path)!r})", cwd=tmp_path, **environment)


def test_kernels_compile_without_a_gpu(tmp_path):
    done = run_file(tmp_path, PROGRAM, TRITON_CACHE_DIR=str(tmp_path / "cache"))
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    found = [lines[i : i + 4] for i in range(0, len(lines), 4)]
    for (capability, divisible), (first, types, entry, vectors) in zip(
        ((80, True), (80, False), (90, True)), found, strict=True
    ):
        name, target, size, warps, ctas, shared = first.split()
        assert (name, int(target), int(warps), int(ctas), int(shared)) == (
            "apply_kernel",
            capability,
            4,
            1,
            0,
        )
        assert int(size) > 1000
        assert types == "('*fp32', '*fp32', 'i64', 'fp32')"
        assert entry == "True True"
        assert vectors == ("True True False" if divisible else "False False False")


@pytest.mark.interpreter
def test_an_interpreted_kernel_cannot_be_compiled():
    import triton.language.standard

    with pytest.raises(RuntimeError, match="TRITON_INTERPRET=1 cannot be compiled"):
        compile_kernel(triton.language.standard.sum, {}, {})


@pytest.mark.parametrize(
    ("types", "offsets", "size"),
    [
        ((), (0, 8), 16),
        (("*fp32", "i32", "fp64"), (0, 8, 16, 24, 32), 40),
        (("i1", "i8", "fp16", "i32", "*bf16"), (0, 1, 2, 4, 8, 16, 24), 32),
        (("bf16", "fp32", "u8"), (0, 4, 8, 16, 24), 32),
    ],
)
def test_arguments_lie_at_their_natural_alignment(types, offsets, size):
    layout = ParameterLayout(types)
    assert layout.offsets == offsets
    assert layout.struct.size == size
    assert layout.bfloat16 == tuple(i for i, name in enumerate(types) if name == "bf16")


def test_an_unknown_type_has_no_format():
    with pytest.raises(ValueError, match="nvTmaDesc"):
        format_of("nvTmaDesc")


def test_importing_triten_and_the_driver_imports_neither_triton_nor_cupy():
    done = run(
        textwrap.dedent("""
        import sys
        import triten
        import triten.runtime.cuda.driver
        import triten.runtime.cuda.memory.caching_allocator
        import triten.runtime.cuda.triton.compile
        print([name for name in ("triton", "cupy", "scipy") if name in sys.modules])
        """)
    )
    assert done.stdout.strip() == "[]", done.stderr


def test_without_a_gpu_the_error_says_what_to_do():
    done = run(
        textwrap.dedent("""
        import sys
        sys.modules["cupy"] = None
        import importlib.util
        find = importlib.util.find_spec
        importlib.util.find_spec = lambda name, *rest: None if name == "cupy" else find(name, *rest)
        from triten.runtime.cuda.driver import driver, is_available
        assert not is_available()
        try:
            driver()
        except RuntimeError as error:
            print(error)
        """)
    )
    assert "No CUDA GPUs are available (cupy is not installed: pip install 'triten[cuda13]'" in done.stdout, (
        done.stderr
    )
    assert "TRITEN_CUDA=interpret" in done.stdout


@pytest.mark.parametrize("value", ["interpreter", "1"])
def test_an_unknown_choice_is_refused(value):
    done = run("from triten.runtime.cuda.driver import driver; driver()", TRITEN_CUDA=value)
    assert f"TRITEN_CUDA: expected 'interpret', 'emulate', 'cupy' or nothing, got '{value}'" in done.stderr


def test_the_interpreter_is_switched_on_before_triton_is_imported():
    program = """
        import os
        from triten.runtime.cuda.driver import driver
        print(driver().properties(0).name, os.environ["TRITON_INTERPRET"])
    """
    done = run(textwrap.dedent(program), TRITEN_CUDA="interpret")
    assert done.stdout.split("\n")[0] == "Triton interpreter 1", done.stderr


@pytest.mark.interpreter
def test_the_interpreter_is_available():
    assert is_available()
