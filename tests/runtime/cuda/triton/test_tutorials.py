"""Plain Triton programs, without `triten.as_torch`, in the style of the tutorials run interpreted and
emulated.
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


@pytest.mark.parametrize("mode", ["interpret", "emulate"])
def test_programs_in_plain_triton(mode):
    done = subprocess.run(
        [sys.executable, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", HERE / "tutorial_programs.py"],
        env={**os.environ, "TRITEN_CUDA": mode, "TRITON_INTERPRET": "01"[mode == "interpret"]},
        capture_output=True,
        text=True,
        cwd=HERE.parents[3],
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    passed = re.search(r"^(\d+) passed", done.stdout, re.MULTILINE)
    assert passed is not None and int(passed[1]) >= 15, done.stdout[-500:]
