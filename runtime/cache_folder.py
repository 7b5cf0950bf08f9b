"""Folder of everything that this package caches on disk: compiled kernels and loops, generated sources, tuning."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """Return ``$TRITEN_CACHE_DIR``, else ``triten`` in ``$XDG_CACHE_HOME`` or in ``~/.cache``.

    Raises:
        RuntimeError: The user has no home.
    """
    named = os.environ.get("TRITEN_CACHE_DIR")
    if named:
        return Path(named)
    cache = os.environ.get("XDG_CACHE_HOME", "")
    # The specification says to ignore a path that is not absolute.
    return (Path(cache) if os.path.isabs(cache) else Path.home() / ".cache") / "triten"
