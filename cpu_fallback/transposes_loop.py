"""LLVM IR of transposes: blocks of vectors are loaded, exchanged in registers and stored.

Convolutions pack planes and panels by them, and copies between layouts are transposes (`transposes.py`).
"""

from __future__ import annotations

from collections.abc import Callable

from ..runtime.cpu.calling_convention import HEADER
from ..runtime.cpu.code import Code, module_calls
from ..runtime.cpu.object_code import loop_function, target
from ..runtime.cpu.vector_tile import Shape
from .transposes import COPY

POINTERS = "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)\ndeclare ptr @llvm.ptrmask.p0.i64(ptr, i64)\n"
PREFETCHED = 4
"""Number of transposes ahead of which their source is prefetched."""


def transpose_text(shape: Shape) -> str:
    """Return the function that sets ``to[columns[j] + i]`` to ``source[rows[i] + j]``, in blocks of vectors."""
    code, kind, lanes, v = Code(), shape.kind, shape.lanes, shape.vector
    last_row, last_column = (code.new(f"sub i64 {n}, {lanes}") for n in ("%m", "%n"))
    is_large = code.new(f"icmp sge i64 {code.new('call i64 @llvm.smin.i64(i64 %m, i64 %n)')}, {lanes}")
    with code.when(is_large), code.loop("0", "%m", lanes) as row:
        i = code.new(f"call i64 @llvm.smin.i64(i64 {row}, i64 {last_row})")  # the last block overlaps
        own_rows = code.at("i64", "%rows", i)
        sources = [code.at(kind, "%source", code.number(own_rows, q)) for q in range(lanes)]
        to = code.at(kind, "%to", i)
        with code.loop("0", "%n", lanes, plain=True) as column:
            j = code.new(f"call i64 @llvm.smin.i64(i64 {column}, i64 {last_column})")
            own_columns = code.at("i64", "%columns", j)
            block = [
                code.new(f"load {v}, ptr {code.at(kind, each, j)}, align {shape.size}") for each in sources
            ]
            for q, made in enumerate(_exchanged(code, shape, block)):
                place = code.at(kind, to, code.number(own_columns, q))
                code.do(f"store {v} {made}, ptr {place}, align {shape.size}")
    is_small = code.new(f"xor i1 {is_large}, true")
    with code.when(is_small), code.loop("0", "%m", plain=True) as i:
        source, to = code.at(kind, "%source", code.number("%rows", i)), code.at(kind, "%to", i)
        with code.loop("0", "%n", plain=True) as j:
            value = code.new(f"load {kind}, ptr {code.at(kind, source, j)}")
            code.do(f"store {kind} {value}, ptr {code.at(kind, to, code.number('%columns', j))}")
    arguments = (
        "ptr noalias nocapture readonly %source, ptr nocapture readonly %rows, i64 %m, "
        "ptr nocapture readonly %columns, i64 %n, ptr noalias nocapture %to"
    )
    return code.function("transpose", arguments, "noinline nounwind")


def _exchanged(code: Code, shape: Shape, block: list[str]) -> list[str]:
    """Emit the transpose of a square block of vectors: exchanges at the distances 1, 2, 4 and so on."""
    lanes, v = shape.lanes, shape.vector
    distance = 1
    while distance < lanes:
        upper = [j if not j & distance else lanes + j - distance for j in range(lanes)]
        lower = [j + distance if not j & distance else lanes + j for j in range(lanes)]
        made = list(block)
        for i in range(lanes):
            if not i & distance:
                for target_row, order in ((i, upper), (i + distance, lower)):
                    mask = ", ".join(f"i32 {j}" for j in order)
                    made[target_row] = code.new(
                        f"shufflevector {v} {block[i]}, {v} {block[i + distance]}, <{lanes} x i32> <{mask}>"
                    )
        block, distance = made, 2 * distance
    return block


def copies(code: Code, shape: Shape, numbers: str, source: str, to: str, m: str = "") -> None:
    """Emit the transposes that a table describes: of several images, planes or panels; `m` replaces its field."""
    n = code.numbers(numbers, COPY)
    n["m"] = m or n["m"]
    kind = shape.kind
    with code.loop("0", n["count"]) as i:
        target_at = code.at(kind, to, code.add(n["to"], code.mul(i, n["to_step"])))
        size = code.mul(n["cleared"], str(shape.size))
        code.do(f"call void @llvm.memset.p0.i64(ptr {target_at}, i8 0, i64 {size}, i1 false)")
        with code.loop("0", n["inner"]) as j:
            at = code.add(
                n["source"], code.add(code.mul(i, n["source_step"]), code.mul(j, n["source_inner"]))
            )
            inside = code.add(n["inside"], code.mul(j, n["to_inner"]))
            tables = [code.at("i64", "%tables", n[name]) for name in ("rows", "columns")]
            ahead = code.at(kind, source, code.add(at, code.mul(n["source_step"], str(PREFETCHED))))
            with code.loop("0", n["span"], 64 // shape.size, plain=True) as k:
                code.do(f"call void @llvm.prefetch.p0(ptr {code.at(kind, ahead, k)}, i32 0, i32 3, i32 1)")
            code.do(
                f"call void @transpose(ptr {code.at(kind, source, at)}, ptr {tables[0]}, i64 {n['m']}, "
                f"ptr {tables[1]}, i64 {n['n']}, ptr {code.at(kind, target_at, inside)})"
            )


def transposes_text(shape: Shape) -> str:
    """Return the loop ``loop(numbers, tables, source, to)``: `numbers` are `COPY`."""
    code = Code()
    copies(code, shape, "%g", "%source", "%to")
    arguments = (
        "ptr nocapture readonly %g, ptr nocapture readonly %tables, ptr noalias nocapture readonly %source, "
        "ptr noalias nocapture %to"
    )
    body = code.function("transposes", arguments, "noinline nounwind")
    return (
        HEADER + POINTERS + shape.declarations + transpose_text(shape) + body + module_calls("transposes", 4)
    )


def transposes_loop(dtype: str) -> Callable[..., None]:
    """Return the loop of elements of this size: ``float32`` or ``float64``. It moves the bits of any dtype."""
    found = target()
    assert found is not None
    return loop_function(transposes_text(Shape(dtype, found.vector_bits, found.vector_registers)))
