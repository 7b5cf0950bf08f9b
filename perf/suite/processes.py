"""Runs by several processes that measure the same rows one after the other: `run --processes`.

Samples of one process agree more with each other than with those of another process: addresses, huge pages
and the pairing of threads with cores are fixed at its start. Results based on their spread vary from run to
run, so a sample here is the median of a process (`merging`). Rows whose interval still contains their bar are
measured by more processes, at most as many again.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from .merging import merged
from .results import UNSURE, Result, Row, read_results

PROCESSES = 7  # the 0.95 interval of seven medians spans all of them; an interval needs at least six
# Limits of a process: its median is one sample, so its own interval need not be narrow.
PROCESS_ROUNDS, PROCESS_ROW_SECONDS = 9, 0.4
# Exit statuses of a process that measured: 1 if a row failed, 130 after Ctrl-C. Both leave a file.
WITH_A_FILE = (0, 1, 130)

Shown = Callable[[str], None]


class ProcessFailed(Exception):
    """A process measured nothing: its exit status, after it said why on standard error."""

    def __init__(self, status: int) -> None:
        super().__init__(f"a process of the run ended with status {status}")
        self.status = status


def measure_in_processes(
    command: Sequence[str], processes: int, keep: Callable[[Result], None], shown: Shown
) -> Result:
    """Return the merged result of several processes, and of up to as many more for rows that are unsure.

    Args:
        command: Arguments of `python -m triten.perf`, beginning with ``run``.
        keep: Function called with the merged result after each process.
        shown: Function called with a description of the next step.

    Raises:
        ProcessFailed: if a process measured nothing.
        KeyboardInterrupt: after what was done has been kept.
    """
    results: list[Result] = []
    with tempfile.TemporaryDirectory(prefix="triten-run-") as folder:

        def measure(extra: Sequence[str]) -> Result:
            path = Path(folder) / f"{len(results)}.json"
            try:
                status = _run([*command, "--processes", "1", *extra, "-o", str(path)])
            except KeyboardInterrupt:
                status = 130
            if status not in WITH_A_FILE or not path.exists():
                raise KeyboardInterrupt if status == 130 else ProcessFailed(status)
            results.append(read_results(path))
            whole = merged(results)
            keep(whole)
            if status == 130:
                raise KeyboardInterrupt
            return whole

        for number in range(processes):
            shown(f"process {number + 1} of {processes}")
            whole = measure([])
        for number in range(processes):
            unsure = [row for row in whole.rows if row.verdict_at(whole.confidence) == UNSURE]
            if not unsure:
                break
            shown(f"{len(unsure)} rows at their bars: process {number + 1} of at most {processes} more")
            whole = measure(["--rows", rows_pattern(unsure)])
    return whole


def rows_pattern(rows: Sequence[Row]) -> str:
    """Return the `--rows` expression that selects exactly these rows."""
    return f"^(?:{'|'.join(re.escape(row.title) for row in rows)})$"


def _run(arguments: Sequence[str]) -> int:
    """Run one process, with its output discarded, since the file has it."""
    started = subprocess.Popen(
        [sys.executable, "-P", "-m", "triten.perf", *arguments], stdout=subprocess.DEVNULL
    )
    try:
        return started.wait()
    except KeyboardInterrupt:
        started.wait()  # the terminal interrupted it too: it writes its file and ends
        raise
