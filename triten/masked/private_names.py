"""Functions that programs import by PyTorch's private names from `torch.masked`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..dispatch.generated import functions as ops
from ..dispatch.tensor import Tensor
from ..runtime.layout import strided
from .identities import canonical_dim, reduction_identity
from .identities import input_mask as _canonical_mask
from .sparse import sparse_where

REDUCTIONS = frozenset(
    {"sum", "prod", "amax", "amin", "argmax", "argmin", "mean", "median", "norm", "var", "std", "logsumexp"}
)
NORMALIZATIONS = frozenset({"softmax", "log_softmax", "softmin", "normalize", "cumsum", "cumprod"})


def input_mask(input: Tensor, *args: Any, **named: Any) -> Tensor:
    """Return the keyword argument `mask` as a bool tensor of the input's shape and layout.

    Raises:
        ValueError: There is no mask.
        IndexError: It has more dimensions than the input.
    """
    mask = named.get("mask")
    if mask is None:
        raise ValueError("_input_mask requires explicit mask")
    return _canonical_mask(input, mask)


def output_mask(op: Callable[..., Tensor], input: Tensor, *args: Any, **named: Any) -> Tensor:
    """Return the mask of a masked operation's result: True where an element counts.

    Args:
        op: A reduction or normalization of `tt.masked`.
        input: Its input.
        *args: Its other positional arguments.
        **named: Its keyword arguments, with `mask`.

    Raises:
        ValueError: `op` is another callable, or there is no mask.
    """
    name = op.__name__
    if name in NORMALIZATIONS:
        return input_mask(input, **named)
    if name not in REDUCTIONS:
        raise ValueError(
            f"_output_mask expected masked operation (got callable {op.__module__}.{op.__name__})"
        )
    rest = args[1:] if name == "norm" else args
    mask = input_mask(input, **named)
    keepdim = bool(named.get("keepdim", False))
    for dim in reversed(canonical_dim(rest[0] if rest else named.get("dim"), input.dim())):
        mask = mask.any(dim, keepdim)
    return mask


def where(mask: Tensor, input: Tensor, fill_value: Tensor) -> Tensor:
    """Return the input's elements where the mask is True, and `fill_value` elsewhere; sparse masks select elements.

    Args:
        mask: A bool tensor of the input's layout.
        input: The tensor.
        fill_value: A 0-d tensor.
    """
    return (
        ops.where(mask, input, fill_value)
        if mask.layout is strided
        else sparse_where(mask, input, fill_value)
    )


def combine_input_and_mask(
    op: Callable[..., Tensor], input: Tensor, mask: Tensor | None, *args: Any
) -> Tensor:
    """Replace masked-out elements by the identity element of a masked operation."""
    if mask is None:
        return input
    return where(_canonical_mask(input, mask), input, reduction_identity(op.__name__, input, *args))
