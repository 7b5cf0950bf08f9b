"""Initial values of parameters (`torch.nn.init`): each function fills its tensor in place and returns it."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

from ..autograd import no_grad
from ..dispatch.generated import functions as _ops
from ..dispatch.tensor import Tensor
from ..runtime.user_frame import levels_to_user

if TYPE_CHECKING:
    from ..runtime.generator import Generator

__all__ = [
    "calculate_gain",
    "constant",
    "constant_",
    "dirac",
    "dirac_",
    "eye",
    "eye_",
    "kaiming_normal",
    "kaiming_normal_",
    "kaiming_uniform",
    "kaiming_uniform_",
    "normal",
    "normal_",
    "ones_",
    "orthogonal",
    "orthogonal_",
    "sparse",
    "sparse_",
    "trunc_normal_",
    "uniform",
    "uniform_",
    "xavier_normal",
    "xavier_normal_",
    "xavier_uniform",
    "xavier_uniform_",
    "zeros_",
]

NORMAL_SHARE = 0.3
"""The share of normal numbers within the bounds from which `trunc_normal_` draws normal numbers."""
GAINS = {"sigmoid": 1.0, "linear": 1.0, "tanh": 5.0 / 3, "relu": math.sqrt(2.0), "selu": 3.0 / 4}
GAINS |= {f"conv{t}{n}d": 1.0 for t in ("", "_transpose") for n in (1, 2, 3)}


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """Return the recommended gain for a nonlinearity (`torch.nn.init.calculate_gain`).

    Raises:
        ValueError: The name is unknown, or the slope is not a number.

    Example:
        >>> import triten as tt
        >>> tt.nn.init.calculate_gain("tanh")
        1.6666666666666667
    """
    if nonlinearity == "leaky_relu":
        if param is None:
            slope = 0.01
        elif isinstance(param, bool) or not isinstance(param, int | float):
            raise ValueError(f"negative_slope {param} not a valid number")
        else:
            slope = param
        return math.sqrt(2.0 / (1 + slope**2))
    if nonlinearity not in GAINS:
        raise ValueError(f"Unsupported nonlinearity {nonlinearity}")
    return GAINS[nonlinearity]


def _calculate_fan_in_and_fan_out(tensor: Tensor) -> tuple[int, int]:
    """Return fan-in and fan-out: the inputs of each output and the outputs of each input.

    Raises:
        ValueError: `tensor` has fewer than two dimensions.
    """
    if tensor.dim() < 2:
        raise ValueError("Fan in and fan out can not be computed for tensor with fewer than 2 dimensions")
    field = math.prod(tensor.shape[2:])
    return tensor.shape[1] * field, tensor.shape[0] * field


def _calculate_correct_fan(tensor: Tensor, mode: str) -> int:
    modes = ["fan_in", "fan_out"]
    if mode.lower() not in modes:
        raise ValueError(f"Mode {mode.lower()} not supported, please use one of {modes}")
    return _calculate_fan_in_and_fan_out(tensor)[modes.index(mode.lower())]


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fill `tensor` with uniform random numbers from [a, b)."""
    with no_grad():
        return tensor.uniform_(a, b, generator=generator)


def normal_(
    tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Generator | None = None
) -> Tensor:
    """Fill `tensor` with normal random numbers."""
    with no_grad():
        return tensor.normal_(mean, std, generator=generator)


def trunc_normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Generator | None = None,
) -> Tensor:
    """Fill `tensor` with normal random numbers truncated to [a, b] (`torch.nn.init.trunc_normal_`).

    Numbers outside [a, b] are resampled. If most would be outside, uniform numbers of [a, b] are
    accepted in proportion to their density (rejection sampling).
    """
    if tensor.is_meta:
        return tensor
    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn(
            f"mean {mean} is more than 2 std from [{a}, {b}] in nn.init.trunc_normal_. "
            "The distribution of values may be incorrect.",
            stacklevel=levels_to_user(),
        )
    low, high = ((1.0 + math.erf((x - mean) / std / math.sqrt(2.0))) / 2.0 for x in (a, b))
    with no_grad():
        if high - low > NORMAL_SHARE:
            lower, upper = (tensor.new_tensor(x, device="cpu").item() for x in (a, b))
            result = tensor.normal_(mean, std, generator=generator)
            while bool((outside := (result < lower) | (result > upper)).any()):
                result = _ops.where(
                    outside, _ops.empty_like(result).normal_(mean, std, generator=generator), result
                )
        else:
            peak = -0.5 * ((max(a, min(mean, b)) - mean) / std) ** 2
            result, waiting = tensor, None
            while waiting is None or bool(waiting.any()):
                samples = (tensor if waiting is None else _ops.empty_like(tensor)).uniform_(
                    a, b, generator=generator
                )
                result = samples if waiting is None else _ops.where(waiting, samples, result)
                density = samples.sub(mean).div_(std).pow_(2).mul_(-0.5).sub_(peak)
                refused = _ops.empty_like(tensor).uniform_(generator=generator).log_().gt(density)
                waiting = refused if waiting is None else waiting & refused
        return tensor if result is tensor else tensor.copy_(result)


def constant_(tensor: Tensor, val: float) -> Tensor:
    """Fill `tensor` with `val`."""
    with no_grad():
        return tensor.fill_(val)


def ones_(tensor: Tensor) -> Tensor:
    """Fill `tensor` with ones."""
    return constant_(tensor, 1.0)


def zeros_(tensor: Tensor) -> Tensor:
    """Fill `tensor` with zeros."""
    with no_grad():
        return tensor.zero_()


