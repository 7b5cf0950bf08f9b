"""Epilogues of warp-specialized matmuls, compiled for sm_90 and sm_100, agree with eager."""

import json
import os
import subprocess
import sys

import pytest

from triten.runtime.cuda.triton.lazy_gluon import is_supported

if sys.platform != "linux":  # where a wheel exists, a missing Triton is a failure
    pytest.importorskip("triton", reason="triton has no wheel for this platform")

needs_gluon = pytest.mark.skipif(not is_supported(), reason="this Triton has no such Gluon")

PROGRAM = """
import json
import sys

import triten as tt
from triten.runtime.cuda.driver import driver
from triten.tests.compiler.beside_eager import drawn, same
from triten.triton_kernels.products.bulk import IN_GLUON

F = tt.nn.functional
form = IN_GLUON[driver().properties(0).design]
form.MIN_WAVES = 0
form.multiprocessors = lambda device: 2
form.TILES = {itemsize: tiles[-1:] for itemsize, tiles in form.TILES.items()}
CASES = {
    "a residual": (lambda x, w, b, r: F.silu(F.linear(x, w, b)) + r, ((136, 72), (264, 72), (264,), (136, 264))),
    "the product, too": (
        lambda x, w, c, s: ((y := x @ w), F.gelu(y * c + s)),
        ((2, 40, 24), (2, 24, 136), (2, 40, 1), (1,)),
    ),
    "several results": (lambda x, w: ((z := (x @ w).tanh()), z > 0, z.float()), ((72, 40), (40, 136))),
}
function, shapes = CASES[sys.argv[1]]
tt.backends.cuda.matmul.allow_tf32 = True
dtype = getattr(tt, sys.argv[2])
operands = [drawn(*shape, device="cuda", dtype=dtype, seed=i) for i, shape in enumerate(shapes)]
names = []
driver().observe_launches(lambda name, grid, stream, launch: (names.append(name), launch()))
found = tt.compile(function, fullgraph=True)(*operands)
compiled = list(names)
names.clear()
expected = function(*operands)
same(found, expected)
print(json.dumps([compiled, names[0]]))
"""


@needs_gluon
@pytest.mark.parametrize(
    "case, name, target, dtype",
    [
        ("a residual", "addmm_silu_add", "90", "bfloat16"),
        ("a residual", "addmm_silu_add", "90", "float32"),
        ("several results", "mm_tanh_gt_to_copy", "90", "bfloat16"),
        ("a residual", "addmm_silu_add", "100", "bfloat16"),
        ("the product, too", "bmm_mul_add_gelu", "100", "bfloat16"),
    ],
)
def test_results_are_those_of_eager_calls(case: str, name: str, target: str, dtype: str) -> None:
    clean = {k: v for k, v in os.environ.items() if k not in ("TRITEN_CUDA", "TRITON_INTERPRET")}
    variables = {"TRITEN_CUDA": "emulate", "TRITEN_EMULATE": target, "TRITEN_TUNING_STORE": "0"}
    done = subprocess.run(
        [sys.executable, "-P", "-c", PROGRAM, case, dtype],
        capture_output=True,
        text=True,
        env=clean | variables,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    kernel = "matmul_warp_specialized" if target == "90" else "matmul_tensor_memory"
    assert json.loads(done.stdout) == [[name], kernel]


PLANNING = """
import json

import triten as tt
from triten.runtime.cuda import driver as cuda
from triten.runtime.cuda.occupancy import TARGETS
from triten.runtime.cuda.recording_driver import RecordingDriver

cuda._driver = RecordingDriver(TARGETS[90])


def empty(*sizes):
    return tt.empty(sizes, dtype=tt.bfloat16, device="cuda")


def launched(function):
    a, r = empty(4096, 4096), empty(4096, 4096)
    cuda._driver.launched.clear()
    tt.compile(function, fullgraph=True)(a, r)
    return [cuda.kernel_name(each["kernel"]) for each in cuda._driver.launched]


print(json.dumps([
    launched(lambda a, r: (a @ a + r).relu()),
    launched(lambda a, r: (a @ a).float() * 2),
    launched(lambda a, r: (a @ a).rsqrt()),
    launched(lambda a, r: (a * 2) @ a),
    launched(lambda a, r: ((y := a @ a), (y + r) * a)),
]))
"""


@needs_gluon
def test_what_stays_apart() -> None:
    """Keep apart a first result of another element size, an operator without a layout, a prologue, and many
    tiles.
    """
    clean = {k: v for k, v in os.environ.items() if k not in ("TRITEN_CUDA", "TRITON_INTERPRET")}
    done = subprocess.run(
        [sys.executable, "-P", "-c", PLANNING],
        capture_output=True,
        text=True,
        env=clean | {"TRITEN_TUNING_STORE": "0"},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    joined, *apart = json.loads(done.stdout)
    assert joined == ["mm_add_relu"]
    assert all("matmul_warp_specialized" in each for each in apart)
