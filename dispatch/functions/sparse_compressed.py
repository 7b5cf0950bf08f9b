"""Constructors of compressed sparse tensors from user data (torch/csrc/utils/tensor_new.cpp).

The root re-exports them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...runtime.device import device as Device
from ...runtime.layout import layout as Layout
from ...runtime.layout import sparse_bsc, sparse_bsr, sparse_csc, sparse_csr, spoken
from ...runtime.scalar_type import dtype as ScalarType
from ...runtime.scalar_type import int32
from ...runtime.sparse_data import COMPRESSED
from ...runtime.tensor_impl import TensorImpl
from ...runtime.traceback_filter import api_boundary
from ..core.factory_options import check_flags
from ..generated import functions as _ops
from ..tensor import Tensor
from .sparse import are_checked, placed

if TYPE_CHECKING:
    from ...runtime.device import DeviceLike

__all__ = [
    "sparse_bsc_tensor",
    "sparse_bsr_tensor",
    "sparse_compressed_tensor",
    "sparse_csc_tensor",
    "sparse_csr_tensor",
]


def _made(
    name: str,
    compressed: Any,
    plain: Any,
    values: Any,
    size: Sequence[int] | None,
    layout: Layout,
    dtype: ScalarType | None,
    device: DeviceLike,
    requires_grad: bool,
    check_invariants: bool | None,
) -> Tensor:
    check_flags(name, requires_grad=requires_grad)
    values = placed(values, dtype, None if device is None else Device(device))
    where = values.device
    # Lists become int64 tensors, or int32 ones beside an int32 tensor.
    index_tensors = [part for part in (compressed, plain) if isinstance(part, TensorImpl)]
    of_lists = int32 if len(index_tensors) == 1 and index_tensors[0]._spec.dtype is int32 else None
    compressed, plain = (
        placed(part, None if isinstance(part, TensorImpl) else of_lists, where)
        for part in (compressed, plain)
    )
    if size is None:
        from ..composite.sparse_compressed import inferred_size

        size = inferred_size(compressed, plain, values, layout)
    sizes = tuple(size)
    if are_checked(check_invariants, where):
        _ops._validate_sparse_compressed_tensor_args(compressed, plain, values, sizes, layout)
    made: Any = _ops._sparse_compressed_tensor_unsafe(compressed, plain, values, sizes, layout=layout)
    return made._set_requires_grad() if requires_grad else made  # type: ignore[no-any-return]


def _expect(name: str, layout: Layout | None, expected: Layout) -> None:
    if layout is not None and layout is not expected:
        raise RuntimeError(f"{name}: layout must be {spoken(expected)} but got {spoken(layout)}")


@api_boundary
def sparse_compressed_tensor(
    compressed_indices: Any,
    plain_indices: Any,
    values: Any,
    size: Sequence[int] | None = None,
    *,
    dtype: ScalarType | None = None,
    layout: Layout | None = None,
    device: DeviceLike = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> Tensor:
    """Construct a sparse tensor in a compressed layout: CSR, CSC, BSR or BSC (`torch.sparse_compressed_tensor`).

    Args:
        compressed_indices: Offset of each row or column among the values, of shape (*batch, lines + 1): a tensor of
            int32 or int64, or data for `tt.tensor`.
        plain_indices: The other coordinate of each value, of shape (*batch, specified elements).
        values: The values, of shape (*batch, specified elements, *block sizes, *dense sizes).
        size: The sizes, (*batch, rows, columns, *dense sizes); by default the least that hold all indices.
        dtype: The dtype; by default that of `values`.
        layout: `tt.sparse_csr`, `tt.sparse_csc`, `tt.sparse_bsr` or `tt.sparse_bsc`.
        device: The device; by default that of `values`, or `tt.get_default_device()`.
        pin_memory: Must be False.
        requires_grad: If True, the result requires grad.
        check_invariants: If True, check the values of indices. Default: True on the CPU, False on a GPU, where the
            host would wait; `tt.sparse.check_sparse_tensor_invariants` sets the default.

    Returns:
        A tensor of that layout over the memory of the three parts.

    Raises:
        RuntimeError: Parts do not match, indices break an invariant, or `layout` is not a compressed one.

    Example:
        >>> import triten as tt
        >>> x = tt.sparse_compressed_tensor([0, 1, 2], [1, 0], [2.0, 3.0], (2, 2), layout=tt.sparse_csr)
        >>> x.to_dense()
        tensor([[0., 2.],
                [3., 0.]])
    """
    name = "sparse_compressed_tensor"
    if layout is None or layout not in COMPRESSED:
        layout_name = "none" if layout is None else spoken(layout)
        raise RuntimeError(f"{name} expected sparse compressed tensor layout but got {layout_name}")
    return _made(
        name,
        compressed_indices,
        plain_indices,
        values,
        size,
        layout,
        dtype,
        device,
        requires_grad,
        check_invariants,
    )


@api_boundary
def sparse_csr_tensor(
    crow_indices: Any,
    col_indices: Any,
    values: Any,
    size: Sequence[int] | None = None,
    *,
    dtype: ScalarType | None = None,
    layout: Layout | None = None,
    device: DeviceLike = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> Tensor:
    """Construct a sparse tensor in CSR layout (`torch.sparse_csr_tensor`).

    Args:
        crow_indices: Offset of each row among the values, of shape (*batch, rows + 1): a tensor of int32 or int64, or
            data for `tt.tensor`.
        col_indices: The column of each value, of shape (*batch, specified values), ascending in each row.
        values: The values, of shape (*batch, specified values, *dense sizes).
        size: The sizes, (*batch, rows, columns, *dense sizes); by default the least that hold all indices.
        dtype: The dtype; by default that of `values`.
        layout: None or `tt.sparse_csr`.
        device: The device; by default that of `values`, or `tt.get_default_device()`.
        pin_memory: Must be False.
        requires_grad: If True, the result requires grad.
        check_invariants: If True, check the values of indices. Default: True on the CPU, False on a GPU, where the
            host would wait; `tt.sparse.check_sparse_tensor_invariants` sets the default.

    Returns:
        A tensor of layout `tt.sparse_csr` over the memory of the three parts.

    Raises:
        RuntimeError: Parts do not fit each other, or indices break an invariant.

    Example:
        >>> import triten as tt
        >>> tt.sparse_csr_tensor([0, 1, 2], [1, 0], [2.0, 3.0], (2, 2)).to_dense()
        tensor([[0., 2.],
                [3., 0.]])
    """
    name = "sparse_csr_tensor"
    _expect(name, layout, sparse_csr)
    return _made(
        name,
        crow_indices,
        col_indices,
        values,
        size,
        sparse_csr,
        dtype,
        device,
        requires_grad,
        check_invariants,
    )


@api_boundary
def sparse_csc_tensor(
    ccol_indices: Any,
    row_indices: Any,
    values: Any,
    size: Sequence[int] | None = None,
    *,
    dtype: ScalarType | None = None,
    layout: Layout | None = None,
    device: DeviceLike = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> Tensor:
    """Construct a sparse tensor in CSC layout (`torch.sparse_csc_tensor`).

    Args:
        ccol_indices: Offset of each column among the values, of shape (*batch, columns + 1): a tensor of int32 or
            int64, or data for `tt.tensor`.
        row_indices: The row of each value, of shape (*batch, specified values), ascending in each column.
        values: The values, of shape (*batch, specified values, *dense sizes).
        size: The sizes, (*batch, rows, columns, *dense sizes); by default the least that hold all indices.
        dtype: The dtype; by default that of `values`.
        layout: None or `tt.sparse_csc`.
        device: The device; by default that of `values`, or `tt.get_default_device()`.
        pin_memory: Must be False.
        requires_grad: If True, the result requires grad.
        check_invariants: If True, check the values of indices. Default: True on the CPU, False on a GPU, where the
            host would wait; `tt.sparse.check_sparse_tensor_invariants` sets the default.

    Returns:
        A tensor of layout `tt.sparse_csc` over the memory of the three parts.

    Raises:
        RuntimeError: Parts do not fit each other, or indices break an invariant.

    Example:
        >>> import triten as tt
        >>> tt.sparse_csc_tensor([0, 1, 2], [1, 0], [2.0, 3.0], (2, 2)).to_dense()
        tensor([[0., 3.],
                [2., 0.]])
    """
    name = "sparse_csc_tensor"
    _expect(name, layout, sparse_csc)
    return _made(
        name,
        ccol_indices,
        row_indices,
        values,
        size,
        sparse_csc,
        dtype,
        device,
        requires_grad,
        check_invariants,
    )


@api_boundary
def sparse_bsr_tensor(
    crow_indices: Any,
    col_indices: Any,
    values: Any,
    size: Sequence[int] | None = None,
    *,
    dtype: ScalarType | None = None,
    layout: Layout | None = None,
    device: DeviceLike = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> Tensor:
    """Construct a sparse tensor in BSR layout (`torch.sparse_bsr_tensor`).

    Args:
        crow_indices: Offset of each row of blocks among the values, of shape (*batch, rows of blocks + 1): a tensor
            of int32 or int64, or data for `tt.tensor`.
        col_indices: The column of blocks of each block, of shape (*batch, specified blocks), ascending in each row of
            blocks.
        values: The blocks, of shape (*batch, specified blocks, two block sizes, *dense sizes).
        size: The sizes, (*batch, rows, columns, *dense sizes); by default the least that hold all indices.
        dtype: The dtype; by default that of `values`.
        layout: None or `tt.sparse_bsr`.
        device: The device; by default that of `values`, or `tt.get_default_device()`.
        pin_memory: Must be False.
        requires_grad: If True, the result requires grad.
        check_invariants: If True, check the values of indices. Default: True on the CPU, False on a GPU, where the
            host would wait; `tt.sparse.check_sparse_tensor_invariants` sets the default.

    Returns:
        A tensor of layout `tt.sparse_bsr` over the memory of the three parts.

    Raises:
        RuntimeError: Parts do not fit each other, or indices break an invariant.

    Example:
        >>> import triten as tt
        >>> tt.sparse_bsr_tensor([0, 1, 2], [1, 0], [[[1.0], [2.0]], [[3.0], [4.0]]], (4, 2)).to_dense()
        tensor([[0., 1.],
                [0., 2.],
                [3., 0.],
                [4., 0.]])
    """
    name = "sparse_bsr_tensor"
    _expect(name, layout, sparse_bsr)
    return _made(
        name,
        crow_indices,
        col_indices,
        values,
        size,
        sparse_bsr,
        dtype,
        device,
        requires_grad,
        check_invariants,
    )


@api_boundary
def sparse_bsc_tensor(
    ccol_indices: Any,
    row_indices: Any,
    values: Any,
    size: Sequence[int] | None = None,
    *,
    dtype: ScalarType | None = None,
    layout: Layout | None = None,
    device: DeviceLike = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> Tensor:
    """Construct a sparse tensor in BSC layout (`torch.sparse_bsc_tensor`).

    Args:
        ccol_indices: Offset of each column of blocks among the values, of shape (*batch, columns of blocks + 1): a
            tensor of int32 or int64, or data for `tt.tensor`.
        row_indices: The row of blocks of each block, of shape (*batch, specified blocks), ascending in each column of
            blocks.
        values: The blocks, of shape (*batch, specified blocks, two block sizes, *dense sizes).
        size: The sizes, (*batch, rows, columns, *dense sizes); by default the least that hold all indices.
        dtype: The dtype; by default that of `values`.
        layout: None or `tt.sparse_bsc`.
        device: The device; by default that of `values`, or `tt.get_default_device()`.
        pin_memory: Must be False.
        requires_grad: If True, the result requires grad.
        check_invariants: If True, check the values of indices. Default: True on the CPU, False on a GPU, where the
            host would wait; `tt.sparse.check_sparse_tensor_invariants` sets the default.

    Returns:
        A tensor of layout `tt.sparse_bsc` over the memory of the three parts.

    Raises:
        RuntimeError: Parts do not fit each other, or indices break an invariant.

    Example:
        >>> import triten as tt
        >>> tt.sparse_bsc_tensor([0, 1, 2], [1, 0], [[[1.0, 2.0]], [[3.0, 4.0]]], (2, 4)).to_dense()
        tensor([[0., 0., 3., 4.],
                [1., 2., 0., 0.]])
    """
    name = "sparse_bsc_tensor"
    _expect(name, layout, sparse_bsc)
    return _made(
        name,
        ccol_indices,
        row_indices,
        values,
        size,
        sparse_bsc,
        dtype,
        device,
        requires_grad,
        check_invariants,
    )
