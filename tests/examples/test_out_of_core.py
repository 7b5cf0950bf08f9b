"""An array that is larger than the memory of the process that goes through it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "out_of_core.py"


@pytest.mark.skipif(sys.platform != "linux", reason="the limit of a process's memory is Linux's")
def test_results_are_those_of_an_array_in_memory() -> None:
    for module in ("dask", "zarr"):
        pytest.importorskip(module)
    options = ["--megabytes", "288", "--limit", "256", "--rounds", "1"]
    done = subprocess.run([sys.executable, "-P", str(SCRIPT), *options], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    differences = re.findall(r"differ by (\S+) of", done.stdout)
    assert len(differences) == 3 and all(float(each) < 1e-3 for each in differences), done.stdout
    chunked, whole = map(float, re.search(r"peak, MB +(\d+) +(\d+)", done.stdout).groups())  # type: ignore[union-attr]
    assert chunked < whole and whole > 288
