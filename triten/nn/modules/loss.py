"""Losses as layers: a class is the function and its options; weights are buffers."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from .. import functional as F
from ..reductions import REDUCTIONS, reduction_of
from .distance import PairwiseDistance
from .module import Module

if TYPE_CHECKING:
    from ...dispatch.tensor import Tensor

__all__ = [
    "BCELoss",
    "BCEWithLogitsLoss",
    "CTCLoss",
    "CosineEmbeddingLoss",
    "CrossEntropyLoss",
    "GaussianNLLLoss",
    "HingeEmbeddingLoss",
    "HuberLoss",
    "KLDivLoss",
    "L1Loss",
    "MSELoss",
    "MarginRankingLoss",
    "MultiLabelMarginLoss",
    "MultiLabelSoftMarginLoss",
    "MultiMarginLoss",
    "NLLLoss",
    "PoissonNLLLoss",
    "SmoothL1Loss",
    "SoftMarginLoss",
    "TripletMarginLoss",
    "TripletMarginWithDistanceLoss",
]

NAMES = {number: name for name, number in REDUCTIONS.items()}


class _Loss(Module):
    """A function of operands and of options, which are attributes, with a reduction."""

    function: Callable[..., Tensor]

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        **options: Any,
    ) -> None:
        super().__init__()
        if size_average is not None or reduce is not None:
            reduction = NAMES[reduction_of(reduction, size_average, reduce)]
        self.reduction = reduction
        self._options = tuple(options)
        for name, value in options.items():
            setattr(self, name, value)

    def _loss(self, *operands: Tensor) -> Tensor:
        options = {name: getattr(self, name) for name in (*self._options, *self._buffers)}
        return type(self).function(*operands, **options, reduction=self.reduction)


class _InputLoss(_Loss):
    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Compute the reduced loss."""
        return self._loss(input, target)


class _WeightedLoss(_InputLoss):
    """A loss with a weight for each class or element, which is a buffer."""

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        **options: Any,
    ) -> None:
        super().__init__(size_average, reduce, reduction, **options)
        self.register_buffer("weight", weight)


class _PairLoss(_Loss):
    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        """Compute the reduced loss."""
        return self._loss(input1, input2, target)


class _TripletLoss(_Loss):
    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        """Compute the reduced loss."""
        return self._loss(anchor, positive, negative)


class L1Loss(_InputLoss):
    """abs(input - target) (`torch.nn.L1Loss`)."""

    function = staticmethod(F.l1_loss)

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)


class MSELoss(_InputLoss):
    """(input - target) ** 2 (`torch.nn.MSELoss`)."""

    function = staticmethod(F.mse_loss)

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)


class SmoothL1Loss(_InputLoss):
    """Squared error below `beta`, absolute error above (`torch.nn.SmoothL1Loss`)."""

    function = staticmethod(F.smooth_l1_loss)

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        beta: float = 1.0,
    ) -> None:
        super().__init__(size_average, reduce, reduction, beta=beta)


class HuberLoss(_InputLoss):
    """Squared error up to `delta`, linear above (`torch.nn.HuberLoss`)."""

    function = staticmethod(F.huber_loss)

    def __init__(
        self,
        reduction: str = "mean",
        delta: float = 1.0,
    ) -> None:
        if not isinstance(delta, int | float):
            raise TypeError(f"delta must be a float or int, got: {type(delta)}")
        super().__init__(None, None, reduction, delta=delta)


class NLLLoss(_WeightedLoss):
    """Negative log-likelihood loss, from log-probabilities (`torch.nn.NLLLoss`)."""

    function = staticmethod(F.nll_loss)

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction, ignore_index=ignore_index)


class NLLLoss2d(NLLLoss):
    """Former name of `NLLLoss` for images (`torch.nn.NLLLoss2d`); it emits a FutureWarning."""

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        warnings.warn(
            "`NLLLoss2d` has been deprecated. Please use `NLLLoss` instead as a drop-in replacement.",
            FutureWarning,
            stacklevel=2,
        )
        super().__init__(weight, size_average, ignore_index, reduce, reduction)


class CrossEntropyLoss(_WeightedLoss):
    """Cross entropy loss, from logits (`torch.nn.CrossEntropyLoss`)."""

    function = staticmethod(F.cross_entropy)

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(
            weight,
            size_average,
            reduce,
            reduction,
            ignore_index=ignore_index,
            label_smoothing=label_smoothing,
        )


class KLDivLoss(_InputLoss):
    """Kullback-Leibler divergence from the target; the input holds log-probabilities (`torch.nn.KLDivLoss`)."""

    function = staticmethod(F.kl_div)

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        log_target: bool = False,
    ) -> None:
        super().__init__(size_average, reduce, reduction, log_target=log_target)


class BCELoss(_WeightedLoss):
    """Binary cross entropy, from probabilities (`torch.nn.BCELoss`)."""

    function = staticmethod(F.binary_cross_entropy)

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)


