"""LLVM IR of convolutions of many channels: matmuls whose left factor is read in place from channels-last planes.

The right factor is packed in panels: for each tap and channel, the weights of `2 * lanes` outputs. A tile of a few
positions and one panel stays in registers. The left factor of a position is the pixels under its taps: runs of
channels, at offsets that are the same for all positions. Nothing is copied for a tap.

Two loops: `outputs_text` computes outputs and input gradients, and `sums_text` computes weight gradients. Those of
`transposes_loop.py` pack planes and weights. `panel_tables.py` names the integers that describe a task.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...runtime.cpu.calling_convention import HEADER
from ...runtime.cpu.code import Code, module_calls
from ...runtime.cpu.object_code import loop_function, target
from ...runtime.cpu.vector_tile import Shape, VectorTile
from ..transposes import COPY
from ..transposes_loop import POINTERS, copies, transpose_text
from .panel_tables import BLOCK, LINE_BYTES, OUTPUTS, PART, RUN, SUMS, TAP

VECTORS = 2
"""Vectors of a panel's row."""


def panel_width(shape: Shape) -> int:
    """Return the outputs of a panel."""
    return VECTORS * shape.lanes


def _whole_lines(code: Code) -> str:
    """Emit the workspace from its first whole cache line on."""
    behind = code.at("i8", "%room", str(LINE_BYTES - 1))
    return code.new(f"call ptr @llvm.ptrmask.p0.i64(ptr {behind}, i64 {-LINE_BYTES})")


def _steps(shape: Shape) -> Sequence[int]:
    """Return the rows of tiles, largest first: sums, a panel's row and one factor fill the registers."""
    return (12, 6, 4, 2, 1) if shape.registers >= 32 else (6, 4, 2, 1)


def _rows_tile(shape: Shape, rows: int) -> str:
    """Return the function that adds the matmul of positions and a panel to rows of the result."""
    code, kind = Code(), shape.kind
    tile = VectorTile(code, shape, rows, VECTORS)
    width = panel_width(shape)
    bases = [code.at(kind, "%source", code.number("%places", q)) for q in range(rows)]
    with code.loop("0", "%count", plain=True) as number:
        run = code.numbers(code.at("i64", "%runs", code.mul(number, str(len(RUN)))), RUN)
        starts = [code.at(kind, base, run["offset"]) for base in bases]
        first = code.at(kind, "%panel", code.mul(run["row"], str(width)))
        with code.loop("0", run["length"], plain=True) as k:
            tile.add([(start, k) for start in starts], code.at(kind, first, code.mul(k, str(width))))
    _add(code, shape, tile, [code.number("%ends", q) for q in range(rows)])
    arguments = (
        "ptr nocapture readonly %panel, ptr nocapture readonly %source, ptr nocapture readonly %places, "
        "ptr nocapture readonly %runs, i64 %count, ptr noalias nocapture %to, ptr nocapture readonly %ends"
    )
    return code.function(f"rows{rows}", arguments, "noinline nounwind")


def _add(code: Code, shape: Shape, tile: VectorTile, places: Sequence[str]) -> None:
    """Emit the addition of a tile's rows to rows of the result."""
    v = shape.vector
    for place, sums in zip(places, tile.sums, strict=True):
        target_row = code.at(shape.kind, "%to", place)
        for j, total in enumerate(sums):
            at = code.at(shape.kind, target_row, str(j * shape.lanes))
            old = code.new(f"load {v}, ptr {at}, align {shape.size}")
            made = code.new(f"fadd {v} {old}, {code.new(f'load {v}, ptr {total}')}")
            code.do(f"store {v} {made}, ptr {at}, align {shape.size}")


def _sums_tile(shape: Shape, rows: int) -> str:
    """Return the function that adds products of pixels' channels and a panel of the gradient along positions."""
    code, kind = Code(), shape.kind
    tile = VectorTile(code, shape, rows, VECTORS)
    with code.loop("0", "%count", plain=True) as k:
        both = code.number("%places", k)  # one load of two numbers: loads bound the loop
        source = code.at(kind, "%source", code.new(f"lshr i64 {both}, 32"))
        row = code.at(kind, "%panel", code.new(f"and i64 {both}, {(1 << 32) - 1}"))
        tile.add([(source, str(q)) for q in range(rows)], row)
    _add(code, shape, tile, [str(q * panel_width(shape)) for q in range(rows)])
    arguments = (
        "ptr nocapture readonly %panel, ptr nocapture readonly %source, "
        "ptr nocapture readonly %places, i64 %count, ptr noalias nocapture %to"
    )
    return code.function(f"sums{rows}", arguments, "noinline nounwind")


