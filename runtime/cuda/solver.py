"""Linear algebra by the device's libraries: what a driver offers under LAPACK's names.

The routines are those of `runtime/lapack.py`, over operands in device memory: column-major matrices and vectors
without gaps, one of them for each member of a batch. They are enqueued on the current stream of the current device;
`info` is written by them and read by whoever asks.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol


class Operand(NamedTuple):
    """Matrices (`columns` is a number) or vectors (it is None) of one dtype, one behind the other.

    `rows` is the length of a vector, or -1 for one number for each member, as `info` has; `dtype` is a NumPy dtype.
    """

    address: int
    batch: int
    rows: int
    columns: int | None
    dtype: Any

    @property
    def size(self) -> int:
        """The elements of one member."""
        return abs(self.rows) * (1 if self.columns is None else self.columns)

    @property
    def nbytes(self) -> int:
        """The bytes of all members."""
        return int(self.batch * self.size * self.dtype.itemsize)

    def members(self) -> list[int]:
        """The address of each member."""
        step = self.size * self.dtype.itemsize
        return [self.address + i * step for i in range(self.batch)]


class Solver(Protocol):
    """A library. See `runtime/lapack.py` for what each routine computes."""

    def getrf(self, a: Operand, pivots: Operand, info: Operand) -> None: ...
    def getrf_nopivot(self, a: Operand, pivots: Operand, info: Operand) -> None: ...
    def getrs(self, lu: Operand, pivots: Operand, b: Operand, transpose: str) -> None: ...
    def potrf(self, a: Operand, upper: bool, info: Operand) -> None: ...
    def trsm(self, a: Operand, b: Operand, left: bool, upper: bool, transpose: str, unit: bool) -> None: ...
    def geqrf(self, a: Operand, tau: Operand) -> None: ...
    def orgqr(self, a: Operand, tau: Operand) -> None: ...
    def ormqr(self, a: Operand, tau: Operand, c: Operand, left: bool, transpose: bool) -> None: ...
    def syevd(self, a: Operand, w: Operand, vectors: bool, upper: bool, info: Operand) -> None: ...
    def gesvd(
        self,
        a: Operand,
        u: Operand,
        s: Operand,
        vh: Operand,
        full: bool,
        vectors: bool,
        info: Operand,
        driver: str | None = None,
    ) -> None: ...
    def geev(self, a: Operand, w: Operand, v: Operand | None, vectors: bool, info: Operand) -> None: ...
    def sytrf(self, a: Operand, pivots: Operand, hermitian: bool, info: Operand) -> None: ...
    def sytrs(self, ld: Operand, pivots: Operand, b: Operand, hermitian: bool) -> None: ...
