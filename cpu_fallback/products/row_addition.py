"""Addition of a vector to every row of a matrix, in place: by NumPy, later by a compiled loop with the same bits.

NumPy starts its inner loop anew for each row, which takes longer than the additions of a short row.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial
from typing import Any

from ...runtime.cpu.loop_requests import DeferredLoop, Loop, has_compiler
from ...runtime.tensor_spec import TensorSpec
from ..plain_numpy import np

Array = np.ndarray[Any, Any]

COMPILE_THRESHOLD = 1 << 17
"""Compile the loop once NumPy has added to this many rows, where a call counts as `ROWS_OF_CALL` more."""
ROWS_OF_CALL = 8


def _loop_of(name: str) -> Loop:
    from ...runtime.cpu.object_code import loop_function
    from .row_addition_loop import row_addition_text

    return loop_function(row_addition_text(name))


_LOOPS = {name: DeferredLoop(partial(_loop_of, name), COMPILE_THRESHOLD) for name in ("float32", "float64")}


def row_addition(rows: int, columns: int, vector: TensorSpec) -> Callable[[Array, Array], object]:
    """Return a function that adds a vector (columns) to each row of a contiguous matrix (rows, columns).

    Args:
        rows: Number of rows.
        columns: Length of a row.
        vector: Spec of the vector, of the matrix's dtype.
    """
    deferred = _LOOPS.get(vector.dtype.name)
    if deferred is None or vector.sizes != (columns,) or not vector.is_contiguous or not has_compiler():
        return operator.iadd
    numbers = np.array([rows, columns], np.int64)

    def add(matrix: Array, values: Array) -> None:
        loop = deferred.loop
        if loop is not None:
            loop(numbers, matrix, values)
        else:
            matrix += values
            deferred.beside(rows + ROWS_OF_CALL)

    return add
