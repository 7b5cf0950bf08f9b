"""A day with a GPU, rehearsed: its commands over CuPy's driver and a stand-in for NVIDIA's that executes kernels."""

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from triten.tests.runtime.cuda.standin.build_library import missing

STANDIN = Path(__file__).resolve().parents[1] / "runtime" / "cuda" / "standin"

pytestmark = [
    pytest.mark.skipif(bool(missing()), reason=missing()),
    pytest.mark.skipif(importlib.util.find_spec("cupy") is None, reason="cupy is not installed"),
]


def test_the_checks_of_the_runtime(check: Callable[..., Any]) -> None:
    """Launches, the driver, the allocator and the public interface, those that only a card has among them."""
    run = check(
        "--standin", "--only", "^(launch|driver|allocator|cuda): ", "--task-seconds", "600", interpret=False
    )
    assert run.status == 0, run.output
    statuses = run.statuses()
    assert statuses["launch: CuPy's Module.load and launchKernel give right results"] == "passed"
    assert statuses["cuda: a user's kernel[grid] through Triton's own launcher"] == "passed"
    others = {name for name, status in statuses.items() if status != "passed"}
    assert others <= {
        "launch: num_ctas=2 by the plain launch",
        "launch: the PDL attribute, through cuLaunchKernelEx",
        "launch: a TMA descriptor by value",
        "driver: library handles",
    }
    assert run.section["interpreted"] is False and run.section["sizes"] == "small"


def test_operators_and_a_kernel_that_is_wrong(check: Callable[..., Any]) -> None:
    run = check(
        "--standin",
        "--only",
        r"^(exp|log)#0/float32/contiguous",
        "--plant",
        "log_stub:nothing",
        interpret=False,
    )
    assert run.status == 1, run.output
    failed = {name.partition("#")[0] for name, status in run.statuses().items() if status != "passed"}
    assert failed == {"log"}


def test_a_row_of_the_benchmark(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-P",
        str(STANDIN / "run.py"),
        "-m",
        "triten.perf",
        "gpu",
        "--rehearse",
        "--no-peer",
    ]
    rows = [
        "--rows",
        "^(norms: layer_norm.*float32|products.*_scaled)",
        "--rounds",
        "1",
        "--row-seconds",
        "0.01",
    ]
    path = tmp_path / "r.json"
    run = subprocess.run(
        [*command, *rows, "--output", str(path)], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr
    section = json.loads(path.read_text())["bench"]
    assert (section["complete"], section["interpreted"], section["rehearsal"]) == (True, False, True)
    assert any("layer_norm" in row["name"] for row in section["rows"])


def test_the_tests_of_streams_and_captures_hold_for_cupys_driver() -> None:
    folder = STANDIN.parent
    files = [
        "test_stream.py",
        "test_streams.py",
        "test_event.py",
        "test_stream_capture.py",
        "test_transfer.py",
    ]
    # The stand-in writes the nodes of a graph, not what each waits for.
    without = ["-k", "not printed_as_dot"]
    command = [
        sys.executable,
        "-P",
        str(STANDIN / "run.py"),
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:xdist",
        *without,
    ]
    run = subprocess.run(
        [*command, *(str(folder / file) for file in files)],
        capture_output=True,
        text=True,
        check=False,
        cwd=STANDIN.parents[3],
        env=os.environ | {"TRITEN_EMULATE_UNINITIALISED": "1"},
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert " passed" in run.stdout
