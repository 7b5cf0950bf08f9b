"""Multi-head self-attention of nested tensors: that of the padded batch, with a mask for the padding."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...dispatch.generated import functions as _ops
from ...dispatch.tensor_data import tensor
from ...runtime.grad_mode import is_grad_enabled
from ...runtime.layout import strided

if TYPE_CHECKING:
    from ...dispatch.tensor import Tensor
    from .attention import MultiheadAttention


def nested_self_attention(
    layer: MultiheadAttention,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    key_padding_mask: Tensor | None,
    need_weights: bool,
    attn_mask: Tensor | None,
    average_attn_weights: bool,
) -> tuple[Tensor, Tensor | None]:
    """Return the nested result of self-attention, and the weights of the padded batch or None.

    Weights of padding are 0.

    Raises:
        AssertionError: The call is outside the inference path that accepts nested tensors.
    """
    reason = _refusal(layer, query, key, value, key_padding_mask, attn_mask)
    if reason is not None:
        raise AssertionError(
            "MultiheadAttention does not support NestedTensor outside of its fast path. "
            f"The fast path was not hit because {reason}"
        )
    from ...nested import as_nested_tensor

    parts = query.unbind()
    padded = query.to_padded_tensor(0.0)
    lengths = tensor([part.size(0) for part in parts], device=padded.device)
    is_padding = _ops.arange(padded.size(1), device=padded.device) >= lengths.unsqueeze(1)
    out, weights = layer(
        padded,
        padded,
        padded,
        key_padding_mask=is_padding,
        need_weights=need_weights,
        average_attn_weights=average_attn_weights,
    )
    if weights is not None:
        rows = is_padding if average_attn_weights else is_padding.unsqueeze(1)
        weights = weights.masked_fill(rows.unsqueeze(-1), 0.0)
    nested = as_nested_tensor([row[: part.size(0)] for row, part in zip(out, parts, strict=True)])
    return nested, weights


def _refusal(
    layer: MultiheadAttention,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    key_padding_mask: Tensor | None,
    attn_mask: Tensor | None,
) -> str | None:
    """Return the reason why nested operands are not supported, or None."""
    weights = (layer.in_proj_weight, layer.in_proj_bias, layer.out_proj.weight, layer.out_proj.bias)
    if query.dim() != 3:
        return f"input not batched; expected query.dim() of 3 but got {query.dim()}"
    if query is not key or key is not value:
        return "non-self attention was used (query, key, and value are not the same Tensor)"
    if layer.training:
        return "training is enabled"
    if layer.num_heads % 2:
        return "self.num_heads is not even"
    if not layer.batch_first:
        return "batch_first was not True"
    if layer.bias_k is not None or layer.bias_v is not None:
        return "self.bias_k was not None"
    if layer.add_zero_attn:
        return "add_zero_attn was enabled"
    if not layer._qkv_same_embed_dim:
        return "_qkv_same_embed_dim was not True"
    if key_padding_mask is not None or attn_mask is not None:
        return (
            "supplying both src_key_padding_mask and src_mask at the same time is not supported with "
            "NestedTensor input"
        )
    if query.layout is not strided:
        return "some Tensor argument has_torch_function"
    if is_grad_enabled() and any(each is not None and each.requires_grad for each in (query, *weights)):
        return (
            "grad is enabled and at least one of query or the input/output projection weights or biases "
            "requires_grad"
        )
    return None
