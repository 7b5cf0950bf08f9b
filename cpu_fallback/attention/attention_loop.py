"""LLVM IR of attention in float32: a block of queries whose scores stay in the cache, forward and backward.

Keys (and values for gradients) are first transposed, so that scores of adjacent keys form a vector. All matmuls are
those of `matmul_source`. A row's softmax is exact, in two passes over its scores. An array of int64 holds sizes and
strides in elements (`compiled.py` names its places).
"""

from __future__ import annotations

import re
from collections.abc import Callable

from ...runtime.cpu.calling_convention import HEADER
from ...runtime.cpu.code import FloatCode, module_calls
from ...runtime.cpu.llvm_source import declarations, element_lines
from ...runtime.cpu.object_code import loop_function, target
from ...runtime.cpu.vector_tile import Shape
from ..function_check import function_loop
from .compiled import BACKWARD, FORWARD, MAX_VECTOR_ELEMENTS
from .matmul_source import product_text

PIECE = 2048
"""Weights that are added in float32, in lanes; these sums are added in float64."""
TURNED = 64
"""The number of keys transposed at once: their rows stay in the first-level cache."""
NEGATIVE_INFINITY = "0xFFF0000000000000"
"""Minus infinity."""


class _Attention(FloatCode):
    """The body of a loop over queries."""

    def __init__(self, names: tuple[str, ...], mask: str) -> None:
        super().__init__("float32")
        self.mask = mask
        self.n = self.numbers("%g", names)
        self.factor = self.new("load float, ptr %scale")
        self.is_causal = self.new(f"icmp ne i64 {self.n['causal']}, 0")

    def room(self, begin: str, *sizes: tuple[str, str]) -> list[str]:
        """Return consecutive arrays of these rows and columns."""
        made, place = [], begin
        for rows, columns in sizes:
            made.append(place)
            place = self.at("float", place, self.mul(rows, columns))
        return made

    def turned(self, source: str, stride: str, width: str, factor: str, to: str) -> None:
        """Emit the transposition of keys or values."""
        self.do(
            f"call void @turned(ptr {source}, i64 {stride}, i64 {self.n['keys']}, i64 {width}, i64 {self.n['pitch']}, "
            f"float {factor}, ptr {to})"
        )

    def product(self, *given: str, adds: bool = False) -> None:
        """Emit a call of `product`."""
        kinds = ("ptr", "i64", "i64", "ptr", "i64", "ptr", "i64", "i64", "i64", "i64")
        arguments = ", ".join(f"{kind} {value}" for kind, value in zip(kinds, given, strict=True))
        self.do(f"call void @product({arguments}, i1 {str(adds).lower()})")

    def least(self, a: str, b: str) -> str:
        """Emit the minimum of two integers."""
        return self.new(f"call i64 @llvm.smin.i64(i64 {a}, i64 {b})")

    def seen(self, after: str) -> str:
        """Return the number of keys that a query attends to; `after` is the causal limit."""
        own = self.least(self.n["keys"], after)
        return self.new(f"select i1 {self.is_causal}, i64 {own}, i64 {self.n['keys']}")

    def whole(self, count: str, lanes: int) -> str:
        """Round a number of elements up to whole vectors."""
        return self.new(f"and i64 {self.add(count, str(lanes - 1))}, -{lanes}")

    def masked(self, row: str, mask: str, count: str, padded: str) -> None:
        """Emit the mask of a row of scores, and of the scores behind the visible keys."""
        if self.mask != "none":
            self.do(f"call void @masked(ptr {row}, ptr {mask}, i64 {self.n['mask_key']}, i64 {count})")
        with self.loop(count, padded) as i:
            self.store(NEGATIVE_INFINITY, row, i)


