"""Attention layers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...dispatch.generated import functions as _ops
from .. import functional as F
from .. import init
from .linear import NonDynamicallyQuantizableLinear
from .module import Module
from .nested_attention import nested_self_attention
from .parameter import Parameter

if TYPE_CHECKING:
    from ...dispatch.tensor import Tensor
    from ...runtime.device import DeviceLike
    from ...runtime.scalar_type import dtype as ScalarType

__all__ = ["MultiheadAttention"]


class MultiheadAttention(Module):
    """Multi-head attention with learnable projections (`torch.nn.MultiheadAttention`; Vaswani et al., 2017).

        softmax(q @ k^T / sqrt(d)) @ v, for each head, with d = embed_dim / num_heads

    The queries, keys and values of a head are linear maps of the inputs. A last linear map combines the heads.

    Args:
        embed_dim: E, the size of queries and of the result, a multiple of `num_heads`.
        num_heads: The number of heads.
        dropout: The probability of zero for attention weights, in training. Default: 0.
        bias: If True, the projections have a bias. Default: True.
        add_bias_kv: If True, append a learnable key and value. Default: False.
        add_zero_attn: If True, append a key and a value of zeros. Default: False.
        kdim, vdim: The sizes of keys and values. Default: E.
        batch_first: If True, tensors are (N, L, E) instead of (L, N, E). Default: False.
        device, dtype: The device and dtype of the parameters.

    Shape:
        query: (L, N, E), (N, L, E) with `batch_first`, or (L, E).
        key, value: (S, N, kdim) and (S, N, vdim), likewise.
        output: The shape of the query, with weights of shape (N, L, S), or None without `need_weights`.

    Raises:
        ValueError: A size is not positive.
        AssertionError: `num_heads` does not divide `embed_dim`.

    Example:
        >>> import triten as tt
        >>> layer, x = tt.nn.MultiheadAttention(8, 2, batch_first=True), tt.ones(5, 3, 8)
        >>> out, weights = layer(x, x, x)
        >>> out.shape, weights.shape
        (triten.Size([5, 3, 8]), triten.Size([5, 3, 3]))
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: DeviceLike = None,
        dtype: ScalarType | None = None,
    ) -> None:
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                f"embed_dim and num_heads must be greater than 0, got embed_dim={embed_dim} and num_heads={num_heads} "
                "instead"
            )
        super().__init__()
        self.embed_dim = embed_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self._qkv_same_embed_dim = self.kdim == embed_dim == self.vdim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.head_dim = embed_dim // num_heads
        if self.head_dim * num_heads != embed_dim:
            raise AssertionError("embed_dim must be divisible by num_heads")

        def parameter(*sizes: int) -> Parameter:
            return Parameter(_ops.empty(*sizes, device=device, dtype=dtype))

        self.bias_k: Parameter | None
        self.bias_v: Parameter | None
        # The order of PyTorch's parameters, which optimizers' states are numbered by.
        if self._qkv_same_embed_dim:
            self.in_proj_weight = parameter(3 * embed_dim, embed_dim)
            for name in "qkv":
                self.register_parameter(f"{name}_proj_weight", None)
        else:
            self.q_proj_weight = parameter(embed_dim, embed_dim)
            self.k_proj_weight = parameter(embed_dim, self.kdim)
            self.v_proj_weight = parameter(embed_dim, self.vdim)
            self.register_parameter("in_proj_weight", None)
        if bias:
            self.in_proj_bias = parameter(3 * embed_dim)
        else:
            self.register_parameter("in_proj_bias", None)
        self.out_proj = NonDynamicallyQuantizableLinear(
            embed_dim, embed_dim, bias=bias, device=device, dtype=dtype
        )
        if add_bias_kv:
            self.bias_k, self.bias_v = parameter(1, 1, embed_dim), parameter(1, 1, embed_dim)
        else:
            self.bias_k = self.bias_v = None
        self.add_zero_attn = add_zero_attn
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        for weight in (self.in_proj_weight, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
            if weight is not None:
                init.xavier_uniform_(weight)
        if self.in_proj_bias is not None:
            init.constant_(self.in_proj_bias, 0.0)
        if self.in_proj_bias is not None and self.out_proj.bias is not None:
            init.constant_(self.out_proj.bias, 0.0)
        for bias in (self.bias_k, self.bias_v):
            if bias is not None:
                init.xavier_normal_(bias)

    def merge_masks(
        self, attn_mask: Tensor | None, key_padding_mask: Tensor | None, query: Tensor
    ) -> tuple[Tensor | None, int | None]:
        """Combine the masks of attention and of padding into one.

        Args:
            attn_mask: A mask (L, L) or (N * num_heads, L, L), or None.
            key_padding_mask: A mask (N, L), or None.
            query: The queries (N, L, E).

        Returns:
            The mask, and its kind: 1 for `key_padding_mask` alone, 2 for (N, num_heads, L, L), None without masks.

        Example:
            >>> import triten as tt
            >>> layer = tt.nn.MultiheadAttention(4, 2, batch_first=True)
            >>> mask, kind = layer.merge_masks(tt.zeros(3, 3), tt.zeros(5, 3), tt.zeros(5, 3, 4))
            >>> mask.shape, kind
            (triten.Size([5, 2, 3, 3]), 2)
        """
        if attn_mask is None:
            return key_padding_mask, None if key_padding_mask is None else 1
        batch, length, _ = query.shape
        if attn_mask.dim() == 3:
            merged = attn_mask.view(batch, -1, length, length)
        else:
            merged = attn_mask.view(1, 1, length, length).expand(batch, self.num_heads, -1, -1)
        if key_padding_mask is not None:
            merged = merged + key_padding_mask.view(batch, 1, 1, length).expand(-1, self.num_heads, -1, -1)
        return merged, 2

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Compute attention and its weights; see `tt.nn.functional.multi_head_attention_forward`."""
        if query.is_nested or key.is_nested or value.is_nested:
            return nested_self_attention(
                self, query, key, value, key_padding_mask, need_weights, attn_mask, average_attn_weights
            )
        turned = self.batch_first and query.dim() == 3
        if turned:
            # Transpose a shared tensor once, so that one matmul projects it.
            outer = {id(x): x for x in (query, key, value)}
            outer = {tensor_id: x.transpose(1, 0) for tensor_id, x in outer.items()}
            query, key, value = outer[id(query)], outer[id(key)], outer[id(value)]
        out, weights = F.multi_head_attention_forward(
            query,
            key,
            value,
            self.embed_dim,
            self.num_heads,
            self.in_proj_weight,
            self.in_proj_bias,
            self.bias_k,
            self.bias_v,
            self.add_zero_attn,
            self.dropout,
            self.out_proj.weight,
            self.out_proj.bias,
            training=self.training,
            key_padding_mask=key_padding_mask,
            need_weights=need_weights,
            attn_mask=attn_mask,
            use_separate_proj_weight=not self._qkv_same_embed_dim,
            q_proj_weight=self.q_proj_weight,
            k_proj_weight=self.k_proj_weight,
            v_proj_weight=self.v_proj_weight,
            average_attn_weights=average_attn_weights,
            is_causal=is_causal,
        )
        return out.transpose(1, 0) if turned else out, weights
