"""Emitter of loops over the rows of layer_norm and rms_norm, and of sums along a row."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...runtime.cpu.code import FloatCode
from ...runtime.cpu.function_text import VECTORS
from ..reduction.lane_sums import NUM_LANES, PIECE


class RowCode(FloatCode):
    """Body of a loop over rows of n elements.

    Sums along a row add pieces in the dtype, in lanes in LLVM's order for the processor, and then add pieces in
    float64.

    Args:
        dtype: ``float32`` or ``float64``.
        numbers: Names of a part's numbers; one is ``n``.
        arrays: Names of the arrays, in their order.
    """

    def __init__(self, dtype: str, numbers: Sequence[str], arrays: Sequence[str]) -> None:
        super().__init__(dtype)
        self.n = self.numbers("%g", numbers)
        self.of = {name: f"%p{i}" for i, name in enumerate(arrays)}
        self.lanes = f"<{NUM_LANES} x {self.kind}>"
        self.reduced = f"@llvm.vector.reduce.fadd.v{NUM_LANES}{'f32' if self.kind == 'float' else 'f64'}"

    def calculated(self, name: str, a: str, b: str, kind: str = "") -> str:
        """Emit one operation in the dtype, or on vectors of it."""
        return self.new(f"f{name} {kind or self.kind} {a}, {b}")

    def loaded(self, array: str, place: str, kind: str) -> str:
        """Emit the load of an element, or of a vector."""
        size = 4 if self.kind == "float" else 8
        return self.new(f"load {kind}, ptr {self.at(self.kind, self.of[array], place)}, align {size}")

    def splat(self, value: str) -> str:
        """Emit a vector whose lanes all have a value."""
        one = self.new(f"insertelement {self.lanes} poison, {self.kind} {value}, i64 0")
        zeros = f"<{NUM_LANES} x i32> zeroinitializer"
        return self.new(f"shufflevector {self.lanes} {one}, {self.lanes} poison, {zeros}")

    def sums(self, count: int, terms: Callable[[str, str], list[str]]) -> list[str]:
        """Emit sums along a row in float64.

        Args:
            count: Number of sums.
            terms: Function that emits the terms at a column, as the given type.
        """
        kind, step = self.lanes, NUM_LANES * VECTORS
        totals = [self.variable("double", "0.0") for _ in range(count)]

        def add(sums: list[str], i: str, kind: str) -> None:
            for each, term in zip(sums, terms(i, kind), strict=True):
                self.do(
                    f"store {kind} {self.calculated('add', self.read(each, kind), term, kind)}, ptr {each}"
                )

        with self.loop("0", self.n["n"], PIECE) as piece:
            left = self.new(f"sub i64 {self.n['n']}, {piece}")
            length = self.new(f"call i64 @llvm.smin.i64(i64 {left}, i64 {PIECE})")
            whole = self.add(piece, self.new(f"and i64 {length}, -{step}"))
            vectors = [[self.variable(kind, "zeroinitializer") for _ in totals] for _ in range(VECTORS)]
            rests = [self.variable(self.kind, "0.0") for _ in totals]
            with self.loop(piece, whole, step) as i:
                for v, sums in enumerate(vectors):
                    add(sums, self.add(i, str(NUM_LANES * v)), kind)
            with self.loop(whole, self.add(piece, length)) as i:
                add(rests, i, self.kind)
            for t, total in enumerate(totals):
                lanes = [self.read(sums[t], kind) for sums in vectors]
                low, high = (self.calculated("add", lanes[v], lanes[v + 1], kind) for v in (0, 2))
                both = self.calculated("add", low, high, kind)
                made = self.new(f"call {self.kind} {self.reduced}({self.kind} 0.0, {kind} {both})")
                made = self.wide(self.calculated("add", made, self.read(rests[t], self.kind)))
                self.do(f"store double {self.new(f'fadd double {self.read(total)}, {made}')}, ptr {total}")
        return [self.read(total) for total in totals]

    def read(self, variable: str, kind: str = "double") -> str:
        """Emit the load of a variable."""
        return self.new(f"load {kind}, ptr {variable}")

    def declarations(self) -> str:
        """Return the declaration of the sum of lanes."""
        return f"declare {self.kind} {self.reduced}({self.kind}, {self.lanes})\n"
