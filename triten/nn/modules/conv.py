"""Convolution layers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from ...dispatch.generated import functions as _ops
from .. import functional as F
from .. import init
from .module import Module
from .parameter import Parameter

if TYPE_CHECKING:
    from ...dispatch.tensor import Tensor
    from ...runtime.device import DeviceLike
    from ...runtime.scalar_type import dtype as ScalarType

__all__ = ["Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"]

PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


def _each(value: int | Sequence[int], rank: int) -> tuple[int, ...]:
    """Return one value for each spatial dimension."""
    return (value,) * rank if not isinstance(value, Iterable) else tuple(value)


class _ConvNd(Module):
    """Base class of convolutions: sizes, weight and bias, initialization, and `repr`."""

    rank: int
    transposed = False
    padding: str | tuple[int, ...]
    weight: Parameter
    bias: Parameter | None
    function: Callable[..., Tensor]

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int],
        padding: str | int | Sequence[int],
        dilation: int | Sequence[int],
        groups: int,
        bias: bool,
        padding_mode: str,
        device: DeviceLike,
        dtype: ScalarType | None,
        output_padding: int | Sequence[int] = 0,
    ) -> None:
        super().__init__()
        if groups <= 0:
            raise ValueError("groups must be a positive integer")
        for name, channels in (("in_channels", in_channels), ("out_channels", out_channels)):
            if channels % groups:
                raise ValueError(f"{name} must be divisible by groups")
        if isinstance(padding, str):
            if padding not in ("same", "valid"):
                raise ValueError(f"Invalid padding string {padding!r}, should be one of {{'same', 'valid'}}")
            if padding == "same" and any(step != 1 for step in _each(stride, self.rank)):
                raise ValueError("padding='same' is not supported for strided convolutions")
        if padding_mode not in PADDING_MODES:
            raise ValueError(
                f"padding_mode must be one of {PADDING_MODES}, but got padding_mode='{padding_mode}'"
            )
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = _each(kernel_size, self.rank)
        self.stride = _each(stride, self.rank)
        self.padding = padding if isinstance(padding, str) else _each(padding, self.rank)
        self.dilation = _each(dilation, self.rank)
        self.output_padding = _each(output_padding, self.rank)
        self.groups = groups
        self.padding_mode = padding_mode
        first, second = (in_channels, out_channels) if self.transposed else (out_channels, in_channels)
        sizes = (first, second // groups, *self.kernel_size)
        self.weight = Parameter(_ops.empty(sizes, device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(_ops.empty(out_channels, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Reinitialize the parameters uniformly in ±1 / sqrt(fan_in)."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            inputs = self.weight.shape[1] * math.prod(self.kernel_size)
            if inputs:
                init.uniform_(self.bias, -1 / math.sqrt(inputs), 1 / math.sqrt(inputs))

    def extra_repr(self) -> str:
        parts = [
            f"{self.in_channels}, {self.out_channels}",
            f"kernel_size={self.kernel_size}",
            f"stride={self.stride}",
        ]
        for name, usual in (("padding", 0), ("dilation", 1), ("output_padding", 0)):
            if getattr(self, name) != (usual,) * self.rank:
                value = getattr(self, name)
                parts.append(f"{name}={value}")
        if self.groups != 1:
            parts.append(f"groups={self.groups}")
        if self.bias is None:
            parts.append("bias=False")
        if self.padding_mode != "zeros":
            parts.append(f"padding_mode={self.padding_mode}")
        return ", ".join(parts)


class _Forward(_ConvNd):
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] = 1,
        padding: str | int | Sequence[int] = 0,
        dilation: int | Sequence[int] = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: DeviceLike = None,
        dtype: ScalarType | None = None,
    ) -> None:
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode, device, dtype
        )  # fmt: skip

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, *) or (C, *) gives as many images of `out_channels`."""
        padding: str | int | tuple[int, ...] = self.padding
        if self.padding_mode != "zeros":
            input = F.pad(input, self._border(), self.padding_mode)
            padding = 0
        return type(self).function(
            input, self.weight, self.bias, self.stride, padding, self.dilation, self.groups
        )

    def _border(self) -> list[int]:
        """Return the padding for modes other than zeros, in the order of `functional.pad`."""
        border: list[int] = []
        for i in range(self.rank - 1, -1, -1):
            if self.padding == "same":
                whole = self.dilation[i] * (self.kernel_size[i] - 1)
                border += [whole // 2, whole - whole // 2]
            else:
                border += [0, 0] if isinstance(self.padding, str) else [self.padding[i]] * 2
        return border


class _ConvTransposeNd(_ConvNd):
    transposed = True
    padding: tuple[int, ...]

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] = 1,
        padding: int | Sequence[int] = 0,
        output_padding: int | Sequence[int] = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: int | Sequence[int] = 1,
        padding_mode: str = "zeros",
        device: DeviceLike = None,
        dtype: ScalarType | None = None,
    ) -> None:
        if padding_mode != "zeros":
            raise ValueError(f'Only "zeros" padding mode is supported for {type(self).__name__}')
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode, device,
            dtype, output_padding,
        )  # fmt: skip

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        """(N, C, *) or (C, *); `output_size` picks among the sizes that the same input could have come from."""
        extra = self.output_padding if output_size is None else self._extra(input, tuple(output_size))
        return type(self).function(
            input, self.weight, self.bias, self.stride, self.padding, extra, self.groups, self.dilation
        )

    def _extra(self, input: Tensor, wanted: tuple[int, ...]) -> tuple[int, ...]:
        """Return the output padding that gives these spatial sizes.

        Raises:
            ValueError: No output padding gives them.
        """
        ndim = self.rank + (2 if input.dim() == self.rank + 2 else 1)
        if len(wanted) not in (self.rank, ndim):
            raise ValueError(
                f"ConvTranspose{self.rank}D: for {input.dim()}D input, output_size must have {self.rank} or {ndim} "
                f"elements (got {len(wanted)})"
            )
        wanted = wanted[-self.rank :]
        extra: list[int] = []
        for i, size in enumerate(wanted):
            least = (
                (input.shape[i - self.rank] - 1) * self.stride[i]
                - 2 * self.padding[i]
                + self.dilation[i] * (self.kernel_size[i] - 1)
                + 1
            )
            if not least <= size < least + self.stride[i]:
                raise ValueError(
                    f"requested an output size of {wanted}, but valid sizes of dimension {i} range from {least} to "
                    f"{least + self.stride[i] - 1} (for an input of {tuple(input.shape[-self.rank :])})"
                )
            extra.append(size - least)
        return tuple(extra)


