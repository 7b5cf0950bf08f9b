"""Gradients compared with differences (`torch.autograd.gradcheck`)."""

from ..dispatch.autograd.gradcheck import (
    GradcheckError,
    gradcheck,
    gradgradcheck,
)

__all__ = [
    "GradcheckError",
    "gradcheck",
    "gradgradcheck",
]