def eye_(tensor: Tensor) -> Tensor:
    """Fill `tensor` with the identity matrix.

    Raises:
        ValueError: `tensor` does not have two dimensions.
    """
    if tensor.dim() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    with no_grad():
        return tensor.copy_(_ops.eye(*tensor.shape, dtype=tensor.dtype, device=tensor.device))


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """Fill a convolution's weight so that it copies as many channels as possible; zero elsewhere.

    Raises:
        ValueError: `tensor` does not have 3, 4 or 5 dimensions, or `groups` does not divide the first one.
    """
    if tensor.dim() not in (3, 4, 5):
        raise ValueError("Only tensors with 3, 4, or 5 dimensions are supported")
    if tensor.shape[0] % groups:
        raise ValueError("dim 0 must be divisible by groups")
    outputs = tensor.shape[0] // groups
    middle = [size // 2 for size in tensor.shape[2:]]
    with no_grad():
        tensor.zero_()
        for group in range(groups):
            for channel in range(min(outputs, tensor.shape[1])):
                tensor[(group * outputs + channel, channel, *middle)] = 1
    return tensor


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fill `tensor` with uniform numbers that preserve variance forward and backward (Glorot and Bengio, 2010).

    Raises:
        ValueError: `tensor` has fewer than two dimensions.
    """
    bound = gain * math.sqrt(6.0 / sum(_calculate_fan_in_and_fan_out(tensor)))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fill `tensor` with normal numbers that preserve variance forward and backward (Glorot and Bengio, 2010).

    Raises:
        ValueError: `tensor` has fewer than two dimensions.
    """
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / sum(_calculate_fan_in_and_fan_out(tensor))), generator)


def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Fill `tensor` with uniform numbers whose variance rectifiers preserve (He et al., 2015).

    Args:
        tensor: A tensor of at least two dimensions.
        a: The rectifier's slope below zero. Default: 0.
        mode: ``fan_in`` preserves the variance forward, ``fan_out`` backward. Default: ``fan_in``.
        nonlinearity: The name of the nonlinearity, as for `calculate_gain`.
        generator: The random generator. Default: the device's.

    Raises:
        ValueError: `tensor` has fewer than two dimensions, or `mode` or `nonlinearity` is unknown.
    """
    if tensor.numel() == 0:
        warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=levels_to_user())
        return tensor
    bound = math.sqrt(3.0) * calculate_gain(nonlinearity, a) / math.sqrt(_calculate_correct_fan(tensor, mode))
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Fill `tensor` with normal numbers whose variance rectifiers preserve (He et al., 2015).

    See `kaiming_uniform_` for the arguments.

    Raises:
        ValueError: `tensor` has fewer than two dimensions, or `mode` or `nonlinearity` is unknown.
    """
    if tensor.numel() == 0:
        warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=levels_to_user())
        return tensor
    return normal_(
        tensor,
        0.0,
        calculate_gain(nonlinearity, a) / math.sqrt(_calculate_correct_fan(tensor, mode)),
        generator,
    )


def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Generator | None = None) -> Tensor:
    """Fill `tensor` with normal numbers and zero a fraction `sparsity` of each column.

    Raises:
        ValueError: `tensor` does not have two dimensions.
    """
    if tensor.dim() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    rows, columns = tensor.shape
    zeros = math.ceil(sparsity * rows)
    normal_(tensor, 0.0, std, generator)
    with no_grad():
        for column in range(columns):
            tensor[_ops.randperm(rows, generator=generator, device=tensor.device)[:zeros], column] = 0
    return tensor


def orthogonal_(tensor: Tensor, gain: float = 1, generator: Generator | None = None) -> Tensor:
    """Fill `tensor` with a random orthogonal matrix times `gain` (`torch.nn.init.orthogonal_`).

    The rows, or the columns if there are fewer, are orthogonal and of norm `gain`. The distribution is uniform over
    all these matrices.

    Raises:
        ValueError: `tensor` has fewer than two dimensions.

    Source: A. Saxe and others, "Exact solutions to the nonlinear dynamics of learning in deep linear neural networks",
    2013; F. Mezzadri, "How to generate random matrices from the classical compact groups", 2007.
    """
    if tensor.dim() < 2:
        raise ValueError("Only tensors with 2 or more dimensions are supported")
    if tensor.numel() == 0 or tensor.is_meta:
        return tensor
    rows = tensor.shape[0]
    columns = tensor.numel() // rows
    with no_grad():
        drawn = tensor.new_empty((rows, columns)).normal_(0, 1, generator=generator)
        q, r = _ops.linalg_qr(drawn.t() if rows < columns else drawn)
        q = q * r.diagonal().sign()
        tensor.copy_((q.t() if rows < columns else q).reshape(tensor.shape)).mul_(gain)
    return tensor


def _old_name(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return a deprecated alias without the trailing underscore; it warns at each call."""
    name = function.__name__.removesuffix("_")

    @wraps(function)
    def old(*args: Any, **named: Any) -> Tensor:
        message = f"`nn.init.{name}` is now deprecated in favor of `nn.init.{function.__name__}`."
        warnings.warn(message, FutureWarning, stacklevel=levels_to_user())
        return function(*args, **named)

    old.__name__ = old.__qualname__ = name
    old.__doc__ = f"The old name of `{function.__name__}` (`torch.nn.init.{name}`)."
    return old


constant = _old_name(constant_)
dirac = _old_name(dirac_)
eye = _old_name(eye_)
kaiming_normal = _old_name(kaiming_normal_)
kaiming_uniform = _old_name(kaiming_uniform_)
normal = _old_name(normal_)
orthogonal = _old_name(orthogonal_)
sparse = _old_name(sparse_)
uniform = _old_name(uniform_)
xavier_normal = _old_name(xavier_normal_)
xavier_uniform = _old_name(xavier_uniform_)
