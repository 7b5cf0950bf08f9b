"""Attention of several heads between a projection in and one out, with PyTorch's Python signature.

Source: Vaswani and others, "Attention is all you need", 2017, section 3.2.2.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..dispatch.core.mode_stack import sees_whole
from ..dispatch.core.tensor_function import overridable
from ..dispatch.generated import functions as _ops
from ..runtime.local_dispatch_key_set import modes
from ..runtime.scalar_type import bool_
from ..runtime.scalar_type import dtype as ScalarType
from ..runtime.user_frame import levels_to_user

if TYPE_CHECKING:
    from ..dispatch.tensor import Tensor

__all__ = ["multi_head_attention_forward"]


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise AssertionError(message)


def check_shapes(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    key_padding_mask: Tensor | None,
    attn_mask: Tensor | None,
    num_heads: int,
) -> bool:
    """Return whether the inputs have a batch dimension.

    Raises:
        AssertionError: The ranks or shapes do not match.
    """
    rank = query.dim()
    _require(
        rank in (2, 3),
        f"query should be unbatched 2D or batched 3D tensor but received {rank}-D query tensor",
    )
    prefix = f"For {'batched' if rank == 3 else 'unbatched'} ({rank}-D) `query`, expected "
    _require(
        key.dim() == value.dim() == rank,
        f"{prefix}`key` and `value` to be {rank}-D but found {key.dim()}-D and {value.dim()}-D tensors respectively",
    )
    if key_padding_mask is not None:
        _require(
            key_padding_mask.dim() == rank - 1,
            f"{prefix}`key_padding_mask` to be `None` or {rank - 1}-D but found {key_padding_mask.dim()}-D tensor "
            "instead",
        )
    if attn_mask is not None:
        _require(
            attn_mask.dim() in (2, 3),
            f"{prefix}`attn_mask` to be `None`, 2-D or 3-D but found {attn_mask.dim()}-D tensor instead",
        )
        expected = (num_heads, query.shape[0], key.shape[0])
        if rank == 2 and attn_mask.dim() == 3:
            _require(
                attn_mask.shape == expected,
                f"Expected `attn_mask` shape to be {expected} but got {attn_mask.shape}",
            )
    return rank == 3


def additive(
    mask: Tensor | None, name: str, dtype: ScalarType, beside: Tensor | None = None
) -> Tensor | None:
    """Convert a mask to numbers that are added to scores: -inf where a bool mask is True.

    Warns if the mask's dtype differs from that of `beside`, the attention mask.

    Raises:
        AssertionError: The mask has an integer dtype.
    """
    if mask is None:
        return None
    _require(
        mask.dtype is bool_ or mask.is_floating_point(),
        f"only bool and floating types of {name} are supported",
    )
    if beside is not None and mask.dtype is not beside.dtype:
        warnings.warn(
            f"Support for mismatched {name} and attn_mask is deprecated. Use same type for both instead.",
            stacklevel=levels_to_user(),
        )
    if mask.dtype is bool_:
        return _ops.zeros_like(mask, dtype=dtype).masked_fill_(mask, -math.inf)
    return mask


def _projected_together(
    query: Tensor, key: Tensor, value: Tensor, weight: Tensor, bias: Tensor | None, is_batched: bool
) -> Sequence[Tensor]:
    """Project query, key and value by thirds of a weight. Inputs that are the same tensor share a matmul.

    PyTorch refuses a weight and a bias of other sizes, unless all three are one batched tensor and the bias broadcasts.
    """
    width = query.size(-1)
    if modes and sees_whole():
        return _projected_like_pytorch(query, key, value, weight, bias, is_batched)
    if query is key is value and is_batched:
        projected = _ops.linear(query, weight, bias)
        if projected.size(-1) != 3 * width:
            projected.unflatten(-1, (3, width))  # raises PyTorch's error
        return projected.split(width, -1)
    for x in (weight, bias):
        if x is not None and (x.dim() == 0 or x.size(0) != 3 * width):
            _refuse_thirds(x, width, key is value and is_batched)
    inputs: list[tuple[Tensor, int]] = []
    for operand in (query, key, value):
        if inputs and inputs[-1][0] is operand:
            inputs[-1] = (operand, inputs[-1][1] + 1)
        else:
            inputs.append((operand, 1))
    projections: list[Tensor] = []
    begin = 0
    for operand, count in inputs:
        rows = slice(begin * width, (begin + count) * width)
        projected = _ops.linear(operand, weight[rows], None if bias is None else bias[rows])
        projections += projected.split(width, -1)
        begin += count
    return projections


def _projected_like_pytorch(
    query: Tensor, key: Tensor, value: Tensor, weight: Tensor, bias: Tensor | None, is_batched: bool
) -> Sequence[Tensor]:
    """Project query, key and value by PyTorch's operators, for a mode that sees them."""
    width = query.size(-1)

    def thirds(x: Tensor, weight: Tensor, bias: Tensor | None, count: int) -> list[Tensor]:
        product = _ops.linear(x, weight, bias).unflatten(-1, (count, width))
        product = product.unsqueeze(0).transpose(0, -2).squeeze(-2).contiguous()
        return [product[i] for i in range(count)]

    if is_batched and query is key is value:
        return thirds(query, weight, bias, 3)
    if is_batched and key is value:
        sizes = [width, 2 * width]
        of_query, of_both = weight.split(sizes)
        query_bias, both_bias = (None, None) if bias is None else bias.split(sizes)
        projected = _ops.linear(query, of_query, query_bias)
        return [projected, *thirds(key, of_both, both_bias, 2)]
    biases = (None, None, None) if bias is None else bias.chunk(3)
    return [_ops.linear(*each) for each in zip((query, key, value), weight.chunk(3), biases, strict=True)]


