"""Meta functions of matmuls with the dense parts of sparse matrices (ATen/native/sparse/SparseBlas.cpp)."""

from __future__ import annotations

from ....runtime.scalar_type import bool_, int32, int64
from ....runtime.tensor_spec import TensorSpec
from ..meta_base import MetaBase
from .linalg import check_same_device

FAULTY_ROWS = "crow_indices do not rise from 0 to at most the number of values, {nnz}"
FAULTY_COLUMN = "a column index lies outside of [0, {columns})"
"""Kernel error messages for indices that are invalid by value; no element is read through them."""


def _check(name: str, ndims: dict[str, tuple[TensorSpec, int]]) -> None:
    """Check the number of dimensions, the dtypes of indices, and that all other operands share a dtype and device."""
    for argument, (spec, ndim) in ndims.items():
        if spec.ndim != ndim:
            raise RuntimeError(
                f"{name}(): expected {argument} of {ndim} dimensions, got shape {list(spec.sizes)}"
            )
    check_same_device(name, *(spec for spec, _ in ndims.values()))


def _check_indices(name: str, first: TensorSpec, second: TensorSpec) -> None:
    if first.dtype is not second.dtype or first.dtype not in (int32, int64):
        raise RuntimeError(
            f"{name}(): expected indices of one dtype, int32 or int64, got {first.dtype} and {second.dtype}"
        )


def _check_values(name: str, first: TensorSpec, second: TensorSpec) -> None:
    if first.dtype is not second.dtype:
        raise RuntimeError(
            f"expected m1 and m2 to have the same dtype, but got: {first.dtype.scalar_name.lower()} != "
            f"{second.dtype.scalar_name.lower()} (in {name})"
        )
    if first.dtype is bool_:
        raise NotImplementedError(f"\"addmm_sparse_dense\" not implemented for 'Bool' (in {name})")


def _check_rows(name: str, crow: TensorSpec, col: TensorSpec, values: TensorSpec) -> None:
    if not crow.sizes[0]:
        raise RuntimeError(f"{name}(): expected crow_indices of at least one element, got none")
    if col.sizes[0] != values.sizes[0]:
        raise RuntimeError(
            f"{name}(): expected as many values as col_indices, got {values.sizes[0]} and {col.sizes[0]}"
        )


def _csr_mm(
    meta: MetaBase, crow_indices: TensorSpec, col_indices: TensorSpec, values: TensorSpec, dense: TensorSpec
) -> None:
    """Infer (n, m) from compressed rows (n, k) and (k, m)."""
    name = "_csr_mm"
    _check(
        name,
        {"crow_indices": (crow_indices, 1), "col_indices": (col_indices, 1), "values": (values, 1)}
        | {"dense": (dense, 2)},
    )
    _check_indices(name, crow_indices, col_indices)
    _check_rows(name, crow_indices, col_indices, values)
    _check_values(name, values, dense)
    meta.set_output_contiguous(0, (crow_indices.sizes[0] - 1, dense.sizes[1]), dtype=values.dtype)


def _bsr_mm(
    meta: MetaBase, crow_indices: TensorSpec, col_indices: TensorSpec, values: TensorSpec, dense: TensorSpec
) -> None:
    """Infer (n h, m) from compressed rows of blocks (h, w), together (n h, k w), and (k w, m)."""
    name = "_bsr_mm"
    _check(
        name,
        {"crow_indices": (crow_indices, 1), "col_indices": (col_indices, 1), "values": (values, 3)}
        | {"dense": (dense, 2)},
    )
    _check_indices(name, crow_indices, col_indices)
    _check_rows(name, crow_indices, col_indices, values)
    _check_values(name, values, dense)
    _, high, wide = values.sizes
    if not high or not wide or dense.sizes[0] % wide:
        raise RuntimeError(
            f"{name}(): expected blocks whose width divides the {dense.sizes[0]} rows of dense, got {high}x{wide}"
        )
    sizes = ((crow_indices.sizes[0] - 1) * high, dense.sizes[1])
    meta.set_output_contiguous(0, sizes, dtype=values.dtype)


def _sampled_mm(
    meta: MetaBase, rows: TensorSpec, columns: TensorSpec, left: TensorSpec, right: TensorSpec
) -> None:
    """Infer the dot product of each pair of indexed rows, of (n, k) and of (m, k)."""
    name = "_sampled_mm"
    _check(name, {"rows": (rows, 1), "columns": (columns, 1), "left": (left, 2), "right": (right, 2)})
    _check_indices(name, rows, columns)
    _check_values(name, left, right)
    if rows.sizes != columns.sizes:
        raise RuntimeError(
            f"{name}(): expected as many rows as columns, got {rows.sizes[0]} and {columns.sizes[0]}"
        )
    if left.sizes[1] != right.sizes[1]:
        raise RuntimeError(
            f"{name}(): expected rows of one length, got left {list(left.sizes)} and right {list(right.sizes)}"
        )
    meta.set_output_contiguous(0, rows.sizes, dtype=left.dtype)
