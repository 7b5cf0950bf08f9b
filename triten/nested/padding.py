"""Nested tensors as padded batches, and what is computed on those."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..dispatch.core.tensor_function import handle_tensor_function, has_tensor_function_unary
from ..dispatch.generated import functions as ops
from ..dispatch.tensor import Tensor
from .nested_tensor import JAGGED, NestedTensor
from .ragged import pad, unpad


def to_padded_tensor(
    input: Tensor, padding: float, output_size: Sequence[int] | None = None, out: Tensor | None = None
) -> Tensor:
    """Convert a nested tensor to a dense one by padding each sequence at its end (`torch.nested.to_padded_tensor`).

    Args:
        input: a nested tensor of any layout.
        padding: the element behind the sequences.
        output_size: the result's sizes; the least ones that hold all sequences by default.
        out: not supported; it must be None.

    Returns:
        (batch, ...), differentiable.

    Raises:
        RuntimeError: `output_size` is too small.
        TypeError: `input` is not nested.

    Example:
        >>> import triten as tt
        >>> x = tt.nested.nested_tensor([tt.ones(2), tt.ones(3)], layout=tt.jagged)
        >>> tt.nested.to_padded_tensor(x, 0.0)
        tensor([[1., 1., 0.],
                [1., 1., 1.]])
    """
    if has_tensor_function_unary(input) and not isinstance(input, NestedTensor):
        return handle_tensor_function(to_padded_tensor, (input,), input, padding, output_size)  # type: ignore[no-any-return]
    if out is not None:
        raise RuntimeError("to_padded_tensor(): out= is not supported")
    if not isinstance(input, NestedTensor):
        raise TypeError(f"to_padded_tensor(): expected a nested tensor, got {type(input).__name__}")
    packed = input.packed()
    raggedness, ragged = packed._raggedness, packed._ragged_idx
    width = None
    if output_size is not None:
        least: list[int] = [raggedness.batch_size, *packed._packed.shape]
        least[ragged] = raggedness.max_seqlen
        if len(output_size) != len(least) or any(a < b for a, b in zip(output_size, least, strict=True)):
            raise RuntimeError(
                "to_padded_tensor(): Value in output_size is less than NestedTensor padded size. Truncation is not "
                f"supported: expected at least {tuple(least)}, got {tuple(output_size)}"
            )
        width = output_size[ragged]
    padded = pad(packed._packed, raggedness, ragged - 1, padding, width)
    if output_size is not None and tuple(padded.shape) != tuple(output_size):
        behind = [
            n for a, b in zip(reversed(output_size), reversed(padded.shape), strict=True) for n in (0, a - b)
        ]
        padded = ops.constant_pad_nd(padded, behind, padding)
    return padded


def from_padded(padded: Tensor, like: NestedTensor, ragged_idx: int | None = None) -> NestedTensor:
    """Cut a padded batch to the lengths of `like`, which has no holes."""
    ragged = like._ragged_idx if ragged_idx is None else ragged_idx
    return NestedTensor(unpad(padded, like._raggedness, ragged), like._raggedness, ragged)


def wrapped(nested: NestedTensor, dim: int, name: str) -> int:
    """Normalize a dimension to a non-negative one.

    Raises:
        IndexError: The dimension is out of range.
    """
    dims = nested.dim()
    if not -dims <= dim < dims:
        raise IndexError(
            f"{name}(): Dimension out of range (expected to be in range of [{-dims}, {dims - 1}], but got {dim})"
        )
    return dim % dims


def inner_dim(nested: NestedTensor, dim: int, name: str) -> int:
    """Return the dimension of the values for a dense dimension.

    Raises:
        RuntimeError: The dimension is the batch or the ragged one.
    """
    dim = wrapped(nested, dim, name)
    if dim == 0:
        raise RuntimeError(f"{name}(): not supported for NestedTensor on dim=0")
    if dim == nested._ragged_idx:
        raise RuntimeError(f"{name}(): not supported for NestedTensor on ragged dim")
    return dim - 1


def _normalized(name: str, sign: int, operator: Any) -> None:
    def rule(
        input: NestedTensor, dim: int | None = None, dtype: Any = None, *, _stacklevel: int = 3
    ) -> NestedTensor:
        if dim is None:
            raise RuntimeError(f"{name}(): expected dim for a nested tensor, got None")
        wrapped_dim = wrapped(input, dim, name)
        if wrapped_dim == 0:
            raise RuntimeError(
                f"{name}(): not supported when reducing across the batch dimension for NestedTensor"
            )
        values = input._packed if sign > 0 else -input._packed
        if wrapped_dim != input._ragged_idx:
            return input.like(operator(values, wrapped_dim - 1, dtype=dtype))
        packed = input.packed()
        values = packed._packed if sign > 0 else -packed._packed
        values = values if dtype is None else values.to(dtype)
        padded = pad(values, packed._raggedness, wrapped_dim - 1, float("-inf"))
        return from_padded(operator(padded, wrapped_dim), packed)

    JAGGED.signature(name)(rule)


_normalized("softmax", 1, ops.softmax)
_normalized("log_softmax", 1, ops.log_softmax)
_normalized("softmin", -1, ops.softmax)
JAGGED.rules["_softmax"] = JAGGED.rules["softmax"]


def _scan(name: str) -> None:
    operator = getattr(ops, name)

    def rule(input: NestedTensor, dim: int, **named: Any) -> NestedTensor:
        wrapped_dim = wrapped(input, dim, name)
        if wrapped_dim != input._ragged_idx:
            return input.like(operator(input._packed, inner_dim(input, dim, name), **named))
        packed = input.packed()
        return from_padded(
            operator(pad(packed._packed, packed._raggedness, wrapped_dim - 1, 0), wrapped_dim, **named),
            packed,
        )

    JAGGED.signature(name)(rule)


for _name in ("cumsum", "cumprod", "logcumsumexp"):
    _scan(_name)


@JAGGED.signature("scaled_dot_product_attention")
def attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> NestedTensor:
    """Compute attention within each sequence: pad the sequences and mask out the padding.

    Raises:
        ValueError: `attn_mask` is given, some operand is not nested, or is not (batch, heads, ragged, width).
        RuntimeError: `key` and `value` have different sequences.
    """
    name = "scaled_dot_product_attention"
    if attn_mask is not None:
        raise ValueError(f"{name}(): Masks are not yet supported for nested tensors, got attn_mask")
    inputs = (query, key, value)
    if not all(isinstance(each, NestedTensor) for each in inputs):
        names = ", ".join(type(each).__name__ for each in inputs)
        raise ValueError(
            f"{name}(): expected query, key and value to be all nested or all non-nested, got {names}"
        )
    if any(each.dim() < 3 or each._ragged_idx != each.dim() - 2 for each in inputs):
        shapes = ", ".join(f"({', '.join(map(str, each.shape))})" for each in inputs)
        raise ValueError(
            f"{name}(): expected nested tensors of the form (batch, heads, ragged, width), got {shapes}"
        )
    if key._raggedness.size != value._raggedness.size:
        raise RuntimeError(
            f"{name}(): expected key and value of the same sequences, got sizes {key._raggedness.size} and "
            f"{value._raggedness.size}"
        )
    query, key, value = (each.packed() for each in inputs)
    q, k, v = (pad(each._packed, each._raggedness, each._ragged_idx - 1, 0) for each in (query, key, value))
    mask = key._raggedness.mask()
    mask = mask.view(mask.shape[0], *(1,) * (query.dim() - 2), mask.shape[1])
    if is_causal:
        mask = mask & ops.ones(q.shape[-2], k.shape[-2], dtype=mask.dtype, device=mask.device).tril()
    result = ops.scaled_dot_product_attention(
        q, k, v, mask, dropout_p, False, scale=scale, enable_gqa=enable_gqa
    )
    return from_padded(result, query)