def _refuse_thirds(x: Tensor, width: int, in_two: bool) -> None:
    """Refuse a weight or bias that is not of three times `width` rows: taken apart in two, or in three."""
    if not in_two:
        _query, _key, _value = x.chunk(3)
    x.split([width, 2 * width])


def _projected_apart(
    inputs: tuple[Tensor, Tensor, Tensor],
    weights: tuple[Tensor, Tensor, Tensor],
    biases: tuple[Tensor | None, ...],
) -> tuple[Tensor, ...]:
    """Project query, key and value, each by its own weight.

    Raises:
        AssertionError: The shapes do not match.
    """
    width = inputs[0].size(-1)
    names = ("query", "key", "value")
    for name, x, weight in zip(names, inputs, weights, strict=True):
        expected = (width, x.size(-1))
        _require(
            weight.shape == expected, f"expecting {name} weights shape of {expected}, but got {weight.shape}"
        )
    for name, bias in zip(names, biases, strict=True):
        if bias is not None:
            _require(
                bias.shape == (width,), f"expecting {name} bias shape of {(width,)}, but got {bias.shape}"
            )
    return tuple(_ops.linear(*each) for each in zip(inputs, weights, biases, strict=True))


def _checked_mask(mask: Tensor, lines: int, length_q: int, length_k: int) -> Tensor:
    """Return the mask with three dimensions, the first of size 1 or `lines`.

    Raises:
        RuntimeError: The mask has another shape.
    """
    expected = (length_q, length_k) if mask.dim() == 2 else (lines, length_q, length_k)
    if mask.dim() not in (2, 3):
        raise RuntimeError(f"attn_mask's dimension {mask.dim()} is not supported")
    if mask.shape != expected:
        raise RuntimeError(
            f"The shape of the {mask.dim()}D attn_mask is {mask.shape}, but should be {expected}."
        )
    return mask.unsqueeze(0) if mask.dim() == 2 else mask


def _with_a_key_seen(mask: Tensor | None) -> Tensor | None:
    """Append one more key to a mask, visible to every query."""
    return None if mask is None else _ops.cat([mask, mask.new_zeros((*mask.shape[:-1], 1))], -1)


def _static(tensor: Tensor, name: str, lines: int, width: int) -> Tensor:
    _require(tensor.size(0) == lines, f"expecting {name}.size(0) of {lines}, but got {tensor.size(0)}")
    _require(tensor.size(2) == width, f"expecting {name}.size(2) of {width}, but got {tensor.size(2)}")
    return tensor


