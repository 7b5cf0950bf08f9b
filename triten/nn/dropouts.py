"""Dropout of channels and dropout that keeps mean and variance; `functional` re-exports them."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from ..dispatch.core.tensor_function import overridable
from ..dispatch.generated import functions as _ops
from ..runtime.user_frame import levels_to_user

if TYPE_CHECKING:
    from ..dispatch.tensor import Tensor

__all__ = ["alpha_dropout", "dropout1d", "dropout2d", "dropout3d", "feature_alpha_dropout"]


def _check(p: float) -> None:
    if p < 0.0 or p > 1.0:  # the operator refuses NaN
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")


@overridable
def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Drop elements such that mean and variance stay the same, for `selu` (`torch.nn.functional.alpha_dropout`).

    Args:
        input: A floating tensor of any shape.
        p: The probability with which one is dropped, between 0 and 1.
        training: If True, drop elements; otherwise return `input` itself. Default: False.
        inplace: If True, write the result to `input` in-place. Default: False.

    Returns:
        A tensor of `input`'s shape and dtype; `input` itself if `inplace`.

    Raises:
        ValueError: `p` is not between 0 and 1.

    References:
        Klambauer et al., Self-normalizing neural networks (2017).

    Example:
        >>> import triten as tt
        >>> tt.nn.functional.alpha_dropout(tt.ones(2), training=False)
        tensor([1., 1.])
    """
    _check(p)
    return (_ops.alpha_dropout_ if inplace else _ops.alpha_dropout)(input, p, training)


@overridable
def feature_alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """Apply `alpha_dropout` to whole channels (`torch.nn.functional.feature_alpha_dropout`).

    Args:
        input: A floating tensor of shape (N, C, ...).
        p: The probability with which one is dropped, between 0 and 1.
        training: If True, drop elements; otherwise return `input` itself. Default: False.
        inplace: If True, write the result to `input` in-place. Default: False.

    Returns:
        A tensor of `input`'s shape and dtype; `input` itself if `inplace`.

    Raises:
        ValueError: `p` is not between 0 and 1.

    Example:
        >>> import triten as tt
        >>> x = tt.nn.functional.feature_alpha_dropout(tt.ones(2, 3, 4), training=True)
        >>> bool((x == x[:, :, :1]).all())
        True
    """
    _check(p)
    return (_ops.feature_alpha_dropout_ if inplace else _ops.feature_alpha_dropout)(input, p, training)


def _channels(name: str, rank: int, input: Tensor, p: float, training: bool, inplace: bool) -> Tensor:
    """Drop whole channels of inputs with `rank` dimensions after batch and channels."""
    _check(p)
    dims = input.dim()
    unbatched = dims == rank + 1
    if rank == 1:
        if dims not in (2, 3):
            raise RuntimeError(
                f"{name}: Expected 2D or 3D input, but received a {dims}D input. "
                "Note that dropout1d exists to provide channel-wise dropout on inputs with 1 "
                "spatial dimension, a channel dimension, and an optional batch dimension "
                "(i.e. 2D or 3D inputs)."
            )
    elif dims not in (rank + 1, rank + 2):
        warnings.warn(
            f"{name}: Received a {dims}-D input to {name}, which is deprecated and will result in an error in a "
            "future release.",
            stacklevel=levels_to_user(),
        )
        unbatched = False
    if rank == 2 and dims == 3:
        warnings.warn(
            "dropout2d: Received a 3D input to dropout2d and assuming that channel-wise 1D dropout behavior is "
            "desired - input is interpreted as shape (N, C, L), where C is the channel dim. This behavior will "
            "change in a future release to interpret the input as one without a batch dimension, i.e. shape "
            "(C, H, W). To maintain the 1D channel-wise dropout behavior, please switch to using dropout1d instead.",
            stacklevel=levels_to_user(),
        )
        unbatched = False
    if inplace:
        if not unbatched:
            return _ops.feature_dropout_(input, p, training)
        input.unsqueeze_(0)
        try:
            _ops.feature_dropout_(input, p, training)
        finally:
            input.squeeze_(0)
        return input
    result = _ops.feature_dropout(input.unsqueeze(0) if unbatched else input, p, training)
    return result.squeeze(0) if unbatched else result


@overridable
def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zero random channels and divide the others by 1 - p (`torch.nn.functional.dropout1d`).

    Args:
        input: A floating tensor of shape (N, C, L) or (C, L).
        p: The probability with which one is dropped, between 0 and 1.
        training: If True, drop elements; otherwise return `input` itself. Default: True.
        inplace: If True, write the result to `input` in-place. Default: False.

    Returns:
        A tensor of `input`'s shape and dtype; `input` itself if `inplace`.

    Raises:
        ValueError: `p` is not between 0 and 1.
        RuntimeError: `input` has the wrong number of dimensions.

    References:
        Tompson et al., Efficient object localization using convolutional networks (2015).

    Example:
        >>> import triten as tt
        >>> x = tt.nn.functional.dropout1d(tt.ones(2, 3, 4))
        >>> bool((x == x[:, :, :1]).all())
        True
    """
    return _channels("dropout1d", 1, input, p, training, inplace)


@overridable
def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zero random channels and divide the others by 1 - p (`torch.nn.functional.dropout2d`).

    Args:
        input: A floating tensor of shape (N, C, H, W).
        p: The probability with which one is dropped, between 0 and 1.
        training: If True, drop elements; otherwise return `input` itself. Default: True.
        inplace: If True, write the result to `input` in-place. Default: False.

    Returns:
        A tensor of `input`'s shape and dtype; `input` itself if `inplace`.

    Raises:
        ValueError: `p` is not between 0 and 1.

    References:
        Tompson et al., Efficient object localization using convolutional networks (2015).

    Example:
        >>> import triten as tt
        >>> x = tt.nn.functional.dropout2d(tt.ones(2, 3, 4, 4))
        >>> bool((x == x[:, :, :1, :1]).all())
        True
    """
    return _channels("dropout2d", 2, input, p, training, inplace)


@overridable
def dropout3d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zero random channels and divide the others by 1 - p (`torch.nn.functional.dropout3d`).

    Args:
        input: A floating tensor of shape (N, C, D, H, W) or (C, D, H, W).
        p: The probability with which one is dropped, between 0 and 1.
        training: If True, drop elements; otherwise return `input` itself. Default: True.
        inplace: If True, write the result to `input` in-place. Default: False.

    Returns:
        A tensor of `input`'s shape and dtype; `input` itself if `inplace`.

    Raises:
        ValueError: `p` is not between 0 and 1.

    References:
        Tompson et al., Efficient object localization using convolutional networks (2015).

    Example:
        >>> import triten as tt
        >>> x = tt.nn.functional.dropout3d(tt.ones(2, 3, 4, 4, 4))
        >>> bool((x == x[:, :, :1, :1, :1]).all())
        True
    """
    return _channels("dropout3d", 3, input, p, training, inplace)
