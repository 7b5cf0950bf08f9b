"""LLVM IR of convolutions: tiles of sums over taps, read from padded planes of the images.

`taps_text` is the loop of outputs and of input gradients. It is a matmul whose right factor is never materialized: for
each tap, a row of this factor begins at another place of the padded planes. A tile of outputs and positions stays in
registers while taps are added in order, so a result does not depend on how threads share the work. `sums_text` is the
loop of weight gradients: products summed along positions.

An array of int64 holds sizes and strides (`tiles.py` names its places).
"""

from __future__ import annotations

from collections.abc import Callable

from ...runtime.cpu.calling_convention import HEADER
from ...runtime.cpu.code import Code, module_calls
from ...runtime.cpu.object_code import loop_function, target
from ...runtime.cpu.vector_tile import Shape, VectorTile
from .tiles import PACK, PART, PHASE, SLACK, SUMS, TAPS

TAPS_OF_SUM = 256
"""Taps that are added one after the other; these sums are added then, as BLAS does."""


def taps_text(shape: Shape) -> str:
    """Return the loop ``loop(numbers, taps, source, weight, bias, out, room)``: `numbers` are `TAPS`, then `PACK`.

    `taps` has the places of weights, then those of planes, for each tap. `room` is the workspace.
    """
    functions = [
        _pack(shape),
        *(_tile(shape, rows, vectors) for rows, vectors in shape.tiles.items()),
        _taps(shape),
    ]
    call = module_calls("taps", 7)
    return HEADER + shape.declarations + "\n".join(functions) + call


def sums_text(shape: Shape) -> str:
    """Return the loop ``loop(numbers, taps, source, grad, out, room)``, over one block of images after the other.

    `numbers` are the number of blocks, and for each block `SUMS`, and `PACK` of both arrays. `taps` has the places of
    taps in planes. Sums are added to `out` if ``adds`` is not 0.
    """
    tiles = [_sum_tile(shape, rows, taps) for rows, widths in shape.sums.items() for taps in widths]
    return (
        HEADER
        + shape.declarations
        + "\n".join([_pack(shape), *tiles, _sums(shape)])
        + module_calls("sums", 6)
    )


def _pack(shape: Shape) -> str:
    """Return the function that makes padded planes of a source: channels, phases, rows, images, elements."""
    code, kind = Code(), shape.kind
    n = code.numbers("%g", PACK)
    row_size = code.mul(n["pitch"], str(shape.size))
    tail_size = code.mul(n["tail"], str(shape.size))
    target = code.variable("ptr", "%to")
    with code.loop("0", n["channels"]) as c:
        of_channel = code.mul(c, n["channel"])
        with code.loop("0", n["phases"]) as f:
            table = code.at("i64", "%whole", code.add(n["table"], code.mul(f, str(len(PHASE)))))
            p = code.numbers(table, PHASE)
            start = code.add(of_channel, p["start"])
            with code.loop("0", n["rows"]) as r:
                above = code.new(f"icmp sge i64 {r}, {p['first_row']}")
                below = code.new(f"icmp slt i64 {r}, {p['last_row']}")
                inside = code.new(f"and i1 {above}, {below}")
                down = code.new(f"sub i64 {r}, {p['first_row']}")
                of_row = code.add(start, code.mul(code.mul(down, n["step"]), n["line"]))
                last = code.new(f"select i1 {inside}, i64 {p['last']}, i64 {p['first']}")
                with code.loop("0", n["images"]) as i:
                    to = code.new(f"load ptr, ptr {target}")
                    at = code.at(kind, "%source", code.add(of_row, code.mul(i, n["image"])))
                    outside = code.new(f"xor i1 {inside}, true")
                    with code.when(outside):
                        code.do(f"call void @llvm.memset.p0.i64(ptr {to}, i8 0, i64 {row_size}, i1 false)")
                    with code.when(inside):
                        with code.loop("0", p["first"]) as q:
                            code.do(f"store {kind} 0.0, ptr {code.at(kind, to, q)}")
                        is_unit = code.new(f"icmp eq i64 {n['step']}, 1")
                        base = code.at(kind, to, p["first"])
                        width = code.new(f"sub i64 {last}, {p['first']}")
                        with code.when(is_unit), code.loop("0", width) as q:
                            value = code.new(f"load {kind}, ptr {code.at(kind, at, q)}")
                            code.do(f"store {kind} {value}, ptr {code.at(kind, base, q)}")
                        with code.when(code.new(f"xor i1 {is_unit}, true")), code.loop("0", width) as q:
                            place = code.mul(q, n["step"])
                            value = code.new(f"load {kind}, ptr {code.at(kind, at, place)}")
                            code.do(f"store {kind} {value}, ptr {code.at(kind, base, q)}")
                        with code.loop(p["last"], n["pitch"]) as q:
                            code.do(f"store {kind} 0.0, ptr {code.at(kind, to, q)}")
                    code.do(f"store ptr {code.at(kind, to, n['pitch'])}, ptr {target}")
        to = code.new(f"load ptr, ptr {target}")
        code.do(f"call void @llvm.memset.p0.i64(ptr {to}, i8 0, i64 {tail_size}, i1 false)")
        code.do(f"store ptr {code.at(kind, to, n['tail'])}, ptr {target}")
    end = code.new(f"load ptr, ptr {target}")
    slack = SLACK * shape.size
    code.do(f"call void @llvm.memset.p0.i64(ptr {end}, i8 0, i64 {slack}, i1 false)")
    arguments = (
        "ptr nocapture readonly %whole, ptr nocapture readonly %g, ptr noalias nocapture readonly %source, "
    )
    return code.function("pack", arguments + "ptr noalias nocapture %to", "noinline nounwind")


