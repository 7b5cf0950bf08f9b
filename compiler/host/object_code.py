"""Object code of loops: compiled by LLVM, kept on disk, and made a function of Python's.

The folder is ``$TRITEN_CACHE_DIR/objects``. An entry is named by a hash of the text, of LLVM's and llvmlite's versions
and of the processor with its features, and starts with a checksum, so that a damaged one is compiled anew, as is
one that another user than this one or root has written.
`TRITEN_CACHE_MAXSIZE=0` has nothing kept.

Functions are CPython's builtins (`METH_FASTCALL`): a call costs some 50 ns, where one through ctypes costs 1 us.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import os
import platform
import sys
import sysconfig
import threading
import weakref
from collections.abc import Callable
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...dispatch.structured.compiled_loops import background
from ...runtime.cache_files import make_own_folder, read_own_file, write_own_file
from ...runtime.fork_lock import forkable, hold_across_fork
from ...runtime.spare_memory import require_memory
from ..triton.source_files import directory as sources
from .calling_convention import DATA

METH_FASTCALL = 0x80
DIGEST_SIZE = 32
LIBRARY_BYTES = 1 << 28
"""Memory that must be there to import llvmlite, which takes 154 MiB of address space."""
COMPILER_BYTES = 1 << 27
"""Memory that must be there to compile and load a text: LLVM aborts the process without its 10 to 64 MiB."""
BYTES_OF_CHARACTER = 1 << 9
"""The same for each character of the text."""
MOST_BYTES = 1 << 28
"""A file that is longer is none of ours."""


class Target(NamedTuple):
    """The processor that code is made for.

    Attributes:
        binding: llvmlite's interface to LLVM.
        machine: makes a target machine of LLVM's; an engine has one of its own, and frees it.
        key: versions and features, as a part of names on disk.
        converts_half: whether it converts float16.
        truncates: whether it makes the least integer of floats that do not fit.
        fuses: whether it multiplies and adds with one rounding.
        vector_bits: bits of the vectors that it multiplies quickest.
        vector_registers: how many of them it has.
    """

    binding: Any
    machine: Callable[[], Any]
    key: str
    converts_half: bool
    truncates: bool
    fuses: bool
    vector_bits: int
    vector_registers: int


@cache
def is_possible() -> bool:
    """Whether loops can be compiled here: llvmlite is installed, and Python is CPython with a GIL."""
    has_gil = not sysconfig.get_config_var("Py_GIL_DISABLED")
    return sys.implementation.name == "cpython" and has_gil and find_spec("llvmlite") is not None


@cache
def target() -> Target | None:
    """This processor; None where llvmlite is not there or does not know it, or arrays are laid out otherwise."""
    if not is_possible() or not _arrays_have_pointers_at(DATA):
        return None
    try:
        require_memory(LIBRARY_BYTES, "llvmlite")
        import llvmlite.binding as binding
    except (ImportError, OSError, MemoryError):
        return None
    # Every call of LLVM's holds llvmlite's lock: a child that began within such a call could make none. The thread that
    # makes loops calls LLVM while it is busy, so that a fork takes the lock of that first.
    hold_across_fork(background.busy)
    hold_across_fork(binding.ffi.lib._lock)
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    for name, address in _symbols().items():
        binding.add_symbol(name, address)
    features = binding.get_host_cpu_features()
    name, flags = binding.get_host_cpu_name(), features.flatten()
    machine = partial(
        binding.Target.from_default_triple().create_target_machine, cpu=name, features=flags, opt=3, jit=True
    )
    is_x86 = platform.machine().lower() in ("x86_64", "amd64")
    version = sys.modules["llvmlite"].__version__
    key = f"{version} {binding.llvm_version_info} {binding.get_process_triple()} {name} {flags}"
    is_arm = platform.machine().lower() in ("aarch64", "arm64")
    return Target(
        *(binding, machine, key, bool(features.get("f16c")) or is_arm, is_x86),
        bool(features.get("fma")) or is_arm,
        256 if features.get("avx2") else 128,
        32 if features.get("avx512vl") or is_arm else 16,
    )


def _arrays_have_pointers_at(offset: int) -> bool:
    array = np.arange(3)
    return ctypes.c_void_p.from_address(id(array) + offset).value == array.ctypes.data


def _symbols() -> dict[str, int]:
    """Addresses of what code calls in Python."""
    functions = ("PyEval_SaveThread", "PyEval_RestoreThread", "Py_IncRef", "PyErr_SetString")
    found = {
        name: ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0 for name in functions
    }
    error = ctypes.addressof(ctypes.c_void_p.in_dll(ctypes.pythonapi, "PyExc_RuntimeError"))
    return {**found, "_Py_NoneStruct": id(None), "PyExc_RuntimeError": error}


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

    def __init__(self, engine: Any, address: int) -> None:
        self.engine, self.address = engine, address
        self.definition = _MethodDef(b"loop", address, METH_FASTCALL, None)


_loaded: weakref.WeakValueDictionary[str, _Code] = weakref.WeakValueDictionary()
_lock = forkable(threading.Lock())
counts = {"compiled": 0, "read": 0}
"""How many texts were compiled in this process, and how many found on disk."""


def loop_function(text: str) -> Callable[..., None]:
    """Return the builtin that a module's text defines as `call`. Raises MemoryError where LLVM would run out of it."""
    found = target()
    assert found is not None
    key = hashlib.sha256(f"{found.key}\n{text}".encode()).hexdigest()
    with _lock:
        code = _loaded.get(key)
        if code is None:
            code = _loaded[key] = _load(found, key, text)
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype, make.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
    return make(ctypes.addressof(code.definition), code, None)  # type: ignore[no-any-return]


