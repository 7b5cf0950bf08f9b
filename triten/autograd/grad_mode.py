"""Gradient modes: whether autograd records operations (`torch.autograd.grad_mode`)."""

from ..dispatch.autograd.grad_mode import (
    enable_grad,
    inference_mode,
    no_grad,
    set_grad_enabled,
)

__all__ = [
    "enable_grad",
    "inference_mode",
    "no_grad",
    "set_grad_enabled",
]
