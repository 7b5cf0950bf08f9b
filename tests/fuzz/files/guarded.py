"""One reading of a file under limits, and its result.

Memory is limited in proportion to the file. Time is CPU time, so a loaded machine changes nothing. A Python
audit hook detects forbidden actions: opening a file for writing, starting a process, connecting, loading a
library. Every byte of a loaded tensor is read again, to detect a tensor that reaches beyond its memory.
"""

import json
import os
import resource
import signal
import sys
import threading
import tracemalloc
import zipfile
from collections import Counter, OrderedDict
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

import triten as tt
from triten.runtime.storage import Storage

MAX_FOR_A_BYTE = 1000
LEAST = 48 << 20
"""Bytes that any reading may take: the first of a kind imports modules."""
ADDRESS_SPACE = 1 << 31
SECONDS = 20.0
MAX_NODES = 20_000
MAX_ELEMENTS = 1 << 18
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
FORBIDDEN = (
    *("os.system", "os.exec", "os.posix_spawn", "os.fork", "os.forkpty", "subprocess.Popen", "pty.spawn"),
    *(
        "socket.connect",
        "socket.bind",
        "os.remove",
        "os.rename",
        "os.mkdir",
        "os.rmdir",
        "os.link",
        "os.symlink",
    ),
    *("os.chmod", "os.chown", "os.truncate", "os.putenv", "shutil.rmtree", "ctypes.dlopen", "builtins.input"),
    *("os.unsetenv", "os.kill", "webbrowser.open", "urllib.Request", "tempfile.mkstemp", "tempfile.mkdtemp"),
)
INNER = (RecursionError, NotImplementedError, UnicodeError, json.JSONDecodeError, zipfile.BadZipFile)
"""Kinds of documented errors that say nothing to a caller."""


class Reading(NamedTuple):
    """Result of a reading.

    Attributes:
        kind: "value", "refused", or the name of a fault.
        message: The type and message of an error.
        digest: The full description of a value, as a string.
    """

    kind: str
    message: str
    digest: str = ""

    @property
    def is_fault(self):
        """True if the library must not behave like this."""
        return self.kind not in ("value", "refused")


class _Slow(BaseException):
    """A reading that does not end."""


class _Forbidden(BaseException):
    """A reading that does what none may do."""


class _Watch:
    """The hook, which stays in the process once it was added, and acts only within `armed`."""

    def __init__(self):
        self.is_armed = False
        self.is_added = False
        self.thread = 0
        self.seen = []

    def __call__(self, event, arguments):
        if not self.is_armed or threading.get_ident() != self.thread:
            return
        if event == "open" and type(arguments[2]) is int and not arguments[2] & WRITES:
            return
        if event == "open" or event in FORBIDDEN:
            self.seen.append(f"{event}{arguments!r:.200}")
            raise _Forbidden(self.seen[-1])

    @contextmanager
    def armed(self):
        if not self.is_added:
            sys.addaudithook(self)
            self.is_added = True
        self.seen = []
        self.thread = threading.get_ident()
        self.is_armed = True
        try:
            yield self.seen
        finally:
            self.is_armed = False


_watch = _Watch()


def attempt(read, size, documented):
    """Read under the limits and return the result.

    Args:
        read: makes the value.
        size: bytes of the file.
        documented: the errors that may be raised.
    """
    tracemalloc.start()
    try:
        with _limits(), _watch.armed() as seen:
            try:
                value = read()
            except BaseException as error:
                reading = _of_error(error, documented)
                error.__traceback__ = error.__context__ = error.__cause__ = None
            else:
                _watch.is_armed = False
                reading = Reading("value" if value is not None else "refused", "", digest(value))
                del value
        peak = tracemalloc.get_traced_memory()[1]
    except _Slow:
        return Reading("takes long", f"more than {SECONDS} s of the processor's")
    finally:
        tracemalloc.stop()
    if seen:
        return Reading("does what no reading may", seen[0])
    if peak > LEAST + MAX_FOR_A_BYTE * size and not reading.is_fault:
        return Reading(
            "takes memory", f"{peak} bytes for a file of {size}, then: {reading.message or 'a value'}"
        )
    return reading


