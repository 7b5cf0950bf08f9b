"""Matmuls of CSR and BSR matrices on the CPU: SciPy's compiled loops over ranges of rows, a range for each
thread.

The loops check no index. A thread that shares a sparse tensor's parts may write to them at any time, so each
call copies all indices, checks the copies, and passes them to the loops. One thread sums a row in the order
of its values, so results do not depend on the number of threads. 16-bit floats compute in float32 and round
once; all others compute in their own dtype, as in PyTorch.
"""

from __future__ import annotations

import functools
from typing import Any

from ...dispatch.structured.meta.sparse_products import FAULTY_COLUMN, FAULTY_ROWS
from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.float_errors import quietly
from ...runtime.parallel import CHUNKS_OF_THREAD, GRAIN_SIZE, get_num_threads, parallel_for
from ..plain_numpy import np
from ..widen import compute_np

Array = np.ndarray[Any, Any]

PAIRS = 1 << 13
"""Pairs of rows that are gathered at a time: both sides stay near a core for rows of usual length."""


@functools.cache
def loops() -> Any:
    """Return SciPy's compiled loops over sparse matrices, imported at their first use."""
    from scipy.sparse import _sparsetools

    return _sparsetools


def own_indices(*parts: Array) -> tuple[Array, ...]:
    """Return contiguous copies of arrays of indices, which no other thread writes to between a check and a loop."""
    return tuple([np.array(part, order="C") for part in parts])


def check_rows(name: str, crow: Array, nnz: int) -> None:
    """Raise RuntimeError for where rows begin that would lead outside of the values."""
    if crow[0] < 0 or crow[-1] > nnz or (crow[1:] < crow[:-1]).any():
        raise RuntimeError(f"{name}(): {FAULTY_ROWS.format(nnz=nnz)}")


def check_columns(name: str, columns: Array, count: int) -> None:
    """Raise RuntimeError for an index outside of `count`: as an unsigned number a negative one is large, too."""
    if columns.size and columns.view(f"u{columns.itemsize}").max() >= count:
        raise RuntimeError(f"{name}(): {FAULTY_COLUMN.format(columns=count)}")


def by_rows(crow: Array, work: int, rows: int, compute: Any) -> None:
    """Call ``compute(first, last)`` over ranges of rows of about as many values, on threads if that is worth it."""
    pieces = CHUNKS_OF_THREAD * get_num_threads()
    if work <= GRAIN_SIZE or pieces == CHUNKS_OF_THREAD or rows < 2:
        compute(0, rows)
        return
    begin, end = int(crow[0]), int(crow[-1])
    # Count a fixed cost for each row, so that ranges of empty rows do not become too long.
    weight = (crow[1:] - begin) + np.arange(1, rows + 1) * (max(end - begin, 1) / rows)
    targets = np.linspace(0, weight[-1], pieces + 1)[1:-1]
    cuts = [0, *np.searchsorted(weight, targets).tolist(), rows]

    def ranges(first: int, last: int) -> None:
        for i in range(first, last):
            if cuts[i + 1] > cuts[i]:
                compute(cuts[i], cuts[i + 1])

    parallel_for(0, pieces, 1, ranges)


def csr_mm(call: StructuredCall) -> PlannedKernel:
    """Return the kernel of ``_csr_mm``."""
    wide = compute_np(call.outputs[0].dtype)

    @quietly
    def into(out: Array, crow: Array, col: Array, values: Array, dense: Array) -> None:
        crow, col = own_indices(crow, col)
        check_rows("_csr_mm", crow, len(col))
        check_columns("_csr_mm", col, len(dense))
        rows, width = out.shape
        values = np.ascontiguousarray(values, wide)
        dense = np.ascontiguousarray(dense, wide)
        target = out if out.dtype == wide and out.flags.c_contiguous else np.empty(out.shape, wide)
        compiled, flat = loops(), dense.reshape(-1)

        def compute(first: int, last: int) -> None:
            part = target[first:last].reshape(-1)
            part[:] = 0
            count = last - first
            if width == 1:
                compiled.csr_matvec(count, len(dense), crow[first:], col, values, flat, part)
            else:
                compiled.csr_matvecs(count, len(dense), width, crow[first:], col, values, flat, part)

        if rows and width:
            by_rows(crow, len(col) * width, rows, compute)
        if target is not out:
            np.copyto(out, target, casting="unsafe")

    return PlannedKernel(into)


