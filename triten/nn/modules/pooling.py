"""Pooling layers: a class is the function, the number of its spatial dimensions, and its options."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from .. import functional as F
from .fractional_pooling import FractionalMaxPool2d, FractionalMaxPool3d
from .module import Module
from .unpooling import MaxUnpool1d, MaxUnpool2d, MaxUnpool3d

if TYPE_CHECKING:
    from ...dispatch.tensor import Tensor

__all__ = [
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AdaptiveAvgPool3d",
    "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d",
    "AvgPool1d",
    "AvgPool2d",
    "AvgPool3d",
    "FractionalMaxPool2d",
    "FractionalMaxPool3d",
    "LPPool1d",
    "LPPool2d",
    "LPPool3d",
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
    "MaxUnpool1d",
    "MaxUnpool2d",
    "MaxUnpool3d",
]


class _Pool(Module):
    """A function of the input and of options, which are attributes."""

    function: Callable[..., Any]
    shown: tuple[str, ...]
    """The options that are printed."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self._options = tuple(options)
        for name, value in options.items():
            setattr(self, name, value)

    def forward(self, input: Tensor) -> Any:
        """(N, C, *) or (C, *)."""
        return type(self).function(input, **{name: getattr(self, name) for name in self._options})

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={getattr(self, name)}" for name in self.shown)


class _MaxPoolNd(_Pool):
    shown = ("kernel_size", "stride", "padding", "dilation", "ceil_mode")

    def __init__(
        self,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] | None = None,
        padding: int | Sequence[int] = 0,
        dilation: int | Sequence[int] = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__(
            kernel_size=kernel_size,
            stride=kernel_size if stride is None else stride,
            padding=padding,
            dilation=dilation,
            return_indices=return_indices,
            ceil_mode=ceil_mode,
        )


class MaxPool1d(_MaxPoolNd):
    """1D max pooling: the maximum of each window (`torch.nn.MaxPool1d`).

    The spatial sizes of the result are

        L_out = floor((L_in + 2 * padding - dilation * (kernel_size - 1) - 1) / stride + 1)

    Args:
        kernel_size: The size of the windows, an int.
        stride: The step of the windows, an int. Default: `kernel_size`.
        padding: The number of -inf added at both ends of each dimension, at most half of `kernel_size`. Default: 0.
        dilation: The distance between the elements of a window. Default: 1.
        return_indices: If True, also return the indices of the maxima, as `MaxUnpool1d` takes them. Default: False.
        ceil_mode: If True, round the sizes up, so that a last window may reach over the end. Default: False.

    Shape:
        input: (N, C, L) or (C, L).
        output: (N, C, L_out), without N for an input without a batch.

    Example:
        >>> import triten as tt
        >>> tt.nn.MaxPool1d(2)(tt.tensor([[1.0, 3.0, 2.0, 4.0]])).tolist()
        [[3.0, 4.0]]
    """

    function = staticmethod(F.max_pool1d)


class MaxPool2d(_MaxPoolNd):
    """2D max pooling: the maximum of each window (`torch.nn.MaxPool2d`).

    The spatial sizes of the result are

        H_out = floor((H_in + 2 * padding[0] - dilation[0] * (kernel_size[0] - 1) - 1) / stride[0] + 1);
        W_out = floor((W_in + 2 * padding[1] - dilation[1] * (kernel_size[1] - 1) - 1) / stride[1] + 1)

    Args:
        kernel_size: The size of the windows, an int, or a tuple of 2 for height and width.
        stride: The step of the windows, an int, or a tuple of 2 for height and width. Default: `kernel_size`.
        padding: The number of -inf added at both ends of each dimension, at most half of `kernel_size`. Default: 0.
        dilation: The distance between the elements of a window. Default: 1.
        return_indices: If True, also return the indices of the maxima, as `MaxUnpool2d` takes them. Default: False.
        ceil_mode: If True, round the sizes up, so that a last window may reach over the end. Default: False.

    Shape:
        input: (N, C, H, W) or (C, H, W).
        output: (N, C, H_out, W_out), without N for an input without a batch.

    Example:
        >>> import triten as tt
        >>> tt.nn.MaxPool2d(2)(tt.arange(16.0).view(1, 4, 4)).tolist()
        [[[5.0, 7.0], [13.0, 15.0]]]
    """

    function = staticmethod(F.max_pool2d)


