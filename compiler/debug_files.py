"""Debug output: ``TRITEN_COMPILE_DEBUG=folder`` makes every compilation write a folder of files.

- `graph.txt` is the recorded graph; `schedule.txt` is the order of execution.
- With gradients there are two of each, for forward and backward; the schedules share one file.
- `guards.txt` is what the function read.
- ``<kernel>.py`` is the source of a fused kernel for CUDA.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from ..runtime.cache_files import make_own_folder
from .capture.guards import shown
from .capture.recording import Recording
from .schedule import Schedule
from .sources import sources_of

VARIABLE = "TRITEN_COMPILE_DEBUG"


def write_debug_files(
    name: str, number: int, recording: Recording, schedules: Sequence[Schedule | None]
) -> None:
    """Write a compilation's files, if the environment requests them. Raise OSError if they cannot be written."""
    named = os.environ.get(VARIABLE)
    if not named:
        return
    safe = "".join(c if c.isalnum() or c in "_-" else "_" for c in name)
    folder = Path(named) / f"{safe}-{os.getpid()}-{number}"
    make_own_folder(folder)
    made = [schedule for schedule in schedules if schedule is not None]
    (folder / "graph.txt").write_text(f"{recording.graph}\n", encoding="utf-8")
    (folder / "schedule.txt").write_text("\n\n".join(map(str, made)) + "\n", encoding="utf-8")
    guards = [f"{location.name} is {shown(value)}" for location, value in recording.guards.locations]
    guards += [f"{location.name} is {spec!r}" for location, spec in recording.guards.held]
    (folder / "guards.txt").write_text("\n".join(guards) + "\n", encoding="utf-8")
    for kernel, text in sources_of(made).items():
        (folder / f"{kernel}.py").write_text(text, encoding="utf-8")
