"""Progress of a running benchmark in a file beside its result, which `python -m triten.perf serve` shows.

The file is one JSON object: title (the row that is measured now), done and total (numbers of rows), part (such
as "process 2 of 7", else empty), pid and host (of the run). It is removed when the run ends.
"""

from __future__ import annotations

import json
import os
import platform
from pathlib import Path
from typing import Any

from ..result_file import write_whole

SUFFIX = ".progress"
MAX_BYTES = 1 << 16


class ProgressFile:
    """Writer of a progress file; without a path, it does nothing.

    If a running process has written the file already, such as the parent of several processes, then its `part`,
    `pid` and the file itself are kept.

    Args:
        path: The file, or None.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        earlier = read_progress(path) if path is not None else None
        if earlier is not None and (earlier["pid"] == os.getpid() or not is_running(earlier)):
            earlier = None
        self._keep = earlier is not None
        self._state: dict[str, Any] = {
            "title": "", "done": 0, "total": 0, "part": "", "pid": os.getpid(), "host": platform.node(),
        }  # fmt: skip
        if earlier is not None:
            self._state |= {name: earlier[name] for name in ("part", "pid", "host")}

    def __enter__(self) -> ProgressFile:
        return self

    def __exit__(self, *_: object) -> None:
        if self._path is not None and not self._keep:
            self._path.unlink(missing_ok=True)

    def write(self, **changed: Any) -> None:
        """Change fields, and write the file."""
        self._state |= changed
        if self._path is not None:
            write_whole(self._path, json.dumps(self._state) + "\n")


def progress_path(output: Path) -> Path:
    """Return the path of the progress file of a result file."""
    return output.with_name(output.name + SUFFIX)


def read_progress(path: Path) -> dict[str, Any] | None:
    """Return the object of a progress file; None if it is missing or invalid."""
    try:
        with path.open("rb") as file:
            record = json.loads(file.read(MAX_BYTES))
    except (OSError, ValueError, RecursionError):
        return None
    kinds = {"title": str, "part": str, "host": str, "done": int, "total": int, "pid": int}
    if not isinstance(record, dict) or not all(
        isinstance(record.get(name), kind) for name, kind in kinds.items()
    ):
        return None
    return {name: record[name] for name in kinds}


def is_running(progress: dict[str, Any]) -> bool:
    """Return False if the run has ended without removing its file; a run of another host counts as running."""
    if progress["host"] != platform.node():
        return True
    if progress["pid"] <= 0:
        return False
    try:
        os.kill(progress["pid"], 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True
