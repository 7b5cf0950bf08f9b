"""Synchronization debugging: warnings or errors for each implicit wait (`torch.cuda.set_sync_debug_mode`).

These operations wait: reading values of a device tensor (`item`, `tolist`, `cpu`, printing, results whose shape
depends on values), copies from the host that are not ``non_blocking``, and `Stream.synchronize`. Explicit waits for a
device or an event are not reported. Source: c10/cuda/CUDAFunctions.cpp.
"""

from __future__ import annotations

import warnings

from .driver import driver

MODES = ("default", "warn", "error")

mode = 0
"""Index of the mode in `MODES`."""


def set_sync_debug_mode(debug_mode: int | str) -> None:
    """Report each wait for a device (`torch.cuda.set_sync_debug_mode`).

    Args:
        debug_mode: 0 or ``"default"`` for nothing, 1 or ``"warn"`` for a warning, 2 or ``"error"`` for an error.

    Raises:
        RuntimeError: For any other mode, and without a device.

    Example:
        >>> import triten as tt
        >>> x = tt.ones(2, device="cuda")
        >>> tt.cuda.set_sync_debug_mode("error")
        >>> x.sum().item()
        Traceback (most recent call last):
        RuntimeError: called a synchronizing CUDA operation
        >>> tt.cuda.set_sync_debug_mode("default")
    """
    global mode
    driver()
    if isinstance(debug_mode, str):
        if debug_mode not in MODES:
            raise RuntimeError("invalid value of debug_mode, expected one of `default`, `warn`, `error`")
        mode = MODES.index(debug_mode)
        return
    if debug_mode not in range(len(MODES)):
        raise RuntimeError(f"invalid value of debug_mode, expected one of 0, 1, 2, got {debug_mode!r}")
    mode = int(debug_mode)


def get_sync_debug_mode() -> int:
    """Return the mode of `set_sync_debug_mode`: 0, 1 or 2 (`torch.cuda.get_sync_debug_mode`)."""
    driver()
    return mode


def report() -> None:
    """Warn or raise RuntimeError before a wait, according to the nonzero mode."""
    if MODES[mode] == "error":
        raise RuntimeError("called a synchronizing CUDA operation")
    warnings.warn("called a synchronizing CUDA operation", stacklevel=2)
