"""Masks of attention that are known by their name, and not by their elements (`torch.nn.attention.bias`)."""

from __future__ import annotations

import enum
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...dispatch.generated import functions as _ops
from ...dispatch.tensor import Tensor
from ...runtime import attention_backends as _backends
from ...runtime.scalar_type import bool_

if TYPE_CHECKING:
    from ...runtime.device import DeviceLike

__all__ = ["CausalBias", "CausalVariant", "causal_lower_right", "causal_upper_left"]


class CausalVariant(enum.IntEnum):
    """Which corner a causal mask begins in, where there are not as many queries as keys.

    With `UPPER_LEFT` query i attends to the keys up to i, with `LOWER_RIGHT` the last query attends to all keys, and
    each one before it to one less. (`torch.nn.attention.bias.CausalVariant`.)
    """

    UPPER_LEFT = 1
    LOWER_RIGHT = 2


class CausalBias(Tensor):
    """A causal mask for `scaled_dot_product_attention`, by its variant (`torch.nn.attention.bias.CausalBias`).

    `causal_upper_left` and `causal_lower_right` make one. It has no elements to compute with: it is an `attn_mask`.

    Args:
        variant: the corner that it begins in.
        seq_len_q, seq_len_kv: The numbers of queries and keys.

    Warns where `LOWER_RIGHT` leaves queries without a key.

    Raises AssertionError for what is no `CausalVariant`.
    """

    variant: CausalVariant
    seq_len_q: int
    seq_len_kv: int

    def __init__(self, variant: CausalVariant, seq_len_q: int, seq_len_kv: int) -> None:
        if not isinstance(variant, CausalVariant):
            raise AssertionError(f"variant must be a CausalVariant, got {type(variant).__name__}")
        super().__init__()
        self.variant, self.seq_len_q, self.seq_len_kv = variant, seq_len_q, seq_len_kv
        if seq_len_q > seq_len_kv and variant is CausalVariant.LOWER_RIGHT:
            warnings.warn(
                "Lower right causal bias will produce NaNs in the output when seq_len_q > seq_len_kv!",
                stacklevel=3,
            )

    def _materialize(self, device: DeviceLike = "cpu") -> Tensor:
        """Return the mask as a bool tensor."""
        ones = _ops.ones((self.seq_len_q, self.seq_len_kv), dtype=bool_, device=device)
        offset = self.seq_len_kv - self.seq_len_q if self.variant is CausalVariant.LOWER_RIGHT else 0
        return _ops.tril(ones, offset)

    @classmethod
    def __tensor_function__(
        cls,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Pass the mask's variant to attention; handle other functions as for any tensor."""
        if func is _ops.scaled_dot_product_attention:
            return _attention(*args, **(kwargs or {}))
        return super().__tensor_function__(func, types, args, kwargs or {})

    def __repr__(self, *, tensor_contents: object = None) -> str:
        return repr(self._materialize())


def _attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: CausalBias,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """Compute `scaled_dot_product_attention` with a causal mask that is known by its variant."""
    if is_causal:
        raise ValueError("CausalBias should not be used with causal=True")
    variant = attn_mask.variant
    options: dict[str, Any] = {"dropout_p": dropout_p, "scale": scale, "enable_gqa": enable_gqa}
    if attn_mask.seq_len_q == attn_mask.seq_len_kv or variant is CausalVariant.UPPER_LEFT:
        return _ops.scaled_dot_product_attention(query, key, value, None, is_causal=True, **options)
    _check_operands(query, key, value)
    mask = attn_mask._materialize(query.device)
    _warn_of_unfused(query, key, value, mask, options)
    return _ops.scaled_dot_product_attention(query, key, value, mask, **options)


def _check_operands(query: Tensor, key: Tensor, value: Tensor) -> None:
    dtypes: list[Any] = [operand.dtype for operand in (query, key, value)]
    devices: list[Any] = [operand.device for operand in (query, key, value)]
    for name, kind, attributes in (("dtype", "dtype", dtypes), ("device", "device type", devices)):
        if not attributes[0] == attributes[1] == attributes[2]:
            raise ValueError(
                f"Expected query, key, and value to have the same {kind}, but got query.{name}: {attributes[0]}, "
                f"key.{name}: {attributes[1]}, and value.{name}: {attributes[2]} instead."
            )
    ranks = [operand.dim() for operand in (query, key, value)]
    if min(ranks) < 2:
        raise ValueError(
            "Expected query, key, and value to all be  at least 2 dimensional, but got query.dim: "
            f"{ranks[0]}, key.dim: {ranks[1]} and value.dim: {ranks[2]} instead."
        )


def _warn_of_unfused(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor, options: dict[str, Any]
) -> None:
    """Warn, if the user wants that, where attention is computed by ordinary operators."""
    from .. import attention

    if attention.WARN_FOR_UNFUSED_KERNELS:
        from ...dispatch.composite.attention import _fused_sdp_choice

        choice = _fused_sdp_choice(
            query, key, value, mask, options["dropout_p"], False, options["scale"], options["enable_gqa"]
        )
        if choice == _backends.MATH:
            warnings.warn(
                "Efficient attention and flash attention can't be used for these operands: attention is computed by "
                "ordinary operators.",
                stacklevel=2,
            )


def causal_upper_left(*size: int) -> CausalBias:
    """Return a causal mask aligned to the upper left corner (`torch.nn.attention.bias.causal_upper_left`).

    Args:
        size: The number of queries and of keys.

    Raises:
        AssertionError: There are not exactly two sizes.

    Example:
        >>> from triten.nn.attention.bias import causal_upper_left
        >>> causal_upper_left(2, 3)
        tensor([[ True, False, False],
                [ True,  True, False]])
    """
    if len(size) != 2:
        raise AssertionError(f"causal_upper_left only supports 2D tensors, got the sizes {size}")
    return CausalBias(CausalVariant.UPPER_LEFT, *size)


def causal_lower_right(*size: int) -> CausalBias:
    """Return a causal mask aligned to the lower right corner (`torch.nn.attention.bias.causal_lower_right`).

    Args:
        size: The number of queries and of keys.

    Raises:
        AssertionError: There are not exactly two sizes.

    Example:
        >>> import triten as tt
        >>> from triten.nn.attention.bias import causal_lower_right
        >>> bias = causal_lower_right(2, 3)
        >>> bias
        tensor([[ True,  True, False],
                [ True,  True,  True]])
        >>> v = tt.arange(3.0).reshape(1, 1, 3, 1)
        >>> tt.nn.functional.scaled_dot_product_attention(tt.zeros(1, 1, 2, 1), v, v, bias).flatten()
        tensor([0.5000, 1.0000])
    """
    if len(size) != 2:
        raise AssertionError(f"causal_lower_right only supports 2D tensors, got the sizes {size}")
    return CausalBias(CausalVariant.LOWER_RIGHT, *size)
