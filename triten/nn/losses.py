"""Losses with PyTorch's Python signatures, made of operators; `functional` re-exports them.

Reductions are ``'none'``, ``'mean'`` or ``'sum'``; `size_average` and `reduce` are the flags that they replaced.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ..dispatch.autograd.grad_mode import no_grad
from ..dispatch.composite.norm import old_norm
from ..dispatch.core.mode_stack import sees_whole
from ..dispatch.core.tensor_function import numpy_named, overridable
from ..dispatch.generated import functions as _ops
from ..dispatch.iterator.broadcast import infer_size
from ..dispatch.structured.supported_dtypes import C_NAMES
from ..runtime.local_dispatch_key_set import modes
from ..runtime.user_frame import levels_to_user
from .activations import logsigmoid
from .reductions import reduction_of

if TYPE_CHECKING:
    from ..dispatch.tensor import Tensor

__all__ = [
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "cosine_embedding_loss",
    "cosine_similarity",
    "gaussian_nll_loss",
    "hinge_embedding_loss",
    "kl_div",
    "margin_ranking_loss",
    "multi_margin_loss",
    "multilabel_soft_margin_loss",
    "normalize",
    "pairwise_distance",
    "poisson_nll_loss",
    "soft_margin_loss",
    "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
]


@overridable
def kl_div(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:
    """Compute target * (log(target) - input) for log-probabilities `input` (`torch.nn.functional.kl_div`).

    Args:
        input: Logarithms of probabilities, of any shape.
        target: Probabilities, of a shape that broadcasts with `input`'s.
        size_average: Deprecated for `reduction`: False means 'sum'.
        reduce: Deprecated for `reduction`: False means 'none'.
        reduction: 'none', 'mean' (the default), 'sum', or 'batchmean', which divides the sum by the first size and is
            the divergence as mathematics has it.
        log_target: If True, `target` holds logarithms too. Default: False.

    Returns:
        The loss: a tensor without dimensions, or with 'none' one of the broadcast shape.

    Raises:
        ValueError: `reduction` is another string.

    Example:
        >>> import triten as tt
        >>> tt.nn.functional.kl_div(tt.zeros(2), tt.ones(2), reduction="sum")
        tensor(0.)
    """
    if reduction == "batchmean":
        total = _ops.kl_div(input, target, 2, log_target=log_target)
        return total / input.shape[0] if input.dim() else total
    if reduction == "mean" and size_average is None and reduce is None:
        warnings.warn(
            "reduction: 'mean' divides the total loss by both the batch size and the support size. 'batchmean' "
            "divides only by the batch size, and aligns with the KL div math definition. 'mean' will be changed to "
            "behave the same as 'batchmean' in the next major release.",
            stacklevel=levels_to_user(),
        )
    return _ops.kl_div(input, target, reduction_of(reduction, size_average, reduce), log_target=log_target)


@overridable
def hinge_embedding_loss(
    input: Tensor,
    target: Tensor,
    margin: float = 1.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Compute `input` where the target is 1, max(0, margin - input) where it is -1
    (`torch.nn.functional.hinge_embedding_loss`).

    Args:
        input: A floating tensor of distances.
        target: A tensor of 1 and -1, of `input`'s shape.
        margin: The distance that is large enough.
        size_average: Deprecated for `reduction`: False means 'sum'.
        reduce: Deprecated for `reduction`: False means 'none'.
        reduction: 'none' gives each element's loss, 'mean' (the default) their mean, 'sum' their sum.

    Returns:
        The loss: a tensor without dimensions, or with 'none' one of `input`'s shape.

    Raises:
        ValueError: `reduction` is another string.

    Example:
        >>> import triten as tt
        >>> tt.nn.functional.hinge_embedding_loss(tt.tensor([0.25, 0.25]), tt.tensor([1, -1]), reduction="none")
        tensor([0.2500, 0.7500])
    """
    return _ops.hinge_embedding_loss(input, target, margin, reduction_of(reduction, size_average, reduce))


