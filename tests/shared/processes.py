"""Programs that run in a process of their own."""

import os
import subprocess
import sys
import textwrap
from collections.abc import Mapping
from typing import Any

from triten.tests.shared.threads import PATIENCE


def run_python(
    program: Any, *arguments: Any, environment: Mapping[str, str] | None = None, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run a program, its text or a path, in a new process, and return what it printed and its status.

    Args:
        program: the text, whose indentation does not matter, or the file's path.
        arguments: the program's own.
        environment: the variables of the process; None for this process's.
        options: as `subprocess.run` takes them.
    """
    given = ["-c", textwrap.dedent(program)] if isinstance(program, str) else [program]
    return subprocess.run(
        [sys.executable, "-P", *given, *map(str, arguments)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        **options,
    )


def without_device_choice(**changes: str) -> dict[str, str]:
    """Return this process's environment without the tests' interpreter settings, plus these changes."""
    kept = {k: v for k, v in os.environ.items() if k not in ("TRITEN_CUDA", "TRITON_INTERPRET")}
    return kept | changes
