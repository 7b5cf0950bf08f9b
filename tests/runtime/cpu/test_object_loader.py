"""The loader of object code: its mappings, its errors, and no part of LLVM in the process."""

from __future__ import annotations

import ctypes
import errno
import gc
import mmap
import subprocess
import sys
from pathlib import Path

import pytest

from triten.runtime.cpu import llvm_compiler, object_loader
from triten.runtime.cpu.object_loader import IS_SUPPORTED, LoadedObject, library_address
from triten.tests.compiled_code import needs_llvm

pytestmark = [needs_llvm, pytest.mark.skipif(not IS_SUPPORTED, reason="LLVM's loader is used here")]

TEXT = """
@table = private constant [3 x i64] [i64 10, i64 20, i64 30]
declare ptr @memset(ptr, i32, i64)
declare i64 @outside(i64)
define i64 @twice(i64 %n) {
  %r = mul i64 %n, 2
  ret i64 %r
}
define i64 @call(i64 %i, ptr %to) {
  %place = getelementptr [3 x i64], ptr @table, i64 0, i64 %i
  %value = load i64, ptr %place
  %double = call i64 @twice(i64 %value)
  %filled = call ptr @memset(ptr %to, i32 7, i64 4)
  %sum = call i64 @outside(i64 %double)
  ret i64 %sum
}
"""
outside = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(lambda n: n + 1)


def find(name: str) -> int:
    if name == "outside":
        return ctypes.cast(outside, ctypes.c_void_p).value or 0
    return library_address(name)


def mapped_bytes(address: int) -> str:
    """Return the permissions of the memory at an address, or nothing."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        first, last = (int(each, 16) for each in line.split()[0].split("-"))
        if first <= address < last:
            return line.split()[1]
    return ""


def test_code_constants_and_calls() -> None:
    loaded = LoadedObject(llvm_compiler.compile_text(TEXT, False), find)
    call = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)(loaded.addresses["call"])
    to = (ctypes.c_ubyte * 5)()
    assert [call(i, ctypes.addressof(to)) for i in range(3)] == [21, 41, 61]
    assert list(to) == [7, 7, 7, 7, 0]
    twice = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(loaded.addresses["twice"])
    assert twice(21) == 42


def test_memory_is_not_writable_and_goes_with_its_owner() -> None:
    loaded = LoadedObject(llvm_compiler.compile_text(TEXT, True), find)
    address = loaded.addresses["call"]
    assert mapped_bytes(address) == "r-xp"
    memory = loaded._memory
    assert memory.closed is False
    del loaded
    memory.close()
    del memory
    gc.collect()
    assert "x" not in mapped_bytes(address)


def test_names_that_nothing_has() -> None:
    code = llvm_compiler.compile_text(
        "declare i64 @no_such_name()\ndefine i64 @call() {\n %r = call i64 @no_such_name()\n ret i64 %r\n}",
        False,
    )
    with pytest.raises(ValueError, match="'no_such_name', which no library has"):
        LoadedObject(code, library_address)


def test_variables_are_refused() -> None:
    code = llvm_compiler.compile_text(
        "@n = global i64 1\ndefine i64 @call() {\n %r = load i64, ptr @n\n ret i64 %r\n}", False
    )
    with pytest.raises(ValueError, match="has variables"):
        LoadedObject(code, library_address)


def test_other_files_are_refused() -> None:
    with pytest.raises(ValueError, match="no ELF file"):
        LoadedObject(b"text", library_address)


def test_without_memory_there_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    code = llvm_compiler.compile_text(TEXT, True)

    def refuse(*given: object, **named: object) -> None:
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    with monkeypatch.context() as patched:
        patched.setattr(mmap, "mmap", refuse)
        with pytest.raises(MemoryError, match=r"a compiled loop needs .* bytes"):
            LoadedObject(code, find)

    class Refusing:
        def mprotect(self, *given: object) -> int:
            ctypes.set_errno(errno.EACCES)
            return -1

    symbols = object_loader._library
    monkeypatch.setattr(object_loader, "_library", lambda name: Refusing() if name is None else symbols(name))
    monkeypatch.setattr(object_loader, "library_address", lambda name: 1)
    with pytest.raises(MemoryError, match="executable: Permission denied"):
        LoadedObject(code, lambda name: 1)


def test_the_compiler_is_a_program_of_its_own() -> None:
    program = [sys.executable, "-P", llvm_compiler.__file__]
    done = subprocess.run([*program, "optimize"], input=TEXT.encode(), capture_output=True, check=True)
    assert done.stdout == llvm_compiler.compile_text(TEXT, True)
