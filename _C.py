"""Names of the dispatcher and of the override protocol, where PyTorch has them (`torch._C`)."""

from .dispatch.core.tensor_function import DisableTensorFunction, DisableTensorFunctionSubclass
from .dispatch.core.tensor_function import disabled_tensor_function as _disabled_tensor_function_impl
from .runtime.dispatch_key import DispatchKey
from .runtime.dispatch_key_set import DispatchKeySet
from .runtime.local_dispatch_key_set import ExcludeDispatchKeyGuard as _ExcludeDispatchKeyGuard
from .runtime.local_dispatch_key_set import IncludeDispatchKeyGuard as _IncludeDispatchKeyGuard

__all__ = [
    "DisableTensorFunction",
    "DisableTensorFunctionSubclass",
    "DispatchKey",
    "DispatchKeySet",
    "_ExcludeDispatchKeyGuard",
    "_IncludeDispatchKeyGuard",
    "_disabled_tensor_function_impl",
    "_log_api_usage_once",
]


def _log_api_usage_once(event: str) -> None:
    """Nobody listens: PyTorch tells the organisation that runs it which parts are used (`torch._C`)."""
