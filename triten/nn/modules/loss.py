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
    """Mean absolute error (`torch.nn.L1Loss`).

        |input - target|

    Args:
        reduction: `"mean"`, `"sum"` or `"none"`, for the mean, the sum or all losses. Default: `"mean"`.
        size_average, reduce: Deprecated forms of `reduction`.

    Shape:
        input: Any shape.
        target: The shape of the input.
        output: No dimensions; the shape of the input if `reduction` is `"none"`.

    Example:
        >>> import triten as tt
        >>> tt.nn.L1Loss()(tt.tensor([1.0, 2.0]), tt.tensor([2.0, 4.0])).item()
        1.5
    """

    function = staticmethod(F.l1_loss)

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)


class MSELoss(_InputLoss):
    """Mean squared error (`torch.nn.MSELoss`).

        (input - target)^2

    Args:
        reduction: `"mean"`, `"sum"` or `"none"`, for the mean, the sum or all losses. Default: `"mean"`.
        size_average, reduce: Deprecated forms of `reduction`.

    Shape:
        input: Any shape.
        target: The shape of the input.
        output: No dimensions; the shape of the input if `reduction` is `"none"`.

    Example:
        >>> import triten as tt
        >>> tt.nn.MSELoss()(tt.tensor([1.0, 2.0]), tt.tensor([2.0, 4.0])).item()
        2.5
    """

    function = staticmethod(F.mse_loss)

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)


