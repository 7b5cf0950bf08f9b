"""`torch.fft`: the transforms by three operators (ATen/native/SpectralOps.cpp)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ...runtime.scalar_type import dtype as ScalarType
from ...runtime.scalar_type import get_default_dtype
from ..generated import functions as ops
from ..plans.host_kernel import host_kernel
from ..structured.meta.dims import wrap_dim
from ..structured.resizing import resize_to_length
from .forms import write_out
from .signal_windows import bartlett_window as bartlett_window
from .signal_windows import blackman_window as blackman_window
from .signal_windows import hamming_window as hamming_window
from .signal_windows import hann_window as hann_window
from .signal_windows import kaiser_window as kaiser_window
from .stft import istft as istft
from .stft import stft as stft
from .stft import stft_center as stft_center

if TYPE_CHECKING:
    from ...runtime.device import device as Device
    from ...runtime.layout import layout as Layout
    from ..tensor import Tensor

NONE, BY_ROOT_N, BY_N = 0, 1, 2


def normalization_of(norm: str | None, forward: bool) -> int:
    """Return ATen's number of a normalization mode. Raises RuntimeError for an unknown mode."""
    if norm is None or norm == "backward":
        return NONE if forward else BY_N
    if norm == "forward":
        return BY_N if forward else NONE
    if norm == "ortho":
        return BY_ROOT_N
    raise RuntimeError(f'Invalid normalization mode: "{norm}"')


def promoted(self: Tensor, require_complex: bool) -> Tensor:
    """Return the tensor in a dtype that FFTs support; integers become the default dtype. Raises RuntimeError otherwise.

    Raises RuntimeError otherwise.
    """
    dtype = self._spec.dtype
    if dtype.is_complex:
        return self
    if not dtype.is_floating_point:
        dtype = get_default_dtype()
    if dtype.name not in ("float32", "float64"):
        raise RuntimeError(f"Unsupported dtype {dtype.scalar_name}")
    return self.to(dtype.to_complex() if require_complex else dtype)


def resized(self: Tensor, dims: Sequence[int], sizes: Sequence[int]) -> Tensor:
    """Crop or zero-pad each of `dims` to its size; -1 leaves it unchanged."""
    own_sizes = self._spec.sizes
    pad = [0] * (2 * len(own_sizes))
    for dim, n in zip(dims, sizes, strict=True):
        if n == -1:
            continue
        if own_sizes[dim] < n:
            pad[2 * (len(own_sizes) - 1 - dim) + 1] = n - own_sizes[dim]
        elif own_sizes[dim] > n:
            self = self.narrow(dim, 0, n)
    return ops.constant_pad_nd(self, pad) if any(pad) else self


def _check_points(n: int) -> None:
    if n < 1:
        raise RuntimeError(f"Invalid number of data points ({n}) specified")


def _one_dim(self: Tensor, dim: int) -> int:
    return wrap_dim(dim, self._spec.ndim, scalar_ok=False)


def _real_input(name: str, self: Tensor) -> None:
    if self._spec.dtype.is_complex:
        raise RuntimeError(f"{name} expects a real input tensor, but got {self._spec.dtype.scalar_name}")


