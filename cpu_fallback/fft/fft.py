"""Fourier transforms by `scipy.fft` (pocketfft), in the precision of the operand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ...dispatch.structured.meta.fft import result_order, strides_in
from ...dispatch.structured.stub import (
    HostKernel,
    HostKernelFactory,
    PlannedKernel,
    StructuredCall,
    by_arguments,
    register_stub,
)
from ...runtime.device import CPU
from ...runtime.float_errors import quietly
from ...runtime.memory_format import strides_for
from ...runtime.tensor_spec import TensorSpec
from ..indexing.placement import rolled
from ..plain_numpy import np

DTYPES = frozenset({"float32", "float64", "complex64", "complex128"})
"""Dtypes that the library transforms in their own precision."""


def transform(call: StructuredCall) -> PlannedKernel:
    """Plan one call of the library; raise RuntimeError for float16, which it does not support."""
    from scipy import fft

    spec, out = call.args["self"], call.outputs[0]
    if spec.dtype.name not in DTYPES:
        raise RuntimeError(f"Unsupported dtype {spec.dtype.scalar_name}")
    dims, norm = call.extra["dims"], call.extra["norm"]
    inverse, empty = call.extra["inverse"], out.numel == 0
    halved = spec.sizes != out.sizes
    to_real = not out.dtype.is_complex
    sizes = tuple(out.sizes[d] for d in dims)
    order = call.extra["order"]
    dims = tuple(order.index(d) for d in dims)

    def into(target: Any, array: Any) -> None:
        if empty:
            return
        # The library makes a gapless result: in the order in which it is to lie.
        target, array = target.transpose(order), array.transpose(order)
        if not dims:
            made = array
        elif to_real:
            made = fft.irfftn(array, sizes, dims, norm)
        elif halved and not spec.dtype.is_complex:
            made = fft.rfftn(array, None, dims, norm)
        else:
            made = (fft.ifftn if inverse else fft.fftn)(array, None, dims, norm)
        np.copyto(target, made)

    return PlannedKernel(quietly(into))


for _name in ("_fft_r2c", "_fft_c2r", "_fft_c2c"):
    register_stub(f"{_name}_stub", "cpu", transform)


class Transform(NamedTuple):
    """Kind of a `torch.fft` transform: takes real input only, or has a Hermitian half on either side."""

    takes_real: bool = False
    from_half: bool = False
    to_half: bool = False
    half_first: bool = False
    """True if the dimension of the half is transformed before the others, on its own."""


TRANSFORMS = {
    "fft": Transform(),
    "ifft": Transform(),
    "rfft": Transform(takes_real=True, to_half=True),
    "irfft": Transform(from_half=True),
    "hfft": Transform(from_half=True),
    "ihfft": Transform(takes_real=True, to_half=True, half_first=True),
}


def _planned(
    name: str, kind: Transform, several: bool, self: TensorSpec, s: Any, dim: Any, norm: str | None
) -> HostKernel | None:
    """Plan a transform as one call of the library, which trims and pads itself; return None for the composite."""
    rank = self.ndim
    if self.dtype.name not in DTYPES or not self.numel or (kind.takes_real and self.dtype.is_complex):
        return None
    if norm not in (None, "backward", "forward", "ortho"):
        return None
    dims, sizes = _axes(rank, s, dim) if several else ([dim], None if s is None else [s])
    if not dims or any(not -rank <= d < rank for d in dims):
        return None
    dims = [d % rank for d in dims]
    if sizes is None:
        sizes = [self.sizes[d] for d in dims]
        if kind.from_half:
            sizes[-1] = 2 * (sizes[-1] - 1)
    if len(set(dims)) != len(dims) or len(sizes) != len(dims) or any(n < 1 for n in sizes):
        return None
    read, made = list(self.sizes), list(self.sizes)
    for d, n in zip(dims, sizes, strict=True):
        read[d] = min(read[d], n)
        made[d] = n
    half = sizes[-1] // 2 + 1
    if kind.from_half:
        read[dims[-1]] = min(self.sizes[dims[-1]], half)
    if kind.to_half:
        made[dims[-1]] = half
    real = self.dtype.to_real() if self.dtype.is_complex else self.dtype
    # Cut here: the library converts what it is given before it cuts.
    cut = None if tuple(read) == self.sizes else tuple([slice(0, n) for n in read])
    order = _order(kind, several, self, read, sizes, dims)
    if order is None:
        return None
    spec = TensorSpec.of(
        tuple(made), strides_in(order, made), real if kind.from_half else real.to_complex(), CPU
    )
    return _call(_library(f"{name}n" if len(dims) > 1 else name), spec, cut, sizes, dims, norm, order)


def _order(
    kind: Transform,
    several: bool,
    self: TensorSpec,
    read: Sequence[int],
    sizes: Sequence[int],
    dims: Sequence[int],
) -> tuple[int, ...] | None:
    """Return the order of the result's dimensions in memory, from the input that the transform's operator would
    get.
    """
    strides, filled = self.strides, list(self.sizes)
    for d, n in zip(dims, sizes, strict=True):
        filled[d] = n
    if kind.from_half:
        filled[dims[-1]] = sizes[-1] // 2 + 1
    if any(have < want for have, want in zip(read, filled, strict=True)):
        strides = strides_for(self.suggest_memory_format(), filled)  # constant_pad_nd
    elif not self.is_dense:
        return None  # conversions on the way give it other strides
    if kind.half_first and len(dims) > 1:
        halves = [n // 2 + 1 if d == dims[-1] else n for d, n in enumerate(filled)]
        first = strides_in(result_order(filled, strides, dims[-1:], "r2c"), halves)
        return result_order(halves, first, dims[:-1], "c2c")
    to_half = kind.to_half or (not kind.from_half and not several and not self.dtype.is_complex)
    return result_order(filled, strides, dims, "c2r" if kind.from_half else "r2c" if to_half else "c2c")


def _call(
    function: Callable[..., Any],
    spec: TensorSpec,
    cut: tuple[slice, ...] | None,
    sizes: Sequence[int],
    dims: Sequence[int],
    norm: str | None,
    order: Sequence[int],
) -> HostKernel:
    n, axes = (sizes, dims) if len(dims) > 1 else (sizes[0], dims[0])
    if not spec.is_contiguous:
        return _call_in_order(function, spec, cut, n, [order.index(d) for d in dims], norm, order)

    def compute(x: Any) -> Any:
        return function(x if cut is None else x[cut], n, axes, norm)

    def into(out: Any, x: Any) -> None:
        np.copyto(out, function(x if cut is None else x[cut], n, axes, norm))

    return HostKernel((spec,), compute, into)


def _call_in_order(
    function: Callable[..., Any],
    spec: TensorSpec,
    cut: tuple[slice, ...] | None,
    n: Any,
    axes: Sequence[int],
    norm: str | None,
    order: Sequence[int],
) -> HostKernel:
    """Call the library with dimensions in the result's memory order, so that the library makes it contiguous."""
    back = [order.index(d) for d in range(len(order))]
    along = axes if isinstance(n, Sequence) else axes[0]

    def compute(x: Any) -> Any:
        return function((x if cut is None else x[cut]).transpose(order), n, along, norm).transpose(back)

    def into(out: Any, x: Any) -> None:
        np.copyto(out, compute(x))

    return HostKernel((spec,), compute, into)


