"""Which implementations of scaled dot product attention are permitted, for the process (`at::Context` in PyTorch).

The numbers are those of `torch.nn.attention.SDPBackend`. cuDNN's flag is kept, though nothing here is computed by it.
"""

from __future__ import annotations

from collections.abc import Sequence

ERROR, MATH, FLASH, EFFICIENT, CUDNN, OVERRIDEABLE = -1, 0, 1, 2, 3, 4
BACKENDS = (MATH, FLASH, EFFICIENT, CUDNN, OVERRIDEABLE)

_reduced_math = False
_enabled = frozenset(BACKENDS)
# The fused operator of CUDA goes by the name of PyTorch's memory-efficient one, which takes most.
_order: tuple[int, ...] = (EFFICIENT, FLASH, MATH, CUDNN, OVERRIDEABLE)
_permitted = tuple(one for one in _order if one in _enabled)


def permitted() -> tuple[int, ...]:
    """What is enabled, in order of priority."""
    return _permitted


def order() -> tuple[int, ...]:
    """All in order of priority, enabled or not."""
    return _order


def is_enabled(backend: int) -> bool:
    """Whether a backend may be taken."""
    return backend in _enabled


def enable(backend: int, wanted: bool) -> None:
    """Permit a backend, or forbid it."""
    set_enabled((_enabled | {backend}) if wanted else (_enabled - {backend}))


def set_enabled(backends: Sequence[int] | frozenset[int]) -> None:
    """Permit these and no others."""
    global _enabled, _permitted
    _enabled = frozenset(backends)
    _permitted = tuple(one for one in _order if one in _enabled)


def set_order(backends: Sequence[int]) -> None:
    """Take these first, in this order; the others follow as they did."""
    global _order, _permitted
    first = tuple(dict.fromkeys(backends))
    _order = (*first, *(one for one in _order if one not in first))
    _permitted = tuple(one for one in _order if one in _enabled)


def allow_reduced_math(allowed: bool) -> None:
    """Whether attention by ordinary operators may keep its parts in the operands' 16 bits instead of float32."""
    global _reduced_math
    _reduced_math = allowed


def is_reduced_math_allowed() -> bool:
    """What `allow_reduced_math` was given last; at first False."""
    return _reduced_math
