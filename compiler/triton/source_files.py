"""Generated sources as modules in files: ``$TRITEN_CACHE_DIR/sources``, one for each text.

A hash of its text names a file. A file with another text is rewritten; the executed text is the generated one, never
the file's.
"""

from __future__ import annotations

import hashlib
import linecache
import secrets
import sys
import threading
from pathlib import Path
from types import ModuleType

from ...runtime.cache_files import make_own_folder
from ...runtime.cache_folder import cache_folder
from ...runtime.fork_lock import forkable

PREFIX = "triten_generated_"

_lock = forkable(threading.Lock())


def directory() -> Path:
    """Return the folder of sources, beside the compiled kernels (see `docs/environment_variables.md`)."""
    return cache_folder() / "sources"


def module_of(text: str) -> ModuleType:
    """Return the module of a text; equal texts share one module in a process."""
    name = PREFIX + hashlib.sha256(text.encode()).hexdigest()[:32]
    with _lock:
        made = sys.modules.get(name)
        if made is not None:
            return made
        path = _written(name, text)
        made = ModuleType(name)
        made.__file__ = path
        exec(compile(text, path, "exec"), made.__dict__)
        sys.modules[name] = made
        return made


def _written(name: str, text: str) -> str:
    """Return the path of a file with this text, or a virtual path in `linecache` if no file can be written."""
    folder = directory()
    path = folder / f"{name}.py"
    try:
        if path.is_file() and path.read_text(encoding="utf-8") == text:
            return str(path)
        make_own_folder(folder)
        beside = folder / f"{name}.{secrets.token_hex(8)}.tmp"
        beside.write_text(text, encoding="utf-8")
        beside.replace(path)
        return str(path)
    except OSError:
        virtual = f"<triten generated {name}>"
        linecache.cache[virtual] = (len(text), None, text.splitlines(keepends=True), virtual)
        return virtual
