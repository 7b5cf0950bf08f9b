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
        """Convolve an input (N, C, *) or (C, *)."""
        return self._conv_forward(input, self.weight, self.bias)

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """Convolve an input with the weight and bias of a subclass, which calls this by PyTorch's name."""
        padding: str | int | tuple[int, ...] = self.padding
        if self.padding_mode != "zeros":
            input = F.pad(input, self._border(), self.padding_mode)
            padding = 0
        return type(self).function(input, weight, bias, self.stride, padding, self.dilation, self.groups)

    @property
    def _reversed_padding_repeated_twice(self) -> list[int]:
        """The padding in the order of `functional.pad`, by PyTorch's name."""
        return self._border()

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
        """Convolve an input (N, C, *) or (C, *), transposed; `output_size` selects among the possible sizes."""
        extra = self._output_padding(
            input, output_size, self.stride, self.padding, self.kernel_size, self.rank, self.dilation
        )
        return type(self).function(
            input, self.weight, self.bias, self.stride, self.padding, extra, self.groups, self.dilation
        )

    def _output_padding(
        self,
        input: Tensor,
        output_size: Sequence[int] | None,
        stride: Sequence[int],
        padding: Sequence[int],
        kernel_size: Sequence[int],
        num_spatial_dims: int,
        dilation: Sequence[int] | None = None,
    ) -> tuple[int, ...]:
        """Return the output padding that gives the spatial sizes `output_size`, or the layer's without one.

        Raises:
            ValueError: No output padding gives them.
        """
        if output_size is None:
            return self.output_padding
        rank = num_spatial_dims
        ndim = rank + (2 if input.dim() == rank + 2 else 1)
        if len(output_size) not in (rank, ndim):
            raise ValueError(
                f"ConvTranspose{rank}D: for {input.dim()}D input, output_size must have {rank} or {ndim} elements "
                f"(got {len(output_size)})"
            )
        sizes = tuple(output_size)[-rank:]
        output_padding: list[int] = []
        for i, size in enumerate(sizes):
            min_size = (
                (input.shape[i - rank] - 1) * stride[i]
                - 2 * padding[i]
                + (1 if dilation is None else dilation[i]) * (kernel_size[i] - 1)
                + 1
            )
            if not min_size <= size < min_size + stride[i]:
                raise ValueError(
                    f"requested an output size of {sizes}, but valid sizes of dimension {i} range from {min_size} to "
                    f"{min_size + stride[i] - 1} (for an input of {tuple(input.shape[-rank:])})"
                )
            output_padding.append(size - min_size)
        return tuple(output_padding)


class Conv1d(_Forward):
    """1D convolution: a cross-correlation with learnable filters (`torch.nn.Conv1d`).

        out[n, o] = bias[o] + sum_c weight[o, c] * input[n, c], where * slides the filter over a channel

    The spatial sizes of the result are

        L_out = floor((L_in + 2 * padding - dilation * (kernel_size - 1) - 1) / stride + 1)

    Args:
        in_channels: The number of input channels C_in, a multiple of `groups`.
        out_channels: The number of filters C_out, a multiple of `groups`.
        kernel_size: The size of the filters, an int.
        stride: The step of the filters, an int. Default: 1.
        padding: The number of elements added at both ends of each spatial dimension, an int. `"valid"` means none.
            `"same"` keeps the sizes and requires stride 1. Default: 0.
        dilation: The distance between the elements of a filter, an int. Default: 1.
        groups: The number of blocks into which the channels are split. Each filter sees the C_in / groups channels
            of its block. With groups = C_in the convolution is depthwise. Default: 1.
        bias: If True, add a learnable bias. Default: True.
        padding_mode: The values of the added elements: `"zeros"`, `"reflect"`, `"replicate"` or `"circular"`.
            Default: `"zeros"`.
        device, dtype: The device and dtype of the parameters.

    Shape:
        input: (N, C_in, L) or (C_in, L).
        output: (N, C_out, L_out), without N for an input without a batch.

    Attributes:
        weight: The filters, of shape (C_out, C_in / groups, k), initialized uniformly within ±1 / sqrt(fan_in).
        bias: A parameter of shape (C_out,), initialized like `weight`; None if `bias` is False.

    Raises:
        ValueError: `groups` does not divide the channels, `padding_mode` is unknown, or `padding="same"` meets a
            stride.

    Example:
        >>> import triten as tt
        >>> tt.nn.Conv1d(4, 6, 3, stride=2)(tt.ones(2, 4, 9)).shape
        triten.Size([2, 6, 4])
    """

    rank = 1
    function = staticmethod(F.conv1d)


