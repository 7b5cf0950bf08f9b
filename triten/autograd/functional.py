"""Derivatives of functions by their graphs (`torch.autograd.functional`)."""

from ..dispatch.layers.function_derivatives import (
    _construct_standard_basis_for,
    hessian,
    hvp,
    jacobian,
    jvp,
    vhp,
    vjp,
)

__all__ = [
    "_construct_standard_basis_for",
    "hessian",
    "hvp",
    "jacobian",
    "jvp",
    "vhp",
    "vjp",
]
