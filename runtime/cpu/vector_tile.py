"""Tiles of sums that stay in vector registers while terms are added to them, in LLVM's text."""

from __future__ import annotations

from collections.abc import Sequence

from .code import Code


class Shape:
    """The vectors of a dtype, and the tiles that fit into a processor's registers.

    Args:
        dtype: ``float32`` or ``float64``.
        bits: of a vector.
        registers: how many there are.
    """

    def __init__(self, dtype: str, bits: int, registers: int) -> None:
        self.kind = {"float32": "float", "float64": "double"}[dtype]
        self.registers = registers
        self.lanes = bits // (32 if dtype == "float32" else 64)
        self.vector = f"<{self.lanes} x {self.kind}>"
        suffix = "f32" if dtype == "float32" else "f64"
        self.fused = f"@llvm.fma.v{self.lanes}{suffix}"
        self.summed = f"@llvm.vector.reduce.fadd.v{self.lanes}{suffix}"
        has_many_registers = registers >= 32
        self.tiles = {8: 3, 4: 6, 2: 8, 1: 8} if has_many_registers else {4: 3, 2: 5, 1: 8}
        """Vectors of positions by rows of a tile."""
        self.sums = (
            {8: (3, 1), 4: (3, 1), 2: (3, 1), 1: (9, 3, 1)}
            if has_many_registers
            else {4: (3, 1), 2: (3, 1), 1: (9, 3, 1)}
        )
        """Taps of a tile of sums by rows."""

    @property
    def declarations(self) -> str:
        """Declarations of LLVM intrinsics."""
        v, k = self.vector, self.kind
        return (
            f"declare {v} {self.fused}({v}, {v}, {v})\n"
            f"declare {k} {self.summed}({k}, {v})\n"
            "declare i64 @llvm.smin.i64(i64, i64)\ndeclare i64 @llvm.smax.i64(i64, i64)\n"
            "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)\n"
            '!0 = distinct !{!0, !1}\n!1 = !{!"llvm.loop.unroll.disable"}\n'
        )

    @property
    def size(self) -> int:
        """Bytes of an element."""
        return 4 if self.kind == "float" else 8


class VectorTile:
    """Sums of some rows and neighbouring columns, a whole number of vectors of these.

    Args:
        code: the function that it is in.
        shape: of the vectors.
        rows: of the tile.
        vectors: of each row.
    """

    def __init__(self, code: Code, shape: Shape, rows: int, vectors: int) -> None:
        self.code, self.shape = code, shape
        self.sums = [
            [code.variable(shape.vector, "zeroinitializer") for _ in range(vectors)] for _ in range(rows)
        ]

    def rows_of(self, first: str, stride: str) -> list[str]:
        """Emit the pointers to rows at a stride."""
        code = self.code
        return [code.at(self.shape.kind, first, code.mul(stride, str(row))) for row in range(len(self.sums))]

    def add(self, factors: Sequence[tuple[str, str]], source: str) -> None:
        """Add to each row its factor, which is an element of an array, times the vectors at `source`."""
        code, v, kind, lanes = self.code, self.shape.vector, self.shape.kind, self.shape.lanes
        met = [self._vector(source, j) for j in range(len(self.sums[0]))]
        for (base, index), sums in zip(factors, self.sums, strict=True):
            number = code.new(f"load {kind}, ptr {code.at(kind, base, index)}")
            first = code.new(f"insertelement {v} poison, {kind} {number}, i64 0")
            factor = code.new(f"shufflevector {v} {first}, {v} poison, <{lanes} x i32> zeroinitializer")
            for total, vector in zip(sums, met, strict=True):
                old = code.new(f"load {v}, ptr {total}")
                new = code.new(f"call {v} {self.shape.fused}({v} {factor}, {v} {vector}, {v} {old})")
                code.do(f"store {v} {new}, ptr {total}")

    def store(self, first: str, stride: str, adds: str) -> None:
        """Emit stores of the sums to rows at a stride, or add them to the stored values."""
        code, v = self.code, self.shape.vector
        for sums, target in zip(self.sums, self.rows_of(first, stride), strict=True):
            for j, total in enumerate(sums):
                made, old = code.new(f"load {v}, ptr {total}"), self._vector(target, j)
                before = code.new(f"select i1 {adds}, {v} {old}, {v} zeroinitializer")
                address = code.at(self.shape.kind, target, str(j * self.shape.lanes))
                code.do(
                    f"store {v} {code.new(f'fadd {v} {before}, {made}')}, ptr {address}, align {self.shape.size}"
                )

    def _vector(self, base: str, j: int) -> str:
        """Emit the load of the `j`-th vector from an address."""
        address = self.code.at(self.shape.kind, base, str(j * self.shape.lanes))
        return self.code.new(f"load {self.shape.vector}, ptr {address}, align {self.shape.size}")
