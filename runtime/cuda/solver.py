"""Linear algebra by the device's libraries: a driver's interface under LAPACK's names.

The routines are those of `runtime/lapack.py`, over operands in device memory: contiguous column-major matrices and
vectors, one for each member of a batch. They are enqueued on the current stream of the current device. They write
`info`; the caller reads it.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol


class Operand(NamedTuple):
    """Contiguous matrices (`columns` is a number) or vectors (`columns` is None) of one dtype.

    `rows` is the length of a vector, or -1 for one number for each member, as in `info`. `dtype` is a NumPy dtype.
    """

    address: int
    batch: int
    rows: int
    columns: int | None
    dtype: Any

    @property
    def size(self) -> int:
        """Number of elements of one member."""
        return abs(self.rows) * (1 if self.columns is None else self.columns)

    @property
    def nbytes(self) -> int:
        """Number of bytes of all members."""
        return int(self.batch * self.size * self.dtype.itemsize)

    def members(self) -> list[int]:
        """Return the address of each member."""
        step = self.size * self.dtype.itemsize
        return [self.address + i * step for i in range(self.batch)]


class Solver(Protocol):
    """Solver library. See `runtime/lapack.py` for the results of each routine."""

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