@overridable
def margin_ranking_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Compute max(0, -target * (input1 - input2) + margin) (`torch.nn.functional.margin_ranking_loss`).

    Args:
        input1: A floating tensor.
        input2: A tensor of the same shape.
        target: 1 where `input1` is to be the larger one, -1 where `input2` is.
        margin: The required margin between the two.
        size_average: Deprecated for `reduction`: False means 'sum'.
        reduce: Deprecated for `reduction`: False means 'none'.
        reduction: 'none' gives each element's loss, 'mean' (the default) their mean, 'sum' their sum.

    Returns:
        The loss: a tensor without dimensions, or with 'none' one of the inputs' shape.

    Raises:
        ValueError: `reduction` is another string.
        RuntimeError: The tensors have different numbers of dimensions.

    Example:
        >>> import triten as tt
        >>> tt.nn.functional.margin_ranking_loss(tt.ones(1), tt.zeros(1), -tt.ones(1))
        tensor(1.)
    """
    chosen = reduction_of(reduction, size_average, reduce)
    if not input1.dim() == input2.dim() == target.dim():
        raise RuntimeError(
            "margin_ranking_loss : All input tensors should have same dimension but got sizes: input1: "
            f"{input1.size()}, input2: {input2.size()}, target: {target.size()} "
        )
    return _ops.margin_ranking_loss(input1, input2, target, margin, chosen)


@overridable
def cosine_embedding_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Compute 1 - cos where the target is 1, max(0, cos - margin) where it is -1
    (`torch.nn.functional.cosine_embedding_loss`).

    Args:
        input1: Vectors, of shape (N, D) or (D).
        input2: Vectors of the same shape.
        target: A tensor of 1 and -1, of shape (N), or without dimensions.
        margin: The cosine that is small enough, from -1 to 1.
        size_average: Deprecated for `reduction`: False means 'sum'.
        reduce: Deprecated for `reduction`: False means 'none'.
        reduction: 'none' gives each element's loss, 'mean' (the default) their mean, 'sum' their sum.

    Returns:
        The loss: a tensor without dimensions, or with 'none' one of `target`'s shape.

    Raises:
        ValueError: `reduction` is another string.

    Example:
        >>> import triten as tt
        >>> x = tt.tensor([[1.0, 0.0]])
        >>> tt.nn.functional.cosine_embedding_loss(x, x, -tt.ones(1))
        tensor(1.)
    """
    return _ops.cosine_embedding_loss(
        input1, input2, target, margin, reduction_of(reduction, size_average, reduce)
    )


@overridable
def soft_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Compute log(1 + exp(-target * input)) (`torch.nn.functional.soft_margin_loss`).

    Args:
        input: A floating tensor of any shape.
        target: A tensor of 1 and -1, of `input`'s shape.
        size_average: Deprecated for `reduction`: False means 'sum'.
        reduce: Deprecated for `reduction`: False means 'none'.
        reduction: 'none' gives each element's loss, 'mean' (the default) their mean, 'sum' their sum.

    Returns:
        The loss: a tensor without dimensions, or with 'none' one of `input`'s shape.

    Raises:
        ValueError: `reduction` is another string.

    Example:
        >>> import triten as tt
        >>> tt.nn.functional.soft_margin_loss(tt.zeros(2), tt.ones(2))
        tensor(0.6931)
    """
    return _ops.soft_margin_loss(input, target, reduction_of(reduction, size_average, reduce))


@overridable
def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    size_average: bool | None = None,
    eps: float = 1e-8,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Compute the negative log-likelihood of Poisson distributions (`torch.nn.functional.poisson_nll_loss`).

    Args:
        input: The rates, or their logarithms.
        target: The numbers that were counted, of `input`'s shape.
        log_input: If True, `input` is the logarithm of the rate. Default: True.
        full: If True, add Stirling's approximation of log(target!). Default: False.
        size_average: Deprecated for `reduction`: False means 'sum'.
        eps: Added to a rate that is no logarithm before its logarithm is taken.
        reduce: Deprecated for `reduction`: False means 'none'.
        reduction: 'none' gives each element's loss, 'mean' (the default) their mean, 'sum' their sum.

    Returns:
        The loss: a tensor without dimensions, or with 'none' one of `input`'s shape.

    Raises:
        ValueError: `reduction` is another string.

    Example:
        >>> import triten as tt
        >>> tt.nn.functional.poisson_nll_loss(tt.zeros(1), tt.ones(1))
        tensor(1.)
    """
    chosen = reduction_of(reduction, size_average, reduce)
    return _ops.poisson_nll_loss(input, target, log_input, full, eps, chosen)


