"""Warp-specialized kernels: mbarriers, named barriers, register reallocation, tensor maps made in the
kernel.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton", reason="triton has no wheel for this platform")


def test_products_by_warps_of_different_work() -> None:
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    environment |= {"TRITEN_CUDA": "emulate", "TRITEN_EMULATE": "90"}
    script = Path(__file__).with_name("specialised_kernels.py")
    done = subprocess.run(
        [sys.executable, "-P", str(script)], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["kernel"] for row in rows] == ["by_given_maps", "by_own_maps"]
    for row in rows:
        assert row["wrong"] == 0, row
        assert row["warps"] == 12, row  # four that load and eight that multiply: really specialised
