"""Modules of kernels are imported when one of their kernels is first wanted, by the generated index."""

import os
import subprocess
import sys
from pathlib import Path

from triten.dispatch.codegen.kernel_index import index_row
from triten.dispatch.generated.kernel_index import KERNELS


def output_of(*arguments: str, cwd: Path) -> str:
    """Return the output of a new interpreter, which must succeed and print no errors."""
    run = subprocess.run(
        [sys.executable, "-P", *arguments], cwd=cwd, capture_output=True, text=True, env=dict(os.environ)
    )
    assert run.returncode == 0 and run.stderr == "", run.stdout + run.stderr
    return run.stdout


def test_the_index_is_fresh(tmp_path: Path) -> None:
    assert "fresh" in output_of("-m", "triten.dispatch.codegen.kernel_index", "--check", cwd=tmp_path)


def test_both_kernels_of_a_stub_lie_in_the_same_family() -> None:
    """Keep both kernels of a stub in one family, for example `normalization/softmax.py` in both packages."""
    families = {
        name: [module.partition(".")[0] for module in both if module] for name, both in KERNELS.items()
    }
    assert sum(len(found) == 2 for found in families.values()) > 300
    assert {name: found for name, found in families.items() if len(set(found)) > 1} == {}


def test_the_index_is_made_without_the_one_that_there_is(tmp_path: Path) -> None:
    """Rebuild an index that cannot be read, for example after a merge."""
    program = """
import sys, triten
sys.modules["triten.dispatch.generated.kernel_index"] = None
from triten.dispatch.codegen.kernel_index import INDEX, index_module
print(index_module() == INDEX.read_text())
"""
    assert output_of("-c", program, cwd=tmp_path) == "True\n"


def test_rows_are_written_as_ruff_formats_them() -> None:
    fits, long = "x" * 89, "x" * 90
    assert index_row(fits, [None, None]) == f'    "{fits}": (None, None),\n'
    assert index_row(long, [None, None]) == f'    "{long}": (\n        None,\n        None,\n    ),\n'
    assert '        "fft.fft",\n' in index_row(long, [None, "fft.fft"])


def test_a_program_imports_the_kernels_that_it_calls(tmp_path: Path) -> None:
    program = """
import sys, triten as tt
def kernels():
    return {name.rpartition(".")[2] for name in sys.modules if name.startswith("triten.cpu_fallback.")}
print(*kernels())
x = tt.ones(3).sum()
print("reduction" in kernels(), "convolution" in kernels(), "matrix_functions" in kernels())
"""
    at_import, afterwards = output_of("-c", program, cwd=tmp_path).splitlines()
    assert at_import == ""
    assert afterwards == "True False False"


def test_a_kernel_that_the_index_does_not_have_or_misplaces_is_found(tmp_path: Path) -> None:
    program = """
import triten as tt
from triten.dispatch.generated.kernel_index import KERNELS
KERNELS.clear()
KERNELS["sum_stub"] = ("convolution.convolution", None)
print(tt.ones(3).sum().item(), tt.linalg.det(2 * tt.eye(2)).item())
"""
    assert output_of("-c", program, cwd=tmp_path) == "3.0 4.0\n"


def test_a_second_kernel_is_refused_before_the_first_was_imported(tmp_path: Path) -> None:
    program = """
import triten as tt
try:
    tt.library.register_stub("sum_stub", "cpu", lambda call: None)
except RuntimeError as error:
    print(str(error).partition(":")[0], tt.ones(3).sum().item())
"""
    assert output_of("-c", program, cwd=tmp_path) == "stub sum_stub has a cpu kernel already 3.0\n"


def test_kernels_are_imported_whatever_the_program_has_set(tmp_path: Path) -> None:
    """Import kernels while NumPy raises floating-point errors, warnings are errors, and a mode intercepts
    operators.
    """
    program = """
import numpy, triten as tt, warnings
from triten.dispatch.structured.stub import load_kernels
class Refusing(tt.TensorDispatchMode):
    def __tensor_dispatch__(self, func, types, args=(), kwargs=None):
        raise AssertionError(func)
numpy.seterr(all="raise")
with Refusing(), tt.device("meta"):
    load_kernels("cpu")
print(tt.ones(3).sum().item())
"""
    assert output_of("-W", "error", "-c", program, cwd=tmp_path) == "3.0\n"


def test_a_dtype_that_was_registered_before_the_kernels_came_is_computed_in_float32(tmp_path: Path) -> None:
    program = """
import ml_dtypes, triten as tt
d = tt.library.register_dtype("float8_e3m4", ml_dtypes.float8_e3m4, computes_in=tt.float32)
print((tt.ones(3, dtype=d) / 3).exp().tolist())
"""
    assert output_of("-c", program, cwd=tmp_path) == "[1.375, 1.375, 1.375]\n"


def test_threads_that_want_the_same_kernels_first_find_them(tmp_path: Path) -> None:
    program = """
import sys, threading, triten as tt
sys.setswitchinterval(1e-6)
calls = [lambda: tt.linalg.det(tt.eye(3)), lambda: tt.ones(2, 2).softmax(0).sum(), lambda: tt.fft.fft(tt.ones(4))]
start, found = threading.Barrier(6), []
def work(number):
    start.wait()
    found.append([call().sum().item().real for call in calls[number % 3:] + calls[: number % 3]])
threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(sorted({tuple(sorted(values)) for values in found}), len(found))
"""
    assert output_of("-c", program, cwd=tmp_path) == "[(1.0, 2.0, 4.0)] 6\n"
