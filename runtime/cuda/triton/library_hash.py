"""Hash of Triton's own files, kept between processes.

Triton's names of compiled kernels contain a hash of its compiler, of which `libtriton.so` alone has 500 MB: up to two
seconds in each process that compiles. `know_library_hash` keeps the value in Triton's cache folder, under the sizes,
times and inodes of the files, and computes it again if one of them changes.
"""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path
from typing import Any

HASHED = ("compiler", "backends", "language", "_C", "runtime/cache.py")
"""Folders and files below `triton` whose contents the hash contains, in all supported versions."""
FILE = "library_hash.txt"


@functools.cache
def know_library_hash() -> None:
    """Make Triton use the kept hash of its files in this process; compute and keep it if there is none.

    Does nothing in versions of Triton that compute it elsewhere.
    """
    from triton.runtime import autotuner, cache

    compute: Any = getattr(cache, "triton_key", None)
    if compute is None:
        return
    try:
        manager = cache.get_cache_manager(hashlib.sha256(_state_of_files().encode()).hexdigest())
        kept = manager.get_file(FILE)
        value = "" if kept is None else Path(kept).read_text(encoding="utf-8")
        if not value:
            value = compute()
            manager.put(value, FILE, binary=False)
    except (OSError, RuntimeError):  # a folder that cannot be used, of which Triton itself will tell
        value = compute()

    @functools.wraps(compute)
    def known() -> str:
        return value

    for module in (cache, autotuner):
        if getattr(module, "triton_key", None) is compute:
            module.triton_key = known


def _state_of_files() -> str:
    """Return what changes if one of the files of the hash is written or replaced."""
    import triton

    root = Path(triton.__file__).parent
    lines = []
    for each in HASHED:
        path = root / each
        for file in path.rglob("*") if path.is_dir() else [path]:
            if file.suffix in (".py", ".so", ".pyd"):
                state = file.stat()
                lines.append(f"{file} {state.st_size} {state.st_mtime_ns} {state.st_ctime_ns} {state.st_ino}")
    return "\n".join(sorted(lines))
