"""`tt.autograd`: gradients on request, functions of your own, checks (`torch.autograd`)."""

import sys

from .dispatch.autograd import forward_ad
from .dispatch.autograd.function import Function
from .dispatch.autograd.functional import backward, grad
from .dispatch.autograd.grad_mode import enable_grad, inference_mode, no_grad, set_grad_enabled
from .dispatch.autograd.gradcheck import GradcheckError, gradcheck, gradgradcheck

__all__ = [
    "Function",
    "GradcheckError",
    "backward",
    "enable_grad",
    "forward_ad",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "inference_mode",
    "no_grad",
    "set_grad_enabled",
]

# So that `import triten.autograd.forward_ad` finds it, as it does in PyTorch.
sys.modules[f"{__name__}.forward_ad"] = forward_ad
