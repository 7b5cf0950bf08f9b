"""What a thread has set about autocast: where it is on, to which dtype, the casts that it keeps (ATen/autocast_mode.h).

In c10 every tensor carries its Autocast key and each thread excludes it until autocast is on. Here tensors do not carry
it, so that a call outside of autocast has nothing to exclude; a thread's key set takes it in while autocast is on, and
only for calls whose backend it is on for (`local.autocast`, `effective`).

Everything here belongs to the thread. Unlike PyTorch's, so does the cache of casts; and it tells casts to different
dtypes apart.
"""

from __future__ import annotations

import threading
import weakref
from typing import Any

from ....runtime.device import device as Device
from ....runtime.local_dispatch_key_set import local, modes
from ....runtime.scalar_type import bfloat16, float16
from ....runtime.scalar_type import dtype as ScalarType
from ....runtime.tensor_impl import TensorImpl
from ....runtime.traceback_filter import hide_inner_frames

DEFAULT_DTYPES = {
    "cpu": bfloat16,
    "cuda": float16,
    "xla": bfloat16,
    "xpu": float16,
    "mps": float16,
    "hpu": bfloat16,
    "ipu": float16,
    "privateuseone": float16,
}
"""The dtype of each device type that has autocast, until a thread sets another."""

Cast = tuple[int, ScalarType, bool]
"""What a kept cast is found by: the source's id, the dtype, and whether autograd knows it."""


class _State(threading.local):
    def __init__(self) -> None:
        self.dtypes = {int(Device(name).backend): dtype for name, dtype in DEFAULT_DTYPES.items()}
        self.cache_enabled = True
        self.nesting = 0
        self.casts: dict[Cast, tuple[weakref.ref[TensorImpl], Any]] = {}
        self.entered: list[tuple[object, bool, ScalarType, bool]] = []


state = _State()
_has_kernels: set[int] = set()
_ON = object()
"""Stands in `modes` once for every thread that has autocast on."""


def backend_of(device_type: str, asked_by: str) -> int:
    """The backend of a device type that has autocast.

    Raises TypeError for what is no string, RuntimeError for an unknown device type and for one without autocast.
    """
    device = _parse(device_type, asked_by)
    if device.type not in DEFAULT_DTYPES:
        raise RuntimeError(
            f"{asked_by}(): unknown device type for autocast: '{device_type}'; expected one of "
            f"{', '.join(DEFAULT_DTYPES)}"
        )
    return int(device.backend)


def _parse(device_type: str, asked_by: str) -> Device:
    if not isinstance(device_type, str):
        raise TypeError(
            f"{asked_by}(): argument 'device_type' (position 1) must be str, not {type(device_type).__name__}"
        )
    return Device(device_type)


def is_autocast_available(device_type: str) -> bool:
    """Whether a device type has autocast; of the types of devices that there are, ``meta`` has none.

    Raises TypeError for what is no string, RuntimeError for an unknown device type.

    Example:
        >>> import triten as tt
        >>> tt.is_autocast_available("cuda"), tt.is_autocast_available("meta")
        (True, False)
    """
    try:
        return _parse(device_type, "is_autocast_available").type in DEFAULT_DTYPES
    except BaseException:
        hide_inner_frames()
        raise


def is_autocast_enabled(device_type: str = "cuda") -> bool:
    """Whether autocast is on for a device type in this thread (`torch.is_autocast_enabled`).

    Example:
        >>> import triten as tt
        >>> with tt.autocast("cpu"):
        ...     tt.is_autocast_enabled("cpu"), tt.is_autocast_enabled("cuda")
        (True, False)
    """
    try:
        return bool(local.autocast >> backend_of(device_type, "is_autocast_enabled") & 1)
    except BaseException:
        hide_inner_frames()
        raise


def set_autocast_enabled(device_type: str | bool, enabled: bool | None = None) -> None:
    """Switch autocast on or off for a device type in this thread (`torch.set_autocast_enabled`).

    Given a bool alone it is CUDA that is switched. `tt.autocast` restores what was before; this does not.
    """
    if isinstance(device_type, bool) and enabled is None:
        switch(backend_of("cuda", "set_autocast_enabled"), device_type)
        return
    if not isinstance(device_type, str):
        raise TypeError(
            f"set_autocast_enabled(): argument 'device_type' (position 1) must be str, not {type(device_type).__name__}"
        )
    if not isinstance(enabled, bool):
        raise TypeError(
            f"set_autocast_enabled(): argument 'enabled' (position 2) must be bool, not {type(enabled).__name__}"
        )
    switch(backend_of(device_type, "set_autocast_enabled"), enabled)


def switch(backend: int, enabled: bool) -> None:
    """`set_autocast_enabled` for a backend that has autocast."""
    before = local.autocast
    if enabled:
        if backend not in _has_kernels:
            # Registered when first needed: few programs autocast, and all would pay for it.
            from .kernels import register_lists

            register_lists(backend)
            _has_kernels.add(backend)
        local.autocast = before | 1 << backend
        if not before:
            modes.append(_ON)
    else:
        local.autocast = before & ~(1 << backend)
        if before and not local.autocast:
            modes.remove(_ON)


def get_autocast_dtype(device_type: str) -> ScalarType:
    """The narrow dtype of autocast for a device type in this thread: float16 for CUDA, bfloat16 for the CPU, or as set.

    Example:
        >>> import triten as tt
        >>> tt.get_autocast_dtype("cpu"), tt.get_autocast_dtype("cuda")
        (triten.bfloat16, triten.float16)
    """
    try:
        return state.dtypes[backend_of(device_type, "get_autocast_dtype")]
    except BaseException:
        hide_inner_frames()
        raise


def set_autocast_dtype(device_type: str, dtype: ScalarType) -> None:
    """Set the narrow dtype of autocast for a device type in this thread. Raises TypeError for what is no dtype."""
    backend = backend_of(device_type, "set_autocast_dtype")
    if not isinstance(dtype, ScalarType):
        raise TypeError(
            f"set_autocast_dtype(): argument 'dtype' (position 2) must be triten.dtype, not {type(dtype).__name__}"
        )
    state.dtypes[backend] = dtype


def is_autocast_cache_enabled() -> bool:
    """Whether this thread keeps casts of parameters (leaves in float32 that require grad) for their next use."""
    return state.cache_enabled


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Have this thread keep casts of parameters, or not. Raises TypeError for what is no bool."""
    if not isinstance(enabled, bool):
        raise TypeError(f"enabled must be a bool (got {type(enabled).__name__})")
    state.cache_enabled = enabled


def clear_autocast_cache() -> None:
    """Forget the casts that this thread keeps. Leaving the outermost `tt.autocast` does it."""
    state.casts.clear()


def autocast_increment_nesting() -> int:
    """Count one context more that this thread is in; returns how many."""
    state.nesting += 1
    return state.nesting


def autocast_decrement_nesting() -> int:
    """Count one context less that this thread is in; returns how many."""
    state.nesting -= 1
    return state.nesting