class SmoothL1Loss(_InputLoss):
    """Smooth L1 loss: squared error below `beta`, absolute error above (`torch.nn.SmoothL1Loss`).

        d^2 / (2 * beta) where d < beta, else d - beta / 2, with d = |input - target|

    Args:
        beta: The distance at which the two parts meet, not negative; 0 gives `L1Loss`. Default: 1.
        reduction: `"mean"`, `"sum"` or `"none"`, for the mean, the sum or all losses. Default: `"mean"`.
        size_average, reduce: Deprecated forms of `reduction`.

    Shape:
        input: Any shape.
        target: The shape of the input.
        output: No dimensions; the shape of the input if `reduction` is `"none"`.

    Example:
        >>> import triten as tt
        >>> tt.nn.SmoothL1Loss()(tt.tensor([0.0]), tt.tensor([2.0])).item()
        1.5
    """

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
    """Huber loss: squared error up to `delta`, linear above (`torch.nn.HuberLoss`).

        d^2 / 2 where d <= delta, else delta * (d - delta / 2), with d = |input - target|

    Args:
        delta: The distance at which the two parts meet, positive. Default: 1.
        reduction: `"mean"`, `"sum"` or `"none"`, for the mean, the sum or all losses. Default: `"mean"`.

    Shape:
        input: Any shape.
        target: The shape of the input.
        output: No dimensions; the shape of the input if `reduction` is `"none"`.

    Raises:
        TypeError: `delta` is not a number.

    Example:
        >>> import triten as tt
        >>> tt.nn.HuberLoss()(tt.tensor([0.0]), tt.tensor([2.0])).item()
        1.5
    """

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
    """Negative log-likelihood of the target class, from log-probabilities (`torch.nn.NLLLoss`).

        -weight[t] * x[t] for a sample x of class t

    The mean is weighted: the sum of the losses is divided by the sum of the targets' weights.

    Args:
        weight: A factor for each class, a tensor of shape (C,). Default: None.
        ignore_index: A target that contributes no loss and no gradient. Default: -100.
        reduction: `"mean"`, `"sum"` or `"none"`, for the mean, the sum or all losses. Default: `"mean"`.
        size_average, reduce: Deprecated forms of `reduction`.

    Shape:
        input: (C,), (N, C) or (N, C, d_1, ..., d_k).
        target: (), (N,) or (N, d_1, ..., d_k), of class indices as int64.
        output: No dimensions; one loss for each sample if `reduction` is `"none"`.

    Example:
        >>> import triten as tt
        >>> tt.nn.NLLLoss()(tt.tensor([[-0.5, -1.0]]), tt.tensor([1])).item()
        1.0
    """

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
    """Cross entropy of the target class, from logits (`torch.nn.CrossEntropyLoss`).

        -weight[t] * log(exp(x[t]) / sum_c exp(x[c])) for a sample x of class t

    The target may also hold a probability y[c] for each class

        -sum_c weight[c] * y[c] * log(exp(x[c]) / sum_j exp(x[j]))

    For class indices the mean is weighted: the sum of the losses is divided by the sum of the targets' weights. For
        probabilities it is divided by the number of samples.

    Args:
        weight: A factor for each class, a tensor of shape (C,). Default: None.
        ignore_index: A target that contributes no loss and no gradient, for class indices only. Default: -100.
        label_smoothing: The share s of the target that is spread evenly over all classes, from 0 to 1. Default: 0.
        reduction: `"mean"`, `"sum"` or `"none"`, for the mean, the sum or all losses. Default: `"mean"`.
        size_average, reduce: Deprecated forms of `reduction`.

    Shape:
        input: (C,), (N, C) or (N, C, d_1, ..., d_k).
        target: (), (N,) or (N, d_1, ..., d_k), of class indices as int64; or probabilities of the shape of the
            input.
        output: No dimensions; one loss for each sample if `reduction` is `"none"`.

    Example:
        >>> import triten as tt
        >>> tt.nn.CrossEntropyLoss()(tt.zeros(1, 2), tt.tensor([1]))
        tensor(0.6931)
    """

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
    """Kullback-Leibler divergence of the target from the input, which holds log-probabilities (`torch.nn.KLDivLoss`).

        y * (log(y) - x)

    Use `reduction="batchmean"`, the sum divided by the batch size, for the mathematical definition.

    Args:
        log_target: If True, the target holds log-probabilities as well. Default: False.
        reduction: `"mean"`, `"sum"` or `"none"`, for the mean, the sum or all losses. Default: `"mean"`.
        size_average, reduce: Deprecated forms of `reduction`.

    Shape:
        input: Any shape.
        target: The shape of the input.
        output: No dimensions; the shape of the input if `reduction` is `"none"`.

    Example:
        >>> import triten as tt
        >>> tt.nn.KLDivLoss(reduction="sum")(tt.tensor([0.0]), tt.tensor([1.0])).item()
        0.0
    """

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
    """Binary cross entropy, from probabilities (`torch.nn.BCELoss`).

        -weight * (y * log(x) + (1 - y) * log(1 - x))

    Logarithms are at least -100, so that the loss is finite. Prefer `BCEWithLogitsLoss`, which takes logits and is
    more accurate.

    Args:
        weight: A factor for each element; it broadcasts with the input. Default: None.
        reduction: `"mean"`, `"sum"` or `"none"`, for the mean, the sum or all losses. Default: `"mean"`.
        size_average, reduce: Deprecated forms of `reduction`.

    Shape:
        input: Any shape.
        target: The shape of the input.
        output: No dimensions; the shape of the input if `reduction` is `"none"`.

    Example:
        >>> import triten as tt
        >>> tt.nn.BCELoss()(tt.tensor([0.5]), tt.tensor([1.0]))
        tensor(0.6931)
    """

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
    """Binary cross entropy, from logits (`torch.nn.BCEWithLogitsLoss`).

        -weight * (pos_weight * y * log(s) + (1 - y) * log(1 - s)), with s = 1 / (1 + exp(-x))

    Args:
        weight: A factor for each element; it broadcasts with the input. Default: None.
        pos_weight: A factor for the positive part, one for each class. Default: None.
        reduction: `"mean"`, `"sum"` or `"none"`, for the mean, the sum or all losses. Default: `"mean"`.
        size_average, reduce: Deprecated forms of `reduction`.

    Shape:
        input: Any shape.
        target: The shape of the input.
        output: No dimensions; the shape of the input if `reduction` is `"none"`.

    Example:
        >>> import triten as tt
        >>> tt.nn.BCEWithLogitsLoss()(tt.tensor([0.0]), tt.tensor([1.0]))
        tensor(0.6931)
    """

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
    """Logistic loss of targets 1 and -1 (`torch.nn.SoftMarginLoss`).

        log(1 + exp(-y * x))

    Args:
        reduction: `"mean"`, `"sum"` or `"none"`, for the mean, the sum or all losses. Default: `"mean"`.
        size_average, reduce: Deprecated forms of `reduction`.

    Shape:
        input: Any shape.
        target: The shape of the input.
        output: No dimensions; the shape of the input if `reduction` is `"none"`.

    Example:
        >>> import triten as tt
        >>> tt.nn.SoftMarginLoss()(tt.tensor([0.0]), tt.tensor([1.0]))
        tensor(0.6931)
    """

    function = staticmethod(F.soft_margin_loss)

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)


