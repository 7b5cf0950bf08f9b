"""Bringing a gradient to what its input was: the shape before broadcasting, the dtype before promotion."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from ...runtime.layout import strided
from ...runtime.tensor_spec import TensorSpec
from ..core.overload_packet import packets

if TYPE_CHECKING:
    from ..tensor import Tensor
    from .node import Node

KNOWN_SHAPES = 4096
"""Pairs of shapes whose broadcast dimensions are remembered."""


def reduce_to_spec(grad: Tensor, spec: TensorSpec, node: Node) -> Tensor:
    """The gradient summed to the spec's sizes and cast to its dtype; as it is where both fit already.

    Raises RuntimeError where the sizes cannot come from broadcasting, as the engine of PyTorch does.
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
    """Whether a tensor of `sizes` broadcasts to `target`."""
    if len(sizes) > len(target):
        return False
    return all(a == b or a == 1 for a, b in zip(reversed(sizes), reversed(target), strict=False))


@lru_cache(KNOWN_SHAPES)
def _broadcast_dims(sizes: tuple[int, ...], target: tuple[int, ...]) -> tuple[tuple[int, ...], bool] | None:
    """The dimensions of `target` that broadcasting `sizes` added, or else made longer, which the flag tells.

    None where it does not broadcast.
    """
    if not is_expandable_to(sizes, target):
        return None
    lead = len(target) - len(sizes)
    repeated = [i for i in range(lead, len(target)) if sizes[i - lead] == 1 and target[i] != 1]
    return (*range(lead), *repeated), bool(repeated)


def sum_to_size(grad: Tensor, sizes: tuple[int, ...]) -> Tensor:
    """Sum over the dimensions that broadcasting added or expanded. Raises ValueError where it cannot have."""
    broadcast = _broadcast_dims(sizes, grad._spec.sizes)
    if broadcast is None:
        raise ValueError(f"{list(sizes)} does not broadcast to {list(grad._spec.sizes)}")
    return _sum_over(grad, sizes, *broadcast)


def _sum_over(grad: Tensor, sizes: tuple[int, ...], dims: tuple[int, ...], are_own: bool) -> Tensor:
    if are_own:
        grad = grad.sum(dims, keepdim=True)
        return grad if grad._spec.ndim == len(sizes) else grad.reshape(sizes)
    if dims and grad._spec.layout is not strided and len(dims) == grad._spec.ndim:
        # Compressed rows keep the dimensions that are summed over, unless all are.
        return grad.sum()
    return grad.sum(dims) if dims else grad
