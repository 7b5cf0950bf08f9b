"""Observers: modules that see tensors, and compute the scale and zero point of their quantization."""

from __future__ import annotations

import functools
import math
import warnings
from typing import Any

from ...dispatch.generated import functions as _ops
from ...dispatch.tensor import Tensor
from ...dispatch.tensor_data import tensor
from ...nn.modules.module import Module
from ...runtime.qscheme import (
    per_channel_affine,
    per_channel_symmetric,
    per_tensor_affine,
    per_tensor_symmetric,
    qscheme,
)
from ...runtime.scalar_type import dtype as ScalarType
from ...runtime.scalar_type import float16, float32, float64, int32, int64, qint8, quint8

__all__ = [
    "MinMaxObserver",
    "ObserverBase",
    "PerChannelMinMaxObserver",
    "PlaceholderObserver",
    "default_dynamic_quant_observer",
    "default_per_channel_weight_observer",
    "default_placeholder_observer",
    "default_weight_observer",
]

_BOUNDS = {qint8: (-128, 127), quint8: (0, 255)}
_EPS = 2.0**-23
"""Smallest scale: the machine epsilon of float32."""


class _Factory(functools.partial[Any]):
    """Observer class with arguments, for `QConfig`."""

    def with_args(self, **kwargs: Any) -> _Factory:
        """Return a factory with further arguments."""
        return _Factory(self.func, *self.args, **{**self.keywords, **kwargs})


class ObserverBase(Module):
    """Base class of observers (`torch.ao.quantization.ObserverBase`).

    Args:
        dtype: Dtype to quantize to.
        is_dynamic: If True, the scale is computed in each call. Default: False.
    """

    def __init__(self, dtype: ScalarType, is_dynamic: bool = False) -> None:
        super().__init__()
        self.dtype = dtype
        self.is_dynamic = is_dynamic

    @classmethod
    def with_args(cls, **kwargs: Any) -> _Factory:
        """Return a factory of observers with these arguments."""
        return _Factory(cls, **kwargs)

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:
        """Return the scale and the zero point."""
        raise NotImplementedError(f"{type(self).__name__} defines no calculate_qparams")


class PlaceholderObserver(ObserverBase):
    """Observer that holds a dtype and sees nothing (`torch.ao.quantization.PlaceholderObserver`).

    Args:
        dtype: Dtype to quantize to. Default: `tt.float32`.
        quant_min, quant_max: Smallest and largest integer, or None. Default: None.
        is_dynamic: If True, the scale is computed in each call. Default: False.

    Example:
        >>> import triten as tt
        >>> tt.ao.quantization.PlaceholderObserver(tt.float16)
        PlaceholderObserver(dtype=triten.float16, is_dynamic=False)
    """

    def __init__(
        self,
        dtype: ScalarType = float32,
        quant_min: int | None = None,
        quant_max: int | None = None,
        is_dynamic: bool = False,
    ) -> None:
        super().__init__(dtype, is_dynamic)
        self.quant_min = quant_min
        self.quant_max = quant_max

    def forward(self, x: Tensor) -> Tensor:
        """Return the input."""
        return x

    def extra_repr(self) -> str:
        return f"dtype={self.dtype}, is_dynamic={self.is_dynamic}"


