"""LLVM IR of the gradients of layer_norm and rms_norm, which read each row once into the cache.

A part is some rows with one row of sums, so the sizes alone determine the order of additions. Sums over rows add a few
rows in the dtype, and then in float64.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...runtime.cpu.object_code import loop_function
from ..reduction.lane_sums import Mean, RowCode

ROWS_PER_PARTIAL_SUM = 32
"""Rows that one partial sum adds."""
NUMBERS = ("first", "last", "n", "part")
"""Numbers of a part: its rows, their elements, and the row of sums."""
ARRAYS = ("grad", "x", "means", "rstds", "weight", "to", "kept", "sums")


class _Rows(RowCode):
    """Body of the loop; it does not read missing arrays."""

    def __init__(self, flags: set[str], dtype: str) -> None:
        super().__init__(dtype, {name: f"%p{i}" for i, name in enumerate(ARRAYS)})
        self.n = self.numbers("%g", NUMBERS)
        self.flags = flags
        self.columns = [name for name in ("weight_gradient", "bias_gradient") if name in flags]

    def weighted(self, index: str, column: str, kind: str = "") -> str:
        """Emit the output's gradient times the weight."""
        grad = self.loaded("grad", index, kind)
        if "weight" not in self.flags:
            return grad
        return self.calculated("mul", grad, self.loaded("weight", column, kind), kind)

    def row_sums(self, starts: Sequence[str], means: Sequence[Mean]) -> list[list[str]]:
        """Emit each row's sums: of gradient times deviation, and of the gradient if there is a mean.

        They are in a loop of their own, so that their bits do not depend on the requested gradients.
        """
        count = 2 if "centred" in self.flags else 1

        def terms(column: str, kind: str) -> list[str]:
            made = []
            for start, mean in zip(starts, means, strict=True):
                index = self.add(start, column)
                grad = self.weighted(index, column, kind)
                product = self.calculated("mul", grad, self.deviation(index, mean, kind), kind)
                made += [product, grad][:count]
            return made

        totals = self.sums(self.n["n"], count * len(starts), terms)
        return [totals[i : i + count] for i in range(0, len(totals), count)]

    def factors(self, rstd: str, sums: Sequence[str]) -> list[str]:
        """Emit the factor of a row's deviations, and what is subtracted from all elements if there is a mean."""
        wide, count = self.wide(rstd), self.new(f"sitofp i64 {self.n['n']} to double")
        product, *plain = [self.new(f"fdiv double {total}, {count}") for total in sums]
        cube = self.new(f"fmul double {self.new(f'fmul double {wide}, {wide}')}, {wide}")
        made = [self.new(f"fmul double {cube}, {product}")]
        made += [self.new(f"fmul double {wide}, {mean}") for mean in plain]
        return [self.narrow(each) for each in made]

    def rows(self, rows: Sequence[str]) -> None:
        """Emit the gradients of some rows, and their terms of the column sums, one row after another."""
        starts = [self.mul(row, self.n["n"]) for row in rows]
        rstds = [self.value(self.arrays["rstds"], row) for row in rows]
        means: list[Mean] = [None for _ in rows]
        if "centred" in self.flags:
            means = [self.scalar_and_vector(self.value(self.arrays["means"], row)) for row in rows]
        factors: list[list[str]] = [[] for _ in rows]
        if "input_gradient" in self.flags:
            sums = self.row_sums(starts, means)
            factors = [self.factors(*each) for each in zip(rstds, sums, strict=True)]
        with self.loop("0", self.n["n"]) as column:
            offsets = [self.add(self.mul(str(c), self.n["n"]), column) for c in range(len(self.columns))]
            partial_sums = [self.value("%kept", offset) for offset in offsets]
            for start, mean, rstd, own in zip(starts, means, rstds, factors, strict=True):
                index = self.add(start, column)
                grad, deviation = self.loaded("grad", index), self.deviation(index, mean)
                for c, name in enumerate(self.columns):
                    term = grad
                    if name == "weight_gradient":
                        term = self.calculated("mul", grad, self.calculated("mul", deviation, rstd))
                    partial_sums[c] = self.calculated("add", partial_sums[c], term)
                if own:
                    made = self.calculated("mul", self.weighted(index, column), rstd)
                    made = self.calculated("sub", made, self.calculated("mul", deviation, own[0]))
                    for shift in own[1:]:
                        made = self.calculated("sub", made, shift)
                    self.store(made, self.arrays["to"], index)
            for offset, total in zip(offsets, partial_sums, strict=True):
                self.store(total, "%kept", offset)

    def text(self) -> str:
        """Return the module."""
        size = self.mul(self.n["n"], str(len(self.columns)))
        offset = self.mul(size, self.n["part"])
        self.do(f"%kept = getelementptr {self.kind}, ptr {self.arrays['kept']}, i64 {offset}")
        self.do(f"%total = getelementptr double, ptr {self.arrays['sums']}, i64 {offset}")
        with self.loop(self.n["first"], self.n["last"], ROWS_PER_PARTIAL_SUM) as begin:
            left = self.new(f"sub i64 {self.n['last']}, {begin}")
            count = self.new(f"call i64 @llvm.smin.i64(i64 {left}, i64 {ROWS_PER_PARTIAL_SUM})")
            if self.columns:
                with self.loop("0", size) as i:
                    self.store("0.0", "%kept", i)
            for rows in self.rows_at_once(begin, count):
                self.rows(rows)
            if self.columns:
                with self.loop("0", size) as i:
                    added = self.wide(self.value("%kept", i))
                    old = self.value("%total", i, "double")
                    self.store(self.new(f"fadd double {old}, {added}"), "%total", i, "double")
        return self.module("rows", len(ARRAYS), 3)


def row_gradient_loop(dtype: str, *flags: str) -> Callable[..., None]:
    """Return the loop ``loop(numbers, grad, x, means, rstds, weight, to, kept, sums)``.

    Args:
        dtype: Dtype of all arrays but `sums`, (parts, kinds, n) of float64, initially zero. `kept` has the same sizes.
        flags: ``centred`` (there are means), ``weight``, and the requested ``input_gradient``, ``weight_gradient``,
            ``bias_gradient``. A missing array is replaced by any other.
    """
    return loop_function(_Rows(set(flags), dtype).text())