class MaxPool3d(_MaxPoolNd):
    """3D max pooling: the maximum of each window (`torch.nn.MaxPool3d`).

    The spatial sizes of the result are

        D_out = floor((D_in + 2 * padding[0] - dilation[0] * (kernel_size[0] - 1) - 1) / stride[0] + 1);
        H_out = floor((H_in + 2 * padding[1] - dilation[1] * (kernel_size[1] - 1) - 1) / stride[1] + 1);
        W_out = floor((W_in + 2 * padding[2] - dilation[2] * (kernel_size[2] - 1) - 1) / stride[2] + 1)

    Args:
        kernel_size: The size of the windows, an int, or a tuple of 3 for depth, height and width.
        stride: The step of the windows, an int, or a tuple of 3 for depth, height and width. Default:
            `kernel_size`.
        padding: The number of -inf added at both ends of each dimension, at most half of `kernel_size`. Default: 0.
        dilation: The distance between the elements of a window. Default: 1.
        return_indices: If True, also return the indices of the maxima, as `MaxUnpool3d` takes them. Default: False.
        ceil_mode: If True, round the sizes up, so that a last window may reach over the end. Default: False.

    Shape:
        input: (N, C, D, H, W) or (C, D, H, W).
        output: (N, C, D_out, H_out, W_out), without N for an input without a batch.

    Example:
        >>> import triten as tt
        >>> tt.nn.MaxPool3d(2)(tt.arange(8.0).view(1, 2, 2, 2)).tolist()
        [[[[7.0]]]]
    """

    function = staticmethod(F.max_pool3d)


class AvgPool1d(_Pool):
    """1D average pooling: the mean of each window (`torch.nn.AvgPool1d`).

    The spatial sizes of the result are

        L_out = floor((L_in + 2 * padding - kernel_size) / stride + 1)

    Args:
        kernel_size: The size of the windows, an int.
        stride: The step of the windows, an int. Default: `kernel_size`.
        padding: The number of zeros added at both ends of each dimension, at most half of `kernel_size`. Default:
            0.
        ceil_mode: If True, round the sizes up, so that a last window may reach over the end. Default: False.
        count_include_pad: If True, count the added zeros in the mean. Default: True.

    Shape:
        input: (N, C, L) or (C, L).
        output: (N, C, L_out), without N for an input without a batch.

    Example:
        >>> import triten as tt
        >>> tt.nn.AvgPool1d(2)(tt.tensor([[1.0, 3.0, 2.0, 4.0]])).tolist()
        [[2.0, 3.0]]
    """

    function = staticmethod(F.avg_pool1d)
    shown = ("kernel_size", "stride", "padding")

    def __init__(
        self,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] | None = None,
        padding: int | Sequence[int] = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        sizes = [
            (size,) if not isinstance(size, Iterable) else tuple(size)
            for size in (kernel_size, kernel_size if stride is None else stride, padding)
        ]
        super().__init__(
            kernel_size=sizes[0],
            stride=sizes[1],
            padding=sizes[2],
            ceil_mode=ceil_mode,
            count_include_pad=count_include_pad,
        )


class _AvgPoolNd(_Pool):
    shown = ("kernel_size", "stride", "padding")

    def __init__(
        self,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] | None = None,
        padding: int | Sequence[int] = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__(
            kernel_size=kernel_size,
            stride=kernel_size if stride is None else stride,
            padding=padding,
            ceil_mode=ceil_mode,
            count_include_pad=count_include_pad,
            divisor_override=divisor_override,
        )


