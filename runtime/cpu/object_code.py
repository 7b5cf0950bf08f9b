"""Object code of loops: compiled by LLVM, cached on disk, and wrapped as Python functions.

Object code is the part ``objects`` of the disk cache (`runtime/disk_cache.py`). A cache key hashes the IR, the versions
of LLVM and llvmlite, and the processor's features. A damaged entry is recompiled, as is one that the cache refuses.

LLVM compiles in this process if memory is not limited, and otherwise in a separate process (`llvm_compiler`): LLVM
aborts its process when an allocation fails. `object_loader` loads the code without LLVM.

Functions are CPython builtins (`METH_FASTCALL`): a call costs some 50 ns, compared with 1 us through ctypes.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import json
import os
import platform
import subprocess
import sys
import sysconfig
import threading
import weakref
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ..cache_files import UntrustedFileError, warn_once
from ..disk_cache import disk_cache
from ..fork_lock import forkable, hold_across_fork
from ..spare_memory import can_run_out, require_memory
from . import llvm_compiler
from .background import background
from .calling_convention import DATA
from .loop_requests import has_compiler
from .object_loader import IS_SUPPORTED, LoadedObject, library_address

METH_FASTCALL = 0x80
PART = "objects"
LIBRARY_BYTES = 1 << 28
"""Memory that must be there to import llvmlite, which takes 154 MiB of address space."""
COMPILER_BYTES = 1 << 27
"""Memory that must be there to compile and load a text: LLVM aborts the process without its 10 to 64 MiB."""
BYTES_OF_CHARACTER = 1 << 9
"""The same for each character of the text."""
STDERR_LENGTH = 300
"""The characters of a process's output that an error repeats."""
MAX_BYTES = 1 << 28
"""A file that is longer is none of ours."""


WIDE = ("znver5",)
"""Processors, by LLVM's name, that compute vectors of 512 bits as fast as those of 256. A convolution takes half the
time there.
"""


class Target(NamedTuple):
    """Processor for which code is compiled.

    Attributes:
        key: Versions and features, part of the cache key.
        converts_half: True if it converts float16.
        truncates: True if out-of-range floats convert to the least integer.
        fuses: True if it has fused multiply-add.
        vector_bits: Bits of its fastest vectors.
        vector_registers: The number of its vector registers.
    """

    key: str
    converts_half: bool
    truncates: bool
    fuses: bool
    vector_bits: int
    vector_registers: int


@cache
def is_possible() -> bool:
    """Return True if loops can be compiled: llvmlite is installed, and Python is CPython with a GIL."""
    has_gil = not sysconfig.get_config_var("Py_GIL_DISABLED")
    return sys.implementation.name == "cpython" and has_gil and has_compiler()


@cache
def target() -> Target | None:
    """Return this processor; None if llvmlite is missing or does not know it, or arrays have another layout."""
    if not is_possible() or not _arrays_have_pointers_at(DATA):
        return None
    try:
        if can_run_out():
            described = json.loads(_asked("processor"))
        else:
            _load_library()
            described = llvm_compiler.processor()
    except (ImportError, OSError, MemoryError):
        return None
    features = set(described["features"])
    is_wide = "avx512f" in features and described["name"] in WIDE
    is_x86 = platform.machine().lower() in ("x86_64", "amd64")
    is_arm = platform.machine().lower() in ("aarch64", "arm64")
    return Target(
        described["key"],
        "f16c" in features or is_arm,
        is_x86,
        "fma" in features or is_arm,
        512 if is_wide else 256 if "avx2" in features else 128,
        32 if "avx512vl" in features or is_arm else 16,
    )


def _load_library() -> None:
    """Import llvmlite, which then calls LLVM in this process."""
    require_memory(LIBRARY_BYTES, "llvmlite")
    from llvmlite import binding

    # Every LLVM call holds llvmlite's lock, so a child forked during such a call could make none. The thread that
    # makes loops calls LLVM while it is busy, so a fork takes its lock first.
    hold_across_fork(background.busy)
    hold_across_fork(binding.ffi.lib._lock)


def _asked(command: str, text: str = "") -> bytes:
    """Return the answer of a subprocess (`llvm_compiler`): if LLVM runs out of memory, only the subprocess aborts.

    Raises:
        MemoryError: The process could not be started, or had no memory.
    """
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(each for each in sys.path if each)}
    program = [sys.executable, "-P", llvm_compiler.__file__, command]
    try:
        done = subprocess.run(program, input=text.encode(), capture_output=True, env=environment)
    except OSError as error:
        raise MemoryError(f"no process can be started to compile loops: {error}") from error
    if done.returncode:
        stderr = done.stderr.decode(errors="replace").strip()[-STDERR_LENGTH:]
        raise MemoryError(f"the process that compiles loops ended with status {done.returncode}: {stderr}")
    return done.stdout


def _arrays_have_pointers_at(offset: int) -> bool:
    array = np.arange(3)
    return ctypes.c_void_p.from_address(id(array) + offset).value == array.ctypes.data