def forward_text(shape: Shape, mask: str) -> str:
    """Return the loop ``loop(numbers, scale, q, k, v, mask, out, logsumexp, room)``."""
    code = _Attention(FORWARD, mask)
    n, lanes = code.n, shape.lanes
    keys, scores, made, totals = code.room(
        "%room",
        (n["width"], n["pitch"]),
        (n["block"], n["pitch"]),
        (n["block"], n["width_v"]),
        (n["block"], "1"),
    )
    code.turned(code.at("float", "%k", n["k"]), n["k_row"], n["width"], code.factor, keys)
    v = code.at("float", "%v", n["v"])
    with code.loop("0", n["count"], n["block"]) as q:
        rows = code.least(n["block"], code.new(f"sub i64 {n['count']}, {q}"))
        place = code.add(n["first"], q)
        count = code.seen(code.add(place, rows))
        padded = code.whole(count, lanes)
        queries = code.at("float", "%q", code.add(n["q"], code.mul(q, n["q_row"])))
        code.product(queries, n["q_row"], "1", keys, n["pitch"], scores, n["pitch"], rows, padded, n["width"])
        lines = code.at("float", "%logsumexp", code.add(n["lse"], q))
        with code.loop("0", rows) as r:
            row = code.at("float", scores, code.mul(r, n["pitch"]))
            own = code.seen(code.add(code.add(place, r), "1"))
            at = code.add(n["mask"], code.mul(code.add(q, r), n["mask_row"]))
            code.masked(row, code.at("i8" if mask == "bool" else "float", "%mask", at), own, padded)
            code.do(
                f"call void @softmax(ptr {row}, i64 {padded}, ptr {code.at('float', totals, r)}, "
                f"ptr {code.at('float', lines, r)})"
            )
        code.product(scores, n["pitch"], "1", v, n["v_row"], made, n["width_v"], rows, n["width_v"], count)
        with code.loop("0", rows) as r:
            total = code.value(totals, r)
            is_empty = code.new(f"fcmp oeq float {total}, 0.0")
            total = code.new(f"select i1 {is_empty}, float 1.0, float {total}")
            code.store(total, totals, r)
            source = code.at("float", made, code.mul(r, n["width_v"]))
            to = code.at("float", "%out", code.add(n["out"], code.mul(code.add(q, r), n["out_row"])))
            with code.loop("0", n["width_v"]) as i:
                code.store(code.new(f"fdiv float {code.value(source, i)}, {total}"), to, i)
        code.do(f"call void @logarithms(ptr {totals}, ptr {lines}, i64 {rows})")
    return _module(
        shape, mask, code, "forward", ("scale", "q", "k", "v", "mask", "out", "logsumexp", "room"), 3
    )


def backward_text(shape: Shape, mask: str) -> str:
    """Return the loop ``loop(numbers, scale, q, k, v, mask, grad, out, logsumexp, to_q, to_k, to_v, room)``."""
    code = _Attention(BACKWARD, mask)
    n, lanes = code.n, shape.lanes
    keys, values, weights, changes, of_q, of_k, of_v = code.room(
        "%room",
        (n["width"], n["pitch"]),
        (n["width_v"], n["pitch"]),
        (n["block"], n["pitch"]),
        (n["block"], n["pitch"]),
        (n["block"], n["width"]),
        (n["keys"], n["width"]),
        (n["keys"], n["width_v"]),
    )
    k, v = (code.at("float", f"%{name}", n[name]) for name in ("k", "v"))
    code.turned(k, n["k_row"], n["width"], code.factor, keys)
    code.turned(v, n["v_row"], n["width_v"], "1.0", values)
    with code.loop("0", code.mul(n["keys"], code.add(n["width"], n["width_v"]))) as i:
        code.store("0.0", of_k, i)  # and for the values behind them
    with code.loop("0", n["group"]) as head, code.loop("0", n["count"], n["block"]) as q:
        rows = code.least(n["block"], code.new(f"sub i64 {n['count']}, {q}"))
        count = code.seen(code.add(q, rows))
        padded = code.whole(count, lanes)

        def line(name: str, row: str, kind: str = "float", head: str = head) -> str:
            place = code.add(n[name], code.mul(head, n[f"{name}_head"]))
            return code.at(kind, f"%{name}", code.add(place, code.mul(row, n[f"{name}_row"])))

        queries, grads = line("q", q), line("grad", q)
        code.product(
            queries, n["q_row"], "1", keys, n["pitch"], weights, n["pitch"], rows, padded, n["width"]
        )
        with code.loop("0", rows) as r:
            row = code.at("float", weights, code.mul(r, n["pitch"]))
            at = code.add(q, r)
            own = code.seen(code.add(at, "1"))
            code.masked(row, line("mask", at, "i8" if mask == "bool" else "float"), own, padded)
            lse = code.value(line("lse", at), "0")
            code.do(f"call void @weights(ptr {row}, i64 {padded}, float {lse})")
        code.product(
            *(weights, "1", n["pitch"], grads, n["grad_row"], of_v, n["width_v"], count, n["width_v"], rows),
            adds=True,
        )
        code.product(
            grads, n["grad_row"], "1", values, n["pitch"], changes, n["pitch"], rows, padded, n["width_v"]
        )
        with code.loop("0", rows) as r:
            at = code.add(q, r)
            grad, out = line("grad", at), line("out", at)
            total = code.variable("double", "0.0")

            def products(i: str, grad: str = grad, out: str = out) -> list[str]:
                return [code.new(f"fmul float {code.value(grad, i)}, {code.value(out, i)}")]

            code.add_piece([total], n["width_v"], products)
            delta = code.narrow(code.new(f"load double, ptr {total}"))
            place = code.mul(r, n["pitch"])
            row, own = code.at("float", weights, place), code.at("float", changes, place)
            code.do(f"call void @changes(ptr {own}, ptr {row}, i64 {padded}, float {delta})")
        code.product(changes, n["pitch"], "1", k, n["k_row"], of_q, n["width"], rows, n["width"], count)
        with code.loop("0", rows) as r:
            source = code.at("float", of_q, code.mul(r, n["width"]))
            code.do(
                f"call void @scaled(ptr {source}, ptr {line('to_q', code.add(q, r))}, i64 {n['width']}, "
                f"float {code.factor})"
            )
        code.product(
            *(changes, "1", n["pitch"], queries, n["q_row"], of_k, n["width"], count, n["width"], rows),
            adds=True,
        )
    for source, name, width, factor in (
        (of_k, "to_k", n["width"], code.factor),
        (of_v, "to_v", n["width_v"], "1.0"),
    ):
        with code.loop("0", n["keys"]) as s:
            to = code.at("float", f"%{name}", code.add(n[name], code.mul(s, n[f"{name}_row"])))
            code.do(
                f"call void @scaled(ptr {code.at('float', source, code.mul(s, width))}, ptr {to}, i64 {width}, "
                f"float {factor})"
            )
    arrays = ("scale", "q", "k", "v", "mask", "grad", "out", "lse", "to_q", "to_k", "to_v", "room")
    return _module(shape, mask, code, "backward", arrays, 4)


