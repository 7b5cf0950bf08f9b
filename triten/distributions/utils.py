"""Utilities of distributions: broadcast parameters, probabilities and logits, lazy properties
(`torch.distributions.utils`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, TypeVar, overload

from ..dispatch.autograd.grad_mode import enable_grad
from ..dispatch.functions.variadic import broadcast_tensors
from ..dispatch.generated import functions as _ops
from ..dispatch.tensor import Tensor
from ..overrides import is_tensor_like
from ..runtime.scalar_type import finfo, get_default_dtype

__all__ = [
    "broadcast_all",
    "clamp_probs",
    "lazy_property",
    "logits_to_probs",
    "probs_to_logits",
    "tril_matrix_to_vec",
    "vec_to_tril_matrix",
]

Shape = Sequence[int]
euler_constant = 0.57721566490153286060
LOG_2_PI = math.log(2 * math.pi)


def broadcast_all(*values: Any) -> tuple[Tensor, ...]:
    """Broadcast numbers and tensors to tensors of one shape (`torch.distributions.utils.broadcast_all`).

    Numbers take the dtype and device of the first tensor, or the default dtype if there is none.

    Args:
        values: Numbers, tensors and objects of classes that handle public calls.

    Raises:
        ValueError: A value is neither.

    Example:
        >>> import triten as tt
        >>> tt.distributions.utils.broadcast_all(1.0, tt.zeros(2))
        (tensor([1., 1.]), tensor([0., 0.]))
    """
    if not all(isinstance(v, (Tensor, int, float, complex)) or is_tensor_like(v) for v in values):
        raise ValueError(
            "Input arguments must all be instances of Number, torch.Tensor or objects implementing __torch_function__."
        )
    first = next((v for v in values if isinstance(v, Tensor)), None)
    dtype = get_default_dtype() if first is None else first.dtype
    device = None if first is None else first.device
    made = [v if is_tensor_like(v) else _ops.full((), v, dtype=dtype, device=device) for v in values]
    return tuple(broadcast_tensors(*made))


def is_number(value: object) -> bool:
    """Return whether a parameter is a Python number."""
    return isinstance(value, (int, float))


def _standard_normal(shape: Shape, like: Tensor) -> Tensor:
    """Generate standard normal numbers with a tensor's dtype and device."""
    return _ops.randn(tuple(shape), dtype=like.dtype, device=like.device)


def open_uniform(shape: Shape, like: Tensor) -> Tensor:
    """Generate uniform numbers that are at least the smallest normal number, so that no logarithm is infinite."""
    return _ops.rand(tuple(shape), dtype=like.dtype, device=like.device).clamp(min=finfo(like.dtype).tiny)


def _sum_rightmost(value: Tensor, dim: int) -> Tensor:
    """Sum over the last `dim` dimensions."""
    if dim == 0:
        return value
    num_kept_dims = value.dim() - dim
    return value.reshape((*value.shape[:num_kept_dims], -1)).sum(-1)


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """Convert logits to probabilities (`torch.distributions.utils.logits_to_probs`).

    Args:
        logits: Log-odds if `is_binary`, else logarithms of weights along the last dimension.
        is_binary: If True, each element is a logit of its own. Default: False.

    Example:
        >>> import triten as tt
        >>> tt.distributions.utils.logits_to_probs(tt.zeros(2))
        tensor([0.5000, 0.5000])
    """
    return logits.sigmoid() if is_binary else _ops.softmax(logits, -1)


def clamp_probs(probs: Tensor) -> Tensor:
    """Clamp probabilities to [eps, 1 - eps] (`torch.distributions.utils.clamp_probs`).

    Example:
        >>> import triten as tt
        >>> bool(tt.distributions.utils.clamp_probs(tt.zeros(())) > 0)
        True
    """
    eps = finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """Convert probabilities to logits, after clamping (`torch.distributions.utils.probs_to_logits`).

    Args:
        probs: Probabilities.
        is_binary: If True, each element is a probability of its own: then log-odds, else logarithms. Default: False.

    Example:
        >>> import triten as tt
        >>> tt.distributions.utils.probs_to_logits(tt.tensor([0.5]), is_binary=True)
        tensor([0.])
    """
    clamped = clamp_probs(probs)
    return clamped.log() - (-clamped).log1p() if is_binary else clamped.log()


Value = TypeVar("Value")


class lazy_property(cached_property[Value]):
    """Property computed at first use and cached in the instance (`torch.distributions.utils.lazy_property`).

    The getter runs with gradients enabled, so that the cached graph serves later differentiation.
    """

    def __init__(self, wrapped: Callable[[Any], Value]) -> None:
        super().__init__(wrapped)
        self.wrapped = wrapped

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> lazy_property[Value]: ...

    @overload
    def __get__(self, instance: Any, owner: type | None = None) -> Value: ...

    def __get__(self, instance: Any, owner: type | None = None) -> Value | lazy_property[Value]:
        if instance is None:
            return self
        with enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.wrapped.__name__, value)
        return value


def _triangle(size: int, diag: int) -> tuple[list[int], list[int]]:
    positions = [(i, j) for i in range(size) for j in range(min(i + diag + 1, size))]
    return [i for i, _ in positions], [j for _, j in positions]


def tril_matrix_to_vec(mat: Tensor, diag: int = 0) -> Tensor:
    """Return the lower triangle of matrices, row by row, as vectors (`torch.distributions.utils.tril_matrix_to_vec`).

    Args:
        mat: Square matrices, of shape (..., D, D).
        diag: The last diagonal that belongs to the triangle.

    Raises:
        ValueError: `diag` is not a diagonal of the matrix.

    Example:
        >>> import triten as tt
        >>> tt.distributions.utils.tril_matrix_to_vec(tt.tensor([[1.0, 0.0], [2.0, 3.0]]))
        tensor([1., 2., 3.])
    """
    size = mat.shape[-1]
    if not -size <= diag < size:
        raise ValueError(f"diag ({diag}) provided is outside [{-size}, {size - 1}].")
    rows, columns = _triangle(size, diag)
    picked: Tensor = mat[..., rows, columns]
    return picked


def vec_to_tril_matrix(vec: Tensor, diag: int = 0) -> Tensor:
    """Fill the lower triangles of matrices from vectors (`torch.distributions.utils.vec_to_tril_matrix`).

    Args:
        vec: Vectors, of shape (..., L).
        diag: The last diagonal that belongs to the triangle.

    Raises:
        ValueError: No square matrix has a triangle of L elements.

    Example:
        >>> import triten as tt
        >>> tt.distributions.utils.vec_to_tril_matrix(tt.tensor([1.0, 2.0, 3.0]))
        tensor([[1., 0.],
                [2., 3.]])
    """
    length = vec.shape[-1]
    shift = 1 + 2 * diag
    size = (-shift + math.sqrt(shift * shift + 8 * length + 4 * abs(diag) * (diag + 1))) / 2
    if abs(size - round(size)) > finfo(vec.dtype).eps:
        raise ValueError(
            f"The size of last dimension is {length} which cannot be expressed as "
            "the lower triangular part of a square D x D matrix."
        )
    n = round(size)
    rows, columns = _triangle(n, diag)
    made = vec.new_zeros((*vec.shape[:-1], n, n))
    made[..., rows, columns] = vec
    return made
