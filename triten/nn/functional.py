"""Functions of neural networks with PyTorch's Python signatures (`torch.nn.functional`).

Reductions are ``'none'``, ``'mean'`` or ``'sum'``. Operators whose Python signature is the operator's own are
re-exported; the rest translate their arguments here and call the operator. Those of every training step ask their
arguments in place, which is quicker than `overridable`.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from ..dispatch.autograd.grad_mode import no_grad
from ..dispatch.core.tensor_function import (
    handle_tensor_function,
    has_tensor_function,
    overridable,
    plain_classes,
)
from ..dispatch.core.tensor_function import has_tensor_function_unary as has_tensor_function_unary
from ..dispatch.core.tensor_function import has_tensor_function_variadic as has_tensor_function_variadic
from ..dispatch.generated.functions import (
    bilinear,
    celu_,
    channel_shuffle,
    conv1d,
    conv2d,
    conv3d,
    conv_tbc,
    conv_transpose1d,
    conv_transpose2d,
    conv_transpose3d,
    cross_entropy_loss,
    elu_,
    gelu,
    hardtanh_,
    leaky_relu_,
    linear,
    neg,
    nll_loss_nd,
    pdist,
    pixel_shuffle,
    pixel_unshuffle,
    relu_,
    rrelu_,
    scaled_dot_product_attention,
    selu_,
    sigmoid,
    softplus,
    tanh,
    threshold_,
)
from ..dispatch.generated.functions import broadcast_tensors as _broadcast_tensors
from ..dispatch.generated.functions import dropout as _dropout
from ..dispatch.generated.functions import dropout_ as _dropout_
from ..dispatch.generated.functions import embedding as _embedding
from ..dispatch.generated.functions import embedding_renorm_ as _embedding_renorm_
from ..dispatch.generated.functions import huber_loss as _huber_loss
from ..dispatch.generated.functions import l1_loss as _l1_loss
from ..dispatch.generated.functions import log_softmax as _log_softmax
from ..dispatch.generated.functions import mse_loss as _mse_loss
from ..dispatch.generated.functions import relu as _relu
from ..dispatch.generated.functions import relu_ as _relu_
from ..dispatch.generated.functions import smooth_l1_loss as _smooth_l1_loss
from ..dispatch.generated.functions import softmax as _softmax
from ..dispatch.tensor import Tensor
from ..runtime.errors import not_a_tensor
from ..runtime.scalar_type import dtype as ScalarType
from ..runtime.traceback_filter import hide_inner_frames
from ..runtime.user_frame import levels_to_user
from . import (
    activations,
    bags,
    classes,
    dropouts,
    fractional_pooling,
    losses,
    multi_head,
    normalization,
    pooling,
    resampling,
    scaled_products,
    sequence_losses,
    unpooling,
)
from . import grad as grad
from .activations import *  # noqa: F403 - the names are declared there
from .bags import *  # noqa: F403
from .classes import *  # noqa: F403
from .dropouts import *  # noqa: F403
from .fractional_pooling import *  # noqa: F403
from .losses import *  # noqa: F403
from .multi_head import *  # noqa: F403
from .normalization import *  # noqa: F403
from .pooling import *  # noqa: F403
from .reductions import reduction_of
from .resampling import *  # noqa: F403
from .scaled_products import *  # noqa: F403
from .sequence_losses import *  # noqa: F403
from .unpooling import *  # noqa: F403

__all__ = [
    *activations.__all__,
    *bags.__all__,
    *classes.__all__,
    *dropouts.__all__,
    *fractional_pooling.__all__,
    *losses.__all__,
    *multi_head.__all__,
    *normalization.__all__,
    *pooling.__all__,
    *resampling.__all__,
    *scaled_products.__all__,
    *sequence_losses.__all__,
    *unpooling.__all__,
    "bilinear",
    "celu_",
    "channel_shuffle",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_tbc",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "cross_entropy",
    "dropout",
    "elu_",
    "embedding",
    "gelu",
    "hardtanh_",
    "huber_loss",
    "l1_loss",
    "leaky_relu_",
    "linear",
    "log_softmax",
    "mse_loss",
    "nll_loss",
    "pdist",
    "pixel_shuffle",
    "pixel_unshuffle",
    "relu",
    "relu_",
    "rrelu_",
    "scaled_dot_product_attention",
    "selu_",
    "sigmoid",
    "smooth_l1_loss",
    "softmax",
    "softmin",
    "softplus",
    "tanh",
    "threshold_",
]


def _implicit_dim(name: str, input: Any) -> int:
    rank = input.dim()
    dim = 0 if rank in (0, 1, 3) else 1
    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated. "
        "Change the call to include dim=X as an argument.",
        stacklevel=levels_to_user(),
    )
    return dim


def softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: ScalarType | None = None
) -> Tensor:
    """Divide exp(input) by its sum along `dim` (`torch.nn.functional.softmax`).

    Args:
        input: A floating tensor of any shape.
        dim: The dimension whose elements belong together; None chooses one by the number of dimensions, with a
            warning.
        _stacklevel: The stack level of the warning.
        dtype: The dtype to which `input` is converted before the computation; by default its own.

    Returns:
        A tensor of `input`'s shape, and of dtype `dtype` or `input`'s.

    Raises:
        IndexError: `dim` is out of range.
        NotImplementedError: `input` is of integers and `dtype` is not given.

    Example:
        >>> import triten as tt
        >>> tt.nn.functional.softmax(tt.zeros(1, 4), dim=1)
        tensor([[0.2500, 0.2500, 0.2500, 0.2500]])
    """
    if input.__class__ not in plain_classes and has_tensor_function((input,)):
        return handle_tensor_function(softmax, (input,), input, dim=dim, _stacklevel=_stacklevel, dtype=dtype)  # type: ignore[no-any-return]
    try: return _softmax(input, _implicit_dim("softmax", input) if dim is None else dim, dtype)  # fmt: skip
    except BaseException:
        hide_inner_frames()
        raise


@overridable
def softmin(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: ScalarType | None = None
) -> Tensor:
    """Compute the softmax of `-input` (`torch.nn.functional.softmin`).

    Args:
        input: A floating tensor of any shape.
        dim: The dimension whose elements belong together; None chooses one by the number of dimensions, with a
            warning.
        _stacklevel: The stack level of the warning.
        dtype: The dtype to which `input` is converted before the computation; by default its own.

    Returns:
        A tensor of `input`'s shape, and of dtype `dtype` or `input`'s.

    Raises:
        IndexError: `dim` is out of range.
        NotImplementedError: `input` is of integers and `dtype` is not given.

    Example:
        >>> import triten as tt
        >>> tt.nn.functional.softmin(tt.zeros(2), dim=0)
        tensor([0.5000, 0.5000])
    """
    return _softmax(neg(input), _implicit_dim("softmin", input) if dim is None else dim, dtype)


def log_softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: ScalarType | None = None
) -> Tensor:
    """Compute the logarithm of `softmax` without overflow (`torch.nn.functional.log_softmax`).

    Args:
        input: A floating tensor of any shape.
        dim: The dimension whose elements belong together; None chooses one by the number of dimensions, with a
            warning.
        _stacklevel: The stack level of the warning.
        dtype: The dtype to which `input` is converted before the computation; by default its own.

    Returns:
        A tensor of `input`'s shape, and of dtype `dtype` or `input`'s.

    Raises:
        IndexError: `dim` is out of range.
        NotImplementedError: `input` is of integers and `dtype` is not given.

    Example:
        >>> import triten as tt
        >>> tt.nn.functional.log_softmax(tt.zeros(1, 2), dim=1)
        tensor([[-0.6931, -0.6931]])
    """
    if input.__class__ not in plain_classes and has_tensor_function((input,)):
        return handle_tensor_function(  # type: ignore[no-any-return]
            log_softmax, (input,), input, dim=dim, _stacklevel=_stacklevel, dtype=dtype
        )
    try: return _log_softmax(input, _implicit_dim("log_softmax", input) if dim is None else dim, dtype)  # fmt: skip
    except BaseException:
        hide_inner_frames()
        raise


@overridable
def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Compute the negative log-likelihood of the target classes (`torch.nn.functional.nll_loss`).

    Args:
        input: Logarithms of probabilities, of shape (C), (N, C) or (N, C, d1, d2, ...).
        target: The classes, int64 or uint8, of shape (), (N) or (N, d1, d2, ...).
        weight: A factor for each class, of shape (C).
        size_average: Deprecated for `reduction`: False means 'sum'.
        ignore_index: Targets of this value do not count.
        reduce: Deprecated for `reduction`: False means 'none'.
        reduction: 'none', 'mean' (the default), which divides by the sum of the weights, or 'sum'.

    Returns:
        The loss: a tensor without dimensions, or with 'none' one of `target`'s shape.

    Raises:
        IndexError: A target is out of range.
        ValueError: Batch sizes differ, or `reduction` is another string.
        RuntimeError: Shapes do not fit.

    Example:
        >>> import triten as tt
        >>> tt.nn.functional.nll_loss(tt.tensor([[-0.5, -1.0]]), tt.tensor([1]))
        tensor(1.)
    """
    return nll_loss_nd(input, target, weight, reduction_of(reduction, size_average, reduce), ignore_index)


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """Compute the cross entropy of unnormalized logits (`torch.nn.functional.cross_entropy`).

    Args:
        input: Logits, of shape (C), (N, C) or (N, C, d1, d2, ...).
        target: Classes as in `nll_loss`, or probabilities of `input`'s shape.
        weight: A factor for each class, of shape (C).
        size_average: Deprecated for `reduction`: False means 'sum'.
        ignore_index: Targets of this value do not count.
        reduce: Deprecated for `reduction`: False means 'none'.
        reduction: 'none', 'mean' (the default) or 'sum'.
        label_smoothing: The share, from 0 to 1, that is spread evenly over all classes.

    Returns:
        The loss: a tensor without dimensions, or with 'none' one of `input`'s shape without C.

    Raises:
        IndexError: A target is out of range.
        ValueError: Batch sizes differ, or `reduction` is another string.
        RuntimeError: Shapes do not fit, or `label_smoothing` is out of range.

    Example:
        >>> import triten as tt
        >>> tt.nn.functional.cross_entropy(tt.zeros(2, 4), tt.tensor([0, 3]))
        tensor(1.3863)
    """
    if (
        input.__class__ not in plain_classes
        or target.__class__ not in plain_classes
        or weight.__class__ not in plain_classes
    ) and has_tensor_function((input, target, weight)):
        return handle_tensor_function(  # type: ignore[no-any-return]
            cross_entropy,
            (input, target, weight),
            input,
            target,
            weight=weight,
            size_average=size_average,
            ignore_index=ignore_index,
            reduce=reduce,
            reduction=reduction,
            label_smoothing=label_smoothing,
        )
    try:
        chosen = reduction_of(reduction, size_average, reduce)
        return cross_entropy_loss(input, target, weight, chosen, ignore_index, float(label_smoothing))
    except BaseException:
        hide_inner_frames()
        raise