def _module(
    shape: Shape, mask: str, code: _Attention, name: str, arrays: tuple[str, ...], written: int
) -> str:
    functions = [
        product_text(shape),
        _turned(),
        _softmax(shape),
        _weights(),
        _changes(),
        _scaled(),
        _logarithms(),
    ]
    if mask != "none":
        functions.append(_masked(mask))
    # The workspace and the written arrays are also accessed through derived pointers, so they are not noalias.
    pointers = [
        f"ptr {'nocapture' if index >= len(arrays) - written else 'nocapture readonly'} %{each}"
        for index, each in enumerate(arrays)
    ]
    body = code.function(name, ", ".join(["ptr nocapture readonly %g", *pointers]), "noinline nounwind")
    used = [*function_loop("exp").instructions, *function_loop("log").instructions]
    return (
        HEADER
        + shape.declarations
        + f"declare float @llvm.vector.reduce.fmax.v{shape.lanes}f32({shape.vector})\n"
        + declarations(used)
        + "\n".join([*functions, body])
        + module_calls(name, len(arrays) + 1)
    )


def _function_lines(name: str, text: str, made: str) -> list[str]:
    """Return the lines that compute a function of one number from one pointer to another."""
    loop = function_loop(name)
    lines = element_lines([(loop.reads[0], text)], loop.instructions, [(loop.writes[0][0], made)], {})
    return [re.sub(r"%([xv])(\d+)", rf"%{name}_\1\2", each) for each in lines]


def _turned() -> str:
    """Return the function that transposes rows, times a factor, with zero padding."""
    code = FloatCode("float32")
    with code.loop("0", "%count", TURNED) as first:
        most = code.add(first, str(TURNED))
        last = code.new(f"call i64 @llvm.smin.i64(i64 {most}, i64 %count)")
        with code.loop("0", "%width") as d:
            source, to = code.at("float", "%source", d), code.at("float", "%to", code.mul(d, "%pitch"))
            with code.loop(first, last) as s:
                value = code.value(source, code.mul(s, "%stride"))
                code.store(code.new(f"fmul float {value}, %factor"), to, s)
    with code.loop("0", "%width") as d:
        to = code.at("float", "%to", code.mul(d, "%pitch"))
        with code.loop("%count", "%pitch") as s:
            code.store("0.0", to, s)
    return code.function(
        "turned",
        "ptr nocapture readonly %source, i64 %stride, i64 %count, i64 %width, i64 %pitch, float %factor, "
        "ptr noalias nocapture %to",
        "noinline nounwind",
    )


def _masked(mask: str) -> str:
    """Return the function that adds a mask's row to scores, or sets them to minus infinity where the mask is False."""
    code = FloatCode("float32")
    with code.loop("0", "%count") as i:
        place = code.mul(i, "%stride")
        score = code.value("%row", i)
        if mask == "bool":
            is_seen = code.new(f"icmp ne i8 {code.value('%mask', place, 'i8')}, 0")
            made = code.new(f"select i1 {is_seen}, float {score}, float {NEGATIVE_INFINITY}")
        else:
            made = code.new(f"fadd float {score}, {code.value('%mask', place)}")
        code.store(made, "%row", i)
    return code.function(
        "masked",
        "ptr noalias nocapture %row, ptr noalias nocapture readonly %mask, i64 %stride, i64 %count",
        "noinline nounwind",
    )


