"""``kernel[grid](tensors)``: Triton compiles for the emulated device, and the emulator executes it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1] / "triton"
ENVIRONMENT = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"} | {"TRITEN_CUDA": "emulate"}

OUTSIDE = """
import triton
import triton.language as tl
import triten as tt

@triton.jit
def fill(out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, i, mask=i <= n)

out = tt.empty(300, dtype=tt.int32, device="cuda")
fill[(3,)](out, 299, BLOCK=128)
assert out.tolist() == list(range(300))
fill[(3,)](out, 400, BLOCK=128)
try:
    tt.cuda.synchronize()
except RuntimeError as error:
    print(error)
"""


@pytest.mark.parametrize("capability", ["80", "90"])
def test_the_tests_of_the_notation_pass(capability):
    files = [str(TESTS / name) for name in ("test_triton_notation.py", "test_tensor_map.py")]
    command = [sys.executable, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", *files]
    done = subprocess.run(
        command, env=ENVIRONMENT | {"TRITEN_EMULATE": capability}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout
    summary = done.stdout.splitlines()[-1]
    assert int(summary.split()[0]) >= 45, summary


def test_a_fault_of_a_users_kernel_is_found(tmp_path):
    program = tmp_path / "fill.py"
    program.write_text(OUTSIDE)
    done = subprocess.run(
        [sys.executable, "-P", str(program)], env=ENVIRONMENT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "illegal memory access" in done.stdout and "kernel 'fill'" in done.stdout
