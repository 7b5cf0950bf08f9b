"""LLVM IR of layer_norm and rms_norm, which read each row once into the cache.

The variance is the mean of squared deviations from the rounded mean. Means, variances and reciprocal roots are
computed in float64.
"""

from __future__ import annotations

from collections.abc import Callable

from ...runtime.cpu.object_code import loop_function
from .row_code import RowCode

NUMBERS = ("first", "last", "n")
"""Numbers of a part: its rows, and their elements."""
ARRAYS = ("x", "eps", "weight", "bias", "out", "means", "rstds")


class _Rows(RowCode):
    """Body of the loop; it does not access missing arrays."""

    def __init__(self, flags: set[str], dtype: str) -> None:
        super().__init__(dtype, NUMBERS, ARRAYS)
        self.flags = flags

    def gap(self, place: str, mean: str | None, kind: str) -> str:
        """Emit the input minus the mean."""
        x = self.loaded("x", place, kind)
        return x if mean is None else self.calculated("sub", x, mean, kind)

    def row(self, row: str, eps: str) -> None:
        """Emit a row's statistics and its normalized elements."""
        start = self.mul(row, self.n["n"])
        count = self.new(f"sitofp i64 {self.n['n']} to double")
        mean = means = None
        if "centred" in self.flags:
            (total,) = self.sums(1, lambda i, kind: [self.loaded("x", self.add(start, i), kind)])
            mean = self.narrow(self.new(f"fdiv double {total}, {count}"))
            means = self.splat(mean)
            self.store(mean, self.of["means"], row)

        def squared(i: str, kind: str) -> list[str]:
            gap = self.gap(self.add(start, i), mean if kind == self.kind else means, kind)
            return [self.calculated("mul", gap, gap, kind)]

        (squares,) = self.sums(1, squared)
        variance = self.new(f"fdiv double {squares}, {count}")
        root = self.new(f"call double @llvm.sqrt.f64(double {self.new(f'fadd double {variance}, {eps}')})")
        rstd = self.narrow(self.new(f"fdiv double 1.0, {root}"))
        self.store(rstd, self.of["rstds"], row)
        with self.loop("0", self.n["n"]) as i:
            place = self.add(start, i)
            made = self.calculated("mul", self.gap(place, mean, self.kind), rstd)
            for name, operation in (("weight", "mul"), ("bias", "add")):
                if name in self.flags:
                    made = self.calculated(operation, made, self.loaded(name, i, self.kind))
            self.store(made, self.of["out"], place)

    def text(self) -> str:
        """Return the module."""
        eps = self.value(self.of["eps"], "0", "double")
        with self.loop(self.n["first"], self.n["last"]) as row:
            self.row(row, eps)
        root = "declare double @llvm.sqrt.f64(double)\n"
        return self.module("rows", len(ARRAYS), 3) + self.declarations() + root


def row_loop(dtype: str, *flags: str) -> Callable[..., None]:
    """Return the loop ``loop(numbers, x, eps, weight, bias, out, means, rstds)``.

    Args:
        dtype: Dtype of all arrays but `eps`, which has one float64.
        flags: ``centred`` (subtract and write means), ``weight``, ``bias``. A missing array is replaced by any other.
    """
    return loop_function(_Rows(set(flags), dtype).text())