def _of_one_shape(input: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Broadcast both tensors, so that neither is a 0-d operand in type promotion. Warn if their shapes differ."""
    if target.shape != input.shape:
        warnings.warn(
            f"Using a target size ({target.shape}) that is different to the input size ({input.shape}). "
            "This will likely lead to incorrect results due to broadcasting. Please ensure they have the "
            "same size.",
            stacklevel=levels_to_user(),
        )
        input, target = _broadcast_tensors([input, target])
    return input, target


def _weighted(loss: Tensor, weight: Tensor, reduction: int) -> Tensor:
    """Weight elementwise losses and reduce them; 'mean' divides by the sum of the weights."""
    if tuple(weight.shape) != tuple(loss.shape):
        raise ValueError("Weights and input must have the same size.")
    loss = loss * weight
    return loss if reduction == 0 else loss.sum() / weight.sum() if reduction == 1 else loss.sum()


def mse_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """Compute (input - target) ** 2, by default its mean (`torch.nn.functional.mse_loss`).

    Args:
        input: A floating tensor of any shape.
        target: A tensor of `input`'s shape; another shape is broadcast, with a warning.
        size_average: Deprecated for `reduction`: False means 'sum'.
        reduce: Deprecated for `reduction`: False means 'none'.
        reduction: 'none' gives each element's loss, 'mean' (the default) their mean, 'sum' their sum.
        weight: A factor for each element, of their shape; a mean is then divided by the sum of the factors.

    Returns:
        The loss: a tensor without dimensions, or with 'none' one of their shape.

    Raises:
        ValueError: `reduction` is another string, or `weight` has another shape.

    Example:
        >>> import triten as tt
        >>> tt.nn.functional.mse_loss(tt.tensor([1.0, 3.0]), tt.tensor([1.0, 1.0]))
        tensor(2.)
    """
    if (
        input.__class__ not in plain_classes
        or target.__class__ not in plain_classes
        or weight.__class__ not in plain_classes
    ) and has_tensor_function((input, target, weight)):
        return handle_tensor_function(  # type: ignore[no-any-return]
            mse_loss,
            (input, target, weight),
            input,
            target,
            size_average=size_average,
            reduce=reduce,
            reduction=reduction,
            weight=weight,
        )
    try:
        input, target = _of_one_shape(input, target)
        chosen = reduction_of(reduction, size_average, reduce)
        if weight is not None:
            return _weighted(_mse_loss(input, target, 0), weight, chosen)
        return _mse_loss(input, target, chosen)
    except BaseException:
        hide_inner_frames()
        raise


@overridable
def l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """Compute |input - target|, by default its mean (`torch.nn.functional.l1_loss`).

    Args:
        input: A floating tensor of any shape.
        target: A tensor of `input`'s shape; another shape is broadcast, with a warning.
        size_average: Deprecated for `reduction`: False means 'sum'.
        reduce: Deprecated for `reduction`: False means 'none'.
        reduction: 'none' gives each element's loss, 'mean' (the default) their mean, 'sum' their sum.
        weight: A factor for each element, of their shape; a mean is then divided by the sum of the factors.

    Returns:
        The loss: a tensor without dimensions, or with 'none' one of their shape.

    Raises:
        ValueError: `reduction` is another string, or `weight` has another shape.

    Example:
        >>> import triten as tt
        >>> tt.nn.functional.l1_loss(tt.tensor([1.0, 3.0]), tt.tensor([1.0, 1.0]))
        tensor(1.)
    """
    input, target = _of_one_shape(input, target)
    chosen = reduction_of(reduction, size_average, reduce)
    if weight is not None:
        return _weighted(_l1_loss(input, target, 0), weight, chosen)
    return _l1_loss(input, target, chosen)


@overridable
def smooth_l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Tensor:
    """Compute d ** 2 / (2 beta) below `beta`, d - beta / 2 above, for d = |input - target|
    (`torch.nn.functional.smooth_l1_loss`).

    Args:
        input: A floating tensor of any shape.
        target: A tensor of `input`'s shape; another shape is broadcast, with a warning.
        size_average: Deprecated for `reduction`: False means 'sum'.
        reduce: Deprecated for `reduction`: False means 'none'.
        reduction: 'none' gives each element's loss, 'mean' (the default) their mean, 'sum' their sum.
        beta: The difference at which the loss becomes linear, at least 0.

    Returns:
        The loss: a tensor without dimensions, or with 'none' one of their shape.

    Raises:
        ValueError: `reduction` is another string.
        RuntimeError: `beta` is negative.

    Example:
        >>> import triten as tt
        >>> tt.nn.functional.smooth_l1_loss(tt.tensor([3.0]), tt.tensor([1.0]))
        tensor(1.5000)
    """
    input, target = _of_one_shape(input, target)
    chosen = reduction_of(reduction, size_average, reduce)
    return _smooth_l1_loss(input, target, chosen, 0.0 if beta == 0 else _number(beta))


@overridable
def huber_loss(
    input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0, weight: Tensor | None = None
) -> Tensor:
    """Compute d ** 2 / 2 up to `delta`, delta * (d - delta / 2) above, for d = |input - target|
    (`torch.nn.functional.huber_loss`).

    Args:
        input: A floating tensor of any shape.
        target: A tensor of `input`'s shape; another shape is broadcast, with a warning.
        reduction: 'none' gives each element's loss, 'mean' (the default) their mean, 'sum' their sum.
        delta: The difference at which the loss becomes linear, above 0.
        weight: A factor for each element, of their shape; a mean is then divided by the sum of the factors.

    Returns:
        The loss: a tensor without dimensions, or with 'none' one of their shape.

    Raises:
        TypeError: `delta` is no number.
        RuntimeError: `delta` is not positive.
        ValueError: `reduction` is another string, or `weight` has another shape.

    Example:
        >>> import triten as tt
        >>> tt.nn.functional.huber_loss(tt.tensor([3.0]), tt.tensor([1.0]))
        tensor(1.5000)
    """
    _of_one_shape(input, target)
    chosen = reduction_of(reduction)
    if weight is not None:
        return _weighted(_huber_loss(input, target, 0, _number(delta)), weight, chosen)
    return _huber_loss(input, target, chosen, _number(delta))


def _number(value: Any) -> Any:
    """Convert Python and NumPy numbers to float; the operator rejects other types."""
    return float(value) if isinstance(value, int | float | np.number | np.bool_) else value


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """Compute max(input, 0) elementwise (`torch.nn.functional.relu`).

    Args:
        input: A tensor of real numbers.
        inplace: If True, write the result to `input` in-place. Default: False.

    Returns:
        A tensor of `input`'s shape and dtype; `input` itself if `inplace`.

    Example:
        >>> import triten as tt
        >>> tt.nn.functional.relu(tt.tensor([-1.0, 2.0]))
        tensor([0., 2.])
    """
    if input.__class__ not in plain_classes and has_tensor_function((input,)):
        return handle_tensor_function(relu, (input,), input, inplace=inplace)  # type: ignore[no-any-return]
    try: return _relu_(input) if inplace else _relu(input)  # fmt: skip
    except BaseException:
        hide_inner_frames()
        raise


@overridable
def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Look up rows of a table by index, in a new last dimension (`torch.nn.functional.embedding`).

    Args:
        input: Indices, int32 or int64, of any shape.
        weight: The table, of shape (V, D).
        padding_idx: A row that gets no gradient; negative ones count from the end.
        max_norm: Rows of a larger norm are scaled down to it first, in place.
        norm_type: The order of that norm.
        scale_grad_by_freq: If True, divide gradients by the frequency of each row. Default: False.
        sparse: If True, the gradient of `weight` is a sparse tensor of the used rows. Default: False.

    Returns:
        A tensor of shape (*, D) and of `weight`'s dtype, * being `input`'s shape.

    Raises:
        AssertionError: `padding_idx` is outside the table.
        IndexError: An index is outside the table.
        RuntimeError: `weight` is no matrix.

    Example:
        >>> import triten as tt
        >>> tt.nn.functional.embedding(tt.tensor([1, 0]), tt.tensor([[1.0], [2.0]])).tolist()
        [[2.0], [1.0]]
    """
    if not isinstance(weight, Tensor):
        raise not_a_tensor(weight, "embedding", "weight", 2)
    if weight._spec.ndim != 2:
        raise RuntimeError("'weight' must be 2-D")
    if padding_idx is None:
        padding_idx = -1
    elif padding_idx:
        rows = weight.size(0)
        if not -rows <= padding_idx < rows:
            raise AssertionError("Padding_idx must be within num_embeddings")
        padding_idx %= rows
    if max_norm is not None:
        with no_grad():
            _embedding_renorm_(weight.detach(), input.contiguous(), max_norm, norm_type)
    return _embedding(weight, input, padding_idx, scale_grad_by_freq, sparse)


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zero random elements and divide the others by 1 - p (`torch.nn.functional.dropout`).

    Args:
        input: A floating tensor of any shape.
        p: The probability with which an element is set to 0, between 0 and 1.
        training: If True, drop elements; otherwise return `input` itself. Default: True.
        inplace: If True, write the result to `input` in-place. Default: False.

    Returns:
        A tensor of `input`'s shape and dtype.

    Raises:
        ValueError: `p` is not between 0 and 1.

    References:
        Srivastava et al., Dropout, a simple way to prevent neural networks from overfitting (2014).

    Example:
        >>> import triten as tt
        >>> x = tt.nn.functional.dropout(tt.ones(100))
        >>> sorted(set(x.tolist()))
        [0.0, 2.0]
    """
    if input.__class__ not in plain_classes and has_tensor_function((input,)):
        return handle_tensor_function(dropout, (input,), input, p=p, training=training, inplace=inplace)  # type: ignore[no-any-return]
    try:
        if p < 0.0 or p > 1.0:  # the operator refuses NaN
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        return _dropout_(input, p, training) if inplace else _dropout(input, p, training)
    except BaseException:
        hide_inner_frames()
        raise
