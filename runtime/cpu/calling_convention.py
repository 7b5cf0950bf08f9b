"""Entry points of every loop's module: the function that Python calls, and the one that worker threads call.

`call` uses CPython's fast calling convention. Its arguments are arrays, the first of which has the numbers of a part;
the loop itself takes their pointers.
"""

from __future__ import annotations

DATA = object.__basicsize__
"""Offset of the data pointer in an array object: behind the object header (PyArrayObject)."""
UNLOCKED_FROM = 1 << 12
"""Elements from which the loop runs without the GIL; to take it again may mean to wait for it."""

HEADER = """\
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare void @Py_IncRef(ptr)
@_Py_NoneStruct = external global i8
"""


def python_call(arrays: int, rank: int) -> str:
    """Return the function that Python calls: it takes the arrays' pointers, and releases the GIL for a long loop."""
    indices = range(arrays)
    lines = ["define ptr @call(ptr %self, ptr %arguments, i64 %count) {", "entry:"]
    for j, name in enumerate(("g", *(f"p{j}" for j in indices))):
        lines += [
            f"  %{name}_at = getelementptr ptr, ptr %arguments, i64 {j}",
            f"  %{name}_object = load ptr, ptr %{name}_at",
            f"  %{name}_data = getelementptr i8, ptr %{name}_object, i64 {DATA}",
            f"  %{name} = load ptr, ptr %{name}_data",
        ]
    numel = "1"
    for d in range(rank):
        lines += loaded_number(f"n{d}", d)
        lines.append(f"  %t{d} = mul i64 {numel}, %n{d}")
        numel = f"%t{d}"
    arguments = ", ".join(["ptr %g", *(f"ptr %p{j}" for j in indices)])
    lines += [
        f"  %long = icmp sge i64 {numel}, {UNLOCKED_FROM}",
        "  br i1 %long, label %unlocked, label %locked",
        "unlocked:",
        "  %state = call ptr @PyEval_SaveThread()",
        f"  call void @loop({arguments})",
        "  call void @PyEval_RestoreThread(ptr %state)",
        "  br label %done",
        "locked:",
        f"  call void @loop({arguments})",
        "  br label %done",
        "done:",
        "  call void @Py_IncRef(ptr @_Py_NoneStruct)",
        "  ret ptr @_Py_NoneStruct",
        "}",
    ]
    return "\n".join(lines) + "\n" + part_function("loop", arrays)


def part_function(function: str, arrays: int) -> str:
    """Return the function that native threads call with the numbers of a part and the pointers of all arrays."""
    lines = ["define void @part(ptr %g, ptr %pointers) {", "entry:"]
    for j in range(arrays):
        lines += [
            f"  %p{j}_at = getelementptr ptr, ptr %pointers, i64 {j}",
            f"  %p{j} = load ptr, ptr %p{j}_at",
        ]
    arguments = ", ".join(["ptr %g", *(f"ptr %p{j}" for j in range(arrays))])
    return "\n".join([*lines, f"  call void @{function}({arguments})", "  ret void", "}"]) + "\n"


def loaded_number(name: str, index: int) -> list[str]:
    """Emit the load of a number of the geometry."""
    return [
        f"  %{name}_g = getelementptr i64, ptr %g, i64 {index}",
        f"  %{name} = load i64, ptr %{name}_g",
    ]