@overridable
def gaussian_nll_loss(
    input: Tensor, target: Tensor, var: Tensor, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Tensor:
    """Compute the negative log-likelihood of normal distributions (`torch.nn.functional.gaussian_nll_loss`).

    Args:
        input: The means.
        target: The numbers that were observed, of `input`'s shape.
        var: The variances, of `input`'s shape, of its shape with one size of 1 or without the last one; or a number.
        full: If True, add the constant log(2 pi) / 2. Default: False.
        eps: The least variance; smaller ones have no gradient.
        reduction: 'none' gives each element's loss, 'mean' (the default) their mean, 'sum' their sum.

    Returns:
        The loss: a tensor without dimensions, or with 'none' one of `input`'s shape.

    Raises:
        ValueError: A variance is negative, the shape of `var` does not fit, or `reduction` is another string.

    Example:
        >>> import triten as tt
        >>> tt.nn.functional.gaussian_nll_loss(tt.zeros(1), tt.ones(1), tt.ones(1))
        tensor(0.5000)
    """
    if isinstance(var, int | float):
        if var < 0:
            raise ValueError("var has negative entry/entries")
        var = var * _ops.ones_like(input)
    elif bool(_ops.any(_ops.lt(var, 0)).item()):
        raise ValueError("var has negative entry/entries")
    if var.size() != input.size():
        if input.size()[:-1] == var.size():
            var = var.unsqueeze(-1)
        elif (
            var.dim() != input.dim()
            or sum(v for n, v in zip(input.size(), var.size(), strict=True) if n != v) != 1
        ):
            raise ValueError("var is of incorrect size")
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not valid")
    if not (var.dtype.is_floating_point or var.dtype.is_complex):
        # The bound is no whole number, which it would be in place.
        kind = var.dtype.scalar_name
        raise RuntimeError(
            f"result type Float can't be cast to the desired output type {C_NAMES.get(kind, kind)}"
        )
    held = var.clone()
    # The gradient passes through the bound, as in PyTorch.
    with no_grad():
        held.clamp_(min=eps)
    loss = 0.5 * (_ops.log(held) + (input - target) ** 2 / held)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return loss.mean() if reduction == "mean" else loss.sum() if reduction == "sum" else loss


@overridable
def binary_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Compute the binary cross entropy, -(target log(input) + (1 - target) log(1 - input))
    (`torch.nn.functional.binary_cross_entropy`).

    Args:
        input: Probabilities, of any shape.
        target: Numbers from 0 to 1, of `input`'s shape.
        weight: Factors of the elements' losses, of a shape that broadcasts to `input`'s.
        size_average: Deprecated for `reduction`: False means 'sum'.
        reduce: Deprecated for `reduction`: False means 'none'.
        reduction: 'none' gives each element's loss, 'mean' (the default) their mean, 'sum' their sum.

    Returns:
        The loss: a tensor without dimensions, or with 'none' one of `input`'s shape.

    Raises:
        ValueError: The shapes differ, or `reduction` is another string.
        RuntimeError: An element of `input` or `target`, on the CPU, is outside of [0, 1]; their dtypes differ.

    Note:
        Logarithms are held to at least -100, so that the loss is finite.

    Example:
        >>> import triten as tt
        >>> tt.nn.functional.binary_cross_entropy(tt.tensor([0.5]), tt.tensor([1.0]))
        tensor(0.6931)
    """
    if target.size() != input.size():
        raise ValueError(
            f"Using a target size ({target.size()}) that is different to the input size ({input.size()}) is "
            "deprecated. Please ensure they have the same size."
        )
    if weight is not None and modes and sees_whole():
        weight = weight.expand(infer_size(target.size(), weight.size()))
    return _ops.binary_cross_entropy(input, target, weight, reduction_of(reduction, size_average, reduce))


@overridable
def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """Compute the `binary_cross_entropy` of sigmoid(input), without overflow
    (`torch.nn.functional.binary_cross_entropy_with_logits`).

    Args:
        input: Logits, of any shape.
        target: Numbers from 0 to 1, of `input`'s shape.
        weight: Factors of the elements' losses, of a shape that broadcasts to `input`'s.
        size_average: Deprecated for `reduction`: False means 'sum'.
        reduce: Deprecated for `reduction`: False means 'none'.
        reduction: 'none' gives each element's loss, 'mean' (the default) their mean, 'sum' their sum.
        pos_weight: Factors of target * log(sigmoid(input)), of a shape that broadcasts to `input`'s, such as one for
            each class.

    Returns:
        The loss: a tensor without dimensions, or with 'none' one of `input`'s shape.

    Raises:
        ValueError: The shapes differ, or `reduction` is another string.

    Example:
        >>> import triten as tt
        >>> tt.nn.functional.binary_cross_entropy_with_logits(tt.tensor([-200.0]), tt.tensor([1.0]))
        tensor(200.)
    """
    if target.size() != input.size():
        raise ValueError(f"Target size ({target.size()}) must be the same as input size ({input.size()})")
    chosen = reduction_of(reduction, size_average, reduce)
    return _ops.binary_cross_entropy_with_logits(input, target, weight, pos_weight, chosen)


@overridable
def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Compute the multi-class hinge loss (`torch.nn.functional.multi_margin_loss`).

    Args:
        input: The classes' scores, of shape (N, C) or (C).
        target: The right class of each example, int64, of shape (N) or without dimensions.
        p: The power of each hinge, 1 or 2.
        margin: The required margin of the right class's score.
        weight: A factor for each class, of shape (C).
        size_average: Deprecated for `reduction`: False means 'sum'.
        reduce: Deprecated for `reduction`: False means 'none'.
        reduction: 'none' gives each element's loss, 'mean' (the default) their mean, 'sum' their sum.

    Returns:
        The loss: a tensor without dimensions, or with 'none' one of `target`'s shape.

    Raises:
        ValueError: `p` is neither 1 nor 2, `weight` is no vector, or `reduction` is another string.

    Note:
        The loss of an example is the sum over wrong classes i of max(0, margin - input[target] + input[i])^p, divided
        by C.

    Example:
        >>> import triten as tt
        >>> tt.nn.functional.multi_margin_loss(tt.tensor([[0.0, 1.0]]), tt.tensor([0]))
        tensor(1.)
    """
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    if weight is not None and weight.dim() != 1:
        raise ValueError("weight must be one-dimensional")
    chosen = reduction_of(reduction, size_average, reduce)
    return _ops.multi_margin_loss(input, target, p, margin, weight, chosen)


@overridable
def multilabel_soft_margin_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Compute the mean of `binary_cross_entropy_with_logits` over classes
    (`torch.nn.functional.multilabel_soft_margin_loss`).

    Args:
        input: Logits, of shape (N, C).
        target: 0 or 1 for each class, of `input`'s shape.
        weight: A factor for each class, of shape (C).
        size_average: Deprecated for `reduction`: False means 'sum'.
        reduce: Deprecated for `reduction`: False means 'none'.
        reduction: 'none' gives each element's loss, 'mean' (the default) their mean, 'sum' their sum.

    Returns:
        The loss: a tensor without dimensions, or with 'none' one of shape (N,).

    Raises:
        IndexError: `input` has no dimensions.
        ValueError: `reduction` is another string.

    Example:
        >>> import triten as tt
        >>> tt.nn.functional.multilabel_soft_margin_loss(tt.zeros(1, 2), tt.ones(1, 2))
        tensor(0.6931)
    """
    chosen = reduction_of(reduction, size_average, reduce)
    loss = -(target * logsigmoid(input) + (1 - target) * logsigmoid(-input))
    if weight is not None:
        loss = loss * weight
    if not input.dim():
        raise IndexError("Dimension specified as -1 but tensor has no dimensions")
    classes = input.dim() - 1
    loss = loss.sum(classes) / input.size(classes)
    return loss if chosen == 0 else loss.mean() if chosen == 1 else loss.sum()


@overridable
def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Compute max(0, margin + d(anchor, positive) - d(anchor, negative))
    (`torch.nn.functional.triplet_margin_loss`).

    Args:
        anchor: Vectors, of shape (N, D) or (D).
        positive: Vectors that are to be near, of the same shape.
        negative: Vectors that are to be far, of the same shape.
        margin: The required margin of the negative distance, positive.
        p: The order of the norm that is the distance.
        eps: Added to differences, so that the norm has a gradient.
        swap: If True, use d(positive, negative) as the negative distance if it is smaller. Default: False.
        size_average: Deprecated for `reduction`: False means 'sum'.
        reduce: Deprecated for `reduction`: False means 'none'.
        reduction: 'none' gives each element's loss, 'mean' (the default) their mean, 'sum' their sum.

    Returns:
        The loss: a tensor without dimensions, or with 'none' one of shape (N,).

    Raises:
        ValueError: `margin` is not above 0, or `reduction` is another string.

    References:
        Balntas et al., Learning local feature descriptors with triplets and shallow convolutional neural networks
        (2016).

    Example:
        >>> import triten as tt
        >>> a = tt.zeros(1, 2)
        >>> tt.nn.functional.triplet_margin_loss(a, a, a)
        tensor(1.)
    """
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    chosen = reduction_of(reduction, size_average, reduce)
    return _ops.triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, chosen)


