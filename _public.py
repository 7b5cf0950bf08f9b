"""The public namespace, declared in one place; the package's `__init__` re-exports it."""

from __future__ import annotations

from . import cpu_fallback, cuda, dispatch
from .dispatch import load as _load
from .dispatch.generated import functions as _functions
from .dispatch.tensor import Tensor
from .dispatch.generated.functions import *
from .dispatch.composite.factories import tensor, from_numpy, as_tensor
from .dispatch.structured.stub import register_loader as _register_loader
from .runtime.scalar_type import *


def _load_cuda_kernels() -> None:
    from .runtime.cuda.driver import driver

    driver()
    from . import triton_kernels


_load()
_register_loader("cuda", _load_cuda_kernels)
__all__=[n for n in dir() if not n.startswith('_')]
