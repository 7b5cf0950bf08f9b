"""LLVM IR of a function that reduces a line of float32, in basic blocks whose values have names."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...runtime.cpu.code import Code

VECTORS = 4
"""Vectors that are added side by side."""


class LineCode(Code):
    """Lines of a function of a line, ``%x``, of ``%n`` elements.

    Args:
        symbol: The function's name.
        arguments: Its parameters.
    """

    def __init__(self, symbol: str, arguments: str = "ptr %x, i64 %n") -> None:
        super().__init__()
        self.symbol = symbol
        self.arguments = arguments

    def end(self, result: str) -> str:
        """Return the whole function, which returns a value, written with its type."""
        return self.function(self.symbol, self.arguments, "noinline", result)

    def loaded(self, kind: str, pointer: str, index: str) -> str:
        """Emit the load of a number or a vector at an element of float32."""
        address = self.new(f"getelementptr float, ptr {pointer}, i64 {index}")
        return self.new(f"load {kind}, ptr {address}, align 1")

    def lanes(self, value: str, width: int, lane_indices: Sequence[int]) -> str:
        """Emit the selection of some lanes of a vector."""
        mask = ", ".join(f"i32 {lane}" for lane in lane_indices)
        return self.new(
            f"shufflevector <{width} x float> {value}, <{width} x float> poison, <{len(lane_indices)} x i32> <{mask}>"
        )

    def added(self, kind: str, a: str, b: str, name: str = "") -> str:
        """Emit a + b."""
        return self.new(f"fadd {kind} {a}, {b}", name)

    def step(self, index: str, name: str, count: int, end: str, body_label: str, exit_label: str) -> None:
        """End a block that runs again `count` elements further on, until the end."""
        self.new(f"add i64 {index}, {count}", name)
        self.go(f"i1 {self.new(f'icmp ult i64 {name}, {end}')}, label %{body_label}, label %{exit_label}")

    def folded(self, value: str, width: int) -> str:
        """Emit the sum of a vector's lower and upper halves."""
        half = width // 2
        low, high = self.lanes(value, width, range(half)), self.lanes(value, width, range(half, width))
        return self.added(f"<{half} x float>", low, high)

    def of_four(self, value: str) -> str:
        """Emit the sum of four lanes: of adjacent pairs, then of the two sums."""
        even, odd = self.lanes(value, 4, (0, 2)), self.lanes(value, 4, (1, 3))
        pairs = self.added("<2 x float>", even, odd)
        first, second = (self.new(f"extractelement <2 x float> {pairs}, i64 {i}") for i in (0, 1))
        return self.added("float", first, second)

    def vectors_added(
        self, kind: str, lanes: int, bounds: tuple[str, str, str], term: Callable[[str, str], str]
    ) -> str:
        """Emit a loop that sums the terms of four vectors at a time, from label ``vectors`` to ``enough``, as one
        vector.

        Args:
            kind: The vectors' type.
            lanes: The number of lanes of the type.
            bounds: The first element, the label before the loop, and the end.
            term: Function from a type and an index to the summand.
        """
        start, before, end = bounds
        self.label("vectors")
        i = self.new(f"phi i64 [{start}, %{before}], [%i_next, %vectors]")
        sums = self._lane_sums(kind, before)
        for j, total in enumerate(sums):
            self.added(kind, total, term(kind, self.new(f"add i64 {i}, {lanes * j}")), f"%v{j}")
        self.step(i, "%i_next", lanes * VECTORS, end, "vectors", "enough")
        self.label("enough")
        sums = self._lane_sums(kind, before)
        return self.added(kind, self.added(kind, *sums[:2]), self.added(kind, *sums[2:]))

    def _lane_sums(self, kind: str, before: str) -> list[str]:
        return [
            self.new(f"phi {kind} [zeroinitializer, %{before}], [%v{j}, %vectors]") for j in range(VECTORS)
        ]
