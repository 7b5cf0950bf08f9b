"""LLVM IR of layer_norm and rms_norm, which read each row once into the cache.

The variance is the mean of squared deviations from the rounded mean. Means, variances and reciprocal roots are
computed in float64.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...runtime.cpu.object_code import loop_function
from ..reduction.lane_sums import RowCode

NUMBERS = ("first", "last", "n")
"""Numbers of a part: its rows, and their elements."""
ARRAYS = ("x", "eps", "weight", "bias", "out", "means", "rstds")
ROWS_AT_ONCE = 2
"""Rows whose sums are in registers together, since an addition waits for the one before it."""


class _Rows(RowCode):
    """Body of the loop; it does not access missing arrays."""

    def __init__(self, flags: set[str], dtype: str) -> None:
        super().__init__(dtype, {name: f"%p{i}" for i, name in enumerate(ARRAYS)})
        self.flags = flags
        self.n = self.numbers("%g", NUMBERS)

    def deviation(self, index: str, mean: str | None, kind: str) -> str:
        """Emit the input minus the mean."""
        x = self.loaded("x", index, kind)
        return x if mean is None else self.calculated("sub", x, mean, kind)

    def rows(self, rows: Sequence[str], eps: str) -> None:
        """Emit the statistics and the normalized elements of some rows."""
        n, starts = self.n["n"], [self.mul(row, self.n["n"]) for row in rows]
        count = self.new(f"sitofp i64 {n} to double")
        means: list[dict[str, str] | None] = [None for _ in rows]
        if "centred" in self.flags:
            totals = self.sums(
                n, len(rows), lambda i, kind: [self.loaded("x", self.add(start, i), kind) for start in starts]
            )
            for r, total in enumerate(totals):
                mean = self.narrow(self.new(f"fdiv double {total}, {count}"))
                self.store(mean, self.arrays["means"], rows[r])
                means[r] = {self.kind: mean, self.vector: self.splat(mean)}

        def squares(i: str, kind: str) -> list[str]:
            made = []
            for start, mean in zip(starts, means, strict=True):
                deviation = self.deviation(self.add(start, i), None if mean is None else mean[kind], kind)
                made.append(self.calculated("mul", deviation, deviation, kind))
            return made

        for row, start, mean, total in zip(
            rows, starts, means, self.sums(n, len(rows), squares), strict=True
        ):
            variance = self.new(f"fdiv double {total}, {count}")
            root = self.new(
                f"call double @llvm.sqrt.f64(double {self.new(f'fadd double {variance}, {eps}')})"
            )
            rstd = self.narrow(self.new(f"fdiv double 1.0, {root}"))
            self.store(rstd, self.arrays["rstds"], row)
            with self.loop("0", n) as i:
                index = self.add(start, i)
                made = self.deviation(index, None if mean is None else mean[self.kind], self.kind)
                made = self.calculated("mul", made, rstd)
                for name, operation in (("weight", "mul"), ("bias", "add")):
                    if name in self.flags:
                        made = self.calculated(operation, made, self.loaded(name, i))
                self.store(made, self.arrays["out"], index)

    def text(self) -> str:
        """Return the module."""
        eps = self.value(self.arrays["eps"], "0", "double")
        total = self.new(f"sub i64 {self.n['last']}, {self.n['first']}")
        for step, first, last in self.in_steps(total, (ROWS_AT_ONCE, 1)):
            with self.loop(first, last, step) as i:
                row = self.add(self.n["first"], i)
                self.rows([self.add(row, str(r)) for r in range(step)], eps)
        root = "declare double @llvm.sqrt.f64(double)\n"
        return self.module("rows", len(ARRAYS), 3) + root


def row_loop(dtype: str, *flags: str) -> Callable[..., None]:
    """Return the loop ``loop(numbers, x, eps, weight, bias, out, means, rstds)``.

    Args:
        dtype: Dtype of all arrays but `eps`, which has one float64.
        flags: ``centred`` (subtract and write means), ``weight``, ``bias``. A missing array is replaced by any other.
    """
    return loop_function(_Rows(set(flags), dtype).text())