def _tile(shape: Shape, rows: int, vectors: int) -> str:
    """Return the function that sums taps for a tile of outputs and positions."""
    code, kind = Code(), shape.kind
    tile = VectorTile(code, shape, rows, vectors)
    bases = tile.rows_of("%weight", "%stride")
    with code.loop("0", "%taps", plain=True) as k:
        of_weight = code.number("%weights", k)
        source = code.at(kind, "%source", code.number("%places", k))
        tile.add([(base, of_weight) for base in bases], source)
    tile.store("%to", "%room", "%adds")
    arguments = (
        "ptr nocapture readonly %weight, i64 %stride, ptr nocapture readonly %weights, ptr nocapture readonly %source, "
        "ptr nocapture readonly %places, i64 %taps, ptr noalias nocapture %to, i64 %room, i1 %adds"
    )
    return code.function(f"tile{rows}", arguments, "noinline nounwind")


def _taps(shape: Shape) -> str:
    """Return the loop over groups: planes, then all outputs of all parts."""
    code, kind = Code(), shape.kind
    n = code.numbers("%g", TAPS)
    pack = code.at("i64", "%g", str(len(TAPS)))
    made = code.at(kind, "%room", n["planes"])
    with code.loop("0", n["groups"]) as group:
        source = code.at(kind, "%source", code.add(n["source"], code.mul(group, n["source_group"])))
        code.do(f"call void @pack(ptr %g, ptr {pack}, ptr {source}, ptr %room)")
        weight = code.at(kind, "%weight", code.add(n["weight"], code.mul(group, n["weight_group"])))
        out = code.at(kind, "%out", code.add(n["out"], code.mul(group, n["out_group"])))
        of_bias = code.add(n["bias"], code.mul(group, n["outputs"]))
        with code.loop("0", n["parts"]) as number:
            table = code.at("i64", "%g", code.add(n["part_table"], code.mul(number, str(len(PART)))))
            p = code.numbers(table, PART)
            weights = code.at("i64", "%taps", p["first_tap"])
            places = code.at("i64", "%taps", code.add(p["first_tap"], p["taps"]))
            start = code.at(kind, out, p["start"])
            some = code.new(f"call i64 @llvm.smax.i64(i64 {p['taps']}, i64 1)")  # of none the sum is zero
            for rows, first, last in code.in_steps(n["outputs"], shape.tiles):
                vectors = shape.tiles[rows]
                with code.loop(first, last, rows) as o:
                    of_rows = code.at(kind, weight, code.mul(o, n["weight_row"]))
                    with code.loop("0", some, TAPS_OF_SUM) as tap:
                        rest = code.new(f"sub i64 {p['taps']}, {tap}")
                        taps = code.new(f"call i64 @llvm.smin.i64(i64 {rest}, i64 {TAPS_OF_SUM})")
                        own = [code.at("i64", each, tap) for each in (weights, places)]
                        adds = code.new(f"icmp ne i64 {tap}, 0")
                        with code.loop("0", p["positions"], vectors * shape.lanes) as position:
                            arguments = (
                                f"ptr {of_rows}, i64 {n['weight_row']}, ptr {own[0]}, "
                                f"ptr {code.at(kind, '%room', position)}, ptr {own[1]}, i64 {taps}, "
                                f"ptr {code.at(kind, made, position)}, i64 {n['row_room']}, i1 {adds}"
                            )
                            code.do(f"call void @tile{rows}({arguments})")
                    with code.loop("0", str(rows)) as row:
                        output = code.add(o, row)
                        addend = code.at(kind, "%bias", code.add(of_bias, output))
                        given = (
                            f"ptr {code.at(kind, made, code.mul(row, n['row_room']))}, "
                            f"ptr {code.at(kind, start, code.mul(output, n['out_channel']))}, ptr {addend}"
                        )
                        names = ("images", "pitch", "out_image", "out_line", "out_step", "bias")
                        numbers = [p["lines"], p["width"], *(n[name] for name in names)]
                        code.do(f"call void @spread({given}, {', '.join(f'i64 {each}' for each in numbers)})")
    arguments = ", ".join(
        f"ptr {'noalias nocapture' if name in ('out', 'room') else 'nocapture readonly'} %{name}"
        for name in ("g", "taps", "source", "weight", "bias", "out", "room")
    )
    return _spread(shape) + code.function("taps", arguments, "noinline nounwind")


