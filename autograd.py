"""`tt.autograd`: gradients on request, functions of your own, checks (`torch.autograd`)."""

import sys

from .dispatch.autograd import forward_ad, graph
from .dispatch.autograd.anomaly import detect_anomaly, set_detect_anomaly
from .dispatch.autograd.function import Function
from .dispatch.autograd.functional import backward, grad
from .dispatch.autograd.grad_mode import enable_grad, inference_mode, no_grad, set_grad_enabled
from .dispatch.autograd.gradcheck import GradcheckError, gradcheck, gradgradcheck
from .dispatch.autograd.old_variable import Variable
from .dispatch.functional import function_derivatives as functional

__all__ = [
    "Function",
    "GradcheckError",
    "Variable",
    "backward",
    "detect_anomaly",
    "enable_grad",
    "forward_ad",
    "functional",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "graph",
    "inference_mode",
    "no_grad",
    "set_detect_anomaly",
    "set_grad_enabled",
]

# So that `import triten.autograd.forward_ad` and the others are found, as in PyTorch.
for _name in ("forward_ad", "functional", "graph"):
    sys.modules[f"{__name__}.{_name}"] = globals()[_name]
