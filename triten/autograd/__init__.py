"""`tt.autograd`: gradients on request, functions of your own, checks (`torch.autograd`).

Submodules lie where PyTorch has them; those that a training loop does not need are imported with their first use.
"""

from ..dispatch.autograd.anomaly import detect_anomaly, set_detect_anomaly
from ..dispatch.autograd.function import Function
from ..dispatch.autograd.grad_mode import enable_grad, inference_mode, no_grad, set_grad_enabled
from ..dispatch.autograd.gradients import backward, grad
from ..runtime.lazy_import import lazy_names

# The submodule has the function's name, which has to be bound after it.
from .gradcheck import GradcheckError, gradcheck, gradgradcheck

_SUBMODULES = (
    "anomaly_mode",
    "forward_ad",
    "function",
    "functional",
    "grad_mode",
    "graph",
    "profiler",
    "variable",
)

__getattr__, __dir__, _ = lazy_names(
    __name__,
    {
        ".variable": "Variable",
        "..dispatch.autograd.node_attributes": "SavedTensor",
        "..dispatch.autograd.threads": (
            "is_multithreading_enabled is_view_replay_enabled set_multithreading_enabled"
        ),
        "..dispatch.core.tensor_function": "has_tensor_function",
        "..dispatch.layers.profiler.profile": "kineto_available",
    },
    _SUBMODULES,
)

__all__ = [
    "Function",
    "GradcheckError",
    "Variable",
    "anomaly_mode",
    "backward",
    "detect_anomaly",
    "enable_grad",
    "forward_ad",
    "function",
    "functional",
    "grad",
    "grad_mode",
    "gradcheck",
    "gradgradcheck",
    "graph",
    "inference_mode",
    "is_multithreading_enabled",
    "is_view_replay_enabled",
    "no_grad",
    "profiler",
    "set_detect_anomaly",
    "set_grad_enabled",
    "set_multithreading_enabled",
    "variable",
]