class MinMaxObserver(ObserverBase):
    """Observer of the minimum and maximum of all tensors that it sees (`torch.ao.quantization.MinMaxObserver`).

    An affine scale is (max - min) / (quant_max - quant_min), and the zero point is the integer of 0. A symmetric scale
    is 2 max(-min, max) / (quant_max - quant_min). Its zero point is 0 for qint8, and the middle integer for quint8.
    The range always includes 0.

    Args:
        dtype: `tt.qint8` or `tt.quint8`. Default: `tt.quint8`.
        qscheme: `tt.per_tensor_affine` or `tt.per_tensor_symmetric`. Default: `tt.per_tensor_affine`.
        reduce_range: If True, use 7 of the 8 bits. Default: False.
        quant_min, quant_max: Smallest and largest integer. Default: those of the dtype.
        eps: Smallest scale. Default: the machine epsilon of float32.

    Raises:
        NotImplementedError: The dtype or the scheme is another one, or the range of symmetric quint8 is to be reduced.
        AssertionError: The range of integers is empty or excludes 0.

    Example:
        >>> import triten as tt
        >>> observer = tt.ao.quantization.MinMaxObserver()
        >>> _ = observer(tt.tensor([-1.0, 1.55]))
        >>> observer.calculate_qparams()
        (tensor([0.0100]), tensor([100], dtype=triten.int32))
    """

    _schemes: tuple[qscheme, ...] = (per_tensor_affine, per_tensor_symmetric)
    min_val: Tensor
    max_val: Tensor

    def __init__(
        self,
        dtype: ScalarType = quint8,
        qscheme: qscheme = per_tensor_affine,
        reduce_range: bool = False,
        quant_min: int | None = None,
        quant_max: int | None = None,
        eps: float = _EPS,
    ) -> None:
        super().__init__(dtype)
        if dtype not in _BOUNDS or qscheme not in self._schemes:
            raise NotImplementedError(
                f"{type(self).__name__}: expected dtype {qint8} or {quint8} and a qscheme of {self._schemes}, got "
                f"{dtype} and {qscheme}"
            )
        symmetric = qscheme in (per_tensor_symmetric, per_channel_symmetric)
        if reduce_range and symmetric and dtype is quint8:
            raise NotImplementedError(f"Cannot reduce range for symmetric quantization for {quint8}")
        low, high = (bound // 2 for bound in _BOUNDS[dtype]) if reduce_range else _BOUNDS[dtype]
        self.qscheme = qscheme
        self.reduce_range = reduce_range
        self.quant_min = low if quant_min is None else quant_min
        self.quant_max = high if quant_max is None else quant_max
        self.eps = eps
        if not self.quant_min <= 0 <= self.quant_max or self.quant_min == self.quant_max:
            raise AssertionError(
                "quant_min and quant_max should differ, and their range should include 0, got "
                f"[{self.quant_min}, {self.quant_max}]"
            )
        self.register_buffer("min_val", tensor(math.inf))
        self.register_buffer("max_val", tensor(-math.inf))

    def _aminmax(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return _ops.aminmax(x)

    def forward(self, x: Tensor) -> Tensor:
        """Include a tensor's elements in the minimum and maximum, and return it."""
        if x.numel():
            least, most = self._aminmax(x.detach().to(float32))
            device = least.device
            self.min_val = _ops.minimum(least, self.min_val.to(device))
            self.max_val = _ops.maximum(most, self.max_val.to(device))
        return x

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:
        """Return the scales and zero points of the elements so far: 1 and 0 with a warning if there are none."""
        if bool((self.min_val > self.max_val).any()):
            warnings.warn(
                "must run observer before calling calculate_qparams. Returning default values.", stacklevel=2
            )
            return _ops.ones(1), _ops.zeros(1, dtype=int32)
        low, high = self.quant_min, self.quant_max
        least = _ops.clamp(self.min_val, max=0.0).reshape(-1)
        most = _ops.clamp(self.max_val, min=0.0).reshape(-1)
        if self.qscheme in (per_tensor_symmetric, per_channel_symmetric):
            scale = _ops.clamp(_ops.maximum(-least, most) / ((high - low) / 2), min=self.eps)
            zero = 0 if self.dtype is qint8 else 128 if (low, high) == _BOUNDS[quint8] else (low + high) // 2
            return scale, _ops.full_like(scale, zero, dtype=int64)
        scale = _ops.clamp((most - least) / float(high - low), min=self.eps)
        zeros = low - _ops.round(least / scale).to(int32)
        return scale, _ops.clamp(zeros, low, high)

    def extra_repr(self) -> str:
        shown = [value.item() if value.dim() == 0 else value for value in (self.min_val, self.max_val)]
        return f"min_val={shown[0]}, max_val={shown[1]}"


class PerChannelMinMaxObserver(MinMaxObserver):
    """`MinMaxObserver` of each index of one dimension (`torch.ao.quantization.PerChannelMinMaxObserver`).

    Args:
        ch_axis: The dimension. Default: 0.
        dtype, reduce_range, quant_min, quant_max, eps: As for `MinMaxObserver`.
        qscheme: `tt.per_channel_affine` or `tt.per_channel_symmetric`. Default: `tt.per_channel_affine`.

    Example:
        >>> import triten as tt
        >>> observer = tt.ao.quantization.PerChannelMinMaxObserver(
        ...     dtype=tt.qint8, qscheme=tt.per_channel_symmetric
        ... )
        >>> _ = observer(tt.tensor([[-1.0, 2.55], [0.0, 1.275]]))
        >>> observer.calculate_qparams()
        (tensor([0.0200, 0.0100]), tensor([0, 0]))
    """

    _schemes = (per_channel_affine, per_channel_symmetric)

    def __init__(
        self,
        ch_axis: int = 0,
        dtype: ScalarType = quint8,
        qscheme: qscheme = per_channel_affine,
        reduce_range: bool = False,
        quant_min: int | None = None,
        quant_max: int | None = None,
        eps: float = _EPS,
    ) -> None:
        super().__init__(dtype, qscheme, reduce_range, quant_min, quant_max, eps)
        self.ch_axis = ch_axis

    def _aminmax(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return _ops.aminmax(x.movedim(self.ch_axis, 0).flatten(1), dim=1)


def quantize_weight(weight: Tensor, observer: Any) -> Tensor:
    """Quantize a floating weight to qint8 with the scales of an observer that has seen it.

    Integers are clamped to the observer's ``quant_min`` and ``quant_max``.
    """
    scale, zero = observer.calculate_qparams()
    if observer.qscheme in (per_tensor_affine, per_tensor_symmetric):
        step, point = float(scale), int(zero)
        quantized = _ops.quantize_per_tensor(weight, step, point, qint8)
        if (observer.quant_min, observer.quant_max) == _BOUNDS[qint8]:
            return quantized
        ints = _ops.clamp(quantized.int_repr(), observer.quant_min, observer.quant_max)
        return _ops._make_per_tensor_quantized_tensor(ints, step, point)
    if observer.qscheme not in (per_channel_affine, per_channel_symmetric):
        raise ValueError(f"Unexpected qscheme {observer.qscheme}")
    steps, points, axis = scale.to(float64), zero.to(int64), observer.ch_axis
    quantized = _ops.quantize_per_channel(weight, steps, points, axis, qint8)
    if (observer.quant_min, observer.quant_max) == _BOUNDS[qint8]:
        return quantized
    ints = _ops.clamp(quantized.int_repr(), observer.quant_min, observer.quant_max)
    return _ops._make_per_channel_quantized_tensor(ints, steps, points, axis)


default_placeholder_observer = PlaceholderObserver
"""Observer that holds a dtype."""

default_dynamic_quant_observer = PlaceholderObserver.with_args(
    dtype=quint8, quant_min=0, quant_max=255, is_dynamic=True
)
"""Factory for activations that are quantized in each call."""

default_weight_observer = MinMaxObserver.with_args(dtype=qint8, qscheme=per_tensor_symmetric)
"""Factory for weights of qint8 with one scale."""

default_per_channel_weight_observer = PerChannelMinMaxObserver.with_args(
    dtype=qint8, qscheme=per_channel_symmetric
)
"""Factory for weights of qint8 with a scale for each row."""

float16_dynamic_observer = PlaceholderObserver.with_args(dtype=float16, is_dynamic=True)
float16_observer = PlaceholderObserver.with_args(dtype=float16)
