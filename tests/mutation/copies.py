"""A copy of the checkout that gets one fault at a time and runs tests."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from triten.tests.affected.tree import PACKAGE, ROOT

LEFT_OUT = shutil.ignore_patterns(".*", "build", "dist", "_build", "*.egg-info")
FAILED = re.compile(r"^(?:FAILED|ERROR) (\S.*?)(?: - .*)?$", re.MULTILINE)
PATIENCE = 1800.0
"""Seconds after which tests that use no CPU time count as hanging: a mutant may wait for a lock forever."""


@dataclass(frozen=True)
class Outcome:
    """Result of the tests of a fault: the first test that failed, or None, and the CPU seconds."""

    failed: str | None
    seconds: float


class Copy:
    """A copy of the checkout in a temporary folder.

    Args:
        folder: An existing empty folder.
    """

    def __init__(self, folder: Path) -> None:
        self.root = folder / PACKAGE
        # Bytecode goes along; it is valid because `copy2` keeps the times of changes.
        shutil.copytree(ROOT, self.root, symlinks=True, ignore=LEFT_OUT)
        is_package = (self.root / "__init__.py").exists()
        self.import_path = folder if is_package else self.root

    @contextmanager
    def fault(self, path: str, text: str) -> Iterator[None]:
        """Give a file another text meanwhile, and generate code anew if that is made of the file."""
        target = self.root / path
        before = target.read_bytes()
        generated = self.root / "dispatch" / "generated"
        kept = None
        try:
            target.write_text(text, encoding="utf-8")
            if path.endswith(".yaml"):
                kept = Path(tempfile.mkdtemp(dir=self.root.parent)) / "generated"
                shutil.copytree(generated, kept)
                self.python("-m", f"{PACKAGE}.dispatch.codegen", check=True)
            yield
        finally:
            target.write_bytes(before)
            if kept is not None:
                shutil.rmtree(generated)
                kept.rename(generated)

    def run(self, tests: Sequence[str], *arguments: str, cpu_seconds: float = 600.0) -> Outcome:
        """Run tests up to the first failure."""
        before = sum(os.times()[2:4])
        try:
            done = self.python(
                *("-m", "pytest", "-q", "-x", "-n", "0", "-p", "no:cacheprovider", "--tb=no"),
                *arguments,
                *tests,
                cpu_seconds=cpu_seconds,
            )
        except subprocess.TimeoutExpired:
            return Outcome("no end", sum(os.times()[2:4]) - before)
        failed = None
        if done.returncode not in (0, 5):
            found = FAILED.search(done.stdout)
            failed = found[1] if found else f"exit status {done.returncode}"
        return Outcome(failed, sum(os.times()[2:4]) - before)

    def python(
        self, *arguments: str, check: bool = False, cpu_seconds: float = 600.0
    ) -> subprocess.CompletedProcess[str]:
        """Run this Python with the copy as the package."""
        environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
        environment |= {"PYTHONPATH": str(self.import_path), "OPENBLAS_NUM_THREADS": "1"}
        command = [sys.executable, "-P", *arguments]
        limited = ["sh", "-c", f'ulimit -t {int(cpu_seconds)}; exec "$@"', "sh", *command]
        return subprocess.run(
            limited,
            cwd=self.root,
            env=environment,
            capture_output=True,
            text=True,
            check=check,
            timeout=PATIENCE,
        )
