"""Products of nested tensors of layout ``tt.strided``: one for each tensor of the batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..dispatch.generated import functions as ops
from ..dispatch.tensor import Tensor
from .strided import STRIDED, StridedNestedTensor


def _check_dense(input: Any, other: Any) -> None:
    """Raise RuntimeError if one operand is a dense tensor that has no tensor for each one of the batch."""
    first, second = (isinstance(each, StridedNestedTensor) for each in (input, other))
    dense = other if first else input
    if first != second and dense.dim() < 2:
        names = ("nested self and non-nested", "non-nested self and nested")
        raise RuntimeError(f"Expected both to be nested, but got a {names[second]} other")


def _parts(value: Any, batch: int) -> Sequence[Tensor]:
    """Return the operand for each tensor of the batch; a matrix serves all of them."""
    if isinstance(value, StridedNestedTensor):
        return value._components
    return value.unbind() if value.dim() > 2 else [value] * batch


def _pairs(input: Any, other: Any, message: str) -> list[tuple[Tensor, Tensor]]:
    """Return the operands for each tensor of the batch.

    Raises:
        RuntimeError: The batches have different sizes; the error begins with `message`.
    """
    nested: StridedNestedTensor = input if isinstance(input, StridedNestedTensor) else other
    first, second = _parts(input, len(nested)), _parts(other, len(nested))
    if len(first) != len(second):
        raise RuntimeError(f"{message} tensor to be: {len(first)} but got: {len(second)}.")
    return list(zip(first, second, strict=True))


@STRIDED.signature()
def bmm(input: Any, mat2: Any) -> StridedNestedTensor:
    _check_dense(input, mat2)
    for name, each in (("batch1", input), ("batch2", mat2)):
        if each.dim() != 3:
            raise RuntimeError(f"{name} must be a 3D tensor")
    pairs = _pairs(input, mat2, "Expected size for the 1st dimension of batch2")
    for number, (a, b) in enumerate(pairs):
        if a.shape[1] != b.shape[0]:
            raise RuntimeError(
                f"{number}-th nested matrices in batch cannot be multiplied ({a.shape[0]}x{a.shape[1]} and "
                f"{b.shape[0]}x{b.shape[1]})"
            )
    return StridedNestedTensor([a.matmul(b) for a, b in pairs])


@STRIDED.signature("matmul", "__matmul__")
def matmul(input: Any, other: Any) -> StridedNestedTensor:
    _check_dense(input, other)
    for name, each in (("1st", input), ("2nd", other)):
        if isinstance(each, StridedNestedTensor) and each.dim() < 3:
            raise RuntimeError(
                "matmul: For nested tensors, only inputs with >= 3 dims are currently supported. "
                f"{name} input has rank: {each.dim()}"
            )
    pairs = _pairs(input, other, "matmul: Expected size for the 1st dimension of 2nd input")
    return StridedNestedTensor([a.matmul(b) for a, b in pairs])


@STRIDED.rule("linear")
def linear(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> StridedNestedTensor:
    """Apply a linear map to each tensor."""
    named = dict(zip(("input", "weight", "bias"), args, strict=False)) | dict(kwargs)
    input, weight, bias = named["input"], named["weight"], named.get("bias")
    if isinstance(weight, StridedNestedTensor):
        raise RuntimeError("Linear does not support nested weight when input is a nested tensor.")
    if weight.dim() != 2:
        raise RuntimeError(
            "Linear requires nested_tensor.dim == 3 and dense_matrix.dim == 2. Nested tensor dim: "
            f"{input.dim()}. Dense tensor dim: {weight.dim()}"
        )
    width = input.size(-1) if len(input) and input.dim() > 1 else None
    if width is not None and width != weight.shape[1]:
        raise RuntimeError(
            "Shape mismatch for NestedTensor Linear: Expected input's (a nested tensor) 'last_dim' to equal "
            f"'weight.size(1), but got: last_dim = {width}, and weight.size(1) = {weight.shape[1]}"
        )
    return StridedNestedTensor([ops.linear(each, weight, bias) for each in input._components])
