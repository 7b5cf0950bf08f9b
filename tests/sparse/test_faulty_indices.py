"""Compressed tensors whose indices were not checked: every reader refuses them, in bounds of its memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import triten as tt

LARGE = 2**62


def csr(crow: list[int], col: list[int], columns: int = 2) -> tt.Tensor:
    """Return a CSR matrix of ones without a check of its indices."""
    size = (len(crow) - 1, columns)
    return tt.sparse_csr_tensor(
        tt.tensor(crow), tt.tensor(col), tt.ones(len(col)), size, check_invariants=False
    )


WRAPPING = ([0, LARGE, -2 * LARGE, -LARGE, 1], [0])
"""Row starts whose differences, computed in 64 bits, are 2**62 each and add up to the one value."""
READERS: dict[str, Callable[[Any], Any]] = {
    "to_dense": lambda x: x.to_dense(),
    "to_sparse_coo": lambda x: x.to_sparse_coo(),
    "to_sparse_csc": lambda x: x.to_sparse_csc(),
    "to_sparse_bsr": lambda x: x.to_sparse_bsr((1, 1)),
    "add": lambda x: x + tt.eye(x.shape[0]).to_sparse_csr(),
    "mul": lambda x: x * tt.ones(x.shape),
    "sum": lambda x: x.sum(1, keepdim=True),
    "spsolve": lambda x: tt.sparse.spsolve(x, tt.ones(x.shape[0])),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(
    ("crow", "col"),
    [WRAPPING, ([0, 9_000_000, 1], [0]), ([0, -9, 1], [0]), ([7, 1, 1], [0])],
    ids=["wraps", "beyond", "negative", "not from 0"],
)
def test_row_starts_that_do_not_rise_are_refused(reader: str, crow: list[int], col: list[int]) -> None:
    with pytest.raises(RuntimeError, match=r"do not rise from 0|its lines have"):
        READERS[reader](csr(crow, col, len(crow) - 1))


@pytest.mark.parametrize("reader", [name for name in READERS if name != "sum"])
@pytest.mark.parametrize("column", [2, 9, -1, 2**63 - 1, -(2**63)])
def test_columns_out_of_range_are_refused(reader: str, column: int) -> None:
    with pytest.raises(RuntimeError, match=r"outside of \[0, 2\)"):
        READERS[reader](csr([0, 1, 2], [column, 0]))


def test_valid_indices_are_read() -> None:
    x = csr([0, 1, 2], [1, 0])
    assert x.to_dense().tolist() == [[0.0, 1.0], [1.0, 0.0]]
    assert x.to_sparse_bsr((1, 1)).to_dense().tolist() == [[0.0, 1.0], [1.0, 0.0]]
    assert (x + x).to_dense().tolist() == [[0.0, 2.0], [2.0, 0.0]]
    assert tt.sparse.spsolve(x, tt.tensor([3.0, 5.0])).tolist() == [5.0, 3.0]


@pytest.mark.parametrize("dtype", [tt.float64, tt.bool, tt.uint8])
def test_conversion_of_indices_requires_their_dtypes(dtype: tt.dtype) -> None:
    crow, col = tt.tensor([0, 1]), tt.tensor([0])
    convert = tt.ops.aten._convert_indices_from_csr_to_coo
    assert convert(crow, col).tolist() == [[0], [0]]
    with pytest.raises(RuntimeError, match="crow_indices must have a dimension and be int32 or int64"):
        convert(crow.to(dtype), col)
    with pytest.raises(RuntimeError, match="col_indices must have a dimension and be int32 or int64"):
        convert(crow, col.to(dtype))
