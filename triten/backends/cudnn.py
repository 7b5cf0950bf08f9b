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

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ..runtime import float32_precision as _float32
from .flags import Flag, KeptFlags, give_flags

if TYPE_CHECKING:
    from ..dispatch.tensor import Tensor

__all__ = [
    "allow_tf32",
    "benchmark",
    "conv",
    "deterministic",
    "enabled",
    "flags",
    "is_acceptable",
    "is_available",
    "set_flags",
    "version",
]

# Properties of the module's class, declared for type checkers.
enabled: bool
benchmark: bool
deterministic: bool
allow_tf32: bool

_kept = KeptFlags("set_{}_cudnn", enabled=True, benchmark=False, deterministic=False)


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


def is_acceptable(tensor: Tensor) -> bool:
    """Return False: cuDNN takes no tensor, since no kernel uses it (`torch.backends.cudnn.is_acceptable`).

    Args:
        tensor: Any tensor.

    Example:
        >>> import triten as tt
        >>> tt.backends.cudnn.is_acceptable(tt.ones(2))
        False
    """
    return False


def version() -> None:
    """Return None: triten does not use cuDNN."""
    return None


def set_flags(
    _enabled: bool | None = None,
    _benchmark: bool | None = None,
    _deterministic: bool | None = None,
    _allow_tf32: bool | None = None,
) -> tuple[bool, ...]:
    """Set flags, and return their values before. None leaves a flag as it is."""
    before = (*_kept.values.values(), _float32.allow_tf32_convolution())
    _kept.set(enabled=_enabled, benchmark=_benchmark, deterministic=_deterministic)
    if _allow_tf32 is not None:
        _float32.set_allow_tf32_convolution(_allow_tf32)
    return before


@contextmanager
def flags(
    enabled: bool | None = False,
    benchmark: bool | None = False,
    deterministic: bool | None = False,
    allow_tf32: bool | None = True,
) -> Iterator[None]:
    """Set flags for a block; None leaves a flag as it is (`torch.backends.cudnn.flags`)."""
    before = set_flags(enabled, benchmark, deterministic, allow_tf32)
    try:
        yield
    finally:
        set_flags(*before)


give_flags(
    __name__,
    enabled=_kept.flag("enabled", "no kernel uses cuDNN"),
    benchmark=_kept.flag("benchmark", "tables rather than benchmarks choose a convolution's kernel"),
    deterministic=_kept.flag("deterministic", "convolutions are always deterministic"),
    allow_tf32=Flag(
        _float32.allow_tf32_convolution,
        _float32.set_allow_tf32_convolution,
        "True if float32 convolutions may round their operands to TF32.",
    ),
)
