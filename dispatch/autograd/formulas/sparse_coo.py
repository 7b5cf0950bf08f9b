"""Formulas of sparse tensors: a gradient has the layout of its input."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ....runtime.layout import layout as Layout
from ....runtime.layout import sparse_coo, strided
from ...core.op_overload import find_overload
from ...generated import functions as ops

if TYPE_CHECKING:
    from ...tensor import Tensor


def sparse_values_at(grad: Tensor, result: Tensor) -> Any:
    """Return the gradient of the values: the gradient of the sparse tensor at its coordinates."""
    return grad.sparse_mask(result)._values()


def values_backward(grad: Tensor, self: Tensor) -> Any:
    """Return a sparse tensor whose values are the gradient of another one's values."""
    if self._spec.layout is sparse_coo:
        return ops._sparse_coo_tensor_unsafe(self._indices(), grad, self.shape, is_coalesced=True)
    parts = self._data
    return find_overload("aten::_sparse_compressed_tensor_unsafe")(
        parts.compressed, parts.plain, grad, self.shape, layout=self._spec.layout
    )


def to_sparse_backward(grad: Tensor, layout: Layout, blocksize: tuple[int, int] | None) -> Any:
    """Return the gradient in the layout and with the block size from which the tensor was converted."""
    if layout is strided:
        return grad.to_dense()
    return grad.to_sparse(layout=layout, blocksize=blocksize)


def compressed_values_at(grad: Tensor, result: Tensor) -> Any:
    """Return the gradient of the values of a compressed tensor, at its coordinates."""
    return grad.sparse_mask(result).values()


def sparse_mask_backward(grad: Tensor, layout: Layout, mask: Tensor) -> Any:
    """Return the gradient at the coordinates of the mask, counting repeated ones each time."""
    taken = grad.sparse_mask(mask)
    return taken.to_dense() if layout is strided else taken


def zeros_for_overwritten(grad: Tensor) -> Any:
    """Return zeros in the gradient's layout: the gradient of overwritten values."""
    return grad.new_zeros(grad.shape) if grad._spec.layout is strided else ops.zeros_like(grad)
