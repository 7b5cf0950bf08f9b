"""Queries and counters of the compiler (`torch._dynamo.utils`)."""

import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

from ..utils._config_module import ConfigModule
from . import config

__all__ = ["counters", "disable_cache_limit", "is_compile_supported", "warn_once"]

counters: defaultdict[str, Counter[str]] = defaultdict(Counter)
"""Counts by kind and name, which programs may add to. The compiler adds none."""

_warned: set[str] = set()


def is_compile_supported(device_type: object) -> bool:
    """Return whether graphs are compiled for a device type, ``"cpu"`` or ``"cuda"``."""
    return str(device_type).partition(":")[0] in ("cpu", "cuda")


def warn_once(msg: str, stacklevel: int = 1) -> None:
    """Warn with a text, the first time in a process (`torch._dynamo.utils.warn_once`).

    Args:
        msg: The text.
        stacklevel: Place of the warning, as `warnings.warn` counts it from the caller.
    """
    if msg not in _warned:
        _warned.add(msg)
        warnings.warn(msg, stacklevel=stacklevel + 1)


@contextmanager
def disable_cache_limit() -> Iterator[None]:
    """Lift the limit on recompilations of a function inside a ``with`` block."""
    with cast(ConfigModule, config).patch(recompile_limit=2**31):
        yield
