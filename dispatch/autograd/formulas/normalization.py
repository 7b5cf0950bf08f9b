"""Derivative formulas of normalizations: tangents, and derivatives of their backward operators.

Each operator normalizes a view of the input over some dimensions. Let m be the mean and r the reciprocal standard
deviation there; then x^ = (x - m) r, and out = x^ w + b. The derivative of x^ is r P, with the symmetric

    P(u) = u - M(u) - x^ M(u x^),

where M is the mean over those dimensions. Without mean subtraction, P has no term M(u).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, overload

from ....runtime.scalar_type import bfloat16, float16, float32, float64, int32, int64
from ...generated import functions as ops
from ..tangents import is_differentiated

if TYPE_CHECKING:
    from ...tensor import Tensor

View = Callable[[Any], Any]
_BITS = {float32: int32, float64: int64}


class _Normalisation:
    """Normalized tensor in the compute dtype, with its derivative; `fixed` statistics are constants."""

    def __init__(
        self,
        x: Tensor,
        mean: Any,
        rstd: Any,
        dims: Sequence[int],
        centred: bool = True,
        fixed: bool = False,
    ) -> None:
        self.dims, self.centred, self.fixed = list(dims), centred, fixed
        self.rstd: Tensor = rstd
        self.hat: Tensor = (x - mean) * rstd if centred else x * rstd

    def mean(self, u: Tensor) -> Tensor:
        return ops.mean(u, self.dims, True)

    def projected(self, u: Tensor) -> Tensor:
        if self.fixed:
            return u
        out = u - self.hat * self.mean(u * self.hat)
        return out - self.mean(u) if self.centred else out

    def tangent(self, x_t: Tensor) -> Tensor:
        """Return the tangent of the normalized tensor."""
        return self.projected(x_t) * self.rstd

    def second(self, u: Tensor, weighted: Tensor, direct: Tensor | None) -> Tensor | None:
        """Return the input's gradient of <u, r P(weighted)> + <direct, x^>; `direct` may be None."""
        if self.fixed:
            return None if direct is None else direct * self.rstd
        along, across = self.mean(u * self.hat), self.mean(weighted * self.hat)
        through_hat = -(weighted * along + u * across) * self.rstd
        if direct is not None:
            through_hat = through_hat + direct
        spread = self.mean(u * weighted) - across * along
        if self.centred:
            spread = spread - self.mean(u) * self.mean(weighted)
        return (self.projected(through_hat) - self.hat * spread * self.rstd) * self.rstd


@overload
def _wide(x: Tensor) -> Tensor: ...
@overload
def _wide(x: Tensor | None) -> Tensor | None: ...
def _wide(x: Tensor | None) -> Tensor | None:
    return x.to(float32) if x is not None and x.dtype in (float16, bfloat16) else x