@cache
def _symbols() -> dict[str, int]:
    """Return addresses of external symbols: Python functions that code calls, and those of `define_symbol`."""
    functions = ("PyEval_SaveThread", "PyEval_RestoreThread", "Py_IncRef", "PyErr_SetString")
    addresses = {
        name: ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0 for name in functions
    }
    error = ctypes.addressof(ctypes.c_void_p.in_dll(ctypes.pythonapi, "PyExc_RuntimeError"))
    return {**addresses, "_Py_NoneStruct": id(None), "PyExc_RuntimeError": error}


def define_symbol(name: str, address: int) -> None:
    """Let code that is loaded later refer to an address by a name."""
    _symbols()[name] = address


class _MethodDef(ctypes.Structure):
    """CPython's PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("documentation", ctypes.c_char_p),
    )


class _Code:
    """Loaded code, which a builtin has as its `__self__` and keeps alive by it."""

    def __init__(self, loaded: LoadedObject | _Engine, name: str) -> None:
        self.addresses = loaded.addresses
        self.loaded, self.address = loaded, loaded.addresses[name]
        self.definition = _MethodDef(b"loop", self.address, METH_FASTCALL, None)


class _Addresses(dict[str, int]):
    """Addresses of an engine's functions, looked up lazily."""

    def __init__(self, engine: Any) -> None:
        self.engine = engine

    def __missing__(self, name: str) -> int:
        return int(self.engine.get_function_address(name))


class _Engine:
    """Object code that LLVM loads, on platforms without our own loader (`object_loader`)."""

    def __init__(self, data: bytes) -> None:
        require_memory(COMPILER_BYTES, "a compiled loop")
        _load_library()
        from llvmlite import binding

        for name, address in list(_symbols().items()):
            binding.add_symbol(name, address)
        machine = llvm_compiler.target_machine()
        engine = binding.create_mcjit_compiler(binding.parse_assembly(""), machine)
        engine.add_object_file(binding.ObjectFileRef.from_data(data))
        engine.finalize_object()
        self.addresses = _Addresses(engine)


_loaded: weakref.WeakValueDictionary[str, _Code] = weakref.WeakValueDictionary()
_lock = forkable(threading.Lock())
counts = {"compiled": 0, "read": 0}
"""How many texts were compiled in this process, and how many found on disk."""


def loop_function(text: str) -> Callable[..., None]:
    """Return the builtin that a module's text defines as `call`. Raise MemoryError if LLVM would run out of memory."""
    machine = target()
    assert machine is not None
    key = hashlib.sha256(f"{machine.key}\n{text}".encode()).hexdigest()
    with _lock:
        code = _loaded.get(key)
        if code is None:
            code = _loaded[key] = _load(key, text)
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype, make.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
    return make(ctypes.addressof(code.definition), code, None)  # type: ignore[no-any-return]


def part_address(loop: Callable[..., None]) -> int:
    """Return the address of a loop's function that native threads call with the numbers of a part and all pointers."""
    code = getattr(loop, "__self__", None)
    assert isinstance(code, _Code)
    return code.addresses["part"]


_functions: dict[str, _Code] = {}


def shared_function(name: str, text: str, optimizes: bool = False) -> int:
    """Return the address of a function that loops call by its name; it stays loaded.

    Args:
        name: Its symbol.
        text: The module's text.
        optimizes: If False, compile without optimization, since the text keeps values in registers. Default: False.
    """
    machine = target()
    assert machine is not None
    with _lock:
        code = _functions.get(name)
        if code is None:
            key = hashlib.sha256(f"{machine.key}\n{name}\n{text}".encode()).hexdigest()
            code = _functions[name] = _load(key, text, name, optimizes)
            define_symbol(name, code.address)
    return code.address


def _load(key: str, text: str, name: str = "call", optimizes: bool = True) -> _Code:
    data = _read(key)
    if data is None:
        data = _compile(text, optimizes)
        counts["compiled"] += 1
        _write(key, data)
    else:
        counts["read"] += 1
    return _Code(LoadedObject(data, _address) if IS_SUPPORTED else _Engine(data), name)


def _address(name: str) -> int:
    known = _symbols().get(name)
    return library_address(name) if known is None else known


def _compile(text: str, optimizes: bool) -> bytes:
    """Return the object code of a text, from a subprocess if this process can run out of memory."""
    if can_run_out():
        return _asked("optimize" if optimizes else "compile", text)
    require_memory(COMPILER_BYTES + BYTES_OF_CHARACTER * len(text), "a compiled loop")
    _load_library()
    return llvm_compiler.compile_text(text, optimizes)


def _read(key: str) -> bytes | None:
    cache = disk_cache()
    if cache is None:
        return None
    try:
        return cache.read(PART, key, is_sealed=True, max_bytes=MAX_BYTES)
    except UntrustedFileError as error:
        folder = cache.folder(PART)
        warn_once(folder, f"compiled loops are not read from {folder}, but compiled anew: {error}")
        return None
    except OSError:
        return None


def _write(key: str, body: bytes) -> None:
    cache = disk_cache()
    if cache is not None:
        with contextlib.suppress(OSError):  # a folder that cannot be written to: each process compiles
            cache.write(PART, key, body, is_sealed=True)
