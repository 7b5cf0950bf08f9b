"""LLVM IR of functions that sum the squared deviations of a float32 row from its mean.

`spread` has the order and the roundings of the eager variance: two passes of `line_sums` in float32, with a correction
for the rounded mean. A row whose squares overflow is computed in float64. `wide_spread` is the same in float64, and
`finite_sum` is the sum from which the mean is computed.
"""

from __future__ import annotations

from .line_code import VECTORS, LineCode

SPREAD_LINES = ("line_sum", "line_deviations", "line_squares")
"""Functions that `spread` calls."""
NUM_LANES = 8
"""SIMD lanes of `VECTORS` in which float64 sums are accumulated."""


def spread() -> str:
    """Return ``double @spread(ptr, i64)``."""
    f = LineCode("spread")
    count = f.new("uitofp i64 %n to float")
    total = f.new("call float @line_sum(ptr %x, i64 %n)")
    mean = f.new(f"fdiv float {total}, {count}")
    rest = f.new(f"call float @line_deviations(ptr %x, i64 %n, float {mean})")
    squares = f.new(f"call float @line_squares(ptr %x, i64 %n, float {mean})")
    rest = f.new(f"fdiv float {f.new(f'fmul float {rest}, {rest}')}, {count}")
    variance = f.new(f"fsub float {squares}, {rest}")
    return wide_spread() + _or_wide(f, variance, "wide_spread")


def _or_wide(f: LineCode, narrow: str, wide: str) -> str:
    """Emit the end of a function that returns a float32 result, or if it overflows that of a float64 function."""
    made = f.new(f"fpext float {narrow} to double")
    size = f.new(f"call float @llvm.fabs.f32(float {narrow})")
    f.go(f"i1 {f.new(f'fcmp olt float {size}, 0x7FF0000000000000')}, label %done, label %overflow")
    f.label("overflow")
    other = f.new(f"call double @{wide}(ptr %x, i64 %n)")
    f.go("label %done")
    f.label("done")
    text = f.end(f"double {f.new(f'phi double [{made}, %entry], [{other}, %overflow]')}")
    return text + "declare float @llvm.fabs.f32(float)\n"


def _wide_total(name: str) -> str:
    """Return ``double @wide_sum(ptr, i64)``, or ``@wide_squares(ptr, i64, double)`` of deviations from a mean."""
    is_plain = name == "wide_sum"
    kind = f"<{NUM_LANES} x double>"
    f = LineCode(name, f"ptr %x, i64 %n{'' if is_plain else ', double %mean'}")
    if not is_plain:
        f.new(f"insertelement {kind} poison, double %mean, i64 0", "%one")
        f.new(f"shufflevector {kind} %one, {kind} poison, <{NUM_LANES} x i32> zeroinitializer", "%means")

    def term(type_: str, index: str) -> str:
        narrow = type_.replace("double", "float")
        x = f.new(f"fpext {narrow} {f.loaded(narrow, '%x', index)} to {type_}")
        if is_plain:
            return x
        gap = f.new(f"fsub {type_} {x}, {'%mean' if type_ == 'double' else '%means'}")
        return f.new(f"fmul {type_} {gap}, {gap}")

    whole = f.new(f"and i64 %n, -{NUM_LANES * VECTORS}")
    f.go(f"i1 {f.new(f'icmp ne i64 {whole}, 0')}, label %vectors, label %enough")
    both = f.vectors_added(kind, NUM_LANES, ("0", "entry", whole), term)
    made = f.new(f"call double @llvm.vector.reduce.fadd.v{NUM_LANES}f64(double 0.0, {kind} {both})")
    f.go(f"i1 {f.new(f'icmp ult i64 {whole}, %n')}, label %rest, label %done")
    f.label("rest")
    i = f.new(f"phi i64 [{whole}, %enough], [%k_next, %rest]")
    t = f.new(f"phi double [{made}, %enough], [%t_next, %rest]")
    f.added("double", t, term("double", i), "%t_next")
    f.step(i, "%k_next", 1, "%n", "rest", "done")
    f.label("done")
    return f.end(f"double {f.new(f'phi double [{made}, %enough], [%t_next, %rest]')}")


def wide_sum() -> str:
    """Return ``double @wide_sum(ptr, i64)``."""
    kind = f"<{NUM_LANES} x double>"
    return (
        _wide_total("wide_sum") + f"declare double @llvm.vector.reduce.fadd.v{NUM_LANES}f64(double, {kind})\n"
    )


def wide_spread() -> str:
    """Return ``double @wide_spread(ptr, i64)``."""
    f = LineCode("wide_spread")
    total = f.new("call double @wide_sum(ptr %x, i64 %n)")
    mean = f.new(f"fdiv double {total}, {f.new('uitofp i64 %n to double')}")
    variance = f.new(f"call double @wide_squares(ptr %x, i64 %n, double {mean})")
    return wide_sum() + _wide_total("wide_squares") + f.end(f"double {variance}")


def finite_sum() -> str:
    """Return ``double @finite_sum(ptr, i64)``."""
    f = LineCode("finite_sum")
    total = f.new("call float @line_sum(ptr %x, i64 %n)")
    return wide_sum() + _or_wide(f, total, "wide_sum")
