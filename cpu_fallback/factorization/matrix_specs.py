"""Specs of the matrices that host kernels of composites take (`dispatch/plans/host_kernel.py`), and of their
results.

The composites keep large batches, integers, 16-bit floats, and every call that is an error.
"""

from __future__ import annotations

from typing import Any

from ...dispatch.structured.library_routine import LIBRARY_DTYPES
from ...dispatch.structured.meta.factorization import column_major
from ...runtime.device import CPU
from ...runtime.scalar_type import dtype as ScalarType
from ...runtime.scalar_type import int32
from ...runtime.tensor_spec import TensorSpec
from ..plain_numpy import np

INFO = TensorSpec.contiguous((), int32, CPU)
"""Spec of LAPACK's `info`."""


def is_one(*specs: TensorSpec) -> bool:
    """Return True if each spec is a single nonempty matrix, all of one dtype that LAPACK supports."""
    first = specs[0].dtype
    return first.scalar_name in LIBRARY_DTYPES and all(
        spec.ndim == 2 and spec.numel and spec.dtype is first for spec in specs
    )


def is_square(spec: TensorSpec) -> bool:
    """Return True for a single square matrix."""
    return is_one(spec) and spec.sizes[0] == spec.sizes[1]


def in_columns(dtype: ScalarType, *sizes: int) -> TensorSpec:
    """Return the spec of a column-major result."""
    return TensorSpec.of(sizes, column_major(sizes), dtype, CPU)


def in_rows(dtype: ScalarType, *sizes: int) -> TensorSpec:
    """Return the spec of a contiguous result."""
    return TensorSpec.contiguous(sizes, dtype, CPU)


def char_of(spec: TensorSpec) -> str:
    """Return NumPy's character of a dtype."""
    char: str = spec.np_dtype.char
    return char


def flag(info: int) -> Any:
    """Return LAPACK's `info` as a tensor's element."""
    return np.array(info, np.int32)
