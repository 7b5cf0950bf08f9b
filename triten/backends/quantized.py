"""Engines of quantized operators (`torch.backends.quantized`): names for one implementation.

The name that is set chooses the default of `tt.quantization`'s configurations in programs that read it.

Example:
    >>> import triten as tt
    >>> tt.backends.quantized.engine
    'x86'
"""

from __future__ import annotations

from typing import NoReturn

from .flags import Flag, give_flags

__all__ = ["engine", "supported_engines"]

# Properties of the module's class, declared for type checkers.
engine: str
supported_engines: list[str]

_ENGINES = ("qnnpack", "onednn", "x86", "fbgemm")
_engine = "x86"


def _set_engine(name: str | None) -> None:
    global _engine
    if name not in (*_ENGINES, "none", "", None):
        raise RuntimeError(f"{name} is not a valid value for quantized engine, expected one of {_ENGINES}")
    _engine = name or "none"


def _refuse(names: object) -> NoReturn:
    raise RuntimeError(f"supported_engines cannot be set, got {names!r}")


give_flags(
    __name__,
    engine=Flag(
        lambda: _engine, _set_engine, "The engine's name. All engines compute the same.", can_freeze=False
    ),
    supported_engines=Flag(lambda: list(_ENGINES), _refuse, "The names that `engine` takes."),
)
