"""Block in which factories create tensors on a given device (torch/utils/_device.py)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import cache
from types import TracebackType
from typing import Any

from ....runtime.device import contexts
from ....runtime.device import device as Device
from ....runtime.device import get_default_device as default_outside
from ....runtime.thread_state import inherited
from .function_mode import TensorFunctionMode
from .overridable import public_functions

FACTORIES = frozenset(
    {
        *("arange", "as_tensor", "asarray", "bartlett_window", "blackman_window", "empty", "empty_permuted"),
        *("empty_strided", "eye", "fft.fftfreq", "fft.rfftfreq", "full", "hamming_window", "hann_window"),
        *("kaiser_window", "linspace", "logspace", "ones", "rand", "randint", "randn", "randperm", "range"),
        *("sparse_bsc_tensor", "sparse_bsr_tensor", "sparse_compressed_tensor", "sparse_coo_tensor"),
        *("sparse_csc_tensor", "sparse_csr_tensor"),
        *("scalar_tensor", "tensor", "tril_indices", "triu_indices", "zeros"),
    }
)
"""Root functions that take a device, and no tensor that determines one."""


@cache
def factories() -> frozenset[Any]:
    """Return the factory functions themselves."""
    return frozenset(
        function
        for namespace, name, function in public_functions()
        if f"{namespace}.{name}".removeprefix("triten.") in FACTORIES
    )


class DeviceContext(TensorFunctionMode):
    """Function mode of ``with tt.device(...)``: a factory that is called without a device gets this one.

    As a function mode it belongs to its thread, and a program outside of such blocks pays nothing for it.
    """

    def __init__(self, device: Device) -> None:
        self.device = device

    def __tensor_function__(
        self, func: Callable[..., Any], types: Sequence[type], args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in factories() and kwargs.get("device") is None:
            kwargs = {**kwargs, "device": self.device}
        return func(*args, **kwargs)


class _Entered(threading.local):
    def __init__(self) -> None:
        self.blocks: list[DeviceContext] = []


_entered = inherited(_Entered())


def enter(device: Device) -> None:
    """Begin a block of this thread."""
    context = DeviceContext(device)
    context.__enter__()
    _entered.blocks.append(context)


def leave(kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
    """End this thread's innermost block."""
    context = _entered.blocks.pop()
    context.__exit__(kind, error, trace)


def get_default_device() -> Device:
    """Return the default device of this thread's factories (`torch.get_default_device`).

    Returns:
        A device.

    Example:
        >>> import triten as tt
        >>> with tt.device("meta"):
        ...     tt.get_default_device()
        device(type='meta')
    """
    return _entered.blocks[-1].device if _entered.blocks else default_outside()


contexts.append((enter, leave))