def part_address(loop: Callable[..., None]) -> int:
    """Where a loop has the function that threads without Python call, with the numbers of a part and all pointers."""
    code = getattr(loop, "__self__", None)
    assert isinstance(code, _Code)
    return int(code.engine.get_function_address("part"))


_functions: dict[str, _Code] = {}


def shared_function(name: str, text: str) -> int:
    """The address of a function that loops call by its name; it stays loaded.

    Its text is compiled as it is, since it is written in vectors.
    """
    found = target()
    assert found is not None
    with _lock:
        code = _functions.get(name)
        if code is None:
            key = hashlib.sha256(f"{found.key}\n{name}\n{text}".encode()).hexdigest()
            code = _functions[name] = _load(found, key, text, name, optimises=False)
            found.binding.add_symbol(name, code.address)
    return code.address


def _load(found: Target, key: str, text: str, name: str = "call", optimises: bool = True) -> _Code:
    binding = found.binding
    require_memory(COMPILER_BYTES + BYTES_OF_CHARACTER * len(text), "a compiled loop")
    data = _read(key)
    if data is None:
        data = _compile(found, text, optimises)
        counts["compiled"] += 1
        _write(key, data)
    else:
        counts["read"] += 1
    engine = binding.create_mcjit_compiler(binding.parse_assembly(""), found.machine())
    engine.add_object_file(binding.ObjectFileRef.from_data(data))
    engine.finalize_object()
    return _Code(engine, engine.get_function_address(name))


def _compile(found: Target, text: str, optimises: bool = True) -> bytes:
    """Object code of a text, optimised as C at ``-O3`` if at all."""
    binding = found.binding
    machine, module = found.machine(), binding.parse_assembly(text)
    module.triple, module.data_layout = machine.triple, str(machine.target_data)
    if optimises:
        options = binding.create_pipeline_tuning_options(speed_level=3)
        options.loop_vectorization = options.slp_vectorization = options.loop_unrolling = True
        builder = binding.create_pass_builder(machine, options)
        passes = builder.getModulePassManager()
        passes.run(module, builder)
        _dispose(passes)
    made: bytes = machine.emit_object(module)
    return made


def _dispose(passes: Any) -> None:
    """Free passes where llvmlite does not: to its 0.50 theirs is the `_dispose` of a class that frees nothing."""
    for each in type(passes).__mro__:
        own = vars(each).get("_dispose")
        if own is not None and each.__name__ == "NewPassManager":
            if type(passes)._dispose is not own:
                own(passes)
            return


def _path(key: str) -> Path | None:
    """Where an entry is kept; None where nothing is."""
    if os.environ.get("TRITEN_CACHE_MAXSIZE") == "0":
        return None
    try:
        return sources().parent / "objects" / f"{key}.o"
    except RuntimeError:  # no home
        return None


def _read(key: str) -> bytes | None:
    path = _path(key)
    if path is None:
        return None
    try:
        found = read_own_file(path, MOST_BYTES)
    except OSError:
        return None
    data = b"" if found is None else found[0]
    body = data[DIGEST_SIZE:]
    return body if hashlib.sha256(key.encode() + body).digest() == data[:DIGEST_SIZE] else None


def _write(key: str, body: bytes) -> None:
    path = _path(key)
    if path is None:
        return
    with contextlib.suppress(OSError):  # a folder that cannot be written to: each process compiles
        make_own_folder(path.parent)
        write_own_file(path, hashlib.sha256(key.encode() + body).digest() + body)
