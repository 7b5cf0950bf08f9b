"""Derivatives of Fourier transforms between real and complex numbers (torch FunctionsManual.cpp)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...generated import functions as ops

if TYPE_CHECKING:
    from ...tensor import Tensor


def fft_r2c_backward(
    grad: Tensor, dim: Sequence[int], normalization: int, onesided: bool, last_dim_size: int
) -> Tensor:
    """Return the real part of the inverse transform over the full dimension, with omitted frequencies zero."""
    if onesided:
        rank = len(grad.shape)
        last = dim[-1] % rank
        missing = last_dim_size - grad.shape[last]
        if missing > 0:
            grad = ops.constant_pad_nd(grad, [*(0, 0) * (rank - 1 - last), 0, missing])
    return ops.real(ops._fft_c2c(grad, dim, normalization, False))


def fft_c2r_backward(grad: Tensor, dim: Sequence[int], normalization: int) -> Tensor:
    """Return the forward transform; frequencies that represent a conjugate pair count twice."""
    made = ops._fft_r2c(grad, dim, normalization, True)
    last = dim[-1]
    n, half = grad.shape[last], made.shape[last]
    twice = n - half
    if twice <= 0:
        return made
    counts = ops.full([half], 1.0, dtype=grad.dtype, device=grad.device)
    counts = ops.where(_between(half, twice, grad), counts * 2, counts)
    rank = len(grad.shape)
    return made * counts.reshape([half if d == last % rank else 1 for d in range(rank)])


def _between(half: int, twice: int, grad: Tensor) -> Tensor:
    index = ops.arange(half, device=grad.device)
    return (index >= 1) & (index <= twice)
