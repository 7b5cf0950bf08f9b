"""Names of the dispatcher and of the override protocol, under PyTorch's private path (`torch._C`).

Programs use these private names of PyTorch to query the state of a process or a tensor. They have PyTorch's meaning
here. `_dynamo` has checks that generated code calls; `_functorch` queries tensors inside function transforms; `_nn`
parses arguments.
"""

from typing import TYPE_CHECKING

from ..dispatch.core.tensor_function import ALL_DISABLED as _ALL_DISABLED
from ..dispatch.core.tensor_function import DisableTensorFunction, DisableTensorFunctionSubclass
from ..dispatch.core.tensor_function import disabled_tensor_function as _disabled_tensor_function_impl
from ..dispatch.core.tensor_function import state as _function_state
from ..dispatch.layers.levels import current_levels as _current_levels
from ..dispatch.random import Generator
from ..dispatch.tensor_meta import TensorMeta as _TensorMeta
from ..runtime.device import device as _device
from ..runtime.dispatch_key import DispatchKey
from ..runtime.dispatch_key_set import DispatchKeySet
from ..runtime.lazy_import import lazy_names as _lazy_names
from ..runtime.local_dispatch_key_set import ExcludeDispatchKeyGuard as _ExcludeDispatchKeyGuard
from ..runtime.local_dispatch_key_set import IncludeDispatchKeyGuard as _IncludeDispatchKeyGuard
from ..runtime.storage import root_of as _root_of

if TYPE_CHECKING:
    from ..dispatch.tensor import Tensor
    from . import _dynamo as _dynamo
    from . import _functorch as _functorch
    from . import _nn as _nn

__getattr__ = _lazy_names(__name__, {}, ["_dynamo", "_functorch", "_nn"])[0]

__all__ = [
    "_GLIBCXX_USE_CXX11_ABI",
    "DisableTensorFunction",
    "DisableTensorFunctionSubclass",
    "DispatchKey",
    "DispatchKeySet",
    "Generator",
    "_ExcludeDispatchKeyGuard",
    "_IncludeDispatchKeyGuard",
    "_TensorMeta",
    "_are_functorch_transforms_active",
    "_cuda_getCurrentRawStream",
    "_cuda_getDevice",
    "_disabled_tensor_function_impl",
    "_dispatch_has_kernel_for_dispatch_key",
    "_dispatch_keys",
    "_get_accelerator",
    "_get_privateuse1_backend_name",
    "_get_tracing_state",
    "_has_xpu",
    "_is_alias_of",
    "_is_tensor_function_enabled",
    "_is_tensor_function_mode_enabled",
    "_log_api_usage_once",
]


def _log_api_usage_once(event: str) -> None:
    """Do nothing; PyTorch reports API usage to the organization that runs it (`torch._C`)."""


_has_xpu = False
_GLIBCXX_USE_CXX11_ABI = True


def _cuda_getCurrentRawStream(device_index: int) -> int:
    """Return the address of the current CUDA stream of a device, for drivers and launchers (`torch._C`).

    Args:
        device_index: Number of the device.

    Raises:
        RuntimeError: There is no CUDA device.
    """
    from ..cuda import current_stream

    return int(current_stream(device_index).cuda_stream)


def _cuda_getDevice() -> int:
    """Return the number of the current CUDA device."""
    from ..cuda import current_device

    return current_device()


def _get_privateuse1_backend_name() -> str:
    """Return the device type of the backend of another package: ``privateuseone`` until it has a name."""
    return _device("privateuseone").type


def _dispatch_keys(tensor: "Tensor") -> DispatchKeySet:
    """Return the keys of a tensor, as `Tensor.key_set` (`torch._C._dispatch_keys`)."""
    return tensor.key_set()


def _dispatch_has_kernel_for_dispatch_key(name: str, dispatch_key: str) -> bool:
    """Return whether an operator has a kernel of its own for a key.

    Args:
        name: Name with namespace and overload, as ``aten::add.Tensor``.
        dispatch_key: Name of the key.

    Raises:
        RuntimeError: There is no such operator.
    """
    from ..dispatch.core.dispatcher import Dispatcher

    entry = Dispatcher.singleton().find_schema(name)
    if entry is None:
        raise RuntimeError(f"operator {name} does not exist")
    return any(key.name == dispatch_key for key in entry.kernels)


def _are_functorch_transforms_active() -> bool:
    """Return whether this thread is inside `tt.vmap`, `tt.func.grad` or another transform.

    Example:
        >>> import triten as tt
        >>> inside = []
        >>> y = tt.vmap(lambda x: inside.append(tt._C._are_functorch_transforms_active()) or x)(tt.ones(2))
        >>> inside, tt._C._are_functorch_transforms_active()
        ([True], False)
    """
    return bool(_current_levels())


def _is_tensor_function_mode_enabled() -> bool:
    """Return whether a function mode sees calls where this is called (`torch._C._is_torch_function_mode_enabled`)."""
    return bool(_function_state.modes) and _function_state.disabled < _ALL_DISABLED


def _is_tensor_function_enabled() -> bool:
    """Return whether handlers of arguments see calls here (`torch._C._is_torch_function_enabled`)."""
    return not _function_state.disabled


def _get_accelerator(check: bool | None = None) -> _device:
    """Return the accelerator's device type, or the CPU without one; with `check` raise RuntimeError instead."""
    from ..accelerator import current_accelerator

    device = current_accelerator(check_available=True)
    if device is None and check:
        raise RuntimeError("Cannot access accelerator device when none is available.")
    return device if device is not None else _device("cpu")


def _get_tracing_state() -> None:
    """Return None: `torch.jit.trace` does not record here, it runs the function."""


def _is_alias_of(tensor: "Tensor", other: "Tensor") -> bool:
    """Return whether two tensors share a storage."""
    return _root_of(tensor._data) is _root_of(other._data)
