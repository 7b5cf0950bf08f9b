"""Autocast state of a thread: enabled backends, their dtypes, and the cache of casts (ATen/autocast_mode.h).

In c10 every tensor carries its Autocast key and each thread excludes it until autocast is on. Here tensors do not carry
it, so that a call outside of autocast has nothing to exclude. A thread's key set includes it while autocast is on, only
for calls of an enabled backend (`local.autocast`, `effective`).

All of this state belongs to the thread. Unlike PyTorch's, the cache of casts is also per thread, and distinguishes
casts to different dtypes.
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
from ....runtime.thread_state import inherited
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
"""Key of a cached cast: the source's id, the dtype, and whether autograd records it."""


class _State(threading.local):
    def __init__(self) -> None:
        self.dtypes = {int(Device(name).backend): dtype for name, dtype in DEFAULT_DTYPES.items()}
        self.cache_enabled = True
        self.nesting = 0
        self.casts: dict[Cast, tuple[weakref.ref[TensorImpl], Any]] = {}
        self.entered: list[tuple[object, bool, ScalarType, bool]] = []


state = inherited(_State())
_has_kernels: set[int] = set()
_ON = object()
"""Entry in `modes`, shared by every thread that has autocast on."""


def backend_of(device_type: str, asked_by: str) -> int:
    """Return the backend of a device type that has autocast.

    Raises TypeError if it is not a string, RuntimeError for an unknown device type and for one without autocast.
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
    """Return True if a device type has autocast (`torch.amp.autocast_mode.is_autocast_available`).

    Args:
        device_type: The type, such as "cuda". "meta" has no autocast.

    Returns:
        A bool.

    Raises:
        TypeError: `device_type` is not a string.
        RuntimeError: The device type is unknown.

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
    """Return True if autocast is on for a device type in this thread (`torch.is_autocast_enabled`).

    Args:
        device_type: The type, such as "cpu".

    Returns:
        A bool.

    Raises:
        TypeError: `device_type` is not a string.
        RuntimeError: The type has no autocast.

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

    `tt.autocast` restores the previous state; this does not.

    Args:
        device_type: The type, such as "cpu"; or a bool alone, which switches CUDA's.
        enabled: If True, switch autocast on.

    Raises:
        TypeError: `device_type` is not a string, or `enabled` is not a bool.
        RuntimeError: The type has no autocast.

    Example:
        >>> import triten as tt
        >>> tt.set_autocast_enabled("cpu", True); tt.mm(tt.ones(1, 1), tt.ones(1, 1)).dtype
        triten.bfloat16
        >>> tt.set_autocast_enabled("cpu", False)
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
    """Run `set_autocast_enabled` for a backend that has autocast."""
    before = local.autocast
    if enabled:
        if backend not in _has_kernels:
            # Registered at first use: few programs use autocast, and registration costs import time.
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
    """Return the 16-bit dtype of autocast for a device type in this thread (`torch.get_autocast_dtype`).

    Args:
        device_type: The type, such as "cpu".

    Returns:
        A dtype: float16 for CUDA, bfloat16 for the CPU, unless `set_autocast_dtype` has set another.

    Raises:
        TypeError: `device_type` is not a string.
        RuntimeError: The type has no autocast.

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
    """Set the 16-bit dtype of autocast for a device type in this thread (`torch.set_autocast_dtype`).

    Args:
        device_type: The type, such as "cuda".
        dtype: The dtype to which operands are converted.

    Raises:
        TypeError: `device_type` is not a string, or `dtype` is not a dtype.
        RuntimeError: The type has no autocast.

    Example:
        >>> import triten as tt
        >>> tt.set_autocast_dtype("cuda", tt.bfloat16); tt.get_autocast_dtype("cuda")
        triten.bfloat16
        >>> tt.set_autocast_dtype("cuda", tt.float16)
    """
    backend = backend_of(device_type, "set_autocast_dtype")
    if not isinstance(dtype, ScalarType):
        raise TypeError(
            f"set_autocast_dtype(): argument 'dtype' (position 2) must be triten.dtype, not {type(dtype).__name__}"
        )
    state.dtypes[backend] = dtype


def is_autocast_cache_enabled() -> bool:
    """Return True if this thread caches casts of parameters for their next use (`torch.is_autocast_cache_enabled`).

    Returns:
        A bool. Leaves in float32 that require grad count as parameters.

    Example:
        >>> import triten as tt
        >>> tt.is_autocast_cache_enabled()
        True
    """
    return state.cache_enabled


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Enable or disable this thread's cache of parameter casts (`torch.set_autocast_cache_enabled`).

    Args:
        enabled: If True, cache casts of parameters.

    Raises:
        TypeError: `enabled` is not a bool.

    Example:
        >>> import triten as tt
        >>> tt.set_autocast_cache_enabled(False); tt.is_autocast_cache_enabled()
        False
        >>> tt.set_autocast_cache_enabled(True)
    """
    if not isinstance(enabled, bool):
        raise TypeError(f"enabled must be a bool (got {type(enabled).__name__})")
    state.cache_enabled = enabled


def clear_autocast_cache() -> None:
    """Clear this thread's cache of casts (`torch.clear_autocast_cache`). Leaving the outermost `tt.autocast` does it.

    Example:
        >>> import triten as tt
        >>> tt.clear_autocast_cache()
    """
    state.casts.clear()


def autocast_increment_nesting() -> int:
    """Increment this thread's autocast nesting level (`torch.autocast_increment_nesting`).

    Returns:
        The new nesting level.

    Example:
        >>> import triten as tt
        >>> tt.autocast_increment_nesting(), tt.autocast_decrement_nesting()
        (1, 0)
    """
    state.nesting += 1
    return state.nesting


def autocast_decrement_nesting() -> int:
    """Decrement this thread's autocast nesting level (`torch.autocast_decrement_nesting`).

    Returns:
        The new nesting level.

    Example:
        >>> import triten as tt
        >>> tt.autocast_increment_nesting(), tt.autocast_decrement_nesting()
        (1, 0)
    """
    state.nesting -= 1
    return state.nesting
