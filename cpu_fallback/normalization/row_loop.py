"""LLVM IR of layer_norm and rms_norm, which read each row once into the cache.

The variance is the mean of squared deviations from the rounded mean. Means, variances and reciprocal roots are
computed in float64.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...runtime.cpu.object_code import loop_function
from ..reduction.lane_sums import Mean, RowCode

NUMBERS = ("first", "last", "n")
"""Numbers of a part: its rows, and their elements."""
ARRAYS = ("x", "eps", "weight", "bias", "out", "means", "rstds")


class _Rows(RowCode):
    """Body of the loop; it does not access missing arrays."""

    def __init__(self, flags: set[str], dtype: str) -> None:
        super().__init__(dtype, {name: f"%p{i}" for i, name in enumerate(ARRAYS)})
        self.flags = flags
        self.n = self.numbers("%g", NUMBERS)

    def rows(self, rows: Sequence[str], eps: str) -> None:
        """Emit the statistics and the normalized elements of some rows."""
        n, starts = self.n["n"], [self.mul(row, self.n["n"]) for row in rows]
        count = self.new(f"sitofp i64 {n} to double")
        means: list[Mean] = [None for _ in rows]
        if "centred" in self.flags:
            totals = self.sums(
                n, len(rows), lambda i, kind: [self.loaded("x", self.add(start, i), kind) for start in starts]
            )
            for r, total in enumerate(totals):
                row_mean = self.narrow(self.new(f"fdiv double {total}, {count}"))
                self.store(row_mean, self.arrays["means"], rows[r])
                means[r] = self.scalar_and_vector(row_mean)

        def squares(i: str, kind: str) -> list[str]:
            made = []
            for start, mean in zip(starts, means, strict=True):
                deviation = self.deviation(self.add(start, i), mean, kind)
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
                made = self.calculated("mul", self.deviation(index, mean), rstd)
                for name, operation in (("weight", "mul"), ("bias", "add")):
                    if name in self.flags:
                        made = self.calculated(operation, made, self.loaded(name, i))
                self.store(made, self.arrays["out"], index)

    def text(self) -> str:
        """Return the module."""
        eps = self.value(self.arrays["eps"], "0", "double")
        count = self.new(f"sub i64 {self.n['last']}, {self.n['first']}")
        for rows in self.rows_at_once(self.n["first"], count):
            self.rows(rows, eps)
        root = "declare double @llvm.sqrt.f64(double)\n"
        return self.module("rows", len(ARRAYS), 3) + root


def row_loop(dtype: str, *flags: str) -> Callable[..., None]:
    """Return the loop ``loop(numbers, x, eps, weight, bias, out, means, rstds)``.

    Args:
        dtype: Dtype of all arrays but `eps`, which has one float64.
        flags: ``centred`` (subtract and write means), ``weight``, ``bias``. A missing array is replaced by any other.
    """
    return loop_function(_Rows(set(flags), dtype).text())
