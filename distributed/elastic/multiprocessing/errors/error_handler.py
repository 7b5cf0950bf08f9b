"""Handler that writes a worker's error to a file."""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import time
import traceback
import warnings
from typing import Any

from .....runtime.regular_file import open_regular

__all__ = ["ERROR_FILE", "ErrorHandler", "get_error_handler"]

ERROR_FILE = "TORCHELASTIC_ERROR_FILE"
"""The variable that names the file."""


class ErrorHandler:
    """Writes an exception as JSON to the file that TORCHELASTIC_ERROR_FILE names, if it does (`ErrorHandler`)."""

    def initialize(self) -> None:
        """Have Python print where it was when a signal such as SIGSEGV ends it."""
        if not faulthandler.is_enabled():
            # A notebook's error stream is no file.
            with contextlib.suppress(OSError, ValueError, AttributeError, RuntimeError):
                faulthandler.enable(all_threads=True)

    def record_exception(self, e: BaseException) -> None:
        """Write an exception, with its traceback and the time."""
        extra = {
            "py_callstack": "".join(traceback.format_exception(e)),
            "timestamp": str(int(time.time())),
        }
        self._write({"message": {"message": f"{type(e).__name__}: {e}", "extraInfo": extra}})

    def dump_error_file(self, rootcause_error_file: str, error_code: int = 0) -> None:
        """Copy a worker's file to this process's, with the code that the worker ended with."""
        with open_regular(rootcause_error_file) as file:
            content = json.load(file)
        if error_code and isinstance(content.get("message"), dict):
            content["message"]["errorCode"] = error_code
        self._write(content)

    def _write(self, content: dict[str, Any]) -> None:
        path = os.environ.get(ERROR_FILE)
        if not path:
            return
        half = f"{path}.{os.getpid()}"
        try:
            with open(half, "w", encoding="utf-8") as file:
                json.dump(content, file)
            os.replace(half, path)  # so that readers never see a partial file
        except OSError as error:
            warnings.warn(f"record: could not write {path}: {error}", stacklevel=2)


def get_error_handler() -> ErrorHandler:
    """Return the default handler of `record`."""
    return ErrorHandler()
