"""The public namespace, declared in one place; the package's `__init__` re-exports it."""

from __future__ import annotations

from . import cpu_fallback, dispatch
from .dispatch import load as _load
from .dispatch.generated import functions as _functions
from .dispatch.tensor import Tensor
from .dispatch.generated.functions import *
from .dispatch.composite.tensor_data import as_tensor, asarray, from_numpy, tensor
from .runtime.device import device, get_default_device, set_default_device
from .runtime.memory_format import *
from .runtime.layout import strided
from .dispatch import random
from .dispatch.random import Generator, default_generator, get_rng_state, initial_seed, manual_seed, seed, set_rng_state
from .runtime.storage import Storage as UntypedStorage
from .runtime.scalar_type import bool_ as bool
from .runtime.scalar_type import *
_load()
__all__=[n for n in dir() if not n.startswith('_')]