class Conv2d(_Forward):
    """2D convolution: a cross-correlation with learnable filters (`torch.nn.Conv2d`).

        out[n, o] = bias[o] + sum_c weight[o, c] * input[n, c], where * slides the filter over a channel

    The spatial sizes of the result are

        H_out = floor((H_in + 2 * padding[0] - dilation[0] * (kernel_size[0] - 1) - 1) / stride[0] + 1);
        W_out = floor((W_in + 2 * padding[1] - dilation[1] * (kernel_size[1] - 1) - 1) / stride[1] + 1)

    Args:
        in_channels: The number of input channels C_in, a multiple of `groups`.
        out_channels: The number of filters C_out, a multiple of `groups`.
        kernel_size: The size of the filters, an int, or a tuple of 2 for height and width.
        stride: The step of the filters, an int, or a tuple of 2 for height and width. Default: 1.
        padding: The number of elements added at both ends of each spatial dimension, an int, or a tuple of 2 for
            height and width. `"valid"` means none. `"same"` keeps the sizes and requires stride 1. Default: 0.
        dilation: The distance between the elements of a filter, an int, or a tuple of 2 for height and width.
            Default: 1.
        groups: The number of blocks into which the channels are split. Each filter sees the C_in / groups channels
            of its block. With groups = C_in the convolution is depthwise. Default: 1.
        bias: If True, add a learnable bias. Default: True.
        padding_mode: The values of the added elements: `"zeros"`, `"reflect"`, `"replicate"` or `"circular"`.
            Default: `"zeros"`.
        device, dtype: The device and dtype of the parameters.

    Shape:
        input: (N, C_in, H, W) or (C_in, H, W).
        output: (N, C_out, H_out, W_out), without N for an input without a batch.

    Attributes:
        weight: The filters, of shape (C_out, C_in / groups, kH, kW), initialized uniformly within ±1 /
            sqrt(fan_in).
        bias: A parameter of shape (C_out,), initialized like `weight`; None if `bias` is False.

    Raises:
        ValueError: `groups` does not divide the channels, `padding_mode` is unknown, or `padding="same"` meets a
            stride.

    Example:
        >>> import triten as tt
        >>> tt.nn.Conv2d(3, 8, 3, padding=1)(tt.ones(2, 3, 5, 5)).shape
        triten.Size([2, 8, 5, 5])
    """

    rank = 2
    function = staticmethod(F.conv2d)


