"""Checks of a command before it measures: numbers out of range, bad expressions, unwritable files."""

from __future__ import annotations

import argparse
import os
import re
from pathlib import Path


class RefusalError(Exception):
    """Error for a request that cannot be met; the message is one line. `python -m triten.perf` exits with
    status 2.
    """


def require_positive(arguments: argparse.Namespace, *names: str) -> None:
    """Refuse options that were given and are not above 0, nan among them.

    Example:
        >>> import argparse
        >>> from triten.perf.refusal import require_positive
        >>> require_positive(argparse.Namespace(rounds=1, row_seconds=None), "rounds", "row_seconds")
        >>> require_positive(argparse.Namespace(rounds=0), "rounds")
        Traceback (most recent call last):
        triten.perf.refusal.RefusalError: --rounds must be positive, got 0
    """
    for name in names:
        value = getattr(arguments, name)
        if value is not None and not value > 0:
            raise RefusalError(f"--{name.replace('_', '-')} must be positive, got {value}")


def expression(text: str, option: str = "--rows") -> re.Pattern[str]:
    """Compile the regular expression of an option. Raise RefusalError if it is invalid."""
    try:
        return re.compile(text)
    except re.error as error:
        raise RefusalError(f"{option} {text!r} is no regular expression: {error}") from None


def require_writable(path: Path | None) -> None:
    """Refuse a file that could not be written when all is measured; a folder that is missing will be made."""
    if path is None:
        return
    if path.is_dir():
        raise RefusalError(f"cannot write {path}: it is a folder")
    require_writable_folder(path.parent, shown=path)
    if path.exists() and not os.access(path, os.W_OK):
        raise RefusalError(f"cannot write {path}: no permission")


def require_writable_folder(folder: Path, shown: Path | None = None) -> None:
    """Raise RefusalError for a folder that is not writable, or that is missing and cannot be created."""
    ancestor = next((path for path in (folder, *folder.absolute().parents) if path.exists()), None)
    if ancestor is None or not ancestor.is_dir():
        raise RefusalError(f"cannot write {shown or folder}: {ancestor} is no folder")
    if not os.access(ancestor, os.W_OK | os.X_OK):
        raise RefusalError(f"cannot write {shown or folder}: no permission")
