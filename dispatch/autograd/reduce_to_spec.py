"""Reduction of a gradient to its input's spec: the shape before broadcasting, the dtype before promotion."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from ...runtime.layout import strided
from ...runtime.tensor_spec import TensorSpec
from ..core.mode_stack import sees_whole
from ..core.overload_packet import packets
from .ownership import taken_over

if TYPE_CHECKING:
    from ..tensor import Tensor
    from .node import Node

KNOWN_SHAPES = 4096
"""Cache limit of shape pairs with their broadcast dimensions."""


def reduce_to_spec(grad: Tensor, spec: TensorSpec, node: Node) -> Tensor:
    """Sum a gradient to the spec's sizes and cast it to its dtype; return it unchanged if both match.

    Raises RuntimeError if broadcasting cannot produce the sizes, as PyTorch's engine does.
    """
    if grad._spec.sizes != spec.sizes:
        broadcast = _broadcast_dims(spec.sizes, grad._spec.sizes)
        if broadcast is None:
            raise RuntimeError(
                f"Function {node.name()} returned an invalid gradient at an input - got {list(grad.shape)} but "
                f"expected shape compatible with {list(spec.sizes)}"
            )
        grad = _sum_over(grad, spec.sizes, *broadcast)
    if grad._spec.dtype is not spec.dtype:
        if grad._spec.dtype.is_complex and not spec.dtype.is_complex:
            grad = packets["real"].call(grad)
        grad = grad.to(spec.dtype)
    return grad


def is_expandable_to(sizes: tuple[int, ...], target: tuple[int, ...]) -> bool:
    """Return whether a tensor of `sizes` broadcasts to `target`."""
    if len(sizes) > len(target):
        return False
    return all(a == b or a == 1 for a, b in zip(reversed(sizes), reversed(target), strict=False))


@lru_cache(KNOWN_SHAPES)
def _broadcast_dims(sizes: tuple[int, ...], target: tuple[int, ...]) -> tuple[tuple[int, ...], bool] | None:
    """Return the dimensions of `target` that broadcasting `sizes` added or expanded, and a flag for expansion.

    Return None if `sizes` does not broadcast.
    """
    if not is_expandable_to(sizes, target):
        return None
    lead = len(target) - len(sizes)
    repeated = [i for i in range(lead, len(target)) if sizes[i - lead] == 1 and target[i] != 1]
    return (*range(lead), *repeated), bool(repeated)


def sum_to_size(grad: Tensor, sizes: tuple[int, ...]) -> Tensor:
    """Sum over the dimensions that broadcasting added or expanded. Raises ValueError if the sizes do not broadcast."""
    broadcast = _broadcast_dims(sizes, grad._spec.sizes)
    if broadcast is None:
        raise ValueError(f"{list(sizes)} does not broadcast to {list(grad._spec.sizes)}")
    return _sum_over(grad, sizes, *broadcast)


def _sum_over(grad: Tensor, sizes: tuple[int, ...], dims: tuple[int, ...], are_own: bool) -> Tensor:
    if not sizes and dims and sees_whole():
        return grad.sum()
    if are_own or (dims and sees_whole() and grad._spec.layout is strided):
        grad = grad.sum(dims, keepdim=True)
        return grad if grad._spec.ndim == len(sizes) else taken_over(grad.reshape(sizes), grad)
    if dims and grad._spec.layout is not strided and len(dims) == grad._spec.ndim:
        # Compressed rows keep the summed dimensions, unless all are summed.
        return grad.sum()
    return grad.sum(dims) if dims else grad