class Conv3d(_Forward):
    """3D convolution: a cross-correlation with learnable filters (`torch.nn.Conv3d`).

        out[n, o] = bias[o] + sum_c weight[o, c] * input[n, c], where * slides the filter over a channel

    The spatial sizes of the result are

        D_out = floor((D_in + 2 * padding[0] - dilation[0] * (kernel_size[0] - 1) - 1) / stride[0] + 1);
        H_out = floor((H_in + 2 * padding[1] - dilation[1] * (kernel_size[1] - 1) - 1) / stride[1] + 1);
        W_out = floor((W_in + 2 * padding[2] - dilation[2] * (kernel_size[2] - 1) - 1) / stride[2] + 1)

    Args:
        in_channels: The number of input channels C_in, a multiple of `groups`.
        out_channels: The number of filters C_out, a multiple of `groups`.
        kernel_size: The size of the filters, an int, or a tuple of 3 for depth, height and width.
        stride: The step of the filters, an int, or a tuple of 3 for depth, height and width. Default: 1.
        padding: The number of elements added at both ends of each spatial dimension, an int, or a tuple of 3 for
            depth, height and width. `"valid"` means none. `"same"` keeps the sizes and requires stride 1. Default:
            0.
        dilation: The distance between the elements of a filter, an int, or a tuple of 3 for depth, height and
            width. Default: 1.
        groups: The number of blocks into which the channels are split. Each filter sees the C_in / groups channels
            of its block. With groups = C_in the convolution is depthwise. Default: 1.
        bias: If True, add a learnable bias. Default: True.
        padding_mode: The values of the added elements: `"zeros"`, `"reflect"`, `"replicate"` or `"circular"`.
            Default: `"zeros"`.
        device, dtype: The device and dtype of the parameters.

    Shape:
        input: (N, C_in, D, H, W) or (C_in, D, H, W).
        output: (N, C_out, D_out, H_out, W_out), without N for an input without a batch.

    Attributes:
        weight: The filters, of shape (C_out, C_in / groups, kD, kH, kW), initialized uniformly within ±1 /
            sqrt(fan_in).
        bias: A parameter of shape (C_out,), initialized like `weight`; None if `bias` is False.

    Raises:
        ValueError: `groups` does not divide the channels, `padding_mode` is unknown, or `padding="same"` meets a
            stride.

    Example:
        >>> import triten as tt
        >>> tt.nn.Conv3d(2, 4, (1, 3, 3), groups=2)(tt.ones(1, 2, 2, 5, 5)).shape
        triten.Size([1, 4, 2, 3, 3])
    """

    rank = 3
    function = staticmethod(F.conv3d)


class ConvTranspose1d(_ConvTransposeNd):
    """1D transposed convolution, the gradient of `Conv1d` by its input (`torch.nn.ConvTranspose1d`).

    The spatial sizes of the result are

        L_out = (L_in - 1) * stride - 2 * padding + dilation * (kernel_size - 1) + output_padding + 1

    Args:
        in_channels: The number of input channels C_in, a multiple of `groups`.
        out_channels: The number of output channels C_out, a multiple of `groups`.
        kernel_size: The size of the filters, an int.
        stride: The distance between the filters' copies in the result, an int. Default: 1.
        padding: The number of elements cut off at both ends of each spatial dimension, an int. Default: 0.
        output_padding: The number of elements added at the end of each dimension, less than `stride` or `dilation`.
            Default: 0.
        groups: The number of blocks into which the channels are split; each block has filters of its own. Default:
            1.
        bias: If True, add a learnable bias. Default: True.
        dilation: The distance between the elements of a filter, an int. Default: 1.
        padding_mode: Only `"zeros"`.
        device, dtype: The device and dtype of the parameters.

    Shape:
        input: (N, C_in, L) or (C_in, L).
        output: (N, C_out, L_out), without N for an input without a batch.

    Attributes:
        weight: The filters, of shape (C_in, C_out / groups, k), initialized uniformly within ±1 / sqrt(fan_in).
        bias: A parameter of shape (C_out,), initialized like `weight`; None if `bias` is False.

    Raises:
        ValueError: `groups` does not divide the channels, or `padding_mode` is not `"zeros"`.

    Example:
        >>> import triten as tt
        >>> tt.nn.ConvTranspose1d(4, 2, 3, stride=2)(tt.ones(1, 4, 5)).shape
        triten.Size([1, 2, 11])
    """

    rank = 1
    function = staticmethod(F.conv_transpose1d)


