"""Sums and products over the dimensions of compressed rows and columns (native/sparse/SparseCsrTensorMath.cpp)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ....runtime.layout import sparse_csr, spoken
from ....runtime.scalar_type import dtype as ScalarType
from ....runtime.scalar_type import int64
from ...composite.sparse_compressed import begins_of, compressed_tensor
from ...generated import functions as ops
from ...structured.meta.dims import wrap_dim
from .compressed_structure import Lines
from .coo_structure import added_at


def sum(self: Any, dtype: ScalarType | None) -> Any:
    """Compute the sum of all specified elements."""
    return self._data.values.sum(dtype=dtype)


def sum_dims(self: Any, dim: Sequence[int] | None, keepdim: bool, dtype: ScalarType | None) -> Any:
    """Compute the sum over dimensions of compressed rows, and keep the dimensions."""
    if self._spec.layout is not sparse_csr:
        raise RuntimeError(
            "Currently the only compressed sparse format supported for sum.dim_IntList is CSR, but got layout "
            f"{spoken(self._spec.layout)}"
        )
    return over_dims("sum", self, dim or (), keepdim, dtype)


def over_dims(kind: str, self: Any, dim: Sequence[int], keepdim: bool, dtype: ScalarType | None) -> Any:
    """Sum the specified elements of each row, of each column, or all; the result specifies the nonempty sums."""
    spec = self._spec
    if spec.layout is not sparse_csr or spec.ndim != 2:
        raise RuntimeError(
            f"_sparse_csr_{kind}: expected a matrix of layout SparseCsr, got {spoken(spec.layout)} of size "
            f"{list(spec.sizes)}"
        )
    if not keepdim:
        raise RuntimeError("reduction operations on CSR tensors with keepdim=False is unsupported")
    dims = {wrap_dim(d, 2) for d in dim} or {0, 1}
    each = Lines(self)
    values = each.values
    if dtype is not None:
        values = values.to(dtype)
    elif not (values.dtype.is_floating_point or values.dtype.is_complex):
        values = values.to(int64)
    rows, columns = (1 if d in dims else spec.sizes[d] for d in (0, 1))
    key = each.line if dims == {1} else each.plain if dims == {0} else ops.zeros_like(each.plain)
    if spec.is_meta:
        unique_keys, group = key[:0], key
    else:
        unique_keys, group = ops._unique2(key, sorted=True, return_inverse=True)[:2]
    count = unique_keys._spec.sizes[0]
    if kind == "sum" or spec.is_meta:
        made = values[:0] if spec.is_meta else added_at(values, group, count)
    else:
        made = ops.ones((count,), dtype=values.dtype, device=spec.device)
        made.index_reduce_(0, group, values, "prod")
    line, plain = (
        (unique_keys, ops.zeros_like(unique_keys))
        if dims == {1}
        else (ops.zeros_like(unique_keys), unique_keys)
    )
    index = each.plain.dtype
    compressed = begins_of(line, 1, rows, count).reshape(-1).to(index)
    return compressed_tensor(compressed, plain.to(index), made, (rows, columns), sparse_csr)


def _sparse_csr_sum(self: Any, dim: Sequence[int], keepdim: bool, dtype: ScalarType | None) -> Any:
    return over_dims("sum", self, dim, keepdim, dtype)


def _sparse_csr_prod(self: Any, dim: Sequence[int], keepdim: bool, dtype: ScalarType | None) -> Any:
    return over_dims("prod", self, dim, keepdim, dtype)


KERNELS: dict[str, Callable[..., Any]] = {
    "sum": sum,
    "sum.dim_IntList": sum_dims,
    "_sparse_csr_sum.dim_dtype": _sparse_csr_sum,
    "_sparse_csr_prod.dim_dtype": _sparse_csr_prod,
}
