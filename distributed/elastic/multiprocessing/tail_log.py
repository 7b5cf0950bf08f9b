"""Files of workers' output, shown while they grow."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TextIO

__all__ = ["TailLog"]

INTERVAL = 0.1
"""Seconds between two looks into the files."""


class TailLog:
    """Thread that writes new lines of files to a stream, each with a prefix (`TailLog`).

    Args:
        files: Prefixes and paths.
        stream: The output stream.
    """

    def __init__(self, files: Sequence[tuple[str, str]], stream: TextIO) -> None:
        self._files = [_Tail(prefix, path) for prefix, path in files]
        self._stream = stream
        self._stops = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> TailLog:
        """Begin to show."""
        if self._files:
            self._thread = threading.Thread(target=self._run, name="TailLog", daemon=True)
            self._thread.start()
        return self

    def stop(self) -> None:
        """Show the remaining lines, and end. All writers of the files have ended by then."""
        self._stops.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        for each in self._files:
            each.close()
        self._files = []

    def _run(self) -> None:
        is_last = False
        while True:
            lines = "".join(line for each in self._files for line in each.lines(is_last))
            if lines:
                self._stream.write(lines)
                self._stream.flush()
            if is_last:
                return
            is_last = self._stops.wait(INTERVAL)


class _Tail:
    """A file, and how far it was read."""

    def __init__(self, prefix: str, path: str) -> None:
        self._prefix = prefix
        self._file = open(path, "rb")  # noqa: SIM115  (closed by close)
        self._begun = b""

    def lines(self, is_last: bool) -> list[str]:
        """Return the lines completed since the last call, plus the partial line if `is_last`."""
        *whole, self._begun = (self._begun + self._file.read()).split(b"\n")
        if is_last and self._begun:
            whole, self._begun = [*whole, self._begun], b""
        return [f"{self._prefix}{line.decode(errors='replace')}\n" for line in whole]

    def close(self) -> None:
        self._file.close()
