"""A run as several processes that measure the same rows one after the other: `run --processes`.

Samples of one process agree with each other better than with those of the next: addresses, huge pages and the pairing
of threads with cores are drawn once in its life. Verdicts by their spread change from run to run, so a sample here is
the median of a process (`merging`). Rows whose interval still contains their bar are measured by more processes, at
most as many again.
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

PROCESSES = 7  # of seven medians the interval of 0.95 leaves the extremes in; six are the least that have one
# Of a process: its median is one sample, so that its own interval need not be narrow.
PROCESS_ROUNDS, PROCESS_ROW_SECONDS = 9, 0.4
# Of a process that was measured: 1 where a row failed, 130 after Ctrl-C. Both leave what was done.
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
    """The merged result of so many processes, and of up to as many more for the rows that are unsure.

    Args:
        command: the arguments of `python -m triten.perf`, beginning with ``run``.
        keep: called with what there is after each process.
        shown: told what happens next.

    Raises:
        ProcessFailed: if a process measured nothing.
        KeyboardInterrupt: after what was done has been kept.
    """
    found: list[Result] = []
    with tempfile.TemporaryDirectory(prefix="triten-run-") as folder:

        def measure(extra: Sequence[str]) -> Result:
            path = Path(folder) / f"{len(found)}.json"
            try:
                status = _run([*command, "--processes", "1", *extra, "-o", str(path)])
            except KeyboardInterrupt:
                status = 130
            if status not in WITH_A_FILE or not path.exists():
                raise KeyboardInterrupt if status == 130 else ProcessFailed(status)
            found.append(read_results(path))
            whole = merged(found)
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
    """What `--rows` takes for these rows alone."""
    return f"^(?:{'|'.join(re.escape(row.title) for row in rows)})$"


def _run(arguments: Sequence[str]) -> int:
    """One process; what it would print is in its file."""
    started = subprocess.Popen(
        [sys.executable, "-P", "-m", "triten.perf", *arguments], stdout=subprocess.DEVNULL
    )
    try:
        return started.wait()
    except KeyboardInterrupt:
        started.wait()  # the terminal interrupted it too: it writes its file and ends
        raise
