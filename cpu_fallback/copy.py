"""Copies between any strides and dtypes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from .error_state import IGNORE, reset_state, set_state


def copy(call: StructuredCall) -> PlannedKernel:
    """``out[...] = self``; a cast from complex to real drops the imaginary part, float to int wraps as C does."""
    source, target = call.args["self"].dtype, call.outputs[0].dtype
    copyto = np.copyto
    if source is target:
        return PlannedKernel(lambda out, src: copyto(out, src))
    drop = source.is_complex and not target.is_complex
    wide = target.is_integral and (source.is_floating_point or source.is_complex)

    def cast(out: Any, src: Any) -> None:
        token = set_state(IGNORE)
        try:
            if drop:
                src = src.real
            if wide and out.dtype.itemsize < 8:
                src = src.astype(np.int64)
            copyto(out, src, casting="unsafe")
        finally:
            reset_state(token)

    return PlannedKernel(cast)


register_stub("copy_stub", "cpu", copy)
