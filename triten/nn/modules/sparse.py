"""Layers that look rows up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from ...autograd import no_grad
from ...dispatch.generated import functions as _ops
from .. import functional as F
from .. import init
from .module import Module
from .parameter import Parameter

if TYPE_CHECKING:
    from ...dispatch.tensor import Tensor
    from ...runtime.device import DeviceLike
    from ...runtime.scalar_type import dtype as ScalarType

__all__ = ["Embedding", "EmbeddingBag"]


class Embedding(Module):
    """Embedding table: one row of `weight` for each index (`torch.nn.Embedding`).

    Args:
        num_embeddings: The number of rows.
        embedding_dim: The size of a row.
        padding_idx: A row that begins with zeros and gets no gradient; negative numbers count from the end.
            Default: None.
        max_norm: If given, `forward` scales the rows that it reads down to at most this norm, in place. Default:
            None.
        norm_type: The p of that norm. Default: 2.
        scale_grad_by_freq: If True, divide the gradient of a row by the number of its indices in the batch.
            Default: False.
        sparse: If True, the gradient of `weight` is a sparse tensor. Default: False.
        device, dtype: The device and dtype of the parameters.

    Shape:
        input: Indices of any shape (*), int32 or int64.
        output: (*, embedding_dim).

    Attributes:
        weight: A parameter of shape (num_embeddings, embedding_dim), initialized from the standard normal
            distribution.

    Raises:
        AssertionError: `padding_idx` is outside the rows.

    Example:
        >>> import triten as tt
        >>> tt.nn.Embedding(10, 3)(tt.tensor([[1, 2], [4, 3]])).shape
        triten.Size([2, 2, 3])
    """

    weight: Parameter

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Tensor | None = None,
        _freeze: bool = False,
        device: DeviceLike = None,
        dtype: ScalarType | None = None,
    ) -> None:
        super().__init__()
        if padding_idx is not None:
            if not -num_embeddings <= padding_idx < num_embeddings:
                raise AssertionError("Padding_idx must be within num_embeddings")
            padding_idx %= num_embeddings
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx = padding_idx
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.sparse = sparse
        if _weight is None:
            values = _ops.empty(num_embeddings, embedding_dim, device=device, dtype=dtype)
            self.weight = Parameter(values, requires_grad=not _freeze)
            self.reset_parameters()
        else:
            if list(_weight.shape) != [num_embeddings, embedding_dim]:
                raise AssertionError("Shape of weight does not match num_embeddings and embedding_dim")
            self.weight = Parameter(_weight, requires_grad=not _freeze)

    def reset_parameters(self) -> None:
        """Reinitialize the weight from the standard normal distribution, and zero the row `padding_idx`."""
        init.normal_(self.weight)
        self._fill_padding_idx_with_zero()

    def _fill_padding_idx_with_zero(self) -> None:
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx].fill_(0)

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> Self:
        """Build the layer from a given weight.

        Raises:
            AssertionError: The weight does not have two dimensions.
        """
        if embeddings.dim() != 2:
            raise AssertionError("Embeddings parameter is expected to be 2-dimensional")
        return cls(
            embeddings.shape[0],
            embeddings.shape[1],
            padding_idx=padding_idx,
            max_norm=max_norm,
            norm_type=norm_type,
            scale_grad_by_freq=scale_grad_by_freq,
            sparse=sparse,
            _weight=embeddings,
            _freeze=freeze,
        )

    def forward(self, input: Tensor) -> Tensor:
        """Map indices (*) to vectors (*, embedding_dim)."""
        return F.embedding(
            input,
            self.weight,
            self.padding_idx,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.sparse,
        )

    def extra_repr(self) -> str:
        parts = [f"{self.num_embeddings}, {self.embedding_dim}"]
        for name, default in (("padding_idx", None), ("max_norm", None), ("norm_type", 2.0)):
            if getattr(self, name) != default:
                parts.append(f"{name}={getattr(self, name)}")
        parts += [f"{name}=True" for name in ("scale_grad_by_freq", "sparse") if getattr(self, name)]
        return ", ".join(parts)


class EmbeddingBag(Module):
    """Embedding bag: the sum, mean or maximum of the rows of `weight` in each bag of indices
        (`torch.nn.EmbeddingBag`).

    Args:
        num_embeddings: The number of rows.
        embedding_dim: The size of a row.
        max_norm: If given, `forward` scales the rows that it reads down to at most this norm, in place. Default:
            None.
        norm_type: The p of that norm. Default: 2.
        scale_grad_by_freq: If True, divide the gradient of a row by the number of its indices in the batch.
            Default: False.
        mode: `"sum"`, `"mean"` or `"max"`. Default: `"mean"`.
        sparse: If True, the gradient of `weight` is a sparse tensor. Default: False.
        include_last_offset: If True, the last offset is the end of the last bag. Default: False.
        padding_idx: A row that begins with zeros, gets no gradient, and is left out of the bags. Default: None.
        device, dtype: The device and dtype of the parameters.

    Shape:
        input: Indices of shape (B, N), or (N,) with the offsets of the bags.
        output: (B, embedding_dim).

    Attributes:
        weight: A parameter of shape (num_embeddings, embedding_dim), initialized from the standard normal
            distribution.

    Raises:
        AssertionError: `padding_idx` is outside the rows.

    Example:
        >>> import triten as tt
        >>> tt.nn.EmbeddingBag(10, 3, mode="sum")(tt.tensor([1, 2, 4]), tt.tensor([0, 2])).shape
        triten.Size([2, 3])
    """

    weight: Parameter

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: Tensor | None = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: DeviceLike = None,
        dtype: ScalarType | None = None,
    ) -> None:
        super().__init__()
        if padding_idx is not None:
            if not -num_embeddings <= padding_idx < num_embeddings:
                raise AssertionError("padding_idx must be within num_embeddings")
            padding_idx %= num_embeddings
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.padding_idx = padding_idx
        self.mode = mode
        self.sparse = sparse
        self.include_last_offset = include_last_offset
        if _weight is None:
            self.weight = Parameter(_ops.empty(num_embeddings, embedding_dim, device=device, dtype=dtype))
            self.reset_parameters()
        else:
            if list(_weight.shape) != [num_embeddings, embedding_dim]:
                raise AssertionError("Shape of weight does not match num_embeddings and embedding_dim")
            self.weight = Parameter(_weight)

    def reset_parameters(self) -> None:
        """Reinitialize the weight from the standard normal distribution, and zero the row `padding_idx`."""
        init.normal_(self.weight)
        self._fill_padding_idx_with_zero()

    def _fill_padding_idx_with_zero(self) -> None:
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx].fill_(0)

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
    ) -> Self:
        """Build the layer from a given weight.

        Raises:
            AssertionError: The weight does not have two dimensions.
        """
        if embeddings.dim() != 2:
            raise AssertionError("Embeddings parameter is expected to be 2-dimensional")
        made = cls(
            embeddings.shape[0],
            embeddings.shape[1],
            max_norm=max_norm,
            norm_type=norm_type,
            scale_grad_by_freq=scale_grad_by_freq,
            mode=mode,
            sparse=sparse,
            _weight=embeddings,
            include_last_offset=include_last_offset,
            padding_idx=padding_idx,
        )
        made.weight.requires_grad = not freeze
        return made

    def forward(
        self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None
    ) -> Tensor:
        """Map bags of indices (B, N), or (N,) with `offsets`, to (B, embedding_dim)."""
        return F.embedding_bag(
            input,
            self.weight,
            offsets,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.mode,
            self.sparse,
            per_sample_weights,
            self.include_last_offset,
            self.padding_idx,
        )

    def extra_repr(self) -> str:
        parts = [f"{self.num_embeddings}, {self.embedding_dim}"]
        for name, default in (("max_norm", None), ("norm_type", 2.0), ("scale_grad_by_freq", False)):
            if getattr(self, name) != default:
                parts.append(f"{name}={getattr(self, name)}")
        parts.append(f"mode={self.mode!r}")
        if self.padding_idx is not None:
            parts.append(f"padding_idx={self.padding_idx}")
        return ", ".join(parts)