def _spread(shape: Shape) -> str:
    """Return the function that copies flat positions of an output to their places, with its bias."""
    code, kind = Code(), shape.kind
    has_bias = code.new("icmp sge i64 %bias, 0")
    addend = code.variable(kind, "-0.0")
    with code.when(has_bias):
        code.do(f"store {kind} {code.new(f'load {kind}, ptr %addend')}, ptr {addend}")
    bias = code.new(f"load {kind}, ptr {addend}")
    is_unit = code.new("icmp eq i64 %step, 1")
    with code.loop("0", "%lines") as line, code.loop("0", "%images") as image:
        place = code.mul(code.add(code.mul(line, "%images"), image), "%pitch")
        at = code.at(kind, "%made", place)
        to = code.at(kind, "%out", code.add(code.mul(line, "%line"), code.mul(image, "%image")))
        for unit in (True, False):
            with (
                code.when(is_unit if unit else code.new(f"xor i1 {is_unit}, true")),
                code.loop("0", "%width") as x,
            ):
                value = code.new(f"load {kind}, ptr {code.at(kind, at, x)}")
                total = code.new(f"fadd {kind} {value}, {bias}")
                code.do(f"store {kind} {total}, ptr {code.at(kind, to, x if unit else code.mul(x, '%step'))}")
    numbers = ("lines", "width", "images", "pitch", "image", "line", "step", "bias")
    arguments = (
        "ptr noalias nocapture readonly %made, ptr noalias nocapture %out, ptr noalias nocapture readonly %addend, "
        + ", ".join(f"i64 %{name}" for name in numbers)
    )
    return code.function("spread", arguments, "noinline nounwind")


def _sum_tile(shape: Shape, rows: int, taps: int) -> str:
    """Return the function of a tile that sums products of gradients and taps along positions."""
    code, v, kind = Code(), shape.vector, shape.kind
    sums = [[code.variable(v, "zeroinitializer") for _ in range(taps)] for _ in range(rows)]
    sources = [code.at(kind, "%source", code.number("%places", tap)) for tap in range(taps)]
    grads = [code.at(kind, "%grad", code.mul("%room", str(row))) for row in range(rows)]
    with code.loop("0", "%positions", shape.lanes, plain=True) as place:
        met = [
            code.new(f"load {v}, ptr {code.at(kind, each, place)}, align {shape.size}") for each in sources
        ]
        for row in range(rows):
            grad = code.new(f"load {v}, ptr {code.at(kind, grads[row], place)}, align {shape.size}")
            for tap in range(taps):
                old = code.new(f"load {v}, ptr {sums[row][tap]}")
                new = code.new(f"call {v} {shape.fused}({v} {grad}, {v} {met[tap]}, {v} {old})")
                code.do(f"store {v} {new}, ptr {sums[row][tap]}")
    for row in range(rows):
        target = code.at(kind, "%out", code.mul("%row", str(row)))
        for tap in range(taps):
            made = code.new(f"load {v}, ptr {sums[row][tap]}")
            at = code.at(kind, target, str(tap))
            old = code.new(f"load {kind}, ptr {at}")
            before = code.new(f"select i1 %adds, {kind} {old}, {kind} 0.0")
            total = code.new(f"call reassoc {kind} {shape.summed}({kind} -0.0, {v} {made})")
            code.do(f"store {kind} {code.new(f'fadd {kind} {before}, {total}')}, ptr {at}")
    arguments = (
        "ptr nocapture readonly %grad, i64 %room, ptr nocapture readonly %source, ptr nocapture readonly %places, "
        "i64 %positions, ptr noalias nocapture %out, i64 %row, i1 %adds"
    )
    return code.function(f"sum{rows}x{taps}", arguments, "noinline nounwind")