class Conv1d(_Forward):
    """1D convolution (`torch.nn.Conv1d`).

    Example:
        >>> import triten as tt
        >>> tt.nn.Conv1d(4, 6, 3, stride=2)(tt.ones(2, 4, 9)).shape
        triten.Size([2, 6, 4])
    """

    rank = 1
    function = staticmethod(F.conv1d)


class Conv2d(_Forward):
    """2D convolution (`torch.nn.Conv2d`).

    Args:
        in_channels, out_channels: The channels of the input and the result, multiples of `groups`.
        kernel_size, stride, padding, dilation: a number, or one for each spatial dimension; padding may be ``same`` or
            ``valid``.
        bias: If True, add a learnable bias.

    Raises:
        ValueError: an option is out of its range.

    Example:
        >>> import triten as tt
        >>> tt.nn.Conv2d(3, 8, 3, padding=1)(tt.ones(2, 3, 5, 5)).shape
        triten.Size([2, 8, 5, 5])
    """

    rank = 2
    function = staticmethod(F.conv2d)


class Conv3d(_Forward):
    """3D convolution (`torch.nn.Conv3d`)."""

    rank = 3
    function = staticmethod(F.conv3d)


class ConvTranspose1d(_ConvTransposeNd):
    """1D transposed convolution, the gradient of `Conv1d` by its input (`torch.nn.ConvTranspose1d`)."""

    rank = 1
    function = staticmethod(F.conv_transpose1d)


class ConvTranspose2d(_ConvTransposeNd):
    """2D transposed convolution, the gradient of `Conv2d` by its input (`torch.nn.ConvTranspose2d`)."""

    rank = 2
    function = staticmethod(F.conv_transpose2d)


class ConvTranspose3d(_ConvTransposeNd):
    """3D transposed convolution, the gradient of `Conv3d` by its input (`torch.nn.ConvTranspose3d`)."""

    rank = 3
    function = staticmethod(F.conv_transpose3d)
