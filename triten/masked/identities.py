"""Masks, and what masked-out elements are replaced with: the identity of each reduction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..dispatch.generated import functions as ops
from ..dispatch.tensor import Tensor
from ..runtime.layout import strided
from ..runtime.scalar_type import bool_, float32, iinfo

DimOrDims = int | Sequence[int] | None
"""A dimension, several, or all."""

ZERO = ("sum", "cumsum", "normalize")
ONE = ("prod", "cumprod")
LEAST = ("amax", "argmax", "logaddexp", "logsumexp", "softmax", "log_softmax")
GREATEST = ("amin", "argmin", "softmin")


def reduction_identity(name: str, input: Tensor, ord: float | None = 2.0) -> Any:
    """Return the identity element of an operation for a tensor's dtype.

    Args:
        name: Name of the operation in `tt.masked`.
        input: the tensor.
        ord: Order of a norm.

    Returns:
        a number; None for operations without one: mean, var and std.

    Raises:
        NotImplementedError: the operation has no identity among the dtype's values.

    Source: torch.masked._ops._reduction_identity.
    """
    dtype = input.dtype
    is_bounded = dtype.is_floating_point or not (dtype is bool_ or dtype.is_complex)
    if name in ZERO or name in ONE:
        value = int(name in ONE)
        return bool(value) if dtype is bool_ else value
    if name in LEAST and is_bounded:
        return float("-inf") if dtype.is_floating_point else iinfo(dtype).min
    if name == "logsumexp" and dtype.is_complex:
        return complex(float("-inf"), 0)
    if name in GREATEST and is_bounded:
        return float("inf") if dtype.is_floating_point else iinfo(dtype).max
    if name == "norm":
        return float("inf") if ord == float("-inf") else 0
    if name == "median":
        return float("nan")
    if name in ("mean", "var", "std"):
        return None
    raise NotImplementedError(f"identity of {name} on {dtype} input")


def reduction_identity_tensor(op_name: str, input: Tensor, *args: Any) -> Tensor | None:
    """Return `reduction_identity` as a tensor without dimensions (`torch.masked._reduction_identity`).

    Args:
        op_name: Name of the operation, with or without the module's.
        input: The tensor, whose dtype and device the result has.
        args: The order of a norm.
    """
    value = reduction_identity(op_name.rpartition(".")[2], input, *args)
    if value is None:
        return None
    dtype = float32 if isinstance(value, float) and not input.dtype.is_floating_point else input.dtype
    return ops.full((), value, dtype=dtype, device=input.device)


def canonical_dim(dim: DimOrDims, ndim: int) -> tuple[int, ...]:
    """Return dimensions as nonnegative numbers; all dimensions for None and ().

    Raises:
        RuntimeError: A dimension occurs twice.
        IndexError: A dimension is out of range.
    """
    if dim is None or (not isinstance(dim, int) and len(dim) == 0):
        return tuple(range(ndim))
    ndim = max(ndim, 1)
    dims: list[int] = []
    for each in [dim] if isinstance(dim, int) else dim:
        if not -ndim <= each < ndim:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [{-ndim}, {ndim - 1}], but got {each})"
            )
        if each % ndim in dims:
            raise RuntimeError(f"dim={each} appears multiple times in the list of dims")
        dims.append(each % ndim)
    return tuple(sorted(dims))


def input_mask(input: Tensor, mask: Tensor) -> Tensor:
    """Return a mask as a bool tensor of the input's shape and layout.

    Raises:
        IndexError: it has more dimensions.
    """
    if mask.dim() > input.dim():
        raise IndexError(
            "_input_mask expected broadcastable mask (got mask dimensionality higher than of the input): "
            f"{mask.dim()} dimensions for {input.dim()}"
        )
    if mask.layout is not strided or input.layout is not strided:
        from .sparse import mask_in_layout

        return mask_in_layout(mask, input)
    if mask.shape != input.shape:
        mask = ops.broadcast_to(mask, input.shape)
    return mask.to(dtype=bool_)


def without_masked(name: str, input: Tensor, mask: Tensor | None, ord: float | None = 2.0) -> Tensor:
    """Replace masked-out elements by the identity element of an operation.

    Raises:
        ValueError: The input is sparse.
    """
    if input.layout is not strided:
        raise ValueError(f"masked {name} expects strided tensor (got {input.layout} tensor)")
    if mask is None:
        return input
    return ops.where(input_mask(input, mask), input, reduction_identity(name, input, ord))
