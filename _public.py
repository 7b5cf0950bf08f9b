"""The public namespace, declared in one place; the package's `__init__` re-exports it."""

from __future__ import annotations

from . import cpu_fallback, dispatch
from .dispatch import load as _load
from .dispatch.generated import functions as _functions
from .dispatch.tensor import Tensor
from .dispatch.generated.functions import *
from .dispatch.composite.factories import tensor, from_numpy, as_tensor
from .runtime.scalar_type import *
_load()
__all__=[n for n in dir() if not n.startswith('_')]
