"""LLVM IR of sums of a row, or of its products with another row, in the order of norms' gradients.

A piece of a row is added in float32, into the lanes of a few vectors, and pieces in float64. Unlike the order of NumPy
and BLAS, this order is the same on every processor; eager loops (`row_gradient_source`) use it, too.
"""

from __future__ import annotations

from ...runtime.cpu.function_text import VECTORS, FunctionText

PIECE = 2048
"""Elements of a row that are added in the dtype itself."""
NUM_LANES = 8
"""SIMD lanes of each of `VECTORS`; the remainder is added element by element."""


def lane_sum(name: str) -> str:
    """Return ``double @lane_sum(ptr, i64)``, or ``@lane_dot(ptr, ptr, i64)``."""
    pointers = "xy" if name == "lane_dot" else "x"
    f = FunctionText(f"double @{name}({', '.join(f'ptr %{p}' for p in pointers)}, i64 %n)")
    kind = f"<{NUM_LANES} x float>"

    def term(type_: str, index: str) -> str:
        loaded = [f.loaded(type_, f"%{p}", index) for p in pointers]
        return loaded[0] if name == "lane_sum" else f.let(f"fmul {type_} {loaded[0]}, {loaded[1]}")

    f.go("label %piece")
    f.label("piece")
    start = f.let("phi i64 [0, %entry], [%start_next, %done]")
    total = f.let("phi double [0.0, %entry], [%total_next, %done]")
    left = f.let(f"sub i64 %n, {start}")
    length = f.let(f"call i64 @llvm.umin.i64(i64 {left}, i64 {PIECE})")
    whole = f.let(f"add i64 {start}, {f.let(f'and i64 {length}, -{NUM_LANES * VECTORS}')}")
    end = f.let(f"add i64 {start}, {length}")
    f.go(f"i1 {f.let(f'icmp ult i64 {start}, {whole}')}, label %vectors, label %enough")
    both = f.vectors_added(kind, NUM_LANES, (start, "piece", whole), term)
    made = f.let(f"call float @llvm.vector.reduce.fadd.v{NUM_LANES}f32(float 0.0, {kind} {both})")
    f.go(f"i1 {f.let(f'icmp ult i64 {whole}, {end}')}, label %rest, label %done")
    f.label("rest")
    i = f.let(f"phi i64 [{whole}, %enough], [%k_next, %rest]")
    t = f.let("phi float [0.0, %enough], [%t_next, %rest]")
    f.added("float", t, term("float", i), "%t_next")
    f.step(i, "%k_next", 1, end, "rest", "done")
    f.label("done")
    t = f.let("phi float [0.0, %enough], [%t_next, %rest]")
    f.added("double", total, f.let(f"fpext float {f.added('float', made, t)} to double"), "%total_next")
    f.step(start, "%start_next", PIECE, "%n", "piece", "out")
    f.label("out")
    text = f.end("double %total_next")
    return (
        text
        + "declare i64 @llvm.umin.i64(i64, i64)\n"
        + f"declare float @llvm.vector.reduce.fadd.v{NUM_LANES}f32(float, {kind})\n"
    )
