"""Stored runs as result files."""

from __future__ import annotations

import json
import re
from pathlib import Path

from ..result_file import write_whole
from .store import History, HistoryError


def export_runs(history: History, folder: Path, *, last_states: bool = False) -> list[Path]:
    """Write stored runs into a folder as result files, named by day, commit and digest.

    Args:
        last_states: If True, write the last state of each run, with the names that aliases give to its rows.
            Default: False, which writes everything as it was added.

    Returns:
        The paths, the oldest commit first.

    Raises:
        HistoryError: if a file cannot be written.
    """
    paths = []
    for run in history.runs(every_state=not last_states):
        result = history.result(run, renamed=last_states)
        name = f"{run.started[:10]}-{(run.commit or 'none')[:9]}-{run.digest[:12]}"
        path = folder / f"{re.sub('[^0-9A-Za-z-]', '_', name)}.json"
        try:
            write_whole(path, json.dumps(result.as_json(), indent=1, allow_nan=False) + "\n")
        except OSError as error:
            raise HistoryError(f"cannot write {path}: {error.strerror}") from None
        paths.append(path)
    return paths
