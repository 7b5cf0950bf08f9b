"""LLVM IR of functions that reduce a contiguous row of float32, in the order of eager kernels.

A sum's bits depend on its order. NumPy's einsum adds sixteen numbers to the lanes of one vector at a time, and
`line_sums` adds runs of those. BLAS adds products into the lanes of four vectors, whose width is the processor's, and
the last ones in float64; `row_dots` adds chunks of those. `function_check` verifies that this holds here.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..normalization.moments import CHUNK
from .lane_sums import lane_sum
from .line_code import LineCode
from .line_reductions import DIRECT, RUN
from .spread_source import SPREAD_LINES, finite_sum, spread, wide_spread

LONGEST_LINE = RUN * DIRECT
"""The longest row of `line_sum`: the sums of its runs are one line."""


RUNS = {
    "line_sum": "run_sum",
    "streamed_sum": "run_sum",
    "line_deviations": "run_deviations",
    "line_squares": "run_squares",
    "line_evens": "run_evens",
    "line_odds": "run_odds",
}
"""By the function that adds a line, the function that adds a run: of elements, of deviations from a mean, of their
squares, or of the first or the second elements of pairs."""
DEVIATING, PAIRED = ("run_deviations", "run_squares"), ("run_evens", "run_odds")


def run_sum(name: str = "run_sum") -> str:
    """Return ``float @run_sum(ptr, i64)``: a sum in the order of NumPy's einsum.

    ``@run_deviations`` and ``@run_squares`` are given a mean, too, ``@run_evens`` and ``@run_odds`` a count of pairs.
    """
    deviates, is_odd = name in DEVIATING, name == "run_odds"
    f = LineCode(name, f"ptr %x, i64 %n{', float %mean' if deviates else ''}")
    kind = "<4 x float>"
    if deviates:
        f.new(f"insertelement {kind} poison, float %mean, i64 0", "%one")
        f.new(f"shufflevector {kind} %one, {kind} poison, <4 x i32> zeroinitializer", "%means")

    def term(type_: str, index: str) -> str:
        if name in PAIRED:
            first = f.new(f"shl i64 {index}, 1")
            if type_ == "float":
                return f.loaded(type_, "%x", f.new(f"add i64 {first}, {is_odd:d}"))
            return f.lanes(f.loaded("<8 x float>", "%x", first), 8, range(is_odd, 8, 2))
        x = f.loaded(type_, "%x", index)
        if not deviates:
            return x
        gap = f.new(f"fsub {type_} {x}, {'%mean' if type_ == 'float' else '%means'}")
        return f.new(f"fmul {type_} {gap}, {gap}") if name == "run_squares" else gap

    whole, fours = f.new("and i64 %n, -16"), f.new("and i64 %n, -4")
    f.go(f"i1 {f.new(f'icmp ne i64 {whole}, 0')}, label %sixteens, label %enough")
    f.label("sixteens")
    i = f.new("phi i64 [0, %entry], [%i_next, %sixteens]")
    v = f.new(f"phi {kind} [zeroinitializer, %entry], [%v_next, %sixteens]")
    parts = [term(kind, f.new(f"add i64 {i}, {4 * j}")) for j in range(4)]
    total = f.added(kind, f.added(kind, *parts[:2]), f.added(kind, *parts[2:]))
    f.added(kind, total, v, "%v_next")
    f.step(i, "%i_next", 16, whole, "sixteens", "enough")
    f.label("enough")
    v = f.new(f"phi {kind} [zeroinitializer, %entry], [%v_next, %sixteens]")
    f.go(f"i1 {f.new(f'icmp ult i64 {whole}, {fours}')}, label %four, label %few")
    f.label("four")
    i = f.new(f"phi i64 [{whole}, %enough], [%k_next, %four]")
    w = f.new(f"phi {kind} [{v}, %enough], [%w_next, %four]")
    f.added(kind, term(kind, i), w, "%w_next")
    f.step(i, "%k_next", 4, fours, "four", "few")
    f.label("few")
    v = f.new(f"phi {kind} [{v}, %enough], [%w_next, %four]")
    f.go(f"i1 {f.new(f'icmp ult i64 {fours}, %n')}, label %rest, label %done")
    f.label("rest")
    i = f.new(f"phi i64 [{fours}, %few], [%r_next, %rest]")
    w = f.new(f"phi {kind} [{v}, %few], [%u_next, %rest]")
    lane = f.new(f"sub i64 {i}, {fours}")
    total = f.added("float", term("float", i), f.new(f"extractelement {kind} {w}, i64 {lane}"))
    f.new(f"insertelement {kind} {w}, float {total}, i64 {lane}", "%u_next")
    f.step(i, "%r_next", 1, "%n", "rest", "done")
    f.label("done")
    return f.end(f"float {f.of_four(f.new(f'phi {kind} [{v}, %few], [%u_next, %rest]'))}")


def line_sum(name: str) -> str:
    """Return ``float @line_sum(ptr, i64)`` with the order of `line_sums`, or ``@streamed_sum`` with that of
    `over_streamed`.

    ``@line_deviations`` and ``@line_squares`` are `line_sums` of deviations from a mean and of their squares;
    ``@line_evens`` and ``@line_odds`` add one element of each pair.
    """
    is_streamed, run = name == "streamed_sum", RUNS[name]
    mean, stride = ", float %mean" if run in DEVIATING else "", 2 if run in PAIRED else 1
    f = LineCode(name, f"ptr %x, i64 %n{mean}")
    sums = f.new(f"alloca [{DIRECT + 1} x float], align 16")
    short = f.new(f"icmp ule i64 %n, {RUN if is_streamed else DIRECT}")
    f.go(f"i1 {short}, label %direct, label %runs")
    f.label("direct")
    direct = f.new(f"call float @{run}(ptr %x, i64 %n{mean})")
    f.go("label %done")
    f.label("runs")
    count = f.new(f"udiv i64 %n, {RUN}")
    whole = f.new(f"mul i64 {count}, {RUN}")
    rest = f.new(f"sub i64 %n, {whole}")
    f.go("label %run")
    f.label("run")
    i = f.new("phi i64 [0, %runs], [%i_next, %run]")
    pointer = f.new(f"getelementptr float, ptr %x, i64 {f.new(f'mul i64 {i}, {stride * RUN}')}")
    made = f.new(f"call float @{run}(ptr {pointer}, i64 {RUN}{mean})")
    f.do(f"store float {made}, ptr {f.new(f'getelementptr float, ptr {sums}, i64 {i}')}, align 1")
    f.step(i, "%i_next", 1, count, "run", "add")
    f.label("add")
    pointer = f.new(f"getelementptr float, ptr %x, i64 {f.new(f'mul i64 {whole}, {stride}')}")
    last = f.new(f"call float @{run}(ptr {pointer}, i64 {rest}{mean})")
    is_more = f.new(f"icmp ne i64 {rest}, 0")
    if is_streamed:
        # The remainder is a run of its own.
        pointer = f.new(f"getelementptr float, ptr {sums}, i64 {count}")
        f.do(f"store float {last}, ptr {pointer}, align 1")
        count = f.new(f"add i64 {count}, {f.new(f'zext i1 {is_more} to i64')}")
    total = f.new(f"call float @run_sum(ptr {sums}, i64 {count})")
    if not is_streamed:
        total = f.new(f"select i1 {is_more}, float {f.added('float', total, last)}, float {total}")
    f.go("label %done")
    f.label("done")
    return f.end(f"float {f.new(f'phi float [{direct}, %direct], [{total}, %add]')}")


def half_sum() -> str:
    """Return ``float @half_sum(ptr, i64)``: the sum of an even number of elements in the order of `over_half_words`."""
    f = LineCode("half_sum")
    pairs = f.new("lshr i64 %n, 1")
    evens, odds = (f.new(f"call float @line_{which}(ptr %x, i64 {pairs})") for which in ("evens", "odds"))
    text = "".join(map(run_sum, ("run_sum", *PAIRED))) + line_sum("line_evens") + line_sum("line_odds")
    return text + f.end(f"float {f.added('float', evens, odds)}")


def _with_products(
    f: LineCode, start: str, sums: Sequence[str], width: int, is_sum: bool, name: str
) -> list[str]:
    """Return vectors with products added: those at an element, and the following ones."""
    made, kind = [], f"<{width} x float>"
    for j, total in enumerate(sums):
        index, own = f.new(f"add i64 {start}, {width * j}"), f"%{name}{j}"
        x = f.loaded(kind, "%x", index)
        if is_sum:
            made.append(f.added(kind, x, total, own))
        else:
            operands = f"{kind} {x}, {kind} {f.loaded(kind, '%y', index)}, {kind} {total}"
            made.append(f.new(f"call {kind} @llvm.fma.v{width}f32({operands})", own))
    return made


def chunk_dot(width: int, is_sum: bool) -> str:
    """Return ``float @chunk_sum(ptr, i64)`` or ``@chunk_dot(ptr, ptr, i64)``, as BLAS adds in vectors of `width`
    lanes.

    Vectors of 16 lanes are halved before 32 more products are added, and then added one after another; those of 8
    lanes are halved, and added in pairs.
    """
    parameters = "ptr %x, i64 %n" if is_sum else "ptr %x, ptr %y, i64 %n"
    f = LineCode("chunk_sum" if is_sum else "chunk_dot", parameters)
    kind, step = f"<{width} x float>", 4 * width
    whole = f.new(f"and i64 %n, -{step}")
    f.go(f"i1 {f.new(f'icmp ne i64 {whole}, 0')}, label %blocks, label %enough")
    f.label("blocks")
    i = f.new("phi i64 [0, %entry], [%i_next, %blocks]")
    sums = [f.new(f"phi {kind} [zeroinitializer, %entry], [%v{j}, %blocks]") for j in range(4)]
    _with_products(f, i, sums, width, is_sum, "v")
    f.step(i, "%i_next", step, whole, "blocks", "enough")
    f.label("enough")
    sums = [f.new(f"phi {kind} [zeroinitializer, %entry], [%v{j}, %blocks]") for j in range(4)]
    sums = [f.folded(v, width) for v in sums]
    before, done = "enough", whole
    if width == 16:
        half, done, before = "<8 x float>", f.new("and i64 %n, -32"), "few"
        f.go(f"i1 {f.new(f'icmp ult i64 {whole}, {done}')}, label %half, label %few")
        f.label("half")
        more = _with_products(f, whole, sums, 8, is_sum, "u")
        f.go("label %few")
        f.label("few")
        both = zip(sums, more, strict=True)
        sums = [f.new(f"phi {half} [{a}, %enough], [{b}, %half]") for a, b in both]
        total = f.folded(f.added(half, f.added(half, f.added(half, *sums[:2]), sums[2]), sums[3]), 8)
    else:
        four = "<4 x float>"
        total = f.added(four, f.added(four, *sums[:2]), f.added(four, *sums[2:]))
    head = f.new(f"fpext float {f.of_four(total)} to double")
    f.go(f"i1 {f.new(f'icmp ult i64 {done}, %n')}, label %rest, label %done")
    f.label("rest")
    i = f.new(f"phi i64 [{done}, %{before}], [%r_next, %rest]")
    t = f.new(f"phi double [0.0, %{before}], [%t_next, %rest]")
    x = f.loaded("float", "%x", i)
    if not is_sum:
        x = f.new(f"fmul float {x}, {f.loaded('float', '%y', i)}")
    f.added("double", t, f.new(f"fpext float {x} to double"), "%t_next")
    f.step(i, "%r_next", 1, "%n", "rest", "done")
    f.label("done")
    t = f.new(f"phi double [0.0, %{before}], [%t_next, %rest]")
    total = f.added("double", t, head)
    return f.end(f"float {f.new(f'fptrunc double {total} to float')}")


def row_dot(is_sum: bool) -> str:
    """Return ``double @row_sum(ptr, i64)`` or ``@row_dot(ptr, ptr, i64)``: chunks in float64, as `row_dots` adds."""
    pointers = "x" if is_sum else "xy"
    kind = "sum" if is_sum else "dot"
    f = LineCode(f"row_{kind}", f"{', '.join(f'ptr %{p}' for p in pointers)}, i64 %n")
    f.go("label %chunk")
    f.label("chunk")
    i = f.new("phi i64 [0, %entry], [%i_next, %chunk]")
    total = f.new("phi double [0.0, %entry], [%t_next, %chunk]")
    left = f.new(f"sub i64 %n, {i}")
    count = f.new(f"call i64 @llvm.umin.i64(i64 {left}, i64 {CHUNK})")
    chunk_pointers = [f.new(f"getelementptr float, ptr %{p}, i64 {i}") for p in pointers]
    made = f.new(f"call float @chunk_{kind}({', '.join(f'ptr {p}' for p in chunk_pointers)}, i64 {count})")
    f.added("double", total, f.new(f"fpext float {made} to double"), "%t_next")
    f.step(i, "%i_next", CHUNK, "%n", "chunk", "done")
    f.label("done")
    return f.end("double %t_next")


def extremum(name: str) -> str:
    """Return ``float @maximum(ptr, i64)`` or ``@minimum``: NaN if there is one, and the first of several zeros."""
    f = LineCode(name)
    order, start = ("ogt", "0xFFF0000000000000") if name == "maximum" else ("olt", "0x7FF0000000000000")
    kind, mask, lanes = "<16 x float>", "<16 x i1>", 16

    def better(kind: str, a: str, b: str, name: str = "") -> str:
        is_better = f.new(f"fcmp {order} {kind} {a}, {b}")
        chosen = "i1" if kind == "float" else f"{kind.split(' x ')[0]} x i1>"
        return f.new(f"select {chosen} {is_better}, {kind} {a}, {kind} {b}", name)

    whole = f.new("and i64 %n, -64")
    f.go(f"i1 {f.new(f'icmp ne i64 {whole}, 0')}, label %blocks, label %enough")
    f.label("blocks")
    begin = f"splat (float {start})"
    i = f.new("phi i64 [0, %entry], [%i_next, %blocks]")
    extrema = [f.new(f"phi {kind} [{begin}, %entry], [%v{j}, %blocks]") for j in range(4)]
    odd = [f.new(f"phi {mask} [zeroinitializer, %entry], [%u{j}, %blocks]") for j in range(4)]
    for j in range(4):
        x = f.loaded(kind, "%x", f.new(f"add i64 {i}, {lanes * j}"))
        better(kind, x, extrema[j], f"%v{j}")
        f.new(f"or {mask} {odd[j]}, {f.new(f'fcmp uno {kind} {x}, {x}')}", f"%u{j}")
    f.step(i, "%i_next", 64, whole, "blocks", "enough")
    f.label("enough")
    extrema = [f.new(f"phi {kind} [{begin}, %entry], [%v{j}, %blocks]") for j in range(4)]
    odd = [f.new(f"phi {mask} [zeroinitializer, %entry], [%u{j}, %blocks]") for j in range(4)]
    best = better(kind, better(kind, *extrema[:2]), better(kind, *extrema[2:]))
    while lanes > 1:
        half = lanes // 2
        low, high = f.lanes(best, lanes, range(half)), f.lanes(best, lanes, range(half, lanes))
        best, lanes = better(f"<{half} x float>", low, high), half
    best = f.new(f"extractelement <1 x float> {best}, i64 0")
    for lane_mask in odd[1:]:
        odd[0] = f.new(f"or {mask} {odd[0]}, {lane_mask}")
    is_nan = f.new(f"icmp ne i16 {f.new(f'bitcast {mask} {odd[0]} to i16')}, 0")
    f.go(f"i1 {f.new(f'icmp ult i64 {whole}, %n')}, label %rest, label %done")
    f.label("rest")
    i = f.new(f"phi i64 [{whole}, %enough], [%r_next, %rest]")
    m = f.new(f"phi float [{best}, %enough], [%m_next, %rest]")
    o = f.new(f"phi i1 [{is_nan}, %enough], [%o_next, %rest]")
    x = f.loaded("float", "%x", i)
    better("float", x, m, "%m_next")
    f.new(f"or i1 {o}, {f.new(f'fcmp uno float {x}, {x}')}", "%o_next")
    f.step(i, "%r_next", 1, "%n", "rest", "done")
    f.label("done")
    m = f.new(f"phi float [{best}, %enough], [%m_next, %rest]")
    o = f.new(f"phi i1 [{is_nan}, %enough], [%o_next, %rest]")
    result = f.new(f"select i1 {o}, float 0x7FF8000000000000, float {m}")
    f.go(f"i1 {f.new(f'fcmp oeq float {result}, 0.0')}, label %zero, label %out")
    f.label("zero")
    i = f.new("phi i64 [0, %done], [%z_next, %zero]")
    x = f.loaded("float", "%x", i)
    f.new(f"add i64 {i}, 1", "%z_next")
    f.go(f"i1 {f.new(f'fcmp oeq float {x}, 0.0')}, label %out, label %zero")
    f.label("out")
    return f.end(f"float {f.new(f'phi float [{result}, %done], [{x}, %zero]')}")


REDUCTIONS: dict[str, str] = {
    "line_sum": "float",
    "streamed_sum": "float",
    "half_sum": "float",
    "row_sum": "double",
    "row_dot": "double",
    "lane_sum": "double",
    "lane_dot": "double",
    "maximum": "float",
    "minimum": "float",
    "finite_sum": "double",
    "spread": "double",
    "wide_spread": "double",
}
"""Reductions of one float32 row, or of two, and the LLVM type of the result."""
BLAS = ("row_sum", "row_dot")
"""Those in the order of BLAS."""
LANE_SUMS = ("lane_sum", "lane_dot")
"""Those in the order of eager loops (`lane_sums`)."""
OWN = (*LANE_SUMS, "wide_spread")
"""Those that no function of NumPy's or BLAS's makes in eager calls."""


def rows_of(name: str) -> int:
    """Return the number of rows that a reduction takes."""
    return 2 if name in ("row_dot", "lane_dot") else 1


def symbol_of(name: str, width: int) -> str:
    """Return the symbol of a reduction; BLAS vectors have `width` lanes."""
    return f"triten_{name}{width}" if name in BLAS else f"triten_{name}"


def reduction_text(name: str, width: int) -> str:
    """Return the LLVM IR of a reduction, under its symbol."""
    if name in BLAS:
        text = chunk_dot(width, name == "row_sum") + row_dot(name == "row_sum")
        text += "declare i64 @llvm.umin.i64(i64, i64)\n"
        for lanes in sorted({8, width}) if name == "row_dot" else ():
            kind = f"<{lanes} x float>"
            text += f"declare {kind} @llvm.fma.v{lanes}f32({kind}, {kind}, {kind})\n"
    elif name in LANE_SUMS:
        text = lane_sum(name)
    elif name in ("maximum", "minimum"):
        text = extremum(name)
    elif name == "spread":
        text = (
            "".join(map(run_sum, ("run_sum", *DEVIATING))) + "".join(map(line_sum, SPREAD_LINES)) + spread()
        )
    elif name == "half_sum":
        text = half_sum()
    elif name == "wide_spread":
        text = wide_spread()
    else:
        is_finite = name == "finite_sum"
        text = run_sum() + line_sum("line_sum" if is_finite else name) + (finite_sum() if is_finite else "")
    return text.replace(
        f"internal {REDUCTIONS[name]} @{name}(", f"{REDUCTIONS[name]} @{symbol_of(name, width)}("
    )


def declaration(name: str, width: int) -> str:
    """Return the LLVM declaration for a loop that calls it."""
    rows = ", ".join(["ptr"] * rows_of(name))
    return f"declare {REDUCTIONS[name]} @{symbol_of(name, width)}({rows}, i64)\n"
