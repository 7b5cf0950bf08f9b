"""The public namespace, declared in one place; the package's `__init__` re-exports it."""

from .dispatch import load as _load
from .dispatch.core.op_overload import Ops as _Ops
from .dispatch.generated import functions as _functions
from .dispatch.generated.functions import *  # noqa: F403 - every generated function is public
from .runtime.scalar_type import (
    complex64,
    complex128,
    float16,
    float32,
    float64,
    int16,
    int32,
    int64,
)

half, double, short, long = float16, float64, int16, int64
float, int, cfloat, cdouble = float32, int32, complex64, complex128
ops = _Ops()
_load()

__all__ = sorted(
    {name for name in globals() if not name.startswith("_")} - {"cpu_fallback"} | set(_functions.__all__)
)
