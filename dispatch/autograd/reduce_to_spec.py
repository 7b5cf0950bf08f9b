"""Bringing a gradient to what its input was: the shape before broadcasting, the dtype before promotion."""

from __future__ import annotations

from typing import Any

from ...runtime.tensor_spec import TensorSpec
from ..core.overload_packet import packets

_LEADING = tuple(tuple(range(n)) for n in range(8))


def reduce_to_spec(grad: Any, spec: TensorSpec, node: Any) -> Any:
    """The gradient summed to the spec's sizes and cast to its dtype; as it is where both fit already.

    Raises RuntimeError where the sizes cannot come from broadcasting, as the engine of PyTorch does.
    """
    if grad._spec.sizes != spec.sizes:
        if not is_expandable_to(spec.sizes, grad._spec.sizes):
            raise RuntimeError(
                f"Function {node.name()} returned an invalid gradient at an input - got {list(grad.shape)} but "
                f"expected shape compatible with {list(spec.sizes)}"
            )
        grad = sum_to_size(grad, spec.sizes)
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


def sum_to_size(grad: Any, sizes: tuple[int, ...]) -> Any:
    """Sum over the dimensions that broadcasting added or expanded."""
    have = grad._spec.sizes
    lead = len(have) - len(sizes)
    repeated = [i for i in range(lead, len(have)) if sizes[i - lead] == 1 and have[i] != 1]
    if not repeated:
        return grad.sum(_LEADING[lead] if lead < len(_LEADING) else tuple(range(lead))) if lead else grad
    grad = grad.sum((*range(lead), *repeated), keepdim=True)
    return grad.reshape(sizes) if lead else grad
