"""Window functions (`torch.signal.windows`).

With `sym` a window is symmetric, for filter design. Without it a window is periodic, for spectral analysis: the first
`M` elements of a symmetric window of `M + 1`. All functions raise ValueError for a negative `M`, a layout other than
strided, and dtypes other than float32 and float64.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from ..dispatch.generated import functions as ops
from ..dispatch.tensor import Tensor
from ..dispatch.tensor_data import tensor
from ..runtime.device import DeviceLike
from ..runtime.layout import layout as Layout
from ..runtime.layout import strided
from ..runtime.scalar_type import dtype as ScalarType
from ..runtime.scalar_type import float32, float64, get_default_dtype
from ..runtime.traceback_filter import api_boundary

__all__ = [
    "bartlett",
    "blackman",
    "cosine",
    "exponential",
    "gaussian",
    "general_cosine",
    "general_hamming",
    "hamming",
    "hann",
    "kaiser",
    "nuttall",
]


class _Window:
    """Checked options of a window. Raises ValueError for an invalid length, layout or dtype."""

    def __init__(
        self,
        name: str,
        M: int,
        dtype: ScalarType | None,
        layout: Layout | None,
        device: DeviceLike,
        grad: bool,
    ) -> None:
        dtype = get_default_dtype() if dtype is None else dtype
        if M < 0:
            raise ValueError(f"{name} requires non-negative window length, got M={M}")
        if layout is not None and layout is not strided:
            raise ValueError(f"{name} is implemented for strided tensors only, got: {layout}")
        if dtype not in (float32, float64):
            raise ValueError(f"{name} expects float32 or float64 dtypes, got: {dtype}")
        self._M, self._requires_grad = M, grad
        self.options: dict[str, Any] = {"dtype": dtype, "device": device}

    def constant(self, elements: int) -> Tensor:
        """Return ones, the window of zero or one elements."""
        return ops.ones((elements,), **self.options, requires_grad=self._requires_grad)

    def points(self, start: Any, end: Any) -> Tensor:
        """Return `M` evenly spaced points from `start` to `end`, without grad."""
        return ops.linspace(start, end, self._M, **self.options, requires_grad=self._requires_grad).detach()

    def numbers(self, values: list[float]) -> Tensor:
        """Return a vector of coefficients, without grad."""
        return tensor(values, **self.options, requires_grad=self._requires_grad).detach()

    def finished(self, elements: Tensor) -> Tensor:
        """Return the window as a leaf that requires grad if the caller asked for it."""
        return elements._set_requires_grad(bool(self._requires_grad))


@api_boundary
def exponential(
    M: int,
    *,
    center: float | None = None,
    tau: float = 1.0,
    sym: bool = True,
    dtype: ScalarType | None = None,
    layout: Layout | None = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
) -> Tensor:
    """Compute an exponential window: exp(-|n - center| / tau) for n = 0, ..., M - 1.

    Counterpart of `torch.signal.windows.exponential`.

    Args:
        M: The number of elements of the window.
        center: The position of the peak. Default: the middle.
        tau: The decay constant in elements, above 0. Default: 1.
        sym: If True, the window is symmetric; if False, it is periodic: the first M elements of a symmetric window of
            M + 1. Default: True.
        dtype: float32 or float64. Default: `tt.get_default_dtype()`.
        layout: `tt.strided`, the only supported layout.
        device: The result's device. Default: `tt.get_default_device()`.
        requires_grad: If True, autograd records operations on the result. Default: False.

    Returns:
        A vector of M elements.

    Raises:
        ValueError: `M` is negative, `dtype` or `layout` is not supported, `tau` is not positive, or `center` is given
            for a symmetric window.

    Example:
        >>> import triten as tt
        >>> tt.signal.windows.exponential(3)
        tensor([0.3679, 1.0000, 0.3679])
    """
    window = _Window("exponential", M, dtype, layout, device, requires_grad)
    if tau <= 0:
        raise ValueError(f"Tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise ValueError("Center must be None for symmetric windows")
    if M == 0:
        return window.constant(0)
    if center is None:
        center = (M if not sym and M > 1 else M - 1) / 2
    scale = 1 / tau
    return window.finished((-window.points(-center * scale, (-center + (M - 1)) * scale).abs()).exp())


@api_boundary
def cosine(
    M: int,
    *,
    sym: bool = True,
    dtype: ScalarType | None = None,
    layout: Layout | None = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
) -> Tensor:
    """Compute a cosine window: sin(pi (n + 1/2) / M) for n = 0, ..., M - 1 (`torch.signal.windows.cosine`).

    Args:
        M: The number of elements of the window.
        sym: If True, the window is symmetric; if False, it is periodic: the first M elements of a symmetric window of
            M + 1. Default: True.
        dtype: float32 or float64. Default: `tt.get_default_dtype()`.
        layout: `tt.strided`, the only supported layout.
        device: The result's device. Default: `tt.get_default_device()`.
        requires_grad: If True, autograd records operations on the result. Default: False.

    Returns:
        A vector of M elements.

    Raises:
        ValueError: `M` is negative, or `dtype` or `layout` is not supported.

    Example:
        >>> import triten as tt
        >>> tt.signal.windows.cosine(2)
        tensor([0.7071, 0.7071])
    """
    window = _Window("cosine", M, dtype, layout, device, requires_grad)
    if M == 0:
        return window.constant(0)
    scale = math.pi / (M + 1 if not sym and M > 1 else M)
    return window.finished(window.points(0.5 * scale, (0.5 + (M - 1)) * scale).sin())


@api_boundary
def gaussian(
    M: int,
    *,
    std: float = 1.0,
    sym: bool = True,
    dtype: ScalarType | None = None,
    layout: Layout | None = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
) -> Tensor:
    """Compute a Gaussian window: exp(-(n - middle)^2 / (2 std^2)) for n = 0, ..., M - 1.

    Counterpart of `torch.signal.windows.gaussian`.

    Args:
        M: The number of elements of the window.
        std: The standard deviation in elements, above 0. Default: 1.
        sym: If True, the window is symmetric; if False, it is periodic: the first M elements of a symmetric window of
            M + 1. Default: True.
        dtype: float32 or float64. Default: `tt.get_default_dtype()`.
        layout: `tt.strided`, the only supported layout.
        device: The result's device. Default: `tt.get_default_device()`.
        requires_grad: If True, autograd records operations on the result. Default: False.

    Returns:
        A vector of M elements.

    Raises:
        ValueError: `M` is negative, `dtype` or `layout` is not supported, or `std` is not positive.

    Example:
        >>> import triten as tt
        >>> tt.signal.windows.gaussian(3)
        tensor([0.6065, 1.0000, 0.6065])
    """
    window = _Window("gaussian", M, dtype, layout, device, requires_grad)
    if std <= 0:
        raise ValueError(f"Standard deviation must be positive, got: {std} instead.")
    if M == 0:
        return window.constant(0)
    start = -(M if not sym and M > 1 else M - 1) / 2
    scale = 1 / (std * math.sqrt(2))
    return window.finished((-(window.points(start * scale, (start + (M - 1)) * scale) ** 2)).exp())


@api_boundary
def kaiser(
    M: int,
    *,
    beta: float = 12.0,
    sym: bool = True,
    dtype: ScalarType | None = None,
    layout: Layout | None = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
) -> Tensor:
    """Compute a Kaiser window: I0(beta sqrt(1 - x^2)) / I0(beta) for x from -1 to 1 (`torch.signal.windows.kaiser`).

    Args:
        M: The number of elements of the window.
        beta: The shape parameter, at least 0. A larger `beta` makes a narrower window; 0 gives ones. Default: 12.
        sym: If True, the window is symmetric; if False, it is periodic: the first M elements of a symmetric window of
            M + 1. Default: True.
        dtype: float32 or float64. Default: `tt.get_default_dtype()`.
        layout: `tt.strided`, the only supported layout.
        device: The result's device. Default: `tt.get_default_device()`.
        requires_grad: If True, autograd records operations on the result. Default: False.

    Returns:
        A vector of M elements.

    Raises:
        ValueError: `M` or `beta` is negative, or `dtype` or `layout` is not supported.

    Example:
        >>> import triten as tt
        >>> tt.signal.windows.kaiser(3, beta=1.0)
        tensor([0.7898, 1.0000, 0.7898])
    """
    window = _Window("kaiser", M, dtype, layout, device, requires_grad)
    if beta < 0:
        raise ValueError(f"beta must be non-negative, got: {beta} instead.")
    if M in (0, 1):
        return window.constant(int(M))
    # Round beta to the window's dtype first, so that no squared point exceeds the squared beta.
    peak = tensor(beta, dtype=window.options["dtype"], device="cpu")
    points = window.points(-peak, ops.minimum(peak, -peak + (M - 1) * (2 * peak / (M - 1 if sym else M))))
    return window.finished(ops.i0((peak * peak - points * points).sqrt()) / ops.i0(peak))


def _sum_of_cosines(window: _Window, weights: Iterable[float], M: int, sym: bool) -> Tensor:
    if M in (0, 1):
        return window.constant(int(M))
    if not isinstance(weights, Iterable):
        raise TypeError("Coefficients must be a list/tuple")
    if not weights:
        raise ValueError("Coefficients cannot be empty")
    angles = window.points(0, (M - 1) * (2 * math.pi / (M - 1 if sym else M)))
    signed = window.numbers([(-1) ** k * weight for k, weight in enumerate(weights)])
    multiples = ops.arange(len(signed), **window.options).unsqueeze(-1)
    return window.finished((signed.unsqueeze(-1) * (multiples * angles).cos()).sum(0))


@api_boundary
def general_cosine(
    M: int,
    *,
    a: Iterable[float],
    sym: bool = True,
    dtype: ScalarType | None = None,
    layout: Layout | None = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
) -> Tensor:
    """Compute a sum of cosines: sum_k (-1)^k a[k] cos(2 pi k n / (M - 1)) (`torch.signal.windows.general_cosine`).

    Args:
        M: The number of elements of the window.
        a: The coefficients, a list or tuple of floats.
        sym: If True, the window is symmetric; if False, it is periodic: the first M elements of a symmetric window of
            M + 1. Default: True.
        dtype: float32 or float64. Default: `tt.get_default_dtype()`.
        layout: `tt.strided`, the only supported layout.
        device: The result's device. Default: `tt.get_default_device()`.
        requires_grad: If True, autograd records operations on the result. Default: False.

    Returns:
        A vector of M elements.

    Raises:
        ValueError: `M` is negative, `dtype` or `layout` is not supported, or `a` is empty.
        TypeError: `a` is not iterable.

    Example:
        >>> import triten as tt
        >>> tt.signal.windows.general_cosine(3, a=[0.5, 0.5])
        tensor([0., 1., 0.])
    """
    window = _Window("general_cosine", M, dtype, layout, device, requires_grad)
    return _sum_of_cosines(window, a, M, sym)


@api_boundary
def general_hamming(
    M: int,
    *,
    alpha: float = 0.54,
    sym: bool = True,
    dtype: ScalarType | None = None,
    layout: Layout | None = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
) -> Tensor:
    """Compute a general Hamming window: alpha - (1 - alpha) cos(2 pi n / (M - 1)).

    Counterpart of `torch.signal.windows.general_hamming`.

    Args:
        M: The number of elements of the window.
        alpha: The coefficient alpha. Default: 0.54.
        sym: If True, the window is symmetric; if False, it is periodic: the first M elements of a symmetric window of
            M + 1. Default: True.
        dtype: float32 or float64. Default: `tt.get_default_dtype()`.
        layout: `tt.strided`, the only supported layout.
        device: The result's device. Default: `tt.get_default_device()`.
        requires_grad: If True, autograd records operations on the result. Default: False.

    Returns:
        A vector of M elements.

    Raises:
        ValueError: `M` is negative, or `dtype` or `layout` is not supported.

    Example:
        >>> import triten as tt
        >>> tt.signal.windows.general_hamming(3, alpha=0.5)
        tensor([0., 1., 0.])
    """
    return general_cosine(
        M,
        a=[alpha, 1.0 - alpha],
        sym=sym,
        dtype=dtype,
        layout=layout,
        device=device,
        requires_grad=requires_grad,
    )


@api_boundary
def hamming(
    M: int,
    *,
    sym: bool = True,
    dtype: ScalarType | None = None,
    layout: Layout | None = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
) -> Tensor:
    """Compute a Hamming window: 0.54 - 0.46 cos(2 pi n / (M - 1)) (`torch.signal.windows.hamming`).

    Args:
        M: The number of elements of the window.
        sym: If True, the window is symmetric; if False, it is periodic: the first M elements of a symmetric window of
            M + 1. Default: True.
        dtype: float32 or float64. Default: `tt.get_default_dtype()`.
        layout: `tt.strided`, the only supported layout.
        device: The result's device. Default: `tt.get_default_device()`.
        requires_grad: If True, autograd records operations on the result. Default: False.

    Returns:
        A vector of M elements.

    Raises:
        ValueError: `M` is negative, or `dtype` or `layout` is not supported.

    Example:
        >>> import triten as tt
        >>> tt.signal.windows.hamming(3)
        tensor([0.0800, 1.0000, 0.0800])
    """
    return general_hamming(M, sym=sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad)


@api_boundary
def hann(
    M: int,
    *,
    sym: bool = True,
    dtype: ScalarType | None = None,
    layout: Layout | None = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
) -> Tensor:
    """Compute a Hann window: (1 - cos(2 pi n / (M - 1))) / 2 (`torch.signal.windows.hann`).

    Args:
        M: The number of elements of the window.
        sym: If True, the window is symmetric; if False, it is periodic: the first M elements of a symmetric window of
            M + 1. Default: True.
        dtype: float32 or float64. Default: `tt.get_default_dtype()`.
        layout: `tt.strided`, the only supported layout.
        device: The result's device. Default: `tt.get_default_device()`.
        requires_grad: If True, autograd records operations on the result. Default: False.

    Returns:
        A vector of M elements.

    Raises:
        ValueError: `M` is negative, or `dtype` or `layout` is not supported.

    Example:
        >>> import triten as tt
        >>> tt.signal.windows.hann(3)
        tensor([0., 1., 0.])
    """
    return general_hamming(
        M, alpha=0.5, sym=sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad
    )


@api_boundary
def blackman(
    M: int,
    *,
    sym: bool = True,
    dtype: ScalarType | None = None,
    layout: Layout | None = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
) -> Tensor:
    """Compute a Blackman window: 0.42 - 0.5 cos(2 pi n / (M - 1)) + 0.08 cos(4 pi n / (M - 1)).

    Counterpart of `torch.signal.windows.blackman`.

    Args:
        M: The number of elements of the window.
        sym: If True, the window is symmetric; if False, it is periodic: the first M elements of a symmetric window of
            M + 1. Default: True.
        dtype: float32 or float64. Default: `tt.get_default_dtype()`.
        layout: `tt.strided`, the only supported layout.
        device: The result's device. Default: `tt.get_default_device()`.
        requires_grad: If True, autograd records operations on the result. Default: False.

    Returns:
        A vector of M elements.

    Raises:
        ValueError: `M` is negative, or `dtype` or `layout` is not supported.

    Example:
        >>> import triten as tt
        >>> float(tt.signal.windows.blackman(5)[1]) > 0.33
        True
    """
    window = _Window("blackman", M, dtype, layout, device, requires_grad)
    return _sum_of_cosines(window, [0.42, 0.5, 0.08], M, sym)


@api_boundary
def bartlett(
    M: int,
    *,
    sym: bool = True,
    dtype: ScalarType | None = None,
    layout: Layout | None = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
) -> Tensor:
    """Compute a Bartlett (triangular) window: 1 - |2 n / (M - 1) - 1| (`torch.signal.windows.bartlett`).

    Args:
        M: The number of elements of the window.
        sym: If True, the window is symmetric; if False, it is periodic: the first M elements of a symmetric window of
            M + 1. Default: True.
        dtype: float32 or float64. Default: `tt.get_default_dtype()`.
        layout: `tt.strided`, the only supported layout.
        device: The result's device. Default: `tt.get_default_device()`.
        requires_grad: If True, autograd records operations on the result. Default: False.

    Returns:
        A vector of M elements.

    Raises:
        ValueError: `M` is negative, or `dtype` or `layout` is not supported.

    Example:
        >>> import triten as tt
        >>> tt.signal.windows.bartlett(3)
        tensor([0., 1., 0.])
    """
    window = _Window("bartlett", M, dtype, layout, device, requires_grad)
    if M in (0, 1):
        return window.constant(int(M))
    return window.finished(1 - window.points(-1, -1 + (M - 1) * (2 / (M - 1 if sym else M))).abs())


@api_boundary
def nuttall(
    M: int,
    *,
    sym: bool = True,
    dtype: ScalarType | None = None,
    layout: Layout | None = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
) -> Tensor:
    """Compute a Nuttall window, a sum of four cosines with small side lobes (`torch.signal.windows.nuttall`).

    Args:
        M: The number of elements of the window.
        sym: If True, the window is symmetric; if False, it is periodic: the first M elements of a symmetric window of
            M + 1. Default: True.
        dtype: float32 or float64. Default: `tt.get_default_dtype()`.
        layout: `tt.strided`, the only supported layout.
        device: The result's device. Default: `tt.get_default_device()`.
        requires_grad: If True, autograd records operations on the result. Default: False.

    Returns:
        A vector of M elements.

    Raises:
        ValueError: `M` is negative, or `dtype` or `layout` is not supported.

    References:
        Nuttall, Some windows with very good sidelobe behavior (1981).

    Example:
        >>> import triten as tt
        >>> round(float(tt.signal.windows.nuttall(5)[2]), 4)
        1.0
    """
    window = _Window("nuttall", M, dtype, layout, device, requires_grad)
    return _sum_of_cosines(window, [0.3635819, 0.4891775, 0.1365995, 0.0106411], M, sym)
