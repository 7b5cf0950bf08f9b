"""Which implementation of `scaled_dot_product_attention` is taken, and other kinds of attention (`torch.nn.attention`).

`flex_attention` changes and masks scores by functions of the user's, `varlen` attends in sequences that lie one after
another, `bias` has masks that are known by their name. Each is imported with its first use.
"""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...runtime import attention_backends as _backends
from ...runtime.lazy_import import lazy_names
from .flash_implementations import (
    activate_flash_attention_impl,
    current_flash_attention_impl,
    list_flash_attention_impls,
    register_flash_attention_impl,
    restore_flash_attention_impl,
)

if TYPE_CHECKING:
    from . import bias as bias
    from . import flex_attention as flex_attention
    from . import varlen as varlen
else:
    __getattr__, __dir__, _ = lazy_names(__name__, {}, ("bias", "flex_attention", "varlen"))

__all__ = [
    "WARN_FOR_UNFUSED_KERNELS",
    "SDPBackend",
    "activate_flash_attention_impl",
    "current_flash_attention_impl",
    "list_flash_attention_impls",
    "register_flash_attention_impl",
    "restore_flash_attention_impl",
    "sdpa_kernel",
]

WARN_FOR_UNFUSED_KERNELS = False
"""Whether attention with a `bias.CausalBias` warns where no fused implementation takes its operands."""


class SDPBackend(enum.IntEnum):
    """Implementations of scaled dot product attention (`torch.nn.attention.SDPBackend`).

    One fused operator on CUDA implements both FLASH_ATTENTION and EFFICIENT_ATTENTION. FLASH_ATTENTION takes the
    operands that PyTorch's flash attention takes (16-bit, without a mask). EFFICIENT_ATTENTION takes all operands of
    the operator. On the CPU, FLASH_ATTENTION is the fused operator. MATH uses ordinary operators. CUDNN_ATTENTION and
    OVERRIDEABLE have no implementation here.
    """

    ERROR = _backends.ERROR
    MATH = _backends.MATH
    FLASH_ATTENTION = _backends.FLASH
    EFFICIENT_ATTENTION = _backends.EFFICIENT
    CUDNN_ATTENTION = _backends.CUDNN
    OVERRIDEABLE = _backends.OVERRIDEABLE


@contextlib.contextmanager
def sdpa_kernel(backends: list[SDPBackend] | SDPBackend, set_priority: bool = False) -> Iterator[None]:
    """Restrict attention to some implementations inside the block (`torch.nn.attention.sdpa_kernel`).

    Args:
        backends: The implementation, or a list of several.
        set_priority: If True, try the implementations in the given order. Default: False.

    Raises:
        AssertionError: An element of `backends` is not an `SDPBackend`.
        RuntimeError: `scaled_dot_product_attention` is called with operands that no permitted implementation supports.

    Example:
        >>> import triten as tt
        >>> from triten.nn.attention import SDPBackend, sdpa_kernel
        >>> q = tt.ones(1, 1, 2, 4)
        >>> with sdpa_kernel(SDPBackend.MATH):
        ...     tt.nn.functional.scaled_dot_product_attention(q, q, q).sum().item()
        8.0
    """
    selected = [backends] if isinstance(backends, SDPBackend) else backends
    if not isinstance(selected, list) or not all(isinstance(backend, SDPBackend) for backend in selected):
        raise AssertionError(
            "Backend must be an instance of SDPBackend or a list of SDPBackend instances, got "
            f"{type(backends).__name__}"
        )
    enabled, order = frozenset(_backends.permitted()), _backends.order()
    _backends.set_enabled(selected)
    if set_priority:
        _backends.set_order(selected)
    try:
        yield
    finally:
        _backends.set_enabled(enabled)
        _backends.set_order(order)