def _softmax(shape: Shape) -> str:
    """Return the function that computes exp of scores minus their maximum, their sum, and the maximum.

    The maximum of a row without visible keys is 0.
    """
    code, v = FloatCode("float32"), shape.vector
    most = code.variable(v, f"<{', '.join([f'float {NEGATIVE_INFINITY}'] * shape.lanes)}>")
    with code.loop("0", "%count", shape.lanes) as i:
        met = code.new(f"load {v}, ptr {code.at('float', '%row', i)}, align 4")
        old = code.new(f"load {v}, ptr {most}")
        above = code.new(f"fcmp ogt {v} {met}, {old}")  # never of NaN, which exp finds again
        code.do(
            f"store {v} {code.new(f'select <{shape.lanes} x i1> {above}, {v} {met}, {v} {old}')}, ptr {most}"
        )
    found = code.new(f"load {v}, ptr {most}")
    largest = code.new(f"call float @llvm.vector.reduce.fmax.v{shape.lanes}f32({v} {found})")
    is_empty = code.new(f"fcmp oeq float {largest}, {NEGATIVE_INFINITY}")
    largest = code.new(f"select i1 {is_empty}, float 0.0, float {largest}")
    total = _exponentials(code, largest, "%count")
    code.store(total, "%total", "0")
    code.store(largest, "%largest", "0")
    return code.function(
        "softmax",
        "ptr noalias nocapture %row, i64 %count, ptr noalias nocapture %total, ptr noalias nocapture %largest",
        "noinline nounwind",
    )


def _exponentials(code: FloatCode, less: str, count: str) -> str:
    """Have ``exp(row - less)`` in a row's place; their sum."""
    total = code.variable("double", "0.0")
    with code.loop("0", count, PIECE) as piece:
        left = code.new(f"sub i64 {count}, {piece}")
        length = code.new(f"call i64 @llvm.smin.i64(i64 {left}, i64 {PIECE})")
        start = code.at("float", "%row", piece)

        def terms(i: str) -> list[str]:
            at = code.at("float", start, i)
            code.store(code.new(f"fsub float {code.new(f'load float, ptr {at}')}, {less}"), at, "0")
            code.lines += _function_lines("exp", at, at)
            return [code.new(f"load float, ptr {at}")]

        code.add_piece([total], length, terms)
    return code.narrow(code.new(f"load double, ptr {total}"))


def _weights() -> str:
    """Return the function that computes exp of scores minus the logarithm of their sum."""
    code = FloatCode("float32")
    _exponentials(code, "%logsumexp", "%count")
    return code.function(
        "weights", "ptr noalias nocapture %row, i64 %count, float %logsumexp", "noinline nounwind"
    )


def _changes() -> str:
    """Return the function that multiplies weights by the scores' gradients minus their mean."""
    code = FloatCode("float32")
    with code.loop("0", "%count") as i:
        above = code.new(f"fsub float {code.value('%changes', i)}, %delta")
        code.store(code.new(f"fmul float {above}, {code.value('%weights', i)}"), "%changes", i)
    return code.function(
        "changes",
        "ptr noalias nocapture %changes, ptr noalias nocapture readonly %weights, i64 %count, float %delta",
        "noinline nounwind",
    )


def _scaled() -> str:
    """Return the function that stores a row times a number."""
    code = FloatCode("float32")
    with code.loop("0", "%count") as i:
        code.store(code.new(f"fmul float {code.value('%source', i)}, %factor"), "%to", i)
    return code.function(
        "scaled",
        "ptr noalias nocapture readonly %source, ptr noalias nocapture %to, i64 %count, float %factor",
        "noinline nounwind",
    )


def _logarithms() -> str:
    """Return the function that adds logarithms of sums to the maximal scores.

    A row without visible keys has the sum 1 and the maximum 0.
    """
    code = FloatCode("float32")
    with code.loop("0", "%count") as i:
        at = code.at("float", "%totals", i)
        code.lines += _function_lines("log", at, at)
        total = code.new(f"load float, ptr {at}")
        code.store(code.new(f"fadd float {total}, {code.value('%lines', i)}"), "%lines", i)
    return code.function(
        "logarithms",
        "ptr noalias nocapture %totals, ptr noalias nocapture %lines, i64 %count",
        "noinline nounwind",
    )


TEXTS: dict[str, Callable[[Shape, str], str]] = {"forward": forward_text, "backward": backward_text}


def attention_loop(kind: str, mask: str) -> Callable[..., None] | None:
    """Return the attention loop for this processor, or None if the processor has no fused multiply-add.

    Args:
        kind: ``forward`` or ``backward``.
        mask: ``none``, ``bool`` or ``float``.
    """
    found = target()
    assert found is not None
    if not found.fuses:
        return None
    bits = min(found.vector_bits, 32 * MAX_VECTOR_ELEMENTS)  # rows are padded to whole vectors
    shape = Shape("float32", bits, found.vector_registers)
    return loop_function(TEXTS[kind](shape, mask))
