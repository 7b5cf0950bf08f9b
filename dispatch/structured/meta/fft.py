"""Meta functions of Fourier transforms (ATen/native/SpectralOps.cpp)."""

from __future__ import annotations

from collections.abc import Sequence

from ....runtime.tensor_spec import TensorSpec
from ..meta_base import MetaBase

NORMS = ("none", "by_root_n", "by_n")
"""ATen's `fft_norm_mode`: what the sums are divided by."""


def norm_of(normalization: int, inverse: bool) -> str:
    """The same as NumPy has it, for a transform that it calls inverse or not."""
    return (
        {0: "forward", 1: "ortho", 2: "backward"}[normalization]
        if inverse
        else {
            0: "backward",
            1: "ortho",
            2: "forward",
        }[normalization]
    )


def _set(
    meta: MetaBase,
    self: TensorSpec,
    sizes: Sequence[int],
    dim: Sequence[int],
    inverse: bool,
    mode: int,
    real: bool,
) -> None:
    dtype = self.dtype.to_real() if real else self.dtype.to_complex()
    meta.extra["dims"] = tuple(d % self.ndim for d in dim)
    meta.extra["inverse"] = inverse
    meta.extra["norm"] = norm_of(mode, inverse)
    meta.set_output_contiguous(0, tuple(sizes), dtype=dtype)


def _fft_r2c(
    meta: MetaBase, self: TensorSpec, dim: Sequence[int], normalization: int, onesided: bool
) -> None:
    """Real to complex; with `onesided` the last of `dim` has only its first half and the middle."""
    if not self.dtype.is_floating_point:
        raise RuntimeError(f"_fft_r2c: expected a real floating tensor, got {self.dtype.scalar_name}")
    sizes = list(self.sizes)
    if onesided:
        sizes[dim[-1]] = sizes[dim[-1]] // 2 + 1
    _set(meta, self, sizes, dim, False, normalization, real=False)


def _fft_c2r(
    meta: MetaBase, self: TensorSpec, dim: Sequence[int], normalization: int, last_dim_size: int
) -> None:
    """The first half of a Hermitian transform to its `last_dim_size` real numbers along the last of `dim`."""
    if not self.dtype.is_complex:
        raise RuntimeError(f"_fft_c2r: expected a complex tensor, got {self.dtype.scalar_name}")
    sizes = list(self.sizes)
    sizes[dim[-1]] = last_dim_size
    _set(meta, self, sizes, dim, True, normalization, real=True)


def _fft_c2c(meta: MetaBase, self: TensorSpec, dim: Sequence[int], normalization: int, forward: bool) -> None:
    """Complex to complex, in both directions."""
    if not self.dtype.is_complex:
        raise RuntimeError(f"_fft_c2c: expected a complex tensor, got {self.dtype.scalar_name}")
    _set(meta, self, self.sizes, dim, not forward, normalization, real=False)