class BCEWithLogitsLoss(_WeightedLoss):
    """Binary cross entropy, from logits (`torch.nn.BCEWithLogitsLoss`)."""

    function = staticmethod(F.binary_cross_entropy_with_logits)

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        pos_weight: Tensor | None = None,
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.register_buffer("pos_weight", pos_weight)


class SoftMarginLoss(_InputLoss):
    """log(1 + exp(-target * input)) (`torch.nn.SoftMarginLoss`)."""

    function = staticmethod(F.soft_margin_loss)

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)


class HingeEmbeddingLoss(_InputLoss):
    """Hinge loss of embeddings: x for target 1, max(0, margin - x) for target -1 (`torch.nn.HingeEmbeddingLoss`)."""

    function = staticmethod(F.hinge_embedding_loss)

    def __init__(
        self,
        margin: float = 1.0,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction, margin=margin)


class PoissonNLLLoss(_InputLoss):
    """Negative log-likelihood of Poisson counts (`torch.nn.PoissonNLLLoss`)."""

    function = staticmethod(F.poisson_nll_loss)

    def __init__(
        self,
        log_input: bool = True,
        full: bool = False,
        size_average: bool | None = None,
        eps: float = 1e-8,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction, log_input=log_input, full=full, eps=eps)


class MultiMarginLoss(_WeightedLoss):
    """Multi-class hinge loss (`torch.nn.MultiMarginLoss`)."""

    function = staticmethod(F.multi_margin_loss)

    def __init__(
        self,
        p: int = 1,
        margin: float = 1.0,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction, p=p, margin=margin)


class MultiLabelMarginLoss(_InputLoss):
    """Multi-label hinge loss; the right classes are listed up to -1 (`torch.nn.MultiLabelMarginLoss`)."""

    function = staticmethod(F.multilabel_margin_loss)

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)


class CTCLoss(_InputLoss):
    """Connectionist temporal classification loss (`torch.nn.CTCLoss`)."""

    def __init__(self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False) -> None:
        super().__init__(None, None, reduction)
        self.blank = blank
        self.zero_infinity = zero_infinity

    def forward(  # type: ignore[override]
        self,
        log_probs: Tensor,
        targets: Tensor,
        input_lengths: Tensor | Sequence[int],
        target_lengths: Tensor | Sequence[int],
    ) -> Tensor:
        """Compute the reduced loss."""
        return F.ctc_loss(
            log_probs, targets, input_lengths, target_lengths, self.blank, self.reduction, self.zero_infinity
        )


class MultiLabelSoftMarginLoss(_WeightedLoss):
    """Multi-label binary cross entropy, from logits (`torch.nn.MultiLabelSoftMarginLoss`)."""

    function = staticmethod(F.multilabel_soft_margin_loss)

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)


class MarginRankingLoss(_PairLoss):
    """Ranking hinge loss of two inputs (`torch.nn.MarginRankingLoss`)."""

    function = staticmethod(F.margin_ranking_loss)

    def __init__(
        self,
        margin: float = 0.0,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction, margin=margin)


class CosineEmbeddingLoss(_PairLoss):
    """Cosine embedding loss of two inputs (`torch.nn.CosineEmbeddingLoss`)."""

    function = staticmethod(F.cosine_embedding_loss)

    def __init__(
        self,
        margin: float = 0.0,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction, margin=margin)


class TripletMarginLoss(_TripletLoss):
    """Triplet margin loss: the hinge of the positive against the negative distance (`torch.nn.TripletMarginLoss`)."""

    function = staticmethod(F.triplet_margin_loss)

    def __init__(
        self,
        margin: float = 1.0,
        p: float = 2.0,
        eps: float = 1e-6,
        swap: bool = False,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        if margin <= 0:
            raise ValueError(f"TripletMarginLoss: expected margin to be greater than 0, got {margin} instead")
        super().__init__(size_average, reduce, reduction, margin=margin, p=p, eps=eps, swap=swap)


class TripletMarginWithDistanceLoss(_TripletLoss):
    """`TripletMarginLoss` with any distance function or module (`torch.nn.TripletMarginWithDistanceLoss`)."""

    function = staticmethod(F.triplet_margin_with_distance_loss)

    def __init__(
        self,
        *,
        distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
        margin: float = 1.0,
        swap: bool = False,
        reduction: str = "mean",
    ) -> None:
        if margin <= 0:
            raise ValueError(
                f"TripletMarginWithDistanceLoss: expected margin to be greater than 0, got {margin} instead"
            )
        distance = PairwiseDistance() if distance_function is None else distance_function
        super().__init__(None, None, reduction, distance_function=distance, margin=margin, swap=swap)


class GaussianNLLLoss(_Loss):
    """Negative log-likelihood of normal variables (`torch.nn.GaussianNLLLoss`)."""

    function = staticmethod(F.gaussian_nll_loss)

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__(None, None, reduction, full=full, eps=eps)

    def forward(self, input: Tensor, target: Tensor, var: Tensor) -> Tensor:
        """Compute the reduced loss; `var` holds the variances."""
        return self._loss(input, target, var)
