"""Implementations of flash attention that other packages bring, one of which may be active.

None comes with this package: what is fused here is an operator like any other.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol

__all__ = [
    "activate_flash_attention_impl",
    "current_flash_attention_impl",
    "list_flash_attention_impls",
    "register_flash_attention_impl",
    "restore_flash_attention_impl",
]

_logger = logging.getLogger(__name__)


class FlashAttentionHandle(Protocol):
    """Handle that an activation may return; `remove` unregisters the implementation's kernels."""

    def remove(self) -> None:
        """Undo the activation."""


_activations: dict[str, Callable[[], FlashAttentionHandle | None]] = {}
_active: tuple[str, FlashAttentionHandle] | None = None


def register_flash_attention_impl(
    impl: str, *, register_fn: Callable[[], FlashAttentionHandle | None]
) -> None:
    """Make an implementation known by its name (`torch.nn.attention.register_flash_attention_impl`).

    Args:
        impl: its name. One that was known by it is replaced.
        register_fn: registers the kernels (`tt.library.Library.impl`) when the implementation is activated. It may
            return a handle whose `remove` takes them out again.

    Example:
        >>> from triten.nn import attention
        >>> attention.register_flash_attention_impl("mine", register_fn=lambda: print("registers kernels"))
        >>> attention.activate_flash_attention_impl("mine")
        registers kernels
    """
    _activations[impl] = register_fn


def activate_flash_attention_impl(impl: str) -> None:
    """Take the active implementation out, then activate this one (`torch.nn.attention.activate_flash_attention_impl`).

    Args:
        impl: a name of `list_flash_attention_impls`.

    Raises:
        ValueError: for a name that nobody registered. The active implementation is out by then, as in PyTorch.
    """
    global _active
    restore_flash_attention_impl(_raise_warn=False)
    if impl not in _activations:
        raise ValueError(
            f"Unknown flash attention impl '{impl}'. Available implementations: {list_flash_attention_impls()}"
        )
    handle = _activations[impl]()
    if handle is not None:
        _active = impl, handle


def list_flash_attention_impls() -> list[str]:
    """Return the sorted names of the registered implementations (`torch.nn.attention.list_flash_attention_impls`)."""
    return sorted(_activations)


def current_flash_attention_impl() -> str | None:
    """Return the active implementation or None (`torch.nn.attention.current_flash_attention_impl`).

    An implementation whose activation returned no handle is not known to be active.
    """
    return None if _active is None else _active[0]


def restore_flash_attention_impl(_raise_warn: bool = True) -> None:
    """Take the active implementation out (`torch.nn.attention.restore_flash_attention_impl`).

    Logs a warning where none is active.
    """
    global _active
    if _active is not None:
        _active[1].remove()
    elif _raise_warn:
        _logger.warning("Trying to restore default FA2 impl when no custom impl was activated")
    _active = None
