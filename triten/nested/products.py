"""Products of jagged tensors, and norms over their last dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..dispatch.generated import functions as ops
from ..dispatch.tensor import Tensor
from .nested_tensor import JAGGED, NestedTensor
from .padding import from_padded
from .ragged import pad


def _shown(*tensors: Tensor) -> str:
    return " and ".join(f"({', '.join(map(str, each.shape))})" for each in tensors)


@JAGGED.signature()
def linear(input: Any, weight: Tensor, bias: Tensor | None = None) -> NestedTensor:
    if not isinstance(input, NestedTensor) or input._ragged_idx == input.dim() - 1:
        raise ValueError(
            "linear(): expected input to be a jagged nested tensor with a dense last dimension, and a dense weight, "
            f"got shapes {_shown(input, weight)}"
        )
    return input.like(ops.linear(input._packed, weight, bias))


def _padded(value: Tensor) -> Tensor:
    if not isinstance(value, NestedTensor):
        return value
    packed = value.packed()
    return pad(packed._packed, packed._raggedness, packed._ragged_idx - 1, 0)


def _product(name: str) -> None:
    def rule(input: Any, other: Any = None, *, mat2: Any = None) -> Tensor:
        other = mat2 if other is None else other
        refused = RuntimeError(f"{name}(): not supported between inputs of shapes {_shown(input, other)}")
        if isinstance(input, NestedTensor) and isinstance(other, NestedTensor):
            last, first = input._ragged_idx - input.dim(), other._ragged_idx - other.dim()
            if input._raggedness.size != other._raggedness.size or (last, first) != (-1, -2):
                if last == first and last < -2 and input._raggedness.size == other._raggedness.size:
                    return input.like(ops.matmul(input._packed, other._packed))
                raise refused
            return ops.matmul(_padded(input), _padded(other))  # the zeros of the padding add nothing
        nested = input if isinstance(input, NestedTensor) else other
        dense, ragged_dim = other if nested is input else input, nested._ragged_idx - nested.dim()
        if ragged_dim == (-1 if nested is input else -2):
            raise refused
        if dense.dim() <= 2:
            left, right = (nested._packed, dense) if nested is input else (dense, nested._packed)
            if dense.dim() == 1 and ragged_dim != (-2 if nested is input else -1):
                raise refused
            return nested.like(ops.matmul(left, right))
        if dense.dim() > nested.dim():
            raise refused
        nested = nested.packed()
        padded = _padded(nested)
        left, right = (padded, dense) if nested is input or ragged_dim == -2 else (dense, padded)
        return from_padded(ops.matmul(left, right), nested)

    JAGGED.signature(name)(rule)


for _name in ("matmul", "bmm", "__matmul__"):
    _product(_name)


@JAGGED.signature("__rmatmul__")
def reflected_matmul(input: Any, other: Any) -> Any:
    return ops.matmul(other, input)


def _check_normalized(input: NestedTensor, normalized_shape: Sequence[int], name: str) -> None:
    if len(normalized_shape) > input.dim() - input._ragged_idx - 1:
        raise ValueError(
            f"{name}(): Normalization over the ragged dim not supported for nested tensors, got normalized_shape="
            f"{tuple(normalized_shape)} for an input of shape {_shown(input)}"
        )


@JAGGED.signature()
def layer_norm(
    input: NestedTensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> NestedTensor:
    _check_normalized(input, normalized_shape, "layer_norm")
    return input.like(ops.layer_norm(input._packed, normalized_shape, weight, bias, eps))


@JAGGED.signature()
def rms_norm(
    input: NestedTensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    eps: float | None = None,
) -> NestedTensor:
    _check_normalized(input, normalized_shape, "rms_norm")
    return input.like(ops.rms_norm(input._packed, normalized_shape, weight, eps))
