"""Where a program waits for a device: warnings or errors at each such place (`torch.cuda.set_sync_debug_mode`).

What waits: reading values of a device tensor (`item`, `tolist`, `cpu`, printing, results whose shape depends on
values), copies from the host that are not ``non_blocking``, and `Stream.synchronize`. Waiting for a whole device or for
an event is asked for in so many words, and is not reported. Source: c10/cuda/CUDAFunctions.cpp.
"""

from __future__ import annotations

import warnings

from .driver import driver

MODES = ("default", "warn", "error")

mode = 0
"""The place of the mode in `MODES`."""


def set_sync_debug_mode(debug_mode: int | str) -> None:
    """Report each place at which the program waits for a device (`torch.cuda.set_sync_debug_mode`).

    Args:
        debug_mode: 0 or ``"default"`` for nothing, 1 or ``"warn"`` for a warning, 2 or ``"error"`` for an error.

    Raises:
        RuntimeError: for any other mode, and where there is no device.

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
    """What `set_sync_debug_mode` has set: 0, 1 or 2 (`torch.cuda.get_sync_debug_mode`)."""
    driver()
    return mode


def report() -> None:
    """The program is about to wait: warn, or raise RuntimeError, as the mode, which is not 0, says."""
    if MODES[mode] == "error":
        raise RuntimeError("called a synchronizing CUDA operation")
    warnings.warn("called a synchronizing CUDA operation", stacklevel=2)