class HingeEmbeddingLoss(_InputLoss):
    """Hinge loss of distances, with targets 1 and -1 (`torch.nn.HingeEmbeddingLoss`).

        x if y = 1, max(0, margin - x) if y = -1

    Args:
        margin: The distance beyond which dissimilar pairs contribute nothing. Default: 1.
        reduction: `"mean"`, `"sum"` or `"none"`, for the mean, the sum or all losses. Default: `"mean"`.
        size_average, reduce: Deprecated forms of `reduction`.

    Shape:
        input: Any shape.
        target: The shape of the input.
        output: No dimensions; the shape of the input if `reduction` is `"none"`.

    Example:
        >>> import triten as tt
        >>> tt.nn.HingeEmbeddingLoss()(tt.tensor([0.25]), tt.tensor([-1.0])).item()
        0.75
    """

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
    """Negative log-likelihood of Poisson counts (`torch.nn.PoissonNLLLoss`).

        exp(x) - y * x

    Args:
        log_input: If False, the input is the rate itself: x - y * log(x + eps). Default: True.
        full: If True, add Stirling's approximation of log(y!). Default: False.
        eps: A number added to a rate whose logarithm is taken. Default: 1e-8.
        reduction: `"mean"`, `"sum"` or `"none"`, for the mean, the sum or all losses. Default: `"mean"`.
        size_average, reduce: Deprecated forms of `reduction`.

    Shape:
        input: Any shape.
        target: The shape of the input.
        output: No dimensions; the shape of the input if `reduction` is `"none"`.

    Example:
        >>> import triten as tt
        >>> tt.nn.PoissonNLLLoss()(tt.tensor([0.0]), tt.tensor([3.0])).item()
        1.0
    """

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
    """Multi-class hinge loss (`torch.nn.MultiMarginLoss`).

        sum over j != t of weight[t] * max(0, margin - x[t] + x[j])^p / C

    Args:
        p: The exponent, 1 or 2. Default: 1.
        margin: The margin. Default: 1.
        weight: A factor for each class, a tensor of shape (C,). Default: None.
        reduction: `"mean"`, `"sum"` or `"none"`, for the mean, the sum or all losses. Default: `"mean"`.
        size_average, reduce: Deprecated forms of `reduction`.

    Shape:
        input: (C,) or (N, C).
        target: () or (N,), of class indices as int64.
        output: No dimensions; one loss for each sample if `reduction` is `"none"`.

    Example:
        >>> import triten as tt
        >>> tt.nn.MultiMarginLoss()(tt.tensor([[0.0, 0.5]]), tt.tensor([1])).item()
        0.25
    """

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
    """Multi-label hinge loss; the target lists the positive classes up to the first -1
    (`torch.nn.MultiLabelMarginLoss`).

        sum over j of sum over i of max(0, 1 - (x[j] - x[i])) / C, for positive j and other i

    Args:
        reduction: `"mean"`, `"sum"` or `"none"`, for the mean, the sum or all losses. Default: `"mean"`.
        size_average, reduce: Deprecated forms of `reduction`.

    Shape:
        input: (C,) or (N, C).
        target: The shape of the input, of class indices as int64.
        output: No dimensions; one loss for each sample if `reduction` is `"none"`.

    Example:
        >>> import triten as tt
        >>> tt.nn.MultiLabelMarginLoss()(tt.tensor([1.0, 0.0]), tt.tensor([0, -1])).item()
        0.0
    """

    function = staticmethod(F.multilabel_margin_loss)

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)