class ConvTranspose2d(_ConvTransposeNd):
    """2D transposed convolution, the gradient of `Conv2d` by its input (`torch.nn.ConvTranspose2d`).

    The spatial sizes of the result are

        H_out = (H_in - 1) * stride[0] - 2 * padding[0] + dilation[0] * (kernel_size[0] - 1) + output_padding[0] +
        1;
        W_out = (W_in - 1) * stride[1] - 2 * padding[1] + dilation[1] * (kernel_size[1] - 1) + output_padding[1] + 1

    Args:
        in_channels: The number of input channels C_in, a multiple of `groups`.
        out_channels: The number of output channels C_out, a multiple of `groups`.
        kernel_size: The size of the filters, an int, or a tuple of 2 for height and width.
        stride: The distance between the filters' copies in the result, an int, or a tuple of 2 for height and
            width. Default: 1.
        padding: The number of elements cut off at both ends of each spatial dimension, an int, or a tuple of 2 for
            height and width. Default: 0.
        output_padding: The number of elements added at the end of each dimension, less than `stride` or `dilation`.
            Default: 0.
        groups: The number of blocks into which the channels are split; each block has filters of its own. Default:
            1.
        bias: If True, add a learnable bias. Default: True.
        dilation: The distance between the elements of a filter, an int, or a tuple of 2 for height and width.
            Default: 1.
        padding_mode: Only `"zeros"`.
        device, dtype: The device and dtype of the parameters.

    Shape:
        input: (N, C_in, H, W) or (C_in, H, W).
        output: (N, C_out, H_out, W_out), without N for an input without a batch.

    Attributes:
        weight: The filters, of shape (C_in, C_out / groups, kH, kW), initialized uniformly within ±1 /
            sqrt(fan_in).
        bias: A parameter of shape (C_out,), initialized like `weight`; None if `bias` is False.

    Raises:
        ValueError: `groups` does not divide the channels, or `padding_mode` is not `"zeros"`.

    Example:
        >>> import triten as tt
        >>> tt.nn.ConvTranspose2d(4, 2, 3, stride=2, padding=1, output_padding=1)(tt.ones(1, 4, 5, 5)).shape
        triten.Size([1, 2, 10, 10])
    """

    rank = 2
    function = staticmethod(F.conv_transpose2d)


class ConvTranspose3d(_ConvTransposeNd):
    """3D transposed convolution, the gradient of `Conv3d` by its input (`torch.nn.ConvTranspose3d`).

    The spatial sizes of the result are

        D_out = (D_in - 1) * stride[0] - 2 * padding[0] + dilation[0] * (kernel_size[0] - 1) + output_padding[0] +
        1;
        H_out = (H_in - 1) * stride[1] - 2 * padding[1] + dilation[1] * (kernel_size[1] - 1) + output_padding[1] +
        1;
        W_out = (W_in - 1) * stride[2] - 2 * padding[2] + dilation[2] * (kernel_size[2] - 1) + output_padding[2] + 1

    Args:
        in_channels: The number of input channels C_in, a multiple of `groups`.
        out_channels: The number of output channels C_out, a multiple of `groups`.
        kernel_size: The size of the filters, an int, or a tuple of 3 for depth, height and width.
        stride: The distance between the filters' copies in the result, an int, or a tuple of 3 for depth, height
            and width. Default: 1.
        padding: The number of elements cut off at both ends of each spatial dimension, an int, or a tuple of 3 for
            depth, height and width. Default: 0.
        output_padding: The number of elements added at the end of each dimension, less than `stride` or `dilation`.
            Default: 0.
        groups: The number of blocks into which the channels are split; each block has filters of its own. Default:
            1.
        bias: If True, add a learnable bias. Default: True.
        dilation: The distance between the elements of a filter, an int, or a tuple of 3 for depth, height and
            width. Default: 1.
        padding_mode: Only `"zeros"`.
        device, dtype: The device and dtype of the parameters.

    Shape:
        input: (N, C_in, D, H, W) or (C_in, D, H, W).
        output: (N, C_out, D_out, H_out, W_out), without N for an input without a batch.

    Attributes:
        weight: The filters, of shape (C_in, C_out / groups, kD, kH, kW), initialized uniformly within ±1 /
            sqrt(fan_in).
        bias: A parameter of shape (C_out,), initialized like `weight`; None if `bias` is False.

    Raises:
        ValueError: `groups` does not divide the channels, or `padding_mode` is not `"zeros"`.

    Example:
        >>> import triten as tt
        >>> tt.nn.ConvTranspose3d(4, 2, 2, stride=2)(tt.ones(1, 4, 1, 2, 3)).shape
        triten.Size([1, 2, 2, 4, 6])
    """

    rank = 3
    function = staticmethod(F.conv_transpose3d)
