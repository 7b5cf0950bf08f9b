"""Triton's driver over triten's: compiled kernels in Triton's notation, and the active driver beside
PyTorch.

Each test runs a process of its own, without the interpreter. A fake module stands for torch where a program
imports it.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

if sys.platform != "linux":  # where a wheel exists, a missing Triton is a failure
    pytest.importorskip("triton", reason="triton has no wheel for this platform")

HERE = Path(__file__).parent
TORCH = """
class Tensor: ...

class cuda:
    @staticmethod
    def is_available():
        return {available}
"""
BEGIN = """
import sys
import warnings

from triten.runtime.cuda import choose
from triten.tests.runtime.cuda.triton.recording_driver import RecordingDriver

choose._cupy = RecordingDriver
import triten as tt

def in_charge():
    import triton
    return type(triton.runtime.driver._active).__name__
"""


@pytest.fixture
def environment(tmp_path):
    """Return the environment of a process without the interpreter, where `import torch` finds a fake that
    sees a GPU.
    """
    (tmp_path / "torch.py").write_text(TORCH.format(available=True))
    variables = {k: v for k, v in os.environ.items() if k not in ("TRITEN_CUDA", "TRITON_INTERPRET")}
    variables["PYTHONPATH"] = os.pathsep.join([str(tmp_path), variables.get("PYTHONPATH", "")]).rstrip(
        os.pathsep
    )
    return {**variables, "TRITEN_CUDA": "cupy"}


@pytest.fixture
def run(tmp_path, environment):
    def run(body):
        program = tmp_path / "program.py"
        program.write_text(BEGIN + body)
        done = subprocess.run(
            [sys.executable, "-P", program], env=environment, capture_output=True, text=True, cwd=tmp_path
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    return run


def test_compiled_kernels_take_tensors(environment):
    done = subprocess.run(
        [sys.executable, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", HERE / "triton_shim.py"],
        env=environment,
        capture_output=True,
        text=True,
        cwd=HERE.parents[3],
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    passed = re.search(r"^(\d+) passed", done.stdout, re.MULTILINE)
    assert passed is not None and int(passed[1]) >= 70, done.stdout[-500:]


def test_it_is_in_charge_if_triton_was_imported_before_the_first_use_of_a_device(run):
    assert run("import triton\nprint(in_charge())\ntt.empty(1, device='cuda')\nprint(in_charge())") == [
        "NoneType",
        "TritonDriver",
    ]


def test_it_is_in_charge_if_triton_is_imported_later(run):
    assert run(
        "import importlib.util\ntt.empty(1, device='cuda')\nprint('triton' in sys.modules)\n"
        "importlib.util.find_spec('triton')  # whoever only asks\nprint(in_charge())\n"
        "import triton\nprint(triton.__spec__.loader.__class__.__name__, len(triton.__path__))"
    ) == ["False", "TritonDriver", "SourceFileLoader", "1"]


def test_pytorch_with_a_gpu_is_left_in_charge_until_asked(run):
    assert run(
        "import torch, triton\ntt.empty(1, device='cuda')\nprint(in_charge())\n"
        "with tt.library.use_triton_driver():\n    print(in_charge())\nprint(in_charge())\n"
        "tt.library.use_triton_driver()\nprint(in_charge(), triton.runtime.driver.active.get_current_device())"
    ) == ["NoneType", "TritonDriver", "NoneType", "TritonDriver", "0"]


def test_a_driver_that_somebody_chose_is_kept(run):
    assert run(
        "import triton\ntriton.runtime.driver.set_active([])\ntt.empty(1, device='cuda')\nprint(in_charge())"
    ) == ["list"]


GIVES_WAY = """
import triton
tt.empty(1, device="cuda")

class Theirs:
    def get_current_device(self):
        return 5

triton.runtime.driver._default = Theirs()
print(triton.runtime.driver.active.get_current_device())
import torch
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    print(triton.runtime.driver.active.get_current_device())
    print(triton.runtime.driver.active.get_current_device())
print(in_charge(), len(seen), "use_triton_driver" in str(seen[0].message) if seen else None)
"""


def test_it_gives_way_to_pytorch_with_a_gpu_and_says_so(run):
    assert run(GIVES_WAY) == ["0", "5", "5", "Theirs", "1", "True"]


def test_one_that_was_asked_for_stays(run):
    asked = GIVES_WAY.replace('tt.empty(1, device="cuda")', "tt.library.use_triton_driver()")
    assert run(asked) == ["0", "0", "0", "TritonDriver", "0", "None"]


def test_pytorch_without_a_gpu_changes_nothing(run, tmp_path):
    (tmp_path / "torch.py").write_text(TORCH.format(available=False))
    assert run(GIVES_WAY) == ["0", "0", "0", "TritonDriver", "0", "None"]


COMPILES = """
import triton, triton.language as tl
from triten.runtime.cuda.triton.compile import compile_kernel

@triton.jit
def copy(x, out):
    tl.store(out, tl.load(x))

compile_kernel(copy, {"x": "*fp32", "out": "*fp32"}, {})
print("torch" in sys.modules)
"""


def test_triten_s_own_compilation_does_not_import_pytorch(run):
    assert run(COMPILES) == ["False"]


def test_without_a_gpu_there_is_nothing_to_use(tmp_path, environment):
    program = tmp_path / "program.py"
    program.write_text("import triten as tt\ntt.library.use_triton_driver()")
    done = subprocess.run([sys.executable, "-P", program], env=environment, capture_output=True, text=True)
    assert "RuntimeError: No CUDA GPUs are available" in done.stderr
