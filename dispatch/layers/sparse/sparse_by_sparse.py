"""Matmul of two sparse matrices, with a sparse result.

A row of the result is the sum of the rows of the right matrix that the left row's indices select. On the CPU SciPy's
loops compute it. Elsewhere products of values are counted. They are then written out for as many rows at a time as have
no more than `PRODUCTS` of them, and sorted by index. Products of one index are summed in the order of the left row, so
that the grouping of rows changes no bit.
"""

from __future__ import annotations

import itertools
from functools import lru_cache
from typing import Any

from ....runtime.layout import sparse_coo, sparse_csr, spoken
from ....runtime.scalar_type import dtype as ScalarType
from ....runtime.scalar_type import int64
from ....runtime.sparse_data import BLOCKED
from ...composite.sparse_compressed import begins_of, compressed_tensor
from ...composite.sparse_coo import coo_tensor
from ...generated import functions as ops
from ...structured.stub import StructuredCall, find_kernel
from ...tensor_data import from_numpy, tensor
from .coo_structure import added_at

PRODUCTS = 1 << 22
"""Maximum number of products in memory at a time, unless a single row has more: about 64 bytes each, 256 MiB in all."""


def matrix_product(left: Any, right: Any) -> Any:
    """Compute the matmul: COO for two COO matrices, otherwise compressed rows."""
    kinds = (left._spec.layout, right._spec.layout)
    for kind in kinds:
        if kind in BLOCKED:
            raise RuntimeError(
                f"addmm: computation on {left._spec.device.type.upper()} is not implemented for "
                f"{spoken(kinds[0])} @ {spoken(kinds[1])}"
            )
    rows, columns = left._spec.sizes[0], right._spec.sizes[1]
    of_rows = [
        each if each._spec.layout is sparse_csr else ops._to_sparse_csr(each) for each in (left, right)
    ]
    begins, column, values = _by_rows(of_rows[0], of_rows[1], columns)
    if kinds == (sparse_coo, sparse_coo):
        taken = begins[1:] - begins[:-1]
        row = ops.repeat_interleave(taken, output_size=column._spec.sizes[0])
        return coo_tensor(ops.stack((row, column), 0).to(int64), values, (rows, columns), True)
    return compressed_tensor(begins, column, values, (rows, columns), sparse_csr)


def _by_rows(left: Any, right: Any, width: int) -> tuple[Any, Any, Any]:
    """Return the parts of a matmul of compressed rows; the right rows have length `width`."""
    a, b = left._data, right._data
    index = a.plain.dtype if a.plain.dtype is b.plain.dtype else int64
    outer = (a.compressed.to(index), a.plain.to(index))
    inner = (b.compressed.to(index), b.plain.to(index))
    lines = a.compressed._spec.sizes[0] - 1
    if left._spec.is_meta:
        nothing = ops.empty((0,), dtype=left.dtype, device=left.device)
        return ops.zeros((lines + 1,), dtype=index, device=left.device), outer[1][:0], nothing
    if left._spec.device.type == "cpu":
        made = _kernel(left._spec.dtype)(outer, a.values, inner, b.values, width)
        compressed, plain, values = (from_numpy(part) for part in made)
        return compressed, plain, values
    return _written_out(outer, a.values, inner, b.values, lines, width)


@lru_cache(maxsize=64)
def _kernel(dtype: ScalarType) -> Any:
    from ....runtime.device import CPU

    call = StructuredCall("_sparse_product", {}, (), (), None, CPU, {"dtype": dtype})
    into = find_kernel("_sparse_product_stub", "cpu", "_sparse_mm")(call).into

    def run(outer: Any, values: Any, inner: Any, inner_values: Any, width: int) -> Any:
        return into(*(part._data for part in (*outer, values, *inner, inner_values)), width)

    return run


def _written_out(
    outer: tuple[Any, Any], values: Any, inner: tuple[Any, Any], inner_values: Any, lines: int, width: int
) -> tuple[Any, Any, Any]:
    """Return the parts of a matmul, for consecutive blocks of rows."""
    begins, named = outer
    starts = inner[0]
    lengths = starts[1:] - starts[:-1]
    taken = begins[1:] - begins[:-1]
    line = ops.repeat_interleave(taken, output_size=named._spec.sizes[0]).to(int64)
    counts = lengths.index_select(0, named)
    made = [
        _block(line[part], counts[part], named[part], values[part], inner, inner_values, width)
        for part in _parts(begins, counts)
    ]
    keys = made[0][0] if len(made) == 1 else ops.cat([part_keys for part_keys, _ in made], 0)
    sums = made[0][1] if len(made) == 1 else ops.cat([each for _, each in made], 0)
    row = ops.floor_divide(keys, max(width, 1))
    compressed = begins_of(row, 1, lines, keys._spec.sizes[0]).reshape(-1).to(begins.dtype)
    return compressed, (keys - row * width).to(begins.dtype), sums


def _parts(begins: Any, counts: Any) -> list[slice]:
    """Return ranges of entries of the left matrix, of whole rows, with at most `PRODUCTS` products, or of one row."""
    entries = counts._spec.sizes[0]
    ends = counts.to(int64).cumsum(0)
    if entries == 0 or int(ends[-1]) <= PRODUCTS:
        return [slice(0, entries)]
    # Prefix sums of the numbers of products; the host reads two numbers for each block.
    before = ops.cat([ops.zeros((1,), dtype=int64, device=ends.device), ends], 0).index_select(0, begins)
    lines = before._spec.sizes[0] - 1
    cuts = [0]
    while cuts[-1] < lines:
        fits = int(ops.searchsorted(before, before[cuts[-1]] + PRODUCTS, right=True)) - 1
        cuts.append(min(max(fits, cuts[-1] + 1), lines))
    bounds = begins.index_select(0, tensor(cuts, dtype=int64, device=ends.device)).tolist()
    return [slice(first, last) for first, last in itertools.pairwise(bounds)]


def _block(
    line: Any, counts: Any, named: Any, values: Any, inner: tuple[Any, Any], inner_values: Any, width: int
) -> tuple[Any, Any]:
    """Return the ascending indices (row * width + column) of sums, and the sums, of some entries of the left matrix."""
    starts, columns = inner
    source = ops.repeat_interleave(counts)
    ends = counts.cumsum(0)
    total = source._spec.sizes[0]
    within = ops.arange(total, dtype=int64, device=source.device) - (ends - counts).index_select(0, source)
    entry = starts.index_select(0, named).index_select(0, source) + within
    key = line.index_select(0, source) * width + columns.index_select(0, entry)
    products = values.index_select(0, source) * inner_values.index_select(0, entry)
    keys, group = ops._unique2(key, sorted=True, return_inverse=True)[:2]
    return keys, added_at(products, group, keys._spec.sizes[0])