@overridable
def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Compute multi-head attention (`torch.nn.functional.multi_head_attention_forward`).

    Args:
        query: The queries, of shape (L, E), or (L, N, E) with batches.
        key: The keys, of shape (S, Ek) or (S, N, Ek).
        value: The values, of shape (S, Ev) or (S, N, Ev).
        embed_dim_to_check: The expected E.
        num_heads: The number of heads, a divisor of E.
        in_proj_weight: The weights of the projections of all three, of shape (3 E, E).
        in_proj_bias: Their biases, of shape (3 E,), or None.
        bias_k: A key more, of shape (1, 1, E), or None.
        bias_v: A value more, likewise.
        add_zero_attn: If True, append a key and a value of zeros.
        dropout_p: The probability with which a weight is dropped in training.
        out_proj_weight: The weights of the projection of the result, of shape (E, E).
        out_proj_bias: Its biases, of shape (E,), or None.
        training: If True, apply dropout to the weights. Default: True.
        key_padding_mask: A tensor of shape (S,) or (N, S); True hides a key, a number is added to its scores.
        need_weights: If True, weights are returned. Without them the fused operators are used. Default: True.
        attn_mask: A tensor of shape (L, S) or (N num_heads, L, S); True hides a key from a query, a number is added
            to the score.
        use_separate_proj_weight: If True, the three weights below are taken instead of `in_proj_weight`. Default:
            False.
        q_proj_weight: The weights of the queries' projection, of shape (E, E).
        k_proj_weight: Those of the keys', of shape (E, Ek).
        v_proj_weight: Those of the values', of shape (E, Ev).
        static_k: Keys of shape (N num_heads, S, E / num_heads), taken instead of projected ones.
        static_v: Values, likewise.
        average_attn_weights: If True, average the attention weights over the heads. Default: True.
        is_causal: Says that `attn_mask` is the causal one, so that it need not be read.

    Returns:
        A pair of the result, of shape (L, E) or (L, N, E), and the weights, of shape (L, S) or (N, L, S), with the
        heads before L where they are not averaged; None where they are not needed.

    Raises:
        AssertionError: Sizes do not fit.
        RuntimeError: Masks do not fit.

    References:
        Vaswani et al., Attention is all you need (2017).

    Example:
        >>> import triten as tt
        >>> x, weight, eye = tt.ones(3, 4), tt.ones(12, 4), tt.eye(4)
        >>> attend = tt.nn.functional.multi_head_attention_forward
        >>> out, weights = attend(x, x, x, 4, 2, weight, None, None, None, False, 0.0, eye, None)
        >>> out[0], weights.shape
        (tensor([4., 4., 4., 4.]), triten.Size([3, 3]))
    """
    is_batched = check_shapes(query, key, value, key_padding_mask, attn_mask, num_heads)
    if not is_batched:
        # Unsqueeze a shared tensor once, so that one matmul projects it.
        outer = {id(x): x.unsqueeze(1) for x in (query, key, value)}
        query, key, value = outer[id(query)], outer[id(key)], outer[id(value)]
        if key_padding_mask is not None:
            key_padding_mask = key_padding_mask.unsqueeze(0)
    length_q, batch, width = query.shape
    length_k = key.shape[0]
    key_padding_mask = additive(key_padding_mask, "key_padding_mask", query.dtype, attn_mask)
    if is_causal and attn_mask is None:
        raise RuntimeError(
            "Need attn_mask if specifying the is_causal hint. You may use the Transformer module method "
            "`generate_square_subsequent_mask` to create this mask."
        )
    if is_causal and key_padding_mask is None and not need_weights:
        attn_mask = None
    else:
        attn_mask = additive(attn_mask, "attn_mask", query.dtype)
        is_causal = is_causal and key_padding_mask is None
    _require(
        width == embed_dim_to_check,
        f"was expecting embedding dimension of {embed_dim_to_check}, but got {width}",
    )
    head = width // num_heads
    _require(head * num_heads == width, f"embed_dim {width} not divisible by num_heads {num_heads}")
    if use_separate_proj_weight:
        _require(
            key.shape[:2] == value.shape[:2],
            f"key's sequence and batch dims {key.shape[:2]} do not match value's {value.shape[:2]}",
        )
        weights: Any = (q_proj_weight, k_proj_weight, v_proj_weight)
        for name, weight in zip("qkv", weights, strict=True):
            _require(weight is not None, f"use_separate_proj_weight is True but {name}_proj_weight is None")
        biases = (None,) * 3 if in_proj_bias is None else tuple(in_proj_bias.chunk(3))
        q, k, v = _projected_apart((query, key, value), weights, biases)
    else:
        _require(key.shape == value.shape, f"key shape {key.shape} does not match value shape {value.shape}")
        _require(in_proj_weight is not None, "use_separate_proj_weight is False but in_proj_weight is None")
        whole: Any = in_proj_weight
        q, k, v = _projected_together(query, key, value, whole, in_proj_bias, is_batched)
    lines = batch * num_heads
    if attn_mask is not None:
        attn_mask = _checked_mask(attn_mask, lines, length_q, length_k)
    if bias_k is not None and bias_v is not None:
        _require(static_k is None, "bias cannot be added to static key.")
        _require(static_v is None, "bias cannot be added to static value.")
        k, v = (_ops.cat([x, b.repeat(1, batch, 1)]) for x, b in ((k, bias_k), (v, bias_v)))
        attn_mask, key_padding_mask = _with_a_key_seen(attn_mask), _with_a_key_seen(key_padding_mask)
    else:
        _require(bias_k is None, "bias_k is set but bias_v is None")
        _require(bias_v is None, "bias_v is set but bias_k is None")

    def by_lines(x: Tensor) -> Tensor:
        return x.reshape(x.shape[0], lines, head).transpose(0, 1)

    q = by_lines(q)
    k = by_lines(k) if static_k is None else _static(static_k, "static_k", lines, head)
    v = by_lines(v) if static_v is None else _static(static_v, "static_v", lines, head)
    if add_zero_attn:
        k, v = (_ops.cat([x, x.new_zeros((lines, 1, head))], 1) for x in (k, v))
        attn_mask, key_padding_mask = _with_a_key_seen(attn_mask), _with_a_key_seen(key_padding_mask)
    length_k = k.size(1)
    if key_padding_mask is not None:
        for dim, expected in enumerate((batch, length_k)):
            _require(
                key_padding_mask.shape[dim] == expected,
                f"Expected key_padded_mask.shape[{dim}] to be {expected}, but got {key_padding_mask.shape[dim]}",
            )
        padding = key_padding_mask.view(batch, 1, 1, length_k).expand(-1, num_heads, -1, -1)
        padding = padding.reshape(lines, 1, length_k)
        attn_mask = padding if attn_mask is None else attn_mask + padding
    dropped = dropout_p if training else 0.0
    if need_weights:
        out, attn_weights = _weighted(q, k, v, attn_mask, dropped)
        out = out.transpose(0, 1)
    else:
        if attn_mask is not None:
            sizes = (batch, num_heads) if attn_mask.size(0) != 1 else (1, 1)
            attn_mask = attn_mask.view(*sizes, attn_mask.size(-2), length_k)
        q, k, v = (x.reshape(batch, num_heads, x.size(1), head) for x in (q, k, v))
        out = _ops.scaled_dot_product_attention(q, k, v, attn_mask, dropped, is_causal)
        out = out.permute(2, 0, 1, 3)
        attn_weights = None
    out = _ops.linear(out.reshape(length_q * batch, width), out_proj_weight, out_proj_bias)
    out = out.view(length_q, batch, out.size(1))
    if attn_weights is not None:
        attn_weights = attn_weights.view(batch, num_heads, length_q, length_k)
        if average_attn_weights:
            attn_weights = attn_weights.mean(1)
    if is_batched:
        return out, attn_weights
    return out.squeeze(1), None if attn_weights is None else attn_weights.squeeze(0)


def _weighted(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, dropout_p: float
) -> tuple[Tensor, Tensor]:
    """Compute softmax(q k^T / sqrt(width) + mask) v, and return it with the weights after dropout."""
    q, k = q * math.sqrt(1.0 / q.size(-1)), k.transpose(-2, -1)
    weights = _ops.softmax(_ops.bmm(q, k) if mask is None else _ops.baddbmm(mask, q, k), -1)
    if dropout_p > 0.0:
        if not dropout_p <= 1.0:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {dropout_p}")
        weights = _ops.dropout(weights, dropout_p, True)
    return _ops.bmm(weights, v), weights