def bsr_mm(call: StructuredCall) -> PlannedKernel:
    """Return the kernel of ``_bsr_mm``."""
    wide = compute_np(call.outputs[0].dtype)

    @quietly
    def into(out: Array, crow: Array, col: Array, values: Array, dense: Array) -> None:
        crow, col = own_indices(crow, col)
        _, high, across = values.shape
        columns = len(dense) // across
        check_rows("_bsr_mm", crow, len(col))
        check_columns("_bsr_mm", col, columns)
        rows, width = len(crow) - 1, out.shape[1]
        values = np.ascontiguousarray(values, wide).reshape(-1)
        dense = np.ascontiguousarray(dense, wide)
        target = out if out.dtype == wide and out.flags.c_contiguous else np.empty(out.shape, wide)
        compiled, flat = loops(), dense.reshape(-1)

        def compute(first: int, last: int) -> None:
            part = target[first * high : last * high].reshape(-1)
            part[:] = 0
            compiled.bsr_matvecs(
                last - first, columns, width, high, across, crow[first:], col, values, flat, part
            )

        if rows and width:
            by_rows(crow, len(values) * width, rows, compute)
        if target is not out:
            np.copyto(out, target, casting="unsafe")

    return PlannedKernel(into)


def sampled_mm(call: StructuredCall) -> PlannedKernel:
    """Return the kernel of ``_sampled_mm``: some rows of both sides at a time, multiplied in pairs."""
    wide = compute_np(call.outputs[0].dtype)

    @quietly
    def into(out: Array, rows: Array, columns: Array, left: Array, right: Array) -> None:
        rows, columns = np.ascontiguousarray(rows), np.ascontiguousarray(columns)
        check_columns("_sampled_mm", rows, len(left))
        check_columns("_sampled_mm", columns, len(right))
        left, right = np.ascontiguousarray(left, wide), np.ascontiguousarray(right, wide)

        def compute(first: int, last: int) -> None:
            max_pairs = min(PAIRS, last - first)
            above, below = (np.empty((max_pairs, side.shape[1]), wide) for side in (left, right))
            for begin in range(first, last, PAIRS):
                part = slice(begin, min(begin + PAIRS, last))
                count = part.stop - begin
                # Indices were in bounds, and are clipped: NumPy writes to its target at once if it need not refuse.
                left_rows = left.take(rows[part], 0, out=above[:count], mode="clip")
                right_rows = right.take(columns[part], 0, out=below[:count], mode="clip")
                out[part] = np.einsum("ek,ek->e", left_rows, right_rows)

        parallel_for(0, len(rows), max(PAIRS, GRAIN_SIZE // max(left.shape[1], 1)), compute)

    return PlannedKernel(into)


register_stub("_csr_mm_stub", "cpu", csr_mm)
register_stub("_bsr_mm_stub", "cpu", bsr_mm)
register_stub("_sampled_mm_stub", "cpu", sampled_mm)


def _places_in_order(bounds: Array, columns: Array, width: int) -> Array:
    """Return the flat row-major index of each value in a matrix `width` wide."""
    return np.repeat(np.arange(len(bounds) - 1), np.diff(bounds)) * width + columns


def sparse_product(call: StructuredCall) -> PlannedKernel:
    """Return the kernel of the matmul of two CSR matrices, whose result is sorted CSR."""
    dtype = call.extra["dtype"]
    wide = compute_np(dtype)

    @quietly
    def into(
        crow: Array, col: Array, values: Array, begins: Array, columns: Array, right_values: Array, width: int
    ) -> tuple[Array, Array, Array]:
        crow, col, begins, columns = own_indices(crow, col, begins, columns)
        check_rows("_sparse_mm", crow, len(col))
        check_rows("_sparse_mm", begins, len(columns))
        check_columns("_sparse_mm", col, len(begins) - 1)
        check_columns("_sparse_mm", columns, width)
        values, right_values = np.ascontiguousarray(values, wide), np.ascontiguousarray(right_values, wide)
        rows, compiled = len(crow) - 1, loops()
        max_nnz = compiled.csr_matmat_maxnnz(rows, width, crow, col, begins, columns)

        def product(a: Array, b: Array) -> tuple[Array, Array, Array]:
            made = np.zeros(rows + 1, crow.dtype), np.empty(max_nnz, crow.dtype), np.empty(max_nnz, a.dtype)
            compiled.csr_matmat(rows, width, crow, col, a, begins, columns, b, *made)
            bounds, (column_indices, products) = made[0], (part[: made[0][-1]] for part in made[1:])
            # By columns and back, each in linear time: rows come out sorted, more quickly than by comparisons.
            turned = np.empty(width + 1, crow.dtype), np.empty_like(column_indices), np.empty_like(products)
            compiled.csr_tocsc(rows, width, bounds, column_indices, products, *turned)
            compiled.csr_tocsc(width, rows, *turned, bounds, column_indices, products)
            return bounds, column_indices, products

        bounds, column_indices, products = product(values, right_values)
        if len(products) < max_nnz:
            # SciPy leaves out sums of 0. They are values all the same: where they lie, a gradient may be another one.
            positions = _places_in_order(bounds, column_indices, width)
            bounds, column_indices, _ = product(np.ones(len(col), np.bool_), np.ones(len(columns), np.bool_))
            whole = np.zeros(max_nnz, wide)
            whole[np.searchsorted(_places_in_order(bounds, column_indices, width), positions)] = products
            products = whole
        return bounds, column_indices, products.astype(dtype.np, copy=False)

    return PlannedKernel(into)


register_stub("_sparse_product_stub", "cpu", sparse_product)
