"""Setting of deterministic algorithms (`torch.use_deterministic_algorithms`).

Kernels here are always deterministic: they add in a fixed order, without floating-point atomics. The setting refuses
nothing. It fills memory that a program may read before it writes.
"""

from __future__ import annotations

from collections.abc import Callable

_MODES = ("default", "warn", "error")
"""Modes by number, as in `get_deterministic_debug_mode`."""

_mode = [0]
_warn_only = [False]
"""The last `warn_only`, which `is_deterministic_algorithms_warn_only_enabled` returns even without a request."""
_fill = [True]

on_change: list[Callable[[], None]] = []
"""Callbacks after a change, to invalidate caches of decisions that depend on the setting."""


def _set(mode: int, warn_only: bool) -> None:
    _warn_only[0] = warn_only
    if mode != _mode[0]:
        _mode[0] = mode
        for changed in on_change:
            changed()


def fills_uninitialized_memory() -> bool:
    """Return True if new elements that no operator writes get a known value: the setting asks for both."""
    return _mode[0] != 0 and _fill[0]


def get_fill_uninitialized_memory() -> bool:
    """Return `tt.utils.deterministic.fill_uninitialized_memory`."""
    return _fill[0]


def set_fill_uninitialized_memory(mode: bool) -> None:
    """Set `tt.utils.deterministic.fill_uninitialized_memory`. Raise RuntimeError for anything but a bool."""
    if not isinstance(mode, bool):
        raise RuntimeError(f"expected a bool, but got {type(mode).__name__}")
    if mode != _fill[0]:
        _fill[0] = mode
        for changed in on_change:
            changed()


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Request deterministic algorithms, which all are (`torch.use_deterministic_algorithms`).

    The elements that `empty`, its relatives and `resize_` leave unwritten become NaN, the largest integer or True,
    unless `tt.utils.deterministic.fill_uninitialized_memory` is False.

    Args:
        mode: If True, request them.
        warn_only: If True, a nondeterministic operator would warn instead of failing; there is none.

    Raises:
        TypeError: An argument is no bool.

    Example:
        >>> import triten as tt
        >>> tt.use_deterministic_algorithms(True); tt.are_deterministic_algorithms_enabled()
        True
        >>> tt.use_deterministic_algorithms(False)
    """
    for argument, value in (("'mode' (position 1)", mode), ("'warn_only'", warn_only)):
        if not isinstance(value, bool):
            raise TypeError(
                f"_set_deterministic_algorithms(): argument {argument} must be bool, not {type(value).__name__}"
            )
    _set((1 if warn_only else 2) if mode else 0, warn_only)


def are_deterministic_algorithms_enabled() -> bool:
    """Return True if deterministic algorithms were requested (`torch.are_deterministic_algorithms_enabled`).

    Returns:
        A bool.

    Example:
        >>> import triten as tt
        >>> tt.are_deterministic_algorithms_enabled()
        False
    """
    return _mode[0] != 0


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Return the last `warn_only` (`torch.is_deterministic_algorithms_warn_only_enabled`).

    Returns:
        A bool.

    Example:
        >>> import triten as tt
        >>> tt.is_deterministic_algorithms_warn_only_enabled()
        False
    """
    return _warn_only[0]


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """Set `use_deterministic_algorithms` by a word or number (`torch.set_deterministic_debug_mode`).

    Args:
        debug_mode: "default" or 0, "warn" or 1, "error" or 2.

    Raises:
        RuntimeError: `debug_mode` is another word or number.
        TypeError: `debug_mode` is neither a string nor an integer.

    Example:
        >>> import triten as tt
        >>> tt.set_deterministic_debug_mode("warn"); tt.get_deterministic_debug_mode()
        1
        >>> tt.set_deterministic_debug_mode("default")
    """
    if not isinstance(debug_mode, int | str):
        raise TypeError(f"debug_mode must be str or int, but got {type(debug_mode)}")
    if isinstance(debug_mode, str):
        if debug_mode not in _MODES:
            raise RuntimeError(
                "invalid value of debug_mode, expected one of `default`, `warn`, `error`, but got "
                + debug_mode
            )
        debug_mode = _MODES.index(debug_mode)
    if debug_mode not in range(len(_MODES)):
        raise RuntimeError(f"invalid value of debug_mode, expected 0, 1, or 2, but got {debug_mode}")
    _set(debug_mode, debug_mode == 1)


def get_deterministic_debug_mode() -> int:
    """Return the requested mode as a number (`torch.get_deterministic_debug_mode`).

    Returns:
        0 for none, 1 with `warn_only`, 2 without.

    Example:
        >>> import triten as tt
        >>> tt.get_deterministic_debug_mode()
        0
    """
    return _mode[0]
