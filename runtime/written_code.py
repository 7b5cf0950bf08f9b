"""Generated functions: a plan's or a launch's code as text, compiled.

A loop over a call's arguments would cost more than many small kernels. The code for each shape of call is therefore
generated once per process. Every text is compiled under a file name of its own, ``<triten plan tensor, value #12>``,
and registered with `linecache`, where tracebacks and debuggers look up its lines.
"""

from __future__ import annotations

import itertools
import linecache
import threading
from collections import OrderedDict
from types import CodeType
from typing import Any

from .fork_lock import forkable

MAX_TEXTS = 512
"""Number of compiled texts that are kept, with their lines; the least recently used goes first."""

_codes: OrderedDict[tuple[str, str], CodeType] = OrderedDict()
_numbers = itertools.count(1)
_lock = forkable(threading.Lock())


def compiled(text: str, label: str) -> CodeType:
    """Return the code of a module's text, compiled once for each text and label.

    Args:
        label: Description for tracebacks: "plan tensor, value", "launch".
    """
    key = (text, label)
    with _lock:
        code = _codes.get(key)
        if code is not None:
            _codes.move_to_end(key)
            return code
    filename = f"<{__name__.partition('.')[0]} {label} #{next(_numbers)}>"
    code = compile(text, filename, "exec")
    with _lock:
        if key in _codes:  # Another thread was quicker.
            return _codes[key]
        linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
        _codes[key] = code
        while len(_codes) > MAX_TEXTS:
            _, oldest = _codes.popitem(last=False)
            linecache.cache.pop(oldest.co_filename, None)
    return code


def defined(name: str, text: str, label: str, names: dict[str, Any]) -> Any:
    """Execute a text with `names` as its globals, to which it adds, and return its definition of `name`.

    Example:
        >>> from triten.runtime.written_code import defined
        >>> defined("twice", "def twice(x):\\n    return times * x", "example", {"times": 2})(4)
        8
    """
    exec(compiled(text, label), names)
    return names[name]
