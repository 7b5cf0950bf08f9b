"""Constructors of sparse tensors from user data (torch/csrc/utils/tensor_new.cpp, torch/sparse/__init__.py).

The root re-exports them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...runtime.device import device as Device
from ...runtime.layout import sparse_coo
from ...runtime.scalar_type import dtype as ScalarType
from ...runtime.scalar_type import int64
from ...runtime.tensor_impl import TensorImpl
from ...runtime.traceback_filter import api_boundary
from ..core.factory_options import check_flags
from ..core.op_overload import find_overload
from ..generated import functions as _ops
from ..tensor import Tensor
from ..tensor_data import tensor

if TYPE_CHECKING:
    from ...runtime.device import DeviceLike

__all__ = ["sparse_coo_tensor"]


class _Invariants:
    """Setting for invariant checks of sparse tensors: always, never or, by default, only where they are fast."""

    enabled: bool | None = None


invariants = _Invariants()


def are_checked(check_invariants: bool | None, device: Device) -> bool:
    """Return whether a constructor checks index values: on the CPU by default, unless the caller disables it.

    On a GPU the host would have to wait, so the check is opt-in.
    """
    if check_invariants is None:
        check_invariants = invariants.enabled
    return device.type == "cpu" if check_invariants is None else check_invariants


def placed(data: Any, dtype: ScalarType | None, device: Device | None) -> Any:
    """Return a part of a sparse tensor; a tensor with that dtype and device is not copied."""
    if isinstance(data, TensorImpl):
        part: Any = data
        return part.to(device=device, dtype=dtype)
    return tensor(data, dtype=dtype, device=device)


@api_boundary
def sparse_coo_tensor(
    indices: Any = None,
    values: Any = None,
    size: Sequence[int] | None = None,
    *,
    dtype: ScalarType | None = None,
    device: DeviceLike = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
    is_coalesced: bool | None = None,
) -> Tensor:
    """Construct a sparse tensor in COO layout from coordinates and values (`torch.sparse_coo_tensor`).

    Args:
        indices: The coordinates, of shape (sparse dimensions, specified elements): a tensor, or what `tt.tensor` takes.
            If given alone, it is the size of a tensor without elements, as `size` is.
        values: The values, of shape (specified elements, dense sizes...). A number is one value. Values at equal
            coordinates add up.
        size: The sizes; by default the least that hold all coordinates.
        dtype: The dtype; by default that of `values`.
        device: The device; by default that of `values`, or `tt.get_default_device()`.
        pin_memory: Must be False.
        requires_grad: If True, the result requires grad.
        check_invariants: If True, check the values of `indices`. Default: True on the CPU, False on a GPU, where the
            host would wait; `tt.sparse.check_sparse_tensor_invariants` sets the default.
        is_coalesced: True if the caller knows that the columns of `indices` are sorted and unique.

    Returns:
        A tensor of layout `tt.sparse_coo` over the memory of `indices` and `values`.

    Raises:
        RuntimeError: Shapes do not fit each other, an index is negative or too large, or `is_coalesced` is not true.

    Example:
        >>> import triten as tt
        >>> tt.sparse_coo_tensor([[0, 1], [2, 0]], [3.0, 4.0], (2, 3)).to_dense()
        tensor([[0., 0., 3.],
                [4., 0., 0.]])
    """
    check_flags("sparse_coo_tensor", requires_grad=requires_grad)
    where = None if device is None else Device(device)
    if indices is None:
        indices, size = size, None
    if values is None and size is None:
        if indices is None:
            raise TypeError("sparse_coo_tensor(): expected indices and values, or a size")
        made: Any = find_overload("aten::sparse_coo_tensor.size")(
            tuple(indices), dtype=dtype, layout=sparse_coo, device=where
        )
        return made._set_requires_grad() if requires_grad else made  # type: ignore[no-any-return]
    values = placed(values, dtype, where)
    indices = placed(indices, int64, values.device)
    if not values._spec.ndim:
        values = values.expand((1,))
    if size is None:
        from ..composite.sparse_coo import inferred_size

        size = inferred_size(indices, values)
    size = tuple(size)
    if are_checked(check_invariants, values.device):
        _ops._validate_sparse_coo_tensor_args(indices, values, size, is_coalesced)
    made = _ops._sparse_coo_tensor_unsafe(indices, values, size, is_coalesced=is_coalesced)
    return made._set_requires_grad() if requires_grad else made  # type: ignore[no-any-return]