def _library(name: str) -> Callable[..., Any]:
    from scipy import fft

    result: Callable[..., Any] = getattr(fft, name)
    return result


def _axes(
    rank: int, s: Sequence[int] | None, dim: Sequence[int] | None
) -> tuple[list[int], list[int] | None]:
    """Return the dimensions of a multi-dimensional transform, and their sizes if given."""
    if dim is None:
        dim = range(rank if s is None else rank - len(s), rank)
    return list(dim), None if s is None else list(s)


def _factory(name: str, kind: Transform, several: bool) -> HostKernelFactory:
    return by_arguments(lambda self, s, dim, norm: _planned(name, kind, several, self, s, dim, norm))


for _name, _kind in TRANSFORMS.items():
    register_stub(f"fft_{_name}_host_stub", "cpu", _factory(_name, _kind, False))
    register_stub(f"fft_{_name}n_host_stub", "cpu", _factory(_name, _kind, True))


def _shift(back: bool) -> HostKernelFactory:
    def factory(self: TensorSpec, dim: Sequence[int] | None) -> HostKernel | None:
        dims = range(self.ndim) if dim is None else dim
        if not self.numel or self.ndim == 0 or any(not -self.ndim <= d < self.ndim for d in dims):
            return None
        if not dims or self.dtype.name not in DTYPES or len({d % self.ndim for d in dims}) != len(dims):
            return None
        # The inverse moves the larger half of an odd size.
        shifts = {d % self.ndim: (self.sizes[d] + back) // 2 for d in dims}
        spec = TensorSpec.contiguous(self.sizes, self.dtype, CPU)
        return HostKernel((spec,), None, rolled(self, shifts))

    return by_arguments(factory)


register_stub("fft_fftshift_host_stub", "cpu", _shift(False))
register_stub("fft_ifftshift_host_stub", "cpu", _shift(True))
