"""State of the runs that a server shows: result files, their progress files, and a store of runs."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..history import History, HistoryError
from ..history.identity import machine_name, run_key
from ..suite.progress_file import SUFFIX, is_running, progress_path, read_progress
from ..suite.results import OURS, Result, ResultFileError, read_results

MAX_FILES = 1000
Stamp = tuple[int, int, int]


@dataclass(frozen=True)
class _File:
    """A file as it was last read: its result, or the error."""

    stamp: Stamp
    result: Result | None
    error: str


class Watcher:
    """Reads files that have changed since the last `poll`, and wakes the threads that wait for changes.

    Args:
        paths: Result files, and folders whose `*.json` are result files.
        history: A store of runs, or None.
    """

    def __init__(self, paths: Sequence[Path], history: Path | None = None) -> None:
        self._paths = list(paths)
        self._history = history
        self._files: dict[Path, _File] = {}
        self._stored: dict[str, Result] = {}
        self._stored_stamp: Stamp | None = None
        self._stored_error = ""
        self._changed = threading.Condition()
        self._version = 0
        self._state: dict[str, Any] = {"runs": [], "progress": [], "errors": []}
        self._results: dict[str, Result] = {}
        self._closed = False

    def poll(self) -> bool:
        """Read what has changed. Return True if the state differs from the last one."""
        files = {path: self._read(path, stamp) for path, stamp in self._stamps()}
        self._files = files
        self._read_history()
        results = {run_id(str(path)): file.result for path, file in files.items() if file.result is not None}
        heads = [
            _head(run_id(str(path)), path.name, file.result) for path, file in files.items() if file.result
        ]
        # A run of the store whose file is watched is shown once, in the file's state.
        watched = {run_key(result) for result in results.values()}
        stored = {
            identity: result for identity, result in self._stored.items() if run_key(result) not in watched
        }
        heads += [_head(identity, "", result) for identity, result in stored.items()]
        heads.sort(key=lambda head: (head["started"], head["id"]), reverse=True)
        # A folder may have JSON files of other kinds; a file that was named is expected to be a result.
        errors = [
            file.error
            for path, file in files.items()
            if file.error and (path in self._paths or "no result" not in file.error)
        ]
        state = {
            "runs": heads,
            "progress": list(self._progress()),
            "errors": errors + ([self._stored_error] if self._stored_error else []),
        }
        with self._changed:
            self._results = {**stored, **results}
            if state == self._state and self._version:
                return False
            self._state = state
            self._version += 1
            self._changed.notify_all()
        return True

    def state(self) -> tuple[int, dict[str, Any]]:
        """Return the number of the state, and the state."""
        with self._changed:
            return self._version, self._state

    def result(self, identity: str) -> Result | None:
        """Return the result of a run; None if there is no such run."""
        with self._changed:
            return self._results.get(identity)

    def results(self) -> list[Result]:
        """Return all results that are no rehearsals."""
        with self._changed:
            return [result for result in self._results.values() if not result.rehearsal]

    def wait(self, version: int, timeout: float) -> bool:
        """Wait until the state is newer than a version, or the watcher is closed. Return False after the timeout."""
        with self._changed:
            return self._changed.wait_for(lambda: self._version > version or self._closed, timeout)

    @property
    def is_closed(self) -> bool:
        """True after `close`."""
        with self._changed:
            return self._closed

    def close(self) -> None:
        """Wake all waiting threads for good."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _stamps(self) -> Iterator[tuple[Path, Stamp]]:
        paths: list[Path] = []
        for path in self._paths:
            paths += sorted(path.glob("*.json"))[:MAX_FILES] if path.is_dir() else [path]
        for path in dict.fromkeys(paths):
            stamp = _stamp(path)
            if stamp is not None:
                yield path, stamp

    def _read(self, path: Path, stamp: Stamp) -> _File:
        known = self._files.get(path)
        if known is not None and known.stamp == stamp:
            return known
        try:
            return _File(stamp, read_results(path), "")
        except ResultFileError as error:
            return _File(stamp, None, str(error))

    def _read_history(self) -> None:
        stamp = None if self._history is None else _stamp(self._history)
        if self._history is None or stamp == self._stored_stamp:
            return
        self._stored_stamp = stamp
        try:
            with History(self._history) as history:
                self._stored = {run_id(run.digest): result for run, result in history.results()}
            self._stored_error = ""
        except HistoryError as error:
            self._stored_error = str(error)

    def _progress(self) -> Iterator[dict[str, Any]]:
        paths: list[Path] = []
        for path in self._paths:
            paths += sorted(path.glob(f"*.json{SUFFIX}")) if path.is_dir() else [progress_path(path)]
        for path in dict.fromkeys(paths):
            progress = read_progress(path)
            if progress is not None and is_running(progress):
                shown = {name: progress[name] for name in ("title", "done", "total", "part")}
                yield {"file": path.name.removesuffix(SUFFIX), **shown}


def run_id(text: str) -> str:
    """Return the identity of a run in addresses: 16 hexadecimal digits."""
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:16]


def rows_of(result: Result) -> list[dict[str, Any]]:
    """Return the rows of a result for the page: title, seconds, ratios, and the result of the bar."""
    rows = []
    for row in result.rows:
        summary = row.summary()
        ratios = {peer: ratio for peer in row.peers if (ratio := row.ratio(peer, result.confidence))}
        rows.append(
            {
                "title": str(row.key),
                "seconds": summary.median if summary else None,
                "ratios": {peer: [each.estimate, each.low, each.high] for peer, each in ratios.items()},
                "outcome": row.verdict_at(result.confidence),
            }
        )
    return rows


def _head(identity: str, name: str, result: Result) -> dict[str, Any]:
    commit = result.commit or {}
    return {
        "id": identity, "name": name, "commit": str(commit.get("hash", ""))[:9], "dirty": bool(commit.get("dirty")),
        "started": result.started, "updated": result.updated, "complete": result.complete,
        "rehearsal": result.rehearsal, "machine": machine_name(result.machine),
        "device": str(result.settings.get("device", "")), "rows": len(result.rows),
        "timed": sum(bool(row.samples.get(OURS)) for row in result.rows),
    }  # fmt: skip


def _stamp(path: Path) -> Stamp | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