class AvgPool2d(_AvgPoolNd):
    """2D average pooling: the mean of each window (`torch.nn.AvgPool2d`).

    The spatial sizes of the result are

        H_out = floor((H_in + 2 * padding[0] - kernel_size[0]) / stride[0] + 1);
        W_out = floor((W_in + 2 * padding[1] - kernel_size[1]) / stride[1] + 1)

    Args:
        kernel_size: The size of the windows, an int, or a tuple of 2 for height and width.
        stride: The step of the windows, an int, or a tuple of 2 for height and width. Default: `kernel_size`.
        padding: The number of zeros added at both ends of each dimension, at most half of `kernel_size`. Default:
            0.
        ceil_mode: If True, round the sizes up, so that a last window may reach over the end. Default: False.
        count_include_pad: If True, count the added zeros in the mean. Default: True.
        divisor_override: The divisor of the sums instead of the number of elements. Default: None.

    Shape:
        input: (N, C, H, W) or (C, H, W).
        output: (N, C, H_out, W_out), without N for an input without a batch.

    Example:
        >>> import triten as tt
        >>> tt.nn.AvgPool2d(2)(tt.arange(16.0).view(1, 4, 4)).tolist()
        [[[2.5, 4.5], [10.5, 12.5]]]
    """

    function = staticmethod(F.avg_pool2d)


class AvgPool3d(_AvgPoolNd):
    """3D average pooling: the mean of each window (`torch.nn.AvgPool3d`).

    The spatial sizes of the result are

        D_out = floor((D_in + 2 * padding[0] - kernel_size[0]) / stride[0] + 1);
        H_out = floor((H_in + 2 * padding[1] - kernel_size[1]) / stride[1] + 1);
        W_out = floor((W_in + 2 * padding[2] - kernel_size[2]) / stride[2] + 1)

    Args:
        kernel_size: The size of the windows, an int, or a tuple of 3 for depth, height and width.
        stride: The step of the windows, an int, or a tuple of 3 for depth, height and width. Default:
            `kernel_size`.
        padding: The number of zeros added at both ends of each dimension, at most half of `kernel_size`. Default:
            0.
        ceil_mode: If True, round the sizes up, so that a last window may reach over the end. Default: False.
        count_include_pad: If True, count the added zeros in the mean. Default: True.
        divisor_override: The divisor of the sums instead of the number of elements. Default: None.

    Shape:
        input: (N, C, D, H, W) or (C, D, H, W).
        output: (N, C, D_out, H_out, W_out), without N for an input without a batch.

    Example:
        >>> import triten as tt
        >>> tt.nn.AvgPool3d(2)(tt.arange(8.0).view(1, 2, 2, 2)).tolist()
        [[[[3.5]]]]
    """

    function = staticmethod(F.avg_pool3d)


class _LPPoolNd(_Pool):
    shown = ("norm_type", "kernel_size", "stride", "ceil_mode")

    def __init__(
        self,
        norm_type: float,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] | None = None,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__(norm_type=norm_type, kernel_size=kernel_size, stride=stride, ceil_mode=ceil_mode)


class LPPool1d(_LPPoolNd):
    """1D power-average pooling: the p-norm of each window (`torch.nn.LPPool1d`).

        sum_i(x_i ** p) ** (1 / p), with p = norm_type

    The spatial sizes of the result are

        L_out = floor((L_in - kernel_size) / stride + 1)

    Args:
        norm_type: The exponent p. With 1 the result is the sum; for large values it approaches the maximum.
        kernel_size: The size of the windows, an int.
        stride: The step of the windows, an int. Default: `kernel_size`.
        ceil_mode: If True, round the sizes up, so that a last window may reach over the end. Default: False.

    Shape:
        input: (N, C, L) or (C, L).
        output: (N, C, L_out), without N for an input without a batch.

    Example:
        >>> import triten as tt
        >>> tt.nn.LPPool1d(2, 2)(tt.tensor([[3.0, 4.0]])).tolist()
        [[5.0]]
    """

    function = staticmethod(F.lp_pool1d)


