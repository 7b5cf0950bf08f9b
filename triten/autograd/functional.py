"""Derivatives of functions by their graphs (`torch.autograd.functional`)."""

from ..dispatch.layers.function_derivatives import (
    hessian,
    hvp,
    jacobian,
    jvp,
    vhp,
    vjp,
)

__all__ = [
    "hessian",
    "hvp",
    "jacobian",
    "jvp",
    "vhp",
    "vjp",
]
