"""Fake quantization: per channel, with learned parameters, and by the observed range.

Source: PyTorch, FakeQuantPerChannelAffine.cpp, FakeQuantPerTensorAffine.cpp, FusedObsFakeQuant.cpp and QuantUtils.h.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...runtime.scalar_type import bfloat16, float16, float32, float64, int32, int64
from ..core.dispatcher import Dispatcher
from ..generated import functions as ops
from .quantization import fake_quantize_per_tensor_affine_cachemask_backward

if TYPE_CHECKING:
    from ..tensor import Tensor

CHANNELS = "fake_quantize_per_channel_affine"
SMALL_SCALE = 6.1e-5
"""Lower bound of scales: 1 / 16384, the smallest normal float16, to two digits."""


def _call(name: str, *args: object) -> tuple[Tensor, ...]:
    return Dispatcher.singleton().find_schema_or_throw(f"aten::{name}").call(*args)  # type: ignore[no-any-return]


def fake_quantize_per_channel_affine(
    self: Tensor, scale: Tensor, zero_point: Tensor, axis: int, quant_min: int, quant_max: int
) -> Tensor:
    """Compute `torch.fake_quantize_per_channel_affine`."""
    return _call(f"{CHANNELS}_cachemask", self, scale, zero_point, axis, quant_min, quant_max)[0]


def fake_quantize_per_channel_affine_cachemask(
    self: Tensor, scale: Tensor, zero_point: Tensor, axis: int, quant_min: int, quant_max: int
) -> tuple[Tensor, Tensor]:
    """Return the values, and a mask of the elements that were not clamped."""
    axis = check_channels(self, scale, zero_point, axis, quant_min, quant_max)
    # Do not synchronize with another device to check its values.
    if zero_point.dtype is int32 and zero_point.device.type == "cpu" and zero_point.numel():
        check_zero_points(zero_point, quant_min, quant_max)
    return by_channels(self, scale, zero_point, axis, quant_min, quant_max)


def by_channels(
    self: Tensor, scale: Tensor, zero_point: Tensor, axis: int, quant_min: int, quant_max: int
) -> tuple[Tensor, Tensor]:
    """Return the values and the mask for validated arguments."""
    shape = [-1 if dim == axis else 1 for dim in range(self.dim())]
    step = scale.to(float32).reshape(shape)
    zero = zero_point.reshape(shape)
    wide = self if self.dtype is float64 else self.to(float32)
    scaled = wide * step.reciprocal().to(wide.dtype)
    if zero_point.dtype is int32:
        steps = ops.round(scaled) + zero.to(wide.dtype)
    else:
        steps = ops.round(scaled + zero.to(wide.dtype))
    mask = (steps >= quant_min) & (steps <= quant_max)
    # NaN maps to the smallest integer; a sum with a wide integer keeps it.
    held = ops.where(steps.isnan(), float(quant_min), steps).to(float64).clamp(quant_min, quant_max)
    values = (held - zero.to(float64)) * step.to(float64)
    return values.to(self.dtype), mask


def check_channels(
    self: Tensor, scale: Tensor, zero_point: Tensor, axis: int, quant_min: int, quant_max: int
) -> int:
    """Raise RuntimeError for arguments that per-channel quantization rejects; return the wrapped axis."""
    if self.dtype not in (float32, float64, float16, bfloat16):
        raise NotImplementedError(
            f"\"fake_quantize_channel_cachemask_cpu_type_handling\" not implemented for '{self.dtype.scalar_name}'"
        )
    if scale.dtype not in (float32, bfloat16):
        raise RuntimeError(f"{CHANNELS}: Scale must be Float or BFloat16, found {scale.dtype.scalar_name}")
    if zero_point.dtype not in (int32, float32, float16):
        raise RuntimeError(
            f"{CHANNELS}: Zero-point must be Int32, Float or Half, found {zero_point.dtype.scalar_name}"
        )
    for name, numbers in (("scale", scale), ("zero point", zero_point)):
        if numbers.dim() != 1:
            raise RuntimeError(f"{CHANNELS}: {name} should be a 1-D tensor, got {numbers.dim()} dimensions")
    if scale.numel() != zero_point.numel():
        raise RuntimeError(
            f"{CHANNELS}: scale and zero-point need to have the same dimensions, got {scale.numel()} and "
            f"{zero_point.numel()}"
        )
    if not -self.dim() <= axis < self.dim():
        raise IndexError(
            f"{CHANNELS}: Dimension out of range (expected to be in range of [{-self.dim()}, {self.dim() - 1}], but "
            f"got {axis})"
        )
    axis %= self.dim()
    if self.shape[axis] != scale.numel():
        raise RuntimeError(
            f"{CHANNELS}: dimensions of scale and zero-point are not consistent with input tensor: expected "
            f"{self.shape[axis]} for axis {axis}, got {scale.numel()}"
        )
    check_range(CHANNELS, quant_min, quant_max)
    return axis


def check_zero_points(zero_point: Tensor, quant_min: int, quant_max: int) -> None:
    """Refuse integers outside the range."""
    if int(zero_point.min()) < quant_min or int(zero_point.max()) > quant_max:
        raise RuntimeError(
            f"{CHANNELS}: `zero_point` must be between `quant_min` and `quant_max`, but got {zero_point.tolist()}, "
            f"quant_min={quant_min} and quant_max={quant_max}"
        )


def check_range(name: str, quant_min: int, quant_max: int) -> None:
    """Refuse a range without integers."""
    if quant_min > quant_max:
        raise RuntimeError(
            f"{name}: `quant_min` should be less than or equal to `quant_max`, but got quant_min={quant_min} and "
            f"quant_max={quant_max}"
        )


def fake_quantize_per_channel_affine_cachemask_backward(grad: Tensor, mask: Tensor) -> Tensor:
    """Return the gradient where the mask is True, else 0."""
    return fake_quantize_per_tensor_affine_cachemask_backward(grad, mask)


def _fake_quantize_learnable_per_tensor_affine(
    self: Tensor, scale: Tensor, zero_point: Tensor, quant_min: int, quant_max: int, grad_factor: float = 1.0
) -> Tensor:
    """Fake-quantize with a scale and a rounded zero point."""
    name = "_fake_quantize_learnable_per_tensor_affine"
    check_range(name, quant_min, quant_max)
    enabled = ops.ones(1, dtype=int64, device=self.device)
    return ops._fake_quantize_per_tensor_affine_cachemask_tensor_qparams(
        self,
        one(name, "scale", scale),
        rounded(one(name, "zero_point", zero_point)),
        enabled,
        quant_min,
        quant_max,
    )[0]


def _fake_quantize_learnable_per_tensor_affine_backward(
    grad: Tensor,
    self: Tensor,
    scale: Tensor,
    zero_point: Tensor,
    quant_min: int,
    quant_max: int,
    grad_factor: float = 1.0,
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute gradients of the input, of the scale and of the zero point, the latter two of shape (1,)."""
    if not self.numel():
        return self.clone(), scale.clone(), zero_point.clone()
    zero = rounded(zero_point).to(float32).reshape(())
    parts = learnt(grad, self, scale.to(float32).reshape(()), zero, quant_min, quant_max, grad_factor)
    return parts[0], parts[1].sum().reshape(scale.shape), parts[2].sum().reshape(zero_point.shape)


