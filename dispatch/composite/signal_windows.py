"""`torch.hann_window` and similar windows over a signal (ATen/native/TensorFactories.cpp).

A periodic window is a symmetric window of one more element, without its last.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...runtime.scalar_type import dtype as ScalarType
from ...runtime.scalar_type import get_default_dtype
from ..generated import functions as ops
from ..structured.meta.factories import is_sparse

if TYPE_CHECKING:
    from ...runtime.device import device as Device
    from ...runtime.layout import layout as Layout
    from ..tensor import Tensor


def _window(
    name: str,
    shape: Callable[[Any, int], Any],
    length: int,
    periodic: bool,
    dtype: ScalarType | None,
    layout: Layout | None,
    device: Device | None,
    pin: bool | None,
) -> Tensor:
    """Return ``shape(0, 1, 2, ..., number of elements)``. Raises RuntimeError for integers and for a negative
    length.
    """
    if is_sparse(layout):
        raise RuntimeError(f"{name} is not implemented for sparse types, got: {layout}")
    dtype = get_default_dtype() if dtype is None else dtype
    if not (dtype.is_floating_point or dtype.is_complex):
        raise RuntimeError(f"{name} expects floating point dtypes, got: {dtype}")
    if length < 0:
        raise RuntimeError(f"{name} requires non-negative window_length, got window_length={length}")
    if length < 2:
        return ops.ones(length, dtype=dtype, device=device, pin_memory=pin)
    whole = length + periodic
    # Count in float32 for 16-bit floats, which cannot represent every integer.
    wide = dtype if dtype.itemsize > 2 else get_default_dtype()
    made: Tensor = shape(ops.arange(whole, dtype=wide, device=device), whole)
    made = made.narrow(0, 0, length).to(dtype) if periodic else made.to(dtype)
    return made.pin_memory() if pin else made


def hamming_window(window_length: int, *rest: Any) -> Any:
    """Compute alpha - beta cos(2 pi n / (N - 1))."""
    *options, dtype, layout, device, pin = rest
    usual: list[Any] = [True, 0.54, 0.46]
    periodic, alpha, beta = options + usual[len(options) :]
    return _window(
        "hamming_window", _cosine(alpha, beta), window_length, periodic, dtype, layout, device, pin
    )


def _cosine(alpha: float, beta: float) -> Callable[[Any, int], Any]:
    return lambda n, whole: (n * (2 * math.pi / (whole - 1))).cos() * -beta + alpha


def hann_window(window_length: int, *rest: Any) -> Tensor:
    """Compute (1 - cos(2 pi n / (N - 1))) / 2."""
    *options, dtype, layout, device, pin = rest
    return _window(
        "hann_window", _cosine(0.5, 0.5), window_length, (*options, True)[0], dtype, layout, device, pin
    )


def blackman_window(window_length: int, *rest: Any) -> Tensor:
    """Compute 0.42 - 0.5 cos(2 pi n / (N - 1)) + 0.08 cos(4 pi n / (N - 1))."""
    *options, dtype, layout, device, pin = rest

    def shape(n: Tensor, whole: int) -> Tensor:
        angle = n * (math.pi / (whole - 1))
        return (angle * 4).cos() * 0.08 - (angle * 2).cos() * 0.5 + 0.42

    return _window("blackman_window", shape, window_length, (*options, True)[0], dtype, layout, device, pin)


def bartlett_window(window_length: int, *rest: Any) -> Tensor:
    """Compute a triangular window."""
    *options, dtype, layout, device, pin = rest

    def shape(n: Tensor, whole: int) -> Tensor:
        return 1 - (n * (2.0 / (whole - 1)) - 1).abs()

    return _window("bartlett_window", shape, window_length, (*options, True)[0], dtype, layout, device, pin)


def kaiser_window(window_length: int, *rest: Any) -> Tensor:
    """Compute I0(beta sqrt(1 - ((2 n - N + 1) / (N - 1))^2)) / I0(beta)."""
    *options, dtype, layout, device, pin = rest
    usual: list[Any] = [True, 12.0]
    periodic, beta = options + usual[len(options) :]

    def shape(n: Tensor, whole: int) -> Tensor:
        half = (whole - 1) / 2
        inside = (1 - ((n - half) / half) ** 2).clamp(min=0)
        return ops.i0(inside.sqrt() * beta) / ops.i0(ops.full((), beta, dtype=n.dtype, device=device))

    return _window("kaiser_window", shape, window_length, periodic, dtype, layout, device, pin)
