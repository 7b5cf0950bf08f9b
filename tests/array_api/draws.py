"""Arguments for functions of the standard, drawn as NumPy arrays and Python numbers from a seeded generator."""

from dataclasses import dataclass
from typing import Any

import numpy as np

SPECIAL = (0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 0.5, -2.0, 3.0, 1e-30, 1e30)
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
REALS = ("float32", "float64")
COMPLEX = ("complex64", "complex128")
KINDS = {
    "all": ("bool", *INTEGERS, *REALS, *COMPLEX),
    "numeric": (*INTEGERS, *REALS, *COMPLEX),
    "real numeric": (*INTEGERS, *REALS),
    "integer": INTEGERS,
    "integer or bool": ("bool", *INTEGERS),
    "bool": ("bool",),
    "real floating-point": REALS,
    "floating-point": (*REALS, *COMPLEX),
    "complex floating-point": COMPLEX,
}


@dataclass(frozen=True)
class DType:
    """A dtype among the arguments, by its name."""

    name: str


@dataclass
class Draw:
    """Random inputs of one test; `promotes` says which pairs of dtypes the standard promotes."""

    rng: np.random.Generator
    promotes: Any

    def integer(self, low: int, high: int) -> int:
        """From `low` up to, and without, `high`."""
        return int(self.rng.integers(low, high))

    def choice(self, values: Any) -> Any:
        return values[self.integer(0, len(values))]

    def flag(self) -> bool:
        return bool(self.integer(0, 2))

    def shape(self, least: int = 0, ranks: tuple[int, int] = (0, 3)) -> tuple[int, ...]:
        return tuple(self.integer(least, 4) for _ in range(self.integer(ranks[0], ranks[1] + 1)))

    def shapes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Two shapes that broadcast, one of them perhaps of no dimension."""
        whole = self.shape(least=self.integer(0, 2))
        part = tuple(1 if self.integer(0, 4) == 0 else n for n in whole[self.integer(0, len(whole) + 1) :])
        return (whole, part) if self.flag() else (part, whole)

    def dtype(self, kind: str) -> str:
        return self.choice(KINDS[kind])

    def dtypes(self, kind: str) -> tuple[str, str]:
        """Two dtypes of a kind that promote."""
        first = self.dtype(kind)
        return first, self.choice([other for other in KINDS[kind] if self.promotes(first, other)])

    def array(self, dtype: str, shape: tuple[int, ...], finite: bool = False, small: bool = False) -> Any:
        """Elements of all sizes, with special ones if not `finite`; from 0 to 7 if `small` and integral."""
        kind = np.dtype(dtype).kind
        if kind == "b":
            return self.rng.integers(0, 2, shape).astype(bool)
        if kind in "iu":
            limits = np.iinfo(dtype)
            low, high = (
                (0, 7) if small else (limits.min, limits.max) if self.flag() else (max(limits.min, -9), 9)
            )
            return self.rng.integers(low, high, shape, dtype=dtype, endpoint=True)
        if kind == "c":
            part = "float32" if dtype == "complex64" else "float64"
            made = np.empty(shape, dtype)
            made.real, made.imag = self.array(part, shape, finite), self.array(part, shape, finite)
            return made
        values = self.rng.normal(size=shape) * self.choice((0.1, 1, 10))
        if not finite:
            values = np.where(self.rng.random(shape) < 0.4, self.rng.choice(SPECIAL, shape), values)
        return np.asarray(values, dtype)

    def number(self, dtype: str) -> Any:
        """Return a nonzero Python number of a dtype's kind."""
        return {"b": True, "i": -3, "u": 3, "f": 1.5, "c": 1 + 2j}[np.dtype(dtype).kind]

    def axis(self, rank: int) -> int:
        return self.integer(-rank, rank)

    def axes(self, rank: int) -> int | tuple[int, ...] | None:
        """None, one axis, or several, perhaps none."""
        if rank == 0 or self.integer(0, 3) == 0:
            return None
        if self.flag():
            return self.axis(rank)
        return tuple(int(d) for d in self.rng.permutation(rank)[: self.integer(0, rank + 1)])
