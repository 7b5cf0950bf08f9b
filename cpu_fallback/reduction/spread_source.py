"""LLVM IR of functions that sum the squared deviations of a float32 row from its mean.

`spread` has the order and the roundings of the eager variance: two passes of `line_sums` in float32, with a correction
for the rounded mean. A row whose squares overflow is computed in float64. `wide_spread` is the same in float64, and
`finite_sum` is the sum from which the mean is computed.
"""

from __future__ import annotations

from ...runtime.cpu.function_text import VECTORS, FunctionText

SPREAD_LINES = ("line_sum", "line_deviations", "line_squares")
"""Functions that `spread` calls."""
NUM_LANES = 8
"""SIMD lanes of `VECTORS` in which float64 sums are accumulated."""


def spread() -> str:
    """Return ``double @spread(ptr, i64)``."""
    f = FunctionText("double @spread(ptr %x, i64 %n)")
    count = f.let("uitofp i64 %n to float")
    total = f.let("call float @line_sum(ptr %x, i64 %n)")
    mean = f.let(f"fdiv float {total}, {count}")
    rest = f.let(f"call float @line_deviations(ptr %x, i64 %n, float {mean})")
    squares = f.let(f"call float @line_squares(ptr %x, i64 %n, float {mean})")
    rest = f.let(f"fdiv float {f.let(f'fmul float {rest}, {rest}')}, {count}")
    variance = f.let(f"fsub float {squares}, {rest}")
    return wide_spread() + _or_wide(f, variance, "wide_spread")


def _or_wide(f: FunctionText, narrow: str, wide: str) -> str:
    """Emit the end of a function that returns a float32 result, or if it overflows that of a float64 function."""
    made = f.let(f"fpext float {narrow} to double")
    size = f.let(f"call float @llvm.fabs.f32(float {narrow})")
    f.go(f"i1 {f.let(f'fcmp olt float {size}, 0x7FF0000000000000')}, label %done, label %overflow")
    f.label("overflow")
    other = f.let(f"call double @{wide}(ptr %x, i64 %n)")
    f.go("label %done")
    f.label("done")
    text = f.end(f"double {f.let(f'phi double [{made}, %entry], [{other}, %overflow]')}")
    return text + "declare float @llvm.fabs.f32(float)\n"


def _wide_total(name: str) -> str:
    """Return ``double @wide_sum(ptr, i64)``, or ``@wide_squares(ptr, i64, double)`` of deviations from a mean."""
    is_plain = name == "wide_sum"
    kind = f"<{NUM_LANES} x double>"
    f = FunctionText(f"double @{name}(ptr %x, i64 %n{'' if is_plain else ', double %mean'})")
    if not is_plain:
        f.let(f"insertelement {kind} poison, double %mean, i64 0", "%one")
        f.let(f"shufflevector {kind} %one, {kind} poison, <{NUM_LANES} x i32> zeroinitializer", "%means")

    def term(type_: str, index: str) -> str:
        narrow = type_.replace("double", "float")
        x = f.let(f"fpext {narrow} {f.loaded(narrow, '%x', index)} to {type_}")
        if is_plain:
            return x
        gap = f.let(f"fsub {type_} {x}, {'%mean' if type_ == 'double' else '%means'}")
        return f.let(f"fmul {type_} {gap}, {gap}")

    whole = f.let(f"and i64 %n, -{NUM_LANES * VECTORS}")
    f.go(f"i1 {f.let(f'icmp ne i64 {whole}, 0')}, label %vectors, label %enough")
    both = f.vectors_added(kind, NUM_LANES, ("0", "entry", whole), term)
    made = f.let(f"call double @llvm.vector.reduce.fadd.v{NUM_LANES}f64(double 0.0, {kind} {both})")
    f.go(f"i1 {f.let(f'icmp ult i64 {whole}, %n')}, label %rest, label %done")
    f.label("rest")
    i = f.let(f"phi i64 [{whole}, %enough], [%k_next, %rest]")
    t = f.let(f"phi double [{made}, %enough], [%t_next, %rest]")
    f.added("double", t, term("double", i), "%t_next")
    f.step(i, "%k_next", 1, "%n", "rest", "done")
    f.label("done")
    return f.end(f"double {f.let(f'phi double [{made}, %enough], [%t_next, %rest]')}")


def wide_sum() -> str:
    """Return ``double @wide_sum(ptr, i64)``."""
    kind = f"<{NUM_LANES} x double>"
    return (
        _wide_total("wide_sum") + f"declare double @llvm.vector.reduce.fadd.v{NUM_LANES}f64(double, {kind})\n"
    )


def wide_spread() -> str:
    """Return ``double @wide_spread(ptr, i64)``."""
    f = FunctionText("double @wide_spread(ptr %x, i64 %n)")
    total = f.let("call double @wide_sum(ptr %x, i64 %n)")
    mean = f.let(f"fdiv double {total}, {f.let('uitofp i64 %n to double')}")
    variance = f.let(f"call double @wide_squares(ptr %x, i64 %n, double {mean})")
    return wide_sum() + _wide_total("wide_squares") + f.end(f"double {variance}")


def finite_sum() -> str:
    """Return ``double @finite_sum(ptr, i64)``."""
    f = FunctionText("double @finite_sum(ptr %x, i64 %n)")
    total = f.let("call float @line_sum(ptr %x, i64 %n)")
    return wide_sum() + _or_wide(f, total, "wide_sum")
