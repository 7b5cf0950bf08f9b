"""cuSOLVER and cuBLAS through CuPy's bindings: batched factorizations, one matrix at a time, on the current stream.

cuSOLVER's routines are LAPACK's over one matrix each. Those of a batch are enqueued in order and share their
workspace. Source: cuSOLVER API reference, cuSolverDN; cuBLAS API reference, trsm.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from cupy_backends.cuda.libs import cublas, cusolver

from ...allocator import get_allocator
from ...data_ptr import DataPtr
from ...device import device as Device
from ..solver import Operand
from .errors import runtime

LETTERS = {"f": "s", "d": "d", "F": "c", "D": "z"}
TRANSPOSES = {"N": cublas.CUBLAS_OP_N, "T": cublas.CUBLAS_OP_T, "C": cublas.CUBLAS_OP_C}
CUDA_C_32F, CUDA_C_64F = 4, 5
"""cudaDataType of complex numbers."""


def _routine(operand: Operand, real: str, complex: str = "", module: Any = cusolver) -> Callable[..., Any]:
    letter = LETTERS[operand.dtype.char]
    return getattr(module, letter + (complex if complex and letter in "cz" else real))  # type: ignore[no-any-return]


def _fill(upper: bool) -> int:
    return int(cublas.CUBLAS_FILL_MODE_UPPER if upper else cublas.CUBLAS_FILL_MODE_LOWER)


class CuPySolver:
    """CuPy's library handles of the current thread on one device."""

    def __init__(self, cusolver_handle: int, cublas_handle: int, device: int) -> None:
        self._handle = cusolver_handle
        self._cublas = cublas_handle
        self._device = Device(f"cuda:{device}")

    def _workspace(self, nbytes: int) -> DataPtr:
        """Allocate device memory, which later work of the same stream reuses once it is dropped."""
        block: DataPtr = get_allocator("cuda").allocate(max(nbytes, 1), self._device)
        return block

    def _zero(self, operand: Operand) -> None:
        if operand.nbytes:
            stream = cusolver.getStream(self._handle)
            runtime.memsetAsync(operand.address, 0, operand.nbytes, stream)

    def _flags(self, batch: int) -> DataPtr:
        """Return failure flags for routines that fail only for invalid arguments."""
        return self._workspace(4 * max(batch, 1))

    def getrf(self, a: Operand, pivots: Operand, info: Operand) -> None:
        self._getrf(a, pivots.members(), info)

    def getrf_nopivot(self, a: Operand, pivots: Operand, info: Operand) -> None:
        # The library does not write the pivots; they are the identity.
        n = pivots.rows
        if n and pivots.batch:
            host = np.tile(np.arange(1, n + 1, dtype=np.int32), pivots.batch)
            runtime.memcpy(pivots.address, host.ctypes.data, host.nbytes, runtime.memcpyHostToDevice)
        self._getrf(a, [0] * pivots.batch, info)

    def _getrf(self, a: Operand, pivots: list[int], info: Operand) -> None:
        m, n = a.rows, a.columns
        if not a.size:
            self._zero(info)
            return
        factor = _routine(a, "getrf")
        lwork = _routine(a, "getrf_bufferSize")(self._handle, m, n, a.address, m)
        work = self._workspace(lwork * a.dtype.itemsize)
        for matrix, swapped, flag in zip(a.members(), pivots, info.members(), strict=True):
            factor(self._handle, m, n, matrix, m, work.address, swapped, flag)

    def getrs(self, lu: Operand, pivots: Operand, b: Operand, transpose: str) -> None:
        if not b.size:
            return
        solve, n = _routine(lu, "getrs"), lu.rows
        flags = self._flags(1)
        for matrix, swapped, right in zip(lu.members(), pivots.members(), b.members(), strict=True):
            solve(
                self._handle, TRANSPOSES[transpose], n, b.columns, matrix, n, swapped, right, n, flags.address
            )

    def potrf(self, a: Operand, upper: bool, info: Operand) -> None:
        n = a.rows
        if not n:
            self._zero(info)
            return
        factor = _routine(a, "potrf")
        lwork = _routine(a, "potrf_bufferSize")(self._handle, _fill(upper), n, a.address, n)
        work = self._workspace(lwork * a.dtype.itemsize)
        for matrix, flag in zip(a.members(), info.members(), strict=True):
            factor(self._handle, _fill(upper), n, matrix, n, work.address, lwork, flag)

    def trsm(self, a: Operand, b: Operand, left: bool, upper: bool, transpose: str, unit: bool) -> None:
        if not b.size:
            return
        solve = _routine(a, "trsm", module=cublas)
        alpha = np.ones((), a.dtype)
        side = cublas.CUBLAS_SIDE_LEFT if left else cublas.CUBLAS_SIDE_RIGHT
        diagonal = cublas.CUBLAS_DIAG_UNIT if unit else cublas.CUBLAS_DIAG_NON_UNIT
        for matrix, right in zip(a.members(), b.members(), strict=True):
            solve(
                self._cublas,
                side,
                _fill(upper),
                TRANSPOSES[transpose],
                diagonal,
                b.rows,
                b.columns,
                alpha.ctypes.data,
                matrix,
                a.rows,
                right,
                b.rows,
            )

    def geqrf(self, a: Operand, tau: Operand) -> None:
        m, n = a.rows, a.columns
        if not a.size:
            return
        factor = _routine(a, "geqrf")
        lwork = _routine(a, "geqrf_bufferSize")(self._handle, m, n, a.address, m)
        work, flags = self._workspace(lwork * a.dtype.itemsize), self._flags(1)
        for matrix, factors in zip(a.members(), tau.members(), strict=True):
            factor(self._handle, m, n, matrix, m, factors, work.address, lwork, flags.address)

    def orgqr(self, a: Operand, tau: Operand) -> None:
        m, n, k = a.rows, a.columns, tau.rows
        if not a.size:
            return
        make, size = _routine(a, "orgqr", "ungqr"), _routine(a, "orgqr_bufferSize", "ungqr_bufferSize")
        lwork = size(self._handle, m, n, k, a.address, m, tau.address)
        work, flags = self._workspace(lwork * a.dtype.itemsize), self._flags(1)
        for matrix, factors in zip(a.members(), tau.members(), strict=True):
            make(self._handle, m, n, k, matrix, m, factors, work.address, lwork, flags.address)

    def ormqr(self, a: Operand, tau: Operand, c: Operand, left: bool, transpose: bool) -> None:
        k = tau.rows
        if not c.size or not k:
            return
        multiply = _routine(a, "ormqr", "unmqr")
        size = _routine(a, "ormqr_bufferSize", "unmqr_bufferSize")
        side = cublas.CUBLAS_SIDE_LEFT if left else cublas.CUBLAS_SIDE_RIGHT
        turned = TRANSPOSES[("C" if a.dtype.kind == "c" else "T") if transpose else "N"]
        m, n, lda = c.rows, c.columns, a.rows
        lwork = size(self._handle, side, turned, m, n, k, a.address, lda, tau.address, c.address, m)
        work, flags = self._workspace(lwork * a.dtype.itemsize), self._flags(1)
        for matrix, factors, other in zip(a.members(), tau.members(), c.members(), strict=True):
            multiply(
                *(self._handle, side, turned, m, n, k, matrix, lda, factors, other, m),
                *(work.address, lwork, flags.address),
            )

    def syevd(self, a: Operand, w: Operand, vectors: bool, upper: bool, info: Operand) -> None:
        n = a.rows
        if not n:
            self._zero(info)
            return
        solve, size = _routine(a, "syevd", "heevd"), _routine(a, "syevd_bufferSize", "heevd_bufferSize")
        job = cusolver.CUSOLVER_EIG_MODE_VECTOR if vectors else cusolver.CUSOLVER_EIG_MODE_NOVECTOR
        lwork = size(self._handle, job, _fill(upper), n, a.address, n, w.address)
        work = self._workspace(lwork * a.dtype.itemsize)
        for matrix, values, flag in zip(a.members(), w.members(), info.members(), strict=True):
            solve(self._handle, job, _fill(upper), n, matrix, n, values, work.address, lwork, flag)

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
    ) -> None:
        """Factorize by QR iteration; the library needs at least as many rows as columns."""
        m, n = a.rows, a.columns
        if driver not in (None, "gesvd"):
            raise NotImplementedError(
                f"torch.linalg.svd: driver={driver!r} is not implemented; expected None or 'gesvd'"
            )
        solve = _routine(a, "gesvd")
        lwork = _routine(a, "gesvd_bufferSize")(self._handle, m, n)
        work = self._workspace(lwork * a.dtype.itemsize)
        job = ord("A" if full else "S") if vectors else ord("N")
        left = u.members() if vectors else [0] * a.batch
        right = vh.members() if vectors else [0] * a.batch
        rows = vh.rows if vectors else n
        for matrix, values, first, second, flag in zip(
            a.members(), s.members(), left, right, info.members(), strict=True
        ):
            solve(
                *(self._handle, job, job, m, n, matrix, m, values, first, m, second, rows),
                *(work.address, lwork, 0, flag),
            )

    def geev(self, a: Operand, w: Operand, v: Operand | None, vectors: bool, info: Operand) -> None:
        """Compute eigenvalues and eigenvectors of complex matrices."""
        n = a.rows
        if not a.nbytes:
            self._zero(info)
            return
        kind = CUDA_C_32F if a.dtype.char == "F" else CUDA_C_64F
        left = cusolver.CUSOLVER_EIG_MODE_NOVECTOR
        job = cusolver.CUSOLVER_EIG_MODE_VECTOR if vectors else left
        right = a.members() if v is None else v.members()
        params = cusolver.createParams()
        try:
            head = (self._handle, params, left, job, n, kind)
            on_device, on_host = cusolver.xgeev_bufferSize(
                *(*head, a.address, n, kind, w.address, kind, right[0], n, kind, right[0], n, kind)
            )
            work, host = self._workspace(on_device), np.empty(max(on_host, 1), np.uint8)
            for matrix, values, basis, flag in zip(
                a.members(), w.members(), right, info.members(), strict=True
            ):
                cusolver.xgeev(
                    *(*head, matrix, n, kind, values, kind, basis, n, kind, basis, n, kind),
                    *(work.address, on_device, host.ctypes.data, on_host, flag),
                )
            # The library may still be reading the host workspace.
            runtime.streamSynchronize(cusolver.getStream(self._handle))
        finally:
            cusolver.destroyParams(params)

    def sytrf(self, a: Operand, pivots: Operand, hermitian: bool, info: Operand) -> None:
        if hermitian and a.dtype.kind == "c":
            raise NotImplementedError(
                "torch.linalg.ldl_factor: complex tensors with hermitian=True flag are not supported on CUDA: "
                "cuSOLVER has no hetrf"
            )
        n = a.rows
        if not n:
            self._zero(info)
            return
        factor = _routine(a, "sytrf")
        lwork = _routine(a, "sytrf_bufferSize")(self._handle, n, a.address, n)
        work = self._workspace(lwork * a.dtype.itemsize)
        for matrix, swapped, flag in zip(a.members(), pivots.members(), info.members(), strict=True):
            factor(self._handle, _fill(False), n, matrix, n, swapped, work.address, lwork, flag)

    def sytrs(self, ld: Operand, pivots: Operand, b: Operand, hermitian: bool) -> None:
        raise NotImplementedError(
            "torch.linalg.ldl_solve is not implemented on CUDA: CuPy has no binding of cuSOLVER's sytrs"
        )
