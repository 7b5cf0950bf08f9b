"""Faults planted into compiled kernels and their launches: how many the emulator finds."""

import json
import os
import subprocess
import sys
from pathlib import Path

PLANTS = Path(__file__).with_name("plant_faults.py")
UNFOUND = 10
"""Of some 160 faults those that change nothing: a barrier that is not needed, a bound that no thread meets, code of
other sizes. More of them would be a sense that the emulator has lost."""


def test_planted_faults_are_found() -> None:
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"} | {
        "TRITEN_CUDA": "emulate"
    }
    done = subprocess.run(
        [sys.executable, "-P", str(PLANTS)], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    missed = [f"{row['call']}: {row['fault']}" for row in rows if not row["found"]]
    assert len(rows) >= 140
    assert len(missed) <= UNFOUND, missed
    assert {row["call"] for row in rows if row["found"]} == {row["call"] for row in rows}
    # What a result alone would not tell.
    for fault, what in (
        ("missing barrier 0", "without a barrier"),
        ("address that is not aligned", "misaligned address"),
        ("memory of no block", "illegal memory access"),
        ("wait for too few copies 0", "asynchronous copy is done"),
    ):
        assert any(row["fault"] == fault and what in row["found"] for row in rows), fault
