"""The check as a module, and as a command in Triton's interpreter."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("triton", reason="triton has no wheel for this platform")

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))


class Run:
    """Result of a run of the command: its exit status, output and result file."""

    def __init__(self, status: int, output: str, path: Path) -> None:
        self.status, self.output, self.path = status, output, path

    @property
    def section(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.path.read_text())["check"]
        return found

    @property
    def checks(self) -> dict[str, Any]:
        found: dict[str, Any] = self.section["checks"]
        return found

    def statuses(self) -> dict[str, str]:
        return {name: answer["status"] for name, answer in self.checks.items()}


@pytest.fixture
def check(tmp_path: Path, seed: int) -> Callable[..., Run]:
    """check("--only", ...): the command with these arguments, interpreted, one worker, with the test's seed."""

    def run(*arguments: str, file: str = "results.json", interpret: bool = True) -> Run:
        path = tmp_path / file
        workers = [] if "--workers" in arguments else ["--workers", "1"]
        command = [sys.executable, "-P", str(HERE / "check.py"), *workers, *arguments]
        if "--resume" not in arguments:
            command += ["--output", str(path)]
        if "--resume" not in arguments and "--seed" not in arguments:
            command += ["--seed", str(seed)]
        command += ["--interpret"] if interpret else []
        environment = {k: v for k, v in os.environ.items() if k not in ("TRITEN_CUDA", "TRITON_INTERPRET")}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path)
        return Run(done.returncode, done.stdout + done.stderr, path)

    return run