def _double_backward(
    n: _Normalisation,
    grad: Tensor,
    weight: Tensor | None,
    cotangents: Sequence[Any],
    over: Sequence[int],
    restored: View,
    shape: Sequence[int],
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """Return the gradients of (grad_out, input, weight) of a backward operator.

    All arguments are views in `n`'s shape. A weight's gradient is summed over the dimensions `over`. `restored`
    reshapes a result to the input's shape, and `shape` is the weight's own.
    """
    u, v, t = cotangents
    weighted = grad if weight is None else grad * weight
    of_grad = of_input = of_weight = None
    if u is not None:
        moved = n.projected(u) * n.rstd
        of_grad = moved if weight is None else moved * weight
        if weight is not None:
            product = moved * grad
            of_weight = (ops.sum(product, list(over)) if over else product).reshape(shape)
    if v is not None:
        direct = n.hat * v
        of_grad = direct if of_grad is None else of_grad + direct
    if t is not None:
        shifted = t + ops.zeros_like(grad)
        of_grad = shifted if of_grad is None else of_grad + shifted
    if u is not None:
        of_input = n.second(u, weighted, None if v is None else grad * v)
    elif v is not None:
        of_input = n.tangent(grad * v)
    return (
        None if of_grad is None else restored(of_grad),
        None if of_input is None else restored(of_input),
        of_weight,
    )


def _trailing(x: Tensor, shape: Sequence[int]) -> list[int]:
    return list(range(x.ndim - len(shape), x.ndim))


def _constant(x: Tensor) -> Tensor:
    """Return the values alone, without history or tangents of any level; integers have none."""
    return x.view(_BITS[x.dtype]).view(x.dtype)


def _statistics(x: Tensor, mean: Any, rstd: Any, dims: Sequence[int]) -> tuple[Any, Tensor]:
    """Return the mean and the reciprocal deviation. Recompute them from `x` if derivatives flow: saved ones are
    constants.

    A mean of None stays None: nothing is subtracted then.
    """
    if not is_differentiated(x):
        return mean, rstd
    if mean is not None:
        mean = ops.mean(x, list(dims), True)
    centred = x if mean is None else x - mean
    variance = ops.mean(centred * centred, list(dims), True)
    eps = _constant(ops.pow(rstd, -2) - variance)
    return mean, ops.rsqrt(variance + eps)


def _layer_normalisation(input: Tensor, shape: Sequence[int], mean: Tensor, rstd: Tensor) -> _Normalisation:
    x, dims = _wide(input), _trailing(input, shape)
    return _Normalisation(x, *_statistics(x, _wide(mean), _wide(rstd), dims), dims)


def _rms_normalisation(input: Tensor, shape: Sequence[int], rstd: Tensor) -> _Normalisation:
    x, dims = _wide(input), _trailing(input, shape)
    return _Normalisation(x, *_statistics(x, None, _wide(rstd), dims), dims, centred=False)


def layer_norm_double_backward(
    grads: Sequence[Any],
    grad_out: Tensor,
    input: Tensor,
    shape: Sequence[int],
    mean: Tensor,
    rstd: Tensor,
    weight: Tensor | None,
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """Differentiate `native_layer_norm_backward` by the output's gradient, the input and the weight."""
    n = _layer_normalisation(input, shape, mean, rstd)
    over = range(input.ndim - len(shape))
    wide_grads = [_wide(g) for g in grads]
    return _double_backward(n, _wide(grad_out), _wide(weight), wide_grads, over, lambda x: x, shape)


def rms_norm_double_backward(
    grads: Sequence[Any],
    grad_out: Tensor,
    input: Tensor,
    shape: Sequence[int],
    rstd: Tensor,
    weight: Tensor | None,
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """Differentiate `_fused_rms_norm_backward` by the output's gradient, the input and the weight."""
    n = _rms_normalisation(input, shape, rstd)
    over = range(input.ndim - len(shape))
    wide_grads = [*[_wide(g) for g in grads], None]
    return _double_backward(n, _wide(grad_out), _wide(weight), wide_grads, over, lambda x: x, shape)


def _groups(group: int, channels: int, spatial: int) -> View:
    return lambda x: None if x is None else _wide(x).reshape((-1, group, channels // group, spatial))


@overload
def _of_channels(x: Tensor, group: int) -> Tensor: ...
@overload
def _of_channels(x: Tensor | None, group: int) -> Tensor | None: ...
def _of_channels(x: Tensor | None, group: int) -> Tensor | None:
    return None if x is None else _wide(x).reshape((1, group, -1, 1))


def _group_normalisation(
    x: Tensor, mean: Tensor, rstd: Tensor, c: int, spatial: int, group: int
) -> tuple[_Normalisation, View]:
    grouped = _groups(group, c, spatial)
    mean, rstd = (_wide(s).reshape((-1, group, 1, 1)) for s in (mean, rstd))
    mean, rstd = _statistics(grouped(x), mean, rstd, [2, 3])
    return _Normalisation(grouped(x), mean, rstd, [2, 3]), grouped


def group_norm_backward(
    grads: Sequence[Any],
    input: Tensor,
    mean: Tensor,
    rstd: Tensor,
    weight: Tensor | None,
    N: int,
    C: int,
    HxW: int,
    group: int,
    output_mask: Sequence[bool],
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """Return the gradients of group_norm from those of its output, its means and its reciprocal deviations."""
    grad, of_mean, of_rstd = grads
    if grad is None:
        grad = ops.zeros_like(input)
    of_input, of_weight, of_bias = ops.native_group_norm_backward(
        grad, input, mean, rstd, weight, N, C, HxW, group, output_mask
    )
    if output_mask[0] and not (of_mean is None and of_rstd is None):
        n, _ = _group_normalisation(input, mean, rstd, C, HxW, group)
        through = ops.zeros_like(n.hat)
        if of_mean is not None:
            through = through + _wide(of_mean).reshape((-1, group, 1, 1))
        if of_rstd is not None:
            through = through - _wide(of_rstd).reshape((-1, group, 1, 1)) * n.rstd * n.rstd * n.hat
        of_input = of_input + (through / (C // group * HxW)).reshape(input.shape).to(input.dtype)
    return of_input, of_weight, of_bias


def group_norm_double_backward(
    grads: Sequence[Any],
    grad_out: Tensor,
    input: Tensor,
    mean: Tensor,
    rstd: Tensor,
    weight: Tensor | None,
    C: int,
    HxW: int,
    group: int,
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """Differentiate `native_group_norm_backward` by the output's gradient, the input and the weight."""
    n, grouped = _group_normalisation(input, mean, rstd, C, HxW, group)
    wide_grads = [grouped(grads[0]), _of_channels(grads[1], group), _of_channels(grads[2], group)]
    shape = input.shape
    return _double_backward(
        n,
        grouped(grad_out),
        _of_channels(weight, group),
        wide_grads,
        (0, 3),
        lambda x: x.reshape(shape),
        (C,),
    )


@overload
def _by_channel(x: Tensor, rank: int) -> Tensor: ...
@overload
def _by_channel(x: Tensor | None, rank: int) -> Tensor | None: ...
def _by_channel(x: Tensor | None, rank: int) -> Tensor | None:
    return None if x is None else _wide(x).reshape((1, -1, *(1,) * (rank - 2)))


def _batch_normalisation(
    x: Tensor,
    running_mean: Any,
    running_var: Any,
    mean: Any,
    rstd: Any,
    training: bool,
    eps: float,
) -> _Normalisation:
    if not training:
        mean, rstd = running_mean, ops.rsqrt(_wide(running_var) + eps)
    dims = [0, *range(2, x.ndim)]
    mean, rstd = _by_channel(mean, x.ndim), _by_channel(rstd, x.ndim)
    if training:
        mean, rstd = _statistics(_wide(x), mean, rstd, dims)
    return _Normalisation(_wide(x), mean, rstd, dims, fixed=not training)


def batch_norm_double_backward(
    grads: Sequence[Any],
    grad_out: Tensor,
    input: Tensor,
    weight: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    save_mean: Tensor | None,
    save_invstd: Tensor | None,
    train: bool,
    eps: float,
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """Differentiate `native_batch_norm_backward` by the output's gradient, the input and the weight."""
    n = _batch_normalisation(input, running_mean, running_var, save_mean, save_invstd, train, eps)
    rank = input.ndim
    wide_grads = [_wide(grads[0]), _by_channel(grads[1], rank), _by_channel(grads[2], rank)]
    return _double_backward(
        n, _wide(grad_out), _by_channel(weight, rank), wide_grads, n.dims, lambda x: x, (input.shape[1],)
    )


def layer_norm_jvp(
    input: Tensor,
    x_t: Tensor,
    shape: Sequence[int],
    mean: Tensor,
    rstd: Tensor,
    weight: Tensor | None,
) -> Tensor:
    """Return the layer_norm tangent from the input."""
    n = _layer_normalisation(input, shape, mean, rstd)
    return _scaled(n.tangent(_wide(x_t)), weight).to(input.dtype)


def layer_norm_weight_jvp(
    input: Tensor, weight_t: Tensor, shape: Sequence[int], mean: Tensor, rstd: Tensor
) -> Tensor:
    """Return the layer_norm tangent from the weight."""
    n = _layer_normalisation(input, shape, mean, rstd)
    return (n.hat * weight_t).to(input.dtype)


def rms_norm_jvp(
    input: Tensor,
    x_t: Tensor,
    shape: Sequence[int],
    rstd: Tensor,
    weight: Tensor | None,
) -> Tensor:
    """Return the rms_norm tangent from the input."""
    n = _rms_normalisation(input, shape, rstd)
    return _scaled(n.tangent(_wide(x_t)), weight).to(input.dtype)


def rms_norm_weight_jvp(input: Tensor, weight_t: Tensor, rstd: Tensor) -> Tensor:
    """Return the rms_norm tangent from the weight."""
    shape = weight_t._spec.sizes
    return (_rms_normalisation(input, shape, rstd).hat * weight_t).to(input.dtype)


def norm_bias_jvp(bias_t: Tensor, result: Tensor) -> Tensor:
    """Return the tangent from the bias over trailing dimensions."""
    return (bias_t + ops.zeros_like(result)).to(result.dtype)


def channel_bias_jvp(bias_t: Tensor, result: Tensor) -> Tensor:
    """Return the tangent from the per-channel bias."""
    return (bias_t.reshape((1, -1, *(1,) * (result.ndim - 2))) + ops.zeros_like(result)).to(result.dtype)


def _scaled(x: Tensor, weight: Tensor | None) -> Tensor:
    return x if weight is None else x * weight


def group_norm_jvp(
    input: Tensor,
    x_t: Tensor,
    mean: Tensor,
    rstd: Tensor,
    weight: Tensor | None,
    C: int,
    HxW: int,
    group: int,
) -> Tensor:
    """Return the group_norm tangent from the input."""
    n, grouped = _group_normalisation(input, mean, rstd, C, HxW, group)
    out = _scaled(n.tangent(grouped(x_t)), _of_channels(weight, group))
    return out.reshape(input.shape).to(input.dtype)


def group_norm_mean_jvp(
    input: Tensor, x_t: Tensor, mean: Tensor, rstd: Tensor, C: int, HxW: int, group: int
) -> Tensor:
    """Return the tangent of group_norm's means."""
    n, grouped = _group_normalisation(input, mean, rstd, C, HxW, group)
    return n.mean(grouped(x_t)).reshape(mean.shape).to(mean.dtype)


def group_norm_rstd_jvp(
    input: Tensor, x_t: Tensor, mean: Tensor, rstd: Tensor, C: int, HxW: int, group: int
) -> Tensor:
    """Return the tangent of group_norm's reciprocal deviations."""
    n, grouped = _group_normalisation(input, mean, rstd, C, HxW, group)
    return (-n.rstd * n.rstd * n.mean(n.hat * grouped(x_t))).reshape(rstd.shape).to(rstd.dtype)


def group_norm_weight_jvp(
    input: Tensor, weight_t: Tensor, mean: Tensor, rstd: Tensor, C: int, HxW: int, group: int
) -> Tensor:
    """Return the group_norm tangent from the weight."""
    n, _ = _group_normalisation(input, mean, rstd, C, HxW, group)
    return (n.hat * _of_channels(weight_t, group)).reshape(input.shape).to(input.dtype)


def batch_norm_jvp(
    input: Tensor,
    x_t: Tensor,
    weight: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    save_mean: Tensor | None,
    save_invstd: Tensor | None,
    training: bool,
    eps: float,
) -> Tensor:
    """Return the batch_norm tangent from the input."""
    n = _batch_normalisation(input, running_mean, running_var, save_mean, save_invstd, training, eps)
    return _scaled(n.tangent(_wide(x_t)), _by_channel(weight, input.ndim)).to(input.dtype)


def statistics_jvp(statistics_t: Tensor, training: bool, result: Tensor) -> Tensor:
    """Return the batch_norm tangent from running statistics: zero in training, which does not read them.

    Raises RuntimeError in evaluation.
    """
    if not training:
        raise RuntimeError(
            "batch_norm is not differentiable wrt running_mean and running_var, they cannot have forward grad defined"
        )
    return ops.zeros_like(result)


def batch_norm_weight_jvp(
    input: Tensor,
    weight_t: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    save_mean: Tensor | None,
    save_invstd: Tensor | None,
    training: bool,
    eps: float,
) -> Tensor:
    """Return the batch_norm tangent from the weight."""
    n = _batch_normalisation(input, running_mean, running_var, save_mean, save_invstd, training, eps)
    return (n.hat * _by_channel(weight_t, input.ndim)).to(input.dtype)