class LPPool2d(_LPPoolNd):
    """2D power-average pooling: the p-norm of each window (`torch.nn.LPPool2d`).

        sum_i(x_i ** p) ** (1 / p), with p = norm_type

    The spatial sizes of the result are

        H_out = floor((H_in - kernel_size[0]) / stride[0] + 1);
        W_out = floor((W_in - kernel_size[1]) / stride[1] + 1)

    Args:
        norm_type: The exponent p. With 1 the result is the sum; for large values it approaches the maximum.
        kernel_size: The size of the windows, an int, or a tuple of 2 for height and width.
        stride: The step of the windows, an int, or a tuple of 2 for height and width. Default: `kernel_size`.
        ceil_mode: If True, round the sizes up, so that a last window may reach over the end. Default: False.

    Shape:
        input: (N, C, H, W) or (C, H, W).
        output: (N, C, H_out, W_out), without N for an input without a batch.

    Example:
        >>> import triten as tt
        >>> tt.nn.LPPool2d(1, 2)(tt.ones(1, 2, 2)).tolist()
        [[[4.0]]]
    """

    function = staticmethod(F.lp_pool2d)


class LPPool3d(_LPPoolNd):
    """3D power-average pooling: the p-norm of each window (`torch.nn.LPPool3d`).

        sum_i(x_i ** p) ** (1 / p), with p = norm_type

    The spatial sizes of the result are

        D_out = floor((D_in - kernel_size[0]) / stride[0] + 1);
        H_out = floor((H_in - kernel_size[1]) / stride[1] + 1);
        W_out = floor((W_in - kernel_size[2]) / stride[2] + 1)

    Args:
        norm_type: The exponent p. With 1 the result is the sum; for large values it approaches the maximum.
        kernel_size: The size of the windows, an int, or a tuple of 3 for depth, height and width.
        stride: The step of the windows, an int, or a tuple of 3 for depth, height and width. Default:
            `kernel_size`.
        ceil_mode: If True, round the sizes up, so that a last window may reach over the end. Default: False.

    Shape:
        input: (N, C, D, H, W) or (C, D, H, W).
        output: (N, C, D_out, H_out, W_out), without N for an input without a batch.

    Example:
        >>> import triten as tt
        >>> tt.nn.LPPool3d(1, 2)(tt.ones(1, 2, 2, 2)).tolist()
        [[[[8.0]]]]
    """

    function = staticmethod(F.lp_pool3d)


class _AdaptiveAvgPoolNd(_Pool):
    shown = ("output_size",)

    def __init__(self, output_size: int | Sequence[int]) -> None:
        super().__init__(output_size=output_size)


class AdaptiveAvgPool1d(_AdaptiveAvgPoolNd):
    """1D adaptive average pooling: as many windows as the result has elements (`torch.nn.AdaptiveAvgPool1d`).

    Window i of a dimension covers the elements from floor(i * L / L_out) to ceil((i + 1) * L / L_out) - 1.

    Args:
        output_size: The spatial sizes of the result, an int; None keeps the size of a dimension.

    Shape:
        input: (N, C, L) or (C, L).
        output: (N, C, L_out) with the given sizes, without N for an input without a batch.

    Example:
        >>> import triten as tt
        >>> tt.nn.AdaptiveAvgPool1d(2)(tt.arange(4.0).view(1, 4)).tolist()
        [[0.5, 2.5]]
    """

    function = staticmethod(F.adaptive_avg_pool1d)


class AdaptiveAvgPool2d(_AdaptiveAvgPoolNd):
    """2D adaptive average pooling: as many windows as the result has elements (`torch.nn.AdaptiveAvgPool2d`).

    Window i of a dimension covers the elements from floor(i * L / L_out) to ceil((i + 1) * L / L_out) - 1.

    Args:
        output_size: The spatial sizes of the result, an int, or a tuple of 2 for height and width; None keeps the
            size of a dimension.

    Shape:
        input: (N, C, H, W) or (C, H, W).
        output: (N, C, H_out, W_out) with the given sizes, without N for an input without a batch.

    Example:
        >>> import triten as tt
        >>> tt.nn.AdaptiveAvgPool2d(1)(tt.ones(2, 3, 5, 5)).shape
        triten.Size([2, 3, 1, 1])
    """

    function = staticmethod(F.adaptive_avg_pool2d)


