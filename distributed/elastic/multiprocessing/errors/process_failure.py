"""A worker that failed."""

from __future__ import annotations

import json
import os
import signal
import time
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from .....runtime.regular_file import open_regular

__all__ = ["NOT_AVAILABLE", "ProcessFailure"]

NOT_AVAILABLE = "<N/A>"
_NO_TRACEBACK = (
    "To see the traceback, decorate main() with triten.distributed.elastic.multiprocessing.errors.record"
)


@dataclass
class ProcessFailure:
    """How a worker ended, with what it wrote to its error file (`ProcessFailure`).

    Attributes:
        local_rank: Local rank of the worker.
        pid: Process id.
        exitcode: Exit code; negative for a signal.
        error_file: Path of its error file; ``"<N/A>"`` if it wrote none.
        error_file_data: Content of the file.
        message: Error message: the file's message, or a line about the signal.
        timestamp: Time of the failure, in seconds since 1970.
    """

    local_rank: int
    pid: int
    exitcode: int
    error_file: str
    error_file_data: dict[str, Any] = field(init=False)
    message: str | dict[str, Any] = field(init=False)
    timestamp: int = field(init=False)

    def __post_init__(self) -> None:
        self.error_file_data = {"message": "<NONE>"}
        self.message, self.timestamp = "", int(time.time())
        if os.path.isfile(self.error_file):
            self._read()
        else:
            self.error_file = NOT_AVAILABLE
        if not self.message:
            self.message = (
                f"Signal {-self.exitcode} ({self.signal_name()}) received by PID {self.pid}"
                if self.exitcode < 0
                else _NO_TRACEBACK
            )

    def _read(self) -> None:
        try:
            with open_regular(self.error_file) as file:
                content = json.load(file)
            message = content["message"]
            details = message if isinstance(message, dict) else content
            timestamp = int(details.get("extraInfo", details).get("timestamp", self.timestamp))
            datetime.fromtimestamp(timestamp)
            self.error_file_data, self.timestamp = content, timestamp
            self.message = message if isinstance(message, dict) else str(message)
        except (
            *(ValueError, LookupError, TypeError, AttributeError),
            *(OverflowError, OSError, RecursionError),
        ) as error:
            self.message = f"{self.error_file} is no error file: {error!r}"

    def signal_name(self) -> str:
        """Return the name of the signal that ended the worker; ``"<N/A>"`` if none did."""
        try:
            return signal.Signals(-self.exitcode).name
        except ValueError:
            return NOT_AVAILABLE

    def timestamp_isoformat(self) -> str:
        """Return the time as YYYY-MM-DD_HH:MM:SS."""
        return datetime.fromtimestamp(self.timestamp).isoformat(sep="_")

    def traceback(self) -> str:
        """Return the worker's traceback, or its message if there is no traceback."""
        if isinstance(self.message, str):
            return self.message
        return str(
            self.message.get("extraInfo", {}).get("py_callstack")
            or self.message.get("message", NOT_AVAILABLE)
        )
