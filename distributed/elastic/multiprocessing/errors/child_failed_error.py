"""Error of an agent whose workers failed."""

from __future__ import annotations

import socket
from collections.abc import Mapping

from .process_failure import NOT_AVAILABLE, ProcessFailure

__all__ = ["ChildFailedError"]

WIDTH = 60
"""The longest rule in the table of failures."""


class ChildFailedError(Exception):
    """Workers failed (`ChildFailedError`). Its text is a table of all of them, the first one last.

    Args:
        name: what they ran.
        failures: how each ended, by rank; at least one.
    """

    def __init__(self, name: str, failures: Mapping[int, ProcessFailure]) -> None:
        if not failures:
            raise ValueError("ChildFailedError: expected failures, but got none")
        self.name, self.failures = name, dict(failures)
        super().__init__(self.format_msg())

    def get_first_failure(self) -> tuple[int, ProcessFailure]:
        """Return the rank and the failure of the worker that failed first."""
        rank = min(self.failures, key=lambda each: self.failures[each].timestamp)
        return rank, self.failures[rank]

    def format_msg(self, border: str = "=", section: str = "-") -> str:
        """Format the table of failures."""
        title = f"{self.name} FAILED"
        entries = {
            rank: _entry(number, rank, self.failures[rank]) for number, rank in enumerate(self.failures)
        }
        root = entries.pop(self.get_first_failure()[0])
        width = min(WIDTH, max(map(len, "\n".join([title, root, *entries.values()]).splitlines())))
        other_failures = list(entries.values()) or ["  <NO_OTHER_FAILURES>"]
        return "\n".join(
            [
                "",
                border * width,
                title,
                section * width,
                "Failures:",
                *other_failures,
                section * width,
                "Root Cause (first observed failure):",
                root,
                border * width,
            ]
        )


def _entry(number: int, rank: int, failure: ProcessFailure) -> str:
    name = failure.signal_name()
    signal_note = "" if name == NOT_AVAILABLE else f" ({name})"
    traceback = failure.traceback().rstrip().replace("\n", "\n  ")
    return "\n".join(
        [
            f"[{number}]:",
            f"  time      : {failure.timestamp_isoformat()}",
            f"  host      : {socket.gethostname()}",
            f"  rank      : {rank} (local_rank: {failure.local_rank})",
            f"  exitcode  : {failure.exitcode} (pid: {failure.pid}){signal_note}",
            f"  error_file: {failure.error_file}",
            f"  traceback : {traceback}",
        ]
    )