def _c2r(self: Tensor, n: int | None, dim: int, norm: str | None, forward: bool) -> Tensor:
    self = promoted(self, require_complex=True)
    dim = _one_dim(self, dim)
    size = 2 * (self._spec.sizes[dim] - 1) if n is None else n
    _check_points(size)
    if n is not None:
        self = resized(self, [dim], [size // 2 + 1])
    mode = normalization_of(norm, forward)
    return ops._fft_c2r(ops.conj_physical(self) if forward else self, [dim], mode, size)


def _r2c(
    name: str, self: Tensor, n: int | None, dim: int, norm: str | None, forward: bool, onesided: bool
) -> Tensor:
    _real_input(name, self)
    self = promoted(self, require_complex=False)
    dim = _one_dim(self, dim)
    _check_points(self._spec.sizes[dim] if n is None else n)
    if n is not None:
        self = resized(self, [dim], [n])
    made = ops._fft_r2c(self, [dim], normalization_of(norm, forward), onesided)
    return made if forward else ops.conj_physical(made)


def _c2c(self: Tensor, n: int | None, dim: int, norm: str | None, forward: bool) -> Tensor:
    dim = _one_dim(self, dim)
    _check_points(self._spec.sizes[dim] if n is None else n)
    if n is not None:
        self = resized(self, [dim], [n])
    return ops._fft_c2c(self, [dim], normalization_of(norm, forward), forward)


@host_kernel("fft_fft", "_fft_c2c", "_fft_r2c")
def fft_fft(self: Tensor, n: int | None, dim: int, norm: str | None) -> Tensor:
    """Compute `torch.fft.fft`."""
    if self._spec.dtype.is_complex:
        return _c2c(self, n, dim, norm, True)
    return _r2c("fft", self, n, dim, norm, forward=True, onesided=False)


@host_kernel("fft_ifft", "_fft_c2c", "_fft_r2c")
def fft_ifft(self: Tensor, n: int | None, dim: int, norm: str | None) -> Tensor:
    """Compute `torch.fft.ifft`."""
    if self._spec.dtype.is_complex:
        return _c2c(self, n, dim, norm, False)
    return _r2c("ifft", self, n, dim, norm, forward=False, onesided=False)


@host_kernel("fft_rfft", "_fft_r2c")
def fft_rfft(self: Tensor, n: int | None, dim: int, norm: str | None) -> Tensor:
    """Compute `torch.fft.rfft`."""
    return _r2c("rfft", self, n, dim, norm, forward=True, onesided=True)


@host_kernel("fft_irfft", "_fft_c2r")
def fft_irfft(self: Tensor, n: int | None, dim: int, norm: str | None) -> Tensor:
    """Compute `torch.fft.irfft`."""
    return _c2r(self, n, dim, norm, forward=False)


@host_kernel("fft_hfft", "_fft_c2r")
def fft_hfft(self: Tensor, n: int | None, dim: int, norm: str | None) -> Tensor:
    """Compute `torch.fft.hfft`."""
    return _c2r(self, n, dim, norm, forward=True)


@host_kernel("fft_ihfft", "_fft_r2c")
def fft_ihfft(self: Tensor, n: int | None, dim: int, norm: str | None) -> Tensor:
    """Compute `torch.fft.ihfft`."""
    return _r2c("ihfft", self, n, dim, norm, forward=False, onesided=True)


def shape_and_dims(
    self: Tensor, s: Sequence[int] | None, dim: Sequence[int] | None
) -> tuple[list[int], list[int]]:
    """Return the sizes and the dimensions of a multidimensional transform. Raises RuntimeError or IndexError."""
    sizes = self._spec.sizes
    rank = len(sizes)
    dims: list[int] | None = None
    if dim is not None:
        dims = [wrap_dim(d, rank, scalar_ok=False) for d in dim]
        if len(set(dims)) != len(dims):
            raise RuntimeError("FFT dims must be unique")
    if s is not None:
        if dims is None:
            if len(s) > rank:
                raise RuntimeError(
                    f"Got shape with {len(s)} values but input tensor only has {rank} dimensions."
                )
            dims = list(range(rank - len(s), rank))
        elif len(dims) != len(s):
            raise RuntimeError("When given, dim and shape arguments must have the same length")
        shape = [sizes[d] if n == -1 else n for d, n in zip(dims, s, strict=True)]
    else:
        dims = list(range(rank)) if dims is None else dims
        shape = [sizes[d] for d in dims]
    for n in shape:
        _check_points(n)
    return shape, dims


def _half_shape(
    name: str, self: Tensor, s: Sequence[int] | None, dim: Sequence[int] | None
) -> tuple[list[int], list[int], int]:
    """Return `shape_and_dims` of a transform halved along the last dimension, and the full size of that dimension."""
    shape, dims = shape_and_dims(self, s, dim)
    if not shape:
        raise RuntimeError(f"{name} must transform at least one axis")
    whole = shape[-1] if s is not None and s[-1] != -1 else 2 * (self._spec.sizes[dims[-1]] - 1)
    _check_points(whole)
    return [*shape[:-1], whole // 2 + 1], dims, whole


def _c2c_over(
    self: Tensor, s: Sequence[int] | None, dim: Sequence[int] | None, norm: str | None, forward: bool
) -> Tensor:
    shape, dims = shape_and_dims(self, s, dim)
    self = resized(promoted(self, require_complex=True), dims, shape)
    return ops._fft_c2c(self, dims, normalization_of(norm, forward), forward)


@host_kernel("fft_fftn", "_fft_c2c")
def fft_fftn(self: Tensor, s: Sequence[int] | None, dim: Sequence[int] | None, norm: str | None) -> Tensor:
    """Compute `torch.fft.fftn`."""
    return _c2c_over(self, s, dim, norm, True)


@host_kernel("fft_ifftn", "_fft_c2c")
def fft_ifftn(self: Tensor, s: Sequence[int] | None, dim: Sequence[int] | None, norm: str | None) -> Tensor:
    """Compute `torch.fft.ifftn`."""
    return _c2c_over(self, s, dim, norm, False)


@host_kernel("fft_rfftn", "_fft_r2c")
def fft_rfftn(self: Tensor, s: Sequence[int] | None, dim: Sequence[int] | None, norm: str | None) -> Tensor:
    """Compute `torch.fft.rfftn`."""
    if self._spec.dtype.is_complex:
        raise RuntimeError(
            f"rfftn expects a real-valued input tensor, but got {self._spec.dtype.scalar_name}"
        )
    shape, dims = shape_and_dims(self, s, dim)
    if not shape:
        raise RuntimeError("rfftn must transform at least one axis")
    self = resized(promoted(self, require_complex=False), dims, shape)
    return ops._fft_r2c(self, dims, normalization_of(norm, True), True)


@host_kernel("fft_irfftn", "_fft_c2r")
def fft_irfftn(self: Tensor, s: Sequence[int] | None, dim: Sequence[int] | None, norm: str | None) -> Tensor:
    """Compute `torch.fft.irfftn`."""
    shape, dims, whole = _half_shape("irfftn", self, s, dim)
    self = resized(promoted(self, require_complex=True), dims, shape)
    return ops._fft_c2r(self, dims, normalization_of(norm, False), whole)


@host_kernel("fft_hfftn", "_fft_c2c", "_fft_c2r")
def fft_hfftn(self: Tensor, s: Sequence[int] | None, dim: Sequence[int] | None, norm: str | None) -> Tensor:
    """Compute `torch.fft.hfftn`: a forward transform over all dimensions but the last, which is Hermitian."""
    shape, dims, whole = _half_shape("hfftn", self, s, dim)
    self = resized(promoted(self, require_complex=True), dims, shape)
    mode = normalization_of(norm, True)
    if len(dims) > 1:
        self = ops._fft_c2c(self, dims[:-1], mode, True)
    return ops._fft_c2r(ops.conj_physical(self), [dims[-1]], mode, whole)


@host_kernel("fft_ihfftn", "_fft_c2c", "_fft_r2c")
def fft_ihfftn(self: Tensor, s: Sequence[int] | None, dim: Sequence[int] | None, norm: str | None) -> Tensor:
    """Compute `torch.fft.ihfftn`: the inverse of `hfftn`."""
    shape, dims = shape_and_dims(self, s, dim)
    if self._spec.dtype.is_complex:
        raise RuntimeError(
            f"ihfftn expects a real-valued input tensor, but got {self._spec.dtype.scalar_name}"
        )
    if not shape:
        raise RuntimeError("ihfftn must transform at least one axis")
    self = resized(promoted(self, require_complex=False), dims, shape)
    mode = normalization_of(norm, False)
    made = ops.conj_physical(ops._fft_r2c(self, [dims[-1]], mode, True))
    return ops._fft_c2c(made, dims[:-1], mode, False) if len(dims) > 1 else made


fft_fft2, fft_ifft2, fft_rfft2 = fft_fftn, fft_ifftn, fft_rfftn
fft_irfft2, fft_hfft2, fft_ihfft2 = fft_irfftn, fft_hfftn, fft_ihfftn


def _into(function: Callable[..., Any], *, exact: bool = False, real: bool = False) -> Callable[..., Any]:
    """Return the ``out=`` form. If `exact`, do not cast a real input's transform; if `real`, do not cast to complex."""
    name = function.__name__.removeprefix("fft_").replace("2", "n")

    def out_form(self: Tensor, size: Any, dim: Any, norm: str | None, out: Tensor) -> Tensor:
        dtype = out._spec.dtype
        if real and not dtype.is_floating_point:
            if name.endswith("n"):
                shape_and_dims(self, size, dim)  # checked first
            raise RuntimeError(f"{name} expects a floating point output tensor, but got {dtype.scalar_name}")
        if not real and not name.endswith("n") and not dtype.is_complex:
            raise RuntimeError(f"{name} expects a complex output tensor, but got {dtype.scalar_name}")
        result = function(self, size, dim, norm)
        return write_out(function.__name__, out, result, exact and not self._spec.dtype.is_complex)

    return out_form


fft_fft_out = _into(fft_fft)
fft_fft2_out = _into(fft_fft2)
fft_fftn_out = _into(fft_fftn)
fft_ifft_out = _into(fft_ifft, exact=True)
fft_ifft2_out = _into(fft_ifft2)
fft_ifftn_out = _into(fft_ifftn)
fft_rfft_out = _into(fft_rfft)
fft_rfft2_out = _into(fft_rfft2)
fft_rfftn_out = _into(fft_rfftn)
fft_irfft_out = _into(fft_irfft, real=True)
fft_irfft2_out = _into(fft_irfft2, real=True)
fft_irfftn_out = _into(fft_irfftn, real=True)
fft_hfft_out = _into(fft_hfft, real=True)
fft_hfft2_out = _into(fft_hfft2, real=True)
fft_hfftn_out = _into(fft_hfftn, real=True)
fft_ihfft_out = _into(fft_ihfft, exact=True)
fft_ihfft2_out = _into(fft_ihfft2)
fft_ihfftn_out = _into(fft_ihfftn)


def _shift_dims(self: Any, dim: Sequence[int] | None) -> list[int]:
    rank = self._spec.ndim
    return list(range(rank)) if dim is None else [wrap_dim(d, rank, scalar_ok=False) for d in dim]


@host_kernel("fft_fftshift", "roll")
def fft_fftshift(self: Tensor, dim: Sequence[int] | None) -> Tensor:
    """Compute `torch.fft.fftshift`: move the zero frequency to the middle."""
    dims = _shift_dims(self, dim)
    return ops.roll(self, [self.shape[d] // 2 for d in dims], dims)


@host_kernel("fft_ifftshift", "roll")
def fft_ifftshift(self: Tensor, dim: Sequence[int] | None) -> Tensor:
    """Compute `torch.fft.ifftshift`: move the zero frequency back to the front."""
    dims = _shift_dims(self, dim)
    return ops.roll(self, [(self.shape[d] + 1) // 2 for d in dims], dims)


def _frequency_dtype(name: str, dtype: ScalarType | None) -> ScalarType:
    """Return the dtype of frequencies: the default one, or a given floating or complex dtype."""
    if dtype is None:
        return get_default_dtype()
    if not (dtype.is_floating_point or dtype.is_complex):
        raise RuntimeError(f"{name} requires a floating point or complex dtype, got {dtype.scalar_name}")
    return dtype


def _step(n: int, d: float) -> float:
    """Return the spacing of two frequencies; infinite for zero sample spacing, so that frequency 0 becomes nan."""
    if not n:
        return math.nan
    return 1.0 / (n * d) if d else math.copysign(math.inf, d)


def _pinned(made: Tensor, pin_memory: bool | None) -> Tensor:
    return made.pin_memory() if pin_memory else made


def fft_fftfreq(
    n: int,
    d: float,
    dtype: ScalarType | None,
    layout: Layout | None,
    device: Device | None,
    pin_memory: bool | None,
) -> Tensor:
    """Return `torch.fft.fftfreq`: the frequencies of `n` samples with spacing `d`."""
    dtype = _frequency_dtype("fftfreq", dtype)
    made = ops.arange(n, dtype=dtype, layout=layout, device=device)
    if n > 0:
        half = (n + 1) // 2
        made = ops.where(ops.arange(n, device=device) >= half, made - n, made)
    return _pinned(made * _step(n, d), pin_memory)


def fft_fftfreq_out(n: int, d: float, out: Tensor) -> Tensor:
    """Run ``fft.fftfreq(out=)``."""
    made = fft_fftfreq(n, d, out._spec.dtype, None, out._spec.device, None)
    resize_to_length(out, n)
    return write_out("fft_fftfreq", out, made)


def fft_rfftfreq_out(n: int, d: float, out: Tensor) -> Tensor:
    """Run ``fft.rfftfreq(out=)``."""
    made = fft_rfftfreq(n, d, out._spec.dtype, None, out._spec.device, None)
    resize_to_length(out, n // 2 + 1)
    return write_out("fft_rfftfreq", out, made)


def fft_rfftfreq(
    n: int,
    d: float,
    dtype: ScalarType | None,
    layout: Layout | None,
    device: Device | None,
    pin_memory: bool | None,
) -> Tensor:
    """Return `torch.fft.rfftfreq`: the frequencies of `rfft`."""
    dtype = _frequency_dtype("rfftfreq", dtype)
    made = ops.arange(n // 2 + 1, dtype=dtype, layout=layout, device=device)
    return _pinned(made * _step(n, d), pin_memory)
