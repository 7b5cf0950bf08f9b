"""Meta functions of Fourier transforms (ATen/native/SpectralOps.cpp)."""

from __future__ import annotations

from collections.abc import Sequence

from ....runtime.memory_format import preserve_format, strides_for
from ....runtime.tensor_spec import TensorSpec
from ..meta_base import MetaBase
from .dims import wrap_dim

NORMS = ("none", "by_root_n", "by_n")
"""ATen's `fft_norm_mode`: the divisor of the sums."""


def norm_of(normalization: int, inverse: bool) -> str:
    """Return NumPy's normalization of a forward or inverse transform."""
    return (
        {0: "forward", 1: "ortho", 2: "backward"}[normalization]
        if inverse
        else {
            0: "backward",
            1: "ortho",
            2: "forward",
        }[normalization]
    )


def memory_order(strides: Sequence[int], dims: Sequence[int], halved: bool = False) -> tuple[int, ...]:
    """Return a result's dimensions from outermost to innermost in memory (ATen/native/mkl/SpectralOps.cpp).

    Untransformed dimensions come first, then `dims`, both by descending input stride. The last of `dims` stays last if
    it is `halved`. Equal strides are in exactly the order in which the C++ library leaves them.

    Example:
        >>> memory_order((20, 5, 1), [1])
        (0, 2, 1)
    """
    order = list(range(len(strides)))
    first, last = 0, len(order)
    while True:  # std::partition
        while first != last and order[first] not in dims:
            first += 1
        if first == last:
            break
        last -= 1
        while first != last and order[last] in dims:
            last -= 1
        if first == last:
            break
        order[first], order[last] = order[last], order[first]
        first += 1
    num_sorted = len(dims) - halved
    transformed = [*sorted(dims[:num_sorted], key=lambda d: -strides[d]), *dims[num_sorted:]]
    return (*sorted(order[:first], key=lambda d: -strides[d]), *transformed)


def strides_in(order: Sequence[int], sizes: Sequence[int]) -> tuple[int, ...]:
    """Return the strides of gapless memory with the dimensions in this order."""
    strides, step = [0] * len(sizes), 1
    for d in reversed(order):
        strides[d] = step
        step *= max(sizes[d], 1)
    return tuple(strides)


def result_order(
    sizes: Sequence[int], strides: Sequence[int], dims: Sequence[int], kind: str
) -> tuple[int, ...]:
    """Return the `memory_order` of ``c2c``, ``r2c`` or ``c2r`` for an input of these sizes and strides."""
    if kind == "c2r" and len(dims) > 1:
        # All dimensions but the last are transformed first, separately.
        strides = strides_in(memory_order(strides, dims[:-1]), sizes)
        dims = dims[-1:]
    return memory_order(strides, dims, halved=kind != "c2c")


def _set(
    meta: MetaBase,
    self: TensorSpec,
    sizes: Sequence[int],
    dim: Sequence[int],
    inverse: bool,
    mode: int,
    real: bool,
    kind: str,
) -> None:
    dtype = self.dtype.to_real() if real else self.dtype.to_complex()
    dims = tuple([d % self.ndim for d in dim])
    meta.extra["dims"] = dims
    meta.extra["inverse"] = inverse
    meta.extra["norm"] = norm_of(mode, inverse)
    if dims:
        order = result_order(self.sizes, self.strides, dims, kind)
        strides = strides_in(order, sizes)
    else:
        order = tuple(range(self.ndim))
        strides = strides_for(preserve_format, self.sizes, (self.sizes, self.strides))
    meta.extra["order"] = order
    meta.set_output_strided(0, tuple(sizes), strides, dtype=dtype)


def _check(meta: MetaBase, self: TensorSpec, dim: Sequence[int], normalization: int) -> None:
    """Raise IndexError for dimensions that the tensor does not have, and RuntimeError for invalid internal
    arguments.
    """
    dims = [wrap_dim(d, self.ndim, scalar_ok=False) for d in dim]
    if len(set(dims)) < len(dims):
        raise RuntimeError(f"{meta.name}: expected dim to name each dimension once, but got {list(dim)}")
    if not 0 <= normalization < len(NORMS):
        raise RuntimeError(f"{meta.name}: expected normalization of 0, 1 or 2, but got {normalization}")


def _fft_r2c(
    meta: MetaBase, self: TensorSpec, dim: Sequence[int], normalization: int, onesided: bool
) -> None:
    """Infer a real-to-complex transform; `onesided` keeps the first half and the middle of the last of `dim`."""
    if not self.dtype.is_floating_point:
        raise RuntimeError(f"_fft_r2c: expected a real floating tensor, got {self.dtype.scalar_name}")
    _check(meta, self, dim, normalization)
    sizes = list(self.sizes)
    if onesided and dim:
        sizes[dim[-1]] = sizes[dim[-1]] // 2 + 1
    _set(meta, self, sizes, dim, False, normalization, real=False, kind="r2c")


def _fft_c2r(
    meta: MetaBase, self: TensorSpec, dim: Sequence[int], normalization: int, last_dim_size: int
) -> None:
    """Infer the transform of a half Hermitian input to `last_dim_size` real numbers along the last of `dim`."""
    if not self.dtype.is_complex:
        raise RuntimeError(f"_fft_c2r: expected a complex tensor, got {self.dtype.scalar_name}")
    _check(meta, self, dim, normalization)
    if not dim or last_dim_size < 1:
        raise RuntimeError(
            f"_fft_c2r: expected dim to name a dimension and last_dim_size of 1 or more, but got {list(dim)} and "
            f"{last_dim_size}"
        )
    sizes = list(self.sizes)
    sizes[dim[-1]] = last_dim_size
    _set(meta, self, sizes, dim, True, normalization, real=True, kind="c2r")


def _fft_c2c(meta: MetaBase, self: TensorSpec, dim: Sequence[int], normalization: int, forward: bool) -> None:
    """Infer complex to complex, in both directions."""
    if not self.dtype.is_complex:
        raise RuntimeError(f"_fft_c2c: expected a complex tensor, got {self.dtype.scalar_name}")
    _check(meta, self, dim, normalization)
    _set(meta, self, self.sizes, dim, not forward, normalization, real=False, kind="c2c")
