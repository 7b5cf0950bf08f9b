"""Gradients of fractional pooling (ATen/native/FractionalMaxPool2d.cpp, FractionalMaxPool3d.cpp)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...runtime.cuda.value_reading import may_read_values
from ...runtime.scalar_type import int64
from ..generated import functions as ops
from ..structured.meta.fractional_pooling import SIDES, check_images
from ..structured.meta.linalg import check_same_device
from .forms import out_form

if TYPE_CHECKING:
    from ..tensor import Tensor


def _check(
    name: str, grad: Tensor, self: Tensor, output_size: Sequence[int], indices: Tensor, rank: int
) -> None:
    """Check sizes and dtypes as PyTorch does. Raises RuntimeError, or NotImplementedError for non-floating dtypes."""
    spec, sizes = self._spec, grad._spec.sizes
    check_images(name, spec, rank)
    expected = (*spec.sizes[:-rank], *output_size)
    if rank == 2:
        for argument, actual in (("gradOutput", sizes), ("indices", indices._spec.sizes)):
            if actual != expected:
                raise RuntimeError(f"{name}(): {argument} sizes unexpected")
    elif len(sizes) != len(expected) or sizes != expected:
        sides = dict(zip(SIDES[rank], zip(sizes[-rank:], expected[-rank:], strict=False), strict=False))
        wrong = next((side for side, (actual, n) in sides.items() if actual != n), "sizes")
        raise RuntimeError(f"{name}_out(): gradOutput {wrong} unexpected")
    elif indices._spec.sizes != expected:
        raise RuntimeError(f"{name}_out(): indices sizes unexpected")
    check_same_device(name, spec, grad._spec, indices._spec)
    if not spec.dtype.is_floating_point:
        raise NotImplementedError(f"\"{name}_out_frame\" not implemented for '{spec.dtype.scalar_name}'")
    for own, dtype in ((grad._spec.dtype, spec.dtype), (indices._spec.dtype, int64)):
        if own is not dtype:
            raise RuntimeError(f"expected scalar type {dtype.scalar_name} but found {own.scalar_name}")


def _backward(
    rank: int, grad_output: Tensor, self: Tensor, output_size: Sequence[int], indices: Tensor
) -> Tensor:
    """Scatter-add each gradient to its window's argmax in a tensor of zeros, in the order of windows."""
    name = f"fractional_max_pool{rank}d_backward"
    _check(name, grad_output, self, output_size, indices, rank)
    sizes = self._spec.sizes
    lead, volume = sizes[:-rank], math.prod(sizes[-rank:])
    flat_sizes = (*lead, math.prod(output_size))
    flat = indices.reshape(flat_sizes)
    if not self._spec.is_meta and flat._spec.numel and may_read_values(flat._spec.device):
        wrong = ops.logical_or(ops.lt(flat, 0), ops.ge(flat, volume))
        if bool(ops.any(wrong)):
            wrong_index = int(flat.masked_select(wrong).select(0, 0))
            raise RuntimeError(
                f"{name}: found an invalid max index {wrong_index} in volumes of {volume} elements"
            )
    added = self.new_zeros((*lead, volume)).scatter_add(-1, flat, grad_output.reshape(flat_sizes))
    # A tensor that owns its memory, not a view of a hidden temporary.
    return added.reshape(sizes).detach()


def fractional_max_pool2d_backward(
    grad_output: Tensor, self: Tensor, kernel_size: Sequence[int], output_size: Sequence[int], indices: Tensor
) -> Tensor:
    """Scatter the gradient to the argmax positions."""
    return _backward(2, grad_output, self, output_size, indices)


def fractional_max_pool3d_backward(
    grad_output: Tensor, self: Tensor, kernel_size: Sequence[int], output_size: Sequence[int], indices: Tensor
) -> Tensor:
    """Scatter the gradient to the argmax positions."""
    return _backward(3, grad_output, self, output_size, indices)


fractional_max_pool2d_backward_grad_input = out_form(
    "fractional_max_pool2d_backward", fractional_max_pool2d_backward
)
fractional_max_pool3d_backward_grad_input = out_form(
    "fractional_max_pool3d_backward", fractional_max_pool3d_backward
)