@overridable
def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """Compute `triplet_margin_loss` with a user-defined distance
    (`torch.nn.functional.triplet_margin_with_distance_loss`).

    Args:
        anchor: Vectors, as the distance takes them.
        positive: Vectors that are to be near, of the same shape.
        negative: Vectors that are to be far, of the same shape.
        distance_function: Called with two of them, gives the distances; by default `pairwise_distance`.
        margin: The required margin of the negative distance, positive.
        swap: If True, use d(positive, negative) as the negative distance if it is smaller. Default: False.
        reduction: 'none' gives each element's loss, 'mean' (the default) their mean, 'sum' their sum.

    Returns:
        The loss: a tensor without dimensions, or with 'none' one of the distances' shape.

    Raises:
        ValueError: `margin` is not above 0, or `reduction` is another string.
        RuntimeError: The tensors have different numbers of dimensions.

    Example:
        >>> import triten as tt
        >>> a = tt.zeros(1, 2)
        >>> tt.nn.functional.triplet_margin_with_distance_loss(a, a, a, distance_function=lambda x, y: (x - y).sum(1))
        tensor(1.)
    """
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    if not anchor.ndim == positive.ndim == negative.ndim:
        raise RuntimeError(
            "The anchor, positive, and negative tensors are expected to have the same number of dimensions, but got: "
            f"anchor {anchor.ndim}D, positive {positive.ndim}D, and negative {negative.ndim}D inputs"
        )
    distance = _ops.pairwise_distance if distance_function is None else distance_function
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = _ops.minimum(far, distance(positive, negative))
    loss = _ops.clamp_min(margin + near - far, 0)
    return loss.mean() if reduction == "mean" else loss.sum() if reduction == "sum" else loss


