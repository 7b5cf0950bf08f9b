"""Generated sources as modules in files: the part ``sources`` of the disk cache, one file for each text.

A hash of its text names a file. A file with another text is rewritten. The executed text is the generated one, never
the file's, and `linecache` has its lines: Triton and tracebacks show it even after the cache has removed the file.
"""

from __future__ import annotations

import hashlib
import linecache
import sys
import threading
from types import ModuleType

from ...runtime.disk_cache import disk_cache
from ...runtime.fork_lock import forkable

PREFIX = "triten_generated_"
PART = "sources"

_lock = forkable(threading.Lock())


def module_of(text: str) -> ModuleType:
    """Return the module of a text; equal texts share one module in a process."""
    name = PREFIX + hashlib.sha256(text.encode()).hexdigest()[:32]
    with _lock:
        made = sys.modules.get(name)
        if made is not None:
            return made
        path = _written(name, text) or f"<triten generated {name}>"
        linecache.cache[path] = (len(text), None, text.splitlines(keepends=True), path)
        made = ModuleType(name)
        made.__file__ = path
        exec(compile(text, path, "exec"), made.__dict__)
        sys.modules[name] = made
        return made


def _written(name: str, text: str) -> str | None:
    """Return the path of a file with this text; None if no file can be written, or the cache is disabled."""
    cache = disk_cache()
    if cache is None:
        return None
    data = text.encode()
    try:
        if cache.read(PART, name) != data:
            cache.write(PART, name, data)
    except OSError:
        return None
    return cache.path(PART, name)
