"""Functions that are written out as text and compiled: the shape of a plan or of a launch, spelt out.

A loop over a call's arguments would cost more than many a small kernel, so that the code for each shape of call is
written once in a process. Every text is compiled under a file name of its own, ``<triten plan tensor, value #12>``,
and registered with `linecache`, where tracebacks and debuggers look for its lines.
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
"""So many texts are kept, compiled; the one that was asked for longest ago goes first, its lines too."""

_codes: OrderedDict[tuple[str, str], CodeType] = OrderedDict()
_numbers = itertools.count(1)
_lock = forkable(threading.Lock())


def compiled(text: str, label: str) -> CodeType:
    """The code of a module's text; that of the same text and label is compiled once.

    Args:
        label: what it is, for tracebacks: "plan tensor, value", "launch".
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
    """What a text defines under `name`, with `names` as its globals, to which it is added.

    Example:
        >>> from triten.runtime.written_code import defined
        >>> defined("twice", "def twice(x):\\n    return times * x", "example", {"times": 2})(4)
        8
    """
    exec(compiled(text, label), names)
    return names[name]