@numpy_named
@overridable
def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """Compute the cosine between vectors along `dim` (`torch.nn.functional.cosine_similarity`).

    Args:
        x1: A floating tensor.
        x2: A tensor whose shape broadcasts with `x1`'s.
        dim: The dimension of the vectors' elements.
        eps: The lower bound of the norm, to avoid division by zero.

    Returns:
        A tensor of the broadcast shape without `dim`.

    Example:
        >>> import triten as tt
        >>> tt.nn.functional.cosine_similarity(tt.ones(1, 2), tt.tensor([[1.0, 0.0]]))
        tensor([0.7071])
    """
    return _ops.cosine_similarity(x1, x2, dim, eps)


@numpy_named
@overridable
def pairwise_distance(
    x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Tensor:
    """Compute the norm of x1 - x2 + eps along the last dimension (`torch.nn.functional.pairwise_distance`).

    Args:
        x1: Vectors, of shape (N, D) or (D).
        x2: Vectors of a shape that broadcasts with it.
        p: The order of the norm.
        eps: Added to differences, so that the norm has a gradient.
        keepdim: If True, keep the last dimension with size 1. Default: False.

    Returns:
        A tensor of the broadcast shape without the last dimension.

    Example:
        >>> import triten as tt
        >>> tt.nn.functional.pairwise_distance(tt.zeros(1, 2), tt.tensor([[3.0, 4.0]]))
        tensor([5.0000])
    """
    return _ops.pairwise_distance(x1, x2, p, eps, keepdim)


@overridable
def normalize(
    input: Tensor, p: float = 2.0, dim: int | Sequence[int] = 1, eps: float = 1e-12, out: Tensor | None = None
) -> Tensor:
    """Divide `input` by its norm along `dim` (`torch.nn.functional.normalize`).

    Args:
        input: A floating or complex tensor.
        p: The order of the norm.
        dim: The dimension, or a tuple of them, of the vectors' elements.
        eps: The lower bound of the norm, to avoid division by zero.
        out: The output tensor. Default: a new tensor.

    Returns:
        A tensor of `input`'s shape.

    Example:
        >>> import triten as tt
        >>> tt.nn.functional.normalize(tt.tensor([[3.0, 4.0]]))
        tensor([[0.6000, 0.8000]])
    """
    lengths = old_norm(input, p, dim, True, None, None)
    lengths = _ops.clamp_min(lengths, eps).expand_as(input)
    return _ops.div(input, lengths) if out is None else _ops.div(input, lengths, out=out)
