"""Grad mode and inference mode of each thread (c10/core/GradMode.h, InferenceMode.h).

`grad_disabled` and `inference_enabled` are empty while no thread has switched a mode. The usual call then only pays
for a truth test, and reads thread-local state only if some thread differs.
"""

from __future__ import annotations

import threading

from .thread_state import inherited


class _State(threading.local):
    grad_enabled: bool = True
    inference: bool = False


state = inherited(_State())
grad_disabled: list[object] = []
inference_enabled: list[object] = []
_TOKEN = object()


def is_grad_enabled() -> bool:
    """Return True if operators of this thread record for backward (`torch.is_grad_enabled`).

    Returns:
        A bool.

    Example:
        >>> import triten as tt
        >>> with tt.no_grad():
        ...     tt.is_grad_enabled()
        False
    """
    return not grad_disabled or state.grad_enabled


def set_grad_enabled(enabled: bool) -> bool:
    """Set grad mode in this thread; return the previous state."""
    before = state.grad_enabled
    if before != enabled:
        state.grad_enabled = enabled
        if enabled:
            grad_disabled.pop()
        else:
            grad_disabled.append(_TOKEN)
    return before


def is_inference_mode_enabled() -> bool:
    """Return True if new tensors of this thread are inference tensors (`torch.is_inference_mode_enabled`).

    Returns:
        A bool.

    Example:
        >>> import triten as tt
        >>> with tt.inference_mode():
        ...     tt.is_inference_mode_enabled()
        True
    """
    return bool(inference_enabled) and state.inference


def set_inference_mode(enabled: bool) -> bool:
    """Set inference mode in this thread; return the previous state."""
    before = state.inference
    if before != enabled:
        state.inference = enabled
        if enabled:
            inference_enabled.append(_TOKEN)
        else:
            inference_enabled.pop()
    return before