class AdaptiveAvgPool3d(_AdaptiveAvgPoolNd):
    """3D adaptive average pooling: as many windows as the result has elements (`torch.nn.AdaptiveAvgPool3d`).

    Window i of a dimension covers the elements from floor(i * L / L_out) to ceil((i + 1) * L / L_out) - 1.

    Args:
        output_size: The spatial sizes of the result, an int, or a tuple of 3 for depth, height and width; None
            keeps the size of a dimension.

    Shape:
        input: (N, C, D, H, W) or (C, D, H, W).
        output: (N, C, D_out, H_out, W_out) with the given sizes, without N for an input without a batch.

    Example:
        >>> import triten as tt
        >>> tt.nn.AdaptiveAvgPool3d((1, 2, None))(tt.ones(3, 4, 4, 5)).shape
        triten.Size([3, 1, 2, 5])
    """

    function = staticmethod(F.adaptive_avg_pool3d)


class _AdaptiveMaxPoolNd(_Pool):
    shown = ("output_size",)

    def __init__(self, output_size: int | Sequence[int], return_indices: bool = False) -> None:
        super().__init__(output_size=output_size, return_indices=return_indices)


class AdaptiveMaxPool1d(_AdaptiveMaxPoolNd):
    """1D adaptive max pooling: as many windows as the result has elements (`torch.nn.AdaptiveMaxPool1d`).

    Window i of a dimension covers the elements from floor(i * L / L_out) to ceil((i + 1) * L / L_out) - 1.

    Args:
        output_size: The spatial sizes of the result, an int; None keeps the size of a dimension.
        return_indices: If True, also return the indices of the maxima. Default: False.

    Shape:
        input: (N, C, L) or (C, L).
        output: (N, C, L_out) with the given sizes, without N for an input without a batch.

    Example:
        >>> import triten as tt
        >>> tt.nn.AdaptiveMaxPool1d(2)(tt.arange(4.0).view(1, 4)).tolist()
        [[1.0, 3.0]]
    """

    function = staticmethod(F.adaptive_max_pool1d)


class AdaptiveMaxPool2d(_AdaptiveMaxPoolNd):
    """2D adaptive max pooling: as many windows as the result has elements (`torch.nn.AdaptiveMaxPool2d`).

    Window i of a dimension covers the elements from floor(i * L / L_out) to ceil((i + 1) * L / L_out) - 1.

    Args:
        output_size: The spatial sizes of the result, an int, or a tuple of 2 for height and width; None keeps the
            size of a dimension.
        return_indices: If True, also return the indices of the maxima. Default: False.

    Shape:
        input: (N, C, H, W) or (C, H, W).
        output: (N, C, H_out, W_out) with the given sizes, without N for an input without a batch.

    Example:
        >>> import triten as tt
        >>> tt.nn.AdaptiveMaxPool2d(1)(tt.ones(2, 3, 5, 5)).shape
        triten.Size([2, 3, 1, 1])
    """

    function = staticmethod(F.adaptive_max_pool2d)


class AdaptiveMaxPool3d(_AdaptiveMaxPoolNd):
    """3D adaptive max pooling: as many windows as the result has elements (`torch.nn.AdaptiveMaxPool3d`).

    Window i of a dimension covers the elements from floor(i * L / L_out) to ceil((i + 1) * L / L_out) - 1.

    Args:
        output_size: The spatial sizes of the result, an int, or a tuple of 3 for depth, height and width; None
            keeps the size of a dimension.
        return_indices: If True, also return the indices of the maxima. Default: False.

    Shape:
        input: (N, C, D, H, W) or (C, D, H, W).
        output: (N, C, D_out, H_out, W_out) with the given sizes, without N for an input without a batch.

    Example:
        >>> import triten as tt
        >>> tt.nn.AdaptiveMaxPool3d(2)(tt.ones(3, 4, 4, 4)).shape
        triten.Size([3, 2, 2, 2])
    """

    function = staticmethod(F.adaptive_max_pool3d)
