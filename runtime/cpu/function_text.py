"""The text of a function of LLVM's that reduces a row of float32, line by line."""

from __future__ import annotations

from collections.abc import Callable, Sequence

VECTORS = 4
"""Vectors that are added side by side."""


class FunctionText:
    """The text of a function, line by line; names are its own."""

    def __init__(self, head: str) -> None:
        self.lines = [f"define internal {head} noinline {{", "entry:"]
        self.count = 0
        self.block = "entry"

    def let(self, text: str, name: str = "") -> str:
        """Emit a new value."""
        self.count += 1
        name = name or f"%t{self.count}"
        self.lines.append(f"  {name} = {text}")
        return name

    def label(self, name: str) -> None:
        """Begin a block."""
        self.lines.append(f"{name}:")
        self.block = name

    def go(self, text: str) -> None:
        """End a block."""
        self.lines.append(f"  br {text}")

    def end(self, text: str) -> str:
        """Return the whole function text, which returns a value."""
        return "\n".join([*self.lines, f"  ret {text}", "}"]) + "\n"

    def loaded(self, kind: str, pointer: str, index: str) -> str:
        """Emit the load of a number or a vector at an element of float32."""
        address = self.let(f"getelementptr float, ptr {pointer}, i64 {index}")
        return self.let(f"load {kind}, ptr {address}, align 1")

    def lanes(self, value: str, width: int, lane_indices: Sequence[int]) -> str:
        """Emit the selection of some lanes of a vector."""
        mask = ", ".join(f"i32 {lane}" for lane in lane_indices)
        return self.let(
            f"shufflevector <{width} x float> {value}, <{width} x float> poison, <{len(lane_indices)} x i32> <{mask}>"
        )

    def added(self, kind: str, a: str, b: str, name: str = "") -> str:
        """Emit a + b."""
        return self.let(f"fadd {kind} {a}, {b}", name)

    def step(self, index: str, name: str, count: int, end: str, body_label: str, exit_label: str) -> None:
        """End a block that runs again `count` elements further on, until the end."""
        self.let(f"add i64 {index}, {count}", name)
        self.go(f"i1 {self.let(f'icmp ult i64 {name}, {end}')}, label %{body_label}, label %{exit_label}")

    def folded(self, value: str, width: int) -> str:
        """Emit the sum of a vector's lower and upper halves."""
        half = width // 2
        low, high = self.lanes(value, width, range(half)), self.lanes(value, width, range(half, width))
        return self.added(f"<{half} x float>", low, high)

    def of_four(self, value: str) -> str:
        """Emit the sum of four lanes: of adjacent pairs, then of the two sums."""
        even, odd = self.lanes(value, 4, (0, 2)), self.lanes(value, 4, (1, 3))
        pairs = self.added("<2 x float>", even, odd)
        first, second = (self.let(f"extractelement <2 x float> {pairs}, i64 {i}") for i in (0, 1))
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
        i = self.let(f"phi i64 [{start}, %{before}], [%i_next, %vectors]")
        sums = self._lane_sums(kind, before)
        for j, total in enumerate(sums):
            self.added(kind, total, term(kind, self.let(f"add i64 {i}, {lanes * j}")), f"%v{j}")
        self.step(i, "%i_next", lanes * VECTORS, end, "vectors", "enough")
        self.label("enough")
        sums = self._lane_sums(kind, before)
        return self.added(kind, self.added(kind, *sums[:2]), self.added(kind, *sums[2:]))

    def _lane_sums(self, kind: str, before: str) -> list[str]:
        return [
            self.let(f"phi {kind} [zeroinitializer, %{before}], [%v{j}, %vectors]") for j in range(VECTORS)
        ]