def outputs_text(shape: Shape) -> str:
    """Return the loop ``loop(numbers, tables, source, panels, bias, out, room)``.

    `numbers` are `OUTPUTS`, then `COPY` of planes and of results. `bias` has whole panels.
    """
    code, kind, v, width = Code(), shape.kind, shape.vector, str(panel_width(shape))
    room = _whole_lines(code)
    n = code.numbers("%g", OUTPUTS)
    planes, results, weights = (code.at("i64", "%g", str(len(OUTPUTS) + i * len(COPY))) for i in range(3))
    copies(code, shape, planes, "%source", room)
    made, own_panel = (code.at(kind, room, n[name]) for name in ("made", "packed"))
    packs = code.new(f"icmp ne i64 {n['packs']}, 0")
    with code.loop(n["first_panel"], n["last_panel"]) as p:
        left = code.new(f"sub i64 {n['outputs']}, {code.mul(p, width)}")
        columns = code.new(f"call i64 @llvm.smin.i64(i64 {left}, i64 {width})")
        with code.when(packs):
            step = code.mul(p, code.number(weights, COPY.index("source_inner")))
            copies(code, shape, weights, code.at(kind, "%panels", step), own_panel, columns)
        shared_panel = code.at(kind, "%panels", code.mul(p, n["panel_size"]))
        panel = code.new(f"select i1 {packs}, ptr {own_panel}, ptr {shared_panel}")
        bias = code.at(kind, "%bias", code.mul(p, width))
        addends = [
            code.new(f"load {v}, ptr {code.at(kind, bias, str(j * shape.lanes))}, align {shape.size}")
            for j in range(VECTORS)
        ]
        with code.loop("0", n["positions"]) as position:
            start = code.at(kind, made, code.mul(position, width))
            for j, addend in enumerate(addends):
                at = code.at(kind, start, str(j * shape.lanes))
                code.do(f"store {v} {addend}, ptr {at}, align {shape.size}")
        with code.loop("0", n["parts"]) as part:
            own = code.at("i64", "%tables", code.add(n["part_table"], code.mul(part, str(len(PART)))))
            r = code.numbers(own, PART)
            places, ends = (code.at("i64", "%tables", r[name]) for name in ("places", "ends"))
            with code.loop("0", r["blocks"]) as block:
                where = code.add(r["block_table"], code.mul(block, str(len(BLOCK))))
                b = code.numbers(code.at("i64", "%tables", where), BLOCK)
                runs = code.at("i64", "%tables", b["run_table"])
                for rows, first, last in code.in_steps(r["count"], _steps(shape)):
                    with code.loop(first, last, rows) as t:
                        code.do(
                            f"call void @rows{rows}(ptr {panel}, ptr {room}, ptr {code.at('i64', places, t)}, "
                            f"ptr {runs}, i64 {b['runs']}, ptr {made}, ptr {code.at('i64', ends, t)})"
                        )
        c = code.numbers(results, COPY)
        tables = [code.at("i64", "%tables", c[name]) for name in ("rows", "columns")]
        with code.loop("0", c["count"]) as i:
            to = code.add(code.add(c["to"], code.mul(i, c["to_step"])), code.mul(p, c["to_inner"]))
            code.do(
                f"call void @transpose(ptr {code.at(kind, made, code.mul(i, c['source_step']))}, ptr {tables[0]}, "
                f"i64 {c['m']}, ptr {tables[1]}, i64 {columns}, ptr {code.at(kind, '%out', to)})"
            )
    arguments = ", ".join(
        f"ptr {'noalias nocapture' if name in ('out', 'room') else 'nocapture readonly'} %{name}"
        for name in ("g", "tables", "source", "panels", "bias", "out", "room")
    )
    body = code.function("outputs", arguments, "noinline nounwind")
    tiles = [_rows_tile(shape, rows) for rows in _steps(shape)]
    return (
        HEADER
        + POINTERS
        + shape.declarations
        + "\n".join([transpose_text(shape), *tiles, body])
        + module_calls("outputs", 7)
    )


def sums_text(shape: Shape) -> str:
    """Return the loop ``loop(numbers, tables, source, panels, out, room)``: `numbers` are `SUMS`, then `COPY`."""
    code, kind, width = Code(), shape.kind, str(panel_width(shape))
    room = _whole_lines(code)
    n = code.numbers("%g", SUMS)
    panel = code.at(kind, "%panels", n["panel"])
    size = code.mul(n["sums"], str(shape.size))
    code.do(f"call void @llvm.memset.p0.i64(ptr {room}, i8 0, i64 {size}, i1 false)")
    with code.loop("0", n["taps"]) as number:
        where = code.add(n["tap_table"], code.mul(number, str(len(TAP))))
        tap = code.numbers(code.at("i64", "%tables", where), TAP)
        source = code.at(kind, "%source", tap["offset"])
        to = code.at(kind, room, code.mul(tap["row"], width))
        places = code.at("i64", "%tables", tap["places"])
        for rows, first, last in code.in_steps(tap["length"], _steps(shape)):
            with code.loop(first, last, rows) as m:
                code.do(
                    f"call void @sums{rows}(ptr {panel}, ptr {code.at(kind, source, m)}, "
                    f"ptr {places}, i64 {tap['positions']}, ptr {code.at(kind, to, code.mul(m, width))})"
                )
    copies(code, shape, code.at("i64", "%g", str(len(SUMS))), room, "%out")
    arguments = ", ".join(
        f"ptr {'noalias nocapture' if name in ('out', 'room') else 'nocapture readonly'} %{name}"
        for name in ("g", "tables", "source", "panels", "out", "room")
    )
    body = code.function("sums", arguments, "noinline nounwind")
    tiles = [_sums_tile(shape, rows) for rows in _steps(shape)]
    return (
        HEADER
        + POINTERS
        + shape.declarations
        + "\n".join([transpose_text(shape), *tiles, body])
        + module_calls("sums", 6)
    )


def outputs_loop(dtype: str) -> Callable[..., None] | None:
    """Return the loop of outputs and input gradients, or None if the processor has no fused multiply-add."""
    return _loop(outputs_text, dtype)


def sums_loop(dtype: str) -> Callable[..., None] | None:
    """Return the loop of weight gradients, or None if the processor has no fused multiply-add."""
    return _loop(sums_text, dtype)


def width_of(dtype: str) -> int:
    """Return the outputs of a panel of a dtype."""
    found = target()
    assert found is not None
    return panel_width(Shape(dtype, found.vector_bits, found.vector_registers))


def _loop(text: Callable[[Shape], str], dtype: str) -> Callable[..., None] | None:
    found = target()
    assert found is not None
    if not found.fuses:
        return None
    return loop_function(text(Shape(dtype, found.vector_bits, found.vector_registers)))
