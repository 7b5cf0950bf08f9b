"""Classes as numbers and as rows of shares: one-hot codes, and samples of them that have a gradient."""

from __future__ import annotations

import warnings

from ..dispatch.core.tensor_function import overridable
from ..dispatch.generated import functions as _ops
from ..dispatch.tensor import Tensor
from ..runtime.cuda.value_reading import may_read_values
from ..runtime.errors import not_a_tensor
from ..runtime.memory_format import contiguous_format
from ..runtime.scalar_type import bool_, int64

__all__ = ["gumbel_softmax", "one_hot"]


@overridable
def one_hot(tensor: Tensor, num_classes: int | Tensor = -1) -> Tensor:
    """Encode classes as one-hot vectors (`torch.nn.functional.one_hot`).

    Args:
        tensor: Classes, counted from 0, of dtype int64.
        num_classes: The number of classes, an int or a tensor of one integer; -1 for one more than the largest.

    Returns:
        A tensor of dtype int64, with a last dimension of `num_classes` more.

    Raises:
        RuntimeError: The dtype is another one, or a class is negative or too large.
        NotImplementedError: `tensor` is on the Meta device and `num_classes` is -1.

    Example:
        >>> import triten as tt
        >>> tt.nn.functional.one_hot(tt.tensor([0, 2]), 3).tolist()
        [[1, 0, 0], [0, 0, 1]]
    """
    if not isinstance(tensor, Tensor):
        raise not_a_tensor(tensor, "one_hot")
    if tensor.dtype is not int64:
        raise RuntimeError("one_hot is only applicable to index tensor of type LongTensor.")
    if isinstance(num_classes, Tensor) and num_classes.dim() == 0 and _is_integer(num_classes):
        num_classes = num_classes.item()
    if not isinstance(num_classes, int) or isinstance(num_classes, bool):
        raise TypeError(f"one_hot(): argument 'num_classes' must be int, not {type(num_classes).__name__}")
    if not -(1 << 63) <= num_classes < 1 << 63:
        raise ValueError(f"Overflow when unpacking long long: one_hot(): num_classes is {num_classes}")
    if tensor.numel() == 0:
        if num_classes <= 0:
            raise RuntimeError("Can not infer total number of classes from empty tensor.")
        return _ops.empty((*tensor.shape, num_classes), dtype=int64, device=tensor.device)
    if tensor._spec.keys:  # a transform or a class may have no values to read
        if num_classes == -1:
            num_classes = int(tensor.max().item()) + 1
        classes = _ops.arange(num_classes, device=tensor.device)
        return _ops.eq(tensor.unsqueeze(-1), classes).to(int64)
    if num_classes != -1 and tensor.is_cuda and not may_read_values(tensor.device):
        if num_classes < 1:
            raise RuntimeError("Class values must be smaller than num_classes.")
        # The scatter kernel checks the class indices, so the host does not synchronize.
        zeros = _ops.zeros((*tensor.shape, num_classes), dtype=int64, device=tensor.device)
        return zeros.scatter_(-1, tensor.unsqueeze(-1), 1)
    if not tensor.is_meta:
        lowest, highest = tensor.aminmax()
        min_class, max_class = lowest.item(), highest.item()
        if min_class < 0:
            raise RuntimeError("Class values must be non-negative.")
        if num_classes == -1:
            num_classes = int(max_class) + 1
        elif num_classes <= max_class:
            raise RuntimeError("Class values must be smaller than num_classes.")
    elif num_classes == -1:
        raise NotImplementedError("one_hot: expected num_classes for a tensor on the meta device, but got -1")
    zeros = _ops.zeros((*tensor.shape, num_classes), dtype=int64, device=tensor.device)
    return zeros.scatter_(-1, tensor.unsqueeze(-1), 1)


def _is_integer(tensor: Tensor) -> bool:
    return not (tensor.is_floating_point() or tensor.is_complex() or tensor.dtype is bool_)


@overridable
def gumbel_softmax(
    logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> Tensor:
    """Sample classes randomly, soft or one-hot with the soft samples' gradient
    (`torch.nn.functional.gumbel_softmax`).

    Args:
        logits: Logarithms of the classes' weights, not normalized.
        tau: The temperature: the lower, the nearer to one-hot.
        hard: If True, the result is one-hot. Default: False.
        eps: Deprecated and without effect.
        dim: The dimension of the classes.

    Returns:
        A tensor of `logits`' shape, whose elements along `dim` sum to 1.

    Raises:
        TypeError: `logits` is not a tensor.

    References:
        Maddison et al., The concrete distribution (2016); Jang et al., Categorical reparameterization with
        Gumbel-softmax (2016).

    Example:
        >>> import triten as tt
        >>> tt.nn.functional.gumbel_softmax(tt.zeros(2, 3), hard=True).sum(-1)
        tensor([1., 1.])
    """
    if eps != 1e-10:
        warnings.warn("`eps` parameter is deprecated and has no effect.", stacklevel=3)
    if not isinstance(logits, Tensor):
        raise not_a_tensor(logits, "gumbel_softmax", "logits")
    noise = -_ops.empty_like(logits, memory_format=contiguous_format).exponential_().log()
    soft = ((logits + noise) / tau).softmax(dim)
    if not hard:
        return soft
    chosen = soft.max(dim, keepdim=True)[1]
    code = _ops.zeros(logits.shape, dtype=logits.dtype, device=logits.device).scatter_(dim, chosen, 1.0)
    return code - soft.detach() + soft
