"""LLVM IR of the gradients of layer_norm and rms_norm, which read each row once into the cache.

A part is some rows with one row of sums, so the sizes alone determine the order of additions. Sums over rows add a few
rows in the dtype, and then in float64.
"""

from __future__ import annotations

from collections.abc import Callable

from ...runtime.cpu.object_code import loop_function
from ..reduction.lane_sums import RowCode

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
        self.wanted = [name for name in ("weight_gradient", "bias_gradient") if name in flags]

    def gap(self, place: str, mean: str | None, kind: str = "") -> str:
        """Emit the input minus the mean."""
        kind = kind or self.kind
        x = self.loaded("x", place, kind)
        return x if mean is None else self.calculated("sub", x, mean, kind)

    def scaled(self, place: str, i: str, kind: str = "") -> str:
        """Emit the gradient times the weight."""
        kind = kind or self.kind
        grad = self.loaded("grad", place, kind)
        if "weight" not in self.flags:
            return grad
        return self.calculated("mul", grad, self.loaded("weight", i, kind), kind)

    def add_to_column(self, which: int, i: str, term: str) -> None:
        """Emit the addition of a term to a column's sum."""
        place = self.add(self.mul(str(which), self.n["n"]), i) if which else i
        kept = self.value("%kept", place)
        self.store(self.calculated("add", kept, term), "%kept", place)

    def row_sums(self, start: str, mean: str | None) -> list[str]:
        """Emit the sums of a row: of gradient times deviation, and of the gradient if there is a mean.

        They are in a loop of their own, so that their bits do not depend on the requested gradients.
        """
        count = 1 if mean is None else 2
        means = None if mean is None else self.splat(mean)

        def terms(i: str, kind: str) -> list[str]:
            place = self.add(start, i)
            scaled = self.scaled(place, i, kind)
            gap = self.gap(place, mean if kind == self.kind else means, kind)
            return [self.calculated("mul", scaled, gap, kind), scaled][:count]

        return self.sums(self.n["n"], count, terms)

    def row(self, row: str) -> None:
        """Emit the gradient of a row, and its terms of the column sums."""
        start = self.mul(row, self.n["n"])
        mean = self.value(self.arrays["means"], row) if "centred" in self.flags else None
        rstd = self.value(self.arrays["rstds"], row)
        slope = shift = None
        if "input_gradient" in self.flags:
            wide, count = self.wide(rstd), self.new(f"sitofp i64 {self.n['n']} to double")
            along, *plain = [
                self.new(f"fdiv double {total}, {count}") for total in self.row_sums(start, mean)
            ]
            cube = self.new(f"fmul double {self.new(f'fmul double {wide}, {wide}')}, {wide}")
            slope = self.narrow(self.new(f"fmul double {cube}, {along}"))
            if plain:
                shift = self.narrow(self.new(f"fmul double {wide}, {plain[0]}"))
        with self.loop("0", self.n["n"]) as i:
            place = self.add(start, i)
            grad, gap = self.value(self.arrays["grad"], place), self.gap(place, mean)
            for which, name in enumerate(self.wanted):
                normal = self.calculated("mul", gap, rstd)
                self.add_to_column(
                    which, i, self.calculated("mul", grad, normal) if name == "weight_gradient" else grad
                )
            if slope is not None:
                made = self.calculated("mul", self.scaled(place, i), rstd)
                made = self.calculated("sub", made, self.calculated("mul", gap, slope))
                self.store(
                    made if shift is None else self.calculated("sub", made, shift), self.arrays["to"], place
                )

    def text(self) -> str:
        """Return the module."""
        size = self.mul(self.n["n"], str(len(self.wanted)))
        place = self.mul(size, self.n["part"])
        self.do(f"%kept = getelementptr {self.kind}, ptr {self.arrays['kept']}, i64 {place}")
        self.do(f"%total = getelementptr double, ptr {self.arrays['sums']}, i64 {place}")
        with self.loop(self.n["first"], self.n["last"], ROWS_PER_PARTIAL_SUM) as begin:
            left = self.new(f"sub i64 {self.n['last']}, {begin}")
            count = self.new(f"call i64 @llvm.smin.i64(i64 {left}, i64 {ROWS_PER_PARTIAL_SUM})")
            if self.wanted:
                with self.loop("0", size) as i:
                    self.store("0.0", "%kept", i)
            with self.loop(begin, self.add(begin, count)) as row:
                self.row(row)
            if self.wanted:
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
