"""Forward mode by hand: dual tensors (`torch.autograd.forward_ad`)."""

from typing import Any

from ..dispatch.autograd.forward_ad import (
    UnpackedDualTensor,
    _is_fwd_grad_enabled,
    _set_fwd_grad_enabled,
    current_level,
    dual_level,
    enter_dual_level,
    exit_dual_level,
    make_dual,
    unpack_dual,
)

__all__ = [
    "UnpackedDualTensor",
    "_is_fwd_grad_enabled",
    "_set_fwd_grad_enabled",
    "dual_level",
    "enter_dual_level",
    "exit_dual_level",
    "make_dual",
    "unpack_dual",
]


def __getattr__(name: str) -> Any:
    if name == "_current_level":  # PyTorch's variable, which programs read
        return current_level()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
