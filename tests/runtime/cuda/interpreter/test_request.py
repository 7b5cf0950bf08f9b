"""A program that imports triten, then Triton, then uses a device runs interpreted where the environment asks for it."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import triten as tt
import triton
import triton.language as tl

@triton.jit
def doubled(x, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)

x = tt.ones(3, device="cuda")
doubled[(1,)](x, 3, BLOCK=4)
print(x.tolist())
"""


@pytest.mark.skipif(
    importlib.util.find_spec("triton") is None, reason="triton has no wheel for this platform"
)
def test_triton_may_be_imported_before_the_first_use_of_a_device(tmp_path: Path) -> None:
    path = tmp_path / "program.py"  # Triton reads a kernel's source from a file
    path.write_text(PROGRAM)
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environment["TRITEN_CUDA"] = "interpret"
    run = subprocess.run([sys.executable, "-P", path], env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert run.stdout == "[2.0, 2.0, 2.0]\n"
