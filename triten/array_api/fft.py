"""Fourier transforms of the standard (its extension `fft`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

from ..dispatch.generated import functions
from ..runtime.device import device as Device
from ..runtime.scalar_type import dtype as ScalarType

if TYPE_CHECKING:
    from ..dispatch.tensor import Tensor

__all__ = [
    "fft",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "ifft",
    "ifftn",
    "ifftshift",
    "ihfft",
    "irfft",
    "irfftn",
    "rfft",
    "rfftfreq",
    "rfftn",
]

Norm: TypeAlias = Literal["backward", "ortho", "forward"]


def fft(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """Compute the discrete Fourier transform along an axis.

    Args:
        x: An array of a complex floating-point dtype.
        n: Length of the transform, to which the input is trimmed or zero-padded; for real results, their length.
        axis: The axis.
        norm: Direction that divides by the length: ``"backward"``, ``"forward"``, or ``"ortho"`` for its root in both.

    Returns:
        An array of the same precision.

    Source: https://data-apis.org/array-api/2025.12/extensions/generated/array_api.fft.fft.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.fft.fft(xp.asarray([1 + 0j, 0, 0]))
        tensor([1.+0.j, 1.+0.j, 1.+0.j])
    """
    return functions.fft_fft(x, n, axis, norm)


def ifft(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """Compute the inverse discrete Fourier transform along an axis.

    Args:
        x: An array of a complex floating-point dtype.
        n: Length of the transform, to which the input is trimmed or zero-padded; for real results, their length.
        axis: The axis.
        norm: Direction that divides by the length: ``"backward"``, ``"forward"``, or ``"ortho"`` for its root in both.

    Returns:
        An array of the same precision.

    Source: https://data-apis.org/array-api/2025.12/extensions/generated/array_api.fft.ifft.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.fft.ifft(xp.asarray([3 + 0j, 0, 0]))
        tensor([1.+0.j, 1.+0.j, 1.+0.j])
    """
    return functions.fft_ifft(x, n, axis, norm)


def rfft(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """Compute the non-negative frequencies of real input's discrete Fourier transform along an axis.

    Args:
        x: An array of a real floating-point dtype.
        n: Length of the transform, to which the input is trimmed or zero-padded; for real results, their length.
        axis: The axis.
        norm: Direction that divides by the length: ``"backward"``, ``"forward"``, or ``"ortho"`` for its root in both.

    Returns:
        An array of the same precision.

    Source: https://data-apis.org/array-api/2025.12/extensions/generated/array_api.fft.rfft.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.fft.rfft(xp.asarray([1.0, 0.0, 0.0]))
        tensor([1.+0.j, 1.+0.j])
    """
    return functions.fft_rfft(x, n, axis, norm)


def irfft(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """Compute the real inverse of `rfft`.

    Args:
        x: An array of a complex floating-point dtype.
        n: Length of the transform, to which the input is trimmed or zero-padded; for real results, their length.
        axis: The axis.
        norm: Direction that divides by the length: ``"backward"``, ``"forward"``, or ``"ortho"`` for its root in both.

    Returns:
        An array of the same precision.

    Source: https://data-apis.org/array-api/2025.12/extensions/generated/array_api.fft.irfft.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.fft.irfft(xp.asarray([2 + 0j, 0]))
        tensor([1., 1.])
    """
    return functions.fft_irfft(x, n, axis, norm)


def hfft(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """Compute the real discrete Fourier transform of a signal that is symmetric about 0.

    Args:
        x: An array of a complex floating-point dtype.
        n: Length of the transform, to which the input is trimmed or zero-padded; for real results, their length.
        axis: The axis.
        norm: Direction that divides by the length: ``"backward"``, ``"forward"``, or ``"ortho"`` for its root in both.

    Returns:
        An array of the same precision.

    Source: https://data-apis.org/array-api/2025.12/extensions/generated/array_api.fft.hfft.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.fft.hfft(xp.asarray([1 + 0j, 0]))
        tensor([1., 1.])
    """
    return functions.fft_hfft(x, n, axis, norm)


def ihfft(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """Compute the inverse of `hfft`.

    Args:
        x: An array of a real floating-point dtype.
        n: Length of the transform, to which the input is trimmed or zero-padded; for real results, their length.
        axis: The axis.
        norm: Direction that divides by the length: ``"backward"``, ``"forward"``, or ``"ortho"`` for its root in both.

    Returns:
        An array of the same precision.

    Source: https://data-apis.org/array-api/2025.12/extensions/generated/array_api.fft.ihfft.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.fft.ihfft(xp.asarray([2.0, 2.0]))
        tensor([2.+0.j, 0.+0.j])
    """
    return functions.fft_ihfft(x, n, axis, norm)


def fftn(
    x: Tensor,
    /,
    *,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: Norm = "backward",
) -> Tensor:
    """Compute the discrete Fourier transform over several axes.

    Args:
        x: An array of a complex floating-point dtype.
        s: Length of the transform along each axis.
        axes: Axes of the transform. Default: all, or the last ones, as many as `s` has.
        norm: Direction that divides by the number of elements.

    Returns:
        An array of the same precision.

    Source: https://data-apis.org/array-api/2025.12/extensions/generated/array_api.fft.fftn.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.fft.fftn(xp.ones((2, 2), dtype=xp.complex64))
        tensor([[4.+0.j, 0.+0.j],
                [0.+0.j, 0.+0.j]])
    """
    return _over_axes(functions.fft_fftn, x, s, axes, norm)


def ifftn(
    x: Tensor,
    /,
    *,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: Norm = "backward",
) -> Tensor:
    """Compute the inverse discrete Fourier transform over several axes.

    Args:
        x: An array of a complex floating-point dtype.
        s: Length of the transform along each axis.
        axes: Axes of the transform. Default: all, or the last ones, as many as `s` has.
        norm: Direction that divides by the number of elements.

    Returns:
        An array of the same precision.

    Source: https://data-apis.org/array-api/2025.12/extensions/generated/array_api.fft.ifftn.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.fft.ifftn(xp.ones((2, 2), dtype=xp.complex64))
        tensor([[1.+0.j, 0.+0.j],
                [0.+0.j, 0.+0.j]])
    """
    return _over_axes(functions.fft_ifftn, x, s, axes, norm)


def rfftn(
    x: Tensor,
    /,
    *,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: Norm = "backward",
) -> Tensor:
    """Compute the discrete Fourier transform of real input over several axes.

    Args:
        x: An array of a real floating-point dtype.
        s: Length of the transform along each axis.
        axes: Axes of the transform. Default: all, or the last ones, as many as `s` has.
        norm: Direction that divides by the number of elements.

    Returns:
        An array of the same precision.

    Source: https://data-apis.org/array-api/2025.12/extensions/generated/array_api.fft.rfftn.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.fft.rfftn(xp.ones((2, 2)))
        tensor([[4.-0.j, 0.-0.j],
                [0.-0.j, 0.-0.j]])
    """
    return _over_axes(functions.fft_rfftn, x, s, axes, norm)


def irfftn(
    x: Tensor,
    /,
    *,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: Norm = "backward",
) -> Tensor:
    """Compute the real inverse of `rfftn`.

    Args:
        x: An array of a complex floating-point dtype.
        s: Length of the transform along each axis.
        axes: Axes of the transform. Default: all, or the last ones, as many as `s` has.
        norm: Direction that divides by the number of elements.

    Returns:
        An array of the same precision.

    Source: https://data-apis.org/array-api/2025.12/extensions/generated/array_api.fft.irfftn.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.fft.irfftn(xp.ones((2, 2), dtype=xp.complex64))
        tensor([[1., 0.],
                [0., 0.]])
    """
    return _over_axes(functions.fft_irfftn, x, s, axes, norm)


def _over_axes(
    function: Callable[..., Tensor],
    x: Tensor,
    s: Sequence[int] | None,
    axes: Sequence[int] | None,
    norm: Norm,
) -> Tensor:
    return function(x, None if s is None else list(s), None if axes is None else list(axes), norm)


def fftfreq(
    n: int, /, *, d: float = 1.0, dtype: ScalarType | None = None, device: Device | str | None = None
) -> Tensor:
    """Return the frequencies of `fft`, in cycles per unit of the sample spacing.

    Args:
        n: Length of the transform.
        d: Sample spacing. Default: 1.
        dtype: Dtype of the result. Default: the default floating dtype.
        device: Device of the array. Default: the default device.

    Returns:
        An array of one dimension.

    Source: https://data-apis.org/array-api/2025.12/extensions/generated/array_api.fft.fftfreq.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.fft.fftfreq(4)
        tensor([ 0.0000,  0.2500, -0.5000, -0.2500])
    """
    return functions.fft_fftfreq(n, d, dtype=dtype, device=device)


def rfftfreq(
    n: int, /, *, d: float = 1.0, dtype: ScalarType | None = None, device: Device | str | None = None
) -> Tensor:
    """Return the frequencies of `rfft`, in cycles per unit of the sample spacing.

    Args:
        n: Length of the transform.
        d: Sample spacing. Default: 1.
        dtype: Dtype of the result. Default: the default floating dtype.
        device: Device of the array. Default: the default device.

    Returns:
        An array of one dimension.

    Source: https://data-apis.org/array-api/2025.12/extensions/generated/array_api.fft.rfftfreq.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.fft.rfftfreq(4)
        tensor([0.0000, 0.2500, 0.5000])
    """
    return functions.fft_rfftfreq(n, d, dtype=dtype, device=device)


def fftshift(x: Tensor, /, *, axes: int | Sequence[int] | None = None) -> Tensor:
    """Shift the zero frequency to the middle, so that frequencies ascend.

    Args:
        x: An array.
        axes: Axes to shift. Default: all.

    Returns:
        An array of `x`'s shape.

    Source: https://data-apis.org/array-api/2025.12/extensions/generated/array_api.fft.fftshift.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.fft.fftshift(xp.asarray([0, 1, -2, -1]))
        tensor([-2, -1,  0,  1])
    """
    return functions.fft_fftshift(x, axes if axes is None or isinstance(axes, int) else list(axes))


def ifftshift(x: Tensor, /, *, axes: int | Sequence[int] | None = None) -> Tensor:
    """Compute the inverse of `fftshift`.

    Args:
        x: An array.
        axes: Axes to shift. Default: all.

    Returns:
        An array of `x`'s shape.

    Source: https://data-apis.org/array-api/2025.12/extensions/generated/array_api.fft.ifftshift.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.fft.ifftshift(xp.asarray([-2, -1, 0, 1]))
        tensor([ 0,  1, -2, -1])
    """
    return functions.fft_ifftshift(x, axes if axes is None or isinstance(axes, int) else list(axes))