def _of_error(error, documented):
    message = f"{type(error).__name__}: {str(error)[:300]}"
    if isinstance(error, _Slow):
        return Reading("takes long", f"more than {SECONDS} s of the processor's")
    if isinstance(error, _Forbidden):
        return Reading("does what no reading may", str(error))
    if isinstance(error, MemoryError | tt.OutOfMemoryError):
        return Reading("takes memory", message)
    if any(_is_one(error, each) for each in documented):
        return Reading("refused", message)
    return Reading("inner error", message)


def _is_one(error, documented):
    """Return True if an error matches: a type, or a type and words of its message."""
    if isinstance(documented, tuple):
        kind, words = documented
        return type(error) is kind and words in str(error)
    return isinstance(error, documented) and not isinstance(error, INNER)


@contextmanager
def _limits():
    """Limit the address space and the CPU time within the block."""
    old = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()

    def slow(*_):
        raise _Slow

    handler = signal.signal(signal.SIGPROF, slow)
    resource.setrlimit(resource.RLIMIT_AS, (used + ADDRESS_SPACE, old[1]))
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        resource.setrlimit(resource.RLIMIT_AS, old)
        signal.signal(signal.SIGPROF, handler)


def digest(value):
    """Return a value's full description as a string; of tensors, their dtypes, geometry and elements."""
    told = []
    pending = [value]
    known = {}
    while pending and len(told) < MAX_NODES:
        each = pending.pop()
        if type(each) is str and each.startswith("\0"):
            told.append(each[1:])
            continue
        if isinstance(each, list | tuple | dict | set | frozenset | tt.Tensor | Storage):
            if id(each) in known:
                told.append(f"again {known[id(each)]}")
                continue
            known[id(each)] = len(known)
        if isinstance(each, tt.Tensor):
            told.append(_of_tensor(each))
        elif isinstance(each, Storage):
            told.append(f"storage {each.nbytes()}")
        elif isinstance(each, list | tuple):
            told.append(f"{type(each).__name__} of {len(each)}")
            pending += each
        elif isinstance(each, dict | OrderedDict | Counter):
            told.append(f"{type(each).__name__} of {len(each)}")
            for key, item in each.items():
                pending += [key, item]
        elif isinstance(each, set | frozenset):
            told.append(f"{type(each).__name__} of {len(each)}")
            told += sorted(map(_brief, each))
        else:
            told.append(_brief(each))
    return "; ".join(told)


def _brief(value):
    if isinstance(value, int | float | complex | str | bytes | bytearray):
        return f"{type(value).__name__} {value!r:.200}" if not _is_long(value) else "long int"
    if value is None or isinstance(value, tt.dtype | tt.device | tt.layout):
        return repr(value)
    return type(value).__name__


def _is_long(value):
    return isinstance(value, int) and value.bit_length() > 10_000


def _of_tensor(tensor):
    head = (
        f"{type(tensor).__name__} {tensor.dtype} {tuple(tensor.shape)} {tensor.device} {tensor.requires_grad}"
    )
    if tensor.layout is not tt.strided:
        return f"{head} {tensor.layout}"
    head += f" {tuple(tensor.stride())} {tensor.storage_offset()}"
    if tensor.is_meta or tensor.is_quantized or tensor.device.type != "cpu":
        return head
    plain = tensor.detach()
    storage = plain.untyped_storage().bytes_on_host()
    if storage.size < MAX_ELEMENTS:
        head += f" over {int(storage.sum(dtype=np.int64))}"
    if plain.numel() > MAX_ELEMENTS:
        return head
    return f"{head} {plain.contiguous().host_array().tobytes().hex()[:4000]}"
