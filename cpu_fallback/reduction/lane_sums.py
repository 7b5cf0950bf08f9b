"""Sums along rows in an order of additions that is the same on every processor.

A piece of a row is added in the row's dtype, into the lanes of a few vectors, and pieces in float64. `RowCode` emits
these sums for the eager loops of layer_norm and rms_norm, and for the functions that row kernels of `compiler/host`
call. So eager and compiled results are bitwise identical.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ...runtime.cpu.code import FloatCode
from .line_code import VECTORS

PIECE = 2048
"""Elements of a row that are added in the dtype itself."""
NUM_LANES = 8
"""SIMD lanes of each of `VECTORS`; the remainder is added element by element."""


ROWS_AT_ONCE = 2
"""Rows whose sums are in registers together, since an addition waits for the one before it."""

Mean = dict[str, str] | None
"""A row's mean as a scalar and as a vector, by type, or None if none is subtracted."""


class RowCode(FloatCode):
    """Body of a loop over rows, with sums along a row.

    Args:
        dtype: ``float32`` or ``float64``.
        arrays: Pointers to the arrays, by name.
    """

    def __init__(self, dtype: str, arrays: dict[str, str]) -> None:
        super().__init__(dtype)
        self.arrays = arrays
        self.vector = f"<{NUM_LANES} x {self.kind}>"

    def calculated(self, name: str, a: str, b: str, kind: str = "") -> str:
        """Emit one operation in the dtype, or on vectors of it."""
        return self.new(f"f{name} {kind or self.kind} {a}, {b}")

    def loaded(self, array: str, index: str, kind: str = "") -> str:
        """Emit the load of an element, or of a vector."""
        size = 4 if self.kind == "float" else 8
        pointer = self.at(self.kind, self.arrays[array], index)
        return self.new(f"load {kind or self.kind}, ptr {pointer}, align {size}")

    def scalar_and_vector(self, value: str) -> dict[str, str]:
        """Emit a vector whose lanes all have a value; return both by their types."""
        one = self.new(f"insertelement {self.vector} poison, {self.kind} {value}, i64 0")
        return {self.kind: value, self.vector: self._lanes(one, [0] * NUM_LANES)}

    def deviation(self, index: str, mean: Mean, kind: str = "") -> str:
        """Emit the input ``x`` minus the mean of its row."""
        x = self.loaded("x", index, kind)
        return x if mean is None else self.calculated("sub", x, mean[kind or self.kind], kind)

    def rows_at_once(self, first: str, count: str) -> Iterator[list[str]]:
        """Emit loops over rows, `ROWS_AT_ONCE` in an iteration, and over the remainder; yield the rows of each body."""
        for step, begin, end in self.in_steps(count, (ROWS_AT_ONCE, 1)):
            with self.loop(begin, end, step) as i:
                row = self.add(first, i)
                yield [self.add(row, str(r)) for r in range(step)]

    def sums(self, n: str, count: int, terms: Callable[[str, str], Sequence[str]]) -> list[str]:
        """Emit sums along a row in float64.

        Args:
            n: Number of elements of the row.
            count: Number of sums.
            terms: Function that emits the terms at an index, as values of a scalar or vector type.
        """
        step = NUM_LANES * VECTORS
        totals = [self.variable("double", "0.0") for _ in range(count)]

        def add(sums: Sequence[str], index: str, kind: str) -> None:
            for each, term in zip(sums, terms(index, kind), strict=True):
                self.do(
                    f"store {kind} {self.calculated('add', self.read(each, kind), term, kind)}, ptr {each}"
                )

        with self.loop("0", n, PIECE) as piece:
            left = self.new(f"sub i64 {n}, {piece}")
            length = self.new(f"call i64 @llvm.smin.i64(i64 {left}, i64 {PIECE})")
            whole = self.add(piece, self.new(f"and i64 {length}, -{step}"))
            vectors = [
                [self.variable(self.vector, "zeroinitializer") for _ in totals] for _ in range(VECTORS)
            ]
            rests = [self.variable(self.kind, "0.0") for _ in totals]
            with self.loop(piece, whole, step) as i:
                for v, sums in enumerate(vectors):
                    add(sums, self.add(i, str(NUM_LANES * v)), self.vector)
            with self.loop(whole, self.add(piece, length)) as i:
                add(rests, i, self.kind)
            for t, total in enumerate(totals):
                made = self._lane_total([self.read(sums[t], self.vector) for sums in vectors])
                made = self.wide(self.calculated("add", made, self.read(rests[t], self.kind)))
                self.do(f"store double {self.new(f'fadd double {self.read(total)}, {made}')}, ptr {total}")
        return [self.read(total) for total in totals]

    def read(self, variable: str, kind: str = "double") -> str:
        """Emit the load of a variable."""
        return self.new(f"load {kind}, ptr {variable}")

    def _lane_total(self, vectors: Sequence[str]) -> str:
        """Emit the sum of all lanes: of adjacent vectors, and then of a vector's lower and upper halves."""
        while len(vectors) > 1:
            pairs = zip(vectors[::2], vectors[1::2], strict=True)
            vectors = [self.calculated("add", a, b, self.vector) for a, b in pairs]
        (total,), width = vectors, NUM_LANES
        while width > 1:
            width //= 2
            upper = self._lanes(total, [*range(width, 2 * width), *[-1] * (NUM_LANES - width)])
            total = self.calculated("add", total, upper, self.vector)
        return self.new(f"extractelement {self.vector} {total}, i64 0")

    def _lanes(self, vector: str, lanes: Sequence[int]) -> str:
        """Emit a selection of a vector's lanes, where -1 is any value."""
        mask = ", ".join("i32 poison" if lane < 0 else f"i32 {lane}" for lane in lanes)
        return self.new(
            f"shufflevector {self.vector} {vector}, {self.vector} poison, <{len(lanes)} x i32> <{mask}>"
        )


def lane_sum(name: str) -> str:
    """Return ``double @lane_sum(ptr, i64)``, or ``@lane_dot(ptr, ptr, i64)``, of rows of float32."""
    rows = "xy" if name == "lane_dot" else "x"
    code = RowCode("float32", {row: f"%{row}" for row in rows})

    def terms(index: str, kind: str) -> list[str]:
        x, *y = [code.loaded(row, index, kind) for row in rows]
        return [code.calculated("mul", x, y[0], kind) if y else x]

    (total,) = code.sums("%n", 1, terms)
    parameters = ", ".join([*(f"ptr nocapture readonly %{row}" for row in rows), "i64 %n"])
    text = code.function(name, parameters, "noinline", f"double {total}")
    return text + "declare i64 @llvm.smin.i64(i64, i64)\n"
