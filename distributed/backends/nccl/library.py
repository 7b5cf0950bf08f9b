"""Loading of NCCL through CuPy's binding, or of its stand-in on simulated devices."""

from __future__ import annotations

import importlib.util
import warnings
from typing import Any

from ....runtime.cuda.driver import is_simulated

__all__ = ["is_installed", "load"]

_MISSING = (
    "the NCCL backend needs CuPy and NCCL: pip install 'triten[cuda13,nccl13]', or for CUDA 12 "
    "'triten[cuda12,nccl12]'"
)


def is_installed() -> bool:
    """Return True if NCCL is installed or devices are simulated, which needs no NCCL."""
    if is_simulated():
        return importlib.util.find_spec("triton") is not None
    return importlib.util.find_spec("cupy") is not None and bool(_binding().available)


def load() -> Any:
    """Load the module with NCCL's functions: `cupy.cuda.nccl`, or its simulated equivalent.

    Raises:
        ModuleNotFoundError: CuPy is not installed.
        RuntimeError: NCCL is not installed.
    """
    if is_simulated():
        from .simulated import binding

        return binding
    if importlib.util.find_spec("cupy") is None:
        raise ModuleNotFoundError(_MISSING, name="cupy")
    nccl = _binding()
    if not nccl.available:
        raise RuntimeError(_MISSING)
    return nccl


def _binding() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # CuPy says how to install NCCL; so does the error here
        from cupy.cuda import nccl

        return nccl