class CTCLoss(_InputLoss):
    """Connectionist temporal classification loss (`torch.nn.CTCLoss`; Graves et al., 2006).

    The loss is the negative logarithm of the probability of all alignments of the target to the frames. The mean
    divides each loss by its target's length first.

    Args:
        blank: The class of the blank. Default: 0.
        zero_infinity: If True, infinite losses and their gradients are zero. Default: False.
        reduction: `"mean"`, `"sum"` or `"none"`, for the mean, the sum or all losses. Default: `"mean"`.

    Shape:
        log_probs: (T, N, C), or (T, C) without a batch: log-probabilities of C classes, the blank among them.
        targets: (N, S), or all targets concatenated, of class indices.
        input_lengths, target_lengths: (N,), the lengths of the inputs, at most T, and of the targets.
        output: No dimensions; (N,) if `reduction` is `"none"`.

    Example:
        >>> import triten as tt
        >>> x = tt.zeros(3, 1, 2).log_softmax(2)
        >>> tt.nn.CTCLoss()(x, tt.tensor([[1]]), [3], [1]).shape
        triten.Size([])
    """

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
    """Multi-label binary cross entropy, from logits (`torch.nn.MultiLabelSoftMarginLoss`).

        -sum_c (y[c] * log(s[c]) + (1 - y[c]) * log(1 - s[c])) / C, with s = 1 / (1 + exp(-x))

    Args:
        weight: A factor for each class, a tensor of shape (C,). Default: None.
        reduction: `"mean"`, `"sum"` or `"none"`, for the mean, the sum or all losses. Default: `"mean"`.
        size_average, reduce: Deprecated forms of `reduction`.

    Shape:
        input: (N, C).
        target: (N, C).
        output: No dimensions; one loss for each sample if `reduction` is `"none"`.

    Example:
        >>> import triten as tt
        >>> tt.nn.MultiLabelSoftMarginLoss()(tt.zeros(1, 2), tt.ones(1, 2))
        tensor(0.6931)
    """

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
    """Ranking hinge loss; a target of 1 means that the first input should be larger (`torch.nn.MarginRankingLoss`).

        max(0, -y * (x1 - x2) + margin)

    Args:
        margin: The difference from which a pair contributes nothing. Default: 0.
        reduction: `"mean"`, `"sum"` or `"none"`, for the mean, the sum or all losses. Default: `"mean"`.
        size_average, reduce: Deprecated forms of `reduction`.

    Shape:
        input1, input2: (N,) or ().
        target: The shape of the inputs, of 1 and -1.
        output: No dimensions; one loss for each pair if `reduction` is `"none"`.

    Example:
        >>> import triten as tt
        >>> tt.nn.MarginRankingLoss()(tt.tensor([1.0]), tt.tensor([3.0]), tt.tensor([1.0])).item()
        2.0
    """

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
    """Cosine embedding loss of pairs, with targets 1 and -1 (`torch.nn.CosineEmbeddingLoss`).

        1 - cos(x1, x2) if y = 1, max(0, cos(x1, x2) - margin) if y = -1

    Args:
        margin: The similarity up to which dissimilar pairs contribute nothing, from -1 to 1. Default: 0.
        reduction: `"mean"`, `"sum"` or `"none"`, for the mean, the sum or all losses. Default: `"mean"`.
        size_average, reduce: Deprecated forms of `reduction`.

    Shape:
        input1, input2: (N, D) or (D,).
        target: (N,) or (), of 1 and -1.
        output: No dimensions; one loss for each pair if `reduction` is `"none"`.

    Example:
        >>> import triten as tt
        >>> tt.nn.CosineEmbeddingLoss()(tt.tensor([1.0, 0.0]), tt.tensor([0.0, 1.0]), tt.tensor(1.0)).item()
        1.0
    """

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
    """Triplet margin loss: the anchor should be closer to the positive than to the negative sample
        (`torch.nn.TripletMarginLoss`).

        max(0, d(anchor, positive) - d(anchor, negative) + margin), where d is the distance by the p-norm

    Args:
        margin: The difference of the distances from which a triplet contributes nothing, positive. Default: 1.
        p: The exponent of the norm. Default: 2.
        eps: A number added to the differences. Default: 1e-6.
        swap: If True, use the smaller distance of the negative from the anchor and from the positive. Default:
            False.
        reduction: `"mean"`, `"sum"` or `"none"`, for the mean, the sum or all losses. Default: `"mean"`.
        size_average, reduce: Deprecated forms of `reduction`.

    Shape:
        anchor, positive, negative: (N, D) or (D,).
        output: No dimensions; one loss for each triplet if `reduction` is `"none"`.

    Raises:
        ValueError: `margin` is not positive.

    Example:
        >>> import triten as tt
        >>> x = tt.tensor([[0.0]])
        >>> tt.nn.TripletMarginLoss()(x, x, tt.tensor([[4.0]])).item()
        0.0
    """

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
    """`TripletMarginLoss` with any distance function (`torch.nn.TripletMarginWithDistanceLoss`).

        max(0, d(anchor, positive) - d(anchor, negative) + margin)

    Args:
        distance_function: The distance d, a function or module of two tensors. Default: None, the Euclidean
            distance.
        margin: The difference of the distances from which a triplet contributes nothing, positive. Default: 1.
        swap: If True, use the smaller distance of the negative from the anchor and from the positive. Default:
            False.
        reduction: `"mean"`, `"sum"` or `"none"`, for the mean, the sum or all losses. Default: `"mean"`.

    Shape:
        anchor, positive, negative: (N, D) or (D,).
        output: No dimensions; one loss for each triplet if `reduction` is `"none"`.

    Raises:
        ValueError: `margin` is not positive.

    Example:
        >>> import triten as tt
        >>> x = tt.tensor([[0.0]])
        >>> tt.nn.TripletMarginWithDistanceLoss()(x, x, tt.tensor([[4.0]])).item()
        0.0
    """

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
    """Negative log-likelihood of normal variables of given means and variances (`torch.nn.GaussianNLLLoss`).

        (log(max(var, eps)) + (x - y)^2 / max(var, eps)) / 2

    Args:
        full: If True, add the constant log(2 pi) / 2. Default: False.
        eps: The lower bound of the variances. Default: 1e-6.
        reduction: `"mean"`, `"sum"` or `"none"`, for the mean, the sum or all losses. Default: `"mean"`.

    Shape:
        input: The means, of any shape.
        target: The shape of the input.
        var: The shape of the input, or one variance for each sample.
        output: No dimensions; the shape of the input if `reduction` is `"none"`.

    Example:
        >>> import triten as tt
        >>> tt.nn.GaussianNLLLoss()(tt.tensor([1.0]), tt.tensor([3.0]), tt.tensor([1.0])).item()
        2.0
    """

    function = staticmethod(F.gaussian_nll_loss)

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__(None, None, reduction, full=full, eps=eps)

    def forward(self, input: Tensor, target: Tensor, var: Tensor) -> Tensor:
        """Compute the reduced loss; `var` holds the variances."""
        return self._loss(input, target, var)
