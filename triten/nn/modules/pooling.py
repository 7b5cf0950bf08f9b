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
    """1D max-pooling (`torch.nn.MaxPool1d`)."""

    function = staticmethod(F.max_pool1d)


class MaxPool2d(_MaxPoolNd):
    """2D max-pooling (`torch.nn.MaxPool2d`).

    Example:
        >>> import triten as tt
        >>> tt.nn.MaxPool2d(2)(tt.arange(16.0).view(1, 4, 4)).tolist()
        [[[5.0, 7.0], [13.0, 15.0]]]
    """

    function = staticmethod(F.max_pool2d)


class MaxPool3d(_MaxPoolNd):
    """3D max-pooling (`torch.nn.MaxPool3d`)."""

    function = staticmethod(F.max_pool3d)


class AvgPool1d(_Pool):
    """1D average pooling (`torch.nn.AvgPool1d`)."""

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
    """2D average pooling (`torch.nn.AvgPool2d`).

    Example:
        >>> import triten as tt
        >>> tt.nn.AvgPool2d(2)(tt.arange(16.0).view(1, 4, 4)).tolist()
        [[[2.5, 4.5], [10.5, 12.5]]]
    """

    function = staticmethod(F.avg_pool2d)


class AvgPool3d(_AvgPoolNd):
    """3D average pooling (`torch.nn.AvgPool3d`)."""

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
    """1D p-norm pooling (`torch.nn.LPPool1d`)."""

    function = staticmethod(F.lp_pool1d)


class LPPool2d(_LPPoolNd):
    """2D p-norm pooling (`torch.nn.LPPool2d`)."""

    function = staticmethod(F.lp_pool2d)


class LPPool3d(_LPPoolNd):
    """3D p-norm pooling (`torch.nn.LPPool3d`)."""

    function = staticmethod(F.lp_pool3d)


class _AdaptiveAvgPoolNd(_Pool):
    shown = ("output_size",)

    def __init__(self, output_size: int | Sequence[int]) -> None:
        super().__init__(output_size=output_size)


class AdaptiveAvgPool1d(_AdaptiveAvgPoolNd):
    """1D adaptive average pooling (`torch.nn.AdaptiveAvgPool1d`)."""

    function = staticmethod(F.adaptive_avg_pool1d)


class AdaptiveAvgPool2d(_AdaptiveAvgPoolNd):
    """2D adaptive average pooling (`torch.nn.AdaptiveAvgPool2d`).

    Example:
        >>> import triten as tt
        >>> tt.nn.AdaptiveAvgPool2d(1)(tt.ones(2, 3, 5, 5)).shape
        triten.Size([2, 3, 1, 1])
    """

    function = staticmethod(F.adaptive_avg_pool2d)


class AdaptiveAvgPool3d(_AdaptiveAvgPoolNd):
    """3D adaptive average pooling (`torch.nn.AdaptiveAvgPool3d`)."""

    function = staticmethod(F.adaptive_avg_pool3d)


class _AdaptiveMaxPoolNd(_Pool):
    shown = ("output_size",)

    def __init__(self, output_size: int | Sequence[int], return_indices: bool = False) -> None:
        super().__init__(output_size=output_size, return_indices=return_indices)


class AdaptiveMaxPool1d(_AdaptiveMaxPoolNd):
    """1D adaptive max-pooling (`torch.nn.AdaptiveMaxPool1d`)."""

    function = staticmethod(F.adaptive_max_pool1d)


class AdaptiveMaxPool2d(_AdaptiveMaxPoolNd):
    """2D adaptive max-pooling (`torch.nn.AdaptiveMaxPool2d`)."""

    function = staticmethod(F.adaptive_max_pool2d)


class AdaptiveMaxPool3d(_AdaptiveMaxPoolNd):
    """3D adaptive max-pooling (`torch.nn.AdaptiveMaxPool3d`)."""

    function = staticmethod(F.adaptive_max_pool3d)
