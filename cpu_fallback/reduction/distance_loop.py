"""LLVM IR of distances between rows and of their gradients, of order 1, 2 or infinity.

A distance is reduced over the differences of two rows: in lanes of the dtype in pieces of `PIECE`, whose sums are
float64. The gradient of a row adds the directions from all other rows, in order and in float64. Its rows are
independent, also those of `pdist`, which visits each pair from both of its rows.
"""

from __future__ import annotations

from collections.abc import Callable

from ...runtime.cpu.code import FloatCode
from ...runtime.cpu.object_code import loop_function

NUMBERS = ("first", "last", "rows", "others", "columns")
"""Numbers of a part: its rows; rows of each matrix of both batches, and their elements."""
PIECE = 512
"""Elements whose sums are in the dtype."""
ORDERS = {1.0: "sum", 2.0: "euclidean", float("inf"): "maximum"}
"""Names of the orders with loops."""
BITS = {"float": ("i32", 2**31 - 1), "double": ("i64", 2**63 - 1)}
"""Integer of a float's bits, and the mask of all bits but the sign."""


class _Distances(FloatCode):
    """Body of a loop.

    Args:
        order: A value of `ORDERS`.
        dtype: ``float32`` or ``float64``.
        is_pairs: True for the pairs of the rows of one matrix, in the order of `pdist`.
    """

    def __init__(self, order: str, dtype: str, is_pairs: bool) -> None:
        super().__init__(dtype)
        self.order, self.is_pairs = order, is_pairs
        self.integer, self.mask = BITS[self.kind]
        self.n = self.numbers("%g", NUMBERS)

    def pair(self, i: str, j: str) -> str:
        """Emit the position of the pair of rows i < j."""
        # The rows before i have n - 1, n - 2, ... pairs.
        twice = self.mul(self.n["others"], "2")
        before = self.mul(i, self.new(f"sub i64 {self.new(f'sub i64 {twice}, {i}')}, 1"))
        return self.new(
            f"sub i64 {self.add(self.new(f'sdiv i64 {before}, 2'), self.new(f'sub i64 {j}, {i}'))}, 1"
        )

    def row(self, matrix: str, index: str) -> str:
        """Emit the pointer to a row."""
        return self.at(self.kind, matrix, self.mul(index, self.n["columns"]))

    def difference(self, a: str, b: str, k: str) -> str:
        """Emit a difference of two rows."""
        return self.new(f"fsub {self.kind} {self.value(a, k)}, {self.value(b, k)}")

    def size_bits(self, value: str) -> str:
        """Emit the bits of an absolute value, whose order is that of the values, with NaN as the largest."""
        bits = self.new(f"bitcast {self.kind} {value} to {self.integer}")
        return self.new(f"and {self.integer} {bits}, {self.mask}")

    def distance(self, a: str, b: str) -> str:
        """Emit the distance of two rows."""
        columns = self.n["columns"]
        if self.order == "maximum":
            best = self.variable(self.integer, "0")
            with self.loop("0", columns) as k:
                bits = self.size_bits(self.difference(a, b, k))
                old = self.new(f"load {self.integer}, ptr {best}")
                larger = self.new(f"icmp sgt {self.integer} {bits}, {old}")
                kept = self.new(f"select i1 {larger}, {self.integer} {bits}, {self.integer} {old}")
                self.do(f"store {self.integer} {kept}, ptr {best}")
            return self.new(
                f"bitcast {self.integer} {self.new(f'load {self.integer}, ptr {best}')} to {self.kind}"
            )
        total = self.variable("double", "0.0")
        with self.loop("0", columns, PIECE) as start:
            left = self.new(f"sub i64 {columns}, {start}")
            length = self.new(f"call i64 @llvm.smin.i64(i64 {left}, i64 {PIECE})")
            own, other = (self.at(self.kind, each, start) for each in (a, b))

            def terms(k: str) -> list[str]:
                gap = self.difference(own, other, k)
                if self.order == "sum":
                    return [self.new(f"call {self.kind} @llvm.fabs.{self.suffix}({self.kind} {gap})")]
                return [self.new(f"fmul {self.kind} {gap}, {gap}")]

            self.add_piece([total], length, terms)
        made = self.new(f"load double, ptr {total}")
        if self.order == "euclidean":
            made = self.new(f"call double @llvm.sqrt.f64(double {made})")
        return self.narrow(made)

    @property
    def suffix(self) -> str:
        """Suffix of the dtype's intrinsics."""
        return "f32" if self.kind == "float" else "f64"

    def forward(self) -> None:
        """Emit the distances of some rows: ``loop(numbers, x1, x2, out)``."""
        with self.loop(self.n["first"], self.n["last"]) as r:
            matrix = self.new(f"sdiv i64 {r}, {self.n['rows']}")
            other = self.row("%p1", self.mul(matrix, self.n["others"]))
            own, begin = self.row("%p0", r), self.add(r, "1") if self.is_pairs else "0"
            with self.loop(begin, self.n["others"]) as j:
                at = self.pair(r, j) if self.is_pairs else self.add(self.mul(r, self.n["others"]), j)
                self.store(self.distance(own, self.row(other, j)), "%p2", at)

    def sign(self, gap: str) -> str:
        """Emit the sign of a difference; NaN and zeros are their own."""
        zero = "0.0"
        above = self.new(f"fcmp ogt {self.kind} {gap}, {zero}")
        below = self.new(f"fcmp olt {self.kind} {gap}, {zero}")
        made = self.new(f"select i1 {below}, {self.kind} -1.0, {self.kind} {gap}")
        return self.new(f"select i1 {above}, {self.kind} 1.0, {self.kind} {made}")

    def slope(self, gap: str, grad: str, distance: str) -> str:
        """Emit the gradient of a distance with respect to one difference."""
        if self.order == "euclidean":
            product = self.new(f"fmul {self.kind} {grad}, {gap}")
            return self.new(f"fdiv {self.kind} {product}, {distance}")
        made = self.new(f"fmul {self.kind} {grad}, {self.sign(gap)}")
        if self.order == "sum":
            return made
        size = self.new(f"call {self.kind} @llvm.fabs.{self.suffix}({self.kind} {gap})")
        is_largest = self.new(f"fcmp oeq {self.kind} {size}, {distance}")
        # A product with 0 keeps a gradient that is NaN or infinite, as the composite's does.
        factor = self.new(f"select i1 {is_largest}, {self.kind} 1.0, {self.kind} 0.0")
        return self.new(f"fmul {self.kind} {made}, {factor}")

    def add_slopes(self, own: str, other: str, at: str) -> None:
        """Emit the additions of the gradient of one distance to a row's sums."""
        grad, distance = self.value("%p2", at), self.value("%p3", at)

        def every() -> None:
            with self.loop("0", self.n["columns"]) as k:
                slope = self.wide(self.slope(self.difference(own, other, k), grad, distance))
                old = self.value("%p4", k, "double")
                self.store(self.new(f"fadd double {old}, {slope}"), "%p4", k, "double")

        if self.order != "euclidean":
            every()
            return
        with self.when(self.new(f"fcmp une {self.kind} {distance}, 0.0")):
            every()

    def backward(self) -> None:
        """Emit the gradients of some rows: ``loop(numbers, x1, x2, grad, distances, sums, out)``."""
        columns, others = self.n["columns"], self.n["others"]
        with self.loop(self.n["first"], self.n["last"]) as r:
            with self.loop("0", columns) as k:
                self.store("0.0", "%p4", k, "double")
            matrix = self.new(f"sdiv i64 {r}, {self.n['rows']}")
            other, own = self.row("%p1", self.mul(matrix, others)), self.row("%p0", r)
            if self.is_pairs:
                with self.loop("0", r) as j:
                    self.add_slopes(own, self.row(other, j), self.pair(j, r))
                with self.loop(self.add(r, "1"), others) as j:
                    self.add_slopes(own, self.row(other, j), self.pair(r, j))
            else:
                with self.loop("0", others) as j:
                    self.add_slopes(own, self.row(other, j), self.add(self.mul(r, others), j))
            out = self.row("%p5", r)
            with self.loop("0", columns) as k:
                self.store(self.narrow(self.value("%p4", k, "double")), out, k)


def distance_loop(order: str, dtype: str, is_pairs: bool, is_backward: bool) -> Callable[..., None]:
    """Return the compiled loop of an order, a value of `ORDERS`, and of a dtype."""
    code = _Distances(order, dtype, is_pairs)
    if is_backward:
        code.backward()
        text = code.module("distances", 6, 2)
    else:
        code.forward()
        text = code.module("distances", 3, 1)
    intrinsics = (
        f"declare double @llvm.sqrt.f64(double)\ndeclare {code.kind} @llvm.fabs.{code.suffix}({code.kind})\n"
    )
    return loop_function(text + intrinsics)
