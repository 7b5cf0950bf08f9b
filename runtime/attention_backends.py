"""Permitted implementations of scaled dot-product attention, process-wide (`at::Context` in PyTorch).

The numbers are those of `torch.nn.attention.SDPBackend`. cuDNN's flag is kept, but cuDNN computes nothing here.
"""

from __future__ import annotations

from collections.abc import Sequence

ERROR, MATH, FLASH, EFFICIENT, CUDNN, OVERRIDEABLE = -1, 0, 1, 2, 3, 4
BACKENDS = (MATH, FLASH, EFFICIENT, CUDNN, OVERRIDEABLE)

_reduced_math = False
_enabled = frozenset(BACKENDS)
# CUDA's fused operator has the name of PyTorch's memory-efficient one, which supports the most inputs.
_order: tuple[int, ...] = (EFFICIENT, FLASH, MATH, CUDNN, OVERRIDEABLE)
_permitted = tuple(backend for backend in _order if backend in _enabled)


def permitted() -> tuple[int, ...]:
    """Return the enabled backends in order of priority."""
    return _permitted


def order() -> tuple[int, ...]:
    """Return all backends in order of priority, enabled or not."""
    return _order


def is_enabled(backend: int) -> bool:
    """Return True if a backend is enabled."""
    return backend in _enabled


def enable(backend: int, enabled: bool) -> None:
    """Enable or disable a backend."""
    set_enabled((_enabled | {backend}) if enabled else (_enabled - {backend}))


def set_enabled(backends: Sequence[int] | frozenset[int]) -> None:
    """Enable exactly these backends."""
    global _enabled, _permitted
    _enabled = frozenset(backends)
    _permitted = tuple(backend for backend in _order if backend in _enabled)


def set_order(backends: Sequence[int]) -> None:
    """Give these backends the highest priority, in this order; the others keep their order after them."""
    global _order, _permitted
    first = tuple(dict.fromkeys(backends))
    _order = (*first, *(backend for backend in _order if backend not in first))
    _permitted = tuple(backend for backend in _order if backend in _enabled)


def allow_reduced_math(allowed: bool) -> None:
    """Set if attention by ordinary operators may keep intermediates in 16-bit floats instead of float32."""
    global _reduced_math
    _reduced_math = allowed


def is_reduced_math_allowed() -> bool:
    """Return the last setting of `allow_reduced_math`. Default: False."""
    return _reduced_math
