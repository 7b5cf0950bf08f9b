"""Level of consistency checks between ranks (`torch.distributed.DebugLevel`)."""

from __future__ import annotations

import enum
import os

__all__ = ["DebugLevel", "get_debug_level", "set_debug_level", "set_debug_level_from_env"]

VARIABLES = ("TRITEN_DISTRIBUTED_DEBUG", "TORCH_DISTRIBUTED_DEBUG")
"""The environment's, the first that is set."""


class DebugLevel(enum.Enum):
    """Level of consistency checks (`torch.distributed.DebugLevel`).

    With DETAIL, ranks compare calls, shapes and dtypes before each collective. This applies to groups that
    are created after the level is set. INFO is the same as OFF.
    """

    OFF = 0
    INFO = 1
    DETAIL = 2


_level: DebugLevel | None = None


def get_debug_level() -> DebugLevel:
    """Return the debug level (`torch.distributed.get_debug_level`).

    Example:
        >>> import triten as tt
        >>> tt.distributed.get_debug_level()
        <DebugLevel.OFF: 0>
    """
    if _level is None:
        set_debug_level_from_env()
    assert _level is not None
    return _level


def set_debug_level(level: DebugLevel) -> None:
    """Set the level (`torch.distributed.set_debug_level`)."""
    global _level
    if not isinstance(level, DebugLevel):
        raise TypeError(f"set_debug_level: expected a DebugLevel, but got {level!r}")
    _level = level


def set_debug_level_from_env() -> None:
    """Set the level of TRITEN_DISTRIBUTED_DEBUG, or PyTorch's variable (`torch.distributed.set_debug_level_from_env`).

    Raises:
        ValueError: it is none of OFF, INFO and DETAIL.
    """
    variable = next((name for name in VARIABLES if os.environ.get(name)), None)
    text = "OFF" if variable is None else os.environ[variable].upper()
    if text not in DebugLevel.__members__:
        raise ValueError(f"The value of {variable} must be OFF, INFO, or DETAIL, but is {text!r}")
    set_debug_level(DebugLevel[text])
