"""The hash of a tensor (`torch.hash_tensor`)."""

from __future__ import annotations

from typing import Any

from ...dispatch.structured.stub import PlannedKernel, StructuredCall
from ...runtime.float_errors import quietly
from ..plain_numpy import np
from ..widen import compute_np
from .reduced_call import register_in_order

HASHED = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64")


def hash_tensor(call: StructuredCall) -> PlannedKernel:
    """Compute the exclusive or of all elements' bits, each as float64 or int64.

    16-bit floats pass through float32; a NaN keeps its payload and becomes quiet.
    """
    spec, sizes = call.args["self"], call.outputs[0].sizes
    if spec.dtype.name not in HASHED:
        raise NotImplementedError(f"\"xor_sum_cpu\" not implemented for '{spec.dtype.scalar_name}'")
    dims: tuple[int, ...] = call.extra["dims"]
    floating, np_dtype = spec.dtype.is_floating_point, compute_np(spec.dtype)

    def into(out: Any, array: Any) -> None:
        if floating:
            bits = array.astype(np_dtype, copy=False).astype(np.float64).view(np.int64)
        else:
            bits = array.astype(np.int64, copy=False)
        np.copyto(out, np.bitwise_xor.reduce(bits, axis=dims).view(np.uint64).reshape(sizes))

    return PlannedKernel(quietly(into))


register_in_order({"hash_tensor_stub": hash_tensor})