def _fake_quantize_learnable_per_channel_affine(
    self: Tensor,
    scale: Tensor,
    zero_point: Tensor,
    axis: int,
    quant_min: int,
    quant_max: int,
    grad_factor: float = 1.0,
) -> Tensor:
    """Fake-quantize by scales and zero points that are rounded and clamped to the range."""
    check_range("_fake_quantize_learnable_per_channel_affine", quant_min, quant_max)
    zero = ops.round(zero_point.to(float32)).clamp(quant_min, quant_max).to(int32)
    axis = check_channels(self, scale, zero, axis, quant_min, quant_max)
    return by_channels(self, scale, zero, axis, quant_min, quant_max)[0]


def _fake_quantize_learnable_per_channel_affine_backward(
    grad: Tensor,
    self: Tensor,
    scale: Tensor,
    zero_point: Tensor,
    axis: int,
    quant_min: int,
    quant_max: int,
    grad_factor: float = 1.0,
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute gradients of the input, and of scales and zero points."""
    if not self.numel():
        return self.clone(), scale.clone(), zero_point.clone()
    if grad.shape != self.shape or not self.dim():
        raise RuntimeError(
            f"_fake_quantize_learnable_per_channel_affine_backward: expected grad and self of one shape with "
            f"dimensions, got {tuple(grad.shape)} and {tuple(self.shape)}"
        )
    axis %= self.dim()
    shape = [-1 if dim == axis else 1 for dim in range(self.dim())]
    zero = ops.round(zero_point.to(float32)).clamp(quant_min, quant_max).reshape(shape)
    parts = learnt(grad, self, scale.to(float32).reshape(shape), zero, quant_min, quant_max, grad_factor)
    reduced_dims = [dim for dim in range(self.dim()) if dim != axis]
    sums = [part.sum(reduced_dims) if reduced_dims else part for part in parts[1:]]
    return parts[0], sums[0].to(scale.dtype), sums[1].to(zero_point.dtype)


def learnt(
    grad: Tensor, self: Tensor, scale: Tensor, zero: Tensor, low: int, high: int, factor: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Return each element's contributions to the gradients of itself, of its scale and of its zero point."""
    inverse = scale.reciprocal()
    steps = ops.round(self * inverse) + zero
    below, inside = steps < low, (steps >= low) & (steps <= high)
    held = steps.clamp(low, high)
    off = grad * ops.where(below, low - zero, high - zero) * factor
    on = grad * ((held - zero) * scale - self) * inverse * factor
    of_zero = ops.where(inside, 0.0, grad * -1.0 * scale * factor)
    return grad * inside, ops.where(inside, on, off), of_zero


def fused_moving_avg_obs_fake_quant(
    self: Tensor,
    observer_on: Tensor,
    fake_quant_on: Tensor,
    running_min: Tensor,
    running_max: Tensor,
    scale: Tensor,
    zero_point: Tensor,
    averaging_const: float,
    quant_min: int,
    quant_max: int,
    ch_axis: int,
    per_row_fake_quant: bool = False,
    symmetric_quant: bool = False,
) -> Tensor:
    """Compute `torch.fused_moving_avg_obs_fake_quant`."""
    observer_args = (
        running_min,
        running_max,
        scale,
        zero_point,
        averaging_const,
        quant_min,
        quant_max,
        ch_axis,
    )
    name = "_fused_moving_avg_obs_fq_helper"
    options = (per_row_fake_quant, symmetric_quant)
    return _call(name, self, observer_on, fake_quant_on, *observer_args, *options)[0]


def _fused_moving_avg_obs_fq_helper(
    self: Tensor,
    observer_on: Tensor,
    fake_quant_on: Tensor,
    running_min: Tensor,
    running_max: Tensor,
    scale: Tensor,
    zero_point: Tensor,
    averaging_const: float,
    quant_min: int,
    quant_max: int,
    ch_axis: int,
    per_row_fake_quant: bool = False,
    symmetric_quant: bool = False,
) -> tuple[Tensor, Tensor]:
    """Return the values and the mask of elements that were not clamped; update the state in place."""
    name = "fused_moving_avg_obs_fake_quant"
    check_range(name, quant_min, quant_max)
    if not self.numel():
        raise RuntimeError(f"{name}: expected an input that is not empty, got sizes {list(self.shape)}")
    state = {"running_min": running_min, "running_max": running_max, "scale": scale, "zero_point": zero_point}
    count, rows = 1, self.reshape((1, -1))
    if per_row_fake_quant:
        if not -self.dim() <= ch_axis < self.dim():
            raise IndexError(f"{name}: expected ch_axis in [{-self.dim()}, {self.dim() - 1}], got {ch_axis}")
        ch_axis %= self.dim()
        count = self.shape[ch_axis]
        rows = self.movedim(ch_axis, 0).reshape((count, -1))
        if not running_min.numel():
            for each in state.values():
                each.resize_((count,))
            running_min.fill_(float("inf"))
            running_max.fill_(float("-inf"))
    for argument, each in state.items():
        if each.numel() != count:
            raise RuntimeError(f"{name}: expected `{argument}` to have {count} elements, got {each.numel()}")
    observes, quantizes = (
        one(name, "observer_on", observer_on) != 0,
        one(name, "fake_quant_on", fake_quant_on) != 0,
    )
    for running, now in ((running_min, rows.amin(1)), (running_max, rows.amax(1))):
        now = now.to(float32)
        moved = ops.where(running.isinf(), now, running + averaging_const * (now - running))
        running.copy_(ops.where(observes, moved, running))
    new_scale, zero = chosen(running_min, running_max, quant_min, quant_max, symmetric_quant)
    scale.copy_(ops.where(quantizes, new_scale, scale))
    zero_point.copy_(ops.where(quantizes, zero, zero_point))
    if per_row_fake_quant:
        values, mask = by_channels(self, scale, zero_point.to(int32), ch_axis, quant_min, quant_max)
        return ops.where(quantizes, values, self), mask | ~quantizes
    made: tuple[Tensor, Tensor] = ops._fake_quantize_per_tensor_affine_cachemask_tensor_qparams(
        self, scale, zero_point, quantizes.to(int64).reshape(1), quant_min, quant_max
    )
    return made


def chosen(
    low: Tensor, high: Tensor, quant_min: int, quant_max: int, symmetric: bool
) -> tuple[Tensor, Tensor]:
    """Return the float32 scale and int32 zero point that map a range of values to integers; 0 maps exactly."""
    steps = quant_max - quant_min
    if symmetric:
        far = -(steps // 2 + 1), steps // 2
        widest = ops.maximum((low / far[0]).abs(), (high / far[1]).abs()).to(float64)
        both = (low < 0) & (high > 0)
        low = ops.where(both, (widest * far[0]).to(float32), low)
        high = ops.where(both, (widest * far[1]).to(float32), high)
    low, high = low.clamp(max=0.0), high.clamp(min=0.0)
    scale = (high.to(float64) - low) / steps
    narrow = scale.to(float32)
    scale = ops.where((narrow == 0) | narrow.reciprocal().isinf(), 0.1, scale)
    small = float(ops.scalar_tensor(SMALL_SCALE, dtype=float32))
    cut = scale < small
    larger = ops.scalar_tensor(small, dtype=float32, device=low.device) / scale.to(float32)
    ends = ops.scalar_tensor(small * steps, dtype=float32, device=low.device)
    lows = ops.where(low == 0, low, ops.where(high == 0, -ends, low * larger))
    highs = ops.where(low == 0, ends, ops.where(high == 0, high, high * larger))
    low, high = ops.where(cut, lows, low), ops.where(cut, highs, high)
    scale = ops.where(cut, small, scale)
    below, above = low / scale, high / scale
    nearer = abs(quant_min) - below.abs() < abs(quant_max) - above.abs()
    zero = ops.where(nearer, quant_min - below, quant_max - above)
    if symmetric:
        zero = ops.where((low < 0) & (high > 0), (quant_min + quant_max) / 2, zero)
    zero = ops.nan_to_num(ops.round(zero), float(quant_min)).clamp(quant_min, quant_max)
    return scale.to(float32), zero.to(int32)


def rounded(zero_point: Tensor) -> Tensor:
    """Round a zero point to an integer, halves to even."""
    return (
        ops.round(zero_point.to(float32)).to(int64)
        if zero_point.is_floating_point()
        else zero_point.to(int64)
    )


def one(name: str, argument: str, number: Tensor) -> Tensor:
    """Return a tensor of one element unchanged."""
    if number.numel() != 1:
        raise RuntimeError(
            f"{name}: expected `{argument}` to have one element, got sizes {list(number.shape)}"
        )
    return number


def _fused_moving_avg_obs_fq_helper_functional(
    self: Tensor,
    observer_on: Tensor,
    fake_quant_on: Tensor,
    running_min: Tensor,
    running_max: Tensor,
    scale: Tensor,
    zero_point: Tensor,
    averaging_const: float,
    quant_min: int,
    quant_max: int,
    ch_axis: int,
    per_row_fake_quant: bool = False,
    symmetric_quant: bool = False,
) -> tuple[Tensor, ...]:
    """Return the same results, followed by the new state."""
    state = [each.clone() for each in (running_min, running_max, scale, zero_point)]
    how = (averaging_const, quant_min, quant_max, ch_axis, per_row_fake_quant, symmetric_quant)
    output, mask = _call("_fused_moving_avg_obs_fq_helper", self, observer_on, fake_quant_on, *state, *how)
    return (output, mask, *state)
