"""Fourier transforms by the driver's library: cuFFT, or in the interpreter SciPy's."""

from __future__ import annotations

from typing import Any

from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.cuda.driver import driver
from ...runtime.cuda.fourier import FourierTransform
from ..contiguous import contiguous_copy
from ..elementwise.copy import copy_kernel
from ..launch import launch_nothing


def transform(call: StructuredCall) -> PlannedKernel:
    """Plan one library call, over a copy in the result's dimension order if the operand's order differs.

    Raise RuntimeError for float16, which CuPy's cuFFT does not support here.
    """
    spec, out = call.args["self"], call.outputs[0]
    if spec.dtype.name not in ("float32", "float64", "complex64", "complex128"):
        raise RuntimeError(f"Unsupported dtype {spec.dtype.scalar_name}")
    if out.numel == 0:
        return PlannedKernel(launch_nothing)
    dims = call.extra["dims"]
    if not dims:
        return PlannedKernel(copy_kernel(out, spec))
    # In the order in which the result lies in memory, which makes both sides gapless.
    order = call.extra["order"]
    flat, copied = contiguous_copy(
        spec.replace(sizes=tuple(spec.sizes[d] for d in order), strides=tuple(spec.strides[d] for d in order))
    )
    description = FourierTransform(
        flat.sizes,
        flat.dtype.np.name,
        tuple(out.sizes[d] for d in order),
        out.dtype.np.name,
        tuple(order.index(d) for d in dims),
        call.extra["inverse"],
        call.extra["norm"],
    )
    library, index = driver(), call.device.resolved_index

    def into(out_data: Any, x: Any) -> None:
        data = copied(x)
        library.transform(out_data.address, data.address, description, library.current_stream(index))

    return PlannedKernel(into)


for _name in ("_fft_r2c", "_fft_c2r", "_fft_c2c"):
    register_stub(f"{_name}_stub", "cuda", transform)
