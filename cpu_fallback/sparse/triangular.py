"""Triangular solves with CSR matrices on the CPU, by SciPy's `spsolve_triangular`.

The triangle stays sparse. SciPy rejects a zero on the diagonal, for which PyTorch's solution has infinities
and NaN; the caller handles such matrices.
"""

from __future__ import annotations

from typing import Any

from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.float_errors import quietly
from ..plain_numpy import np
from .products import check_columns, check_rows, own_indices

Array = np.ndarray[Any, Any]


def triangular_solve(call: StructuredCall) -> PlannedKernel:
    """``into(crow, col, values, b, upper, transpose, unitriangular)`` gives the solution, or None for a zero."""

    @quietly
    def into(
        crow: Array, col: Array, values: Array, b: Array, upper: bool, transpose: bool, unitriangular: bool
    ) -> Array | None:
        from scipy.sparse import csr_array, eye_array, tril, triu
        from scipy.sparse.linalg import spsolve_triangular

        rows = len(crow) - 1
        crow, col = own_indices(crow, col)
        check_rows("triangular_solve", crow, len(col))
        check_columns("triangular_solve", col, rows)
        # SciPy sorts and scales what it is given.
        whole = csr_array((values.copy(), col, crow), shape=(rows, rows))
        triangle = triu if upper else tril
        if unitriangular:
            matrix = (triangle(whole, 1 if upper else -1) + eye_array(rows, dtype=values.dtype)).tocsr()
        else:
            matrix = triangle(whole, format="csr")
            if (matrix.diagonal() == 0).any():
                return None
        matrix = matrix.T.tocsr() if transpose else matrix
        solved: Array = spsolve_triangular(matrix, b, lower=upper == transpose, unit_diagonal=unitriangular)
        return np.ascontiguousarray(solved)

    return PlannedKernel(into)


register_stub("_sparse_triangular_solve_stub", "cpu", triangular_solve)