def _sums(shape: Shape) -> str:
    """Return the loop over groups: planes of both arrays, then all weights."""
    code, kind = Code(), shape.kind
    n = code.numbers("%g", SUMS)
    packs = [code.at("i64", "%g", n[f"{name}_pack"]) for name in ("grad", "source")]
    adds = code.new(f"icmp ne i64 {n['adds']}, 0")
    planes = code.at(kind, "%room", n["source_room"])
    own_taps = code.at("i64", "%taps", n["first_tap"])
    with code.loop("0", n["groups"]) as group:
        grad = code.at(kind, "%grad", code.add(n["grad"], code.mul(group, n["grad_group"])))
        source = code.at(kind, "%source", code.add(n["source"], code.mul(group, n["source_group"])))
        code.do(f"call void @pack(ptr %g, ptr {packs[0]}, ptr {grad}, ptr %room)")
        code.do(f"call void @pack(ptr %g, ptr {packs[1]}, ptr {source}, ptr {planes})")
        out = code.at(kind, "%out", code.add(n["out"], code.mul(group, n["out_group"])))
        for rows, first, last in code.in_steps(n["outputs"], shape.sums):
            with code.loop(first, last, rows) as o, code.loop("0", n["channels"]) as c:
                of_grad = code.at(kind, "%room", code.mul(o, n["grad_room"]))
                of_source = code.at(kind, planes, code.mul(c, code.number(packs[1], PACK.index("kept"))))
                place = code.add(code.mul(o, n["out_row"]), code.mul(c, n["out_channel"]))
                for taps, begin, end in code.in_steps(n["taps"], shape.sums[rows]):
                    with code.loop(begin, end, taps) as tap:
                        arguments = (
                            f"ptr {of_grad}, i64 {n['grad_room']}, ptr {of_source}, "
                            f"ptr {code.at('i64', own_taps, tap)}, i64 {n['positions']}, "
                            f"ptr {code.at(kind, out, code.add(place, tap))}, i64 {n['out_row']}, i1 {adds}"
                        )
                        code.do(f"call void @sum{rows}x{taps}({arguments})")
    arguments = ", ".join(
        f"ptr {'noalias nocapture' if name in ('out', 'room') else 'nocapture readonly'} %{name}"
        for name in ("g", "taps", "source", "grad", "out", "room")
    )
    each = code.function("sums_of_block", arguments, "noinline nounwind")
    blocks = Code()
    count, length = (blocks.number("%g", i) for i in (0, 1))
    with blocks.loop("0", count) as i:
        numbers = blocks.at("i64", "%g", blocks.add(blocks.mul(i, length), "2"))
        given = ", ".join(f"ptr %{name}" for name in ("taps", "source", "grad", "out", "room"))
        blocks.do(f"call void @sums_of_block(ptr {numbers}, {given})")
    return each + blocks.function("sums", arguments, "noinline nounwind")


def taps_loop(dtype: str) -> Callable[..., None] | None:
    """Return the loop of outputs and input gradients, or None if the processor has no fused multiply-add."""
    shape = _shape(dtype)
    return None if shape is None else loop_function(taps_text(shape))


def sums_loop(dtype: str) -> Callable[..., None] | None:
    """Return the loop of weight gradients, or None if the processor has no fused multiply-add."""
    shape = _shape(dtype)
    return None if shape is None else loop_function(sums_text(shape))


def _shape(dtype: str) -> Shape | None:
    found = target()
    assert found is not None
    return Shape(dtype, found.vector_bits, found.vector_registers) if found.fuses else None
