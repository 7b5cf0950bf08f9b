"""Losses over lists and sequences of labels, and over a linear layer; `functional` re-exports them."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..dispatch.core.tensor_function import overridable
from ..dispatch.generated import functions as _ops
from ..runtime.user_frame import levels_to_user
from .reductions import reduction_of

if TYPE_CHECKING:
    from ..dispatch.tensor import Tensor

__all__ = ["ctc_loss", "linear_cross_entropy", "multilabel_margin_loss"]


@overridable
def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor | Sequence[int],
    target_lengths: Tensor | Sequence[int],
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """Compute the connectionist temporal classification loss (`torch.nn.functional.ctc_loss`).

    Args:
        log_probs: Logarithms of probabilities, of shape (T, N, C) or (T, C).
        targets: The labels, of shape (N, S), or those of all sequences one after another.
        input_lengths: The number of time steps of each sequence, a tensor or a tuple.
        target_lengths: The number of labels of each sequence.
        blank: The class that stands for no label.
        reduction: 'none', 'mean' (the default), which divides by the numbers of labels first, or 'sum'.
        zero_infinity: If True, replace infinite losses, of targets without an alignment, by 0. Default: False.

    Returns:
        The loss: a tensor without dimensions, or with 'none' one of shape (N,).

    Raises:
        ValueError: `reduction` is another string.

    References:
        Graves et al., Connectionist temporal classification (2006).

    Example:
        >>> import triten as tt
        >>> x = tt.zeros(2, 1, 2).log_softmax(2)
        >>> tt.nn.functional.ctc_loss(x, tt.tensor([[1]]), (2,), (1,))
        tensor(0.2877)
    """
    return _ops.ctc_loss(
        log_probs,
        targets,
        input_lengths,  # type: ignore[arg-type]  # both lengths are tensors, or neither is
        target_lengths,  # type: ignore[arg-type]
        blank,
        reduction_of(reduction),
        zero_infinity,
    )


@overridable
def multilabel_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Compute the multi-label hinge loss (`torch.nn.functional.multilabel_margin_loss`).

    Args:
        input: The classes' scores, of shape (N, C) or (C).
        target: The right classes of each example, int64, of `input`'s shape; -1 ends the list.
        size_average: Deprecated for `reduction`: False means 'sum'.
        reduce: Deprecated for `reduction`: False means 'none'.
        reduction: 'none' gives each element's loss, 'mean' (the default) their mean, 'sum' their sum.

    Returns:
        The loss: a tensor without dimensions, or with 'none' one of shape (N,).

    Raises:
        ValueError: `reduction` is another string.

    Example:
        >>> import triten as tt
        >>> tt.nn.functional.multilabel_margin_loss(tt.tensor([0.0, 0.5]), tt.tensor([1, -1]))
        tensor(0.2500)
    """
    return _ops.multilabel_margin_loss(input, target, reduction_of(reduction, size_average, reduce))


@overridable
def linear_cross_entropy(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    *,
    linear_bias: Tensor | None = None,
    weight: Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options: object = None,
) -> Tensor:
    """Compute the `cross_entropy` of `linear` (`torch.nn.functional.linear_cross_entropy`).

    Args:
        input: A tensor of shape (in_features) or (N, in_features).
        linear_weight: The layer's weights, of shape (C, in_features) or (C, d1, ..., dK, in_features).
        target: Classes or their probabilities, as `cross_entropy` takes them.
        linear_bias: The layer's bias, of the shape of `linear_weight` without its last dimension.
        weight: A factor for each class, of shape (C).
        reduction: 'none' gives each element's loss, 'mean' (the default) their mean, 'sum' their sum.
        ignore_index: Targets of this value do not count; -100 by default.
        label_smoothing: The share, from 0 to 1, that is spread evenly over all classes.
        options: PyTorch's chunking options; ignored with a warning.

    Returns:
        The loss: a tensor without dimensions, or with 'none' one of `target`'s shape.

    Raises:
        RuntimeError: Shapes do not fit, or `ignore_index` is given with probabilities.
        ValueError: `reduction` is another string.

    Example:
        >>> import triten as tt
        >>> tt.nn.functional.linear_cross_entropy(tt.zeros(1, 3), tt.zeros(2, 3), tt.tensor([0]))
        tensor(0.6931)
    """
    if options is not None:
        warnings.warn(
            "linear_cross_entropy: ``options`` ignored: logits are computed whole.",
            stacklevel=levels_to_user(),
        )
    if input.dim() < 1 or input.dim() > 2:
        raise RuntimeError(f"expected input with dimensionality 1 or 2, got {input.dim()}")
    if linear_weight.dim() < 2:
        raise RuntimeError(
            f"expected linear_weight with dimensionality at least 2, got {linear_weight.dim()}"
        )
    if input.shape[-1] != linear_weight.shape[-1]:
        raise RuntimeError(
            "expected equal input and linear_weight last dimensions (in_features), "
            f"got {input.shape[-1]} and {linear_weight.shape[-1]}, respectively"
        )
    outputs = tuple(linear_weight.shape[:-1])
    if linear_bias is not None and tuple(linear_bias.shape) != outputs:
        raise RuntimeError(f"expected linear_bias shape {outputs}, got {tuple(linear_bias.shape)}")
    if len(outputs) > 1 and input.dim() == 1:
        raise RuntimeError(
            f"K-dimensional loss defined by linear_weight shape {tuple(linear_weight.shape)} requires"
            f" batched input, (N, {input.shape[-1]}), got unbatched"
            f" input with shape {tuple(input.shape)}"
        )
    shape = (*input.shape[:-1], *outputs)
    if tuple(target.shape) == shape and ignore_index is not None:
        raise RuntimeError("ignore_index cannot be specified when target contains probabilities")
    flat = linear_weight.reshape(math.prod(outputs), linear_weight.shape[-1])
    logits = _ops.linear(input, flat, None if linear_bias is None else linear_bias.reshape(-1)).reshape(shape)
    ignored = -100 if ignore_index is None else ignore_index
    return _ops.cross_entropy_loss(logits, target, weight, reduction_of(reduction), ignored, label_smoothing)
