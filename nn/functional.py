"""Functions of neural networks with PyTorch's Python signatures (`torch.nn.functional`).

Reductions are ``'none'``, ``'mean'`` or ``'sum'``. Operators whose Python signature is the operator's own are
re-exported; the rest translate their arguments here and call the operator. Those of every training step ask their
arguments in place, which is quicker than `overridable`.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from ..dispatch.autograd.grad_mode import no_grad
from ..dispatch.core.tensor_function import (
    handle_tensor_function,
    has_tensor_function,
    overridable,
    plain_classes,
)
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
from ..runtime.scalar_type import dtype as ScalarType
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
    sequence_losses,
    unpooling,
)
from .activations import *  # noqa: F403 - the names are declared there
from .bags import *  # noqa: F403
from .classes import *  # noqa: F403
from .dropouts import *  # noqa: F403
from .fractional_pooling import *  # noqa: F403
from .losses import *  # noqa: F403
from .multi_head import *  # noqa: F403
from .normalization import *  # noqa: F403
from .pooling import *  # noqa: F403
from .reductions import WRAPPED, reduction_of
from .resampling import *  # noqa: F403
from .sequence_losses import *  # noqa: F403
from .unpooling import *  # noqa: F403

if TYPE_CHECKING:
    from ..dispatch.tensor import Tensor

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


def _implicit_dim(name: str, rank: int, stacklevel: int = 3) -> int:
    dim = 0 if rank in (0, 1, 3) else 1
    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated. "
        "Change the call to include dim=X as an argument.",
        stacklevel=stacklevel,
    )
    return dim


def softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: ScalarType | None = None
) -> Tensor:
    """exp(input) over its sum along `dim` (`torch.nn.functional.softmax`).

    Args:
        input: a tensor of a floating dtype.
        dim: the dimension whose values sum to 1.
        dtype: converted to before the operation.

    Raises IndexError for a dimension out of range, NotImplementedError for integral inputs without `dtype`.

    Example:
        >>> import triten as tt
        >>> tt.nn.functional.softmax(tt.zeros(1, 4), dim=1)
        tensor([[0.2500, 0.2500, 0.2500, 0.2500]])
    """
    if input.__class__ not in plain_classes and has_tensor_function((input,)):
        return handle_tensor_function(softmax, (input,), input, dim=dim, _stacklevel=_stacklevel, dtype=dtype)  # type: ignore[no-any-return]
    return _softmax(input, _implicit_dim("softmax", input.dim()) if dim is None else dim, dtype)


@overridable
def softmin(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: ScalarType | None = None
) -> Tensor:
    """The softmax of -input (`torch.nn.functional.softmin`).

    Example:
        >>> import triten as tt
        >>> tt.nn.functional.softmin(tt.zeros(2), dim=0)
        tensor([0.5000, 0.5000])
    """
    return _softmax(neg(input), _implicit_dim("softmin", input.dim(), WRAPPED) if dim is None else dim, dtype)


def log_softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: ScalarType | None = None
) -> Tensor:
    """The logarithm of `softmax`, computed stably (`torch.nn.functional.log_softmax`).

    Example:
        >>> import triten as tt
        >>> tt.nn.functional.log_softmax(tt.zeros(1, 2), dim=1)
        tensor([[-0.6931, -0.6931]])
    """
    if input.__class__ not in plain_classes and has_tensor_function((input,)):
        return handle_tensor_function(  # type: ignore[no-any-return]
            log_softmax, (input,), input, dim=dim, _stacklevel=_stacklevel, dtype=dtype
        )
    return _log_softmax(input, _implicit_dim("log_softmax", input.dim()) if dim is None else dim, dtype)


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
    """Negative log likelihood (`torch.nn.functional.nll_loss`).

    Args:
        input: log-probabilities, (C), (N, C) or (N, C, d1, d2, ...).
        target: class indices, int64 or uint8, (), (N) or (N, d1, d2, ...).
        weight: a weight for each class, (C).
        ignore_index: targets of this value do not count.
        reduction: ``'none'``, ``'mean'`` (weighted) or ``'sum'``.

    Raises IndexError for a target out of range, ValueError and RuntimeError for shapes that do not fit.

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
    """Cross entropy of unnormalised logits (`torch.nn.functional.cross_entropy`).

    Args:
        input: logits, (C), (N, C) or (N, C, d1, d2, ...).
        target: class indices as in `nll_loss`, or probabilities of the input's shape.
        weight: a weight for each class, (C).
        ignore_index: targets of this value do not count.
        reduction: ``'none'``, ``'mean'`` or ``'sum'``.
        label_smoothing: the share, from 0 to 1, that is spread evenly over all classes.

    Raises IndexError for a target out of range, RuntimeError for what does not fit.

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
    chosen = reduction_of(reduction, size_average, reduce, 3)
    return cross_entropy_loss(input, target, weight, chosen, ignore_index, float(label_smoothing))


def _of_one_shape(input: Tensor, target: Tensor, stacklevel: int = WRAPPED) -> tuple[Tensor, Tensor]:
    """Both broadcast, so that neither counts as a number in promotion; with a warning where they differed."""
    if target.shape != input.shape:
        warnings.warn(
            f"Using a target size ({target.shape}) that is different to the input size ({input.shape}). "
            "This will likely lead to incorrect results due to broadcasting. Please ensure they have the "
            "same size.",
            stacklevel=stacklevel,
        )
        input, target = _broadcast_tensors([input, target])
    return input, target


def _weighted(loss: Tensor, weight: Tensor, reduction: int) -> Tensor:
    """A loss for each element times its weight, reduced; the mean is over the weights."""
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
    """(input - target) ** 2, by default its mean (`torch.nn.functional.mse_loss`).

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
    input, target = _of_one_shape(input, target, 3)
    chosen = reduction_of(reduction, size_average, reduce, 3)
    if weight is not None:
        return _weighted(_mse_loss(input, target, 0), weight, chosen)
    return _mse_loss(input, target, chosen)


