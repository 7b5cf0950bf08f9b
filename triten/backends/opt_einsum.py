"""Use of opt_einsum by `tt.einsum` (`torch.backends.opt_einsum`), where the package is installed.

opt_einsum chooses the order in which three or more operands are contracted. Without it the order is from left to right.

Example:
    >>> import triten as tt
    >>> with tt.backends.opt_einsum.flags(enabled=False):
    ...     tt.einsum("ij,jk,kl->il", tt.ones(2, 3), tt.ones(3, 4), tt.ones(4, 1)).tolist()
    [[12.0], [12.0]]
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType

from ..dispatch.functions import einsum_path as _einsum
from .flags import Flag, give_flags

__all__ = ["enabled", "flags", "get_opt_einsum", "is_available", "set_flags", "strategy"]

# Properties of the module's class, declared for type checkers.
enabled: bool
strategy: str | None


def is_available() -> bool:
    """Return whether opt_einsum is installed."""
    return _einsum.is_available()


def get_opt_einsum() -> ModuleType | None:
    """Return the package opt_einsum; None if it is not installed."""
    return import_module("opt_einsum") if is_available() else None


def _enabled() -> bool:
    return is_available() and _einsum.settings.enabled


def _set_enabled(value: bool) -> None:
    if value and not is_available():
        raise ValueError("opt_einsum is not available: install opt_einsum, or leave `enabled` False")
    _einsum.settings.enabled = value


def _strategy() -> str | None:
    return _einsum.settings.strategy if is_available() else None


def _set_strategy(value: str) -> None:
    if not _enabled():
        raise ValueError(
            f"opt_einsum is not available or not enabled, so setting a `strategy` to {value} will not be meaningful. "
            "Set `enabled` to True first."
        )
    if value not in _einsum.STRATEGIES:
        raise ValueError(f"`strategy` must be one of {list(_einsum.STRATEGIES)} but is {value}")
    _assign_strategy(value)


def _assign_strategy(value: str) -> None:
    """Set any of opt_einsum's strategies: an assignment of the flag is not checked, as in PyTorch."""
    _einsum.settings.strategy = value


def set_flags(_enabled: bool | None = None, _strategy: str | None = None) -> tuple[bool, str | None]:
    """Set flags, and return their values before. None leaves a flag as it is."""
    before = (
        _einsum.settings.enabled and is_available(),
        _einsum.settings.strategy if is_available() else None,
    )
    if _enabled is not None:
        _set_enabled(_enabled)
    if _strategy is not None:
        _set_strategy(_strategy)
    return before


@contextmanager
def flags(enabled: bool | None = None, strategy: str | None = None) -> Iterator[None]:
    """Set flags for a block; None leaves a flag as it is (`torch.backends.opt_einsum.flags`)."""
    before = _einsum.settings.enabled, _einsum.settings.strategy
    set_flags(enabled, strategy)
    try:
        yield
    finally:
        _einsum.settings.enabled, _einsum.settings.strategy = before


give_flags(
    __name__,
    enabled=Flag(
        _enabled, _set_enabled, "True if `tt.einsum` asks opt_einsum for the order of contractions."
    ),
    strategy=Flag(
        _strategy,
        _assign_strategy,
        'The search for the order: "auto", "greedy" or another of opt_einsum\'s; None without opt_einsum.',
    ),
)
