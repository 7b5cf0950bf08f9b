"""The Transformer, its encoder and decoder, and their layers.

Source: A. Vaswani and others, "Attention is all you need", 2017; normalized first: R. Xiong and others, "On layer
normalization in the Transformer architecture", 2020. There is one way through a layer, trained or not: rows of padding
hold what attention gives for them, where PyTorch's nested tensors leave zeros.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from ...dispatch.generated import functions as _ops
from .. import functional as F
from .. import init
from ..multi_head import additive
from .attention import MultiheadAttention
from .container import ModuleList
from .dropout import Dropout
from .linear import Linear
from .linear_activation import activated
from .module import Module
from .normalization import LayerNorm

if TYPE_CHECKING:
    from ...dispatch.tensor import Tensor
    from ...runtime.device import DeviceLike
    from ...runtime.scalar_type import dtype as ScalarType

__all__ = [
    "Transformer",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
]

Activation: TypeAlias = "str | Callable[[Tensor], Tensor]"


def _square_subsequent_mask(sz: int, device: DeviceLike = None, dtype: ScalarType | None = None) -> Tensor:
    return _ops.triu(_ops.full((sz, sz), -math.inf, dtype=dtype, device=device), 1)


def _is_causal(mask: Tensor | None, hint: bool | None, x: Tensor, batch_first: bool) -> bool:
    """Return whether a mask is causal: the hint if it is given, else by comparing the values."""
    if hint is not None or mask is None:
        return hint is True
    length = x.shape[0 if x.dim() == 2 or not batch_first else 1]
    causal = _square_subsequent_mask(length, mask.device, mask.dtype)
    return mask.shape == causal.shape and bool((mask == causal).all())


def _masks(
    mask: Tensor | None, padding: Tensor | None, dtype: ScalarType, mask_name: str, padding_name: str
) -> tuple[Tensor | None, Tensor | None]:
    """Convert both masks to additive masks of the scores."""
    padding = additive(padding, padding_name, dtype, mask)
    return additive(mask, mask_name, dtype), padding


def _activation(activation: Activation) -> Callable[[Tensor], Tensor]:
    if not isinstance(activation, str):
        return activation
    if activation not in ("relu", "gelu"):
        raise RuntimeError(f"activation should be relu/gelu, not {activation}")
    function: Callable[[Tensor], Tensor] = getattr(F, activation)
    return function


class _Layer(Module):
    """Attention to oneself and two linear maps, which layers of encoder and decoder share."""

    _last_dropout = "dropout2"

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int,
        dropout: float,
        activation: Activation,
        layer_norm_eps: float,
        batch_first: bool,
        norm_first: bool,
        bias: bool,
        device: DeviceLike,
        dtype: ScalarType | None,
        attentions: tuple[str, ...],
    ) -> None:
        super().__init__()
        factory_kwargs: dict[str, Any] = {"device": device, "dtype": dtype}
        for name in attentions:
            attention = MultiheadAttention(
                d_model, nhead, dropout=dropout, bias=bias, batch_first=batch_first, **factory_kwargs
            )
            setattr(self, name, attention)
        self.linear1 = Linear(d_model, dim_feedforward, bias=bias, **factory_kwargs)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias=bias, **factory_kwargs)
        self.norm_first = norm_first
        steps = range(1, len(attentions) + 2)
        for step in steps:
            setattr(self, f"norm{step}", LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **factory_kwargs))
        for step in steps:
            setattr(self, f"dropout{step}", Dropout(dropout))
        self.activation = _activation(activation)

    # Subclasses override the three blocks, whose names and arguments are PyTorch's.

    def _sa_block(
        self, x: Tensor, attn_mask: Tensor | None, key_padding_mask: Tensor | None, is_causal: bool = False
    ) -> Tensor:
        """Compute the self-attention with its dropout."""
        made = self.self_attn(
            x,
            x,
            x,
            attn_mask=attn_mask,
            key_padding_mask=key_padding_mask,
            need_weights=False,
            is_causal=is_causal,
        )[0]
        return self.dropout1(made)  # type: ignore[no-any-return]

    def _ff_block(self, x: Tensor) -> Tensor:
        """Compute the feed-forward network with its dropout."""
        made = self.linear2(self.dropout(activated(self.linear1, self.activation, x)))
        return getattr(self, self._last_dropout)(made)  # type: ignore[no-any-return]

    def _residual(self, x: Tensor, step: int, block: Callable[[Tensor], Tensor]) -> Tensor:
        """Compute x + block(x), with the norm before the block or after the sum."""
        norm: Callable[[Tensor], Tensor] = getattr(self, f"norm{step}")
        if self.norm_first:
            return x + block(norm(x))
        return norm(x + block(x))


class TransformerEncoderLayer(_Layer):
    """Self-attention and a feed-forward network, each with a residual and a layer norm
    (`torch.nn.TransformerEncoderLayer`; Vaswani et al., 2017).

        y = norm1(x + attention(x)); z = norm2(y + linear2(activation(linear1(y))))

    With `norm_first=True` the norms come before attention and network

        y = x + attention(norm1(x)); z = y + linear2(activation(linear1(norm2(y))))

    Args:
        d_model: E, the size of inputs and outputs.
        nhead: The number of heads of the attention.
        dim_feedforward: The size between the two linear maps. Default: 2048.
        dropout: The probability of zero after attention and linear maps, in training. Default: 0.1.
        activation: `"relu"`, `"gelu"`, or a function of a tensor. Default: ReLU.
        layer_norm_eps: The `eps` of the layer norms. Default: 1e-5.
        batch_first: If True, tensors are (N, S, E) instead of (S, N, E). Default: False.
        norm_first: If True, norms come before attention and network instead of after the residuals. Default: False.
        bias: If True, linear maps and norms have a bias. Default: True.
        device, dtype: The device and dtype of the parameters.

    Shape:
        input: (S, N, E), (N, S, E) with `batch_first`, or (S, E).
        output: The shape of the input.

    Raises:
        RuntimeError: The activation is an unknown name.

    Example:
        >>> import triten as tt
        >>> tt.nn.TransformerEncoderLayer(8, 2, dim_feedforward=16)(tt.ones(5, 3, 8)).shape
        triten.Size([5, 3, 8])
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        layer_norm_eps: float = 1e-05,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: DeviceLike = None,
        dtype: ScalarType | None = None,
    ) -> None:
        super().__init__(
            d_model,
            nhead,
            dim_feedforward,
            dropout,
            activation,
            layer_norm_eps,
            batch_first,
            norm_first,
            bias,
            device,
            dtype,
            ("self_attn",),
        )

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        """Compute the layer's output. Masks are those of `MultiheadAttention`; `is_causal` hints that `src_mask` is
        causal.
        """
        mask, padding = _masks(src_mask, src_key_padding_mask, src.dtype, "src_mask", "src_key_padding_mask")
        x = self._residual(src, 1, lambda y: self._sa_block(y, mask, padding, is_causal))
        return self._residual(x, 2, self._ff_block)


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention to the encoder's output, and a net (`torch.nn.TransformerDecoderLayer`).

    Args: those of `TransformerEncoderLayer`.

    Example:
        >>> import triten as tt
        >>> tt.nn.TransformerDecoderLayer(8, 2, dim_feedforward=16)(tt.ones(5, 3, 8), tt.ones(7, 3, 8)).shape
        triten.Size([5, 3, 8])
    """

    _last_dropout = "dropout3"

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        layer_norm_eps: float = 1e-05,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: DeviceLike = None,
        dtype: ScalarType | None = None,
    ) -> None:
        super().__init__(
            d_model,
            nhead,
            dim_feedforward,
            dropout,
            activation,
            layer_norm_eps,
            batch_first,
            norm_first,
            bias,
            device,
            dtype,
            ("self_attn", "multihead_attn"),
        )

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Compute the layer's output from targets (T, N, E) and the encoder's output `memory` (S, N, E)."""
        x = self._residual(
            tgt,
            1,
            lambda y: self._sa_block(y, tgt_mask, tgt_key_padding_mask, tgt_is_causal),
        )
        x = self._residual(
            x,
            2,
            lambda y: self._mha_block(y, memory, memory_mask, memory_key_padding_mask, memory_is_causal),
        )
        return self._residual(x, 3, self._ff_block)

    def _mha_block(
        self,
        x: Tensor,
        mem: Tensor,
        attn_mask: Tensor | None,
        key_padding_mask: Tensor | None,
        is_causal: bool = False,
    ) -> Tensor:
        """Compute the attention to the encoder's output with its dropout."""
        made = self.multihead_attn(
            x,
            mem,
            mem,
            attn_mask=attn_mask,
            key_padding_mask=key_padding_mask,
            need_weights=False,
            is_causal=is_causal,
        )[0]
        return self.dropout2(made)  # type: ignore[no-any-return]