@overridable
def l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """abs(input - target), by default its mean (`torch.nn.functional.l1_loss`).

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
    """Squared error below `beta`, absolute error above (`torch.nn.functional.smooth_l1_loss`).

    Example:
        >>> import triten as tt
        >>> tt.nn.functional.smooth_l1_loss(tt.tensor([3.0]), tt.tensor([1.0]))
        tensor(1.5000)
    """
    input, target = _of_one_shape(input, target)
    return _smooth_l1_loss(input, target, reduction_of(reduction, size_average, reduce), float(beta))


@overridable
def huber_loss(
    input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0, weight: Tensor | None = None
) -> Tensor:
    """Squared error up to `delta`, linear above (`torch.nn.functional.huber_loss`).

    Example:
        >>> import triten as tt
        >>> tt.nn.functional.huber_loss(tt.tensor([3.0]), tt.tensor([1.0]))
        tensor(1.5000)
    """
    if not isinstance(delta, int | float):
        raise TypeError(f"huber_loss(): argument 'delta' must be float or int, not {type(delta).__name__}")
    _of_one_shape(input, target)
    chosen = reduction_of(reduction)
    if weight is not None:
        return _weighted(_huber_loss(input, target, 0, float(delta)), weight, chosen)
    return _huber_loss(input, target, chosen, float(delta))


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """max(input, 0), element by element (`torch.nn.functional.relu`)."""
    if input.__class__ not in plain_classes and has_tensor_function((input,)):
        return handle_tensor_function(relu, (input,), input, inplace=inplace)  # type: ignore[no-any-return]
    return _relu_(input) if inplace else _relu(input)


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
    """The rows of `weight` (V, D) that `input` names, in a new last dimension (`torch.nn.functional.embedding`).

    Args:
        padding_idx: a row that gets no gradient; negative ones count from the end.
        max_norm: rows of a larger norm are scaled down to it first, in place.

    Raises:
        AssertionError: for a `padding_idx` outside the table. IndexError: for an index outside it.

    Example:
        >>> import triten as tt
        >>> tt.nn.functional.embedding(tt.tensor([1, 0]), tt.tensor([[1.0], [2.0]])).tolist()
        [[2.0], [1.0]]
    """
    if weight.dim() != 2:
        raise RuntimeError("'weight' must be 2-D")
    rows = weight.size(0)
    if padding_idx is None:
        padding_idx = -1
    else:
        if not -rows <= padding_idx < rows:
            raise AssertionError("Padding_idx must be within num_embeddings")
        padding_idx %= rows
    if max_norm is not None:
        with no_grad():
            _embedding_renorm_(weight, input.contiguous(), max_norm, norm_type)
    return _embedding(weight, input, padding_idx, scale_grad_by_freq, sparse)


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Elements set to zero with probability `p`, the others scaled by 1 / (1 - p) (`torch.nn.functional.dropout`).

    Raises ValueError for a probability outside [0, 1].
    """
    if input.__class__ not in plain_classes and has_tensor_function((input,)):
        return handle_tensor_function(dropout, (input,), input, p=p, training=training, inplace=inplace)  # type: ignore[no-any-return]
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    return _dropout_(input, p, training) if inplace else _dropout(input, p, training)
