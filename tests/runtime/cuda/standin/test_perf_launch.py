"""`python -m triten.perf launch` over the stand-in, and where there is nothing to measure on."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path


def perf_launch(*options, **environment):
    return subprocess.run(
        [sys.executable, "-P", "-m", "triten.perf", "launch", *options],
        env=os.environ | environment,
        capture_output=True,
        text=True,
    )


def test_it_prints_launches_by_arguments_and_an_addition_by_layers(standin):
    library = os.environ["LD_LIBRARY_PATH"]
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "launch.json")
        options = ["--standin", library, "--rounds", "2", "--slice-ms", "0.2", "--json", str(report)]
        done = perf_launch(*options, LD_LIBRARY_PATH="")
        assert done.returncode == 0, done.stderr
        results = json.loads(report.read_text())["results"]
    assert results["device"] == "NVIDIA H200, stand-in"
    rows = {row["name"]: row for row in results["rows"]}
    for count in (1, 3, 9, 20):
        plan, kernel, call = (
            rows[f"{count} arguments: {place}"]["microseconds"]
            for place in ("plan to driver", "kernel to driver", "driver's call")
        )
        assert plan > 0 and kernel > 0 and call > 0
    assert "bar 3.0" in rows["9 arguments: plan to driver"]["note"]
    for name in ("a + b", "memory of the result", "launch", "plan lookup and tensor (the rest)"):
        assert name in rows
        assert name in done.stdout


def test_without_a_gpu_it_says_what_it_needs(standin):
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "libcuda.so.1").touch()
        done = perf_launch(LD_LIBRARY_PATH=folder)
    assert done.returncode == 2
    assert "--standin" in done.stderr
