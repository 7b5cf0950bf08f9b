"""Fourier transforms by `scipy.fft` (pocketfft), in the precision of the operand."""

from __future__ import annotations

from typing import Any

from ..dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from .error_state import quiet
from .undispatched import np


def transform(call: StructuredCall) -> PlannedKernel:
    """One call of the library. Raises RuntimeError for float16, which it does not have."""
    from scipy import fft

    spec, out = call.args["self"], call.outputs[0]
    if spec.dtype.name not in ("float32", "float64", "complex64", "complex128"):
        raise RuntimeError(f"Unsupported dtype {spec.dtype.scalar_name}")
    dims, norm = call.extra["dims"], call.extra["norm"]
    inverse, empty = call.extra["inverse"], out.numel == 0
    halved = spec.sizes != out.sizes
    to_real = not out.dtype.is_complex
    sizes = tuple(out.sizes[d] for d in dims)

    def into(target: Any, array: Any) -> None:
        if empty:
            return
        if not dims:
            made = array
        elif to_real:
            made = fft.irfftn(array, sizes, dims, norm)
        elif halved and not spec.dtype.is_complex:
            made = fft.rfftn(array, None, dims, norm)
        else:
            made = (fft.ifftn if inverse else fft.fftn)(array, None, dims, norm)
        np.copyto(target, made)

    return PlannedKernel(quiet(into))


for _name in ("_fft_r2c", "_fft_c2r", "_fft_c2c"):
    register_stub(f"{_name}_stub", "cpu", transform)