def _copies(layer: Module, count: int) -> ModuleList:
    return ModuleList([copy.deepcopy(layer) for _ in range(count)])


class TransformerEncoder(Module):
    """Copies of an encoder's layer, one after another (`torch.nn.TransformerEncoder`).

    Args:
        encoder_layer: The layer to copy, including its parameters.
        num_layers: The number of copies.
        norm: The norm of the output, or None.
        enable_nested_tensor, mask_check: accepted for PyTorch's sake; there are no nested tensors here.

    Example:
        >>> import triten as tt
        >>> encoder = tt.nn.TransformerEncoder(tt.nn.TransformerEncoderLayer(8, 2, 16), 2)
        >>> encoder(tt.ones(5, 3, 8)).shape
        triten.Size([5, 3, 8])
    """

    def __init__(
        self,
        encoder_layer: Module,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__()
        self.layers = _copies(encoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm
        self.enable_nested_tensor = enable_nested_tensor
        self.mask_check = mask_check

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        """Compute the output of all layers. If `is_causal` is None, the values of `mask` are compared."""
        mask, padding = _masks(mask, src_key_padding_mask, src.dtype, "mask", "src_key_padding_mask")
        causal = _is_causal(mask, is_causal, src, self.layers[0].self_attn.batch_first)
        x = src
        for layer in self.layers:
            x = layer(x, src_mask=mask, is_causal=causal, src_key_padding_mask=padding)
        return x if self.norm is None else self.norm(x)


class TransformerDecoder(Module):
    """Copies of a decoder's layer, one after another (`torch.nn.TransformerDecoder`).

    Args:
        decoder_layer: The layer to copy, including its parameters.
        num_layers: The number of copies.
        norm: The norm of the output, or None.

    Example:
        >>> import triten as tt
        >>> decoder = tt.nn.TransformerDecoder(tt.nn.TransformerDecoderLayer(8, 2, 16), 2)
        >>> decoder(tt.ones(5, 3, 8), tt.ones(7, 3, 8)).shape
        triten.Size([5, 3, 8])
    """

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.layers = _copies(decoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Compute the output of all layers. If `tgt_is_causal` is None, the values of `tgt_mask` are compared."""
        causal = _is_causal(tgt_mask, tgt_is_causal, tgt, self.layers[0].self_attn.batch_first)
        x = tgt
        for layer in self.layers:
            x = layer(
                x,
                memory,
                tgt_mask=tgt_mask,
                memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask,
                tgt_is_causal=causal,
                memory_is_causal=memory_is_causal,
            )
        return x if self.norm is None else self.norm(x)


class Transformer(Module):
    """An encoder and a decoder that attends to its output (`torch.nn.Transformer`).

    Args:
        d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias, device,
            dtype: as `TransformerEncoderLayer` has them.
        num_encoder_layers, num_decoder_layers: The numbers of layers.
        custom_encoder, custom_decoder: taken instead.

    Parameters of more than one dimension begin as `init.xavier_uniform_` draws them.

    Raises RuntimeError at a call whose source and target differ in the number of sequences or have another width.

    Example:
        >>> import triten as tt
        >>> model = tt.nn.Transformer(8, 2, 1, 1, 16)
        >>> mask = model.generate_square_subsequent_mask(5)
        >>> model(tt.ones(7, 3, 8), tt.ones(5, 3, 8), tgt_mask=mask).shape
        triten.Size([5, 3, 8])
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        custom_encoder: Module | None = None,
        custom_decoder: Module | None = None,
        layer_norm_eps: float = 1e-05,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: DeviceLike = None,
        dtype: ScalarType | None = None,
    ) -> None:
        super().__init__()
        options = (
            d_model,
            nhead,
            dim_feedforward,
            dropout,
            activation,
            layer_norm_eps,
            batch_first,
            norm_first,
        )
        factory_kwargs: dict[str, Any] = {"bias": bias, "device": device, "dtype": dtype}

        def norm() -> LayerNorm:
            return LayerNorm(d_model, eps=layer_norm_eps, **factory_kwargs)

        if custom_encoder is None:
            layer: Module = TransformerEncoderLayer(*options, **factory_kwargs)
            custom_encoder = TransformerEncoder(layer, num_encoder_layers, norm())
        self.encoder = custom_encoder
        if custom_decoder is None:
            layer = TransformerDecoderLayer(*options, **factory_kwargs)
            custom_decoder = TransformerDecoder(layer, num_decoder_layers, norm())
        self.decoder = custom_decoder
        self._reset_parameters()
        self.d_model = d_model
        self.nhead = nhead
        self.batch_first = batch_first

    def _reset_parameters(self) -> None:
        for parameter in self.parameters():
            if parameter.dim() > 1:
                init.xavier_uniform_(parameter)

    @staticmethod
    def generate_square_subsequent_mask(
        sz: int, device: DeviceLike = None, dtype: ScalarType | None = None
    ) -> Tensor:
        """Return the causal mask (sz, sz): -inf above the diagonal, else 0."""
        return _square_subsequent_mask(sz, device, dtype)

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Compute the decoder's output (T, N, E) from sources (S, N, E) and targets (T, N, E).

        Raises:
            RuntimeError: The batch sizes differ, or a feature size is not `d_model`.
        """
        batch = 0 if self.batch_first else 1
        if src.dim() == 3 and src.size(batch) != tgt.size(batch):
            raise RuntimeError("the batch number of src and tgt must be equal")
        if src.size(-1) != self.d_model or tgt.size(-1) != self.d_model:
            raise RuntimeError("the feature number of src and tgt must be equal to d_model")
        memory = self.encoder(
            src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal
        )
        made: Tensor = self.decoder(
            tgt,
            memory,
            tgt_mask=tgt_mask,
            memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
            tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )
        return made
