"""16-bit and 8-bit floats: computed in float32 and rounded to nearest even.

ml_dtypes' own ufuncs are slow and hold the GIL; casts to and from float32 are quick.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..runtime.scalar_type import bfloat16, dtype, float8_e4m3fn, float8_e5m2, float16, float32

NARROW = frozenset({float16, bfloat16, float8_e4m3fn, float8_e5m2})
FLOAT32 = np.dtype(np.float32)


def compute_dtype(d: dtype) -> dtype:
    """The dtype in which a kernel computes: float32 for the narrow floats, else the dtype itself."""
    return float32 if d in NARROW else d


def compute_np(d: dtype) -> Any:
    """`compute_dtype` as NumPy has it."""
    return FLOAT32 if d in NARROW else d.np
