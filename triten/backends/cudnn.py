"""Flags of cuDNN (`torch.backends.cudnn`), which is not used: they rule the convolutions that are written here.

`enabled`, `benchmark` and `deterministic` can be set, and are what they were set to, for programs that do: the
convolutions here are deterministic, and try no others out.

Example:
    >>> import triten as tt
    >>> tt.backends.cudnn.deterministic = True
    >>> tt.backends.cudnn.is_available()
    False
    >>> with tt.backends.cudnn.flags(benchmark=True):
    ...     tt.backends.cudnn.benchmark
    True
    >>> tt.backends.cudnn.deterministic = False
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

from ..runtime import float32_precision as _float32

__all__ = ["allow_tf32", "benchmark", "conv", "deterministic", "enabled", "flags", "is_available", "version"]

# Properties of the module's class, declared for type checkers.
enabled: bool
benchmark: bool
deterministic: bool
allow_tf32: bool

_flags = {"enabled": True, "benchmark": False, "deterministic": False}


def _set(name: str, value: bool) -> None:
    if not isinstance(value, bool):
        raise RuntimeError(f"set_{name}_cudnn expects a bool, but got {type(value).__name__}")
    _flags[name] = value


class Convolutions:
    """``tt.backends.cudnn.conv``."""

    __slots__ = ()

    @property
    def fp32_precision(self) -> str:
        """The precision of float32 convolutions: "tf32", "ieee", or "none", which is "ieee"."""
        return _float32.precision_of("conv")

    @fp32_precision.setter
    def fp32_precision(self, precision: str) -> None:
        _float32.set_precision("conv", precision)


conv = Convolutions()


def is_available() -> bool:
    """Return False: no kernel uses cuDNN."""
    return False


def version() -> None:
    """cuDNN's version: none, it is not used."""
    return None


@contextmanager
def flags(
    enabled: bool = False, benchmark: bool = False, deterministic: bool = False, allow_tf32: bool = True
) -> Iterator[None]:
    """Set flags for a block (`torch.backends.cudnn.flags`)."""
    before, before_tf32 = dict(_flags), _float32.allow_tf32_convolution()
    for name, value in (("enabled", enabled), ("benchmark", benchmark), ("deterministic", deterministic)):
        _set(name, value)
    _float32.set_allow_tf32_convolution(allow_tf32)
    try:
        yield
    finally:
        _flags.update(before)
        _float32.set_allow_tf32_convolution(before_tf32)


class _Module(ModuleType):
    """The module's class: its flags are properties, and there are no others."""

    def __setattr__(self, name: str, value: object) -> None:
        if not name.startswith("_") and not hasattr(type(self), name) and name not in vars(self):
            raise AttributeError(f"module {self.__name__!r} has no flag {name!r}")
        super().__setattr__(name, value)

    @property
    def enabled(self) -> bool:
        """Value that was set; it has no effect, since no kernel uses cuDNN."""
        return _flags["enabled"]

    @enabled.setter
    def enabled(self, value: bool) -> None:
        _set("enabled", value)

    @property
    def benchmark(self) -> bool:
        """Value that was set; it has no effect, since tables rather than benchmarks choose a convolution's kernel."""
        return _flags["benchmark"]

    @benchmark.setter
    def benchmark(self, value: bool) -> None:
        _set("benchmark", value)

    @property
    def deterministic(self) -> bool:
        """Value that was set; it has no effect, since convolutions are always deterministic."""
        return _flags["deterministic"]

    @deterministic.setter
    def deterministic(self, value: bool) -> None:
        _set("deterministic", value)

    @property
    def allow_tf32(self) -> bool:
        """True if float32 convolutions may round their operands to TF32."""
        return _float32.allow_tf32_convolution()

    @allow_tf32.setter
    def allow_tf32(self, allow: bool) -> None:
        _float32.set_allow_tf32_convolution(allow)


sys.modules[__name__].__class__ = _Module
