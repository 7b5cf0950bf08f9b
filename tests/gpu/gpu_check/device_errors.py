"""Classification of an error: the device can continue or not, or only a library is missing."""

from __future__ import annotations

from triten.runtime.cuda.driver import is_simulated

LOST = frozenset({214, 700, 710, 714, 715, 716, 717, 718, 719, 721})
"""CUDA's codes of a kernel that ran wrong: every later call of the process fails as well."""
TOOLKIT = "cupy-cuda13x[ctk]"
"""What errors tell to install where a library of NVIDIA's is missing."""


def is_fatal(error: BaseException) -> bool:
    """Return True if an error may have destroyed the device's context.

    A simulated device loses it only by a memory error.
    """
    code = getattr(error, "error_code", 0)
    return "illegal memory access" in str(error) or (code in LOST and not is_simulated())


def is_missing_library(error: BaseException) -> bool:
    """Return True if the request needs a library that is not installed."""
    return TOOLKIT in str(error)
